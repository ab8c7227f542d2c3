//! The rows of aggregate calls that want their input in an order or without repetition:
//! `string_agg(x, ',' ORDER BY y)`, `count(DISTINCT x)`.
//!
//! The rows of all groups go to one sort, by their group's number and their keys.
//!
//! DISTINCT sorts by the requested order first and then by the other arguments, as PostgreSQL does.
//! It skips a row that equals the row before. A table of seen keys spares the sort some
//! repetitions.
//!
//! WITHIN GROUP needs the number of a group's rows before the first row arrives.

use niwaki_expr::expr::{Expr, ExprKind, Runtime};
use niwaki_expr::function::AggregateKind;
use niwaki_expr::query::AggregateCall;
use niwaki_expr::spool::{KeyTable, checked};
use niwaki_functions::aggregates::Accumulator;
use niwaki_parse::error::Result;
use niwaki_table::{KeyedRows, Sorted, Sorter};
use niwaki_types::{Datum, KeyOrder, encode_key, read_tagged_row, write_tagged_row};

/// The rows of one call.
pub(crate) struct OrderedInput {
    sorter: Option<Sorter<KeyedRows>>,
    sorted: Option<Sorted<KeyedRows>>,
    /// For DISTINCT: keys that were taken, as far as there is room for them.
    seen: Option<KeyTable>,
    /// For WITHIN GROUP: the number of rows of each group.
    rows: Vec<u64>,
    number: u64,
    key: Vec<u8>,
    row: Vec<u8>,
}

/// Bytes of the group's number before the key.
const GROUP_BYTES: usize = 4;

impl OrderedInput {
    pub(crate) fn new(call: &AggregateCall, rt: &Runtime<'_, '_>) -> Result<Self> {
        let half = rt.exec.work_mem / 2;
        let memory = if call.distinct { half } else { rt.exec.work_mem };
        Ok(Self {
            sorter: Some(rt.sorter(memory)?),
            sorted: None,
            seen: call.distinct.then(KeyTable::default),
            rows: Vec::new(),
            number: 0,
            key: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Takes the arguments of a group's row, and the row's sort keys.
    pub(crate) fn take(
        &mut self,
        group: u32,
        call: &AggregateCall,
        values: &[Datum],
        keys: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        if let AggregateKind::OrderedSet(kind) = call.kind {
            if !kind.is_hypothetical() && keys.iter().any(Datum::is_null) {
                return Ok(());
            }
            let group = group as usize;
            self.rows.resize(self.rows.len().max(group + 1), 0);
            self.rows[group] += 1;
        }
        self.key.clear();
        self.key.extend_from_slice(&group.to_be_bytes());
        encode_order(call, keys, &mut self.key);
        if call.distinct {
            // The sort keys are among the arguments. The other arguments follow as further keys.
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

    /// Ends the taking of rows, and sorts them.
    pub(crate) fn finish(&mut self, rt: &mut Runtime<'_, '_>) -> Result<()> {
        self.seen = None;
        let sorters = self.sorter.take().into_iter().collect();
        let mut sorted = Sorter::finish(sorters, &mut || rt.exec.environment.check_interrupts())?;
        sorted.next()?;
        self.sorted = Some(sorted);
        Ok(())
    }

    /// Gives the rows of a group to the group's state. The caller asks for the groups in the order
    /// of their numbers.
    pub(crate) fn give(
        &mut self,
        group: u32,
        call: &AggregateCall,
        state: &mut Accumulator,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let Some(sorted) = &mut self.sorted else { return Ok(()) };
        let rows = self.rows.get(group as usize).copied().unwrap_or(0);
        let group = group.to_be_bytes();
        let mut begun = false;
        let mut values = Vec::new();
        // What the state held at first, and at most.
        let first = state.bytes();
        let mut most = first;
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
                if let (Some(set), Some(direct)) = (state.ordered_rows(), call.direct) {
                    let (direct, ordered) = values.split_at(direct.min(values.len()));
                    if !begun {
                        let mut key = Vec::new();
                        if matches!(call.kind, AggregateKind::OrderedSet(kind) if kind.is_hypothetical())
                        {
                            encode_order(call, direct, &mut key);
                        }
                        set.begin(rows, direct, &key)?;
                        begun = true;
                    }
                    set.take(ordered, &record.key[GROUP_BYTES..]);
                } else {
                    state.add(&values, rt.exec)?;
                }
                let held = state.bytes();
                if held > most {
                    rt.charge(held - most)?;
                    most = held;
                }
            }
            sorted.next()?;
        }
        // A group without rows also reports an invalid fraction.
        if let (false, Some(set), Some(direct)) = (begun, state.ordered_rows(), call.direct) {
            let direct = &call.arguments[..direct];
            let reads_row = |part: &Expr| matches!(part.kind, ExprKind::Slot { depth: 0, .. });
            if !direct.iter().any(|argument| argument.any(&mut |part| reads_row(part))) {
                let values = direct.iter().map(|argument| argument.eval(&[], rt));
                set.begin(0, &values.collect::<Result<Vec<_>>>()?, &[])?;
            }
        }
        // The state is finished now.
        rt.state.memory = rt.state.memory.saturating_sub(most - first);
        Ok(())
    }
}

/// Writes the sort keys of a row.
fn encode_order(call: &AggregateCall, keys: &[Datum], out: &mut Vec<u8>) {
    for ((expr, descending, nulls_first), value) in call.order.iter().zip(keys) {
        let (descending, nulls_first) = (*descending, *nulls_first);
        encode_key(value, KeyOrder { oid: expr.ty, descending, nulls_first }, out);
    }
}
