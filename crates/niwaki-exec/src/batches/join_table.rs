//! The table of inner rows of a batch hash join, which stores the rows column by column.

use niwaki_expr::expr::{Batch, Expr, Rows, Runtime, Values};
use niwaki_expr::plan::{JoinKind, JoinPlan};
use niwaki_expr::query::SlotRange;
use niwaki_expr::spool::{END, KeyChains, NumberChains};
use niwaki_parse::error::Result;
use niwaki_types::growing::value_bytes;
use niwaki_types::{Datum, KeyOrder, TypeOid, Vector, VectorData};

use super::large_values::{bytes_of, has_large_row};

/// Chains of inner rows by their keys.
pub(super) enum Chains {
    /// The key is one number.
    Numbers(NumberChains),
    /// Any other key, as an index key.
    Bytes(KeyChains),
}

impl Chains {
    /// Makes the chains for the keys of a join.
    fn of(join: &JoinPlan) -> Self {
        if Keys::are_numbers(join) {
            Self::Numbers(NumberChains::default())
        } else {
            Self::Bytes(KeyChains::default())
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(chains) => chains.len(),
            Self::Bytes(chains) => chains.len(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Numbers(chains) => chains.memory(),
            Self::Bytes(chains) => chains.memory(),
        }
    }

    pub(super) fn is_unique(&self) -> bool {
        match self {
            Self::Numbers(chains) => chains.is_unique(),
            Self::Bytes(chains) => chains.is_unique(),
        }
    }

    /// Adds the row at a position. Returns false if a part of the row's key is NULL.
    fn add(&mut self, keys: &Keys, place: usize) -> bool {
        match self {
            Self::Numbers(chains) => keys.number(place).map(|key| chains.add(key)).is_some(),
            Self::Bytes(chains) => keys.get(place).map(|key| chains.add(Some(key))).is_some(),
        }
    }

    /// Decides whether a row has the key of the row at a position.
    fn has(&self, keys: &Keys, place: usize) -> bool {
        let first = match self {
            Self::Numbers(chains) => keys.number(place).map(|key| chains.first(key)),
            Self::Bytes(chains) => keys.get(place).map(|key| chains.first(key)),
        };
        first.is_some_and(|first| first != END)
    }

    /// Finds the first row with the key of each of the first `places` rows.
    pub(super) fn first(&self, keys: &Keys, places: usize, out: &mut Vec<u32>) {
        out.clear();
        match self {
            Self::Numbers(chains) => out
                .extend((0..places).map(|at| keys.number(at).map_or(END, |key| chains.first(key)))),
            Self::Bytes(chains) => {
                out.extend((0..places).map(|at| keys.get(at).map_or(END, |key| chains.first(key))));
            }
        }
    }

    #[inline]
    pub(super) fn behind(&self, number: u32) -> u32 {
        match self {
            Self::Numbers(chains) => chains.behind(number),
            Self::Bytes(chains) => chains.behind(number),
        }
    }
}

/// Inner rows in memory.
pub(super) struct Table {
    pub(super) chains: Chains,
    /// The values of the rows, by slot. Slots that nothing reads have no values.
    columns: Vec<(usize, Vector)>,
    /// Bytes that the values point to.
    pointed: usize,
    /// One row of each key is enough, because the join asks only whether there is one.
    once: bool,
    pub(super) unique: bool,
    /// Set if a row is so large that the bytes limit a batch of its copies.
    pub(super) has_large: bool,
}

pub(super) fn slots(ranges: &[SlotRange]) -> impl Iterator<Item = usize> {
    ranges.iter().flat_map(|range| range.start..range.end)
}

/// Returns the vector at a slot, if the vector has a value for each row.
pub(super) fn column(batch: &Batch, slot: usize) -> Option<&Vector> {
    batch.columns.get(slot).filter(|vector| vector.len() == batch.rows)
}

pub(super) fn put(batch: &mut Batch, slot: usize, vector: Vector) {
    if batch.columns.len() <= slot {
        batch.columns.resize_with(slot + 1, Vector::default);
    }
    batch.columns[slot] = vector;
}

pub(super) fn nulls(count: usize) -> Vector {
    Vector::with_nulls(VectorData::Any(vec![Datum::Null; count]), vec![true; count])
}

impl Table {
    pub(super) fn new(join: &JoinPlan) -> Self {
        let once = matches!(join.kind, JoinKind::Semi | JoinKind::Anti) && join.condition.is_none();
        Self {
            chains: Chains::of(join),
            columns: Vec::new(),
            pointed: 0,
            once,
            unique: false,
            has_large: false,
        }
    }

    /// Ends the adding of rows.
    pub(super) fn finish(&mut self) {
        self.unique = self.chains.is_unique();
        let columns = self.columns.iter().map(|(_, values)| values);
        self.has_large = has_large_row(columns, self.chains.len());
    }

    /// Returns the bytes of a row's values outside the vectors' slots.
    pub(super) fn row_bytes(&self, row: u32) -> usize {
        self.columns.iter().map(|(_, values)| bytes_of(values, row as usize)).sum()
    }

    /// Adds the rows of a batch that count, with their keys.
    pub(super) fn add(&mut self, join: &JoinPlan, batch: &Batch, rows: Rows<'_>, keys: &Keys) {
        if self.columns.is_empty() {
            let read = slots(&join.inner_slots).filter(|slot| column(batch, *slot).is_some());
            let like = |slot: usize| (slot, batch.columns[slot].take(&[]));
            self.columns = read.map(like).collect();
        }
        for place in 0..rows.len() {
            let known = self.once && self.chains.has(keys, place);
            if known || !self.chains.add(keys, place) {
                continue;
            }
            for (slot, values) in &mut self.columns {
                // A batch may have values for slots that nothing reads, where other batches have
                // none.
                let Some(from) = column(batch, *slot) else {
                    values.push_null();
                    continue;
                };
                let row = rows.number(place);
                values.push_from(from, row);
                if let VectorData::Any(any) = from.data() {
                    self.pointed += value_bytes(&any[row]);
                }
            }
        }
    }

    /// Turns the table into one batch of all its rows.
    pub(super) fn into_batch(self) -> Batch {
        let mut batch = Batch { rows: self.chains.len(), columns: Vec::new() };
        for (slot, values) in self.columns {
            put(&mut batch, slot, values);
        }
        batch
    }

    pub(super) fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(|(_, values)| values.memory()).sum();
        self.chains.memory() + columns + self.pointed
    }

    /// Returns the values of inner rows, by slot. An outer row without a partner gets NULL in all
    /// slots.
    pub(super) fn values<'t>(
        &'t self,
        join: &'t JoinPlan,
        rows: &'t [u32],
    ) -> impl Iterator<Item = (usize, Vector)> + 't {
        let absent = rows.contains(&END);
        let taken = self.columns.iter().map(move |(slot, values)| {
            if !absent {
                return (*slot, values.take(rows));
            }
            let mut vector = values.take(&[]);
            for row in rows {
                match *row {
                    END => vector.push_null(),
                    row => vector.push_from(values, row as usize),
                }
            }
            (*slot, vector)
        });
        // Without any inner row the table does not know the slots that are read.
        let unknown = self.columns.is_empty().then(|| slots(&join.inner_slots));
        taken.chain(unknown.into_iter().flatten().map(move |slot| (slot, nulls(rows.len()))))
    }
}

/// Keys of rows: numbers, or index keys one behind the other.
#[derive(Default)]
pub(super) struct Keys {
    numbers: Vec<Option<i64>>,
    bytes: Vec<u8>,
    /// The end offset of each key, and whether the key is complete.
    ends: Vec<(usize, bool)>,
}

impl Keys {
    /// Decides whether the keys of a join are single numbers.
    pub(super) fn are_numbers(join: &JoinPlan) -> bool {
        let is_number = |expr: &Expr| {
            matches!(expr.ty, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8 | TypeOid::DATE)
        };
        matches!(join.hash.as_slice(), [key] if is_number(&key.outer) && key.outer.ty == key.inner.ty)
    }

    /// Replaces all keys by the keys of the rows that count.
    pub(super) fn fill<'e>(
        &mut self,
        parts: impl Iterator<Item = &'e Expr>,
        numbers: bool,
        batch: &Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        self.numbers.clear();
        self.bytes.clear();
        self.ends.clear();
        let mut values = Vec::new();
        for part in parts {
            values.push((KeyOrder::ascending(part.ty), part.eval_rows(batch, rows, rt)?));
        }
        if let (true, Some((_, values))) = (numbers, values.first()) {
            self.numbers.extend((0..rows.len()).map(|place| number_of(values, place)));
            return Ok(());
        }
        for place in 0..rows.len() {
            let mut complete = true;
            for (order, values) in &values {
                complete &= !values.is_null(place);
                values.encode_key(place, *order, &mut self.bytes);
            }
            self.ends.push((self.bytes.len(), complete));
        }
        Ok(())
    }

    /// Returns the key of the row at a position; `None` if the key is NULL, which equals nothing.
    #[inline]
    fn number(&self, place: usize) -> Option<i64> {
        self.numbers[place]
    }

    /// Returns the key of the row at a position; `None` if a part of the key is NULL, which equals
    /// nothing.
    pub(super) fn get(&self, place: usize) -> Option<&[u8]> {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, complete) = self.ends[place];
        complete.then(|| &self.bytes[begin..end])
    }
}

/// Returns the value at a position, of a type whose values are numbers.
#[inline]
fn number_of(values: &Values<'_>, place: usize) -> Option<i64> {
    if let Values::Each(vector) = values {
        if vector.is_null(place) {
            return None;
        }
        match vector.data() {
            VectorData::Int2(values) => return Some(values[place].into()),
            VectorData::Int4(values) | VectorData::Date(values) => {
                return Some(values[place].into());
            }
            VectorData::Int8(values) => return Some(values[place]),
            _ => {}
        }
    }
    match values.get(place) {
        Datum::Int2(value) => Some(value.into()),
        Datum::Int4(value) | Datum::Date(value) => Some(value.into()),
        Datum::Int8(value) => Some(value),
        _ => None,
    }
}
