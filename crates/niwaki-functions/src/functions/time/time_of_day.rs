//! Functions and operators on times of day.

use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::{convert_time, convert_time_of_day};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Interval, TimeZone, TypeOid, datetime};

use crate::functions::number::operators::{add, subtract};
use crate::functions::{Function, functions, wrong_types};

fn current_time(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let now = exec.environment.transaction_timestamp();
    convert_time_of_day(&Datum::TimestampTz(now), TypeOid::TIMETZ, exec.text, now)
}

fn local_time(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let now = exec.environment.transaction_timestamp();
    convert_time_of_day(&Datum::TimestampTz(now), TypeOid::TIME, exec.text, now)
}

/// Returns the moment of a date and a time of day on clocks of the session's zone.
fn moment_in_zone(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [date, time] = values else { return Err(wrong_types("timestamptz")) };
    convert_time(&add(date, time)?, TypeOid::TIMESTAMPTZ, exec.text)
}

fn make_time(values: &[Datum]) -> Result<Datum> {
    let [Datum::Int4(hour), Datum::Int4(minute), Datum::Float8(second)] = values else {
        return Err(wrong_types("make_time"));
    };
    Ok(Datum::Time(datetime::make_time(*hour, *minute, *second)?))
}

/// `AT TIME ZONE` of a time: uses the zone's offset at the start of the transaction.
fn at_zone(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(name), Datum::TimeTz(value)] = values else {
        return Err(wrong_types("timezone"));
    };
    let zone = TimeZone::get_or_abbreviation(name)?;
    let east = zone.offset_at(exec.environment.transaction_timestamp());
    Ok(Datum::TimeTz(value.in_zone(east.saturating_neg())))
}

/// `AT TIME ZONE` with an interval: the interval is the distance east of Greenwich.
fn at_interval(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Interval(offset), value] = values else { return Err(wrong_types("timezone")) };
    match value {
        // No zone moves infinite moments, so every zone is valid.
        Datum::Timestamp(at) if datetime::is_infinite(*at) => return Ok(Datum::TimestampTz(*at)),
        Datum::TimestampTz(at) if datetime::is_infinite(*at) => return Ok(Datum::Timestamp(*at)),
        _ => {}
    }
    if offset.months != 0 || offset.days != 0 {
        let shown = niwaki_expr::expr::value_text(&values[0], TypeOid::INTERVAL, exec);
        return Err(SqlError::new(
            "22023",
            format!("interval time zone \"{shown}\" must not include months or days"),
        ));
    }
    // Only whole seconds count.
    let east = Interval::new(0, 0, offset.micros - offset.micros % 1_000_000);
    Ok(match value {
        Datum::Timestamp(at) => {
            Datum::TimestampTz(datetime::timestamp_plus_interval(*at, &east.checked_neg()?)?)
        }
        Datum::TimestampTz(at) => Datum::Timestamp(datetime::timestamp_plus_interval(*at, &east)?),
        Datum::TimeTz(time) => {
            let west = i32::try_from(-(east.micros / 1_000_000))
                .map_err(|_| SqlError::new("22023", "interval time zone is out of range"))?;
            Datum::TimeTz(time.in_zone(west))
        }
        _ => return Err(wrong_types("timezone")),
    })
}

pub(crate) const OPERATORS: &[Function] = functions! {
    "+" (TIME, INTERVAL) TIME strict single immutable Binary(add);
    "+" (INTERVAL, TIME) TIME strict single immutable Binary(add);
    "+" (TIMETZ, INTERVAL) TIMETZ strict single immutable Binary(add);
    "+" (INTERVAL, TIMETZ) TIMETZ strict single immutable Binary(add);
    "+" (DATE, TIME) TIMESTAMP strict single immutable Binary(add);
    "+" (TIME, DATE) TIMESTAMP strict single immutable Binary(add);
    "+" (DATE, TIMETZ) TIMESTAMPTZ strict single immutable Binary(add);
    "+" (TIMETZ, DATE) TIMESTAMPTZ strict single immutable Binary(add);
    "-" (TIME, TIME) INTERVAL strict single immutable Binary(subtract);
    "-" (TIME, INTERVAL) TIME strict single immutable Binary(subtract);
    "-" (TIMETZ, INTERVAL) TIMETZ strict single immutable Binary(subtract);
};

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "current_time" () TIMETZ strict single stable Context(current_time);
    "localtime" () TIME strict single stable Context(local_time);
    "extract" (TEXT, TIME) NUMERIC strict single immutable Context(crate::functions::time::dates::extract);
    "extract" (TEXT, TIMETZ) NUMERIC strict single immutable Context(crate::functions::time::dates::extract);
    "date_part" (TEXT, TIME) FLOAT8 strict single immutable Context(crate::functions::time::dates::date_part);
    "date_part" (TEXT, TIMETZ) FLOAT8 strict single immutable Context(crate::functions::time::dates::date_part);
    "timestamp" (DATE, TIME) TIMESTAMP strict single immutable Binary(add);
    "timestamptz" (DATE, TIME) TIMESTAMPTZ strict single stable Context(moment_in_zone);
    "timestamptz" (DATE, TIMETZ) TIMESTAMPTZ strict single immutable Binary(add);
    "make_time" (INT4, INT4, FLOAT8) TIME strict single immutable Pure(make_time);
    "timezone" (TEXT, TIMETZ) TIMETZ strict single stable Context(at_zone);
    "timezone" (INTERVAL, TIMETZ) TIMETZ strict single immutable Context(at_interval);
    "timezone" (INTERVAL, TIMESTAMP) TIMESTAMPTZ strict single immutable Context(at_interval);
    "timezone" (INTERVAL, TIMESTAMPTZ) TIMESTAMP strict single immutable Context(at_interval);
};
