//! The groups of an aggregation, with the states of their aggregates.
//!
//! The states of a call stand side by side, one for each group. They take rows one by one or in
//! batches.
//!
//! When the memory for groups is used up, rows of known groups still find their groups. All other
//! rows go to partitions (`spill.rs`), with their keys and the arguments of the calls, which are
//! evaluated once. If a call wants its rows in an order or without repetition, its arguments go to
//! a sort, behind the number of their group.

mod group_key;
mod spilled_groups;

use std::sync::Arc;

use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::expr::{Batch, Expr, Rows, Runtime, Values, is_true};
use niwaki_expr::query::{AggregateCall, GroupingSets};
use niwaki_expr::spool::KeyTable;
use niwaki_parse::error::Result;
use niwaki_types::{
    Datum, KeyOrder, TypeOid, encode_key, read_tagged_row, write_tagged, write_tagged_row,
};

use self::group_key::{GroupKey, set_of};
use self::spilled_groups::{Parts, arguments};
use crate::batches::batch_step::{BatchStep, Selection};
use crate::batches::parallel::Division;
use crate::grouping::ordered_input::OrderedInput;
use crate::grouping::states::{GroupOf, Growth, States};
use crate::step::spill::{Partitions, count_written};

/// Decides whether the aggregation may run in batches. The evaluation order of the expressions'
/// parts must not matter, and bytes must distinguish the groups' keys.
pub(crate) fn run_in_batches(keys: &[Expr], calls: &[AggregateCall]) -> bool {
    let parts = |call: &AggregateCall| {
        let mut parts = call.arguments.iter().chain(&call.filter);
        parts.all(Expr::may_run_ahead) && call.order.iter().all(|(key, ..)| key.may_run_ahead())
    };
    keys.iter().all(|key| has_key(key.ty) && key.may_run_ahead()) && calls.iter().all(parts)
}

/// Decides whether equal values of a type have equal index keys.
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

/// The group expressions, aggregate calls and grouping sets of an aggregation.
#[derive(Clone, Copy)]
pub(crate) struct Grouping<'p> {
    pub(crate) exprs: &'p [Expr],
    pub(crate) calls: &'p [AggregateCall],
    pub(crate) sets: &'p GroupingSets,
}

/// The groups of an aggregation.
pub(crate) struct Groups {
    pub(crate) keys: KeyTable,
    pub(crate) states: Vec<States>,
    /// The sort of each call that wants its rows in an order.
    pub(crate) inputs: Vec<Option<OrderedInput>>,
    /// The partitions for rows whose groups find no room in memory.
    later: Option<Partitions>,
    /// The number of times that the incoming rows were divided into partitions.
    level: u32,
    partitions: usize,
    /// The most bytes for keys and states.
    budget: usize,
    /// The budget of each thread while several threads take rows together, and the division that a
    /// thread stops when its budget is used up.
    together: Option<(usize, Arc<Division>)>,
    /// The memory that the states hold beyond their own size.
    grown: Growth,
    /// The key of the row at hand, and a buffer for a row to be written.
    key: Vec<u8>,
    row: Vec<u8>,
}

/// The group number of a row that went to a partition.
const NO_GROUP: u32 = u32::MAX;

impl Groups {
    /// Makes the groups that exist without any row.
    /// `batches`: rows come in batches. `level`: how often the rows have been divided before.
    pub(crate) fn new(
        grouping: Grouping<'_>,
        batches: bool,
        level: u32,
        rt: &Runtime<'_, '_>,
    ) -> Result<Self> {
        let Grouping { exprs, calls, sets } = grouping;
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
            together: None,
            grown: Growth::default(),
            key: Vec::new(),
            row: Vec::new(),
        };
        // These groups always have room, so none of their rows goes to a partition.
        for of in GroupKey::each(sets).filter(|_| level == 0) {
            if of.is_empty_set() || (sets.sets.is_empty() && exprs.is_empty()) {
                of.begin(&mut groups.key);
                groups.row.clear();
                exprs.iter().for_each(|_| write_tagged(&Datum::Null, &mut groups.row));
                let hash = groups.keys.hash(&groups.key);
                groups.keys.add(hash, &groups.key, &groups.row);
            }
        }
        groups.grow(calls);
        Ok(groups)
    }

    /// Returns the group whose key is in `self.key`. Makes a new group with these values if there
    /// is room, and otherwise returns [`NO_GROUP`].
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
            // A vector of states may have twice the capacity that its states need.
            let taken = (2 * count).saturating_mul(of_states) + self.grown.bytes;
            let size = self.key.len() + self.row.len();
            let budget = self.together.as_ref().map_or(self.budget, |(budget, _)| *budget);
            let has_room = self.keys.has_room(size, budget.saturating_sub(taken));
            if !has_room && let Some((_, division)) = &self.together {
                // Rows go to partitions only after all groups are in one table. Until then the
                // groups of a few more blocks still find room.
                division.stop();
            }
            if has_room || self.together.is_some() {
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
            self.grown += states.grow(call, count);
        }
    }

    /// Charges the growth of the states.
    fn charge(&mut self, growth: Growth, rt: &mut Runtime<'_, '_>) -> Result<()> {
        self.grown += growth;
        if growth.charged > 0 { rt.charge(growth.charged) } else { Ok(()) }
    }

    /// Begins the time in which other threads take rows of `division` too: `threads` threads with
    /// this one.
    pub(crate) fn begin_together(&mut self, threads: usize, division: &Arc<Division>) {
        self.together = Some((self.budget / threads.max(1), Arc::clone(division)));
    }

    /// Ends the common work of several threads, and adds the groups of the other threads
    /// (`others`).
    pub(crate) fn end_together(&mut self, grouping: Grouping<'_>, others: Vec<Self>) -> Result<()> {
        self.together = None;
        for other in others {
            self.add_groups(grouping.calls, other)?;
        }
        Ok(())
    }

    /// Adds the groups of another thread.
    fn add_groups(&mut self, calls: &[AggregateCall], other: Self) -> Result<()> {
        let mut places = Vec::with_capacity(other.keys.len());
        for number in 0..other.keys.len() as u32 {
            let key = other.keys.key(number);
            let hash = self.keys.hash(key);
            let known = self.keys.find(hash, key);
            places.push(known.unwrap_or_else(|| self.keys.add(hash, key, other.keys.row(number))));
        }
        self.grow(calls);
        for ((call, own), others) in calls.iter().zip(&mut self.states).zip(other.states) {
            self.grown += own.add_states(call.kind, others, &places)?;
        }
        Ok(())
    }

    /// Takes all rows of `input`.
    pub(crate) fn take_batches(
        &mut self,
        grouping: Grouping<'_>,
        input: &mut dyn BatchStep,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let (mut batch, mut selection, mut groups) =
            (Batch::default(), Selection::default(), Vec::new());
        while input.next(&mut batch, &mut selection, rt)? {
            let rows = selection.rows(&batch);
            if rows.is_empty() {
                continue;
            }
            if grouping.exprs.is_empty() && grouping.sets.sets.is_empty() {
                self.add(grouping.calls, &batch, rows, GroupOf::One(0), rt)?;
                continue;
            }
            let mut values = Vec::with_capacity(grouping.exprs.len());
            for expr in grouping.exprs {
                values.push(expr.eval_rows(&batch, rows, rt)?);
            }
            for of in GroupKey::each(grouping.sets) {
                if !grouping.sets.sets.is_empty() {
                    rt.check_interrupts()?;
                }
                if of.is_empty_set() {
                    of.begin(&mut self.key);
                    let group = self.find_or_add(|_| {}, rt)?;
                    self.add(grouping.calls, &batch, rows, GroupOf::One(group), rt)?;
                    continue;
                }
                let written = self.assign(grouping, of, &values, rows, &mut groups, rt)?;
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
                self.write_batch(grouping, of, &batch, Rows::Some(&written), rt)?;
            }
        }
        Ok(())
    }

    /// Finds the group of each row, and makes new groups.
    /// Returns the numbers of the rows without a group. `values` are the values of the group
    /// expressions.
    fn assign(
        &mut self,
        grouping: Grouping<'_>,
        of: GroupKey<'_>,
        values: &[Values<'_>],
        rows: Rows<'_>,
        groups: &mut Vec<u32>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Vec<u32>> {
        groups.clear();
        let mut written = Vec::new();
        let known = self.keys.len();
        for row in 0..rows.len() {
            of.begin(&mut self.key);
            for (number, (expr, values)) in grouping.exprs.iter().zip(values).enumerate() {
                if of.has(number) {
                    values.encode_key(row, KeyOrder::ascending(expr.ty), &mut self.key);
                }
            }
            let first = |out: &mut Vec<u8>| {
                for (number, values) in values.iter().enumerate() {
                    let value = if of.has(number) { values.get(row) } else { Datum::Null };
                    write_tagged(&value, out);
                }
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
                GroupOf::One(_) => Vec::new(),
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
                GroupOf::One(group) => GroupOf::One(group),
                GroupOf::Each(_) => GroupOf::Each(&of_kept),
            };
            grown += states.add(call, input, batch, Rows::Some(&kept), groups, rt)?;
        }
        self.charge(grown, rt)
    }

    /// Takes one row, and evaluates the calls' arguments on it.
    pub(crate) fn take_row(
        &mut self,
        grouping: Grouping<'_>,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let Grouping { exprs, calls, sets } = grouping;
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(expr.eval(row, rt)?);
        }
        if !sets.sets.is_empty() {
            return self.take_row_of_sets(grouping, &values, row, rt);
        }
        let mut group = 0;
        if !exprs.is_empty() {
            group = self.group_of(grouping, GroupKey::All, &values, rt)?;
            if group == NO_GROUP {
                let parts = Parts::of(calls, row, rt)?;
                return self.write_row(&values, calls, &parts);
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

    /// Takes one row into one group of each grouping set. The calls' arguments are computed once.
    /// `values` are the values of the group expressions.
    fn take_row_of_sets(
        &mut self,
        grouping: Grouping<'_>,
        values: &[Datum],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let parts = Parts::of(grouping.calls, row, rt)?;
        let mut of_set = Vec::with_capacity(values.len());
        for of in GroupKey::each(grouping.sets) {
            rt.tick()?;
            of_set.clear();
            let own = |(number, value): (usize, &Datum)| {
                if of.has(number) { value.clone() } else { Datum::Null }
            };
            of_set.extend(values.iter().enumerate().map(own));
            let group = self.group_of(grouping, of, &of_set, rt)?;
            if group == NO_GROUP {
                self.write_row(&of_set, grouping.calls, &parts)?;
            } else {
                self.add_parts(group, grouping.calls, &parts, rt)?;
            }
        }
        Ok(())
    }

    /// Returns the group of a row with these values of the group expressions, and puts its key into
    /// `self.key`.
    fn group_of(
        &mut self,
        grouping: Grouping<'_>,
        of: GroupKey<'_>,
        values: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<u32> {
        of.begin(&mut self.key);
        for (number, (expr, value)) in grouping.exprs.iter().zip(values).enumerate() {
            if of.has(number) {
                encode_key(value, KeyOrder::ascending(expr.ty), &mut self.key);
            }
        }
        let known = self.keys.len();
        let group = self.find_or_add(|out| write_tagged_row(values, out), rt)?;
        if self.keys.len() > known {
            self.grow(grouping.calls);
        }
        Ok(group)
    }

    /// Gives a row's arguments to the states of a group.
    fn add_parts(
        &mut self,
        group: u32,
        calls: &[AggregateCall],
        parts: &[Parts],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let mut grown = Growth::default();
        let states = self.states.iter_mut().zip(&mut self.inputs);
        for ((call, parts), (states, input)) in calls.iter().zip(parts).zip(states) {
            match input {
                _ if !parts.counts => {}
                Some(input) => input.take(group, call, &parts.values, &parts.keys, rt)?,
                None => grown += states.add_row(group, &parts.values, rt.exec)?,
            }
        }
        self.charge(grown, rt)
    }

    /// Ends the taking of rows, and returns the partitions that were written.
    pub(crate) fn finish(
        &mut self,
        space: &mut SpaceUse,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Vec<crate::step::spill::Partition>> {
        let of_states: usize = self.states.iter().map(States::bytes).sum();
        let memory = self.keys.memory() + self.keys.len() * of_states + self.grown.bytes;
        space.table(memory, self.keys.len());
        for input in self.inputs.iter_mut().flatten() {
            input.finish(rt)?;
        }
        let partitions = self.later.take().map(Partitions::finish).transpose()?;
        let partitions = partitions.unwrap_or_default();
        count_written(space, &partitions);
        Ok(partitions)
    }

    /// Puts the row of a group into `row`: its values, the calls' results, and the values of
    /// GROUPING.
    /// The caller asks for each group once, in the order of the groups' numbers.
    pub(crate) fn result(
        &mut self,
        group: u32,
        grouping: Grouping<'_>,
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        row.clear();
        read_tagged_row(self.keys.row(group), row)?;
        let parts = grouping.calls.iter().zip(&mut self.states).zip(&mut self.inputs);
        for ((call, states), input) in parts {
            let mut state = states.take(group, call.kind);
            if let Some(input) = input {
                input.give(group, call, &mut state, rt)?;
            }
            row.push(state.finish()?);
        }
        let set = set_of(self.keys.key(group));
        let sets = grouping.sets;
        row.extend((0..sets.calls.len()).map(|call| Datum::Int4(sets.grouping(call, set))));
        Ok(())
    }

    /// Returns the bytes that the groups charged to the statement.
    pub(crate) fn charged(&self) -> usize {
        self.grown.charged
    }
}
