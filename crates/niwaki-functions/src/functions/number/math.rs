//! Functions on numbers.

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Numeric};

use crate::functions::number::operators::{absolute, float, modulo, range};
use crate::functions::{Function, functions};

fn wrong() -> SqlError {
    SqlError::internal("a numeric function was given values of other types")
}

fn double(value: &Datum) -> Result<f64> {
    match value {
        Datum::Float8(v) => Ok(*v),
        _ => Err(wrong()),
    }
}

fn int(value: &Datum) -> Result<i32> {
    match value {
        Datum::Int4(v) => Ok(*v),
        _ => Err(wrong()),
    }
}

fn numeric(value: niwaki_types::Result<Numeric>) -> Result<Datum> {
    Ok(Datum::Numeric(Arc::new(value?)))
}

fn round(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Float8(v)] => Ok(Datum::Float8(v.round_ties_even())),
        [Datum::Numeric(v)] => numeric(v.round(0)),
        [Datum::Numeric(v), scale] => numeric(v.round(int(scale)?)),
        _ => Err(wrong()),
    }
}

fn trunc(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Float8(v)] => Ok(Datum::Float8(v.trunc())),
        [Datum::Numeric(v)] => numeric(v.trunc(0)),
        [Datum::Numeric(v), scale] => numeric(v.trunc(int(scale)?)),
        _ => Err(wrong()),
    }
}

fn ceil(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Numeric(v) => numeric(v.ceil()),
        _ => Ok(Datum::Float8(double(a)?.ceil())),
    }
}

fn floor(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Numeric(v) => numeric(v.floor()),
        _ => Ok(Datum::Float8(double(a)?.floor())),
    }
}

fn sign(a: &Datum) -> Result<Datum> {
    if let Datum::Numeric(v) = a {
        Ok(Datum::Numeric(Arc::new(v.sign())))
    } else {
        let value = double(a)?;
        Ok(Datum::Float8(if value > 0.0 {
            1.0
        } else if value < 0.0 {
            -1.0
        } else {
            0.0
        }))
    }
}

pub(crate) fn square_root(a: &Datum) -> Result<Datum> {
    if let Datum::Numeric(v) = a {
        return numeric(v.sqrt());
    }
    let value = double(a)?;
    if value < 0.0 {
        return Err(SqlError::new("2201F", "cannot take square root of a negative number"));
    }
    Ok(Datum::Float8(value.sqrt()))
}

pub(crate) fn cube_root(a: &Datum) -> Result<Datum> {
    Ok(Datum::Float8(double(a)?.cbrt()))
}

pub(crate) fn power(a: &Datum, b: &Datum) -> Result<Datum> {
    if let (Datum::Numeric(base), Datum::Numeric(exponent)) = (a, b) {
        return numeric(base.power(exponent));
    }
    let (base, exponent) = (double(a)?, double(b)?);
    if base == 0.0 && exponent < 0.0 {
        return Err(SqlError::new("2201F", "zero raised to a negative power is undefined"));
    }
    let whole = exponent.is_infinite() || exponent.is_nan() || exponent.fract() == 0.0;
    if base < 0.0 && !whole {
        return Err(SqlError::new(
            "2201F",
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let finite = base.is_finite() && exponent.is_finite();
    let power = base.powf(exponent);
    // Every NaN becomes the same NaN, whatever NaN the argument was.
    float(if power.is_nan() { f64::NAN } else { power }, finite, finite && base != 0.0)
}

fn exp(a: &Datum) -> Result<Datum> {
    if let Datum::Numeric(v) = a {
        return numeric(v.exp());
    }
    let value = double(a)?;
    float(value.exp(), value.is_finite(), value.is_finite())
}

fn ln(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Numeric(v) => numeric(v.ln()),
        _ => logarithm(double(a)?, f64::ln),
    }
}

fn log10(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Numeric(v) => numeric(v.log(&Numeric::from(10i32))),
        _ => logarithm(double(a)?, f64::log10),
    }
}

/// `log(base, value)`
fn log(base: &Datum, value: &Datum) -> Result<Datum> {
    match (base, value) {
        (Datum::Numeric(base), Datum::Numeric(value)) => numeric(value.log(base)),
        _ => Err(wrong()),
    }
}

fn logarithm(value: f64, operation: fn(f64) -> f64) -> Result<Datum> {
    if value == 0.0 {
        return Err(SqlError::new("2201E", "cannot take logarithm of zero"));
    }
    if value < 0.0 {
        return Err(SqlError::new("2201E", "cannot take logarithm of a negative number"));
    }
    Ok(Datum::Float8(operation(value)))
}

fn div(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Numeric(a), Datum::Numeric(b)) => numeric(a.div_trunc(b)),
        _ => Err(wrong()),
    }
}

/// Returns both integers, and whether they are int8.
fn integers(a: &Datum, b: &Datum) -> Result<(i128, i128, bool)> {
    match (a, b) {
        (Datum::Int4(x), Datum::Int4(y)) => Ok((i128::from(*x), i128::from(*y), false)),
        (Datum::Int8(x), Datum::Int8(y)) => Ok((i128::from(*x), i128::from(*y), true)),
        _ => Err(wrong()),
    }
}

fn integer(value: i128, wide: bool) -> Result<Datum> {
    if wide {
        i64::try_from(value).map(Datum::Int8).map_err(|_| range("bigint"))
    } else {
        i32::try_from(value).map(Datum::Int4).map_err(|_| range("integer"))
    }
}

/// Computes the greatest common divisor of magnitudes by Euclid's algorithm.
fn greatest_divisor(x: i128, y: i128) -> i128 {
    let (mut x, mut y) = (x.abs(), y.abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x
}

fn gcd(a: &Datum, b: &Datum) -> Result<Datum> {
    if let (Datum::Numeric(a), Datum::Numeric(b)) = (a, b) {
        return numeric(a.gcd(b));
    }
    let (x, y, wide) = integers(a, b)?;
    integer(greatest_divisor(x, y), wide)
}

fn lcm(a: &Datum, b: &Datum) -> Result<Datum> {
    if let (Datum::Numeric(a), Datum::Numeric(b)) = (a, b) {
        return numeric(a.lcm(b));
    }
    let (x, y, wide) = integers(a, b)?;
    if x == 0 || y == 0 {
        return integer(0, wide);
    }
    integer((x / greatest_divisor(x, y) * y).abs(), wide)
}

fn factorial(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Int8(number) => numeric(Numeric::factorial(*number)),
        _ => Err(wrong()),
    }
}

fn scale(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Numeric(v) if v.is_finite() => Ok(Datum::Int4(i32::from(v.scale()))),
        Datum::Numeric(_) => Ok(Datum::Null),
        _ => Err(wrong()),
    }
}

fn min_scale(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Numeric(v) => {
            Ok(v.min_scale().map_or(Datum::Null, |scale| Datum::Int4(i32::from(scale))))
        }
        _ => Err(wrong()),
    }
}

fn trim_scale(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Numeric(v) => numeric(v.trim_scale()),
        _ => Err(wrong()),
    }
}

fn bucket_error(message: &str) -> SqlError {
    SqlError::new("2201G", message)
}

/// `width_bucket(operand, low, high, count)`: returns the bucket of a number among `count` equal
/// parts between two bounds.
fn width_bucket(values: &[Datum]) -> Result<Datum> {
    let [operand, low, high, Datum::Int4(count)] = values else { return Err(wrong()) };
    if *count <= 0 {
        return Err(bucket_error("count must be greater than zero"));
    }
    match (operand, low, high) {
        (Datum::Numeric(operand), Datum::Numeric(low), Datum::Numeric(high)) => {
            numeric_bucket(operand, low, high, *count)
        }
        _ => float_bucket(double(operand)?, double(low)?, double(high)?, *count),
    }
}

/// Returns the bucket before the first or after the last one, if the operand lies there. The bounds
/// may be in falling order.
fn bucket_outside<T: PartialOrd>(
    [operand, low, high]: [&T; 3],
    count: i32,
    are_nan: bool,
    are_endless: bool,
) -> Result<Option<Datum>> {
    if are_nan {
        return Err(bucket_error("operand, lower bound, and upper bound cannot be NaN"));
    }
    if are_endless {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    let rising = low < high;
    if (rising && operand < low) || (!rising && operand > low) {
        return Ok(Some(Datum::Int4(0)));
    }
    if (rising && operand >= high) || (!rising && operand <= high) {
        let behind = count.checked_add(1).ok_or_else(|| range("integer"))?;
        return Ok(Some(Datum::Int4(behind)));
    }
    Ok(None)
}

fn numeric_bucket(operand: &Numeric, low: &Numeric, high: &Numeric, count: i32) -> Result<Datum> {
    let are_nan = operand.is_nan() || low.is_nan() || high.is_nan();
    let are_endless = low.is_infinite() || high.is_infinite();
    if let Some(outside) = bucket_outside([operand, low, high], count, are_nan, are_endless)? {
        return Ok(outside);
    }
    let buckets = Numeric::from(count);
    let quotient = operand.sub(low)?.mul(&buckets)?.div(&high.sub(low)?)?;
    // Rounding can give `buckets`, although the operand is below the bound.
    let bucket = if quotient >= buckets { count - 1 } else { quotient.floor()?.to_i32()? };
    Ok(Datum::Int4(bucket + 1))
}

fn float_bucket(operand: f64, low: f64, high: f64, count: i32) -> Result<Datum> {
    let are_nan = operand.is_nan() || low.is_nan() || high.is_nan();
    let are_endless = low.is_infinite() || high.is_infinite();
    if let Some(outside) = bucket_outside([&operand, &low, &high], count, are_nan, are_endless)? {
        return Ok(outside);
    }
    let (above, width) =
        if low < high { (operand - low, high - low) } else { (low - operand, low - high) };
    let share = if width.is_finite() {
        above / width
    } else {
        // The distance between the bounds is beyond a float.
        (operand / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    };
    #[expect(clippy::cast_possible_truncation, reason = "a share of an int4 is one")]
    let bucket = (f64::from(count) * share) as i32;
    Ok(Datum::Int4(bucket.min(count - 1) + 1))
}

fn generate_series(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let _ = values;
    Err(SqlError::internal("generate_series is computed by its scan"))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "abs" (INT2) INT2 strict single immutable Unary(absolute);
    "abs" (INT4) INT4 strict single immutable Unary(absolute);
    "abs" (INT8) INT8 strict single immutable Unary(absolute);
    "abs" (FLOAT4) FLOAT4 strict single immutable Unary(absolute);
    "abs" (FLOAT8) FLOAT8 strict single immutable Unary(absolute);
    "abs" (NUMERIC) NUMERIC strict single immutable Unary(absolute);
    "round" (FLOAT8) FLOAT8 strict single immutable Pure(round);
    "round" (NUMERIC) NUMERIC strict single immutable Pure(round);
    "round" (NUMERIC, INT4) NUMERIC strict single immutable Pure(round);
    "trunc" (FLOAT8) FLOAT8 strict single immutable Pure(trunc);
    "trunc" (NUMERIC) NUMERIC strict single immutable Pure(trunc);
    "trunc" (NUMERIC, INT4) NUMERIC strict single immutable Pure(trunc);
    "ceil" (FLOAT8) FLOAT8 strict single immutable Unary(ceil);
    "ceil" (NUMERIC) NUMERIC strict single immutable Unary(ceil);
    "ceiling" (FLOAT8) FLOAT8 strict single immutable Unary(ceil);
    "ceiling" (NUMERIC) NUMERIC strict single immutable Unary(ceil);
    "floor" (FLOAT8) FLOAT8 strict single immutable Unary(floor);
    "floor" (NUMERIC) NUMERIC strict single immutable Unary(floor);
    "sign" (FLOAT8) FLOAT8 strict single immutable Unary(sign);
    "sign" (NUMERIC) NUMERIC strict single immutable Unary(sign);
    "sqrt" (FLOAT8) FLOAT8 strict single immutable Unary(square_root);
    "sqrt" (NUMERIC) NUMERIC strict single immutable Unary(square_root);
    "cbrt" (FLOAT8) FLOAT8 strict single immutable Unary(cube_root);
    "power" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(power);
    "power" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(power);
    "pow" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(power);
    "pow" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(power);
    "exp" (FLOAT8) FLOAT8 strict single immutable Unary(exp);
    "exp" (NUMERIC) NUMERIC strict single immutable Unary(exp);
    "ln" (FLOAT8) FLOAT8 strict single immutable Unary(ln);
    "ln" (NUMERIC) NUMERIC strict single immutable Unary(ln);
    "log" (FLOAT8) FLOAT8 strict single immutable Unary(log10);
    "log" (NUMERIC) NUMERIC strict single immutable Unary(log10);
    "log" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(log);
    "log10" (FLOAT8) FLOAT8 strict single immutable Unary(log10);
    "log10" (NUMERIC) NUMERIC strict single immutable Unary(log10);
    "mod" (INT2, INT2) INT2 strict single immutable Binary(modulo);
    "mod" (INT4, INT4) INT4 strict single immutable Binary(modulo);
    "mod" (INT8, INT8) INT8 strict single immutable Binary(modulo);
    "mod" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(modulo);
    "div" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(div);
    "gcd" (INT4, INT4) INT4 strict single immutable Binary(gcd);
    "gcd" (INT8, INT8) INT8 strict single immutable Binary(gcd);
    "gcd" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(gcd);
    "lcm" (INT4, INT4) INT4 strict single immutable Binary(lcm);
    "lcm" (INT8, INT8) INT8 strict single immutable Binary(lcm);
    "lcm" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(lcm);
    "factorial" (INT8) NUMERIC strict single immutable Unary(factorial);
    "scale" (NUMERIC) INT4 strict single immutable Unary(scale);
    "min_scale" (NUMERIC) INT4 strict single immutable Unary(min_scale);
    "trim_scale" (NUMERIC) NUMERIC strict single immutable Unary(trim_scale);
    "width_bucket" (FLOAT8, FLOAT8, FLOAT8, INT4) INT4 strict single immutable Pure(width_bucket);
    "width_bucket" (NUMERIC, NUMERIC, NUMERIC, INT4) INT4 strict single immutable Pure(width_bucket);
    "generate_series" (INT4, INT4) INT4 strict single immutable Set(generate_series);
    "generate_series" (INT4, INT4, INT4) INT4 strict single immutable Set(generate_series);
    "generate_series" (INT8, INT8) INT8 strict single immutable Set(generate_series);
    "generate_series" (INT8, INT8, INT8) INT8 strict single immutable Set(generate_series);
    "generate_series" (NUMERIC, NUMERIC) NUMERIC strict single immutable Set(generate_series);
    "generate_series" (NUMERIC, NUMERIC, NUMERIC) NUMERIC strict single immutable Set(generate_series);
    "generate_series" (TIMESTAMP, TIMESTAMP, INTERVAL) TIMESTAMP strict single immutable Set(generate_series);
    "generate_series" (TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL) TIMESTAMPTZ strict single stable Set(generate_series);
};
