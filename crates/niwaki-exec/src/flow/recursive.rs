//! Recursive WITH queries.

use std::sync::Arc;

use niwaki_expr::expr::{Running, Runtime, State, Step};
use niwaki_expr::plan::{PlanNode, RecursivePlan};
use niwaki_expr::spool::{Tuplestore, TuplestoreReader, TuplestoreWriter};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::step::seen_rows::{Seen, SeenRows};
use crate::step::start::start;

/// The step of a recursive query. It returns the rows of the first term. Then it runs the second
/// term on the new rows of the last turn, until a turn has none.
pub(crate) struct Recursive {
    plan: Arc<PlanNode>,
    step: Option<Running>,
    begun: bool,
    /// The rows already returned; used by UNION without ALL.
    seen: SeenRows,
    /// Rows that turned out to be new at the end of a turn.
    late: Option<TuplestoreReader>,
    /// The new rows of this turn, and their number.
    new: Option<TuplestoreWriter>,
    count: u64,
}

impl Recursive {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self {
            plan: Arc::clone(plan),
            step: None,
            begun: false,
            seen: SeenRows::default(),
            late: None,
            new: None,
            count: 0,
        }
    }

    fn keep(&mut self, row: &[Datum]) -> Result<bool> {
        self.count += 1;
        if let Some(new) = &mut self.new {
            new.push(row)?;
        }
        Ok(true)
    }
}

impl Step for Recursive {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let node = Arc::clone(&self.plan);
        let PlanNode::Recursive(plan) = &*node else {
            return Err(SqlError::internal("a recursive query of another plan"));
        };
        let width = plan.columns.len();
        if !self.begun {
            self.begun = true;
            self.step = Some(start(&plan.left, rt.state));
            self.new = Some(TuplestoreWriter::new(rt.exec));
        }
        loop {
            rt.tick()?;
            if let Some(late) = &mut self.late {
                row.resize(width, Datum::Null);
                if late.next(row)? {
                    return self.keep(row);
                }
                self.late = None;
            } else if let Some(step) = &mut self.step {
                if step.next(row, rt)? {
                    if plan.all || self.seen.look(row, &plan.columns, rt)? == Seen::Never {
                        return self.keep(row);
                    }
                    continue;
                }
                self.step = None;
                self.late = self.seen.late(rt, width)?.map(|rows| rows.read());
                if self.late.is_some() {
                    continue;
                }
            }
            if self.count == 0 {
                set_working(rt.state, plan, None);
                if let Some(measures) = &mut rt.state.measures {
                    measures.add_space(&node, self.seen.space());
                }
                return Ok(false);
            }
            self.count = 0;
            let new = self.new.replace(TuplestoreWriter::new(rt.exec));
            let new = new.map(TuplestoreWriter::finish).transpose()?;
            set_working(rt.state, plan, new);
            self.step = Some(start(&plan.right, rt.state));
        }
    }
}

/// Sets the working rows of the second term, and forgets the results computed from the last turn's
/// working rows.
fn set_working(state: &mut State, plan: &RecursivePlan, rows: Option<Tuplestore>) {
    if state.working.len() <= plan.number {
        state.working.resize(plan.number + 1, None);
    }
    state.working[plan.number] = rows;
    state.forget(&plan.dependents);
}
