//! Reads partitions from the input one after the other, only as far as the calls need.

use std::sync::Arc;

use niwaki_expr::expr::{Expr, Running, Runtime};
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::Window;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, KeyOrder, encode_key};

use super::partition_rows::{Cursor, Rows};
use crate::step::start::start;

/// The partition at hand, with the kept values of its rows. Behind a row's values stands the number
/// of its group, which has the rows with equal sort keys.
pub(super) struct Partition {
    input: Running,
    /// The slots of the kept values.
    kept: Vec<usize>,
    rows: Rows,
    /// Set once all rows of the partition were read.
    complete: bool,
    /// Set once the input has no more rows.
    ended: bool,
    /// A row of the input.
    whole: Vec<Datum>,
    /// The kept values of the last row read; `waits` is set if this row is the first of the next
    /// partition.
    incoming: Vec<Datum>,
    waits: bool,
    /// The key that the rows of the partition share.
    key: Vec<u8>,
    /// The sort keys of the last row, and its group.
    order_key: Vec<u8>,
    group: i64,
    scratch: Vec<u8>,
}

impl Partition {
    /// Makes an empty reader. The caller has to call [`Partition::begin`] first.
    pub(super) fn new(
        input: &Arc<PlanNode>,
        width: usize,
        kept: &[usize],
        rt: &Runtime<'_, '_>,
    ) -> Self {
        Self {
            input: start(input, &*rt.state),
            kept: kept.to_vec(),
            rows: Rows::new(kept.len() + 1, rt.exec),
            complete: true,
            ended: false,
            whole: vec![Datum::Null; width],
            incoming: Vec::with_capacity(kept.len() + 1),
            waits: false,
            key: Vec::new(),
            order_key: Vec::new(),
            group: 0,
            scratch: Vec::new(),
        }
    }

    /// Goes on to the next partition. Returns false if there is none.
    pub(super) fn begin(&mut self, window: &Window, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        self.rows.clear();
        self.group = 0;
        if !self.waits {
            if self.ended || !self.next(rt)? {
                self.ended = true;
                return Ok(false);
            }
            self.scratch.clear();
            keys_of(&window.partition, &self.incoming, &mut self.scratch, rt)?;
        }
        self.waits = false;
        self.complete = false;
        std::mem::swap(&mut self.key, &mut self.scratch);
        self.order_key.clear();
        order_keys(window, &self.incoming, &mut self.order_key, rt)?;
        self.take()?;
        Ok(true)
    }

    /// Reads up to the row with this number. Returns false if there is no such row.
    pub(super) fn reach(
        &mut self,
        number: u64,
        window: &Window,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        while self.rows.count() <= number {
            if self.complete {
                return Ok(false);
            }
            self.read(window, rt)?;
        }
        Ok(true)
    }

    /// Reads the whole partition, and returns the number of its rows.
    pub(super) fn count(&mut self, window: &Window, rt: &mut Runtime<'_, '_>) -> Result<u64> {
        while !self.complete {
            self.read(window, rt)?;
        }
        Ok(self.rows.count())
    }

    /// Takes one more row, or finds that the partition has ended.
    fn read(&mut self, window: &Window, rt: &mut Runtime<'_, '_>) -> Result<()> {
        rt.tick()?;
        if !self.next(rt)? {
            (self.complete, self.ended) = (true, true);
            return Ok(());
        }
        if !window.partition.is_empty() {
            self.scratch.clear();
            keys_of(&window.partition, &self.incoming, &mut self.scratch, rt)?;
            if self.scratch != self.key {
                (self.complete, self.waits) = (true, true);
                return Ok(());
            }
        }
        if !window.order.is_empty() {
            self.scratch.clear();
            order_keys(window, &self.incoming, &mut self.scratch, rt)?;
            if self.scratch != self.order_key {
                self.group += 1;
                std::mem::swap(&mut self.order_key, &mut self.scratch);
            }
        }
        self.take()
    }

    /// Reads a row of the input.
    fn next(&mut self, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let found = self.input.next(&mut self.whole, rt)?;
        if found {
            self.incoming.clear();
            // The row may be too short to have values that no step wrote.
            let value = |slot: &usize| self.whole.get(*slot).cloned().unwrap_or(Datum::Null);
            self.incoming.extend(self.kept.iter().map(value));
        }
        Ok(found)
    }

    fn take(&mut self) -> Result<()> {
        self.incoming.push(Datum::Int8(self.group));
        self.rows.push(&self.incoming)?;
        self.incoming.pop();
        Ok(())
    }

    /// Returns the values of a row that [`Partition::reach`] has found.
    pub(super) fn row<'r>(&'r self, cursor: &'r mut Cursor, number: u64) -> Result<&'r [Datum]> {
        self.rows.row(cursor, number)
    }

    /// Returns a found row and the rows next to it in the same block. Behind the values of each row
    /// stands its group.
    pub(super) fn rows_from<'r>(
        &'r self,
        cursor: &'r mut Cursor,
        number: u64,
    ) -> Result<impl Iterator<Item = &'r [Datum]>> {
        Ok(self.rows.rows_from(cursor, number)?.chunks_exact(self.kept.len() + 1))
    }

    /// Returns the group of a found row, counted from 0.
    pub(super) fn group(&self, cursor: &mut Cursor, number: u64) -> Result<i64> {
        match self.rows.row(cursor, number)?.last() {
            Some(Datum::Int8(group)) => Ok(*group),
            _ => Err(SqlError::internal("a row of a window without a group")),
        }
    }

    /// Forgets the rows before a row.
    pub(super) fn forget_before(&mut self, number: u64) {
        self.rows.forget_before(number);
    }
}

/// Appends the keys of expressions over a row.
fn keys_of(
    exprs: &[Expr],
    row: &[Datum],
    out: &mut Vec<u8>,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    for expr in exprs {
        let value = expr.eval(row, rt)?;
        encode_key(&value, KeyOrder::ascending(expr.ty), out);
    }
    Ok(())
}

fn order_keys(
    window: &Window,
    row: &[Datum],
    out: &mut Vec<u8>,
    rt: &mut Runtime<'_, '_>,
) -> Result<()> {
    for key in &window.order {
        let value = key.expr.eval(row, rt)?;
        encode_key(&value, KeyOrder::ascending(key.expr.ty), out);
    }
    Ok(())
}
