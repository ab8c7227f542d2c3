//! Writes the rows whose groups find no room in memory, and reads them again.

use niwaki_expr::expr::{Batch, Rows, Runtime, Values, is_true};
use niwaki_expr::query::AggregateCall;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, KeyOrder, read_tagged_row, write_tagged, write_tagged_row};

use super::group_key::GroupKey;
use super::{Grouping, Groups, NO_GROUP};
use crate::grouping::states::Growth;

/// The arguments of a row for one call.
pub(super) struct Parts {
    /// Set if the call's FILTER accepts the row.
    pub(super) counts: bool,
    /// The call's arguments.
    pub(super) values: Vec<Datum>,
    /// The call's sort keys.
    pub(super) keys: Vec<Datum>,
}

impl Parts {
    /// Evaluates the arguments of each call on a row.
    pub(super) fn of(
        calls: &[AggregateCall],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Vec<Self>> {
        let mut all = Vec::with_capacity(calls.len());
        for call in calls {
            let counts = match &call.filter {
                Some(filter) => is_true(&filter.eval(row, rt)?),
                None => true,
            };
            let (values, keys) =
                if counts { arguments(call, row, rt)? } else { (Vec::new(), Vec::new()) };
            all.push(Self { counts, values, keys });
        }
        Ok(all)
    }
}

/// Evaluates the arguments and the sort keys of a call on a row.
pub(super) fn arguments(
    call: &AggregateCall,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<(Vec<Datum>, Vec<Datum>)> {
    let mut values = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        values.push(argument.eval(row, rt)?);
    }
    let mut keys = Vec::with_capacity(call.order.len());
    for (expr, ..) in &call.order {
        keys.push(expr.eval(row, rt)?);
    }
    Ok((values, keys))
}

impl Groups {
    /// Writes rows whose groups find no room in memory.
    pub(super) fn write_batch(
        &mut self,
        grouping: Grouping<'_>,
        of: GroupKey<'_>,
        batch: &Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let Rows::Some(numbers) = rows else { return Ok(()) };
        let mut keys: Vec<Values<'_>> = Vec::with_capacity(grouping.exprs.len());
        for expr in grouping.exprs {
            keys.push(expr.eval_rows(batch, rows, rt)?);
        }
        let mut parts = Vec::with_capacity(grouping.calls.len());
        for call in grouping.calls {
            let mut kept = Vec::new();
            match &call.filter {
                Some(filter) => filter.select(batch, rows, &mut kept, rt)?,
                None => kept.extend_from_slice(numbers),
            }
            let mut values = Vec::new();
            for expr in call.arguments.iter().chain(call.order.iter().map(|(expr, ..)| expr)) {
                values.push(expr.eval_rows(batch, Rows::Some(&kept), rt)?);
            }
            parts.push((kept, values, 0));
        }
        for (position, number) in numbers.iter().enumerate() {
            rt.tick()?;
            of.begin(&mut self.key);
            self.row.clear();
            for (number, (expr, values)) in grouping.exprs.iter().zip(&keys).enumerate() {
                if of.has(number) {
                    values.encode_key(position, KeyOrder::ascending(expr.ty), &mut self.key);
                    write_tagged(&values.get(position), &mut self.row);
                } else {
                    write_tagged(&Datum::Null, &mut self.row);
                }
            }
            for (kept, values, next) in &mut parts {
                let counts = kept.get(*next) == Some(number);
                write_tagged(&Datum::Bool(counts), &mut self.row);
                for values in values.iter() {
                    let value = if counts { values.get(*next) } else { Datum::Null };
                    write_tagged(&value, &mut self.row);
                }
                *next += usize::from(counts);
            }
            self.write()?;
        }
        Ok(())
    }

    /// Writes the row at hand to the partition of its key.
    fn write(&mut self) -> Result<()> {
        match &mut self.later {
            Some(later) => later.push(&self.key, 0, &self.row),
            None => Err(SqlError::internal("a group without room, and no partitions")),
        }
    }

    /// Writes a row whose key is in `self.key`.
    pub(super) fn write_row(
        &mut self,
        keys: &[Datum],
        calls: &[AggregateCall],
        parts: &[Parts],
    ) -> Result<()> {
        self.row.clear();
        write_tagged_row(keys, &mut self.row);
        for (call, parts) in calls.iter().zip(parts) {
            write_tagged(&Datum::Bool(parts.counts), &mut self.row);
            if parts.counts {
                write_tagged_row(&parts.values, &mut self.row);
                write_tagged_row(&parts.keys, &mut self.row);
            } else {
                (0..call.arguments.len() + call.order.len())
                    .for_each(|_| write_tagged(&Datum::Null, &mut self.row));
            }
        }
        self.write()
    }

    /// Takes a written row: its key, its group's values and the calls' arguments.
    pub(crate) fn take_written(
        &mut self,
        grouping: Grouping<'_>,
        key: &[u8],
        written: &[u8],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let mut row = Vec::new();
        read_tagged_row(written, &mut row)?;
        let damaged = || SqlError::internal("a written row of another aggregate");
        let (values, mut rest) = row.split_at_checked(grouping.exprs.len()).ok_or_else(damaged)?;
        self.key.clear();
        self.key.extend_from_slice(key);
        let known = self.keys.len();
        let group = self.find_or_add(|out| write_tagged_row(values, out), rt)?;
        if group == NO_GROUP {
            self.row.clear();
            self.row.extend_from_slice(written);
            return self.write();
        }
        if self.keys.len() > known {
            self.grow(grouping.calls);
        }
        let mut grown = Growth::default();
        let parts = grouping.calls.iter().zip(&mut self.states).zip(&mut self.inputs);
        for ((call, states), input) in parts {
            let (counts, behind) = rest.split_first().ok_or_else(damaged)?;
            let (values, behind) =
                behind.split_at_checked(call.arguments.len()).ok_or_else(damaged)?;
            let (keys, behind) = behind.split_at_checked(call.order.len()).ok_or_else(damaged)?;
            rest = behind;
            match input {
                _ if !is_true(counts) => {}
                Some(input) => input.take(group, call, values, keys, rt)?,
                None => grown += states.add_row(group, values, rt.exec)?,
            }
        }
        self.charge(grown, rt)
    }
}
