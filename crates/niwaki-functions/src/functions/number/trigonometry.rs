//! Functions of angles, in radians and in degrees, and hyperbolic functions.
//!
//! Functions of degrees are exact where their result is: `sind(30)` is 0.5. They are computed for
//! the first quarter of the circle, scaled so that the ends of each part are exact.

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::functions::{Function, functions};

/// Radians in a degree.
const DEGREE: f64 = 0.017_453_292_519_943_295;

fn double(value: &Datum) -> Result<f64> {
    match value {
        Datum::Float8(v) => Ok(*v),
        _ => Err(SqlError::internal("a function of angles was given values of other types")),
    }
}

#[cold]
fn out_of_range() -> SqlError {
    SqlError::new("22003", "input is out of range")
}

/// Returns the result of a function of angles. Every NaN becomes the same NaN, whatever NaN the
/// argument was.
fn of_angles(value: f64) -> Result<Datum> {
    float(if value.is_nan() { f64::NAN } else { value })
}

/// Reads an angle; refuses an infinite one, which has no sine.
fn angle(value: &Datum) -> Result<f64> {
    let value = double(value)?;
    if value.is_infinite() { Err(out_of_range()) } else { Ok(value) }
}

/// Reads a sine or cosine, or NaN.
fn ratio(value: &Datum) -> Result<f64> {
    let value = double(value)?;
    if value.is_nan() || (-1.0..=1.0).contains(&value) { Ok(value) } else { Err(out_of_range()) }
}

fn float(value: f64) -> Result<Datum> {
    Ok(Datum::Float8(value))
}

/// Returns a result that must be as finite as the operand was.
fn finite(value: f64, operand: f64) -> Result<Datum> {
    crate::functions::number::operators::float(value, operand.is_finite(), operand != 0.0)
}

fn sin(a: &Datum) -> Result<Datum> {
    of_angles(angle(a)?.sin())
}
fn cos(a: &Datum) -> Result<Datum> {
    of_angles(angle(a)?.cos())
}
fn tan(a: &Datum) -> Result<Datum> {
    of_angles(angle(a)?.tan())
}
fn cot(a: &Datum) -> Result<Datum> {
    of_angles(1.0 / angle(a)?.tan())
}
fn asin(a: &Datum) -> Result<Datum> {
    of_angles(ratio(a)?.asin())
}
fn acos(a: &Datum) -> Result<Datum> {
    of_angles(ratio(a)?.acos())
}
fn atan(a: &Datum) -> Result<Datum> {
    of_angles(double(a)?.atan())
}
fn atan2(a: &Datum, b: &Datum) -> Result<Datum> {
    of_angles(double(a)?.atan2(double(b)?))
}
fn degrees(a: &Datum) -> Result<Datum> {
    let value = double(a)?;
    finite(value / DEGREE, value)
}
fn radians(a: &Datum) -> Result<Datum> {
    let value = double(a)?;
    finite(value * DEGREE, value)
}

/// Returns the sine of 0 to 30 degrees; exactly 0.5 at 30.
fn sine_to_30(degrees: f64) -> f64 {
    (degrees * DEGREE).sin() / (30.0 * DEGREE).sin() / 2.0
}

/// Returns the cosine of 0 to 60 degrees; exactly 0.5 at 60.
fn cosine_to_60(degrees: f64) -> f64 {
    let below_one = |degrees: f64| 1.0 - (degrees * DEGREE).cos();
    1.0 - below_one(degrees) / below_one(60.0) / 2.0
}

/// Returns the sine of 0 to 90 degrees.
fn sine_to_90(degrees: f64) -> f64 {
    if degrees <= 30.0 { sine_to_30(degrees) } else { cosine_to_60(90.0 - degrees) }
}

/// Returns the cosine of 0 to 90 degrees.
fn cosine_to_90(degrees: f64) -> f64 {
    if degrees <= 60.0 { cosine_to_60(degrees) } else { sine_to_30(90.0 - degrees) }
}

/// Maps an angle in degrees to 0 to 90 degrees, with the signs of its sine and cosine.
fn quarter(value: f64) -> (f64, f64, f64) {
    let mut rest = value % 360.0;
    let (mut sine, mut cosine) = (1.0, 1.0);
    if rest < 0.0 {
        rest = -rest;
        sine = -sine;
    }
    if rest > 180.0 {
        rest = 360.0 - rest;
        sine = -sine;
    }
    if rest > 90.0 {
        rest = 180.0 - rest;
        cosine = -cosine;
    }
    (rest, sine, cosine)
}

/// Applies a function of degrees.
fn of_degrees(a: &Datum, apply: fn(f64) -> f64) -> Result<Datum> {
    of_angles(apply(angle(a)?))
}

fn sind(a: &Datum) -> Result<Datum> {
    of_degrees(a, |value| {
        let (rest, sine, _) = quarter(value);
        sine * sine_to_90(rest)
    })
}

fn cosd(a: &Datum) -> Result<Datum> {
    of_degrees(a, |value| {
        let (rest, _, cosine) = quarter(value);
        cosine * cosine_to_90(rest)
    })
}

fn tand(a: &Datum) -> Result<Datum> {
    of_degrees(a, |value| {
        let tangent = |degrees: f64| sine_to_90(degrees) / cosine_to_90(degrees);
        let (rest, sine, cosine) = quarter(value);
        // Adding zero turns a negative zero into a positive one.
        sine * cosine * (tangent(rest) / tangent(45.0)) + 0.0
    })
}

fn cotd(a: &Datum) -> Result<Datum> {
    of_degrees(a, |value| {
        let cotangent = |degrees: f64| cosine_to_90(degrees) / sine_to_90(degrees);
        let (rest, sine, cosine) = quarter(value);
        sine * cosine * (cotangent(rest) / cotangent(45.0)) + 0.0
    })
}

/// Returns the degrees of a sine of 0 to 1.
fn arc_sine(value: f64) -> f64 {
    if value <= 0.5 {
        value.asin() / 0.5f64.asin() * 30.0
    } else {
        90.0 - value.acos() / 0.5f64.acos() * 60.0
    }
}

/// Returns the degrees of a cosine of 0 to 1.
fn arc_cosine(value: f64) -> f64 {
    if value <= 0.5 {
        90.0 - value.asin() / 0.5f64.asin() * 30.0
    } else {
        value.acos() / 0.5f64.acos() * 60.0
    }
}

fn asind(a: &Datum) -> Result<Datum> {
    let value = ratio(a)?;
    of_angles(if value >= 0.0 { arc_sine(value) } else { -arc_sine(-value) })
}

fn acosd(a: &Datum) -> Result<Datum> {
    let value = ratio(a)?;
    of_angles(if value >= 0.0 { arc_cosine(value) } else { 90.0 + arc_sine(-value) })
}

fn atand(a: &Datum) -> Result<Datum> {
    of_angles(double(a)?.atan() / 1f64.atan() * 45.0)
}

fn atan2d(a: &Datum, b: &Datum) -> Result<Datum> {
    of_angles(double(a)?.atan2(double(b)?) / 1f64.atan() * 45.0)
}

fn sinh(a: &Datum) -> Result<Datum> {
    float(double(a)?.sinh())
}
fn cosh(a: &Datum) -> Result<Datum> {
    float(double(a)?.cosh())
}
fn tanh(a: &Datum) -> Result<Datum> {
    float(double(a)?.tanh())
}

/// The magnitude beyond which 1 does not change the square of a float.
const LARGE: f64 = 268_435_456.0;

/// Computes asinh by the formulas of the C library (Sun's fdlibm), so that results agree to the
/// last digit.
fn asinh(a: &Datum) -> Result<Datum> {
    let value = double(a)?;
    let size = value.abs();
    if !value.is_finite() || size < 1.0 / LARGE {
        return float(value);
    }
    let result = if size > LARGE {
        size.ln() + std::f64::consts::LN_2
    } else if size > 2.0 {
        (2.0 * size + 1.0 / ((value * value + 1.0).sqrt() + size)).ln()
    } else {
        let square = value * value;
        (size + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    float(result.copysign(value))
}

fn acosh(a: &Datum) -> Result<Datum> {
    let value = double(a)?;
    if value < 1.0 {
        return Err(out_of_range());
    }
    if !value.is_finite() {
        return float(value);
    }
    float(if value > LARGE {
        value.ln() + std::f64::consts::LN_2
    } else if value > 2.0 {
        (2.0 * value - 1.0 / (value + (value * value - 1.0).sqrt())).ln()
    } else {
        let above = value - 1.0;
        (above + (2.0 * above + above * above).sqrt()).ln_1p()
    })
}

fn atanh(a: &Datum) -> Result<Datum> {
    let value = ratio(a)?;
    let size = value.abs();
    if value.is_nan() || size < 1.0 / LARGE {
        return float(value);
    }
    let twice = size + size;
    let result = if size >= 1.0 {
        f64::INFINITY
    } else if size < 0.5 {
        0.5 * (twice + twice * size / (1.0 - size)).ln_1p()
    } else {
        0.5 * (twice / (1.0 - size)).ln_1p()
    };
    float(result.copysign(value))
}

fn pi(_: &[Datum]) -> Result<Datum> {
    float(std::f64::consts::PI)
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pi" () FLOAT8 strict single immutable Pure(pi);
    "sin" (FLOAT8) FLOAT8 strict single immutable Unary(sin);
    "cos" (FLOAT8) FLOAT8 strict single immutable Unary(cos);
    "tan" (FLOAT8) FLOAT8 strict single immutable Unary(tan);
    "cot" (FLOAT8) FLOAT8 strict single immutable Unary(cot);
    "asin" (FLOAT8) FLOAT8 strict single immutable Unary(asin);
    "acos" (FLOAT8) FLOAT8 strict single immutable Unary(acos);
    "atan" (FLOAT8) FLOAT8 strict single immutable Unary(atan);
    "atan2" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(atan2);
    "sind" (FLOAT8) FLOAT8 strict single immutable Unary(sind);
    "cosd" (FLOAT8) FLOAT8 strict single immutable Unary(cosd);
    "tand" (FLOAT8) FLOAT8 strict single immutable Unary(tand);
    "cotd" (FLOAT8) FLOAT8 strict single immutable Unary(cotd);
    "asind" (FLOAT8) FLOAT8 strict single immutable Unary(asind);
    "acosd" (FLOAT8) FLOAT8 strict single immutable Unary(acosd);
    "atand" (FLOAT8) FLOAT8 strict single immutable Unary(atand);
    "atan2d" (FLOAT8, FLOAT8) FLOAT8 strict single immutable Binary(atan2d);
    "sinh" (FLOAT8) FLOAT8 strict single immutable Unary(sinh);
    "cosh" (FLOAT8) FLOAT8 strict single immutable Unary(cosh);
    "tanh" (FLOAT8) FLOAT8 strict single immutable Unary(tanh);
    "asinh" (FLOAT8) FLOAT8 strict single immutable Unary(asinh);
    "acosh" (FLOAT8) FLOAT8 strict single immutable Unary(acosh);
    "atanh" (FLOAT8) FLOAT8 strict single immutable Unary(atanh);
    "degrees" (FLOAT8) FLOAT8 strict single immutable Unary(degrees);
    "radians" (FLOAT8) FLOAT8 strict single immutable Unary(radians);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that PostgreSQL's functions of angles return one NaN, while the hyperbolic functions
    /// return the NaN of the argument. The binary format shows the difference.
    #[test]
    fn functions_of_angles_give_one_nan() {
        let other = Datum::Float8(-f64::NAN);
        let bits = |value: Result<Datum>| double(&value.unwrap()).unwrap().to_bits();
        let unary =
            [sin, cos, tan, cot, asin, acos, atan, sind, cosd, tand, cotd, asind, acosd, atand];
        for function in unary {
            assert_eq!(bits(function(&other)), 0x7ff8 << 48);
        }
        for function in [atan2, atan2d, crate::functions::number::math::power] {
            assert_eq!(bits(function(&other, &Datum::Float8(2.0))), 0x7ff8 << 48);
            assert_eq!(bits(function(&Datum::Float8(2.0), &other)), 0x7ff8 << 48);
        }
        for function in [sinh, cosh, tanh, asinh, acosh, atanh] {
            assert_eq!(bits(function(&other)), 0xfff8 << 48);
        }
    }
}
