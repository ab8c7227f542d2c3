//! Filters, projections and limits.

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Expr, Running, Runtime, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::order::sort::start_first;
use crate::source::rows::SetValues;
use crate::step::start::start_for;

fn other_plan() -> SqlError {
    SqlError::internal("a step of another plan")
}

/// The step that keeps the rows for which a condition holds.
pub(crate) struct Filter {
    plan: Arc<PlanNode>,
    demand: Demand,
    input: Option<Running>,
}

impl Filter {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        Self { plan: Arc::clone(plan), demand, input: None }
    }
}

impl Step for Filter {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Filter { input, condition } = &*self.plan else { return Err(other_plan()) };
        let step = self.input.get_or_insert_with(|| start_for(input, self.demand, rt.state));
        while step.next(row, rt)? {
            if condition.holds(row, rt)? {
                return Ok(true);
            }
            rt.tick()?;
        }
        Ok(false)
    }
}

/// The step that computes new rows.
pub(crate) struct Project {
    plan: Arc<PlanNode>,
    demand: Demand,
    input: Option<Running>,
    row: Vec<Datum>,
    /// The set-returning calls of the current input row.
    sets: Vec<Option<SetValues>>,
}

impl Project {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        let plan = Arc::clone(plan);
        Self { plan, demand, input: None, row: Vec::new(), sets: Vec::new() }
    }
}

impl Step for Project {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Project { input, input_width, exprs, sets } = &*self.plan else {
            return Err(other_plan());
        };
        let input_width = *input_width;
        if self.input.is_none() {
            self.input = Some(start_for(input, self.demand.about(), rt.state));
            self.row.resize(input_width + sets.len(), Datum::Null);
        }
        let Some(step) = &mut self.input else { return Err(other_plan()) };
        loop {
            if self.sets.is_empty() {
                if !step.next(&mut self.row, rt)? {
                    return Ok(false);
                }
                if self.row.len() < input_width + sets.len() {
                    self.row.resize(input_width + sets.len(), Datum::Null);
                }
                for set in sets {
                    self.sets.push(Some(SetValues::start(
                        &set.function,
                        &set.arguments,
                        &self.row,
                        rt,
                    )?));
                }
            }
            if !sets.is_empty() {
                rt.tick()?;
                // All sets advance together. A set that is over gives NULL until the longest set is
                // over.
                let mut any = false;
                for (number, place) in self.sets.iter_mut().enumerate() {
                    let value = match place {
                        Some(set) => set.next(rt)?,
                        None => None,
                    };
                    any |= value.is_some();
                    if value.is_none() {
                        *place = None;
                    }
                    self.row[input_width + number] = value.unwrap_or(Datum::Null);
                }
                if !any {
                    self.sets.clear();
                    continue;
                }
            }
            row.clear();
            for expr in exprs {
                let value = match &expr.kind {
                    niwaki_expr::expr::ExprKind::SetReturning(number) => {
                        self.row[input_width + number].clone()
                    }
                    _ => expr.eval(&self.row, rt)?,
                };
                row.push(value);
            }
            return Ok(true);
        }
    }
}

/// The step that skips rows, and stops after some rows.
pub(crate) struct Limit {
    plan: Arc<PlanNode>,
    input: Option<Running>,
    left: Option<u64>,
}

impl Limit {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None, left: None }
    }
}

fn bound(
    expr: Option<&Expr>,
    name: &str,
    sqlstate: &'static str,
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    match expr.eval(&[], rt)? {
        Datum::Int8(value) => u64::try_from(value)
            .map(Some)
            .map_err(|_| SqlError::new(sqlstate, format!("{name} must not be negative"))),
        _ => Ok(None),
    }
}

impl Step for Limit {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Limit { input, count, offset } = &*self.plan else {
            return Err(other_plan());
        };
        if self.input.is_none() {
            let skip = bound(offset.as_ref(), "OFFSET", "2201X", rt)?.unwrap_or(0);
            self.left = bound(count.as_ref(), "LIMIT", "2201W", rt)?;
            let wanted = self.left.and_then(|left| left.checked_add(skip));
            let mut step = start_first(input, wanted, rt.state);
            if self.left != Some(0) {
                for _ in 0..skip {
                    if !step.next(row, rt)? {
                        self.left = Some(0);
                        break;
                    }
                }
            }
            self.input = Some(step);
        }
        if self.left == Some(0) {
            return Ok(false);
        }
        let Some(step) = &mut self.input else { return Ok(false) };
        if !step.next(row, rt)? {
            self.left = Some(0);
            return Ok(false);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        Ok(true)
    }
}
