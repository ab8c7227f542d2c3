//! Groups and the states of their aggregates, which stand side by side, one for each group, and take rows one by one or
//! many at once.
//!
//! When the memory for groups is used up, rows of groups that are there still find them; all others are divided into partitions
//! (`spill.rs`), with their keys and the arguments of the calls, which are evaluated once. What a call wants in an order, or
//! without repetition, goes to a sort, behind the number of its group.

use niwaki_types::{
    Datum, KeyOrder, TypeOid, encode_key, read_tagged_row, write_tagged, write_tagged_row,
};

use super::batches::{BatchStep, Kept};
use super::key_table::KeyTable;
use super::ordered_input::OrderedInput;
use super::spill::{Partitions, SpaceUse};
use super::states::{GroupOf, Growth, States};
use crate::error::{Result, SqlError};
use crate::expr::{Batch, Expr, Rows, Runtime, Values, is_true};
use crate::plan::AggregateCall;

/// Whether the order in which the parts of these expressions are evaluated makes no difference, and the groups have keys
/// that bytes tell apart.
pub(super) fn run_in_batches(keys: &[Expr], calls: &[AggregateCall]) -> bool {
    let parts = |call: &AggregateCall| {
        let mut parts = call.arguments.iter().chain(&call.filter);
        parts.all(Expr::may_run_ahead) && call.order.iter().all(|(key, ..)| key.may_run_ahead())
    };
    keys.iter().all(|key| has_key(key.ty) && key.may_run_ahead()) && calls.iter().all(parts)
}

/// Types whose values are equal where their index keys are.
fn has_key(oid: TypeOid) -> bool {
    matches!(
        oid,
        TypeOid::BOOL
            | TypeOid::INT2
            | TypeOid::INT4
            | TypeOid::INT8
            | TypeOid::FLOAT4
            | TypeOid::FLOAT8
            | TypeOid::NUMERIC
            | TypeOid::TEXT
            | TypeOid::VARCHAR
            | TypeOid::BPCHAR
            | TypeOid::NAME
            | TypeOid::DATE
            | TypeOid::TIMESTAMP
            | TypeOid::TIMESTAMPTZ
            | TypeOid::OID
    )
}

/// What is grouped and computed.
#[derive(Clone, Copy)]
pub(super) struct Grouping<'p> {
    pub(super) exprs: &'p [Expr],
    pub(super) calls: &'p [AggregateCall],
}

/// The groups of an aggregation.
pub(super) struct Groups {
    pub(super) keys: KeyTable,
    pub(super) states: Vec<States>,
    /// For each call that wants its rows in an order.
    pub(super) inputs: Vec<Option<OrderedInput>>,
    /// Where rows go whose groups there is no room for.
    later: Option<Partitions>,
    /// How often the rows that come in have been divided.
    level: u32,
    partitions: usize,
    /// Bytes for keys and states.
    budget: usize,
    /// What the states hold beyond their own size.
    grown: Growth,
    /// The key of the row at hand, and a row to be written.
    key: Vec<u8>,
    row: Vec<u8>,
}

/// Stands for the group of a row that was written.
const NO_GROUP: u32 = u32::MAX;

impl Groups {
    /// No groups yet; without expressions to group by, one. `batches`: rows come in batches.
    pub(super) fn new(
        grouping: Grouping<'_>,
        batches: bool,
        level: u32,
        rt: &Runtime<'_, '_>,
    ) -> Result<Self> {
        let Grouping { exprs, calls } = grouping;
        let partitions = Partitions::count(rt, rt.exec.hash_mem);
        let mut inputs = Vec::with_capacity(calls.len());
        for call in calls {
            let ordered = call.distinct || !call.order.is_empty();
            inputs.push(if ordered { Some(OrderedInput::new(call, rt)?) } else { None });
        }
        let state = if batches { States::of } else { States::row_by_row };
        let mut groups = Self {
            keys: KeyTable::default(),
            states: calls.iter().map(state).collect(),
            inputs,
            later: None,
            level,
            partitions,
            budget: rt.exec.hash_mem.saturating_sub(Partitions::buffers(rt, partitions)),
            grown: Growth::default(),
            key: Vec::new(),
            row: Vec::new(),
        };
        if exprs.is_empty() {
            let hash = groups.keys.hash(&[]);
            groups.keys.add(hash, &[], &[]);
            groups.grow(calls);
        }
        Ok(groups)
    }

    /// The group whose key is in `self.key`; one that is not there is made, with these values, if there is room.
    fn find_or_add(
        &mut self,
        values: impl FnOnce(&mut Vec<u8>),
        rt: &Runtime<'_, '_>,
    ) -> Result<u32> {
        let hash = self.keys.hash(&self.key);
        if let Some(group) = self.keys.find(hash, &self.key) {
            return Ok(group);
        }
        if self.later.is_none() {
            self.row.clear();
            values(&mut self.row);
            let of_states: usize = self.states.iter().map(States::bytes).sum();
            let count = self.keys.len() + 1;
            // Vectors of states may be as large again as what is in them.
            let taken = (2 * count).saturating_mul(of_states) + self.grown.bytes;
            let size = self.key.len() + self.row.len();
            if self.keys.has_room(size, self.budget.saturating_sub(taken)) {
                return Ok(self.keys.add(hash, &self.key, &self.row));
            }
            self.later = Some(Partitions::new(rt, self.partitions, self.level)?);
        }
        Ok(NO_GROUP)
    }

    /// Gives each call a state for each group.
    fn grow(&mut self, calls: &[AggregateCall]) {
        let count = self.keys.len();
        for (call, states) in calls.iter().zip(&mut self.states) {
            states.grow(call, count);
        }
    }

    /// Charges what the states have grown by.
    fn charge(&mut self, growth: Growth, rt: &mut Runtime<'_, '_>) -> Result<()> {
        self.grown += growth;
        if growth.charged > 0 { rt.charge(growth.charged) } else { Ok(()) }
    }

    /// Takes all rows of `input`.
    pub(super) fn take_batches(
        &mut self,
        grouping: Grouping<'_>,
        mut input: Box<dyn BatchStep>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let (mut batch, mut kept, mut groups) = (Batch::default(), Kept::default(), Vec::new());
        while input.next(&mut batch, &mut kept, rt)? {
            let rows = kept.rows(&batch);
            if rows.len() == 0 {
                continue;
            }
            if grouping.exprs.is_empty() {
                self.add(grouping.calls, &batch, rows, GroupOf::First, rt)?;
                continue;
            }
            let written = self.assign(grouping, &batch, rows, &mut groups, rt)?;
            if written.is_empty() {
                self.add(grouping.calls, &batch, rows, GroupOf::Each(&groups), rt)?;
                continue;
            }
            let held: Vec<u32> = (0..rows.len())
                .filter(|position| groups[*position] != NO_GROUP)
                .map(|position| rows.number(position) as u32)
                .collect();
            groups.retain(|group| *group != NO_GROUP);
            self.add(grouping.calls, &batch, Rows::Some(&held), GroupOf::Each(&groups), rt)?;
            self.write_batch(grouping, &batch, Rows::Some(&written), rt)?;
        }
        Ok(())
    }

    /// Finds the group of each row, and makes those that are new; returns the numbers of the rows that have none.
    fn assign(
        &mut self,
        grouping: Grouping<'_>,
        batch: &Batch,
        rows: Rows<'_>,
        groups: &mut Vec<u32>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Vec<u32>> {
        let exprs = grouping.exprs;
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(expr.eval_rows(batch, rows, rt)?);
        }
        groups.clear();
        let mut written = Vec::new();
        let known = self.keys.len();
        for row in 0..rows.len() {
            self.key.clear();
            for (expr, values) in exprs.iter().zip(&values) {
                values.encode_key(row, KeyOrder::ascending(expr.ty), &mut self.key);
            }
            let first = |out: &mut Vec<u8>| {
                values.iter().for_each(|values| write_tagged(&values.get(row), out));
            };
            let group = self.find_or_add(first, rt)?;
            if group == NO_GROUP {
                written.push(rows.number(row) as u32);
            }
            groups.push(group);
        }
        if self.keys.len() > known {
            self.grow(grouping.calls);
        }
        Ok(written)
    }

    fn add(
        &mut self,
        calls: &[AggregateCall],
        batch: &Batch,
        rows: Rows<'_>,
        groups: GroupOf<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let mut grown = Growth::default();
        for ((call, states), input) in calls.iter().zip(&mut self.states).zip(&mut self.inputs) {
            let Some(filter) = &call.filter else {
                grown += states.add(call, input, batch, rows, groups, rt)?;
                continue;
            };
            let mut kept = Vec::new();
            filter.select(batch, rows, &mut kept, rt)?;
            let of_kept: Vec<u32> = match groups {
                GroupOf::First => Vec::new(),
                GroupOf::Each(groups) => {
                    // Both are in ascending order.
                    let mut left = kept.iter().peekable();
                    let positions = (0..rows.len()).filter(|position| {
                        let number = rows.number(*position) as u32;
                        left.next_if(|kept| **kept == number).is_some()
                    });
                    positions.map(|position| groups[position]).collect()
                }
            };
            let groups = match groups {
                GroupOf::First => GroupOf::First,
                GroupOf::Each(_) => GroupOf::Each(&of_kept),
            };
            grown += states.add(call, input, batch, Rows::Some(&kept), groups, rt)?;
        }
        self.charge(grown, rt)
    }

    /// Writes rows whose groups there is no room for.
    fn write_batch(
        &mut self,
        grouping: Grouping<'_>,
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
            self.key.clear();
            self.row.clear();
            for (expr, values) in grouping.exprs.iter().zip(&keys) {
                values.encode_key(position, KeyOrder::ascending(expr.ty), &mut self.key);
                write_tagged(&values.get(position), &mut self.row);
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

    /// Takes one row; the calls' arguments are read from it.
    pub(super) fn take_row(
        &mut self,
        grouping: Grouping<'_>,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let Grouping { exprs, calls } = grouping;
        let mut group = 0;
        if !exprs.is_empty() {
            let mut values = Vec::with_capacity(exprs.len());
            self.key.clear();
            for expr in exprs {
                let value = expr.eval(row, rt)?;
                encode_key(&value, KeyOrder::ascending(expr.ty), &mut self.key);
                values.push(value);
            }
            let known = self.keys.len();
            group = self.find_or_add(|out| write_tagged_row(&values, out), rt)?;
            if group == NO_GROUP {
                return self.write_row(&values, calls, row, rt);
            }
            if self.keys.len() > known {
                self.grow(calls);
            }
        }
        let mut grown = Growth::default();
        for ((call, states), input) in calls.iter().zip(&mut self.states).zip(&mut self.inputs) {
            if let Some(filter) = &call.filter
                && !is_true(&filter.eval(row, rt)?)
            {
                continue;
            }
            if let (None, [argument]) = (&input, call.arguments.as_slice()) {
                let value = argument.eval(row, rt)?;
                grown += states.add_row(group, std::slice::from_ref(&value), rt.exec)?;
                continue;
            }
            let (values, keys) = arguments(call, row, rt)?;
            match input {
                Some(input) => input.take(group, call, &values, &keys, rt)?,
                None => grown += states.add_row(group, &values, rt.exec)?,
            }
        }
        self.charge(grown, rt)
    }

    fn write_row(
        &mut self,
        keys: &[Datum],
        calls: &[AggregateCall],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        self.row.clear();
        write_tagged_row(keys, &mut self.row);
        for call in calls {
            let counts = match &call.filter {
                Some(filter) => is_true(&filter.eval(row, rt)?),
                None => true,
            };
            write_tagged(&Datum::Bool(counts), &mut self.row);
            if counts {
                let (values, keys) = arguments(call, row, rt)?;
                write_tagged_row(&values, &mut self.row);
                write_tagged_row(&keys, &mut self.row);
            } else {
                (0..call.arguments.len() + call.order.len())
                    .for_each(|_| write_tagged(&Datum::Null, &mut self.row));
            }
        }
        self.write()
    }

    /// Takes a row that was written: its key, its group's values and the calls' arguments.
    pub(super) fn take_written(
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

    /// Ends the taking: the partitions that were written.
    pub(super) fn finish(
        &mut self,
        space: &mut SpaceUse,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Vec<super::spill::Partition>> {
        let of_states: usize = self.states.iter().map(States::bytes).sum();
        let memory = self.keys.memory() + self.keys.len() * of_states + self.grown.bytes;
        space.table(memory, self.keys.len());
        for input in self.inputs.iter_mut().flatten() {
            input.finish(rt)?;
        }
        let partitions = self.later.take().map(Partitions::finish).transpose()?;
        let partitions = partitions.unwrap_or_default();
        space.wrote(&partitions);
        Ok(partitions)
    }

    /// Puts the row of a group into `row`: its values, and the results of the calls. Groups are asked for in the order of
    /// their numbers, each once.
    pub(super) fn result(
        &mut self,
        group: u32,
        calls: &[AggregateCall],
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        row.clear();
        read_tagged_row(self.keys.row(group), row)?;
        let parts = calls.iter().zip(&mut self.states).zip(&mut self.inputs);
        for ((call, states), input) in parts {
            let mut state = states.take(group, call.kind);
            if let Some(input) = input {
                input.give(group, call, &mut state, rt)?;
            }
            row.push(state.finish()?);
        }
        Ok(())
    }

    /// Bytes that were charged to the statement.
    pub(super) fn charged(&self) -> usize {
        self.grown.charged
    }
}

/// The arguments of a call, and the keys of its order, for a row.
fn arguments(
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
