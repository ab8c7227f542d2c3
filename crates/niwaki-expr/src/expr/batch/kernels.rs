//! Kernels: functions over vectors.
//!
//! A kernel computes for each row the same result as the function's body. A kernel that cannot do
//! this for all rows returns nothing, and the rows are then computed one by one.

use niwaki_parse::error::Result;
use niwaki_types::{Datum, Decimals, TypeOid, Vector, VectorData};

use super::compare::{Comparison, compare};
use super::{Values, is_plain_text};
use crate::expr::work_on;
use crate::function::{Eval, Function};

/// One side of an operator: a number for each row, or one number for all rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side<'v, T> {
    Each(&'v [T]),
    One(T),
}

impl<T: Copy> Side<'_, T> {
    #[inline]
    pub(super) fn get(&self, at: usize) -> T {
        match self {
            Self::Each(values) => values[at],
            Self::One(value) => *value,
        }
    }
}

/// Returns both sides, if both are of this variant of [`VectorData`] and [`Datum`]. A NULL for all
/// rows counts as the type's default.
macro_rules! sides {
    ($left:expr, $right:expr, $variant:ident) => {
        match (
            $crate::expr::batch::kernels::side!($left, $variant),
            $crate::expr::batch::kernels::side!($right, $variant),
        ) {
            (Some(a), Some(b)) => Some((a, b)),
            _ => None,
        }
    };
}
pub(super) use sides;

macro_rules! side {
    ($values:expr, $variant:ident) => {
        match $values {
            $crate::expr::batch::Values::One(niwaki_types::Datum::$variant(value)) => {
                Some($crate::expr::batch::kernels::Side::One(*value))
            }
            $crate::expr::batch::Values::One(niwaki_types::Datum::Null) => {
                Some($crate::expr::batch::kernels::Side::One(Default::default()))
            }
            $crate::expr::batch::Values::One(_) => None,
            $crate::expr::batch::Values::Each(vector) => match vector.data() {
                niwaki_types::VectorData::$variant(values) => {
                    Some($crate::expr::batch::kernels::Side::Each(values.as_slice()))
                }
                _ => None,
            },
        }
    };
}
pub(super) use side;

/// Numerics that share one scale.
pub(super) struct DecimalSide<'v> {
    pub(super) values: Side<'v, i64>,
    pub(super) scale: u16,
}

impl DecimalSide<'_> {
    /// Returns the factor that converts a coefficient to a larger scale. The factor has at most 60
    /// bits.
    pub(super) fn factor_to(&self, scale: u16) -> Option<i128> {
        const LARGEST: u32 = 18;
        let digits = u32::from(scale - self.scale);
        (digits <= LARGEST).then(|| 10i128.pow(digits))
    }
}

/// Returns the numerics of an operand, if they share one scale and are small.
pub(super) fn decimal_side<'v>(values: &'v Values<'_>) -> Option<DecimalSide<'v>> {
    match values {
        Values::One(Datum::Numeric(number)) => {
            let (value, scale) = number.small_parts()?;
            Some(DecimalSide { values: Side::One(value), scale })
        }
        Values::One(_) => None,
        Values::Each(vector) => match vector.data() {
            VectorData::Decimal(decimals) => {
                let (values, scale) = (Side::Each(decimals.values()), decimals.scale());
                Some(DecimalSide { values, scale })
            }
            _ => None,
        },
    }
}

/// Returns a flag for each row with a NULL among these operands; empty if no row has one.
pub(super) fn nulls_of(operands: &[&Values<'_>], rows: usize) -> Vec<bool> {
    let mut nulls: Vec<bool> = Vec::new();
    for operand in operands {
        match operand {
            Values::One(Datum::Null) => return vec![true; rows],
            Values::One(_) => {}
            Values::Each(vector) if vector.nulls().is_empty() => {}
            Values::Each(vector) if nulls.is_empty() => nulls = vector.nulls().to_vec(),
            Values::Each(vector) => {
                for (null, other) in nulls.iter_mut().zip(vector.nulls()) {
                    *null |= *other;
                }
            }
        }
    }
    nulls
}

/// Decides whether comparison kernels know a type, alone or with related types.
fn is_compared(oid: TypeOid) -> bool {
    is_plain_text(oid)
        || matches!(
            oid,
            TypeOid::INT2
                | TypeOid::INT4
                | TypeOid::INT8
                | TypeOid::FLOAT8
                | TypeOid::NUMERIC
                | TypeOid::DATE
                | TypeOid::TIMESTAMP
                | TypeOid::TIMESTAMPTZ
        )
}

/// Decides whether a function or operator has a kernel for some operands.
pub(super) fn has_kernel(function: &Function) -> bool {
    let [left, right] = function.arguments else { return false };
    match function.name {
        "+" | "-" | "*" => {
            left == right
                && matches!(
                    *left,
                    TypeOid::INT4 | TypeOid::INT8 | TypeOid::FLOAT8 | TypeOid::NUMERIC
                )
        }
        name => {
            let padded = *left == TypeOid::BPCHAR && *right == TypeOid::BPCHAR;
            Comparison::named(name).is_some()
                && (padded || is_compared(*left) && is_compared(*right))
        }
    }
}

/// Calls a function for all rows. Returns `None` if the function has no kernel for such operands.
///
/// # Errors
/// The function's error for the first row that fails.
pub(super) fn call(
    function: &Function,
    operands: &[Values<'_>],
    rows: usize,
) -> Result<Option<Vector>> {
    let [left, right] = operands else { return Ok(None) };
    if let Some(comparison) = Comparison::named(function.name) {
        let padded = function.arguments.first() == Some(&TypeOid::BPCHAR);
        return Ok(compare(comparison, left, right, padded, rows));
    }
    arithmetic(function, left, right, rows)
}

fn arithmetic(
    function: &Function,
    left: &Values<'_>,
    right: &Values<'_>,
    rows: usize,
) -> Result<Option<Vector>> {
    if matches!((left, right), (Values::One(_), Values::One(_))) {
        return Ok(None);
    }
    let nulls = nulls_of(&[left, right], rows);
    let data = match function.result {
        TypeOid::INT4 => {
            let Some((a, b)) = sides!(left, right, Int4) else { return Ok(None) };
            let operator = match function.name {
                "+" => i32::checked_add,
                "-" => i32::checked_sub,
                _ => i32::checked_mul,
            };
            checked(a, b, rows, operator).map(VectorData::Int4)
        }
        TypeOid::INT8 => {
            let Some((a, b)) = sides!(left, right, Int8) else { return Ok(None) };
            let operator = match function.name {
                "+" => i64::checked_add,
                "-" => i64::checked_sub,
                _ => i64::checked_mul,
            };
            checked(a, b, rows, operator).map(VectorData::Int8)
        }
        TypeOid::FLOAT8 => {
            let Some((a, b)) = sides!(left, right, Float8) else { return Ok(None) };
            floats(function.name, a, b, rows).map(VectorData::Float8)
        }
        TypeOid::NUMERIC => {
            let (Some(a), Some(b)) = (decimal_side(left), decimal_side(right)) else {
                return Ok(None);
            };
            decimals(function.name, &a, &b, rows).map(VectorData::Decimal)
        }
        _ => None,
    };
    match data {
        Some(data) => Ok(Some(Vector::with_nulls(data, nulls))),
        // Some row's result does not fit. The function's body decides what that means, unless an
        // operand is NULL.
        None => by_body(function, left, right, rows).map(Some),
    }
}

/// Returns all results, if all of them fit.
fn checked<T: Copy>(
    a: Side<'_, T>,
    b: Side<'_, T>,
    rows: usize,
    operator: impl Fn(T, T) -> Option<T>,
) -> Option<Vec<T>> {
    match (a, b) {
        (Side::Each(a), Side::Each(b)) => a.iter().zip(b).map(|(a, b)| operator(*a, *b)).collect(),
        (Side::Each(a), Side::One(b)) => a.iter().map(|a| operator(*a, b)).collect(),
        (Side::One(a), Side::Each(b)) => b.iter().map(|b| operator(a, *b)).collect(),
        (Side::One(a), Side::One(b)) => (0..rows).map(|_| operator(a, b)).collect(),
    }
}

/// Returns all results, if the function's body would refuse none of them.
fn floats(name: &str, a: Side<'_, f64>, b: Side<'_, f64>, rows: usize) -> Option<Vec<f64>> {
    let results = match name {
        "+" => checked(a, b, rows, |a, b| Some(a + b)),
        "-" => checked(a, b, rows, |a, b| Some(a - b)),
        _ => checked(a, b, rows, |a, b| Some(a * b)),
    }?;
    // An infinite product, or a product of zero, may be an overflow or underflow.
    let plain = results.iter().all(|value| value.is_finite() && (name != "*" || *value != 0.0));
    plain.then_some(results)
}

fn decimals(name: &str, a: &DecimalSide<'_>, b: &DecimalSide<'_>, rows: usize) -> Option<Decimals> {
    if name == "*" {
        let scale = a.scale.checked_add(b.scale)?;
        let values = checked(a.values, b.values, rows, i64::checked_mul)?;
        // The function's body handles a scale that must be cut.
        return (scale < 1000).then(|| Decimals::new(values, scale));
    }
    let scale = a.scale.max(b.scale);
    let (a_factor, b_factor) = (a.factor_to(scale)?, b.factor_to(scale)?);
    let aligned = |a: i64, b: i64| {
        let (a, b) = (i128::from(a) * a_factor, i128::from(b) * b_factor);
        i64::try_from(if name == "+" { a + b } else { a - b }).ok()
    };
    checked(a.values, b.values, rows, aligned).map(|values| Decimals::new(values, scale))
}

/// Computes a function row by row with its body.
fn by_body(
    function: &Function,
    left: &Values<'_>,
    right: &Values<'_>,
    rows: usize,
) -> Result<Vector> {
    let mut vector = Vector::for_type(function.result);
    let Eval::Binary(body) = function.eval else {
        return Err(niwaki_parse::error::SqlError::internal(
            "a kernel of a function that is no operator",
        ));
    };
    for at in 0..rows {
        let (left, right) = (left.get(at), right.get(at));
        if left.is_null() || right.is_null() {
            vector.push_null();
        } else {
            work_on(&left)?;
            work_on(&right)?;
            vector.push(&body(&left, &right)?);
        }
    }
    Ok(vector)
}

/// Decides whether a kernel converts values from one type to the other.
pub(super) fn casts(from: TypeOid, to: TypeOid) -> bool {
    matches!(
        (from, to),
        (TypeOid::INT4, TypeOid::INT8 | TypeOid::NUMERIC | TypeOid::FLOAT8)
            | (TypeOid::INT8, TypeOid::NUMERIC)
            | (TypeOid::VARCHAR, TypeOid::TEXT)
    )
}

/// Converts values, if the conversion cannot fail.
pub(super) fn cast(values: &Values<'_>, to: TypeOid) -> Option<Vector> {
    let Values::Each(vector) = values else { return None };
    let wide = || -> Option<Vec<i64>> {
        match vector.data() {
            VectorData::Int4(values) => {
                Some(values.iter().map(|value| i64::from(*value)).collect())
            }
            VectorData::Int8(values) => Some(values.clone()),
            _ => None,
        }
    };
    let data = match (vector.data(), to) {
        (_, TypeOid::INT8) => VectorData::Int8(wide()?),
        (_, TypeOid::NUMERIC) => VectorData::Decimal(Decimals::new(wide()?, 0)),
        (VectorData::Int4(values), TypeOid::FLOAT8) => {
            VectorData::Float8(values.iter().map(|value| f64::from(*value)).collect())
        }
        (VectorData::Text(texts), TypeOid::TEXT) => VectorData::Text(texts.clone()),
        _ => return None,
    };
    Some(Vector::with_nulls(data, vector.nulls().to_vec()))
}
