//! `(start, end) OVERLAPS (start, end)`: decides whether two periods share a moment. An end may be
//! given as its distance from the start.

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::Result;
use niwaki_types::{Datum, TypeOid, compare, datetime};

use crate::functions::{Function, functions, wrong_types};

/// Returns the end of a period: the given end, or the start plus the given interval.
fn end(exec: &ExecContext<'_>, start: &Datum, given: &Datum) -> Result<Datum> {
    let Datum::Interval(span) = given else { return Ok(given.clone()) };
    Ok(match start {
        Datum::Null => Datum::Null,
        Datum::Time(time) => Datum::Time(datetime::add_time(*time, span.micros)),
        Datum::Timestamp(at) => Datum::Timestamp(datetime::timestamp_plus_interval(*at, span)?),
        Datum::TimestampTz(at) => {
            let zone = &exec.text.zone;
            Datum::TimestampTz(datetime::timestamptz_plus_interval(*at, span, zone)?)
        }
        _ => return Err(wrong_types("OVERLAPS")),
    })
}

fn overlaps(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [start, given, other_start, other_given] = values else {
        return Err(wrong_types("OVERLAPS"));
    };
    let first = (start.clone(), end(exec, start, given)?);
    let second = (other_start.clone(), end(exec, other_start, other_given)?);
    Ok(meet(first, second).map_or(Datum::Null, Datum::Bool))
}

/// Returns whether `a` is before `b`; neither is NULL. The variants determine the type.
fn before(a: &Datum, b: &Datum) -> bool {
    compare(TypeOid::TIMESTAMP, a, b).is_lt()
}

/// Puts the earlier end first. A single known end becomes the start, and the other end is unknown.
fn ordered((a, b): (Datum, Datum)) -> (Datum, Datum) {
    if a.is_null() || (!b.is_null() && before(&b, &a)) { (b, a) } else { (a, b) }
}

/// Decides whether two periods share a moment; `None` where that depends on an end that is NULL. A
/// period contains its start, but its end only if both are equal.
fn meet(first: (Datum, Datum), second: (Datum, Datum)) -> Option<bool> {
    let (first, second) = (ordered(first), ordered(second));
    if first.0.is_null() || second.0.is_null() {
        return None;
    }
    let (early, late) = if before(&second.0, &first.0) { (second, first) } else { (first, second) };
    if !before(&early.0, &late.0) {
        // Both begin together, which is enough if both ends are known.
        return (!early.1.is_null() && !late.1.is_null()).then_some(true);
    }
    if early.1.is_null() {
        return None;
    }
    if before(&late.0, &early.1) {
        return Some(true);
    }
    (!late.1.is_null()).then_some(false)
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "overlaps" (TIME, TIME, TIME, TIME) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIME, INTERVAL, TIME, INTERVAL) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIME, TIME, TIME, INTERVAL) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIME, INTERVAL, TIME, TIME) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMETZ, TIMETZ, TIMETZ, TIMETZ) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMP, INTERVAL, TIMESTAMP, INTERVAL) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMP, TIMESTAMP, TIMESTAMP, INTERVAL) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMP, INTERVAL, TIMESTAMP, TIMESTAMP) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, INTERVAL) BOOL nullable single stable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL) BOOL nullable single stable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ) BOOL nullable single stable Context(overlaps);
};
