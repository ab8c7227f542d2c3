//! Checked arithmetic, the only one: SQL's operators call it.

use std::sync::Arc;

use crate::datetime;
use crate::error::{Result, TypeError};
use crate::moment::zone::TimeZone;
use crate::numeric::Numeric;
use crate::value::datum::Datum;

/// A binary arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: of integers, cut towards zero
    Divide,
    /// `%`: the remainder has the sign of the dividend
    Modulo,
}

use ArithmeticOperator::{Add, Divide, Modulo, Multiply, Subtract};

/// Computes `a operator b`. NULL with anything is NULL. Operands are of one type, or integers of
/// two widths (the result has the wider), or floats of two widths. They may also be a pair that
/// PostgreSQL has an operator for. Such pairs are dates with integers and times, times and moments
/// with intervals, intervals with numbers, `pg_lsn` with numeric. Sums of a moment with a time zone
/// and an interval depend on the session's zone: [`zoned_arithmetic`].
///
/// # Errors
/// `22003` out of range, `22012` division by zero, `22008` for dates and times, `42883` for a pair
/// without such an operator.
#[inline]
pub fn arithmetic(operator: ArithmeticOperator, a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Int4(a), Datum::Int4(b)) => int4(operator, *a, *b).map(Datum::Int4),
        (Datum::Int8(a), Datum::Int8(b)) => int8(operator, *a, *b).map(Datum::Int8),
        (Datum::Float8(a), Datum::Float8(b)) => float8(operator, *a, *b).map(Datum::Float8),
        (Datum::Numeric(a), Datum::Numeric(b)) => numeric(operator, a, b),
        _ => mixed(operator, a, b),
    }
}

/// Computes `timestamptz ± interval` and `interval + timestamptz`. Months and days are added to
/// what clocks in `zone` show, so a day may have 23 hours.
///
/// # Errors
/// `22008` when the result cannot be shown, `42883` for another pair.
pub fn zoned_arithmetic(
    operator: ArithmeticOperator,
    a: &Datum,
    b: &Datum,
    zone: &TimeZone,
) -> Result<Datum> {
    match (operator, a, b) {
        (_, Datum::Null, _) | (_, _, Datum::Null) => Ok(Datum::Null),
        (Add, Datum::Interval(span), Datum::TimestampTz(at))
        | (Add | Subtract, Datum::TimestampTz(at), Datum::Interval(span)) => {
            let span = signed(operator, span)?;
            datetime::timestamptz_plus_interval(*at, &span, zone).map(Datum::TimestampTz)
        }
        _ => Err(no_operator()),
    }
}

#[cold]
fn no_operator() -> TypeError {
    TypeError::new("42883", "operator does not exist for these operand types")
}

macro_rules! checked_integer {
    ($name:ident, $integer:ty, $type_name:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Errors
        /// `22003` out of range, `22012` division by zero.
        #[inline]
        pub fn $name(operator: ArithmeticOperator, a: $integer, b: $integer) -> Result<$integer> {
            let result = match operator {
                Add => a.checked_add(b),
                Subtract => a.checked_sub(b),
                Multiply => a.checked_mul(b),
                Divide | Modulo if b == 0 => return Err(TypeError::division_by_zero()),
                Divide => a.checked_div(b),
                // The smallest number has no quotient by -1, but its remainder is 0.
                Modulo => Some(a.wrapping_rem(b)),
            };
            result.ok_or_else(|| TypeError::out_of_range($type_name))
        }
    };
}
checked_integer!(int2, i16, "smallint", "Arithmetic on `int2`.");
checked_integer!(int4, i32, "integer", "Arithmetic on `int4`.");
checked_integer!(int8, i64, "bigint", "Arithmetic on `int8`.");

macro_rules! checked_float {
    ($name:ident, $float:ty, $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Errors
        /// `22003` when finite operands give an infinite result, or zero where it is not, `22012`
        /// division by zero.
        #[inline]
        pub fn $name(operator: ArithmeticOperator, a: $float, b: $float) -> Result<$float> {
            let result = match operator {
                Add => a + b,
                Subtract => a - b,
                Multiply => a * b,
                Divide | Modulo if b == 0.0 && !a.is_nan() => {
                    return Err(TypeError::division_by_zero());
                }
                Divide => a / b,
                Modulo => a % b,
            };
            if result.is_infinite() {
                let given = a.is_infinite() || (b.is_infinite() && operator != Divide);
                if !given {
                    return Err(float_overflow());
                }
            }
            if result == 0.0 {
                let lost = match operator {
                    Multiply => a != 0.0 && b != 0.0,
                    Divide => a != 0.0 && !b.is_infinite(),
                    _ => false,
                };
                if lost {
                    return Err(float_underflow());
                }
            }
            Ok(result)
        }
    };
}
checked_float!(float4, f32, "Arithmetic on `float4`.");
checked_float!(float8, f64, "Arithmetic on `float8`.");

#[cold]
pub(crate) fn float_overflow() -> TypeError {
    TypeError::new("22003", "value out of range: overflow")
}

#[cold]
pub(crate) fn float_underflow() -> TypeError {
    TypeError::new("22003", "value out of range: underflow")
}

fn numeric(operator: ArithmeticOperator, a: &Numeric, b: &Numeric) -> Result<Datum> {
    let result = match operator {
        Add => a.add(b),
        Subtract => a.sub(b),
        Multiply => a.mul(b),
        Divide => a.div(b),
        Modulo => a.rem(b),
    };
    Ok(Datum::Numeric(Arc::new(result?)))
}

fn mixed(operator: ArithmeticOperator, a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Null, _) | (_, Datum::Null) => Ok(Datum::Null),
        (Datum::Int2(a), Datum::Int2(b)) => int2(operator, *a, *b).map(Datum::Int2),
        (Datum::Int2(a), Datum::Int4(b)) => int4(operator, (*a).into(), *b).map(Datum::Int4),
        (Datum::Int4(a), Datum::Int2(b)) => int4(operator, *a, (*b).into()).map(Datum::Int4),
        (Datum::Int2(a), Datum::Int8(b)) => int8(operator, (*a).into(), *b).map(Datum::Int8),
        (Datum::Int8(a), Datum::Int2(b)) => int8(operator, *a, (*b).into()).map(Datum::Int8),
        (Datum::Int4(a), Datum::Int8(b)) => int8(operator, (*a).into(), *b).map(Datum::Int8),
        (Datum::Int8(a), Datum::Int4(b)) => int8(operator, *a, (*b).into()).map(Datum::Int8),
        (Datum::Float4(a), Datum::Float4(b)) => float4(operator, *a, *b).map(Datum::Float4),
        (Datum::Float4(a), Datum::Float8(b)) => {
            float8(operator, (*a).into(), *b).map(Datum::Float8)
        }
        (Datum::Float8(a), Datum::Float4(b)) => {
            float8(operator, *a, (*b).into()).map(Datum::Float8)
        }
        _ => temporal(operator, a, b),
    }
}

/// Computes operators on dates, moments, intervals and positions in the log.
fn temporal(operator: ArithmeticOperator, a: &Datum, b: &Datum) -> Result<Datum> {
    let interval = |value: datetime::Interval| Datum::Interval(Arc::new(value));
    match (operator, a, b) {
        (Add | Subtract, Datum::Date(date), days) if integer(days).is_some() => {
            let days = integer(days).unwrap_or(0);
            let days = if operator == Add { days } else { -days };
            datetime::add_days(*date, days).map(Datum::Date)
        }
        (Add, days, Datum::Date(date)) if integer(days).is_some() => {
            datetime::add_days(*date, integer(days).unwrap_or(0)).map(Datum::Date)
        }
        (Subtract, Datum::Date(a), Datum::Date(b)) => {
            datetime::subtract_dates(*a, *b).map(Datum::Int4)
        }
        (Subtract, Datum::Timestamp(a), Datum::Timestamp(b))
        | (Subtract, Datum::TimestampTz(a), Datum::TimestampTz(b)) => {
            datetime::subtract_timestamps(*a, *b).map(interval)
        }
        (Add, Datum::Interval(_), Datum::Date(_) | Datum::Timestamp(_))
        | (Add, Datum::Numeric(_), Datum::Lsn(_)) => temporal(operator, b, a),
        (Add | Subtract, Datum::Date(date), Datum::Interval(span)) => {
            let span = signed(operator, span)?;
            let midnight = datetime::date_to_timestamp(*date)?;
            datetime::timestamp_plus_interval(midnight, &span).map(Datum::Timestamp)
        }
        (Add | Subtract, Datum::Timestamp(at), Datum::Interval(span)) => {
            let span = signed(operator, span)?;
            datetime::timestamp_plus_interval(*at, &span).map(Datum::Timestamp)
        }
        (Add, Datum::Interval(_), Datum::Time(_) | Datum::TimeTz(_))
        | (Add, Datum::Time(_) | Datum::TimeTz(_), Datum::Date(_)) => temporal(operator, b, a),
        (Add | Subtract, Datum::Time(time), Datum::Interval(span)) => {
            Ok(Datum::Time(datetime::add_time(*time, signed_micros(operator, span))))
        }
        (Add | Subtract, Datum::TimeTz(value), Datum::Interval(span)) => {
            let time = datetime::add_time(value.time, signed_micros(operator, span));
            Ok(Datum::TimeTz(datetime::TimeTz { time, ..*value }))
        }
        (Subtract, Datum::Time(a), Datum::Time(b)) => {
            Ok(interval(datetime::subtract_times(*a, *b)))
        }
        (Add, Datum::Date(date), Datum::Time(time)) => {
            datetime::date_plus_time(*date, *time).map(Datum::Timestamp)
        }
        (Add, Datum::Date(date), Datum::TimeTz(time)) => {
            datetime::date_plus_timetz(*date, time).map(Datum::TimestampTz)
        }
        (Add, Datum::Interval(a), Datum::Interval(b)) => a.checked_add(b).map(interval),
        (Subtract, Datum::Interval(a), Datum::Interval(b)) => a.checked_sub(b).map(interval),
        (Multiply, Datum::Interval(span), Datum::Float8(factor))
        | (Multiply, Datum::Float8(factor), Datum::Interval(span)) => {
            span.multiply(*factor).map(interval)
        }
        (Divide, Datum::Interval(span), Datum::Float8(divisor)) => {
            span.divide(*divisor).map(interval)
        }
        (Subtract, Datum::Lsn(a), Datum::Lsn(b)) => {
            let difference = i128::from(*a) - i128::from(*b);
            Ok(Datum::Numeric(Arc::new(Numeric::from(difference))))
        }
        (Add | Subtract, Datum::Lsn(at), Datum::Numeric(bytes)) => {
            if bytes.is_nan() {
                let what = if operator == Add { "add NaN to" } else { "subtract NaN from" };
                return Err(TypeError::new("0A000", format!("cannot {what} pg_lsn")));
            }
            let at = Numeric::from(*at);
            let moved = if operator == Add { at.add(bytes) } else { at.sub(bytes) }?;
            numeric_to_lsn(&moved).map(Datum::Lsn)
        }
        _ => Err(no_operator()),
    }
}

/// Returns the position in the log at this number of bytes from its beginning, rounded to a whole
/// byte.
///
/// # Errors
/// `22023` out of range, `0A000` for NaN and infinities.
pub fn numeric_to_lsn(bytes: &Numeric) -> Result<u64> {
    let none = |what| Err(TypeError::new("0A000", format!("cannot convert {what} to pg_lsn")));
    if bytes.is_nan() {
        return none("NaN");
    }
    if bytes.is_infinite() {
        return none("infinity");
    }
    bytes.to_u64().map_err(|_| TypeError::new("22023", "pg_lsn out of range"))
}

fn integer(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int2(value) => Some((*value).into()),
        Datum::Int4(value) => Some((*value).into()),
        _ => None,
    }
}

fn signed(operator: ArithmeticOperator, span: &datetime::Interval) -> Result<datetime::Interval> {
    if operator == Subtract { span.checked_neg() } else { Ok(*span) }
}

/// Returns the part of an interval that moves a time of day, within a day.
fn signed_micros(operator: ArithmeticOperator, span: &datetime::Interval) -> i64 {
    let micros = span.micros % datetime::MICROS_PER_DAY;
    if operator == Subtract { -micros } else { micros }
}

/// Returns `- value`.
///
/// # Errors
/// `22003` for the smallest integer, `42883` for a type without the operator.
pub fn negate(value: &Datum) -> Result<Datum> {
    let negated = match value {
        Datum::Null => Some(Datum::Null),
        Datum::Int2(value) => value.checked_neg().map(Datum::Int2),
        Datum::Int4(value) => value.checked_neg().map(Datum::Int4),
        Datum::Int8(value) => value.checked_neg().map(Datum::Int8),
        Datum::Float4(value) => Some(Datum::Float4(-value)),
        Datum::Float8(value) => Some(Datum::Float8(-value)),
        Datum::Numeric(value) => Some(Datum::Numeric(Arc::new(value.neg()))),
        Datum::Interval(value) => return Ok(Datum::Interval(Arc::new(value.checked_neg()?))),
        _ => return Err(TypeError::new("42883", "operator does not exist: - of this type")),
    };
    negated.ok_or_else(|| TypeError::out_of_range(integer_name(value)))
}

/// Returns the absolute value.
///
/// # Errors
/// `22003` for the smallest integer, `42883` for a type that is not a number.
pub fn absolute(value: &Datum) -> Result<Datum> {
    let absolute = match value {
        Datum::Null => Some(Datum::Null),
        Datum::Int2(value) => value.checked_abs().map(Datum::Int2),
        Datum::Int4(value) => value.checked_abs().map(Datum::Int4),
        Datum::Int8(value) => value.checked_abs().map(Datum::Int8),
        Datum::Float4(value) => Some(Datum::Float4(value.abs())),
        Datum::Float8(value) => Some(Datum::Float8(value.abs())),
        Datum::Numeric(value) => Some(Datum::Numeric(Arc::new(value.abs()))),
        _ => return Err(TypeError::new("42883", "function abs does not exist for this type")),
    };
    absolute.ok_or_else(|| TypeError::out_of_range(integer_name(value)))
}

fn integer_name(value: &Datum) -> &'static str {
    match value {
        Datum::Int2(_) => "smallint",
        Datum::Int4(_) => "integer",
        _ => "bigint",
    }
}
