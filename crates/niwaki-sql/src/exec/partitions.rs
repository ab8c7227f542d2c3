//! Changes of a partitioned table: each row finds the partition that it belongs to.

use niwaki_catalog::{Leaf, NoPartition, Partitions, Relation};
use niwaki_storage::Tid;
use niwaki_types::Datum;

use super::conflict::{
    elsewhere, new_version, not_updated, refuse_deferrable, second_time, show_locked,
};
use super::modify::{
    Attempt, Rules, check_bounds, check_rules, failing_row, new_values, returned_from, shown_value,
};
use crate::context::ExecContext;
use crate::error::{Result, SqlError};
use crate::expr::Runtime;
use crate::plan::{ModifyKind, ModifyPlan};
use crate::store::{InsertOutcome, RowOutcome};

/// The partition that a row of a partitioned table lies in, by its `tableoid`; none of any other table.
pub(super) fn leaf_of_row<'r>(relation: &'r Relation, table: &Datum) -> Result<Option<&'r Leaf>> {
    let Some(partitions) = &relation.partitions else { return Ok(None) };
    let number = match table {
        Datum::Oid(oid) => partitions.leaf_of(niwaki_catalog::Oid(*oid)),
        _ => None,
    };
    let leaf = number.and_then(|number| partitions.leaves.get(number));
    leaf.map(Some).ok_or_else(|| SqlError::internal("a row of no partition"))
}

/// As for a table: inserts a row, or tries to change the one that the input found.
pub(super) fn attempt(
    modify: &ModifyPlan,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Attempt> {
    let partitions = modify
        .relation
        .partitions
        .as_deref()
        .ok_or_else(|| SqlError::internal("a table without partitions"))?;
    if modify.kind == ModifyKind::Insert {
        new_values(modify, row, new, rt)?;
        return insert(modify, partitions, row, new, rt).map(Attempt::Over);
    }
    change_found(modify, partitions, row, new, rt)
}

/// The leaf that a new row belongs to.
fn target(
    modify: &ModifyPlan,
    partitions: &Partitions,
    new: &[Datum],
    exec: &ExecContext<'_>,
) -> Result<usize> {
    check_bounds(modify, new, exec)?;
    partitions.route(&modify.relation, new).map_err(|none| no_partition(&none, exec))
}

/// The new row as one of its leaf, with its generated columns, if its constraints admit it.
fn checked(
    modify: &ModifyPlan,
    number: usize,
    leaf: &Leaf,
    new: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Vec<Datum>> {
    let mut own = leaf.columns.forward(new);
    let of_leaf = modify
        .leaves
        .get(number)
        .ok_or_else(|| SqlError::internal("a partition that was not planned for"))?;
    let rules =
        Rules { relation: &leaf.relation, generated: &of_leaf.generated, checks: &of_leaf.checks };
    // A row is shown as the statement sees it.
    let show = |own: &[Datum], exec: &ExecContext<'_>| {
        failing_row(&modify.relation, &leaf.columns.backward(own), exec)
    };
    check_rules(&rules, &mut own, &show, rt)?;
    for (view, condition) in &modify.view_checks {
        let new = leaf.columns.backward(&own);
        if !condition.holds(&new, rt)? {
            let message = format!("new row violates check option for view \"{view}\"");
            let detail = failing_row(&modify.relation, &new, rt.exec);
            return Err(SqlError::new("44000", message).with_detail(detail));
        }
    }
    Ok(own)
}

fn insert(
    modify: &ModifyPlan,
    partitions: &Partitions,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    let number = target(modify, partitions, new, rt.exec)?;
    let leaf = &partitions.leaves[number];
    let own = checked(modify, number, leaf, new, rt)?;
    let Some(conflict) = &modify.conflict else {
        let tid = rt.exec.store.insert(&leaf.relation, &own)?;
        returned_from(modify, leaf, row, &own, tid);
        return Ok(true);
    };
    let arbiters = &modify.leaves[number].arbiters;
    refuse_deferrable(&leaf.relation, arbiters, rt.exec)?;
    let lock = conflict.update.as_ref().map(|update| update.lock);
    let outcome = rt.exec.store.insert_or_lock(&leaf.relation, &own, arbiters, lock)?;
    if let Some(measures) = &mut rt.state.measures {
        measures.count_conflict(!matches!(outcome, InsertOutcome::Inserted(_)));
    }
    match (outcome, &conflict.update) {
        (InsertOutcome::Inserted(tid), _) => {
            returned_from(modify, leaf, row, &own, tid);
            Ok(true)
        }
        (InsertOutcome::OwnCommand, Some(_)) => Err(second_time()),
        (InsertOutcome::Locked { tid, row: old }, Some(action)) => {
            let rows = (leaf.columns.backward(&old), leaf.columns.backward(&own));
            show_locked(modify, action, row, rows, (tid, leaf.relation.oid));
            if !new_version(modify, action, row, new, rt)? {
                return Ok(false);
            }
            if !target(modify, partitions, new, rt.exec).is_ok_and(|to| to == number) {
                return Err(elsewhere());
            }
            let own = checked(modify, number, leaf, new, rt)?;
            match rt.exec.store.update(&leaf.relation, tid, &old, &own)? {
                RowOutcome::Done(root) => {
                    returned_from(modify, leaf, row, &own, root);
                    Ok(true)
                }
                outcome => Err(not_updated(&outcome, rt)),
            }
        }
        _ => Ok(false),
    }
}

/// UPDATE and DELETE.
fn change_found(
    modify: &ModifyPlan,
    partitions: &Partitions,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Attempt> {
    let width = modify.relation.columns.len();
    let start = modify.start;
    let Datum::Tid(block, offset) = row[start + width] else {
        return Err(SqlError::internal("a row to be changed has no address"));
    };
    let tid = Tid::new(block, offset);
    let Some(leaf) = leaf_of_row(&modify.relation, &row[start + width + 1])? else {
        return Err(SqlError::internal("a row to be changed is of no partition"));
    };
    let old = leaf.columns.forward(&row[start..start + width]);
    if modify.kind == ModifyKind::Delete {
        return Ok(match rt.exec.store.delete(&leaf.relation, tid, &old)? {
            RowOutcome::Done(_) => Attempt::Over(true),
            other => Attempt::Met(other),
        });
    }
    new_values(modify, row, new, rt)?;
    let to = target(modify, partitions, new, rt.exec);
    if let Ok(number) = to
        && partitions.leaves[number].relation.oid == leaf.relation.oid
    {
        let own = checked(modify, number, leaf, new, rt)?;
        return Ok(match rt.exec.store.update(&leaf.relation, tid, &old, &own)? {
            RowOutcome::Done(root) => {
                returned_from(modify, leaf, row, &own, root);
                Attempt::Over(true)
            }
            other => Attempt::Met(other),
        });
    }
    refuse_referenced(&leaf.relation, rt.exec)?;
    match rt.exec.store.delete_moved(&leaf.relation, tid, &old)? {
        RowOutcome::Done(_) => {}
        other => return Ok(Attempt::Met(other)),
    }
    // Whether it has a place at all is asked of the newest version alone.
    let number = to?;
    let to = &partitions.leaves[number];
    let own = checked(modify, number, to, new, rt)?;
    let tid = rt.exec.store.insert(&to.relation, &own)?;
    returned_from(modify, to, row, &own, tid);
    Ok(Attempt::Over(true))
}

/// A row that others refer to cannot go to another table: 0A000.
fn refuse_referenced(table: &Relation, exec: &ExecContext<'_>) -> Result<()> {
    if exec.catalog.foreign_keys_to(table.oid).is_empty() {
        return Ok(());
    }
    Err(SqlError::new(
        "0A000",
        "cannot move tuple across partitions when a non-root ancestor of the source partition is \
         directly referenced in a foreign key",
    ))
}

/// 23514 for a row that no partition takes.
#[cold]
fn no_partition(none: &NoPartition<'_>, exec: &ExecContext<'_>) -> SqlError {
    let table = none.table;
    let message = format!("no partition of relation \"{}\" found for row", table.name);
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for column in table.partition_key.iter().flat_map(|key| &key.columns) {
        let column = usize::from(*column);
        let (Some(definition), Some(value)) = (table.columns.get(column), none.row.get(column))
        else {
            continue;
        };
        names.push(niwaki_types::quote_identifier(&definition.name));
        values.push(shown_value(value, definition.column_type().oid, exec));
    }
    let (names, values) = (names.join(", "), values.join(", "));
    SqlError::new("23514", message)
        .with_detail(format!("Partition key of the failing row contains ({names}) = ({values})."))
        .with_table(super::modify::schema_name(table, exec), table.name.clone())
}
