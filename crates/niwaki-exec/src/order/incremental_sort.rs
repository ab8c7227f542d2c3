//! Sorts rows that already have the order of the first keys.

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::SortKey;
use niwaki_expr::spool::checked;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{KeyedRows, Sorted, Sorter};
use niwaki_types::{Datum, read_tagged_row, write_tagged_row};

use crate::order::sort::encode_sort_keys;
use crate::step::start::start_for;

/// The least number of rows that are sorted together. A sort for each of many small groups would
/// cost more than one sort for all of them.
const ROWS_MIN: usize = 32;

/// The step that sorts one group of rows with equal first keys after the other. So it reads no more
/// of the input than its caller asks for.
pub(crate) struct IncrementalSort {
    plan: Arc<PlanNode>,
    demand: Demand,
    /// `None` before the first row, and at the end.
    input: Option<Running>,
    begun: bool,
    /// The last row that was read; `waits` is set if this row is the first of the next group.
    incoming: Vec<Datum>,
    waits: bool,
    /// The first keys of the rows at hand, and the first keys of the last row read.
    group: Vec<u8>,
    next_group: Vec<u8>,
    sorted: Option<Sorted<KeyedRows>>,
    number: u64,
}

impl IncrementalSort {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        Self {
            plan: Arc::clone(plan),
            demand,
            input: None,
            begun: false,
            incoming: Vec::new(),
            waits: false,
            group: Vec::new(),
            next_group: Vec::new(),
            sorted: None,
            number: 0,
        }
    }

    /// Reads the next row of the input, and encodes its first keys. Returns false at the end.
    fn read(&mut self, first: &[SortKey], rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if std::mem::take(&mut self.waits) {
            return Ok(true);
        }
        let Some(input) = &mut self.input else { return Ok(false) };
        if !input.next(&mut self.incoming, rt)? {
            self.input = None;
            return Ok(false);
        }
        rt.tick()?;
        self.next_group.clear();
        encode_sort_keys(first, &self.incoming, &mut self.next_group, rt)?;
        Ok(true)
    }

    /// Sorts the next group of rows. Returns `None` if the input has no more rows.
    fn sort_group(
        &mut self,
        keys: &[SortKey],
        presorted: usize,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Option<Sorted<KeyedRows>>> {
        let (first, rest) = keys.split_at(presorted.min(keys.len()));
        let mut sorter = rt.sorter(rt.exec.work_mem)?;
        let (mut count, mut key, mut bytes) = (0, Vec::new(), Vec::new());
        while self.read(first, rt)? {
            if count >= ROWS_MIN && self.group != self.next_group {
                self.waits = true;
                break;
            }
            std::mem::swap(&mut self.group, &mut self.next_group);
            key.clear();
            key.extend_from_slice(&self.group);
            encode_sort_keys(rest, &self.incoming, &mut key, rt)?;
            bytes.clear();
            write_tagged_row(&self.incoming, &mut bytes);
            self.number += 1;
            count += 1;
            let record = checked(&key, self.number, &bytes)?;
            sorter.push(&record, &mut || rt.exec.environment.check_interrupts())?;
        }
        if count == 0 {
            return Ok(None);
        }
        let interrupts = &mut || rt.exec.environment.check_interrupts();
        Ok(Some(Sorter::finish(vec![sorter], interrupts)?))
    }
}

impl Step for IncrementalSort {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Sort { input, keys, presorted } = &*plan else {
            return Err(SqlError::internal("a sort of another plan"));
        };
        if !self.begun {
            self.begun = true;
            // `incoming` has the values of surrounding rows that the input reads, and each sorted
            // row keeps them.
            self.incoming.clone_from(row);
            self.input = Some(start_for(input, self.demand, rt.state));
        }
        loop {
            if let Some(sorted) = &mut self.sorted {
                rt.tick()?;
                if let Some(record) = sorted.next()? {
                    row.clear();
                    read_tagged_row(record.row, row)?;
                    return Ok(true);
                }
            }
            self.sorted = self.sort_group(keys, *presorted, rt)?;
            if self.sorted.is_none() {
                return Ok(false);
            }
        }
    }
}
