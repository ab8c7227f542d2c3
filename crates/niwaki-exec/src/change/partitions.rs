//! Changes of a partitioned table: finds the partition that each row belongs to.

use std::sync::Arc;

use niwaki_catalog::{Leaf, NoPartition, Oid, Partitions, Relation, TriggerEvent};
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::Runtime;
use niwaki_expr::plan::ModifyPlan;
use niwaki_expr::query::{LeafRules, ModifyKind, RowTriggers, TriggerCall};
use niwaki_expr::store::{ConflictOutcome, JudgedRow, RowOutcome};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::change::conflict::{
    elsewhere, new_version, not_updated, refuse_deferrable, second_time, show_locked,
};
use crate::change::modify::{
    Attempt, Rules, check_bounds, check_rules, failing_row, judged_row, lock_for_triggers,
    new_values, returned_from, schema_name, shown_value,
};
use crate::change::trigger::FireTriggers;

/// Returns the partition of a row by the row's `tableoid`. Returns `None` if the table is not
/// partitioned.
pub(crate) fn leaf_of_row<'r>(relation: &'r Relation, table: &Datum) -> Result<Option<&'r Leaf>> {
    let Some(partitions) = &relation.partitions else { return Ok(None) };
    let number = match table {
        Datum::Oid(oid) => partitions.leaf_of(Oid(*oid)),
        _ => None,
    };
    let leaf = number.and_then(|number| partitions.leaves.get(number));
    leaf.map(Some).ok_or_else(|| SqlError::internal("a row of no partition"))
}

/// Inserts a row, or tries to change the row that the input found, as for a plain table.
pub(crate) fn attempt(
    modify: &ModifyPlan,
    newest: Option<JudgedRow>,
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
    change_found(modify, partitions, newest, row, new, rt)
}

/// Returns the number of the leaf that a new row belongs to.
fn target(
    modify: &ModifyPlan,
    partitions: &Partitions,
    new: &[Datum],
    exec: &ExecContext<'_>,
) -> Result<usize> {
    check_bounds(modify, new, exec)?;
    partitions.route(&modify.relation, new).map_err(|none| no_partition(&none, exec))
}

/// A leaf, with the rules that the plan has for it.
#[derive(Clone, Copy)]
struct Place<'m> {
    number: usize,
    leaf: &'m Leaf,
    rules: &'m LeafRules,
}

impl<'m> Place<'m> {
    fn of(modify: &'m ModifyPlan, partitions: &'m Partitions, number: usize) -> Result<Self> {
        let (leaf, rules) = (partitions.leaves.get(number), modify.leaves.get(number));
        match (leaf, rules) {
            (Some(leaf), Some(rules)) => Ok(Self { number, leaf, rules }),
            _ => Err(SqlError::internal("a partition that was not planned for")),
        }
    }

    fn triggers(self) -> Option<&'m Arc<RowTriggers>> {
        self.rules.triggers.as_ref()
    }

    /// Fires the triggers before a row of the leaf is inserted. Returns false if a trigger skips
    /// the row.
    fn before_insert(
        self,
        modify: &ModifyPlan,
        partitions: &Partitions,
        own: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let Some(triggers) = self.triggers() else { return Ok(true) };
        let look = |call: &TriggerCall, own: &[Datum], exec: &ExecContext<'_>| {
            let fits = || {
                let to = partitions.route(&modify.relation, &self.leaf.columns.backward(own));
                to.is_ok_and(|number| number == self.number)
            };
            if fits() {
                return Ok(());
            }
            let table = &self.leaf.relation;
            if !call.is_part {
                return Err(outside(modify, self.leaf, own, exec));
            }
            let message = "moving row to another partition during a BEFORE FOR EACH ROW trigger is not supported";
            Err(SqlError::new("0A000", message).with_detail(format!(
                "Before executing trigger \"{}\", the row was to be in partition \"{}.{}\".",
                call.name,
                schema_name(table, exec),
                table.name
            )))
        };
        triggers.before_each(TriggerEvent::Insert, None, Some(own), &look, rt)
    }

    /// Returns the leaf's new row with its generated columns, if the leaf's constraints admit the
    /// row.
    fn checked(
        self,
        modify: &ModifyPlan,
        mut own: Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Vec<Datum>> {
        let Self { leaf, rules, .. } = self;
        let (generated, checks) = (&*rules.generated, &*rules.checks);
        let rules = Rules { relation: &leaf.relation, generated, checks };
        // The error shows the row in the layout of the statement's table.
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

    fn after(
        self,
        event: TriggerEvent,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        match self.triggers() {
            Some(triggers) => triggers.after(event, old, new, rt),
            None => Ok(()),
        }
    }
}

/// Makes error 23514 for a row that a trigger has moved to another partition.
fn outside(modify: &ModifyPlan, leaf: &Leaf, own: &[Datum], exec: &ExecContext<'_>) -> SqlError {
    let table = &leaf.relation;
    let message = format!("new row for relation \"{}\" violates partition constraint", table.name);
    SqlError::new("23514", message)
        .with_detail(failing_row(&modify.relation, &leaf.columns.backward(own), exec))
        .with_table(schema_name(table, exec), table.name.clone())
}

fn insert(
    modify: &ModifyPlan,
    partitions: &Partitions,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    let number = target(modify, partitions, new, rt.exec)?;
    let place = Place::of(modify, partitions, number)?;
    let leaf = place.leaf;
    let mut own = leaf.columns.forward(new);
    if !place.before_insert(modify, partitions, &mut own, rt)? {
        return Ok(false);
    }
    let own = place.checked(modify, own, rt)?;
    let Some(conflict) = &modify.conflict else {
        let tid = rt.exec.store.insert(&leaf.relation, &own)?;
        place.after(TriggerEvent::Insert, None, Some(&own), rt)?;
        returned_from(modify, leaf, row, &own, tid);
        return Ok(true);
    };
    let arbiters = &place.rules.arbiters;
    refuse_deferrable(&leaf.relation, arbiters, rt.exec)?;
    let lock = conflict.update.as_ref().map(|update| update.lock);
    let outcome = rt.exec.store.insert_or_lock(&leaf.relation, &own, arbiters, lock)?;
    if let Some(measures) = &mut rt.state.measures {
        measures.count_conflict(!matches!(outcome, ConflictOutcome::Inserted(_)));
    }
    match (outcome, &conflict.update) {
        (ConflictOutcome::Inserted(tid), _) => {
            place.after(TriggerEvent::Insert, None, Some(&own), rt)?;
            returned_from(modify, leaf, row, &own, tid);
            Ok(true)
        }
        (ConflictOutcome::OwnCommand, Some(_)) => Err(second_time()),
        (ConflictOutcome::Locked { judged, row: old }, Some(action)) => {
            let rows = (leaf.columns.backward(&old), leaf.columns.backward(&own));
            show_locked(modify, action, row, rows, (judged.tid(), leaf.relation.oid));
            if !new_version(modify, action, row, new, rt)? {
                return Ok(false);
            }
            let mut own = leaf.columns.forward(new);
            if let Some(triggers) = place.triggers()
                && !triggers.before(TriggerEvent::Update, Some(&old), Some(&mut own), rt)?
            {
                return Ok(false);
            }
            let to = target(modify, partitions, &leaf.columns.backward(&own), rt.exec);
            if !to.is_ok_and(|to| to == number) {
                return Err(elsewhere());
            }
            let own = place.checked(modify, own, rt)?;
            match rt.exec.store.update(&leaf.relation, judged, &old, &own)? {
                RowOutcome::Done(root) => {
                    place.after(TriggerEvent::Update, Some(&old), Some(&own), rt)?;
                    returned_from(modify, leaf, row, &own, root);
                    Ok(true)
                }
                outcome => Err(not_updated(&outcome, rt)),
            }
        }
        _ => Ok(false),
    }
}

/// Updates or deletes a row that the input found.
fn change_found(
    modify: &ModifyPlan,
    partitions: &Partitions,
    newest: Option<JudgedRow>,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Attempt> {
    let width = modify.relation.columns.len();
    let start = modify.start;
    let number = match row[start + width + 1] {
        Datum::Oid(oid) => partitions.leaf_of(Oid(oid)),
        _ => None,
    };
    let number =
        number.ok_or_else(|| SqlError::internal("a row to be changed is of no partition"))?;
    let place = Place::of(modify, partitions, number)?;
    let leaf = place.leaf;
    let judged = judged_row(&leaf.relation, newest, &row[start + width])?;
    let old = leaf.columns.forward(&row[start..start + width]);
    if modify.kind == ModifyKind::Delete {
        return match delete(place, judged, &old, false, rt)? {
            Deletion::Left => Ok(Attempt::Over(false)),
            Deletion::Met(outcome) => Ok(Attempt::Met(outcome)),
            Deletion::Done => Ok(Attempt::Over(true)),
        };
    }
    new_values(modify, row, new, rt)?;
    let mut own = leaf.columns.forward(new);
    if let Some(triggers) = place.triggers() {
        if let Some(met) = lock_for_triggers(triggers, true, &leaf.relation, judged, rt)? {
            return Ok(Attempt::Met(met));
        }
        if !triggers.before(TriggerEvent::Update, Some(&old), Some(&mut own), rt)? {
            return Ok(Attempt::Over(false));
        }
        *new = leaf.columns.backward(&own);
    }
    let to = target(modify, partitions, new, rt.exec);
    if matches!(to, Ok(to) if to == number) {
        let own = place.checked(modify, own, rt)?;
        return Ok(match rt.exec.store.update(&leaf.relation, judged, &old, &own)? {
            RowOutcome::Done(root) => {
                place.after(TriggerEvent::Update, Some(&old), Some(&own), rt)?;
                returned_from(modify, leaf, row, &own, root);
                Attempt::Over(true)
            }
            other => Attempt::Met(other),
        });
    }
    refuse_referenced(&leaf.relation, &modify.relation, rt.exec)?;
    match delete(place, judged, &old, true, rt)? {
        Deletion::Left => return Ok(Attempt::Over(false)),
        Deletion::Met(outcome) => return Ok(Attempt::Met(outcome)),
        Deletion::Done => {}
    }
    // Only the newest version of the row decides whether the new row has a partition.
    let to = Place::of(modify, partitions, to?)?;
    let mut own = to.leaf.columns.forward(new);
    if !to.before_insert(modify, partitions, &mut own, rt)? {
        rt.exec.store.moved(&modify.relation, &row[start..start + width], None)?;
        return Ok(Attempt::Over(false));
    }
    let own = to.checked(modify, own, rt)?;
    let tid = rt.exec.store.insert(&to.leaf.relation, &own)?;
    let now = to.leaf.columns.backward(&own);
    rt.exec.store.moved(&modify.relation, &row[start..start + width], Some(&now))?;
    to.after(TriggerEvent::Insert, None, Some(&own), rt)?;
    returned_from(modify, to.leaf, row, &own, tid);
    Ok(Attempt::Over(true))
}

/// The result of an attempt to delete a row.
enum Deletion {
    Done,
    /// A trigger prevented the deletion.
    Left,
    Met(RowOutcome),
}

/// Deletes a row of a leaf. `moves`: the row will be inserted into another leaf.
fn delete(
    place: Place<'_>,
    judged: JudgedRow,
    old: &[Datum],
    moves: bool,
    rt: &mut Runtime<'_, '_>,
) -> Result<Deletion> {
    let table = &place.leaf.relation;
    if let Some(triggers) = place.triggers() {
        if let Some(met) = lock_for_triggers(triggers, false, table, judged, rt)? {
            return Ok(Deletion::Met(met));
        }
        if !triggers.before(TriggerEvent::Delete, Some(old), None, rt)? {
            return Ok(Deletion::Left);
        }
    }
    let outcome = if moves {
        rt.exec.store.delete_moved(table, judged, old)?
    } else {
        rt.exec.store.delete(table, judged, old)?
    };
    let RowOutcome::Done(_) = outcome else { return Ok(Deletion::Met(outcome)) };
    place.after(TriggerEvent::Delete, Some(old), None, rt)?;
    Ok(Deletion::Done)
}

/// Returns error 0A000 if other rows may refer to the moving row through a table between its
/// partition and the statement's table. The row leaves such a table. For a foreign key that refers
/// to the partition itself, the move is a deletion.
fn refuse_referenced(leaf: &Relation, of: &Relation, exec: &ExecContext<'_>) -> Result<()> {
    let above = |oid| exec.catalog.relation(oid).and_then(|table| table.partition_of.as_ref());
    let below = |oid: &Oid| *oid != of.oid;
    let parent = |oid: Oid| above(oid).map(|of| of.parent);
    let mut left = std::iter::successors(parent(leaf.oid), |oid| parent(*oid));
    if left.by_ref().take_while(below).all(|oid| exec.catalog.foreign_keys_to(oid).is_empty()) {
        return Ok(());
    }
    Err(SqlError::new(
        "0A000",
        "cannot move tuple across partitions when a non-root ancestor of the source partition is \
         directly referenced in a foreign key",
    ))
}

/// Makes error 23514 for a row that no partition takes.
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
        .with_table(schema_name(table, exec), table.name.clone())
}
