//! INSERT … ON CONFLICT, row by row. The store inserts the row, or locks the conflicting row, which
//! this module then updates.

use niwaki_catalog::{ConstraintTime, Oid, Relation, TriggerEvent};
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::Runtime;
use niwaki_expr::plan::ModifyPlan;
use niwaki_expr::query::{ConflictPlan, ConflictUpdate};
use niwaki_expr::store::{ConflictOutcome, JudgedRow, RowOutcome};
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::Tid;
use niwaki_types::Datum;

use crate::change::modify::{
    assigned_values, changed_inside, check_bounds, check_row, returned, schema_name,
};
use crate::change::trigger::FireTriggers;

/// Inserts the row in `new`, or does what ON CONFLICT says.
/// Returns false when the statement inserted or changed nothing.
/// Afterwards the target's slots hold the current row, if the statement returns something.
pub(crate) fn upsert(
    modify: &ModifyPlan,
    conflict: &ConflictPlan,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    refuse_deferrable(&modify.relation, &conflict.arbiters, rt.exec)?;
    let lock = conflict.update.as_ref().map(|update| update.lock);
    let store = &mut *rt.exec.store;
    let outcome = store.insert_or_lock(&modify.relation, new, &conflict.arbiters, lock)?;
    if let Some(measures) = &mut rt.state.measures {
        measures.count_conflict(!matches!(outcome, ConflictOutcome::Inserted(_)));
    }
    match (outcome, &conflict.update) {
        (ConflictOutcome::Inserted(tid), _) => {
            if let Some(triggers) = &modify.triggers {
                triggers.after(TriggerEvent::Insert, None, Some(new.as_slice()), rt)?;
            }
            returned(modify, row, new, tid);
            Ok(true)
        }
        (ConflictOutcome::OwnCommand, Some(_)) => Err(second_time()),
        (ConflictOutcome::Locked { judged, row: old }, Some(action)) => {
            let excluded = std::mem::take(new);
            show_locked(modify, action, row, (old, excluded), (judged.tid(), modify.relation.oid));
            update(modify, action, judged, row, new, rt)
        }
        _ => Ok(false),
    }
}

/// Makes error 21000 for a row that the statement itself has made or changed.
pub(crate) fn second_time() -> SqlError {
    SqlError::new("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time")
        .with_hint(
            "Ensure that no rows proposed for insertion within the same command have duplicate \
         constrained values.",
        )
}

/// Puts the conflicting row into the target's slots, as a row of table `oid` at `tid`.
/// Puts the row that could not be inserted into the slots of `excluded`.
pub(crate) fn show_locked(
    modify: &ModifyPlan,
    action: &ConflictUpdate,
    row: &mut [Datum],
    (old, excluded): (Vec<Datum>, Vec<Datum>),
    (tid, oid): (Tid, Oid),
) {
    for (slot, value) in old.into_iter().enumerate() {
        row[modify.start + slot] = value;
    }
    let ctid = modify.start + modify.relation.columns.len();
    row[ctid] = Datum::Tid(tid.block.0, tid.offset.0);
    row[ctid + 1] = Datum::Oid(oid.0);
    for (slot, value) in excluded.into_iter().enumerate() {
        row[action.excluded + slot] = value;
    }
}

/// Computes the new version of the row in the target's slots; returns false if the condition does
/// not hold.
pub(crate) fn new_version(
    modify: &ModifyPlan,
    action: &ConflictUpdate,
    row: &[Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    if let Some(condition) = &action.condition
        && !condition.holds(row, rt)?
    {
        if let Some(measures) = &mut rt.state.measures {
            measures.conflicts.filtered += 1;
        }
        return Ok(false);
    }
    assigned_values(&action.values, modify.start, row, new, rt)?;
    Ok(true)
}

/// Updates the row in the target's slots if the condition holds. `judged` is its locked version.
fn update(
    modify: &ModifyPlan,
    action: &ConflictUpdate,
    judged: JudgedRow,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    if !new_version(modify, action, row, new, rt)? {
        return Ok(false);
    }
    let old = &row[modify.start..modify.start + modify.relation.columns.len()];
    if let Some(triggers) = &modify.triggers
        && !triggers.before(TriggerEvent::Update, Some(old), Some(&mut *new), rt)?
    {
        return Ok(false);
    }
    check_bounds(modify, new, rt.exec).map_err(|_| elsewhere())?;
    check_row(modify, new, true, rt)?;
    match rt.exec.store.update(&modify.relation, judged, old, new)? {
        RowOutcome::Done(root) => {
            if let Some(triggers) = &modify.triggers {
                triggers.after(TriggerEvent::Update, Some(old), Some(new.as_slice()), rt)?;
            }
            returned(modify, row, new, root);
            Ok(true)
        }
        outcome => Err(not_updated(&outcome, rt)),
    }
}

/// Makes the error for a locked row that could not be updated.
pub(crate) fn not_updated(outcome: &RowOutcome, rt: &Runtime<'_, '_>) -> SqlError {
    match outcome {
        RowOutcome::SelfModified if rt.state.nested_changes => changed_inside(true),
        outcome => SqlError::internal(format!("a locked row cannot be updated: {outcome:?}")),
    }
}

/// Makes error 0A000 for a row whose new version belongs to another partition.
pub(crate) fn elsewhere() -> SqlError {
    SqlError::new("0A000", "invalid ON UPDATE specification").with_detail(
        "The result tuple would appear in a different partition than the original tuple.",
    )
}

/// Refuses deferrable arbiter constraints: ON CONFLICT needs to know at once whether two rows have
/// the same key.
pub(crate) fn refuse_deferrable(
    relation: &Relation,
    arbiters: &[usize],
    exec: &ExecContext<'_>,
) -> Result<()> {
    let mut arbiters = arbiters.iter().map(|index| &relation.indexes[*index]);
    match arbiters.find(|index| index.definition.check_time != ConstraintTime::AtOnce) {
        None => Ok(()),
        Some(index) => Err(SqlError::new(
            "55000",
            "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as \
             arbiters",
        )
        .with_table(schema_name(relation, exec), relation.name.clone())
        .with_constraint(&index.name)),
    }
}
