//! Comparison kernels for vectors.

use std::cmp::Ordering;

use niwaki_types::{Datum, Vector, VectorData};

use super::Values;
use super::kernels::{Side, decimal_side, nulls_of, sides};

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    /// Returns the operator of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "=" => Self::Equal,
            "<>" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterEqual,
            _ => return None,
        })
    }

    #[inline]
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterEqual => order != Ordering::Less,
        }
    }
}

/// Compares two operands. Returns `None` if no kernel compares their types. `padded`: the operands
/// are texts whose trailing blanks do not count.
pub(super) fn compare(
    operator: Comparison,
    left: &Values<'_>,
    right: &Values<'_>,
    padded: bool,
    rows: usize,
) -> Option<Vector> {
    let found = match (left, right) {
        (Values::One(_), Values::One(_)) => return None,
        _ if padded => {
            let (a, b) = (texts(left)?, texts(right)?);
            each(rows, |at| operator.holds(unpadded(a.get(at)).cmp(unpadded(b.get(at)))))
        }
        _ => by_type(operator, left, right, rows)?,
    };
    Some(Vector::with_nulls(VectorData::Bool(found), nulls_of(&[left, right], rows)))
}

fn by_type(
    operator: Comparison,
    left: &Values<'_>,
    right: &Values<'_>,
    rows: usize,
) -> Option<Vec<bool>> {
    if let Some((a, b)) = sides!(left, right, Int4) {
        return Some(ordered(operator, a, b, rows));
    }
    if let Some((a, b)) = sides!(left, right, Int8) {
        return Some(ordered(operator, a, b, rows));
    }
    if let Some((a, b)) = sides!(left, right, Date) {
        return Some(ordered(operator, a, b, rows));
    }
    if let Some((a, b)) = sides!(left, right, Timestamp) {
        return Some(ordered(operator, a, b, rows));
    }
    if let Some((a, b)) = sides!(left, right, TimestampTz) {
        return Some(ordered(operator, a, b, rows));
    }
    if let Some((a, b)) = sides!(left, right, Int2) {
        return Some(ordered(operator, a, b, rows));
    }
    if let Some((a, b)) = sides!(left, right, Float8) {
        return Some(each(rows, |at| operator.holds(float_order(a.get(at), b.get(at)))));
    }
    if let (Some(a), Some(b)) = (integers(left), integers(right)) {
        return Some(each(rows, |at| operator.holds(a(at).cmp(&b(at)))));
    }
    if let (Some(a), Some(b)) = (texts(left), texts(right)) {
        return Some(each(rows, |at| operator.holds(a.get(at).cmp(b.get(at)))));
    }
    decimals(operator, left, right, rows)
}

fn each(rows: usize, holds: impl Fn(usize) -> bool) -> Vec<bool> {
    (0..rows).map(holds).collect()
}

/// Compares two sides of one type by the order of its numbers. Each operator has a loop of its own,
/// which the compiler vectorizes.
fn ordered<T: Copy + Ord>(
    operator: Comparison,
    a: Side<'_, T>,
    b: Side<'_, T>,
    rows: usize,
) -> Vec<bool> {
    fn run<T: Copy>(
        a: Side<'_, T>,
        b: Side<'_, T>,
        rows: usize,
        holds: impl Fn(T, T) -> bool,
    ) -> Vec<bool> {
        match (a, b) {
            (Side::Each(a), Side::Each(b)) => a.iter().zip(b).map(|(a, b)| holds(*a, *b)).collect(),
            (Side::Each(a), Side::One(b)) => a.iter().map(|a| holds(*a, b)).collect(),
            (Side::One(a), Side::Each(b)) => b.iter().map(|b| holds(a, *b)).collect(),
            (Side::One(a), Side::One(b)) => vec![holds(a, b); rows],
        }
    }
    match operator {
        Comparison::Equal => run(a, b, rows, |a, b| a == b),
        Comparison::NotEqual => run(a, b, rows, |a, b| a != b),
        Comparison::Less => run(a, b, rows, |a, b| a < b),
        Comparison::LessEqual => run(a, b, rows, |a, b| a <= b),
        Comparison::Greater => run(a, b, rows, |a, b| a > b),
        Comparison::GreaterEqual => run(a, b, rows, |a, b| a >= b),
    }
}

/// Orders floats: NaN is the greatest number, and equal to itself.
fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Returns integers of any width as int8.
fn integers<'v>(values: &'v Values<'_>) -> Option<Box<dyn Fn(usize) -> i64 + 'v>> {
    Some(match values {
        Values::One(Datum::Int2(value)) => constant(i64::from(*value)),
        Values::One(Datum::Int4(value)) => constant(i64::from(*value)),
        Values::One(Datum::Int8(value)) => constant(*value),
        Values::One(Datum::Null) => constant(0),
        Values::One(_) => return None,
        Values::Each(vector) => match vector.data() {
            VectorData::Int2(values) => Box::new(|at| i64::from(values[at])),
            VectorData::Int4(values) => Box::new(|at| i64::from(values[at])),
            VectorData::Int8(values) => Box::new(|at| values[at]),
            _ => return None,
        },
    })
}

fn constant<'v>(value: i64) -> Box<dyn Fn(usize) -> i64 + 'v> {
    Box::new(move |_| value)
}

fn unpadded(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

enum TextSide<'v> {
    Each(&'v niwaki_types::Texts),
    One(&'v [u8]),
}

impl TextSide<'_> {
    #[inline]
    fn get(&self, at: usize) -> &[u8] {
        match self {
            Self::Each(texts) => texts.get_bytes(at),
            Self::One(text) => text,
        }
    }
}

fn texts<'v>(values: &'v Values<'_>) -> Option<TextSide<'v>> {
    match values {
        Values::One(Datum::Text(text)) => Some(TextSide::One(text.as_bytes())),
        Values::One(Datum::Null) => Some(TextSide::One(b"")),
        Values::One(_) => None,
        Values::Each(vector) => match vector.data() {
            VectorData::Text(texts) => Some(TextSide::Each(texts)),
            _ => None,
        },
    }
}

fn decimals(
    operator: Comparison,
    left: &Values<'_>,
    right: &Values<'_>,
    rows: usize,
) -> Option<Vec<bool>> {
    let (a, b) = (decimal_side(left)?, decimal_side(right)?);
    if a.scale == b.scale {
        return Some(ordered(operator, a.values, b.values, rows));
    }
    let scale = a.scale.max(b.scale);
    let (a_factor, b_factor) = (a.factor_to(scale)?, b.factor_to(scale)?);
    Some(each(rows, |at| {
        // A coefficient has 63 bits and a factor at most 60, so their product fits.
        let (a, b) = (i128::from(a.values.get(at)), i128::from(b.values.get(at)));
        operator.holds((a * a_factor).cmp(&(b * b_factor)))
    }))
}
