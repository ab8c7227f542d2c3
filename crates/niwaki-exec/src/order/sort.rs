//! The sort step.

use std::sync::Arc;

use niwaki_expr::expr::measure::{Measured, SpaceUse};
use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, State, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::SortKey;
use niwaki_expr::spool::checked;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{KeyedRows, Sorted, Sorter};
use niwaki_types::{Datum, KeyOrder, encode_key, read_tagged_row, write_tagged_row};

use crate::step::start::{start, start_for};

/// The step that sorts all rows before it returns the first. Rows are compared by the bytes of
/// their encoded index keys.
pub(crate) struct Sort {
    plan: Arc<PlanNode>,
    demand: Demand,
    sorted: Option<Sorted<KeyedRows>>,
    /// The number of rows that the caller will read, if known.
    wanted: Option<usize>,
}

/// Appends the encoded keys of a row. The bytes have the order of the rows.
pub(crate) fn encode_sort_keys(
    keys: &[SortKey],
    row: &[Datum],
    out: &mut Vec<u8>,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    for part in keys {
        let order = KeyOrder {
            oid: part.expr.ty,
            descending: part.descending,
            nulls_first: part.nulls_first,
        };
        encode_key(&part.expr.eval(row, rt)?, order, out);
    }
    Ok(())
}

impl Sort {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        Self { plan: Arc::clone(plan), demand, sorted: None, wanted: None }
    }

    /// Makes a sort whose caller reads at most `wanted` rows.
    pub(crate) fn of_first(plan: &Arc<PlanNode>, wanted: usize, demand: Demand) -> Self {
        Self { wanted: Some(wanted), ..Self::new(plan, demand) }
    }

    /// Sorts the input. `row` has the values of surrounding rows that the input reads, and each
    /// sorted row keeps them.
    fn run(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Sorted<KeyedRows>> {
        let PlanNode::Sort { input, keys, .. } = &*self.plan else {
            return Err(SqlError::internal("a sort of another plan"));
        };
        let mut step = start_for(input, self.demand.whole(), rt.state);
        let (mut row, mut key, mut bytes) = (row.to_vec(), Vec::new(), Vec::new());
        let mut sorter = rt.sorter(rt.exec.work_mem)?;
        if let Some(wanted) = self.wanted {
            sorter.only_first(wanted);
        }
        let mut number = 0u64;
        while step.next(&mut row, rt)? {
            rt.tick()?;
            key.clear();
            encode_sort_keys(keys, &row, &mut key, rt)?;
            number += 1;
            // The key alone decides the order, so the step need not write a row that is not wanted.
            if !sorter.wants(&checked(&key, number, &[])?) {
                continue;
            }
            bytes.clear();
            write_tagged_row(&row, &mut bytes);
            let record = checked(&key, number, &bytes)?;
            sorter.push(&record, &mut || rt.exec.environment.check_interrupts())?;
        }
        drop(step);
        let sorted = Sorter::finish(vec![sorter], &mut || rt.exec.environment.check_interrupts())?;
        if let Some(measures) = &mut rt.state.measures {
            let (memory, disk) = (sorted.peak_bytes(), sorted.disk_bytes());
            let top = sorted.left_out();
            measures.add_space(&self.plan, SpaceUse { batches: 1, memory, disk, keys: 0, top });
        }
        Ok(sorted)
    }
}

impl Step for Sort {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if self.sorted.is_none() {
            self.sorted = Some(self.run(row, rt)?);
        }
        let Some(sorted) = &mut self.sorted else { return Ok(false) };
        rt.tick()?;
        let Some(record) = sorted.next()? else { return Ok(false) };
        row.clear();
        read_tagged_row(record.row, row)?;
        Ok(true)
    }
}

/// Starts a plan, as [`start`] does, for a caller that reads at most `wanted` rows.
pub(crate) fn start_first(plan: &Arc<PlanNode>, wanted: Option<u64>, state: &State) -> Running {
    let Some(wanted) = wanted.and_then(|wanted| usize::try_from(wanted).ok()) else {
        return start(plan, state);
    };
    if !matches!(&**plan, PlanNode::Sort { presorted: 0, .. }) {
        return start_for(plan, Demand::Some(wanted), state);
    }
    let step = Running::new(Sort::of_first(plan, wanted, Demand::SOME));
    if state.measures.is_some() { Running::new(Measured::new(plan, step)) } else { step }
}
