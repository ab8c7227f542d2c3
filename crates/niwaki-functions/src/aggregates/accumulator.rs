//! The running state of one aggregate in one group.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_expr::function::{AggregateKind, Regression};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{ANY_ARRAY, element_of};
use niwaki_types::growing::{Charge, charge_elements, charge_more, value_bytes};
use niwaki_types::{Array, Datum, Interval, Numeric, Spread, TypeError, TypeOid, compare};

use super::ordered_set::OrderedRows;
use super::regression::{Pairs, Squares};
use crate::functions::JsonAggregate;

/// The running state of one aggregate in one group.
#[derive(Clone, Debug)]
pub enum Accumulator {
    /// A number of rows.
    Count(i64),
    /// A sum of int2 or int4.
    SumInt(Option<i64>),
    /// A sum of int8 stays in 128 bits as long as it fits, which holds for fewer than 2^64 rows.
    SumInt8 {
        /// The sum so far.
        sum: i128,
        /// The number of values.
        count: i64,
        /// True for the average.
        average: bool,
    },
    /// A sum of exact numbers.
    SumNumeric {
        /// The sum so far.
        sum: Option<Numeric>,
        /// The number of values.
        count: i64,
        /// True for the average.
        average: bool,
    },
    /// A sum of floats.
    SumFloat {
        /// The sum so far.
        sum: f64,
        /// The number of values.
        count: i64,
        /// Sum or average.
        kind: AggregateKind,
    },
    /// A sum of intervals.
    SumInterval {
        /// The sum so far.
        sum: Option<Interval>,
        /// The number of values.
        count: i64,
        /// True for the average.
        average: bool,
    },
    /// Sums of numbers and of their squares.
    SpreadNumeric {
        /// The statistic.
        spread: Spread,
        /// The number of values.
        count: i64,
        /// The sum of the values, and the sum of their squares.
        sums: Option<(Numeric, Numeric)>,
    },
    /// The same sums of int2 and int4, whose squares fit 128 bits for any number of rows.
    SpreadInt {
        /// The statistic.
        spread: Spread,
        /// The number of values.
        count: i64,
        /// The sum so far.
        sum: i128,
        /// The sum of the squares.
        squares: i128,
    },
    /// The spread of floats.
    SpreadFloat {
        /// The statistic.
        spread: Spread,
        /// The sums of squares.
        squares: Squares,
    },
    /// A statistic of pairs of floats.
    Regression {
        /// The statistic.
        regression: Regression,
        /// The sums.
        pairs: Pairs,
    },
    /// The least or the greatest value.
    Extreme {
        /// The value so far.
        best: Datum,
        /// The most that it has taken so far besides its own size.
        bytes: usize,
        /// True for `max`.
        greatest: bool,
        /// The type of the values.
        ty: TypeOid,
    },
    /// AND or OR of booleans.
    Bool {
        /// The result so far.
        value: Option<bool>,
        /// True for AND.
        and: bool,
    },
    /// AND, OR or XOR of bits.
    Bits {
        /// The result so far.
        value: Option<Datum>,
        /// The operation.
        kind: AggregateKind,
    },
    /// Texts in a row.
    Strings(Option<String>),
    /// Bytes in a row.
    Bytes(Option<Vec<u8>>),
    /// An array of all values.
    Array {
        /// The type of the elements.
        element: TypeOid,
        /// The elements.
        values: Vec<Datum>,
        /// The bytes of the values beyond their own size.
        bytes: usize,
    },
    /// A JSON aggregate, with the types of its arguments.
    Json(JsonAggregate, Vec<TypeOid>),
    /// The rows of an aggregate WITHIN GROUP.
    OrderedSet(Box<OrderedRows>),
}

impl Accumulator {
    /// Makes the state before the first row, for an aggregate with arguments of these types.
    pub fn new(kind: AggregateKind, arguments: &[TypeOid]) -> Self {
        use AggregateKind as K;
        let argument = arguments.first().copied().unwrap_or(TypeOid::INT8);
        match kind {
            K::CountRows | K::Count => Self::Count(0),
            K::SumInt => Self::SumInt(None),
            K::SumNumeric | K::AverageNumeric => {
                let average = kind == K::AverageNumeric;
                if argument == TypeOid::NUMERIC {
                    Self::SumNumeric { sum: None, count: 0, average }
                } else {
                    Self::SumInt8 { sum: 0, count: 0, average }
                }
            }
            K::AverageFloat => Self::SumFloat { sum: 0.0, count: 0, kind },
            // A sum of nothing but -0 is -0; an average of nothing but -0 is 0.
            K::SumFloat4 | K::SumFloat8 => Self::SumFloat { sum: -0.0, count: 0, kind },
            K::SumInterval | K::AverageInterval => {
                Self::SumInterval { sum: None, count: 0, average: kind == K::AverageInterval }
            }
            K::SpreadNumeric(spread) if matches!(argument, TypeOid::INT2 | TypeOid::INT4) => {
                Self::SpreadInt { spread, count: 0, sum: 0, squares: 0 }
            }
            K::SpreadNumeric(spread) => Self::SpreadNumeric { spread, count: 0, sums: None },
            K::SpreadFloat(spread) => Self::SpreadFloat { spread, squares: Squares::default() },
            K::Regression(regression) => Self::Regression { regression, pairs: Pairs::default() },
            K::Min | K::Max => {
                let greatest = kind == K::Max;
                Self::Extreme { best: Datum::Null, bytes: 0, greatest, ty: argument }
            }
            K::BoolAnd | K::BoolOr => Self::Bool { value: None, and: kind == K::BoolAnd },
            K::BitAnd | K::BitOr | K::BitXor => Self::Bits { value: None, kind },
            K::StringAgg => Self::Strings(None),
            K::BytesAgg => Self::Bytes(None),
            K::ArrayAgg => Self::Array { element: argument, values: Vec::new(), bytes: 0 },
            K::Json { binary, object } => {
                Self::Json(JsonAggregate::new(binary, object), arguments.to_vec())
            }
            K::OrderedSet(kind) => {
                let ty = arguments.last().copied().unwrap_or(TypeOid::INT8);
                Self::OrderedSet(Box::new(OrderedRows::new(kind, ty)))
            }
        }
    }

    /// Returns the receiver of sorted rows, if this is an aggregate WITHIN GROUP.
    pub fn ordered_rows(&mut self) -> Option<&mut OrderedRows> {
        if let Self::OrderedSet(rows) = self { Some(rows) } else { None }
    }

    /// Decides whether the state grows with the rows it takes, so that only the statement's memory
    /// limit bounds the state.
    pub fn grows(&self) -> bool {
        matches!(self, Self::Strings(_) | Self::Bytes(_) | Self::Array { .. } | Self::Json(..))
    }

    /// Bytes it holds beyond its own size, roughly. They never become less, but for
    /// [`Accumulator::OrderedSet`].
    pub fn bytes(&self) -> usize {
        match self {
            Self::Strings(text) => text.as_ref().map_or(0, String::len),
            Self::Bytes(bytes) => bytes.as_ref().map_or(0, Vec::len),
            Self::Array { values, bytes, .. } => values.len() * size_of::<Datum>() + bytes,
            Self::Extreme { bytes, .. } => *bytes,
            Self::Json(state, types) => state.bytes() + size_of_val(types.as_slice()),
            Self::OrderedSet(rows) => size_of::<OrderedRows>() + rows.bytes(),
            // They hold numbers in place. The digits of a numeric beyond 38 do not count, as in
            // `value_bytes`.
            Self::Count(_)
            | Self::SumInt(_)
            | Self::SumInt8 { .. }
            | Self::SumNumeric { .. }
            | Self::SumFloat { .. }
            | Self::SumInterval { .. }
            | Self::SpreadNumeric { .. }
            | Self::SpreadInt { .. }
            | Self::SpreadFloat { .. }
            | Self::Regression { .. }
            | Self::Bool { .. }
            | Self::Bits { .. } => 0,
        }
    }

    /// Decides whether [`Accumulator::remove`] gives exactly the state without the removed row.
    pub fn is_reversible(&self) -> bool {
        matches!(
            self,
            Self::Count(_) | Self::SumInt(_) | Self::SumInt8 { .. } | Self::SpreadInt { .. }
        )
    }

    /// Takes out a row that [`Accumulator::add`] has taken in. The row must not be the last one
    /// left, and its first argument must not be NULL.
    ///
    /// # Errors
    /// `22003` beyond int8; `XX000` if the aggregate is not [reversible](Self::is_reversible).
    pub fn remove(&mut self, arguments: &[Datum]) -> Result<()> {
        let value = match arguments.first() {
            Some(Datum::Int2(v)) => Some(i128::from(*v)),
            Some(Datum::Int4(v)) => Some(i128::from(*v)),
            Some(Datum::Int8(v)) => Some(i128::from(*v)),
            _ => None,
        };
        match self {
            Self::Count(count) => *count -= 1,
            Self::SumInt(Some(sum)) => {
                let less = i64::try_from(value.ok_or_else(wrong_value)?).ok();
                let left = less.and_then(|less| sum.checked_sub(less));
                *sum = left.ok_or_else(|| TypeError::out_of_range("bigint"))?;
            }
            Self::SumInt8 { sum, count, .. } => {
                *sum -= value.ok_or_else(wrong_value)?;
                *count -= 1;
            }
            Self::SpreadInt { count, sum, squares, .. } => {
                let value = value.ok_or_else(wrong_value)?;
                *sum -= value;
                *squares -= value * value;
                *count -= 1;
            }
            _ => return Err(SqlError::internal("an aggregate that takes nothing out")),
        }
        Ok(())
    }

    /// Takes a row's arguments. `count(*)` has none.
    ///
    /// # Errors
    /// The errors of the aggregate's arithmetic; `54000` or `53200` when the state grows too large.
    pub fn add(&mut self, arguments: &[Datum], exec: &ExecContext<'_>) -> Result<()> {
        let first = arguments.first().unwrap_or(&Datum::Bool(true));
        if let Self::Json(state, types) = self {
            return state.add(types, arguments, exec);
        }
        if let Self::Array { values, bytes, .. } = self {
            return push_element(values, bytes, first);
        }
        if first.is_null() {
            return Ok(());
        }
        match self {
            Self::Count(count) => *count += 1,
            Self::SumInt(sum) => add_int(sum, first)?,
            Self::SumInt8 { sum, count, .. } => {
                *sum += match first {
                    Datum::Int2(v) => i128::from(*v),
                    Datum::Int4(v) => i128::from(*v),
                    Datum::Int8(v) => i128::from(*v),
                    _ => return Err(wrong_value()),
                };
                *count += 1;
            }
            Self::SumNumeric { sum, count, .. } => {
                let Datum::Numeric(value) = first else { return Err(wrong_value()) };
                *sum = Some(match sum.take() {
                    Some(sum) => sum.add(value)?,
                    None => Numeric::clone(value),
                });
                *count += 1;
            }
            Self::SumFloat { sum, count, kind } => {
                add_float(sum, *kind, first)?;
                *count += 1;
            }
            Self::SumInterval { sum, count, .. } => {
                let Datum::Interval(value) = first else { return Err(wrong_value()) };
                *sum = Some(match sum.take() {
                    Some(sum) => sum.checked_add(value)?,
                    None => **value,
                });
                *count += 1;
            }
            Self::SpreadNumeric { count, sums, .. } => {
                add_square(sums, first)?;
                *count += 1;
            }
            Self::SpreadInt { count, sum, squares, .. } => {
                let value = match first {
                    Datum::Int2(v) => i128::from(*v),
                    Datum::Int4(v) => i128::from(*v),
                    _ => return Err(wrong_value()),
                };
                *sum += value;
                *squares += value * value;
                *count += 1;
            }
            Self::SpreadFloat { squares, .. } => {
                squares.add(float(first).ok_or_else(wrong_value)?)?;
            }
            Self::Regression { pairs, .. } => {
                let second = arguments.get(1).ok_or_else(wrong_value)?;
                if !second.is_null() {
                    let (y, x) = (float(first), float(second));
                    pairs.add(y.ok_or_else(wrong_value)?, x.ok_or_else(wrong_value)?)?;
                }
            }
            Self::Bits { value, kind } => {
                *value = Some(match value.take() {
                    Some(bits) => combined(*kind, &bits, first).ok_or_else(wrong_value)?,
                    None => first.clone(),
                });
            }
            Self::Extreme { best, bytes, greatest, ty } => {
                refuse_other_elements(*ty, best, first)?;
                if best.is_null() || is_better(*ty, first, best, *greatest) {
                    *bytes = value_bytes(first).max(*bytes);
                    *best = first.clone();
                }
            }
            Self::Bool { value, and } => {
                let Datum::Bool(new) = first else { return Err(wrong_value()) };
                *value = Some(match *value {
                    None => *new,
                    Some(old) if *and => old && *new,
                    Some(old) => old || *new,
                });
            }
            Self::Strings(text) => join_text(text, first, arguments.get(1))?,
            Self::Bytes(bytes) => join_bytes(bytes, first, arguments.get(1))?,
            Self::OrderedSet(_) => return Err(SqlError::internal("rows without their order")),
            Self::Array { .. } | Self::Json(..) => {}
        }
        Ok(())
    }

    /// Adds another state of the same aggregate, as if that state's rows had come after the rows of
    /// this state.
    ///
    /// # Errors
    /// As [`Accumulator::add`]; `XX000` for states that cannot be put together.
    pub fn add_state(&mut self, other: Self) -> Result<()> {
        let wrong = || SqlError::internal("an aggregate whose states cannot be put together");
        match (self, other) {
            (Self::Count(own), Self::Count(other)) => *own += other,
            (Self::SumInt(own), Self::SumInt(Some(other))) => {
                let sum = own.unwrap_or(0).checked_add(other);
                *own = Some(sum.ok_or_else(|| TypeError::out_of_range("bigint"))?);
            }
            (Self::SumInt8 { sum, count, .. }, Self::SumInt8 { sum: other, count: more, .. }) => {
                *sum += other;
                *count += more;
            }
            (
                Self::SumNumeric { sum, count, .. },
                Self::SumNumeric { sum: Some(other), count: more, .. },
            ) => {
                *sum = Some(match sum.take() {
                    Some(sum) => sum.add(&other)?,
                    None => other,
                });
                *count += more;
            }
            (Self::SumFloat { sum, count, .. }, Self::SumFloat { sum: other, count: more, .. }) => {
                let before = *sum;
                *sum += other;
                if sum.is_infinite() && before.is_finite() && other.is_finite() {
                    return Err(SqlError::new("22003", "value out of range: overflow"));
                }
                *count += more;
            }
            (Self::Bits { value, kind }, Self::Bits { value: Some(other), .. }) => {
                *value = Some(match value.take() {
                    Some(bits) => combined(*kind, &bits, &other).ok_or_else(wrong)?,
                    None => other,
                });
            }
            (
                Self::Extreme { best, bytes, greatest, ty },
                Self::Extreme { best: other, bytes: most, .. },
            ) => {
                refuse_other_elements(*ty, best, &other)?;
                let better = best.is_null() || is_better(*ty, &other, best, *greatest);
                if !other.is_null() && better {
                    *bytes = most.max(*bytes);
                    *best = other;
                }
            }
            (Self::Bool { value, and }, Self::Bool { value: Some(other), .. }) => {
                *value = Some(match *value {
                    None => other,
                    Some(own) if *and => own && other,
                    Some(own) => own || other,
                });
            }
            // No row of the other state counted.
            (Self::SumInt(_), Self::SumInt(None))
            | (Self::SumNumeric { .. }, Self::SumNumeric { sum: None, .. })
            | (Self::Bits { .. }, Self::Bits { value: None, .. })
            | (Self::Bool { .. }, Self::Bool { value: None, .. }) => {}
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Returns the aggregate's result.
    ///
    /// # Errors
    /// The errors of the aggregate's arithmetic; `54000` or `53200` for a result that is too large.
    pub fn finish(self) -> Result<Datum> {
        Ok(match self {
            Self::Count(count) => Datum::Int8(count),
            Self::SumInt(sum) => sum.map_or(Datum::Null, Datum::Int8),
            Self::SumInt8 { count: 0, .. } | Self::SumNumeric { count: 0, .. } => Datum::Null,
            Self::SumInt8 { sum, count, average } => {
                let sum = Numeric::from(sum);
                total_or_average(sum, count, average)?
            }
            Self::SumNumeric { sum, count, average } => {
                let Some(sum) = sum else { return Ok(Datum::Null) };
                total_or_average(sum, count, average)?
            }
            Self::SumFloat { count: 0, .. } => Datum::Null,
            Self::SumFloat { sum, count, kind } => match kind {
                #[expect(clippy::cast_possible_truncation, reason = "rounded to float4 before")]
                AggregateKind::SumFloat4 => Datum::Float4(sum as f32),
                #[expect(clippy::cast_precision_loss, reason = "PostgreSQL divides by a float too")]
                AggregateKind::AverageFloat => Datum::Float8(sum / count as f64),
                _ => Datum::Float8(sum),
            },
            Self::SumInterval { sum: None, .. } => Datum::Null,
            #[expect(clippy::cast_precision_loss, reason = "PostgreSQL divides by a float too")]
            Self::SumInterval { sum: Some(sum), count, average } => {
                Datum::Interval(Arc::new(if average { sum.divide(count as f64)? } else { sum }))
            }
            Self::SpreadNumeric { sums: None, .. } => Datum::Null,
            Self::SpreadNumeric { spread, count, sums: Some((sum, squares)) } => {
                numeric(Numeric::spread(spread, count, &sum, &squares)?)
            }
            Self::SpreadInt { spread, count, sum, squares } => {
                let (sum, squares) = (Numeric::from(sum), Numeric::from(squares));
                numeric(Numeric::spread(spread, count, &sum, &squares)?)
            }
            Self::SpreadFloat { spread, squares } => squares.finish(spread),
            Self::Regression { regression, pairs } => pairs.finish(regression),
            Self::Bits { value, .. } => value.unwrap_or(Datum::Null),
            Self::Extreme { best, .. } => best,
            Self::Bool { value, .. } => value.map_or(Datum::Null, Datum::Bool),
            Self::Strings(text) => text.map_or(Datum::Null, |t| Datum::Text(t.into())),
            Self::Bytes(bytes) => bytes.map_or(Datum::Null, |b| Datum::Bytea(b.into())),
            Self::Array { values, .. } if values.is_empty() => Datum::Null,
            Self::Array { element, values, .. } => match element_of(element) {
                Some(inner) => Datum::Array(inner, Arc::new(Array::accumulated(&values)?)),
                None => Datum::array(element, values),
            },
            Self::Json(state, _) => state.finish()?,
            Self::OrderedSet(rows) => rows.finish()?,
        })
    }
}

/// Returns the error of an argument that has another type than the aggregate takes.
#[cold]
fn wrong_value() -> SqlError {
    SqlError::internal("an aggregate was given values of other types")
}

/// Adds a value to an array. `bytes` are the bytes of its values beyond their own size.
fn push_element(values: &mut Vec<Datum>, bytes: &mut usize, value: &Datum) -> Result<()> {
    let more = value_bytes(value);
    let held = values.len().saturating_mul(size_of::<Datum>()).saturating_add(*bytes);
    charge_elements(&mut Charge::of(held), 1, more)?;
    *bytes += more;
    values.push(value.clone());
    Ok(())
}

/// Adds an int2 or int4 to a sum.
#[inline]
fn add_int(sum: &mut Option<i64>, value: &Datum) -> Result<()> {
    let value = match value {
        Datum::Int2(v) => i64::from(*v),
        Datum::Int4(v) => i64::from(*v),
        _ => return Err(wrong_value()),
    };
    let added = sum.unwrap_or(0).checked_add(value);
    *sum = Some(added.ok_or_else(|| TypeError::out_of_range("bigint"))?);
    Ok(())
}

/// Adds a float to a sum of this kind.
#[inline]
fn add_float(sum: &mut f64, kind: AggregateKind, value: &Datum) -> Result<()> {
    let value = float(value).ok_or_else(wrong_value)?;
    let before = *sum;
    *sum += value;
    if kind == AggregateKind::SumFloat4 {
        // float4 sums round to float4 at every step.
        #[expect(clippy::cast_possible_truncation, reason = "meant to round")]
        let narrow = *sum as f32;
        *sum = f64::from(narrow);
    }
    if sum.is_infinite() && before.is_finite() && value.is_finite() {
        return Err(SqlError::new("22003", "value out of range: overflow"));
    }
    Ok(())
}

/// Adds a number to a sum of numbers, and its square to the sum of their squares.
fn add_square(sums: &mut Option<(Numeric, Numeric)>, value: &Datum) -> Result<()> {
    let value = match value {
        Datum::Numeric(v) => Numeric::clone(v),
        Datum::Int8(v) => Numeric::from(*v),
        _ => return Err(wrong_value()),
    };
    let square = value.mul(&value)?;
    *sums = Some(match sums.take() {
        Some((sum, squares)) => (sum.add(&value)?, squares.add(&square)?),
        None => (value, square),
    });
    Ok(())
}

/// Appends a text, behind the separator of its row.
fn join_text(text: &mut Option<String>, piece: &Datum, separator: Option<&Datum>) -> Result<()> {
    let Datum::Text(piece) = piece else { return Err(wrong_value()) };
    match text {
        None => *text = Some(piece.to_string()),
        Some(text) => {
            let separator = match separator {
                Some(Datum::Text(separator)) => &**separator,
                _ => "",
            };
            charge_more(text.len(), separator.len() + piece.len())?;
            text.push_str(separator);
            text.push_str(piece);
        }
    }
    Ok(())
}

/// Appends bytes, behind the separator of their row.
fn join_bytes(bytes: &mut Option<Vec<u8>>, piece: &Datum, separator: Option<&Datum>) -> Result<()> {
    let Datum::Bytea(piece) = piece else { return Err(wrong_value()) };
    match bytes {
        None => *bytes = Some(piece.to_vec()),
        Some(bytes) => {
            let separator = match separator {
                Some(Datum::Bytea(separator)) => &**separator,
                _ => &[],
            };
            charge_more(bytes.len(), separator.len() + piece.len())?;
            bytes.extend_from_slice(separator);
            bytes.extend_from_slice(piece);
        }
    }
    Ok(())
}

/// Returns error 42804 for two arrays that cannot be compared. Only a column of type `anyarray`, as
/// in the statistics tables, can have such arrays.
fn refuse_other_elements(ty: TypeOid, one: &Datum, other: &Datum) -> Result<()> {
    match (one, other) {
        (Datum::Array(one, _), Datum::Array(other, _)) if ty == ANY_ARRAY && one != other => {
            let message = "cannot compare arrays of different element types";
            Err(SqlError::new("42804", message))
        }
        _ => Ok(()),
    }
}

/// Decides whether a value replaces the least or greatest value so far.
/// Of equal values that look different (numeric 1.0 and 1.00), the result is the last one, as in
/// PostgreSQL. For `char(n)` it is the first one.
fn is_better(ty: TypeOid, new: &Datum, best: &Datum, greatest: bool) -> bool {
    match compare(ty, new, best) {
        Ordering::Equal => !matches!(new, Datum::Text(_)),
        order => order.is_gt() == greatest,
    }
}

fn total_or_average(sum: Numeric, count: i64, average: bool) -> Result<Datum> {
    let value = if average { sum.div(&Numeric::from(count))? } else { sum };
    Ok(Datum::Numeric(Arc::new(value)))
}

fn numeric(value: Option<Numeric>) -> Datum {
    value.map_or(Datum::Null, |value| Datum::Numeric(Arc::new(value)))
}

fn float(value: &Datum) -> Option<f64> {
    match value {
        Datum::Float4(v) => Some(f64::from(*v)),
        Datum::Float8(v) => Some(*v),
        _ => None,
    }
}

/// Combines two integers of one width bit by bit.
fn combined(kind: AggregateKind, a: &Datum, b: &Datum) -> Option<Datum> {
    macro_rules! bits {
        ($a:expr, $b:expr) => {
            match kind {
                AggregateKind::BitAnd => $a & $b,
                AggregateKind::BitOr => $a | $b,
                _ => $a ^ $b,
            }
        };
    }
    Some(match (a, b) {
        (Datum::Int2(a), Datum::Int2(b)) => Datum::Int2(bits!(a, b)),
        (Datum::Int4(a), Datum::Int4(b)) => Datum::Int4(bits!(a, b)),
        (Datum::Int8(a), Datum::Int8(b)) => Datum::Int8(bits!(a, b)),
        _ => return None,
    })
}
