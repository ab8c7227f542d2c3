//! Functions on numbers.

use std::sync::Arc;

use niwaki_types::{Datum, Numeric, TypeError};

use super::operators::{absolute, float, modulo, range};
use super::{Function, functions};
use crate::context::ExecContext;
use crate::error::{Result, SqlError};

fn wrong() -> SqlError {
    SqlError::internal("a numeric function was given values of other types")
}

fn double(value: &Datum) -> Result<f64> {
    match value {
        Datum::Float8(v) => Ok(*v),
        Datum::Float4(v) => Ok(f64::from(*v)),
        Datum::Numeric(v) => Ok(v.to_f64()?),
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
    match a {
        Datum::Numeric(v) => Ok(Datum::Numeric(Arc::new(v.sign()))),
        _ => {
            let value = double(a)?;
            Ok(Datum::Float8(if value > 0.0 {
                1.0
            } else if value < 0.0 {
                -1.0
            } else {
                value
            }))
        }
    }
}

pub(super) fn square_root(a: &Datum) -> Result<Datum> {
    if let Datum::Numeric(v) = a {
        return numeric(v.sqrt());
    }
    let value = double(a)?;
    if value < 0.0 {
        return Err(SqlError::new("2201F", "cannot take square root of a negative number"));
    }
    Ok(Datum::Float8(value.sqrt()))
}

pub(super) fn power(a: &Datum, b: &Datum) -> Result<Datum> {
    if let (Datum::Numeric(base), Datum::Numeric(exponent)) = (a, b) {
        return numeric_power(base, exponent);
    }
    let (base, exponent) = (double(a)?, double(b)?);
    if base == 0.0 && exponent < 0.0 {
        return Err(SqlError::new("2201F", "zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(SqlError::new(
            "2201F",
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    float(base.powf(exponent), false, base.is_finite() && exponent.is_finite(), false)
}

/// Powers of numerics with a small whole exponent are exact products; others are not here yet.
fn numeric_power(base: &Numeric, exponent: &Numeric) -> Result<Datum> {
    let whole = exponent.trunc(0)?;
    let difference = exponent.sub(&whole)?;
    let small = whole.to_i32().ok().filter(|e| (0..=1000).contains(e));
    let (Some(count), true) = (small, difference.is_zero()) else {
        return Err(SqlError::unsupported(
            "power() of numeric with a negative, fractional or large exponent",
        ));
    };
    let mut result = Numeric::from(1i64);
    for _ in 0..count {
        result = result.mul(base)?;
    }
    // Sixteen significant digits are the least PostgreSQL shows of a power.
    let scale = i32::from(base.scale()).max(16);
    numeric(result.round(scale))
}

fn exp(a: &Datum) -> Result<Datum> {
    let value = double(a)?;
    float(value.exp(), false, value.is_finite(), value.is_finite())
}

fn ln(a: &Datum) -> Result<Datum> {
    logarithm(double(a)?, f64::ln)
}

fn log10(a: &Datum) -> Result<Datum> {
    logarithm(double(a)?, f64::log10)
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

fn pi(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::Float8(std::f64::consts::PI))
}

macro_rules! trigonometry {
    ($($name:ident)*) => {$(
        fn $name(a: &Datum) -> Result<Datum> {
            Ok(Datum::Float8(double(a)?.$name()))
        }
    )*};
}
trigonometry! { sin cos tan atan cbrt to_degrees to_radians }

fn atan2(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(Datum::Float8(double(a)?.atan2(double(b)?)))
}

fn div(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Numeric(a), Datum::Numeric(b)) => numeric(a.div_trunc(b)),
        _ => Err(wrong()),
    }
}

fn gcd(a: &Datum, b: &Datum) -> Result<Datum> {
    let (x, y, wide) = match (a, b) {
        (Datum::Int4(x), Datum::Int4(y)) => (i64::from(*x), i64::from(*y), false),
        (Datum::Int8(x), Datum::Int8(y)) => (*x, *y, true),
        _ => return Err(wrong()),
    };
    let (mut x, mut y) = (i128::from(x).abs(), i128::from(y).abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    if wide {
        i64::try_from(x).map(Datum::Int8).map_err(|_| range("bigint"))
    } else {
        i32::try_from(x).map(Datum::Int4).map_err(|_| range("integer"))
    }
}

/// A uniform number of 53 bits in [0, 1).
fn random(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let bits = exec.environment.random() >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a float8")]
    Ok(Datum::Float8(bits as f64 / 9_007_199_254_740_992.0))
}

fn generate_series(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let _ = values;
    Err(SqlError::internal("generate_series is computed by its scan"))
}

fn unnest(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    match values {
        [Datum::Array(_, elements)] => Ok(elements.to_vec()),
        _ => Ok(Vec::new()),
    }
}

fn generate_subscripts(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    match values {
        [Datum::Array(_, elements), Datum::Int4(1)] => {
            let size = i32::try_from(elements.len()).map_err(|_| range("integer"))?;
            Ok((1..=size).map(Datum::Int4).collect())
        }
        _ => Ok(Vec::new()),
    }
}

fn array_position(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, elements), wanted, ..] = values else { return Ok(Datum::Null) };
    for (number, candidate) in elements.iter().enumerate() {
        let same = match (candidate.is_null(), wanted.is_null()) {
            (true, true) => true,
            (false, false) => niwaki_types::equal(*element, candidate, wanted),
            _ => false,
        };
        if same {
            return i32::try_from(number + 1).map(Datum::Int4).map_err(|_| range("integer"));
        }
    }
    Ok(Datum::Null)
}

/// `array_length`, `array_upper`: of one dimension both are the number of elements.
fn array_upper(a: &Datum, dimension: &Datum) -> Result<Datum> {
    match (a, dimension) {
        (Datum::Array(_, elements), Datum::Int4(1)) if !elements.is_empty() => {
            i32::try_from(elements.len()).map(Datum::Int4).map_err(|_| range("integer"))
        }
        _ => Ok(Datum::Null),
    }
}

fn array_lower(a: &Datum, dimension: &Datum) -> Result<Datum> {
    match (a, dimension) {
        (Datum::Array(_, elements), Datum::Int4(1)) if !elements.is_empty() => Ok(Datum::Int4(1)),
        _ => Ok(Datum::Null),
    }
}

fn cardinality(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Array(_, elements) => {
            i32::try_from(elements.len()).map(Datum::Int4).map_err(|_| range("integer"))
        }
        _ => Err(wrong()),
    }
}

fn array_append(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Array(element, elements), value] => Ok(Datum::Array(
            *element,
            elements.iter().cloned().chain(std::iter::once(value.clone())).collect(),
        )),
        _ => Ok(Datum::Null),
    }
}

fn width_of_zero(_: TypeError) -> SqlError {
    SqlError::new("22012", "division by zero")
}

fn modulo_function(a: &Datum, b: &Datum) -> Result<Datum> {
    if let (Datum::Numeric(x), Datum::Numeric(y)) = (a, b) {
        return Ok(Datum::Numeric(Arc::new(x.rem(y).map_err(width_of_zero)?)));
    }
    modulo(a, b)
}

pub(super) const FUNCTIONS: &[Function] = functions! {
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
    "cbrt" (FLOAT8) FLOAT8 strict single immutable Unary(cbrt);
    "power" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(power);
    "power" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(power);
    "pow" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(power);
    "pow" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(power);
    "exp" (FLOAT8) FLOAT8 strict single immutable Unary(exp);
    "ln" (FLOAT8) FLOAT8 strict single immutable Unary(ln);
    "log" (FLOAT8) FLOAT8 strict single immutable Unary(log10);
    "log10" (FLOAT8) FLOAT8 strict single immutable Unary(log10);
    "pi" () FLOAT8 strict single immutable Pure(pi);
    "sin" (FLOAT8) FLOAT8 strict single immutable Unary(sin);
    "cos" (FLOAT8) FLOAT8 strict single immutable Unary(cos);
    "tan" (FLOAT8) FLOAT8 strict single immutable Unary(tan);
    "atan" (FLOAT8) FLOAT8 strict single immutable Unary(atan);
    "atan2" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(atan2);
    "degrees" (FLOAT8) FLOAT8 strict single immutable Unary(to_degrees);
    "radians" (FLOAT8) FLOAT8 strict single immutable Unary(to_radians);
    "mod" (INT2, INT2) INT2 strict single immutable Binary(modulo_function);
    "mod" (INT4, INT4) INT4 strict single immutable Binary(modulo_function);
    "mod" (INT8, INT8) INT8 strict single immutable Binary(modulo_function);
    "mod" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(modulo_function);
    "div" (NUMERIC, NUMERIC) NUMERIC strict single immutable Binary(div);
    "gcd" (INT4, INT4) INT4 strict single immutable Binary(gcd);
    "gcd" (INT8, INT8) INT8 strict single immutable Binary(gcd);
    "random" () FLOAT8 strict single volatile Context(random);
    "generate_series" (INT4, INT4) INT4 strict single immutable Set(generate_series);
    "generate_series" (INT4, INT4, INT4) INT4 strict single immutable Set(generate_series);
    "generate_series" (INT8, INT8) INT8 strict single immutable Set(generate_series);
    "generate_series" (INT8, INT8, INT8) INT8 strict single immutable Set(generate_series);
    "generate_series" (NUMERIC, NUMERIC) NUMERIC strict single immutable Set(generate_series);
    "generate_series" (NUMERIC, NUMERIC, NUMERIC) NUMERIC strict single immutable Set(generate_series);
    "generate_series" (TIMESTAMP, TIMESTAMP, INTERVAL) TIMESTAMP strict single immutable Set(generate_series);
    "generate_series" (TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL) TIMESTAMPTZ strict single stable Set(generate_series);
    "unnest" (ARRAY) ELEMENT strict single immutable Set(unnest);
    "generate_subscripts" (ARRAY, INT4) INT4 strict single immutable Set(generate_subscripts);
    "array_position" (ARRAY, ELEMENT) INT4 nullable single immutable Pure(array_position);
    "array_length" (ARRAY, INT4) INT4 strict single immutable Binary(array_upper);
    "array_upper" (ARRAY, INT4) INT4 strict single immutable Binary(array_upper);
    "array_lower" (ARRAY, INT4) INT4 strict single immutable Binary(array_lower);
    "cardinality" (ARRAY) INT4 strict single immutable Unary(cardinality);
    "array_append" (ARRAY, ELEMENT) ARRAY nullable single immutable Pure(array_append);
};
