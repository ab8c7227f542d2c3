//! Constraints in `pg_constraint`.

use niwaki_catalog::{
    CatalogState, ConstraintKind, ConstraintTime, ForeignKey, IndexColumn, NumberedConstraint, Oid,
    Relation, TableConstraint, builtin_rows,
};
use niwaki_types::{Datum, TypeOid};

use crate::information::domains;
use crate::names::columns_read;
use crate::pg_class::relations::{operator_class, wanted};
use crate::system_relation::{Computed, Emit, Reader, Result, array, int4, number, small, text};

pub(crate) const PG_CONSTRAINT: Computed = Computed {
    name: "pg_constraint",
    columns: &[
        "oid",
        "conname",
        "connamespace",
        "contype",
        "condeferrable",
        "condeferred",
        "convalidated",
        "conrelid",
        "contypid",
        "conindid",
        "confrelid",
        "confupdtype",
        "confdeltype",
        "confmatchtype",
        "conparentid",
        "conislocal",
        "coninhcount",
        "connoinherit",
        "conkey",
        "confkey",
        "conpfeqop",
        "conppeqop",
        "conffeqop",
        "confdelsetcols",
        "conbin",
    ],
    keys: &["oid", "conrelid", "contypid"],
    rows: pg_constraint,
};

/// Returns the constraints that a reader wants.
pub(crate) fn constraints<'r>(
    reader: &Reader<'r>,
    oid: &str,
    table: &str,
) -> Vec<NumberedConstraint<'r>> {
    let state = reader.state;
    if let Some(number) = reader.wanted_oid(oid) {
        return state.constraint(Oid(number)).into_iter().collect();
    }
    let tables = wanted(reader, table, None);
    tables.into_iter().flat_map(|relation| state.constraints_of(relation)).collect()
}

/// Returns the numbers of a constraint's columns, in its order.
pub(crate) fn constraint_columns(constraint: &NumberedConstraint<'_>) -> Vec<usize> {
    match constraint.constraint {
        TableConstraint::Index(index) => {
            let keys = index.index.iter().flat_map(|index| &index.key);
            keys.map(|key| usize::from(key.column) + 1).collect()
        }
        TableConstraint::Check(check) => columns_read(constraint.table, &check.expression),
        TableConstraint::ForeignKey(key) => numbers_of(&key.columns).collect(),
    }
}

/// Converts positions of columns to their numbers, which begin at 1.
pub(crate) fn numbers_of(columns: &[u16]) -> impl Iterator<Item = usize> {
    columns.iter().map(|column| usize::from(*column) + 1)
}

/// Returns the constraint's `pg_constraint.contype`.
pub(crate) fn constraint_letter(constraint: &NumberedConstraint<'_>) -> &'static str {
    match constraint.constraint {
        TableConstraint::Check(_) => "c",
        TableConstraint::ForeignKey(_) => "f",
        TableConstraint::Index(index) => {
            let kind = index.index.as_ref().and_then(|index| index.constraint);
            if kind == Some(ConstraintKind::PrimaryKey) { "p" } else { "u" }
        }
    }
}

/// Strategy number of equality in B-tree operator classes.
const EQUAL: &str = "3";

/// Returns the operator of an operator family that compares values of two types for equality.
fn equality(family: u32, left: TypeOid, right: TypeOid) -> Option<u32> {
    let rows = builtin_rows("pg_amop")?;
    let place = |name: &str| rows.columns().iter().position(|column| *column == name);
    let operator = place("amopopr")?;
    let wanted = [
        (place("amopfamily")?, family.to_string()),
        (place("amoplefttype")?, left.0.to_string()),
        (place("amoprighttype")?, right.0.to_string()),
        (place("amopstrategy")?, EQUAL.to_owned()),
    ];
    rows.rows().find_map(|row| {
        let row: Vec<Option<&str>> = row.collect();
        let cell = |at: usize| row.get(at).copied().flatten();
        let found = wanted.iter().all(|(at, value)| cell(*at) == Some(value));
        found.then(|| cell(operator)?.parse().ok()).flatten()
    })
}

/// Returns the operators that compare a referenced column with a referencing one, with itself, and
/// the referencing one with itself. The index may have no operator for the type of the referencing
/// column. Its values are then converted to the type that the index compares.
fn operators(key: &IndexColumn, referenced: TypeOid, referencing: TypeOid) -> [u32; 3] {
    let Some(class) = operator_class(key, referenced) else { return [0; 3] };
    let own = TypeOid(class.input);
    let find = |left, right| equality(class.family, left, right);
    let same = find(own, own).unwrap_or(0);
    match (find(own, referencing), find(referencing, referencing)) {
        (Some(across), Some(referencing)) => [across, same, referencing],
        _ => [same; 3],
    }
}

/// Returns [`operators`] of each pair of columns of a foreign key.
fn operators_of(state: &CatalogState, table: &Relation, key: &ForeignKey) -> Vec<[u32; 3]> {
    let kind = |relation: Option<&Relation>, column: u16| {
        let column = relation.and_then(|relation| relation.columns.get(usize::from(column)));
        column.map_or(TypeOid::UNKNOWN, |column| TypeOid(column.type_oid))
    };
    let target = state.relation(key.references).map(|relation| &**relation);
    let index = state.relation(key.index).and_then(|index| index.index.as_ref());
    let pairs = key.columns.iter().zip(&key.referenced);
    pairs
        .map(|(referencing, referenced)| {
            let entry = index.and_then(|index| index.key.iter().find(|k| k.column == *referenced));
            entry.map_or([0; 3], |entry| {
                operators(entry, kind(target, *referenced), kind(Some(table), *referencing))
            })
        })
        .collect()
}

/// Returns the constraint of the partitioned table that created this constraint of a partition.
pub(crate) fn part_of(state: &CatalogState, constraint: &NumberedConstraint<'_>) -> Option<Oid> {
    let index = match constraint.constraint {
        TableConstraint::Index(index) => index,
        TableConstraint::ForeignKey(key) => return key.part_of,
        TableConstraint::Check(_) => return None,
    };
    // A constraint has the number of its index.
    let parent = index.index.as_ref().and_then(|index| index.part_of)?;
    let holds = state.relation(parent)?.index.as_ref().is_some_and(|it| it.constraint.is_some());
    holds.then_some(parent)
}

/// Decides whether the partitioned table has this check of a partition too. Checks are matched by
/// name, as PostgreSQL merges them.
fn is_check_of_parent(state: &CatalogState, constraint: &NumberedConstraint<'_>) -> bool {
    let TableConstraint::Check(check) = constraint.constraint else { return false };
    let parent = constraint.table.partition_of.as_ref().and_then(|of| state.relation(of.parent));
    parent.is_some_and(|parent| parent.checks.iter().any(|its| its.name == check.name))
}

/// Builds an array of column numbers; NULL if there are no columns.
fn column_numbers(columns: impl Iterator<Item = usize>) -> Datum {
    let columns: Vec<Datum> = columns.map(small).collect();
    if columns.is_empty() { Datum::Null } else { array(TypeOid::INT2, columns) }
}

fn pg_constraint(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let of_tables = match reader.wanted_oid("contypid") {
        Some(domain) if domain != 0 => Vec::new(),
        _ => constraints(reader, "oid", "conrelid"),
    };
    for found in of_tables {
        let (mut index, mut expression, mut foreign) = (Oid(0), Datum::Null, None);
        match found.constraint {
            TableConstraint::Index(relation) => index = relation.oid,
            TableConstraint::Check(check) => expression = text(&check.expression),
            TableConstraint::ForeignKey(key) => {
                index = key.index;
                foreign = Some(key);
            }
        }
        let part_of = part_of(reader.state, &found);
        let inherited = part_of.is_some() || is_check_of_parent(reader.state, &found);
        let time = found.check_time();
        let operators = foreign.map(|key| operators_of(reader.state, found.table, key));
        let operators = |which: fn(&[u32; 3]) -> u32| match &operators {
            Some(all) => array(TypeOid::OID, all.iter().map(which).map(Datum::Oid)),
            None => Datum::Null,
        };
        let foreign_columns = |columns: fn(&ForeignKey) -> &[u16]| {
            column_numbers(foreign.into_iter().flat_map(|key| numbers_of(columns(key))))
        };
        emit(&[
            number(found.oid),
            text(found.name()),
            number(found.table.schema),
            text(constraint_letter(&found)),
            Datum::Bool(time != ConstraintTime::AtOnce),
            Datum::Bool(time == ConstraintTime::Transaction),
            Datum::Bool(found.is_validated()),
            number(found.table.oid),
            Datum::Oid(0),
            number(index),
            number(foreign.map_or(Oid(0), |key| key.references)),
            text(foreign.map_or(" ", |key| key.on_update.letter())),
            text(foreign.map_or(" ", |key| key.on_delete.letter())),
            text(foreign.map_or(" ", |key| if key.match_full { "f" } else { "s" })),
            number(part_of.unwrap_or(Oid(0))),
            Datum::Bool(!inherited),
            int4(inherited.into()),
            Datum::Bool(match found.constraint {
                TableConstraint::Check(check) => check.no_inherit,
                TableConstraint::ForeignKey(_) => {
                    part_of.is_none() && !found.table.is_partitioned()
                }
                TableConstraint::Index(_) => index.0 != 0 && part_of.is_none(),
            }),
            column_numbers(constraint_columns(&found).into_iter()),
            foreign_columns(|key| &key.referenced),
            operators(|all| all[0]),
            operators(|all| all[1]),
            operators(|all| all[2]),
            foreign_columns(|key| &key.set_columns),
            expression,
        ])?;
    }
    for (oid, definition, check) in domains::checks(reader) {
        let [schema, domain] = domains::numbers(definition);
        let none = || text(" ");
        emit(&[
            number(oid),
            text(&check.name),
            schema,
            text("c"),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(!check.not_valid),
            Datum::Oid(0),
            domain,
            Datum::Oid(0),
            Datum::Oid(0),
            none(),
            none(),
            none(),
            Datum::Oid(0),
            Datum::Bool(true),
            int4(0),
            Datum::Bool(false),
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            text(&check.expression),
        ])?;
    }
    Ok(())
}
