//! Groups rows by hashing their keys, and computes the aggregates of each group.

use std::sync::Arc;

use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Runtime, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use super::parallel_groups::take_together;
use crate::batches;
use crate::grouping::groups::{self, Grouping, Groups};
use crate::step::spill::{Partition, reader};
use crate::step::start::start_for;

/// The step that makes one row per group.
pub(crate) struct Aggregate {
    plan: Arc<PlanNode>,
    /// The groups in memory.
    groups: Option<Groups>,
    /// The number of the group whose row the step returns next.
    next: u32,
    /// Partitions of rows whose groups found no room in memory.
    pending: Vec<Partition>,
    space: SpaceUse,
}

impl Aggregate {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        let plan = Arc::clone(plan);
        Self { plan, groups: None, next: 0, pending: Vec::new(), space: SpaceUse::default() }
    }

    /// Reads the whole input into groups.
    fn run(&mut self, rt: &mut Runtime<'_, '_>) -> Result<Groups> {
        let PlanNode::Aggregate { input, input_width, groups: exprs, calls, sets, workers, .. } =
            &*self.plan
        else {
            return Err(SqlError::internal("an aggregate of another plan"));
        };
        let grouping = Grouping { exprs, calls, sets };
        if groups::run_in_batches(exprs, calls)
            && let Some(mut step) = batches::batch_start::start(input)
        {
            let mut groups = Groups::new(grouping, true, 0, rt)?;
            let launched = take_together(&mut groups, grouping, &mut *step, *workers, rt)?;
            if let Some(measures) = &mut rt.state.measures {
                measures.add_threads(&self.plan, launched);
            }
            // Reads the input that the parallel workers left, in this thread alone.
            groups.take_batches(grouping, &mut *step, rt)?;
            return Ok(groups);
        }
        let mut groups = Groups::new(grouping, false, 0, rt)?;
        let mut step = start_for(input, Demand::All, rt.state);
        let mut row = vec![Datum::Null; *input_width];
        while step.next(&mut row, rt)? {
            rt.tick()?;
            groups.take_row(grouping, &row, rt)?;
        }
        Ok(groups)
    }

    /// Reads the rows of a partition into new groups.
    fn run_again(&mut self, part: Partition, rt: &mut Runtime<'_, '_>) -> Result<Groups> {
        let PlanNode::Aggregate { groups: exprs, calls, sets, .. } = &*self.plan else {
            return Err(SqlError::internal("an aggregate of another plan"));
        };
        let grouping = Grouping { exprs, calls, sets };
        let mut groups = Groups::new(grouping, false, part.level, rt)?;
        let mut rows = reader(part.rows, rt)?;
        while let Some(record) = rows.record() {
            rt.tick()?;
            groups.take_written(grouping, record.key, record.row, rt)?;
            rows.advance()?;
        }
        Ok(groups)
    }

    fn ready(&mut self, mut groups: Groups, rt: &mut Runtime<'_, '_>) -> Result<()> {
        let partitions = groups.finish(&mut self.space, rt)?;
        self.pending.extend(partitions.into_iter().filter(|part| part.rows.records() > 0));
        self.groups = Some(groups);
        self.next = 0;
        if let Some(measures) = &mut rt.state.measures {
            measures.add_space(&self.plan, self.space);
        }
        Ok(())
    }
}

impl Step for Aggregate {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Aggregate { groups: exprs, calls, sets, .. } = &*plan else {
            return Err(SqlError::internal("an aggregate of another plan"));
        };
        let grouping = Grouping { exprs, calls, sets };
        if self.groups.is_none() {
            let groups = self.run(rt)?;
            self.ready(groups, rt)?;
        }
        loop {
            let Some(groups) = &mut self.groups else { return Ok(false) };
            if (self.next as usize) < groups.keys.len() {
                groups.result(self.next, grouping, row, rt)?;
                self.next += 1;
                return Ok(true);
            }
            let Some(part) = self.pending.pop() else { return Ok(false) };
            // The groups before are done: the statement gives back their memory.
            rt.state.memory = rt.state.memory.saturating_sub(groups.charged());
            self.groups = None;
            let groups = self.run_again(part, rt)?;
            self.ready(groups, rt)?;
        }
    }
}
