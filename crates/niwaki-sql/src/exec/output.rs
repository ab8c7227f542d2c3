//! Filters, projections, sorts and the other steps that turn rows into a result.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use niwaki_types::{ColumnType, Datum, KeyOrder, TypeOid, compare_ordered, equal, hash};

use super::source::SetValues;
use super::{Step, row_bytes, start};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Runtime, State};
use crate::plan::{PlanNode, SetKind};

fn other_plan() -> SqlError {
    SqlError::internal("a step of another plan")
}

/// Keeps the rows for which a condition holds.
pub(super) struct Filter {
    plan: Arc<PlanNode>,
    input: Option<Box<dyn Step>>,
}

impl Filter {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None }
    }
}

impl Step for Filter {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Filter { input, condition } = &*self.plan else { return Err(other_plan()) };
        let step = self.input.get_or_insert_with(|| start(input, rt.state));
        while step.next(row, rt)? {
            if condition.holds(row, rt)? {
                return Ok(true);
            }
            rt.tick()?;
        }
        Ok(false)
    }
}

/// Computes new rows.
pub(super) struct Project {
    plan: Arc<PlanNode>,
    input: Option<Box<dyn Step>>,
    row: Vec<Datum>,
    /// The sets of the current input row.
    sets: Vec<Option<SetValues>>,
}

impl Project {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None, row: Vec::new(), sets: Vec::new() }
    }
}

impl Step for Project {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Project { input, input_width, exprs, sets } = &*self.plan else {
            return Err(other_plan());
        };
        let input_width = *input_width;
        if self.input.is_none() {
            self.input = Some(start(input, rt.state));
            self.row.resize(input_width + sets.len(), Datum::Null);
        }
        let Some(step) = &mut self.input else { return Err(other_plan()) };
        loop {
            if self.sets.is_empty() {
                if !step.next(&mut self.row, rt)? {
                    return Ok(false);
                }
                if self.row.len() < input_width + sets.len() {
                    self.row.resize(input_width + sets.len(), Datum::Null);
                }
                for set in sets {
                    self.sets.push(Some(SetValues::start(
                        set.function,
                        &set.arguments,
                        &self.row,
                        rt,
                    )?));
                }
            }
            if !sets.is_empty() {
                rt.tick()?;
                // The sets run in step; one that is over gives NULL until the longest is.
                let mut any = false;
                for (number, place) in self.sets.iter_mut().enumerate() {
                    let value = match place {
                        Some(set) => set.next(rt)?,
                        None => None,
                    };
                    any |= value.is_some();
                    if value.is_none() {
                        *place = None;
                    }
                    self.row[input_width + number] = value.unwrap_or(Datum::Null);
                }
                if !any {
                    self.sets.clear();
                    continue;
                }
            }
            row.clear();
            for expr in exprs {
                let value = match &expr.kind {
                    crate::expr::ExprKind::SetReturning(number) => {
                        self.row[input_width + number].clone()
                    }
                    _ => expr.eval(&self.row, rt)?,
                };
                row.push(value);
            }
            return Ok(true);
        }
    }
}

/// A row behind the keys it is sorted by.
pub(super) type KeyedRow = (Vec<Datum>, Vec<Datum>);

/// Sorts rows by their keys: type, descending, NULLs first. Equal rows keep their order.
pub(super) fn sort_rows(rows: &mut [KeyedRow], order: &[(TypeOid, bool, bool)]) {
    rows.sort_by(|(a, _), (b, _)| {
        for ((a, b), (oid, descending, nulls_first)) in a.iter().zip(b).zip(order) {
            let order = KeyOrder { oid: *oid, descending: *descending, nulls_first: *nulls_first };
            let found = compare_ordered(order, a, b);
            if found != Ordering::Equal {
                return found;
            }
        }
        Ordering::Equal
    });
}

/// Sorts all rows before the first goes on.
pub(super) struct Sort {
    plan: Arc<PlanNode>,
    rows: Option<std::vec::IntoIter<KeyedRow>>,
}

impl Sort {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), rows: None }
    }

    /// `row` has what the input reads of the rows around it.
    fn run(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Vec<KeyedRow>> {
        let PlanNode::Sort { input, keys } = &*self.plan else { return Err(other_plan()) };
        let mut step = start(input, rt.state);
        let mut row = row.to_vec();
        let mut rows = Vec::new();
        while step.next(&mut row, rt)? {
            rt.tick()?;
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                values.push(key.expr.eval(&row, rt)?);
            }
            rt.charge(row_bytes(&values) + row_bytes(&row))?;
            rows.push((values, row.clone()));
        }
        let order: Vec<_> = keys.iter().map(|k| (k.expr.ty, k.descending, k.nulls_first)).collect();
        sort_rows(&mut rows, &order);
        Ok(rows)
    }
}

impl Step for Sort {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if self.rows.is_none() {
            self.rows = Some(self.run(row, rt)?.into_iter());
        }
        match self.rows.as_mut().and_then(Iterator::next) {
            Some((_, sorted)) => {
                *row = sorted;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// Rows by value, NULLs equal to each other.
#[derive(Default)]
struct RowSet {
    rows: Vec<(Vec<Datum>, usize)>,
    by_hash: HashMap<u64, Vec<usize>>,
    hasher: DefaultHashBuilder,
}

impl RowSet {
    fn find(&self, row: &[Datum], columns: &[ColumnType]) -> (u64, Option<usize>) {
        let mut state = self.hasher.build_hasher();
        for (value, column) in row.iter().zip(columns) {
            hash(column.oid, value, &mut state);
        }
        let hash = state.finish();
        let same = |other: &[Datum]| {
            row.iter().zip(other).zip(columns).all(|((a, b), column)| {
                match (a.is_null(), b.is_null()) {
                    (true, true) => true,
                    (false, false) => equal(column.oid, a, b),
                    _ => false,
                }
            })
        };
        let found = self
            .by_hash
            .get(&hash)
            .and_then(|list| list.iter().copied().find(|number| same(&self.rows[*number].0)));
        (hash, found)
    }

    /// Counts a row; true when it is the first of its value.
    fn add(
        &mut self,
        row: &[Datum],
        columns: &[ColumnType],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let (hash, found) = self.find(row, columns);
        if let Some(number) = found {
            self.rows[number].1 += 1;
            return Ok(false);
        }
        rt.charge(row_bytes(row) + 32)?;
        self.by_hash.entry(hash).or_default().push(self.rows.len());
        self.rows.push((row[..columns.len()].to_vec(), 1));
        Ok(true)
    }
}

/// The first row of each value.
pub(super) struct Distinct {
    plan: Arc<PlanNode>,
    input: Option<Box<dyn Step>>,
    seen: RowSet,
}

impl Distinct {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None, seen: RowSet::default() }
    }
}

impl Step for Distinct {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Distinct { input, columns } = &*plan else { return Err(other_plan()) };
        if self.input.is_none() {
            self.input = Some(start(input, rt.state));
        }
        let Some(step) = &mut self.input else { return Err(other_plan()) };
        while step.next(row, rt)? {
            rt.tick()?;
            if self.seen.add(row, columns, rt)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Skips rows, and stops after some.
pub(super) struct Limit {
    plan: Arc<PlanNode>,
    input: Option<Box<dyn Step>>,
    left: Option<u64>,
}

impl Limit {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), input: None, left: None }
    }
}

fn bound(
    expr: Option<&Expr>,
    name: &str,
    sqlstate: &'static str,
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    match expr.eval(&[], rt)? {
        Datum::Int8(value) => u64::try_from(value)
            .map(Some)
            .map_err(|_| SqlError::new(sqlstate, format!("{name} must not be negative"))),
        _ => Ok(None),
    }
}

impl Step for Limit {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Limit { input, count, offset } = &*self.plan else {
            return Err(other_plan());
        };
        if self.input.is_none() {
            let skip = bound(offset.as_ref(), "OFFSET", "2201X", rt)?.unwrap_or(0);
            self.left = bound(count.as_ref(), "LIMIT", "2201W", rt)?;
            let mut step = start(input, rt.state);
            if self.left != Some(0) {
                for _ in 0..skip {
                    if !step.next(row, rt)? {
                        self.left = Some(0);
                        break;
                    }
                }
            }
            self.input = Some(step);
        }
        if self.left == Some(0) {
            return Ok(false);
        }
        let Some(step) = &mut self.input else { return Ok(false) };
        if !step.next(row, rt)? {
            self.left = Some(0);
            return Ok(false);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        Ok(true)
    }
}

/// UNION, INTERSECT and EXCEPT.
pub(super) struct SetOperation {
    plan: Arc<PlanNode>,
    /// UNION ALL reads its sides one after the other.
    sides: Vec<Box<dyn Step>>,
    result: Option<std::vec::IntoIter<(Vec<Datum>, usize)>>,
    repeat: Option<(Vec<Datum>, usize)>,
    seen: RowSet,
}

impl SetOperation {
    pub(super) fn new(plan: &Arc<PlanNode>, state: &State) -> Self {
        let mut sides = Vec::new();
        if let PlanNode::SetOperation { left, right, .. } = &**plan {
            // The next side is taken from the end.
            sides.push(start(right, state));
            sides.push(start(left, state));
        }
        Self { plan: Arc::clone(plan), sides, result: None, repeat: None, seen: RowSet::default() }
    }

    fn counted(&mut self, columns: &[ColumnType], rt: &mut Runtime<'_, '_>) -> Result<RowSet> {
        let mut set = RowSet::default();
        let mut row = Vec::new();
        if let Some(mut side) = self.sides.pop() {
            while side.next(&mut row, rt)? {
                rt.tick()?;
                set.add(&row, columns, rt)?;
            }
        }
        Ok(set)
    }
}

impl Step for SetOperation {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::SetOperation { kind, all, columns, .. } = &*plan else {
            return Err(other_plan());
        };
        if *kind == SetKind::Union {
            while let Some(side) = self.sides.last_mut() {
                while side.next(row, rt)? {
                    rt.tick()?;
                    if *all || self.seen.add(row, columns, rt)? {
                        return Ok(true);
                    }
                }
                self.sides.pop();
            }
            return Ok(false);
        }
        if self.result.is_none() {
            let left = self.counted(columns, rt)?;
            let right = self.counted(columns, rt)?;
            let mut result = Vec::new();
            for (values, count) in left.rows {
                let other = right.find(&values, columns).1.map_or(0, |n| right.rows[n].1);
                let times = match (kind, all) {
                    (SetKind::Intersect, true) => count.min(other),
                    (SetKind::Intersect, false) => usize::from(other > 0),
                    (_, true) => count.saturating_sub(other),
                    (_, false) => usize::from(other == 0),
                };
                if times > 0 {
                    result.push((values, times));
                }
            }
            self.result = Some(result.into_iter());
        }
        if self.repeat.is_none() {
            self.repeat = self.result.as_mut().and_then(Iterator::next);
        }
        match &mut self.repeat {
            Some((values, times)) => {
                row.clone_from(values);
                *times -= 1;
                if *times == 0 {
                    self.repeat = None;
                }
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
