//! RANGE frames with an offset: decides whether a value is within a distance of another value.

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Interval, TimeZone, TypeOid, compare, datetime};

/// The side of `base` plus or minus the distance on which values are in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// The distance is subtracted from the base.
    pub(super) minus: bool,
    /// The value must not exceed the result; otherwise the value must not be less than the result.
    pub(super) at_most: bool,
}

fn negative() -> SqlError {
    SqlError::new("22013", "invalid preceding or following size in window function")
}

/// Decides whether `value` is on the right side of `base` plus or minus `distance`. None of the
/// three is NULL, and the first two have type `oid`.
///
/// # Errors
/// `22013` for a negative distance, and the errors of the arithmetic where PostgreSQL has them.
pub(super) fn within(
    oid: TypeOid,
    (value, base, distance): (&Datum, &Datum, &Datum),
    side: Side,
    zone: &TimeZone,
) -> Result<bool> {
    let judge =
        |order: std::cmp::Ordering| if side.at_most { order.is_le() } else { order.is_ge() };
    if let (Some(value), Some(base), Some(distance)) =
        (integer(value), integer(base), integer(distance))
    {
        if distance < 0 {
            return Err(negative());
        }
        // The computation uses 128 bits, so that nothing overflows.
        let bound = if side.minus { base - distance } else { base + distance };
        return Ok(judge(value.cmp(&bound)));
    }
    if let (Some(value), Some(base), Datum::Float8(distance)) =
        (float(value), float(base), distance)
    {
        return float_within(value, base, *distance, side);
    }
    match (value, base, distance) {
        (Datum::Numeric(v), Datum::Numeric(b), Datum::Numeric(d)) => {
            if d.is_nan() || d.is_negative() {
                return Err(negative());
            }
            if v.is_nan() || b.is_nan() {
                return Ok(not_numbers(v.is_nan(), b.is_nan(), side));
            }
            let sum = if side.minus { b.sub(d)? } else { b.add(d)? };
            // Infinity minus infinity: every value is equally near.
            if sum.is_nan() {
                return Ok(true);
            }
            let sum = Datum::Numeric(std::sync::Arc::new(sum));
            Ok(judge(compare(oid, value, &sum)))
        }
        (Datum::Date(v), Datum::Date(b), Datum::Interval(d)) => {
            let (v, b) = (datetime::date_to_timestamp(*v)?, datetime::date_to_timestamp(*b)?);
            let bound = datetime::timestamp_plus_interval(b, signed(d, side)?.as_ref())?;
            Ok(judge(v.cmp(&bound)))
        }
        (Datum::Timestamp(v), Datum::Timestamp(b), Datum::Interval(d)) => {
            let bound = datetime::timestamp_plus_interval(*b, signed(d, side)?.as_ref())?;
            Ok(judge(v.cmp(&bound)))
        }
        (Datum::TimestampTz(v), Datum::TimestampTz(b), Datum::Interval(d)) => {
            let bound = datetime::timestamptz_plus_interval(*b, signed(d, side)?.as_ref(), zone)?;
            Ok(judge(v.cmp(&bound)))
        }
        (Datum::Interval(v), Datum::Interval(b), Datum::Interval(d)) => {
            if d.comparable() < 0 {
                return Err(negative());
            }
            let bound = if side.minus { b.checked_sub(d)? } else { b.checked_add(d)? };
            Ok(judge(v.comparable().cmp(&bound.comparable())))
        }
        // Only the time part of the distance counts, and the clock does not wrap at midnight.
        (Datum::Time(v), Datum::Time(b), Datum::Interval(d)) => {
            Ok(judge(i128::from(*v).cmp(&(i128::from(*b) + time_distance(d, side)?))))
        }
        (Datum::TimeTz(v), Datum::TimeTz(b), Datum::Interval(d)) => {
            let moment = i128::from(b.moment()) + time_distance(d, side)?;
            let order = i128::from(v.moment()).cmp(&moment).then(v.west.cmp(&b.west));
            Ok(judge(order))
        }
        _ => Err(SqlError::internal("a frame over values of other types")),
    }
}

fn time_distance(distance: &Interval, side: Side) -> Result<i128> {
    if distance.micros < 0 {
        return Err(negative());
    }
    let micros = i128::from(distance.micros);
    Ok(if side.minus { -micros } else { micros })
}

/// Returns the distance with its sign. A negative distance is an error.
fn signed(distance: &Interval, side: Side) -> Result<std::borrow::Cow<'_, Interval>> {
    if distance.comparable() < 0 {
        return Err(negative());
    }
    Ok(if side.minus {
        std::borrow::Cow::Owned(distance.checked_neg()?)
    } else {
        std::borrow::Cow::Borrowed(distance)
    })
}

/// Decides about NaN, which comes behind all numbers, however far away.
fn not_numbers(value: bool, base: bool, side: Side) -> bool {
    match (value, base) {
        (true, true) => true,
        (true, false) => !side.at_most,
        _ => side.at_most,
    }
}

fn float_within(value: f64, base: f64, distance: f64, side: Side) -> Result<bool> {
    if distance.is_nan() || distance < 0.0 {
        return Err(negative());
    }
    if value.is_nan() || base.is_nan() {
        return Ok(not_numbers(value.is_nan(), base.is_nan(), side));
    }
    let bound = if side.minus { base - distance } else { base + distance };
    // Infinity minus infinity: every value is equally near.
    if bound.is_nan() {
        return Ok(true);
    }
    Ok(if side.at_most { value <= bound } else { value >= bound })
}

fn integer(value: &Datum) -> Option<i128> {
    match value {
        Datum::Int2(v) => Some(i128::from(*v)),
        Datum::Int4(v) => Some(i128::from(*v)),
        Datum::Int8(v) => Some(i128::from(*v)),
        _ => None,
    }
}

fn float(value: &Datum) -> Option<f64> {
    match value {
        Datum::Float4(v) => Some(f64::from(*v)),
        Datum::Float8(v) => Some(*v),
        _ => None,
    }
}
