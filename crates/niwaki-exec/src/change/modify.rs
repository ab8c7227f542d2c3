//! INSERT, UPDATE, DELETE and row locks.

use std::sync::Arc;

use niwaki_catalog::{Leaf, Relation, TriggerEvent, TriggerTime};
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Expr, Running, Runtime, Step, value_text};
use niwaki_expr::plan::{ModifyPlan, OuterCheck, PlanNode};
use niwaki_expr::query::{ModifyKind, RowTriggers};
use niwaki_expr::store::{JudgedRow, RowOutcome};
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::Tid;
use niwaki_txn::{RowLockMode, WaitPolicy};
use niwaki_types::{Datum, TypeOid};

use crate::change::conflict::upsert;
use crate::change::partitions::leaf_of_row;
use crate::change::trigger::FireTriggers;
use crate::step::start::{start, start_for};

/// The longest value that an error's detail shows, in bytes.
const DETAIL_BYTES_MAX: usize = 64;

/// The step that changes a table.
pub(crate) struct Modify {
    plan: Arc<PlanNode>,
    input: Option<Running>,
    row: Vec<Datum>,
    new: Vec<Datum>,
}

impl Modify {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None, row: Vec::new(), new: Vec::new() }
    }
}

impl Step for Modify {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Modify(modify) = &*plan else {
            return Err(SqlError::internal("a change of another plan"));
        };
        if self.input.is_none() {
            self.input = Some(start(&modify.input, rt.state));
            self.row.resize(modify.input_width, Datum::Null);
        }
        let Some(step) = &mut self.input else { return Ok(false) };
        while step.next(&mut self.row, rt)? {
            rt.tick()?;
            if self.row.len() < modify.input_width {
                self.row.resize(modify.input_width, Datum::Null);
            }
            if !change(modify, &mut self.row, &mut self.new, rt)? {
                continue;
            }
            rt.state.modified += u64::from(modify.counted);
            if modify.returning.is_empty() {
                continue;
            }
            row.clear();
            for expr in &modify.returning {
                row.push(expr.eval(&self.row, rt)?);
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// Changes the row that the input found. Returns false when there was nothing left to change.
/// Afterwards the target's slots hold the new row, if the statement returns something.
pub(crate) fn change(
    modify: &ModifyPlan,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    // Ends: each turn but the last meets a version that another transaction committed, and that
    // this transaction has locked from then on.
    let mut newest = None;
    loop {
        match attempt(modify, newest, row, new, rt)? {
            Attempt::Over(changed) => return Ok(changed),
            Attempt::Met(outcome) => {
                newest = goes_on(modify, outcome, row, rt)?;
                if newest.is_none() {
                    return Ok(false);
                }
            }
        }
    }
}

/// The result of an attempt to change a row.
pub(crate) enum Attempt {
    /// The attempt is over: the row was changed (true), or a trigger or a conflict prevented the
    /// change (false).
    Over(bool),
    /// The row has changed since the input found it.
    Met(RowOutcome),
}

/// Inserts a row, or tries to change the row that the input found.
/// `newest` is that row's newest version, if this version was judged since and is in the slots.
pub(crate) fn attempt(
    modify: &ModifyPlan,
    newest: Option<JudgedRow>,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Attempt> {
    if modify.relation.is_partitioned() {
        return crate::change::partitions::attempt(modify, newest, row, new, rt);
    }
    let width = modify.relation.columns.len();
    let start = modify.start;
    if modify.kind == ModifyKind::Insert {
        return insert(modify, row, new, rt).map(Attempt::Over);
    }
    let judged = judged_row(&modify.relation, newest, &row[start + width])?;
    let updated = modify.kind == ModifyKind::Update;
    if updated {
        new_values(modify, row, new, rt)?;
    }
    if let Some(triggers) = &modify.triggers
        && let Some(met) = lock_for_triggers(triggers, updated, &modify.relation, judged, rt)?
    {
        return Ok(Attempt::Met(met));
    }
    let old = &row[start..start + width];
    if !admit(modify, old, new, rt)? {
        return Ok(Attempt::Over(false));
    }
    let store = &mut *rt.exec.store;
    let outcome = if updated {
        store.update(&modify.relation, judged, old, new)?
    } else {
        store.delete(&modify.relation, judged, old)?
    };
    let root = match outcome {
        RowOutcome::Done(root) => root,
        other => return Ok(Attempt::Met(other)),
    };
    if let Some(triggers) = &modify.triggers {
        let old = Some(&row[start..start + width]);
        if updated {
            triggers.after(TriggerEvent::Update, old, Some(new.as_slice()), rt)?;
        } else {
            triggers.after(TriggerEvent::Delete, old, None, rt)?;
        }
    }
    if updated {
        returned(modify, row, new, root);
    }
    Ok(Attempt::Over(true))
}

/// Returns the version of a row to change: the newest version, if the row was judged again.
/// Otherwise it is the version at this address, which the statement's scan found.
pub(crate) fn judged_row(
    relation: &Relation,
    newest: Option<JudgedRow>,
    address: &Datum,
) -> Result<JudgedRow> {
    match (newest, address) {
        (Some(newest), _) => Ok(newest),
        (None, Datum::Tid(block, offset)) => {
            Ok(JudgedRow::seen(relation, Tid::new(*block, *offset)))
        }
        (None, _) => Err(SqlError::internal("a row to be changed has no address")),
    }
}

/// Locks a row of this table before its BEFORE triggers for UPDATE or DELETE see it.
/// The triggers thus run once, and judge the newest version. Returns the outcome if the row has
/// changed since it was found.
pub(crate) fn lock_for_triggers(
    triggers: &RowTriggers,
    updated: bool,
    relation: &Relation,
    judged: JudgedRow,
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<RowOutcome>> {
    let (event, lock) = if updated {
        (TriggerEvent::Update, RowLockMode::NoKeyUpdate)
    } else {
        (TriggerEvent::Delete, RowLockMode::Update)
    };
    // The newest version has been locked since the store returned it.
    if !judged.is_seen() || triggers.of(TriggerTime::Before, event).next().is_none() {
        return Ok(None);
    }
    match rt.exec.store.lock_row(relation, judged, lock, WaitPolicy::Block)? {
        RowOutcome::Done(_) => Ok(None),
        other => Ok(Some(other)),
    }
}

/// Inserts one row. Returns false if a trigger or an existing row prevents the insertion.
fn insert(
    modify: &ModifyPlan,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    new_values(modify, row, new, rt)?;
    if let Some(triggers) = &modify.triggers
        && !triggers.before(TriggerEvent::Insert, None, Some(&mut *new), rt)?
    {
        return Ok(false);
    }
    check_row(modify, new, false, rt)?;
    if let Some(conflict) = &modify.conflict {
        return upsert(modify, conflict, row, new, rt);
    }
    let tid = rt.exec.store.insert(&modify.relation, new)?;
    if let Some(triggers) = &modify.triggers {
        triggers.after(TriggerEvent::Insert, None, Some(new.as_slice()), rt)?;
    }
    returned(modify, row, new, tid);
    Ok(true)
}

/// Handles an attempt that did not change the row. Returns the row's newest version if the
/// statement is to change that version instead.
fn goes_on(
    modify: &ModifyPlan,
    outcome: RowOutcome,
    row: &mut [Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<JudgedRow>> {
    match outcome {
        RowOutcome::Changed { judged, row: newest } => {
            show_newest(modify, judged.tid(), newest, row)?;
            let holds = match &modify.recheck {
                Some(recheck) => recheck.holds(row, rt)?,
                None => true,
            };
            Ok(holds.then_some(judged))
        }
        RowOutcome::SelfModified if rt.state.nested_changes => {
            Err(changed_inside(modify.kind == ModifyKind::Update))
        }
        RowOutcome::Done(_) | RowOutcome::Gone | RowOutcome::SelfModified | RowOutcome::Locked => {
            Ok(None)
        }
    }
}

/// Puts the newest version of the found row, in the layout of the row's own table, into the
/// target's slots.
pub(crate) fn show_newest(
    modify: &ModifyPlan,
    tid: Tid,
    newest: Vec<Datum>,
    row: &mut [Datum],
) -> Result<()> {
    let width = modify.relation.columns.len();
    let newest = match leaf_of_row(&modify.relation, &row[modify.start + width + 1])? {
        Some(leaf) => leaf.columns.backward(&newest),
        None => newest,
    };
    for (slot, value) in newest.into_iter().enumerate().take(width) {
        row[modify.start + slot] = value;
    }
    row[modify.start + width] = Datum::Tid(tid.block.0, tid.offset.0);
    Ok(())
}

/// Makes error 27000 for a row that an inner function call of the same statement has changed
/// already.
pub(crate) fn changed_inside(updated: bool) -> SqlError {
    let what = if updated { "updated" } else { "deleted" };
    let message = format!(
        "tuple to be {what} was already modified by an operation triggered by the current command"
    );
    SqlError::new("27000", message).with_hint(
        "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
    )
}

/// Puts the new row into the slots that RETURNING reads.
pub(crate) fn returned(modify: &ModifyPlan, row: &mut [Datum], new: &mut [Datum], tid: Tid) {
    if modify.returning.is_empty() {
        return;
    }
    let width = modify.relation.columns.len();
    for (slot, value) in new.iter_mut().enumerate() {
        row[modify.start + slot] = std::mem::replace(value, Datum::Null);
    }
    row[modify.start + width] = Datum::Tid(tid.block.0, tid.offset.0);
    row[modify.start + width + 1] = Datum::Oid(modify.relation.oid.0);
}

/// Puts a new row of a partition into the slots that RETURNING reads, like [`returned`].
pub(crate) fn returned_from(
    modify: &ModifyPlan,
    leaf: &Leaf,
    row: &mut [Datum],
    own: &[Datum],
    tid: Tid,
) {
    if modify.returning.is_empty() {
        return;
    }
    let mut new = leaf.columns.backward(own);
    returned(modify, row, &mut new, tid);
    row[modify.start + modify.relation.columns.len() + 1] = Datum::Oid(leaf.relation.oid.0);
}

/// Fires the BEFORE triggers, and checks the new row of an UPDATE. Returns whether the row `old` is
/// to be changed; `new` is then the final new row of an UPDATE.
fn admit(
    modify: &ModifyPlan,
    old: &[Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    let updated = modify.kind == ModifyKind::Update;
    if let Some(triggers) = &modify.triggers {
        let admitted = if updated {
            triggers.before(TriggerEvent::Update, Some(old), Some(&mut *new), rt)?
        } else {
            triggers.before(TriggerEvent::Delete, Some(old), None, rt)?
        };
        if !admitted {
            return Ok(false);
        }
    }
    if updated {
        check_row(modify, new, true, rt)?;
    }
    Ok(true)
}

/// Computes the new row, without its generated columns.
pub(crate) fn new_values(
    modify: &ModifyPlan,
    row: &[Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    assigned_values(&modify.values, modify.start, row, new, rt)
}

/// Computes a row of these values. A column without a value keeps its old value, from the slots at
/// `start` on.
pub(crate) fn assigned_values(
    values: &[Option<Expr>],
    start: usize,
    row: &[Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    new.clear();
    // Values that queries assigned to several columns of another row are not valid for this row.
    let before = std::mem::take(&mut rt.state.assigned);
    let computed = values.iter().enumerate().try_for_each(|(column, value)| {
        new.push(match value {
            Some(expr) => expr.eval(row, rt)?,
            None => row[start + column].clone(),
        });
        Ok(())
    });
    rt.state.assigned = before;
    computed
}

/// The rules for new rows of one table.
pub(crate) struct Rules<'m> {
    pub(crate) relation: &'m Relation,
    pub(crate) generated: &'m [(usize, Expr)],
    pub(crate) checks: &'m [(String, Expr)],
}

/// Computes the generated columns of a new row, and checks NOT NULL, CHECK constraints and bounds.
/// `updated` says that the row takes the place of another row.
pub(crate) fn check_row(
    modify: &ModifyPlan,
    new: &mut [Datum],
    updated: bool,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    let (relation, generated) = (&*modify.relation, &*modify.generated);
    let rules = Rules { relation, generated, checks: &modify.checks };
    compute_generated(&rules, new, rt)?;
    // PostgreSQL too checks first, for an UPDATE, whether the row belongs to another partition.
    if updated {
        check_bounds(modify, new, rt.exec)?;
    }
    check_constraints(&rules, new, &|new, exec| failing_row(relation, new, exec), rt)?;
    if !updated {
        check_bounds(modify, new, rt.exec)?;
    }
    for (view, condition) in &modify.view_checks {
        // The check also refuses a row for which the condition is unknown, because such a row would
        // be invisible.
        if !condition.holds(new, rt)? {
            let message = format!("new row violates check option for view \"{view}\"");
            return Err(
                SqlError::new("44000", message).with_detail(failing_row(relation, new, rt.exec))
            );
        }
    }
    Ok(())
}

/// Formats the error detail that shows a refused row.
pub(crate) type ShowRow<'s> = dyn Fn(&[Datum], &ExecContext<'_>) -> String + 's;

/// Does the work of [`check_row`], except for bounds and views.
pub(crate) fn check_rules(
    rules: &Rules<'_>,
    new: &mut [Datum],
    show: &ShowRow<'_>,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    compute_generated(rules, new, rt)?;
    check_constraints(rules, new, show, rt)
}

fn compute_generated(rules: &Rules<'_>, new: &mut [Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
    for (column, expression) in rules.generated {
        new[*column] = expression.eval(new, rt)?;
    }
    Ok(())
}

/// Refuses a row that violates NOT NULL or CHECK constraints.
fn check_constraints(
    rules: &Rules<'_>,
    new: &mut [Datum],
    show: &ShowRow<'_>,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    for (column, value) in rules.relation.columns.iter().zip(new.iter()) {
        if value.is_null() && column.not_null && !column.dropped {
            let detail = show(new, rt.exec);
            return Err(not_null_violation(rules.relation, &column.name, detail, rt.exec));
        }
    }
    for (name, condition) in rules.checks {
        // An unknown result passes: only false is refused.
        if matches!(condition.eval(new, rt)?, Datum::Bool(false)) {
            let detail = show(new, rt.exec);
            return Err(check_violation(rules.relation, name, detail, rt.exec));
        }
    }
    Ok(())
}

/// Refuses a new row of a partition that belongs to another partition.
pub(crate) fn check_bounds(
    modify: &ModifyPlan,
    new: &[Datum],
    exec: &ExecContext<'_>,
) -> Result<()> {
    let mut inner = None;
    for bound in &modify.bounds {
        let row = bound.columns.backward(inner.as_deref().unwrap_or(new));
        let found = bound.parent.partitions.as_ref().and_then(|all| all.member_of(&row));
        if found != Some(bound.member) {
            let relation = &modify.relation;
            let message =
                format!("new row for relation \"{}\" violates partition constraint", relation.name);
            return Err(SqlError::new("23514", message)
                .with_detail(failing_row(relation, new, exec))
                .with_table(schema_name(relation, exec), relation.name.clone()));
        }
        inner = Some(row);
    }
    Ok(())
}

#[cold]
fn not_null_violation(
    relation: &Relation,
    column: &str,
    detail: String,
    exec: &ExecContext<'_>,
) -> SqlError {
    let table = &relation.name;
    SqlError::new(
        "23502",
        format!(
            "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
        ),
    )
    .with_detail(detail)
    .with_table(schema_name(relation, exec), table.clone())
    .with_column(column)
}

#[cold]
fn check_violation(
    relation: &Relation,
    constraint: &str,
    detail: String,
    exec: &ExecContext<'_>,
) -> SqlError {
    let table = &relation.name;
    SqlError::new(
        "23514",
        format!("new row for relation \"{table}\" violates check constraint \"{constraint}\""),
    )
    .with_detail(detail)
    .with_table(schema_name(relation, exec), table.clone())
    .with_constraint(constraint)
}

pub(crate) fn schema_name(relation: &Relation, exec: &ExecContext<'_>) -> String {
    exec.catalog.schema(relation.schema).map_or_else(String::new, |s| s.name.clone())
}

pub(crate) fn failing_row(relation: &Relation, new: &[Datum], exec: &ExecContext<'_>) -> String {
    let mut values = Vec::new();
    for (column, value) in relation.columns.iter().zip(new) {
        if column.dropped {
            continue;
        }
        values.push(shown_value(value, column.column_type().oid, exec));
    }
    format!("Failing row contains ({}).", values.join(", "))
}

/// Formats a value for an error's detail, and shortens a long value.
pub(crate) fn shown_value(value: &Datum, oid: TypeOid, exec: &ExecContext<'_>) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut text = value_text(value, oid, exec);
    if text.len() > DETAIL_BYTES_MAX {
        let mut end = DETAIL_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// The step that locks the rows that a query returns.
pub(crate) struct LockRows {
    plan: Arc<PlanNode>,
    demand: Demand,
    input: Option<Running>,
}

impl LockRows {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        Self { plan: Arc::clone(plan), demand, input: None }
    }
}

impl Step for LockRows {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::LockRows { input, targets, outer, recheck } = &*plan else {
            return Err(SqlError::internal("a lock of another plan"));
        };
        if self.input.is_none() {
            self.input = Some(start_for(input, self.demand.about(), rt.state));
        }
        let Some(step) = &mut self.input else { return Ok(false) };
        'rows: while step.next(row, rt)? {
            rt.tick()?;
            let mut changed = false;
            for target in targets {
                let width = target.relation.columns.len();
                let ctid = target.start + width;
                // The NULL side of an outer join has no row to lock.
                let Datum::Tid(block, offset) = row[ctid] else { continue };
                let leaf = leaf_of_row(&target.relation, &row[ctid + 1])?;
                let relation = leaf.map_or(&target.relation, |leaf| &leaf.relation);
                let seen = JudgedRow::seen(relation, Tid::new(block, offset));
                let outcome = rt.exec.store.lock_row(relation, seen, target.lock, target.wait)?;
                match outcome {
                    RowOutcome::Done(_) => {}
                    RowOutcome::Changed { judged, row: newest } => {
                        changed = true;
                        let newest = match leaf {
                            Some(leaf) => leaf.columns.backward(&newest),
                            None => newest,
                        };
                        for (slot, value) in newest.into_iter().enumerate().take(width) {
                            row[target.start + slot] = value;
                        }
                        let tid = judged.tid();
                        row[ctid] = Datum::Tid(tid.block.0, tid.offset.0);
                    }
                    RowOutcome::Gone | RowOutcome::SelfModified | RowOutcome::Locked => {
                        continue 'rows;
                    }
                }
            }
            // The recheck runs once all rows are at their locked versions, not after each row.
            if changed && !still_found(outer, recheck.as_ref(), row, rt)? {
                continue;
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// Decides whether a query still finds a row after newer versions took the place of its parts.
fn still_found(
    outer: &[OuterCheck],
    recheck: Option<&Expr>,
    row: &mut [Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    for check in outer {
        if !check.on.holds(row, rt)? {
            for range in &check.slots {
                row[range.start..range.end].fill(Datum::Null);
            }
        }
    }
    recheck.map_or(Ok(true), |recheck| recheck.holds(row, rt))
}
