//! What an aggregate wants in an order, or without repetition: `string_agg(x, ',' ORDER BY y)`, `count(DISTINCT x)`.
//!
//! The rows of all groups go to one sort, by the number of their group and their keys. DISTINCT sorts by the arguments, in
//! the order that is asked for first, as PostgreSQL does, and leaves out what is equal to the one before; what is
//! remembered besides spares the sort repetitions.

use niwaki_table::{KeyedRows, Sorted, Sorter};
use niwaki_types::{Datum, KeyOrder, encode_key, read_tagged_row, write_tagged_row};

use super::key_table::KeyTable;
use super::spill::checked;
use crate::aggregates::Accumulator;
use crate::error::Result;
use crate::expr::{Expr, Runtime};
use crate::plan::AggregateCall;

/// The rows of one call.
pub(super) struct OrderedInput {
    sorter: Option<Sorter<KeyedRows>>,
    sorted: Option<Sorted<KeyedRows>>,
    /// For DISTINCT: keys that were taken, as many as there is room for.
    seen: Option<KeyTable>,
    number: u64,
    key: Vec<u8>,
    row: Vec<u8>,
}

/// Bytes of the group's number before the key.
const GROUP_BYTES: usize = 4;

impl OrderedInput {
    pub(super) fn new(call: &AggregateCall, rt: &Runtime<'_, '_>) -> Result<Self> {
        let half = rt.exec.work_mem / 2;
        let memory = if call.distinct { half } else { rt.exec.work_mem };
        Ok(Self {
            sorter: Some(rt.sorter(memory)?),
            sorted: None,
            seen: call.distinct.then(KeyTable::default),
            number: 0,
            key: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Takes the arguments of a row of a group, and the keys of the order.
    pub(super) fn take(
        &mut self,
        group: u32,
        call: &AggregateCall,
        values: &[Datum],
        keys: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(&group.to_be_bytes());
        for ((expr, descending, nulls_first), value) in call.order.iter().zip(keys) {
            let (descending, nulls_first) = (*descending, *nulls_first);
            let order = KeyOrder { oid: expr.ty, descending, nulls_first };
            encode_key(value, order, &mut self.key);
        }
        if call.distinct {
            // The order is one of arguments; the others follow them.
            let ordered = |argument: &Expr| call.order.iter().any(|(key, ..)| key.same(argument));
            let others = call.arguments.iter().zip(values).filter(|(other, _)| !ordered(other));
            for (argument, value) in others {
                encode_key(value, KeyOrder::ascending(argument.ty), &mut self.key);
            }
        }
        if let Some(seen) = &mut self.seen {
            let hash = seen.hash(&self.key);
            if seen.find(hash, &self.key).is_some() {
                return Ok(());
            }
            if seen.has_room(self.key.len(), rt.exec.work_mem / 2) {
                seen.add(hash, &self.key, &[]);
            }
        }
        self.row.clear();
        write_tagged_row(values, &mut self.row);
        let record = checked(&self.key, self.number, &self.row)?;
        self.number += 1;
        if let Some(sorter) = &mut self.sorter {
            sorter.push(&record, &mut || rt.exec.environment.check_interrupts())?;
        }
        Ok(())
    }

    /// Ends the taking.
    pub(super) fn finish(&mut self, rt: &mut Runtime<'_, '_>) -> Result<()> {
        self.seen = None;
        let sorters = self.sorter.take().into_iter().collect();
        let mut sorted = Sorter::finish(sorters, &mut || rt.exec.environment.check_interrupts())?;
        sorted.next()?;
        self.sorted = Some(sorted);
        Ok(())
    }

    /// Gives the rows of a group to its state. Groups come in the order of their numbers.
    pub(super) fn give(
        &mut self,
        group: u32,
        call: &AggregateCall,
        state: &mut Accumulator,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let Some(sorted) = &mut self.sorted else { return Ok(()) };
        let group = group.to_be_bytes();
        let mut values = Vec::new();
        let mut charged = 0;
        self.key.clear();
        while let Some(record) = sorted.current() {
            if record.key.get(..GROUP_BYTES) != Some(&group[..]) {
                break;
            }
            rt.tick()?;
            if !call.distinct || self.key != record.key {
                self.key.clear();
                self.key.extend_from_slice(record.key);
                values.clear();
                read_tagged_row(record.row, &mut values)?;
                let before = state.bytes();
                state.add(&values, rt.exec)?;
                let grown = state.bytes().saturating_sub(before);
                if grown > 0 {
                    charged += grown;
                    rt.charge(grown)?;
                }
            }
            sorted.next()?;
        }
        // The state is finished now.
        rt.state.memory = rt.state.memory.saturating_sub(charged);
        Ok(())
    }
}
