//! MERGE: applies an action to each row of the source.

use std::sync::Arc;

use niwaki_expr::expr::{Running, Runtime, Step};
use niwaki_expr::plan::{MergeAction, MergePlan, PlanNode};
use niwaki_expr::query::ModifyKind;
use niwaki_expr::store::RowOutcome;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::change::modify::{Attempt, attempt, changed_inside, show_newest};
use crate::step::start::start;

/// The step that merges.
pub(crate) struct Merge {
    plan: Arc<PlanNode>,
    input: Option<Running>,
    row: Vec<Datum>,
    new: Vec<Datum>,
}

impl Merge {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None, row: Vec::new(), new: Vec::new() }
    }
}

impl Step for Merge {
    fn next(&mut self, _row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Merge(merge) = &*plan else {
            return Err(SqlError::internal("a merge of another plan"));
        };
        if self.input.is_none() {
            self.input = Some(start(&merge.input, rt.state));
            self.row.resize(merge.input_width, Datum::Null);
        }
        let Some(step) = &mut self.input else { return Ok(false) };
        while step.next(&mut self.row, rt)? {
            rt.tick()?;
            if self.row.len() < merge.input_width {
                self.row.resize(merge.input_width, Datum::Null);
            }
            let done = merge_row(merge, &mut self.row, &mut self.new, rt)?;
            rt.state.modified += u64::from(done.is_some());
            if let Some(measures) = &mut rt.state.measures {
                measures.merged.count(done);
            }
        }
        Ok(false)
    }
}

/// Applies the chosen action to a row of the source. Returns the kind of the change, or `None` if
/// nothing changed.
fn merge_row(
    merge: &MergePlan,
    row: &mut [Datum],
    new: &mut Vec<Datum>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<ModifyKind>> {
    let address = merge.start + merge.relation.columns.len();
    let mut matched = !row[address].is_null();
    let mut newest_judged = None;
    // Ends: each turn but the last meets one of two rows. The first is a version that another
    // transaction committed, and that this transaction has locked from then on. The second is a row
    // that no longer exists and matches nothing.
    loop {
        let Some(action) = chosen(merge, matched, row, rt)? else { return Ok(None) };
        let Some(change) = &action.change else { return Ok(None) };
        match attempt(change, newest_judged, row, new, rt)? {
            Attempt::Over(changed) => return Ok(changed.then_some(change.kind)),
            // The newest version of the row may call for another action.
            Attempt::Met(RowOutcome::Changed { judged, row: newest }) => {
                show_newest(change, judged.tid(), newest, row)?;
                newest_judged = Some(judged);
                matched = match &merge.recheck {
                    Some(recheck) => recheck.holds(row, rt)?,
                    None => true,
                };
            }
            Attempt::Met(RowOutcome::Gone) if matched => matched = false,
            Attempt::Met(RowOutcome::SelfModified) if rt.state.nested_changes => {
                return Err(changed_inside(change.kind == ModifyKind::Update));
            }
            Attempt::Met(RowOutcome::SelfModified) => return Err(second_time()),
            Attempt::Met(outcome) => {
                let message = format!("a row cannot be merged: {outcome:?}");
                return Err(SqlError::internal(message));
            }
        }
    }
}

/// Returns the first action whose condition holds.
fn chosen<'m>(
    merge: &'m MergePlan,
    matched: bool,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<&'m MergeAction>> {
    for action in merge.actions.iter().filter(|action| action.matched == matched) {
        let holds = match &action.condition {
            Some(condition) => condition.holds(row, rt)?,
            None => true,
        };
        if holds {
            return Ok(Some(action));
        }
    }
    Ok(None)
}

/// Makes error 21000 for a target row that several rows of the source match.
#[cold]
fn second_time() -> SqlError {
    SqlError::new("21000", "MERGE command cannot affect row a second time")
        .with_hint("Ensure that not more than one source row matches any one target row.")
}
