//! The states of an aggregate call, one for each group.

use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::{Batch, Rows, Runtime, Values};
use niwaki_expr::function::AggregateKind;
use niwaki_expr::query::AggregateCall;
use niwaki_functions::aggregates::Accumulator;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Numeric, TypeOid, VectorData};

use crate::grouping::ordered_input::OrderedInput;

/// The group of each row of a batch.
#[derive(Clone, Copy)]
pub(crate) enum GroupOf<'g> {
    /// All rows belong to this group.
    One(u32),
    Each(&'g [u32]),
}

impl GroupOf<'_> {
    #[inline]
    fn get(self, row: usize) -> usize {
        match self {
            Self::One(group) => group as usize,
            Self::Each(groups) => groups[row] as usize,
        }
    }
}

/// The states of one call, by group.
pub(crate) enum States {
    Counts(Vec<i64>),
    /// The sums of integers, for SUM and AVG.
    Integers(Sums<i128>),
    /// The sums of numerics, as long as all values have one scale and are small.
    Decimals(Sums<i128>, Option<u16>),
    Floats(Sums<f64>),
    /// All other aggregates, which take their input row by row.
    Others(Vec<Accumulator>),
}

/// Sums, each with the number of its values.
#[derive(Default)]
pub(crate) struct Sums<T> {
    /// The initial value of a sum.
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
            (GroupOf::One(group), true) => {
                let group = group as usize;
                self.sums[group] =
                    values.iter().fold(self.sums[group], |sum, value| plus(sum, *value));
                self.counts[group] += values.len() as i64;
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

    /// Adds the sums of other states, each to the group at its place.
    fn add_sums(&mut self, others: &Self, places: &[u32], plus: impl Fn(T, T) -> T) {
        for (other, place) in places.iter().enumerate() {
            let (own, (sum, count)) = (*place as usize, others.of(other));
            self.sums[own] = plus(self.sums[own], sum);
            self.counts[own] += count;
        }
    }

    fn of(&self, group: usize) -> (T, i64) {
        (self.sums[group], self.counts[group])
    }
}

/// The growth of states beyond their own size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    pub(crate) bytes: usize,
    /// The bytes that the statement is charged for, because nothing else limits them.
    pub(crate) charged: usize,
}

impl std::ops::AddAssign for Growth {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.charged += other.charged;
    }
}

impl States {
    /// Makes states that take batches.
    pub(crate) fn of(call: &AggregateCall) -> Self {
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
            // A sum of nothing but -0 is -0; an average of nothing but -0 is 0.
            (K::SumFloat8, Some(TypeOid::FLOAT8)) => {
                Self::Floats(Sums { zero: -0.0, ..Sums::default() })
            }
            _ => Self::Others(Vec::new()),
        }
    }

    /// Makes states that take rows one by one.
    pub(crate) fn row_by_row(_: &AggregateCall) -> Self {
        Self::Others(Vec::new())
    }

    /// Returns the bytes of one state.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Counts(_) => size_of::<i64>(),
            Self::Integers(_) | Self::Decimals(..) => size_of::<i128>() + size_of::<i64>(),
            Self::Floats(_) => size_of::<f64>() + size_of::<i64>(),
            Self::Others(_) => size_of::<Accumulator>(),
        }
    }

    /// Gives each of `groups` groups a state. Returns the bytes that the new states hold.
    pub(crate) fn grow(&mut self, call: &AggregateCall, groups: usize) -> Growth {
        let mut grown = Growth::default();
        match self {
            Self::Counts(counts) => counts.resize(groups, 0),
            Self::Integers(sums) | Self::Decimals(sums, _) => sums.grow(groups),
            Self::Floats(sums) => sums.grow(groups),
            Self::Others(states) => {
                let types: Vec<_> = call.arguments.iter().map(|argument| argument.ty).collect();
                let known = states.len();
                states.resize_with(groups, || Accumulator::new(call.kind, &types));
                grown.bytes = states.iter().skip(known).map(Accumulator::bytes).sum();
            }
        }
        grown
    }

    /// Takes the rows of a batch, or gives the rows to `input` if the call has one. Returns the
    /// growth of the states.
    pub(crate) fn add(
        &mut self,
        call: &AggregateCall,
        input: &mut Option<OrderedInput>,
        batch: &Batch,
        rows: Rows<'_>,
        groups: GroupOf<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Growth> {
        let mut values = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            values.push(argument.eval_rows(batch, rows, rt)?);
        }
        let of_row = |values: &[Values<'_>], row| -> Vec<Datum> {
            values.iter().map(|v| v.get(row)).collect()
        };
        if let Some(input) = input {
            let mut keys = Vec::with_capacity(call.order.len());
            for (key, ..) in &call.order {
                keys.push(key.eval_rows(batch, rows, rt)?);
            }
            for row in 0..rows.len() {
                rt.tick()?;
                let group = groups.get(row) as u32;
                input.take(group, call, &of_row(&values, row), &of_row(&keys, row), rt)?;
            }
            return Ok(Growth::default());
        }
        if self.add_vector(values.first(), rows.len(), groups) {
            return Ok(Growth::default());
        }
        self.loosen(call.kind);
        let mut grown = Growth::default();
        for row in 0..rows.len() {
            rt.tick()?;
            grown += self.add_row(groups.get(row) as u32, &of_row(&values, row), rt.exec)?;
        }
        Ok(grown)
    }

    /// Takes the arguments of one row, and returns the growth of the state. The states must be
    /// those that take rows one by one.
    pub(crate) fn add_row(
        &mut self,
        group: u32,
        values: &[Datum],
        exec: &ExecContext<'_>,
    ) -> Result<Growth> {
        let Self::Others(states) = self else {
            return Err(SqlError::internal("a row for the states of batches"));
        };
        let state = &mut states[group as usize];
        let before = state.bytes();
        state.add(values, exec)?;
        let bytes = state.bytes().saturating_sub(before);
        Ok(Growth { bytes, charged: if state.grows() { bytes } else { 0 } })
    }

    /// Takes all rows at once. If the values do not allow this, takes none and returns false.
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
                    GroupOf::One(group) if nulls.is_empty() => {
                        counts[group as usize] += rows as i64;
                    }
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
                // A vector of only NULLs has no scale.
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

    /// Adds the states of another thread, each to the state of the group at its position. Returns
    /// the growth. States that the statement is charged for cannot be combined.
    pub(crate) fn add_states(
        &mut self,
        kind: AggregateKind,
        mut others: Self,
        places: &[u32],
    ) -> Result<Growth> {
        match (&mut *self, &others) {
            (Self::Counts(own), Self::Counts(others)) => {
                for (place, count) in places.iter().zip(others) {
                    own[*place as usize] += count;
                }
                return Ok(Growth::default());
            }
            (Self::Integers(own), Self::Integers(others)) => {
                own.add_sums(others, places, |own, other| own + other);
                return Ok(Growth::default());
            }
            (Self::Decimals(own, scale), Self::Decimals(others, of_others))
                if scale.is_none() || of_others.is_none() || scale == of_others =>
            {
                *scale = scale.or(*of_others);
                own.add_sums(others, places, |own, other| own + other);
                return Ok(Growth::default());
            }
            _ => {}
        }
        self.loosen(kind);
        others.loosen(kind);
        let mut grown = Growth::default();
        let (Self::Others(own), Self::Others(others)) = (self, others) else { return Ok(grown) };
        for (place, other) in places.iter().zip(others) {
            let state = &mut own[*place as usize];
            let before = state.bytes();
            state.add_state(other)?;
            grown.bytes += state.bytes().saturating_sub(before);
        }
        Ok(grown)
    }

    /// Returns the number of groups with a state.
    fn len(&self) -> usize {
        match self {
            Self::Counts(counts) => counts.len(),
            Self::Integers(sums) | Self::Decimals(sums, _) => sums.counts.len(),
            Self::Floats(sums) => sums.counts.len(),
            Self::Others(states) => states.len(),
        }
    }

    /// Takes a group's state out, in the form that it would have if its rows had come one by one.
    /// The caller asks once for each group.
    pub(crate) fn take(&mut self, group: u32, kind: AggregateKind) -> Accumulator {
        let group = group as usize;
        let average = matches!(kind, AggregateKind::AverageNumeric | AggregateKind::AverageFloat);
        match self {
            Self::Counts(counts) => Accumulator::Count(counts[group]),
            Self::Integers(sums) if kind == AggregateKind::SumInt => {
                // Sums of int4 fit int8 as long as the number of rows can be counted.
                let (sum, count) = sums.of(group);
                Accumulator::SumInt((count > 0).then_some(i64::try_from(sum).unwrap_or(i64::MAX)))
            }
            Self::Integers(sums) => {
                let (sum, count) = sums.of(group);
                Accumulator::SumInt8 { sum, count, average }
            }
            Self::Decimals(sums, scale) => {
                let (sum, count) = sums.of(group);
                let sum = (count > 0).then(|| Numeric::new(sum, scale.unwrap_or(0)));
                Accumulator::SumNumeric { sum, count, average }
            }
            Self::Floats(sums) => {
                let (sum, count) = sums.of(group);
                Accumulator::SumFloat { sum, count, kind }
            }
            Self::Others(states) => std::mem::replace(&mut states[group], Accumulator::Count(0)),
        }
    }

    /// Converts the states so that they take rows one by one from now on.
    fn loosen(&mut self, kind: AggregateKind) {
        if !matches!(self, Self::Others(_)) {
            let count = self.len() as u32;
            *self = Self::Others((0..count).map(|group| self.take(group, kind)).collect());
        }
    }
}
