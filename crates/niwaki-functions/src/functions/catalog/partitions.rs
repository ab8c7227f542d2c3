//! Functions on partitioned tables: `pg_partition_tree`, `pg_get_partkeydef`, ….

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation, partition_key_text};
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::functions::catalog::partition_constraint::definition;
use crate::functions::{EmitRow, Function, RowsFunction, T, functions};

/// Returns the relation that an argument names, if it exists.
pub(crate) fn named<'c>(
    catalog: &'c CatalogState,
    values: &[Datum],
) -> Result<Option<&'c Arc<Relation>>> {
    let [Datum::Oid(number)] = values else {
        return Err(SqlError::internal("a partition function was given values of other types"));
    };
    Ok(catalog.relation(Oid(*number)))
}

/// Returns the parent of a partition, or of an index on a partition.
fn above(relation: &Relation) -> Option<Oid> {
    let index = || relation.index.as_ref().and_then(|index| index.part_of);
    relation.partition_of.as_ref().map(|of| of.parent).or_else(index)
}

/// Returns true if the relation has partitions or is one.
fn is_in_tree(relation: &Relation) -> bool {
    matches!(relation.letter(), "p" | "I") || above(relation).is_some()
}

/// Returns a relation and its ancestors, from the bottom up.
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
    // One level after the other, each in the order of object numbers.
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

pub(crate) static FUNCTIONS: &[Function] = functions![
    "pg_partition_ancestors" (REGCLASS) REGCLASS strict single volatile Set(partition_ancestors);
    "pg_partition_root" (REGCLASS) REGCLASS strict single stable Context(partition_root);
    "pg_partition_tree" (REGCLASS) RECORD strict single volatile Rows(&TREE);
    "pg_get_partkeydef" (OID) TEXT strict single stable Context(key_definition);
    "pg_get_partition_constraintdef" (OID) TEXT strict single stable Context(definition);
];
