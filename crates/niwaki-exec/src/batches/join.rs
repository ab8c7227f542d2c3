//! The hash join of rows in batches.
//!
//! The inner rows stand column by column, and the join finds them by their keys. If an outer row
//! has at most one partner, the outer batch goes up as it came. The inner values then stand beside
//! it, and fewer of its rows count. Otherwise the join makes pairs of rows, some at a time.
//!
//! Inner rows that do not fit in memory go to the row-by-row hash join (`hash_join.rs`), which then
//! does the whole join.

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Batch, Expr, Rows, Running, Runtime};
use niwaki_expr::plan::{JoinKind, JoinPlan, PlanNode};
use niwaki_expr::spool::END;
use niwaki_expr::store::BATCH_BYTES;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use super::batch_step::{BATCH_ROWS, BatchStep, Below, Selection, clock, given, measure};
use super::join_table::{Chains, Keys, Table, column, put, slots};
use super::large_values::{large_slots, row_bytes};
use super::rows_to_batches::RowBatches;
use crate::batches::parallel::{Division, gather};
use crate::joins::hash_join::Building;
use crate::joins::join_step::Join;
use crate::step::start::start_for;

/// The step that joins batches by hashing.
pub(super) struct BatchJoin {
    plan: Arc<PlanNode>,
    outer: Below,
    inner: Inner,
    /// The outer rows at hand, where the join makes pairs.
    batch: Batch,
    selection: Selection,
    /// The slots of the outer rows that may have large values.
    large: Vec<usize>,
    /// For each outer row that counts, the first inner row with its key.
    found: Vec<u32>,
    /// The outer row of the next pair, as a position among the rows that count, and the inner row
    /// of that pair.
    place: usize,
    next: u32,
    /// A flag for each outer row that counts: whether the row has matched.
    matched: Vec<bool>,
    /// Set if the batch's outer rows without a match are still to be returned.
    rest: bool,
    keys: Keys,
    begun: bool,
}

/// The inner rows of the join.
enum Inner {
    /// The inner rows were not read yet.
    New,
    /// The table of inner rows, which all threads share.
    Table(Arc<Table>),
    /// The join goes on row by row, and its rows come from this step.
    Rows(RowBatches),
}

/// Decides whether a join can run in batches.
pub(super) fn joins_in_batches(join: &JoinPlan) -> bool {
    let mut exprs =
        join.hash.iter().flat_map(|key| [&key.outer, &key.inner]).chain(&join.condition);
    !join.hash.is_empty()
        && !join.inner_depends
        && matches!(join.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti)
        && exprs.all(Expr::may_run_ahead)
}

/// Decides whether the join returns outer rows without a partner, with NULLs. An anti join does
/// too, because it may be a left join whose other rows a condition removes.
fn gives_nulls(join: &JoinPlan) -> bool {
    matches!(join.kind, JoinKind::Left | JoinKind::Anti)
}

/// Gives the rows of a batch that count to a row-by-row join.
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
    pub(super) fn new(plan: &Arc<PlanNode>, outer: Below) -> Self {
        Self {
            plan: Arc::clone(plan),
            outer,
            inner: Inner::New,
            batch: Batch::default(),
            selection: Selection::default(),
            large: Vec::new(),
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
        let (inner, workers) = match &*join.inner {
            PlanNode::Gather { input, workers } => (input, *workers),
            _ => (&join.inner, 0),
        };
        let mut input = super::batch_start::start(inner).unwrap_or_else(|| {
            let step = start_for(inner, Demand::All, rt.state);
            Box::new(RowBatches::new(step, join.inner_slots.clone()))
        });
        let (mut table, mut building) = (Table::new(join), None::<Building>);
        let numbers = Keys::are_numbers(join);
        let parts = || join.hash.iter().map(|key| &key.inner);
        let mut gathered = 0;
        let mut take = |batch: &Batch, selection: &Selection, rt: &mut Runtime<'_, '_>| {
            let rows = selection.rows(batch);
            if rows.is_empty() {
                return Ok(());
            }
            gathered += rows.len();
            self.keys.fill(parts(), numbers && building.is_none(), batch, rows, rt)?;
            if let Some(building) = &mut building {
                return write_rows(building, join, batch, rows, &self.keys, rt);
            }
            table.add(join, batch, rows, &self.keys);
            // With the next batch the table may take as much memory again.
            let bytes = table.memory();
            if bytes > rt.exec.hash_mem || !memory::has_room(bytes) {
                let started = building.insert(Building::new(&self.plan));
                let batch = std::mem::replace(&mut table, Table::new(join)).into_batch();
                let rows = Rows::All(batch.rows);
                self.keys.fill(parts(), false, &batch, rows, rt)?;
                write_rows(started, join, &batch, rows, &self.keys, rt)?;
            }
            Ok(())
        };
        let before = clock(rt);
        let launched = gather(&mut *input, workers, rt, &mut take)?;
        if workers > 0 {
            measure(&join.inner, &mut false, gathered, before, rt);
            if let Some(measures) = &mut rt.state.measures {
                measures.add_threads(&join.inner, launched);
            }
        }
        if let Some(building) = building {
            let joining = building.finish(join, rt)?;
            let step = Running::new(Join::hashed(&self.plan, joining, rt.state));
            let both = [join.outer_slots.as_slice(), &join.inner_slots].concat();
            return Ok(Inner::Rows(RowBatches::new(step, both)));
        }
        table.finish();
        if let Some(measures) = &mut rt.state.measures {
            let mut space = SpaceUse::default();
            space.table(table.memory(), table.chains.len());
            measures.add_space(&self.plan, space);
        }
        Ok(Inner::Table(Arc::new(table)))
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

    /// Joins a batch in place. Each outer row has at most one partner, or any partner serves.
    fn join_in_place(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        self.find(join, batch, selection.rows(batch), rt)?;
        let Inner::Table(table) = &self.inner else { return Ok(()) };
        let rows = selection.rows(batch);
        let wanted = |found: u32| match join.kind {
            JoinKind::Left => true,
            JoinKind::Anti => found == END,
            _ => found != END,
        };
        let places = self.found.iter().enumerate().filter(|(_, found)| wanted(**found));
        let left: Vec<u32> = places.map(|(place, _)| rows.number(place) as u32).collect();
        let beside = join.kind != JoinKind::Semi;
        if (beside || join.condition.is_some()) && !left.is_empty() {
            // Rows that do not count get some value, or none.
            let other = if gives_nulls(join) { END } else { 0 };
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
            *selection = Selection::of(left);
        }
        if let Some(condition) = &join.condition {
            selection.narrow(condition, batch, rt)?;
        }
        Ok(())
    }

    /// Returns the next pairs of the outer rows at hand. A pair has the outer row's number, its
    /// position among the rows that count, and the inner row's number.
    fn pairs(&mut self, rows: Rows<'_>) -> Pairs {
        let mut pairs = Pairs::default();
        let Inner::Table(table) = &self.inner else { return pairs };
        let counts = table.has_large || !self.large.is_empty();
        let mut bytes = 0;
        while pairs.inner.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            if self.next == END {
                self.place += 1;
                match self.found.get(self.place) {
                    Some(found) => self.next = *found,
                    None => break,
                }
                continue;
            }
            let outer = rows.number(self.place);
            if counts {
                bytes += table.row_bytes(self.next) + row_bytes(&self.batch, &self.large, outer);
            }
            pairs.outer.push(outer as u32);
            pairs.places.push(self.place as u32);
            pairs.inner.push(self.next);
            self.next = table.chains.behind(self.next);
        }
        pairs
    }

    /// Makes a batch of pairs, and keeps the pairs for which the condition holds. Marks the outer
    /// rows of those pairs as matched.
    fn join_pairs(
        &mut self,
        join: &JoinPlan,
        pairs: &Pairs,
        batch: &mut Batch,
        selection: &mut Selection,
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
        selection.keep_all();
        if let Some(condition) = &join.condition {
            selection.narrow(condition, batch, rt)?;
        }
        let rows = selection.rows(batch);
        for at in 0..rows.len() {
            if let Some(place) = pairs.places.get(rows.number(at)) {
                self.matched[*place as usize] = true;
            }
        }
        Ok(())
    }

    /// Reads the next outer rows, for pairs.
    fn next_outer(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let more = self.outer.next(&mut self.batch, &mut self.selection, rt)?;
        if more {
            self.open(join, rt)?;
        }
        Ok(more)
    }

    /// Begins to make pairs of the outer rows at hand.
    fn open(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<()> {
        let (batch, selection) =
            (std::mem::take(&mut self.batch), std::mem::take(&mut self.selection));
        let found = self.find(join, &batch, selection.rows(&batch), rt);
        (self.batch, self.selection) = (batch, selection);
        found?;
        self.large = large_slots(&self.batch, &join.outer_slots);
        self.matched.clear();
        self.matched.resize(self.found.len(), false);
        (self.place, self.next) = (0, self.found.first().copied().unwrap_or(END));
        self.rest = join.kind != JoinKind::Inner;
        Ok(())
    }

    /// Returns the next batch of pairs. A semi join returns the outer rows that have matched, and
    /// an anti join the outer rows that have not.
    fn next_pairs(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        loop {
            rt.check_interrupts()?;
            let outer = std::mem::take(&mut self.selection);
            let pairs = self.pairs(outer.rows(&self.batch));
            self.selection = outer;
            if !pairs.inner.is_empty() {
                self.join_pairs(join, &pairs, batch, selection, rt)?;
                if matches!(join.kind, JoinKind::Inner | JoinKind::Left) {
                    return Ok(true);
                }
            } else if std::mem::take(&mut self.rest) {
                self.give_rest(join, batch, selection);
                return Ok(true);
            } else if !self.next_outer(join, rt)? {
                return Ok(false);
            }
        }
    }

    /// Returns the batch's outer rows that the join returns by themselves.
    fn give_rest(&self, join: &JoinPlan, batch: &mut Batch, selection: &mut Selection) {
        let wanted = join.kind == JoinKind::Semi;
        let outer = self.selection.rows(&self.batch);
        let places = self.matched.iter().enumerate().filter(|(_, matched)| **matched == wanted);
        let numbers: Vec<u32> = places.map(|(place, _)| outer.number(place) as u32).collect();
        for slot in slots(&join.outer_slots) {
            if let Some(values) = column(&self.batch, slot) {
                put(batch, slot, values.take(&numbers));
            }
        }
        if let (true, Inner::Table(table)) = (gives_nulls(join), &self.inner) {
            for (slot, values) in table.values(join, &vec![END; numbers.len()]) {
                put(batch, slot, values);
            }
        }
        batch.rows = numbers.len();
        selection.keep_all();
    }

    fn run(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        if matches!(self.inner, Inner::New) {
            // Without outer rows the join does not read the inner rows.
            while self.outer.next(batch, selection, rt)? {
                if !selection.rows(batch).is_empty() {
                    self.inner = self.build(join, rt)?;
                    return self.run_first(join, batch, selection, rt);
                }
            }
            return Ok(false);
        }
        if let Inner::Rows(rows) = &mut self.inner {
            return rows.next(batch, selection, rt);
        }
        if !self.stays_in_place(join) {
            return self.next_pairs(join, batch, selection, rt);
        }
        let more = self.outer.next(batch, selection, rt)?;
        if more && !selection.rows(batch).is_empty() {
            self.join_in_place(join, batch, selection, rt)?;
        }
        Ok(more)
    }

    /// Joins the first outer rows.
    fn run_first(
        &mut self,
        join: &JoinPlan,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        // A row-by-row join reads its own outer side, from the first row on.
        if let Inner::Rows(rows) = &mut self.inner {
            return rows.next(batch, selection, rt);
        }
        if self.stays_in_place(join) {
            self.join_in_place(join, batch, selection, rt)?;
            return Ok(true);
        }
        std::mem::swap(batch, &mut self.batch);
        std::mem::swap(selection, &mut self.selection);
        self.open(join, rt)?;
        self.next_pairs(join, batch, selection, rt)
    }

    /// Decides whether outer batches stay in place: each outer row has at most one partner, or any
    /// partner serves. Batches do not stay in place if inner rows are large.
    fn stays_in_place(&self, join: &JoinPlan) -> bool {
        let Inner::Table(table) = &self.inner else { return false };
        // One copy of a large inner row for each outer row may be too much.
        if table.has_large && (join.kind != JoinKind::Semi || join.condition.is_some()) {
            return false;
        }
        match join.kind {
            JoinKind::Anti => join.condition.is_none(),
            JoinKind::Semi => table.unique || join.condition.is_none(),
            JoinKind::Left => table.unique && join.condition.is_none(),
            _ => table.unique,
        }
    }
}

/// Pairs of outer and inner rows.
#[derive(Default)]
struct Pairs {
    outer: Vec<u32>,
    /// The positions of the outer rows among the rows that count.
    places: Vec<u32>,
    inner: Vec<u32>,
}

impl BatchStep for BatchJoin {
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Join(join) = &*plan else {
            return Err(SqlError::internal("a join of another plan"));
        };
        let before = clock(rt);
        let found = self.run(join, batch, selection, rt)?;
        Ok(given(found, &plan, &mut self.begun, (batch, selection), before, rt))
    }

    fn divide(&mut self, division: &Arc<Division>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if !self.outer.divide(division, rt)? {
            return Ok(false);
        }
        let plan = Arc::clone(&self.plan);
        if let (PlanNode::Join(join), Inner::New) = (&*plan, &self.inner) {
            let before = clock(rt);
            self.inner = self.build(join, rt)?;
            measure(&plan, &mut self.begun, 0, before, rt);
        }
        // Threads do not divide a join whose inner rows do not fit in memory.
        Ok(matches!(self.inner, Inner::Table(_)))
    }

    fn for_thread(&self) -> Option<Box<dyn BatchStep>> {
        let Inner::Table(table) = &self.inner else { return None };
        let inner = Inner::Table(Arc::clone(table));
        Some(Box::new(Self {
            inner,
            ..Self::new(&self.plan, Below::new(self.outer.for_thread()?))
        }))
    }
}
