//! Partitions and their parents: `pg_inherits`, `pg_partitioned_table`.

use niwaki_catalog::{IndexColumn, Oid};
use niwaki_types::{Datum, TypeOid};

use crate::pg_class::relations::{operator_class, wanted};
use crate::system_relation::{Computed, Emit, Reader, Result, int4, number, small, text, vector};

pub(crate) const PG_INHERITS: Computed = Computed {
    name: "pg_inherits",
    columns: &["inhrelid", "inhparent", "inhseqno", "inhdetachpending"],
    keys: &["inhrelid"],
    rows: pg_inherits,
};

fn pg_inherits(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for relation in wanted(reader, "inhrelid", None) {
        let table = relation.partition_of.as_ref().map(|of| of.parent);
        let index = relation.index.as_ref().and_then(|index| index.part_of);
        if let Some(parent) = table.or(index) {
            emit(&[number(relation.oid), number(parent), int4(1), Datum::Bool(false)])?;
        }
    }
    Ok(())
}

pub(crate) const PG_PARTITIONED_TABLE: Computed = Computed {
    name: "pg_partitioned_table",
    columns: &[
        "partrelid",
        "partstrat",
        "partnatts",
        "partdefid",
        "partattrs",
        "partclass",
        "partcollation",
    ],
    keys: &["partrelid"],
    rows: pg_partitioned_table,
};

fn pg_partitioned_table(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for table in wanted(reader, "partrelid", None) {
        let (Some(key), Some(partitions)) = (&table.partition_key, &table.partitions) else {
            continue;
        };
        let default = partitions.default_member().and_then(|at| partitions.members.get(at));
        let kinds: Vec<TypeOid> = partitions.orders().iter().map(|order| order.oid).collect();
        let columns = key.columns.iter().map(|c| Datum::Int2(c.wrapping_add(1).cast_signed()));
        let classes = key.columns.iter().zip(&kinds).map(|(column, kind)| {
            let class = operator_class(&IndexColumn::ascending(*column), *kind);
            Datum::Oid(class.map_or(0, |class| class.oid))
        });
        let collations = key.columns.iter().enumerate().map(|(at, column)| {
            let given = key.collations.get(at).copied().flatten();
            let column = table.columns.get(usize::from(*column));
            let of_column = || column.and_then(|column| reader.state.column_collation(column));
            Datum::Oid(given.or_else(of_column).map_or(0, |collation| collation.0))
        });
        emit(&[
            number(table.oid),
            text(key.strategy.letter()),
            small(key.columns.len()),
            number(default.map_or(Oid(0), |default| default.relation.oid)),
            vector(TypeOid::INT2, columns),
            vector(TypeOid::OID, classes),
            vector(TypeOid::OID, collations),
        ])?;
    }
    Ok(())
}
