//! A hash join of rows that come in batches.
//!
//! The inner rows stand column by column, and are found by their keys. Where an outer row meets one of them at most, the batch
//! goes up as it came, with the inner values beside it and fewer rows that count; else pairs are made, some at a time. Inner rows
//! that do not fit in memory go the way of single rows (`hash_join.rs`), and so does the join then.

use std::sync::Arc;

use niwaki_types::{Datum, KeyOrder, TypeOid, Vector, VectorData};

use super::rows::RowBatches;
use super::{BATCH_ROWS, BatchStep, Kept, clock, measure};
use crate::error::{Result, SqlError};
use crate::exec::hash_join::Building;
use crate::exec::join::Join;
use crate::exec::key_chains::{END, KeyChains, NumberChains};
use crate::exec::spill::SpaceUse;
use crate::exec::{start as start_rows, value_bytes};
use crate::expr::{Batch, Expr, Rows, Runtime, Values};
use crate::plan::{JoinKind, JoinPlan, PlanNode, SlotRange};

/// A hash join.
pub(super) struct BatchJoin {
    plan: Arc<PlanNode>,
    outer: Box<dyn BatchStep>,
    inner: Inner,
    /// The outer rows at hand, where pairs are made of them.
    batch: Batch,
    kept: Kept,
    /// For each outer row that counts, the first inner row with its key.
    found: Vec<u32>,
    /// The outer row, by its place among those that count, and the inner row that make the next pair.
    place: usize,
    next: u32,
    /// Which of the outer rows that count have matched.
    matched: Vec<bool>,
    /// Whether the outer rows of the batch that have not matched are still to be given.
    rest: bool,
    keys: Keys,
    begun: bool,
}

/// The inner rows.
enum Inner {
    /// They were not read yet.
    New,
    Table(Table),
    /// The join goes on row by row, and its rows come from here.
    Rows(RowBatches),
}

/// Inner rows by their keys.
enum Chains {
    /// One number.
    Numbers(NumberChains),
    /// Anything else, as index keys.
    Bytes(KeyChains),
}

impl Chains {
    /// For the keys of a join.
    fn of(join: &JoinPlan) -> Self {
        match Keys::are_numbers(join) {
            true => Self::Numbers(NumberChains::default()),
            false => Self::Bytes(KeyChains::default()),
        }
    }

    fn len(&self) -> usize {
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

    fn is_unique(&self) -> bool {
        match self {
            Self::Numbers(chains) => chains.is_unique(),
            Self::Bytes(chains) => chains.is_unique(),
        }
    }

    /// Adds the row at a place; false if its key is not complete.
    fn add(&mut self, keys: &Keys, place: usize) -> bool {
        match self {
            Self::Numbers(chains) => keys.number(place).map(|key| chains.add(key)).is_some(),
            Self::Bytes(chains) => keys.get(place).map(|key| chains.add(Some(key))).is_some(),
        }
    }

    /// The first row with the key of the row at each of so many places.
    fn first(&self, keys: &Keys, places: usize, out: &mut Vec<u32>) {
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
    fn behind(&self, number: u32) -> u32 {
        match self {
            Self::Numbers(chains) => chains.behind(number),
            Self::Bytes(chains) => chains.behind(number),
        }
    }
}

/// Inner rows in memory.
struct Table {
    chains: Chains,
    /// Their values, by slot; those of slots that nothing reads are not there.
    columns: Vec<(usize, Vector)>,
    /// Bytes that values point to.
    pointed: usize,
    unique: bool,
}

/// Whether a join can be run so.
pub(super) fn joins_in_batches(join: &JoinPlan) -> bool {
    let mut exprs =
        join.hash.iter().flat_map(|key| [&key.outer, &key.inner]).chain(&join.condition);
    !join.hash.is_empty()
        && !join.inner_depends
        && matches!(join.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti)
        && exprs.all(Expr::may_run_ahead)
}

fn slots(ranges: &[SlotRange]) -> impl Iterator<Item = usize> {
    ranges.iter().flat_map(|range| range.start..range.end)
}

/// The vector at a slot, if it has a value for each row.
fn column(batch: &Batch, slot: usize) -> Option<&Vector> {
    batch.columns.get(slot).filter(|vector| vector.len() == batch.rows)
}

fn put(batch: &mut Batch, slot: usize, vector: Vector) {
    if batch.columns.len() <= slot {
        batch.columns.resize_with(slot + 1, Vector::default);
    }
    batch.columns[slot] = vector;
}

fn nulls(count: usize) -> Vector {
    Vector::with_nulls(VectorData::Any(vec![Datum::Null; count]), vec![true; count])
}

impl Table {
    fn new(join: &JoinPlan) -> Self {
        Self { chains: Chains::of(join), columns: Vec::new(), pointed: 0, unique: false }
    }

    /// Adds the rows of a batch that count, whose keys these are.
    fn add(&mut self, join: &JoinPlan, batch: &Batch, rows: Rows<'_>, keys: &Keys) {
        if self.columns.is_empty() {
            let read = slots(&join.inner_slots).filter(|slot| column(batch, *slot).is_some());
            let like = |slot: usize| (slot, batch.columns[slot].take(&[]));
            self.columns = read.map(like).collect();
        }
        for place in 0..rows.len() {
            if !self.chains.add(keys, place) {
                continue;
            }
            for (slot, values) in &mut self.columns {
                // A batch may have values for slots that nothing reads, where others have none.
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

    /// All of them as a batch.
    fn into_batch(self) -> Batch {
        let mut batch = Batch { rows: self.chains.len(), columns: Vec::new() };
        for (slot, values) in self.columns {
            put(&mut batch, slot, values);
        }
        batch
    }

    fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(|(_, values)| values.memory()).sum();
        self.chains.memory() + columns + self.pointed
    }

    /// The values of inner rows, by slot; all of them NULL where there is none.
    fn values<'t>(
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
        // Without any inner row it is not known which slots are read.
        let unknown = self.columns.is_empty().then(|| slots(&join.inner_slots));
        taken.chain(unknown.into_iter().flatten().map(move |slot| (slot, nulls(rows.len()))))
    }
}

/// Keys of rows: numbers, or index keys one behind the other.
#[derive(Default)]
struct Keys {
    numbers: Vec<Option<i64>>,
    bytes: Vec<u8>,
    /// Where each ends, and whether it is complete.
    ends: Vec<(usize, bool)>,
}

impl Keys {
    /// Whether the keys of a join are single numbers.
    fn are_numbers(join: &JoinPlan) -> bool {
        let is_number = |expr: &Expr| {
            matches!(expr.ty, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8 | TypeOid::DATE)
        };
        matches!(join.hash.as_slice(), [key] if is_number(&key.outer) && key.outer.ty == key.inner.ty)
    }

    /// Forgets all, and takes those of the rows that count.
    fn fill<'e>(
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

    /// The key of the row at a place; `None` if it is NULL, which equals nothing.
    #[inline]
    fn number(&self, place: usize) -> Option<i64> {
        self.numbers[place]
    }

    /// The key of the row at a place; `None` if a part of it is NULL, which equals nothing.
    fn get(&self, place: usize) -> Option<&[u8]> {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, complete) = self.ends[place];
        complete.then(|| &self.bytes[begin..end])
    }
}

/// The value at a place, of a type whose values are numbers.
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

/// Gives the rows of a batch that count to a join that goes on row by row.
fn write_rows(
    building: &mut Building,
    join: &JoinPlan,
    batch: &Batch,
    rows: Rows<'_>,
    keys: &Keys,
    rt: &Runtime<'_, '_>,
) -> Result<()> {
    let width = join.inner_slots.iter().map(|range| range.end).max().unwrap_or(0);
    let mut row = vec![Datum::Null; width];
    let read: Vec<usize> =
        slots(&join.inner_slots).filter(|slot| column(batch, *slot).is_some()).collect();
    for place in 0..rows.len() {
        let Some(key) = keys.get(place) else { continue };
        for slot in &read {
            row[*slot] = batch.columns[*slot].get(rows.number(place));
        }
        building.add(join, key, true, &row, rt)?;
    }
    Ok(())
}

impl BatchJoin {
    pub(super) fn new(plan: &Arc<PlanNode>, outer: Box<dyn BatchStep>) -> Self {
        Self {
            plan: Arc::clone(plan),
            outer,
            inner: Inner::New,
            batch: Batch::default(),
            kept: Kept::default(),
            found: Vec::new(),
            place: 0,
            next: END,
            matched: Vec::new(),
            rest: false,
            keys: Keys::default(),
            begun: false,
        }
    }

    /// Reads the inner side.
    fn build(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<Inner> {
        let mut input = super::start(&join.inner).unwrap_or_else(|| {
            let step = start_rows(&join.inner, rt.state);
            Box::new(RowBatches::new(step, join.inner_slots.clone()))
        });
        let (mut batch, mut kept) = (Batch::default(), Kept::default());
        let (mut table, mut building) = (Table::new(join), None::<Building>);
        let numbers = Keys::are_numbers(join);
        let parts = || join.hash.iter().map(|key| &key.inner);
        while input.next(&mut batch, &mut kept, rt)? {
            let rows = kept.rows(&batch);
            if rows.len() == 0 {
                continue;
            }
            self.keys.fill(parts(), numbers && building.is_none(), &batch, rows, rt)?;
            if let Some(building) = &mut building {
                write_rows(building, join, &batch, rows, &self.keys, rt)?;
                continue;
            }
            table.add(join, &batch, rows, &self.keys);
            if table.memory() > rt.exec.hash_mem {
                let started = building.insert(Building::new(&self.plan));
                let batch = std::mem::replace(&mut table, Table::new(join)).into_batch();
                let rows = Rows::All(batch.rows);
                self.keys.fill(parts(), false, &batch, rows, rt)?;
                write_rows(started, join, &batch, rows, &self.keys, rt)?;
            }
        }
        if let Some(building) = building {
            let joining = building.finish(join, rt)?;
            let step = Box::new(Join::hashed(&self.plan, joining, rt.state));
            let both = [join.outer_slots.as_slice(), &join.inner_slots].concat();
            return Ok(Inner::Rows(RowBatches::new(step, both)));
        }
        table.unique = table.chains.is_unique();
        if let Some(measures) = &mut rt.state.measures {
            let mut space = SpaceUse::default();
            space.table(table.memory(), table.chains.len());
            measures.add_space(&self.plan, space);
        }
        Ok(Inner::Table(table))
    }

    /// Finds the first inner row of each outer row that counts.
    fn find(
        &mut self,
        join: &JoinPlan,
        batch: &Batch,
        rows: Rows<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let Inner::Table(table) = &self.inner else { return Ok(()) };
        let numbers = matches!(table.chains, Chains::Numbers(_));
        self.keys.fill(join.hash.iter().map(|key| &key.outer), numbers, batch, rows, rt)?;
        table.chains.first(&self.keys, rows.len(), &mut self.found);
        Ok(())
    }

    /// Joins a batch where each outer row meets one inner row at most, or it does not matter which: it stays as it is.
    fn join_in_place(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        self.find(join, batch, kept.rows(batch), rt)?;
        let Inner::Table(table) = &self.inner else { return Ok(()) };
        let rows = kept.rows(batch);
        let wanted = |found: u32| match join.kind {
            JoinKind::Left => true,
            JoinKind::Anti => found == END,
            _ => found != END,
        };
        let places = self.found.iter().enumerate().filter(|(_, found)| wanted(**found));
        let left: Vec<u32> = places.map(|(place, _)| rows.number(place) as u32).collect();
        let beside = matches!(join.kind, JoinKind::Inner | JoinKind::Left);
        if (beside || join.condition.is_some()) && !left.is_empty() {
            // Rows that do not count have some value, or none.
            let other = if join.kind == JoinKind::Left { END } else { 0 };
            let mut partners = vec![other; batch.rows];
            for (place, found) in self.found.iter().enumerate().filter(|(_, found)| **found != END)
            {
                partners[rows.number(place)] = *found;
            }
            for (slot, vector) in table.values(join, &partners) {
                put(batch, slot, vector);
            }
        }
        if left.len() < batch.rows {
            *kept = Kept::of(left);
        }
        if let Some(condition) = &join.condition {
            kept.narrow(condition, batch, rt)?;
        }
        Ok(())
    }

    /// The next pairs of the outer rows at hand: numbers of outer rows, and their places among those that count, and of inner
    /// rows.
    fn pairs(&mut self, rows: Rows<'_>) -> Pairs {
        let mut pairs = Pairs::default();
        let Inner::Table(table) = &self.inner else { return pairs };
        while pairs.inner.len() < BATCH_ROWS {
            if self.next == END {
                self.place += 1;
                match self.found.get(self.place) {
                    Some(found) => self.next = *found,
                    None => break,
                }
                continue;
            }
            pairs.outer.push(rows.number(self.place) as u32);
            pairs.places.push(self.place as u32);
            pairs.inner.push(self.next);
            self.next = table.chains.behind(self.next);
        }
        pairs
    }

    /// Makes a batch of pairs, and leaves those for which the condition holds; notes which outer rows they have.
    fn join_pairs(
        &mut self,
        join: &JoinPlan,
        pairs: &Pairs,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let Inner::Table(table) = &self.inner else { return Ok(()) };
        for slot in slots(&join.outer_slots) {
            if let Some(values) = column(&self.batch, slot) {
                put(batch, slot, values.take(&pairs.outer));
            }
        }
        for (slot, values) in table.values(join, &pairs.inner) {
            put(batch, slot, values);
        }
        batch.rows = pairs.inner.len();
        kept.keep_all();
        if let Some(condition) = &join.condition {
            kept.narrow(condition, batch, rt)?;
        }
        let rows = kept.rows(batch);
        for at in 0..rows.len() {
            if let Some(place) = pairs.places.get(rows.number(at)) {
                self.matched[*place as usize] = true;
            }
        }
        Ok(())
    }

    /// Gets the next outer rows, for pairs.
    fn next_outer(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let more = self.outer.next(&mut self.batch, &mut self.kept, rt)?;
        if more {
            self.open(join, rt)?;
        }
        Ok(more)
    }

    /// Begins to make pairs of the outer rows at hand.
    fn open(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<()> {
        let (batch, kept) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.kept));
        let found = self.find(join, &batch, kept.rows(&batch), rt);
        (self.batch, self.kept) = (batch, kept);
        found?;
        self.matched.clear();
        self.matched.resize(self.found.len(), false);
        (self.place, self.next) = (0, self.found.first().copied().unwrap_or(END));
        self.rest = join.kind != JoinKind::Inner;
        Ok(())
    }

    /// The next batch of pairs; of a semi or an anti join, the outer rows that have or have not matched.
    fn next_pairs(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        loop {
            rt.exec.environment.check_interrupts()?;
            let outer = std::mem::take(&mut self.kept);
            let pairs = self.pairs(outer.rows(&self.batch));
            self.kept = outer;
            if !pairs.inner.is_empty() {
                self.join_pairs(join, &pairs, batch, kept, rt)?;
                if matches!(join.kind, JoinKind::Inner | JoinKind::Left) {
                    return Ok(true);
                }
            } else if std::mem::take(&mut self.rest) {
                self.give_rest(join, batch, kept);
                return Ok(true);
            } else if !self.next_outer(join, rt)? {
                return Ok(false);
            }
        }
    }

    /// The outer rows of the batch that are given for themselves.
    fn give_rest(&self, join: &JoinPlan, batch: &mut Batch, kept: &mut Kept) {
        let wanted = join.kind == JoinKind::Semi;
        let outer = self.kept.rows(&self.batch);
        let places = self.matched.iter().enumerate().filter(|(_, matched)| **matched == wanted);
        let numbers: Vec<u32> = places.map(|(place, _)| outer.number(place) as u32).collect();
        for slot in slots(&join.outer_slots) {
            if let Some(values) = column(&self.batch, slot) {
                put(batch, slot, values.take(&numbers));
            }
        }
        if join.kind == JoinKind::Left {
            slots(&join.inner_slots).for_each(|slot| put(batch, slot, nulls(numbers.len())));
        }
        batch.rows = numbers.len();
        kept.keep_all();
    }

    fn run(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        if matches!(self.inner, Inner::New) {
            // Without outer rows the inner ones are not read.
            while self.outer.next(batch, kept, rt)? {
                if kept.rows(batch).len() > 0 {
                    self.inner = self.build(join, rt)?;
                    return self.run_first(join, batch, kept, rt);
                }
            }
            return Ok(false);
        }
        if let Inner::Rows(rows) = &mut self.inner {
            return rows.next(batch, kept, rt);
        }
        if !self.stays_in_place(join) {
            return self.next_pairs(join, batch, kept, rt);
        }
        let more = self.outer.next(batch, kept, rt)?;
        if more && kept.rows(batch).len() > 0 {
            self.join_in_place(join, batch, kept, rt)?;
        }
        Ok(more)
    }

    /// Joins the first outer rows.
    fn run_first(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        // These have an outer side of their own, from the first row on.
        if let Inner::Rows(rows) = &mut self.inner {
            return rows.next(batch, kept, rt);
        }
        if self.stays_in_place(join) {
            self.join_in_place(join, batch, kept, rt)?;
            return Ok(true);
        }
        std::mem::swap(batch, &mut self.batch);
        std::mem::swap(kept, &mut self.kept);
        self.open(join, rt)?;
        self.next_pairs(join, batch, kept, rt)
    }

    /// Whether each outer row meets one inner row at most, or it does not matter which.
    fn stays_in_place(&self, join: &JoinPlan) -> bool {
        let Inner::Table(table) = &self.inner else { return false };
        match join.kind {
            JoinKind::Anti => join.condition.is_none(),
            JoinKind::Semi => table.unique || join.condition.is_none(),
            JoinKind::Left => table.unique && join.condition.is_none(),
            _ => table.unique,
        }
    }
}

/// Pairs of rows.
#[derive(Default)]
struct Pairs {
    outer: Vec<u32>,
    /// The places of the outer rows among those that count.
    places: Vec<u32>,
    inner: Vec<u32>,
}

impl BatchStep for BatchJoin {
    fn next(
        &mut self,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Join(join) = &*plan else {
            return Err(SqlError::internal("a join of another plan"));
        };
        let before = clock(rt);
        let found = self.run(join, batch, kept, rt)?;
        if !found {
            batch.rows = 0;
            kept.keep_all();
        }
        measure(&plan, &mut self.begun, kept.rows(batch).len(), before, rt);
        Ok(found)
    }
}
