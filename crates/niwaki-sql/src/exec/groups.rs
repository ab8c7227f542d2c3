//! Aggregates over batches: the states of a call stand side by side, one for each group, and take many rows at once.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use niwaki_types::{Datum, KeyOrder, Numeric, TypeOid, VectorData};

use super::aggregate::{CallState, Group};
use super::batches::{BatchStep, Kept};
use super::row_bytes;
use crate::aggregates::{Accumulator, AggregateKind};
use crate::error::Result;
use crate::expr::{Batch, Expr, Rows, Runtime, Values};
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

/// The groups of an aggregation.
pub(super) struct Groups<'p> {
    exprs: &'p [Expr],
    calls: &'p [AggregateCall],
    states: Vec<States>,
    keys: Keys,
    hasher: DefaultHashBuilder,
}

/// The keys of the groups, and where they are found.
#[derive(Default)]
struct Keys {
    /// As the first row of each group has them.
    values: Vec<Vec<Datum>>,
    /// Their encodings, one after the other, and where each ends.
    encoded: Vec<u8>,
    ends: Vec<usize>,
    /// Groups by the hash of their encoding.
    table: HashTable<u32>,
}

impl Keys {
    fn encoding(&self, group: u32) -> &[u8] {
        let group = group as usize;
        let begin = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.encoded[begin..self.ends[group]]
    }

    /// The group with this key; `None` if it is new.
    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.table.find(hash, |group| self.encoding(*group) == key).copied()
    }

    fn add(
        &mut self,
        hash: u64,
        key: &[u8],
        values: Vec<Datum>,
        hasher: &DefaultHashBuilder,
    ) -> u32 {
        let group = self.values.len() as u32;
        self.values.push(values);
        self.encoded.extend_from_slice(key);
        self.ends.push(self.encoded.len());
        let mut table = std::mem::take(&mut self.table);
        table.insert_unique(hash, group, |group| hasher.hash_one(self.encoding(*group)));
        self.table = table;
        group
    }
}

/// The group of each row.
#[derive(Clone, Copy)]
enum GroupOf<'g> {
    /// There is one.
    First,
    Each(&'g [u32]),
}

impl GroupOf<'_> {
    #[inline]
    fn get(self, row: usize) -> usize {
        match self {
            Self::First => 0,
            Self::Each(groups) => groups[row] as usize,
        }
    }
}

impl<'p> Groups<'p> {
    /// No groups yet; without expressions to group by, one.
    pub(super) fn new(exprs: &'p [Expr], calls: &'p [AggregateCall]) -> Self {
        let states = calls.iter().map(States::of).collect();
        let mut groups = Self {
            exprs,
            calls,
            states,
            keys: Keys::default(),
            hasher: DefaultHashBuilder::default(),
        };
        if exprs.is_empty() {
            groups.keys.values.push(Vec::new());
            groups.grow();
        }
        groups
    }

    /// Takes all rows of `input`.
    pub(super) fn run(
        mut self,
        mut input: Box<dyn BatchStep>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Vec<Group>> {
        let (mut batch, mut kept, mut groups) = (Batch::default(), Kept::default(), Vec::new());
        while input.next(&mut batch, &mut kept, rt)? {
            let rows = kept.rows(&batch);
            if rows.len() == 0 {
                continue;
            }
            if self.exprs.is_empty() {
                self.add(&batch, rows, GroupOf::First, rt)?;
                continue;
            }
            self.assign(&batch, rows, &mut groups, rt)?;
            self.add(&batch, rows, GroupOf::Each(&groups), rt)?;
        }
        Ok(self.finish())
    }

    /// Finds the group of each row, and makes those that are new.
    fn assign(
        &mut self,
        batch: &Batch,
        rows: Rows<'_>,
        groups: &mut Vec<u32>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let values = self
            .exprs
            .iter()
            .map(|expr| expr.eval_rows(batch, rows, rt))
            .collect::<Result<Vec<Values<'_>>>>()?;
        groups.clear();
        let mut key = Vec::new();
        let known = self.keys.values.len();
        for row in 0..rows.len() {
            key.clear();
            for (expr, values) in self.exprs.iter().zip(&values) {
                values.encode_key(row, KeyOrder::ascending(expr.ty), &mut key);
            }
            let hash = self.hasher.hash_one(key.as_slice());
            groups.push(match self.keys.find(hash, &key) {
                Some(group) => group,
                None => {
                    let first: Vec<Datum> = values.iter().map(|values| values.get(row)).collect();
                    rt.charge(
                        row_bytes(&first) + key.len() + self.calls.len() * size_of::<CallState>(),
                    )?;
                    self.keys.add(hash, &key, first, &self.hasher)
                }
            });
        }
        if self.keys.values.len() > known {
            self.grow();
        }
        Ok(())
    }

    /// Gives each call a state for each group.
    fn grow(&mut self) {
        let count = self.keys.values.len();
        for (call, states) in self.calls.iter().zip(&mut self.states) {
            states.grow(call, count);
        }
    }

    fn add(
        &mut self,
        batch: &Batch,
        rows: Rows<'_>,
        groups: GroupOf<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        for (call, states) in self.calls.iter().zip(&mut self.states) {
            let Some(filter) = &call.filter else {
                states.add(call, batch, rows, groups, &self.hasher, rt)?;
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
            states.add(call, batch, Rows::Some(&kept), groups, &self.hasher, rt)?;
        }
        Ok(())
    }

    fn finish(self) -> Vec<Group> {
        let mut groups: Vec<Group> = self
            .keys
            .values
            .into_iter()
            .map(|keys| Group { keys, states: Vec::with_capacity(self.calls.len()) })
            .collect();
        for (call, states) in self.calls.iter().zip(self.states) {
            for (group, state) in groups.iter_mut().zip(states.into_each(call.kind)) {
                group.states.push(state);
            }
        }
        groups
    }
}

/// States of one call, by group.
enum States {
    Counts(Vec<i64>),
    /// Sums and averages of integers.
    Integers(Sums<i128>),
    /// Those of numerics, as long as all have one scale and are small.
    Decimals(Sums<i128>, Option<u16>),
    Floats(Sums<f64>),
    /// Everything else, row by row.
    Others(Vec<CallState>),
}

/// Sums, and how many values each is of.
#[derive(Default)]
struct Sums<T> {
    /// What a sum begins with.
    zero: T,
    sums: Vec<T>,
    counts: Vec<i64>,
}

impl<T: Copy + Default> Sums<T> {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, self.zero);
        self.counts.resize(groups, 0);
    }

    /// Adds the values that are not NULL.
    fn add<V: Copy>(
        &mut self,
        values: &[V],
        nulls: &[bool],
        groups: GroupOf<'_>,
        plus: impl Fn(T, V) -> T,
    ) {
        match (groups, nulls.is_empty()) {
            (GroupOf::First, true) => {
                self.sums[0] = values.iter().fold(self.sums[0], |sum, value| plus(sum, *value));
                self.counts[0] += values.len() as i64;
            }
            _ => {
                for (row, value) in values.iter().enumerate() {
                    if nulls.get(row).copied().unwrap_or(false) {
                        continue;
                    }
                    let group = groups.get(row);
                    self.sums[group] = plus(self.sums[group], *value);
                    self.counts[group] += 1;
                }
            }
        }
    }

    fn each(self) -> impl Iterator<Item = (T, i64)> {
        self.sums.into_iter().zip(self.counts)
    }
}

impl States {
    fn of(call: &AggregateCall) -> Self {
        use AggregateKind as K;
        if call.distinct || !call.order.is_empty() {
            return Self::Others(Vec::new());
        }
        match (call.kind, call.arguments.first().map(|argument| argument.ty)) {
            (K::CountRows | K::Count, _) => Self::Counts(Vec::new()),
            (K::SumInt, Some(TypeOid::INT4 | TypeOid::INT2))
            | (
                K::SumNumeric | K::AverageNumeric,
                Some(TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8),
            ) => Self::Integers(Sums::default()),
            (K::SumNumeric | K::AverageNumeric, Some(TypeOid::NUMERIC)) => {
                Self::Decimals(Sums::default(), None)
            }
            (K::AverageFloat, Some(TypeOid::FLOAT8)) => Self::Floats(Sums::default()),
            // A sum of nothing but -0 is -0, an average is not.
            (K::SumFloat8, Some(TypeOid::FLOAT8)) => {
                Self::Floats(Sums { zero: -0.0, ..Sums::default() })
            }
            _ => Self::Others(Vec::new()),
        }
    }

    fn grow(&mut self, call: &AggregateCall, groups: usize) {
        match self {
            Self::Counts(counts) => counts.resize(groups, 0),
            Self::Integers(sums) | Self::Decimals(sums, _) => sums.grow(groups),
            Self::Floats(sums) => sums.grow(groups),
            Self::Others(states) => states.resize_with(groups, || CallState::new(call)),
        }
    }

    /// Takes the rows of a batch.
    fn add(
        &mut self,
        call: &AggregateCall,
        batch: &Batch,
        rows: Rows<'_>,
        groups: GroupOf<'_>,
        hasher: &DefaultHashBuilder,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let mut values = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            values.push(argument.eval_rows(batch, rows, rt)?);
        }
        if self.add_vector(values.first(), rows.len(), groups) {
            return Ok(());
        }
        self.loosen(call.kind);
        let mut keys = Vec::with_capacity(call.order.len());
        for (key, ..) in &call.order {
            keys.push(key.eval_rows(batch, rows, rt)?);
        }
        let Self::Others(states) = self else { return Ok(()) };
        for row in 0..rows.len() {
            rt.tick()?;
            let of_row = |values: &[Values<'_>]| values.iter().map(|v| v.get(row)).collect();
            let state = &mut states[groups.get(row)];
            state.take(call, of_row(&values), of_row(&keys), hasher, rt)?;
        }
        Ok(())
    }

    /// Takes all rows at once; false, and none is taken, if these are no values for that.
    fn add_vector(
        &mut self,
        values: Option<&Values<'_>>,
        rows: usize,
        groups: GroupOf<'_>,
    ) -> bool {
        let each = match values {
            Some(Values::Each(vector)) => Some(vector.as_ref()),
            _ => None,
        };
        match (self, each.map(|vector| (vector.data(), vector.nulls()))) {
            (Self::Counts(counts), each) => {
                let null_for_all = matches!(values, Some(Values::One(Datum::Null)));
                let nulls = each.map_or(&[][..], |(_, nulls)| nulls);
                match groups {
                    _ if null_for_all => {}
                    GroupOf::First if nulls.is_empty() => counts[0] += rows as i64,
                    _ => {
                        for row in 0..rows {
                            let null = nulls.get(row).copied().unwrap_or(false);
                            counts[groups.get(row)] += i64::from(!null);
                        }
                    }
                }
                true
            }
            (Self::Integers(sums), Some((data, nulls))) => {
                match data {
                    VectorData::Int2(values) => {
                        sums.add(values, nulls, groups, |sum, value| sum + i128::from(value));
                    }
                    VectorData::Int4(values) => {
                        sums.add(values, nulls, groups, |sum, value| sum + i128::from(value));
                    }
                    VectorData::Int8(values) => {
                        sums.add(values, nulls, groups, |sum, value| sum + i128::from(value));
                    }
                    _ => return false,
                }
                true
            }
            (Self::Decimals(sums, scale), Some((VectorData::Decimal(values), nulls))) => {
                // NULLs alone have no scale.
                let some = nulls.is_empty() || nulls.contains(&false);
                if some && scale.is_some_and(|scale| scale != values.scale()) {
                    return false;
                }
                if some {
                    *scale = Some(values.scale());
                }
                sums.add(values.values(), nulls, groups, |sum, value| sum + i128::from(value));
                true
            }
            (Self::Floats(sums), Some((VectorData::Float8(values), nulls))) => {
                // A sum that becomes infinite may be an overflow.
                if !values.iter().all(|value| value.abs() < f64::MAX / 1e6)
                    || !sums.sums.iter().all(|sum| sum.abs() < f64::MAX / 2.0)
                {
                    return false;
                }
                sums.add(values, nulls, groups, |sum, value| sum + value);
                true
            }
            _ => false,
        }
    }

    /// Goes on row by row from here.
    fn loosen(&mut self, kind: AggregateKind) {
        let average = matches!(kind, AggregateKind::AverageNumeric | AggregateKind::AverageFloat);
        let accumulators: Vec<Accumulator> = match std::mem::replace(self, Self::Others(Vec::new()))
        {
            Self::Others(states) => {
                *self = Self::Others(states);
                return;
            }
            Self::Counts(counts) => counts.into_iter().map(Accumulator::Count).collect(),
            Self::Integers(sums) if kind == AggregateKind::SumInt => sums
                .each()
                .map(|(sum, count)| {
                    // Sums of int4 fit int8 as long as rows can be counted.
                    Accumulator::SumInt(
                        (count > 0).then_some(i64::try_from(sum).unwrap_or(i64::MAX)),
                    )
                })
                .collect(),
            Self::Integers(sums) => sums
                .each()
                .map(|(sum, count)| Accumulator::SumInt8 { sum, count, average })
                .collect(),
            Self::Decimals(sums, scale) => sums
                .each()
                .map(|(sum, count)| {
                    let sum = (count > 0).then(|| Numeric::new(sum, scale.unwrap_or(0)));
                    Accumulator::SumNumeric { sum, count, average }
                })
                .collect(),
            Self::Floats(sums) => {
                sums.each().map(|(sum, count)| Accumulator::SumFloat { sum, count, kind }).collect()
            }
        };
        *self = Self::Others(accumulators.into_iter().map(CallState::of).collect());
    }

    /// The states as they would be had the rows come one by one.
    fn into_each(mut self, kind: AggregateKind) -> Vec<CallState> {
        self.loosen(kind);
        match self {
            Self::Others(states) => states,
            _ => Vec::new(),
        }
    }
}
