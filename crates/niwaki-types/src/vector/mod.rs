//! Values of one column in many rows: the parts of a batch of rows.
//!
//! Types of fixed length stand as plain numbers, text in one buffer, numerics of one scale as
//! integers. All other values, and numerics that do not fit, stand as [`Datum`]. A mask says which
//! values are NULL; it is empty while none is. In the place of a NULL stands a value that may be
//! computed with.
//!
//! The order: parts of a column (`decimals`, `texts`), then the column, in this file.

mod decimals;
#[cfg(test)]
mod tests;
mod texts;

use std::sync::Arc;

pub use decimals::Decimals;
pub use texts::Texts;

use crate::key::{encode_key, encode_numeric_key, encode_text_key};
use crate::numeric::Numeric;
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;
use crate::value::key_order::KeyOrder;

/// Values of one type, one after the other.
#[derive(Clone, Debug)]
pub struct Vector {
    data: VectorData,
    /// Mask of the NULL values; empty if none is.
    nulls: Vec<bool>,
}

/// The values of a [`Vector`]; the types of each variant are as for [`Datum`].
#[derive(Clone, Debug)]
pub enum VectorData {
    /// `bool`
    Bool(Vec<bool>),
    /// `int2`
    Int2(Vec<i16>),
    /// `int4`
    Int4(Vec<i32>),
    /// `int8`
    Int8(Vec<i64>),
    /// `float4`
    Float4(Vec<f32>),
    /// `float8`
    Float8(Vec<f64>),
    /// `date`
    Date(Vec<i32>),
    /// `timestamp`
    Timestamp(Vec<i64>),
    /// `timestamptz`
    TimestampTz(Vec<i64>),
    /// Types whose values are [`Datum::Text`].
    Text(Texts),
    /// `numeric`, as long as all values have one scale and small coefficients.
    Decimal(Decimals),
    /// Everything else.
    Any(Vec<Datum>),
}

/// Calls `$body` with `$values` bound to the values of each variant that are a plain list.
macro_rules! for_each_list {
    ($data:expr, $values:ident => $body:expr, $texts:ident => $text_body:expr, $decimals:ident => $decimal_body:expr) => {
        match $data {
            VectorData::Bool($values) => $body,
            VectorData::Int2($values) => $body,
            VectorData::Int4($values) => $body,
            VectorData::Int8($values) => $body,
            VectorData::Float4($values) => $body,
            VectorData::Float8($values) => $body,
            VectorData::Date($values) => $body,
            VectorData::Timestamp($values) => $body,
            VectorData::TimestampTz($values) => $body,
            VectorData::Any($values) => $body,
            VectorData::Text($texts) => $text_body,
            VectorData::Decimal($decimals) => $decimal_body,
        }
    };
}

impl VectorData {
    /// Makes an empty vector for values of this type.
    pub fn for_type(oid: TypeOid) -> Self {
        match oid {
            TypeOid::BOOL => Self::Bool(Vec::new()),
            TypeOid::INT2 => Self::Int2(Vec::new()),
            TypeOid::INT4 => Self::Int4(Vec::new()),
            TypeOid::INT8 => Self::Int8(Vec::new()),
            TypeOid::FLOAT4 => Self::Float4(Vec::new()),
            TypeOid::FLOAT8 => Self::Float8(Vec::new()),
            TypeOid::DATE => Self::Date(Vec::new()),
            TypeOid::TIMESTAMP => Self::Timestamp(Vec::new()),
            TypeOid::TIMESTAMPTZ => Self::TimestampTz(Vec::new()),
            TypeOid::NUMERIC => Self::Decimal(Decimals::default()),
            text if text.is_text() => Self::Text(Texts::default()),
            _ => Self::Any(Vec::new()),
        }
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        for_each_list!(self, values => values.len(), texts => texts.len(), decimals => decimals.len())
    }

    /// Decides whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Vector {
    fn default() -> Self {
        Self::new(VectorData::Any(Vec::new()))
    }
}

impl Vector {
    /// Makes a vector of these values, none of them NULL.
    pub fn new(data: VectorData) -> Self {
        Self { data, nulls: Vec::new() }
    }

    /// Makes an empty vector for values of this type.
    pub fn for_type(oid: TypeOid) -> Self {
        Self::new(VectorData::for_type(oid))
    }

    /// Makes a vector of these values; `nulls` says which of them are NULL, and is empty if none
    /// is.
    ///
    /// # Panics
    /// If `nulls` is neither empty nor as long as the values.
    pub fn with_nulls(data: VectorData, nulls: Vec<bool>) -> Self {
        assert!(nulls.is_empty() || nulls.len() == data.len(), "a mark for each value");
        Self { data, nulls }
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Decides whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values; a NULL's place has any value.
    #[inline]
    pub fn data(&self) -> &VectorData {
        &self.data
    }

    /// Returns the mask of the NULL values; empty if none is.
    #[inline]
    pub fn nulls(&self) -> &[bool] {
        &self.nulls
    }

    /// Decides whether value number `row` is NULL.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.get(row).copied().unwrap_or(false)
    }

    /// Returns the values and which of them are NULL, taken apart.
    pub fn into_parts(self) -> (VectorData, Vec<bool>) {
        (self.data, self.nulls)
    }

    /// Removes the values and keeps their memory. Values of `oid` may follow.
    pub fn clear(&mut self, oid: TypeOid) {
        self.nulls.clear();
        match (&mut self.data, VectorData::for_type(oid)) {
            // A value that did not fit made the data this variant, or there was no value yet.
            (VectorData::Any(_), data) if !matches!(data, VectorData::Any(_)) => self.data = data,
            (data, _) => {
                for_each_list!(data, values => values.clear(), texts => texts.clear(), decimals => decimals.clear());
            }
        }
    }

    /// Notes that the value just appended is no NULL.
    #[inline]
    fn not_null(&mut self) {
        if !self.nulls.is_empty() {
            self.nulls.push(false);
        }
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.nulls.resize(self.data.len(), false);
        self.nulls.push(true);
        match &mut self.data {
            VectorData::Bool(values) => values.push(false),
            VectorData::Int2(values) => values.push(0),
            VectorData::Int4(values) | VectorData::Date(values) => values.push(0),
            VectorData::Int8(values)
            | VectorData::Timestamp(values)
            | VectorData::TimestampTz(values) => values.push(0),
            VectorData::Float4(values) => values.push(0.0),
            VectorData::Float8(values) => values.push(0.0),
            VectorData::Text(texts) => texts.push_empty(),
            VectorData::Decimal(decimals) => decimals.push_zero(),
            VectorData::Any(values) => values.push(Datum::Null),
        }
    }

    /// Appends an `int4`; only to a vector of that type.
    #[inline]
    pub(crate) fn push_int4(&mut self, value: i32) -> bool {
        let VectorData::Int4(values) = &mut self.data else { return false };
        values.push(value);
        self.not_null();
        true
    }

    /// Appends an `int8`; only to a vector of that type.
    #[inline]
    pub(crate) fn push_int8(&mut self, value: i64) -> bool {
        let VectorData::Int8(values) = &mut self.data else { return false };
        values.push(value);
        self.not_null();
        true
    }

    /// Appends a text; only to a vector of such a type. False, and nothing is appended, when there
    /// is no room for it.
    #[inline]
    pub(crate) fn push_text(&mut self, text: &str) -> bool {
        let VectorData::Text(texts) = &mut self.data else { return false };
        let fits = texts.push(text);
        if fits {
            self.not_null();
        }
        fits
    }

    /// Appends a value of the vector's type.
    pub fn push(&mut self, value: &Datum) {
        match (&mut self.data, value) {
            (_, Datum::Null) => return self.push_null(),
            (VectorData::Bool(values), Datum::Bool(value)) => values.push(*value),
            (VectorData::Int2(values), Datum::Int2(value)) => values.push(*value),
            (VectorData::Int4(values), Datum::Int4(value)) => values.push(*value),
            (VectorData::Int8(values), Datum::Int8(value)) => values.push(*value),
            (VectorData::Float4(values), Datum::Float4(value)) => values.push(*value),
            (VectorData::Float8(values), Datum::Float8(value)) => values.push(*value),
            (VectorData::Date(values), Datum::Date(value)) => values.push(*value),
            (VectorData::Timestamp(values), Datum::Timestamp(value)) => values.push(*value),
            (VectorData::TimestampTz(values), Datum::TimestampTz(value)) => values.push(*value),
            (VectorData::Any(values), value) => values.push(value.clone()),
            (data, value) => {
                let fits = match (data, value) {
                    (VectorData::Text(texts), Datum::Text(text)) => texts.push(text),
                    (VectorData::Decimal(decimals), Datum::Numeric(value)) => decimals.push(value),
                    _ => false,
                };
                // A value that does not fit, or is of another type, turns all of them into
                // [`Datum`].
                if !fits {
                    self.loosen().push(value.clone());
                }
            }
        }
        self.not_null();
    }

    /// Appends value number `row` of a vector of the same type.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn push_from(&mut self, other: &Self, row: usize) {
        if other.is_null(row) {
            return self.push_null();
        }
        match (&mut self.data, &other.data) {
            (VectorData::Bool(to), VectorData::Bool(from)) => to.push(from[row]),
            (VectorData::Int2(to), VectorData::Int2(from)) => to.push(from[row]),
            (VectorData::Int4(to), VectorData::Int4(from))
            | (VectorData::Date(to), VectorData::Date(from)) => to.push(from[row]),
            (VectorData::Int8(to), VectorData::Int8(from))
            | (VectorData::Timestamp(to), VectorData::Timestamp(from))
            | (VectorData::TimestampTz(to), VectorData::TimestampTz(from)) => to.push(from[row]),
            (VectorData::Float4(to), VectorData::Float4(from)) => to.push(from[row]),
            (VectorData::Float8(to), VectorData::Float8(from)) => to.push(from[row]),
            (VectorData::Text(to), VectorData::Text(from)) => {
                if !to.push(from.get(row)) {
                    return self.push(&other.get(row));
                }
            }
            (VectorData::Decimal(to), VectorData::Decimal(from)) => {
                if !to.push(&from.get(row)) {
                    return self.push(&other.get(row));
                }
            }
            _ => return self.push(&other.get(row)),
        }
        self.not_null();
    }

    /// Makes a vector of values; the first one that is not NULL gives the type.
    pub fn from_values(values: &[Datum]) -> Self {
        let data = match values.iter().find(|value| !value.is_null()) {
            Some(Datum::Bool(_)) => VectorData::Bool(Vec::new()),
            Some(Datum::Int2(_)) => VectorData::Int2(Vec::new()),
            Some(Datum::Int4(_)) => VectorData::Int4(Vec::new()),
            Some(Datum::Int8(_)) => VectorData::Int8(Vec::new()),
            Some(Datum::Float4(_)) => VectorData::Float4(Vec::new()),
            Some(Datum::Float8(_)) => VectorData::Float8(Vec::new()),
            Some(Datum::Date(_)) => VectorData::Date(Vec::new()),
            Some(Datum::Timestamp(_)) => VectorData::Timestamp(Vec::new()),
            Some(Datum::TimestampTz(_)) => VectorData::TimestampTz(Vec::new()),
            Some(Datum::Text(_)) => VectorData::Text(Texts::default()),
            Some(Datum::Numeric(_)) => VectorData::Decimal(Decimals::default()),
            _ => VectorData::Any(Vec::with_capacity(values.len())),
        };
        let mut vector = Self::new(data);
        for value in values {
            vector.push(value);
        }
        vector
    }

    /// Returns the bytes of memory, without the memory that values of [`VectorData::Any`] point to.
    pub fn memory(&self) -> usize {
        let data = for_each_list!(
            &self.data,
            values => values.capacity() * values.first().map_or(0, size_of_val),
            texts => texts.memory(),
            decimals => decimals.memory()
        );
        data + self.nulls.capacity()
    }

    /// Appends a numeric.
    pub(crate) fn push_numeric(&mut self, value: Numeric) {
        let fits = match &mut self.data {
            VectorData::Decimal(decimals) => decimals.push(&value),
            _ => false,
        };
        if !fits {
            self.loosen().push(Datum::Numeric(Arc::new(value)));
        }
        self.not_null();
    }

    /// Turns the values into [`VectorData::Any`].
    fn loosen(&mut self) -> &mut Vec<Datum> {
        if !matches!(self.data, VectorData::Any(_)) {
            let values = (0..self.len()).map(|row| self.get(row)).collect();
            self.data = VectorData::Any(values);
        }
        match &mut self.data {
            VectorData::Any(values) => values,
            _ => unreachable!("it was made so just above"),
        }
    }

    /// Replaces the last value, which must exist.
    pub fn replace_last(&mut self, value: &Datum) {
        if self.nulls.pop().is_some() && !self.nulls.contains(&true) {
            self.nulls.clear();
        }
        let data = &mut self.data;
        for_each_list!(data, values => drop(values.pop()), texts => texts.pop(), decimals => decimals.pop());
        self.push(value);
    }

    /// Returns value number `row`.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn get(&self, row: usize) -> Datum {
        if self.is_null(row) {
            return Datum::Null;
        }
        match &self.data {
            VectorData::Bool(values) => Datum::Bool(values[row]),
            VectorData::Int2(values) => Datum::Int2(values[row]),
            VectorData::Int4(values) => Datum::Int4(values[row]),
            VectorData::Int8(values) => Datum::Int8(values[row]),
            VectorData::Float4(values) => Datum::Float4(values[row]),
            VectorData::Float8(values) => Datum::Float8(values[row]),
            VectorData::Date(values) => Datum::Date(values[row]),
            VectorData::Timestamp(values) => Datum::Timestamp(values[row]),
            VectorData::TimestampTz(values) => Datum::TimestampTz(values[row]),
            VectorData::Text(texts) => Datum::text(texts.get(row)),
            VectorData::Decimal(decimals) => Datum::Numeric(Arc::new(decimals.get(row))),
            VectorData::Any(values) => values[row].clone(),
        }
    }

    /// Appends the key of value number `row` ([`encode_key`](crate::encode_key)), without making a
    /// value where that takes memory.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn encode_key(&self, row: usize, order: KeyOrder, out: &mut Vec<u8>) {
        match &self.data {
            VectorData::Text(texts) if !self.is_null(row) => {
                encode_text_key(texts.get_bytes(row), order, out);
            }
            VectorData::Decimal(decimals) if !self.is_null(row) => {
                encode_numeric_key(&decimals.get(row), order, out);
            }
            _ => encode_key(&self.get(row), order, out),
        }
    }

    /// Returns the values with these numbers, in this order; a number may come several times.
    ///
    /// # Panics
    /// If there is no such value.
    #[must_use]
    pub fn take(&self, rows: &[u32]) -> Self {
        fn pick<T: Clone>(values: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|row| values[*row as usize].clone()).collect()
        }
        let data = match &self.data {
            VectorData::Bool(values) => VectorData::Bool(pick(values, rows)),
            VectorData::Int2(values) => VectorData::Int2(pick(values, rows)),
            VectorData::Int4(values) => VectorData::Int4(pick(values, rows)),
            VectorData::Int8(values) => VectorData::Int8(pick(values, rows)),
            VectorData::Float4(values) => VectorData::Float4(pick(values, rows)),
            VectorData::Float8(values) => VectorData::Float8(pick(values, rows)),
            VectorData::Date(values) => VectorData::Date(pick(values, rows)),
            VectorData::Timestamp(values) => VectorData::Timestamp(pick(values, rows)),
            VectorData::TimestampTz(values) => VectorData::TimestampTz(pick(values, rows)),
            VectorData::Text(texts) => VectorData::Text(texts.take(rows)),
            VectorData::Decimal(decimals) => VectorData::Decimal(decimals.take(rows)),
            VectorData::Any(values) => VectorData::Any(pick(values, rows)),
        };
        let nulls = if self.nulls.is_empty() { Vec::new() } else { pick(&self.nulls, rows) };
        Self { data, nulls }
    }
}
