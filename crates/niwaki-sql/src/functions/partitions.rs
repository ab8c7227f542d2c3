//! Functions on partitioned tables: `pg_partition_tree`, `pg_get_partkeydef`, ….

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, PartitionBound, RangeValue, Relation, partition_key_text};
use niwaki_types::{Datum, quote_identifier};

use super::{EmitRow, Function, RowsFunction, T, functions, quote_string};
use crate::context::ExecContext;
use crate::error::{Result, SqlError};
use crate::types::format_type;

/// The relation that an argument names, if it is there.
fn named<'c>(catalog: &'c CatalogState, values: &[Datum]) -> Result<Option<&'c Arc<Relation>>> {
    let [Datum::Oid(number)] = values else {
        return Err(SqlError::internal("a partition function was given values of other types"));
    };
    Ok(catalog.relation(Oid(*number)))
}

/// What a table, or an index, is a part of.
fn above(relation: &Relation) -> Option<Oid> {
    let index = || relation.index.as_ref().and_then(|index| index.part_of);
    relation.partition_of.as_ref().map(|of| of.parent).or_else(index)
}

/// Whether it has partitions, or is one.
fn is_in_tree(relation: &Relation) -> bool {
    matches!(relation.letter(), "p" | "I") || above(relation).is_some()
}

/// A relation, then what it is a part of, from the bottom up.
fn ancestors(catalog: &CatalogState, relation: &Arc<Relation>) -> Vec<Oid> {
    let mut found = vec![relation.oid];
    let mut at = above(relation);
    // Ends: nothing is a part of itself.
    while let Some(oid) = at {
        found.push(oid);
        at = catalog.relation(oid).and_then(|relation| above(relation));
    }
    found
}

fn partition_ancestors(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let found = named(exec.catalog, values)?.filter(|relation| is_in_tree(relation));
    let all = found.map_or_else(Vec::new, |relation| ancestors(exec.catalog, relation));
    Ok(all.into_iter().map(|oid| Datum::Oid(oid.0)).collect())
}

fn partition_root(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let found = named(exec.catalog, values)?.filter(|relation| is_in_tree(relation));
    let root = found.and_then(|relation| ancestors(exec.catalog, relation).pop());
    Ok(root.map_or(Datum::Null, |oid| Datum::Oid(oid.0)))
}

static TREE: RowsFunction = RowsFunction {
    columns: &[
        ("relid", T::REGCLASS),
        ("parentrelid", T::REGCLASS),
        ("isleaf", T::BOOL),
        ("level", T::INT4),
    ],
    body: partition_tree,
};

fn partition_tree(exec: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let Some(root) = named(exec.catalog, values)?.filter(|relation| is_in_tree(relation)) else {
        return Ok(());
    };
    // One level after the other, each in the order of numbers.
    let mut level = vec![Arc::clone(root)];
    let mut depth = 0;
    while !level.is_empty() {
        let mut below = Vec::new();
        for relation in &level {
            let parent = above(relation).map_or(Datum::Null, |oid| Datum::Oid(oid.0));
            let leaf = !matches!(relation.letter(), "p" | "I");
            emit(vec![Datum::Oid(relation.oid.0), parent, Datum::Bool(leaf), Datum::Int4(depth)])?;
            let is_below = |other: &&Arc<Relation>| above(other) == Some(relation.oid);
            let mut found: Vec<Arc<Relation>> =
                exec.catalog.relations().filter(is_below).cloned().collect();
            found.sort_by_key(|other| other.oid);
            below.extend(found);
        }
        level = below;
        depth += 1;
    }
    Ok(())
}

/// `pg_get_partkeydef(table)`
fn key_definition(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let found = named(exec.catalog, values)?;
    let text = found.and_then(|relation| partition_key_text(&relation.definition));
    Ok(text.map_or(Datum::Null, |text| Datum::Text(text.into())))
}

/// `pg_get_partition_constraintdef(table)`
fn constraint_definition(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some(relation) = named(exec.catalog, values)? else { return Ok(Datum::Null) };
    let mut parts = Vec::new();
    let mut inner = relation;
    while let Some(of) = &inner.partition_of {
        let parent = exec.catalog.relation(of.parent);
        let parent = parent.ok_or_else(|| SqlError::internal("a partition of no table"))?;
        parts.splice(0..0, conditions(parent, &of.bound)?);
        inner = parent;
    }
    if parts.is_empty() {
        return Ok(Datum::Null);
    }
    let text = parts.join(" AND ");
    let shown = crate::shown::show(&text, Some(relation), None, exec.catalog, exec.path, false)?;
    Ok(Datum::Text(shown.into()))
}

/// What a bound says of rows, as conditions on the column of the key.
fn conditions(parent: &Relation, bound: &PartitionBound) -> Result<Vec<String>> {
    let columns = parent.partition_key.as_ref().map_or(&[][..], |key| &key.columns);
    let column = match columns {
        [column] => parent.columns.get(usize::from(*column)),
        _ => None,
    };
    let refused = || {
        let what =
            "pg_get_partition_constraintdef of a default or hash partition, or by several columns";
        SqlError::unsupported(what)
    };
    let column = column.ok_or_else(refused)?;
    let name = quote_identifier(&column.name);
    let kind = format_type(column.column_type());
    let constant = |text: &str| format!("{}::{kind}", quote_string(text));
    let not_null = format!("{name} IS NOT NULL");
    Ok(match bound {
        PartitionBound::List(values) => {
            let given: Vec<String> = values.iter().flatten().map(|text| constant(text)).collect();
            let listed = match given.as_slice() {
                [] => return Ok(vec![format!("{name} IS NULL")]),
                [one] => format!("{name} = {one}"),
                all => format!("{name} = ANY (ARRAY[{}])", all.join(", ")),
            };
            match values.contains(&None) {
                true => vec![format!("({name} IS NULL OR {listed})")],
                false => vec![not_null, listed],
            }
        }
        PartitionBound::Range { from, to } => {
            let mut parts = vec![not_null];
            for (side, operator) in [(from, ">="), (to, "<")] {
                if let [RangeValue::Value(text)] = side.as_slice() {
                    parts.push(format!("{name} {operator} {}", constant(text)));
                }
            }
            parts
        }
        PartitionBound::Default | PartitionBound::Hash { .. } => return Err(refused()),
    })
}

pub(super) static FUNCTIONS: &[Function] = functions![
    "pg_partition_ancestors" (REGCLASS) REGCLASS strict single volatile Set(partition_ancestors);
    "pg_partition_root" (REGCLASS) REGCLASS strict single immutable Context(partition_root);
    "pg_partition_tree" (REGCLASS) RECORD strict single volatile Rows(&TREE);
    "pg_get_partkeydef" (OID) TEXT strict single stable Context(key_definition);
    "pg_get_partition_constraintdef" (OID) TEXT strict single stable Context(constraint_definition);
];
