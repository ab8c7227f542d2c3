//! The merge join: joins two inputs that are sorted by their keys, NULLs last.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, State, Step};
use niwaki_expr::plan::{JoinKey, JoinKind, JoinPlan, PlanNode};
use niwaki_expr::spool::{TuplestoreReader, TuplestoreWriter, row_bytes};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, compare};

use crate::joins::join_step::{clear, make_room, put, start_outer, taken};
use crate::step::start::start_for;

/// An inner row, with its values and its keys.
struct InnerRow {
    values: Vec<Datum>,
    keys: Vec<Datum>,
}

/// The step that joins two sorted inputs.
///
/// The step reads the inner input as far as the outer row's keys go, and keeps the inner rows with
/// the same keys. These rows stay in memory as long as there is room. The other rows go to a
/// temporary file.
pub(crate) struct MergeJoin {
    plan: Arc<PlanNode>,
    demand: Demand,
    outer: Running,
    /// `None` before the first outer row.
    inner: Option<Running>,
    /// The row that the inner side's steps write.
    own: Vec<Datum>,
    /// The last inner row read, if the row does not belong to the group.
    ahead: Option<InnerRow>,
    /// Inner rows with equal keys, and then the rows of the group that found no room in memory.
    group: Vec<InnerRow>,
    rest: Option<TuplestoreReader>,
    /// A row from `rest`.
    kept: Vec<Datum>,
    /// The statement's memory before the group.
    memory: usize,
    /// The position in the group of the next row for the current outer row; `None` when the next
    /// outer row is due.
    next: Option<usize>,
    matched: bool,
}

impl MergeJoin {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Self {
        let outer = start_outer(plan, demand, state);
        Self {
            plan: Arc::clone(plan),
            demand,
            outer,
            inner: None,
            own: Vec::new(),
            ahead: None,
            group: Vec::new(),
            rest: None,
            kept: Vec::new(),
            memory: 0,
            next: None,
            matched: false,
        }
    }

    /// Reads the next inner row whose keys can equal other keys: none is NULL.
    fn read(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<()> {
        self.ahead = None;
        let Some(step) = &mut self.inner else { return Ok(()) };
        while step.next(&mut self.own, rt)? {
            rt.tick()?;
            make_room(&mut self.own, &join.inner_slots);
            let mut keys = Vec::with_capacity(join.merge.len());
            for key in &join.merge {
                keys.push(key.inner.eval(&self.own, rt)?);
            }
            if keys.iter().any(Datum::is_null) {
                continue;
            }
            let values = taken(&self.own, &join.inner_slots);
            self.ahead = Some(InnerRow { values, keys });
            return Ok(());
        }
        Ok(())
    }

    /// Reads on to the inner rows with the outer row's keys. The group is empty if there are none.
    fn seek(&mut self, join: &JoinPlan, keys: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        if let Some(first) = self.group.first() {
            // Outer rows with equal keys share a group.
            if order(&join.merge, &first.keys, keys) == Ordering::Equal {
                return Ok(());
            }
        }
        self.group.clear();
        self.rest = None;
        rt.state.memory = self.memory;
        let (mut held, mut rest) = (0, None::<TuplestoreWriter>);
        while let Some(ahead) = &self.ahead {
            match order(&join.merge, &ahead.keys, keys) {
                Ordering::Less => {}
                Ordering::Greater => break,
                Ordering::Equal => {
                    let bytes = row_bytes(&ahead.values) + row_bytes(&ahead.keys);
                    held += bytes;
                    // The first row of the group stays in memory, for its keys.
                    if held <= rt.exec.work_mem || self.group.is_empty() || rt.exec.temp.is_none() {
                        rt.charge(bytes)?;
                        self.group.extend(self.ahead.take());
                    } else {
                        let exec = &*rt.exec;
                        let none =
                            || TuplestoreWriter::within(exec.temp.cloned(), exec.temp_chunk, 0);
                        rest.get_or_insert_with(none).push(&ahead.values)?;
                    }
                }
            }
            self.read(join, rt)?;
        }
        self.rest = rest.map(TuplestoreWriter::finish).transpose()?.map(|rest| rest.read());
        Ok(())
    }

    /// Finds the group of a new outer row.
    fn open(&mut self, join: &JoinPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        if self.inner.is_none() {
            self.memory = rt.state.memory;
            self.own = row.to_vec();
            self.inner = Some(start_for(&join.inner, self.demand, rt.state));
            self.read(join, rt)?;
            self.memory = rt.state.memory;
        }
        let mut keys = Vec::with_capacity(join.merge.len());
        for key in &join.merge {
            keys.push(key.outer.eval(row, rt)?);
        }
        self.matched = false;
        if keys.iter().any(Datum::is_null) {
            self.next = None;
            return Ok(());
        }
        self.seek(join, &keys, rt)?;
        self.next = Some(0);
        if let Some(rest) = &mut self.rest {
            rest.rewind();
        }
        Ok(())
    }

    /// Tries the rest of the group with the current outer row. Returns whether `row` is now a row
    /// of the join.
    fn try_group(
        &mut self,
        join: &JoinPlan,
        row: &mut [Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        while let Some(next) = self.next {
            rt.tick()?;
            let values = match (self.group.get(next), &mut self.rest) {
                (Some(found), _) => &found.values,
                (None, Some(rest)) => {
                    self.kept.resize(rest.width(), Datum::Null);
                    if !rest.next(&mut self.kept)? {
                        break;
                    }
                    &self.kept
                }
                (None, None) => break,
            };
            put(row, &join.inner_slots, values);
            self.next = Some(next + 1);
            if let Some(condition) = &join.condition
                && !condition.holds(row, rt)?
            {
                continue;
            }
            self.matched = true;
            match join.kind {
                JoinKind::Semi => self.next = None,
                JoinKind::Anti => break,
                _ => {}
            }
            return Ok(true);
        }
        self.next = None;
        let alone = !self.matched && matches!(join.kind, JoinKind::Left | JoinKind::Anti);
        if alone {
            clear(row, &join.inner_slots);
        }
        Ok(alone)
    }
}

/// Compares the keys of two rows. No key is NULL.
fn order(pairs: &[JoinKey], left: &[Datum], right: &[Datum]) -> Ordering {
    pairs
        .iter()
        .zip(left.iter().zip(right))
        .map(|(pair, (left, right))| compare(pair.outer.ty, left, right))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

impl Step for MergeJoin {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Join(join) = &*plan else {
            return Err(SqlError::internal("a join of another plan"));
        };
        loop {
            if self.next.is_none() {
                if !self.outer.next(row, rt)? {
                    return Ok(false);
                }
                rt.tick()?;
                make_room(row, &join.inner_slots);
                self.open(join, row, rt)?;
            }
            if self.try_group(join, row, rt)? {
                return Ok(true);
            }
        }
    }
}
