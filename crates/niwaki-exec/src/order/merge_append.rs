//! Merges the sorted rows of a table's partitions into one order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, Step};
use niwaki_expr::plan::{AppendPlan, PlanNode};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::order::sort::encode_sort_keys;
use crate::source::append::{admitted, is_of_table};
use crate::step::start::start_for;

/// The step that returns the least of the partitions' next rows.
pub(crate) struct MergeAppend {
    plan: Arc<PlanNode>,
    demand: Demand,
    begun: bool,
    inputs: Vec<Input>,
    /// The keys of the inputs' current rows, with the inputs' numbers. `given` is set if the step
    /// has returned the row of the first entry.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    given: bool,
}

/// The scan of a partition.
struct Input {
    /// The number of the partition's member in the plan.
    member: usize,
    step: Running,
    /// The values of surrounding rows that the scan reads, and the scan's own row.
    row: Vec<Datum>,
}

impl Input {
    /// Reads the next row and encodes its keys. Returns false if there are no more rows.
    fn next(
        &mut self,
        append: &AppendPlan,
        key: &mut Vec<u8>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let member = &append.members[self.member];
        while self.step.next(&mut self.row, rt)? {
            if is_of_table(member, &mut self.row, rt)? {
                key.clear();
                encode_sort_keys(&append.merge, &self.row, key, rt)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl MergeAppend {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        Self {
            plan: Arc::clone(plan),
            demand,
            begun: false,
            inputs: Vec::new(),
            heap: BinaryHeap::new(),
            given: false,
        }
    }

    /// Reads the first row of each partition that may have rows.
    fn begin(
        &mut self,
        append: &AppendPlan,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let possible = admitted(append, row, rt);
        for (number, member) in append.members.iter().enumerate() {
            if possible.as_ref().is_some_and(|possible| !possible[member.leaf]) {
                continue;
            }
            let step = start_for(&member.scan, self.demand, rt.state);
            let mut input = Input { member: number, step, row: row.to_vec() };
            let mut key = Vec::new();
            if input.next(append, &mut key, rt)? {
                self.heap.push(Reverse((key, self.inputs.len())));
                self.inputs.push(input);
            }
        }
        Ok(())
    }
}

impl Step for MergeAppend {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Append(append) = &*plan else {
            return Err(SqlError::internal("partitions of another plan"));
        };
        let slots = append.slots();
        if row.len() < slots.end {
            row.resize(slots.end, Datum::Null);
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(append, row, rt)?;
        }
        if std::mem::take(&mut self.given)
            && let Some(mut first) = self.heap.peek_mut()
        {
            let Reverse((key, number)) = &mut *first;
            if !self.inputs[*number].next(append, key, rt)? {
                PeekMut::pop(first);
            }
        }
        let Some(Reverse((_, first))) = self.heap.peek() else { return Ok(false) };
        // The swapped values that the input's row now holds are overwritten by the input's next
        // read.
        let own = &mut self.inputs[*first].row[slots.start..slots.end];
        row[slots.start..slots.end].swap_with_slice(own);
        self.given = true;
        Ok(true)
    }
}
