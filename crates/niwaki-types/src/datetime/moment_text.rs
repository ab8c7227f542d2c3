//! Text to date, timestamp, and timestamp with time zone.

use super::fields::{Day, Fields, Moment, Zone, read_moment};
use crate::error::{Result, TypeError};
use crate::moment::calendar::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, MICROS_PER_DAY, MICROS_PER_SECOND, TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY, finite_date, finite_timestamp, split,
};
use crate::moment::offset::Fault;
use crate::settings::InputContext;

/// 1970-01-01 in days from 2000-01-01.
const UNIX_EPOCH_DAYS: i64 = -10_957;

/// Reads a date; a time of day in the text is ignored.
///
/// # Errors
/// `22007` for bad syntax, `22008` out of range, `22009`, `22023` for a bad zone.
pub fn parse_date(text: &str, context: &InputContext<'_>) -> Result<i32> {
    let days = match read(text, "date", context)? {
        Moment::Infinity => return Ok(DATE_INFINITY),
        Moment::NegativeInfinity => return Ok(DATE_NEGATIVE_INFINITY),
        Moment::Epoch => UNIX_EPOCH_DAYS,
        Moment::Now => local_today(context)?,
        Moment::Fields(fields) => day_number(&fields, context)?,
    };
    finite_date(days).map_err(|_| TypeError::new("22008", format!("date out of range: \"{text}\"")))
}

/// Reads a timestamp without time zone; a zone in the text is ignored.
///
/// # Errors
/// As [`parse_date`].
pub fn parse_timestamp(text: &str, context: &InputContext<'_>) -> Result<i64> {
    let micros = match read(text, "timestamp", context)? {
        Moment::Infinity => return Ok(TIMESTAMP_INFINITY),
        Moment::NegativeInfinity => return Ok(TIMESTAMP_NEGATIVE_INFINITY),
        Moment::Epoch => i128::from(UNIX_EPOCH_DAYS * MICROS_PER_DAY),
        Moment::Now => context.settings.zone.to_local(context.now)?.into(),
        Moment::Fields(fields) => local_micros(&fields, context)?,
    };
    finite_timestamp(micros).map_err(|_| out_of_range(text))
}

/// Reads a timestamp with time zone; without a zone in the text it is local time of the session.
///
/// # Errors
/// As [`parse_date`].
pub fn parse_timestamptz(text: &str, context: &InputContext<'_>) -> Result<i64> {
    match read(text, "timestamp with time zone", context)? {
        Moment::Infinity => Ok(TIMESTAMP_INFINITY),
        Moment::NegativeInfinity => Ok(TIMESTAMP_NEGATIVE_INFINITY),
        Moment::Epoch => Ok(UNIX_EPOCH_DAYS * MICROS_PER_DAY),
        Moment::Now => Ok(context.now),
        Moment::Fields(fields) => {
            let local = local_micros(&fields, context)?;
            match &fields.zone {
                Some(Zone::Offset(seconds)) => {
                    finite_timestamp(local - i128::from(*seconds) * i128::from(MICROS_PER_SECOND))
                }
                Some(Zone::Named(zone)) => finite_timestamp(local).and_then(|at| zone.to_utc(at)),
                None => finite_timestamp(local).and_then(|at| context.settings.zone.to_utc(at)),
            }
            .map_err(|_| out_of_range(text))
        }
    }
}

fn out_of_range(text: &str) -> TypeError {
    TypeError::new("22008", format!("timestamp out of range: \"{text}\""))
}

/// Returns the day on which the transaction started, in the session's zone.
fn local_today(context: &InputContext<'_>) -> Result<i64> {
    Ok(split(context.settings.zone.to_local(context.now)?).0)
}

fn day_number(fields: &Fields, context: &InputContext<'_>) -> Result<i64> {
    Ok(match fields.day {
        Day::Number(days) => days,
        Day::Relative(days) => local_today(context)? + days,
    })
}

fn local_micros(fields: &Fields, context: &InputContext<'_>) -> Result<i128> {
    let days = i128::from(day_number(fields, context)?);
    Ok(days * i128::from(MICROS_PER_DAY) + i128::from(fields.time))
}

fn read(text: &str, type_name: &str, context: &InputContext<'_>) -> Result<Moment> {
    read_moment(text, context.settings.date_order)
        .map_err(|fault| fault_error(fault, text, type_name))
}

/// Returns PostgreSQL's error for a fault in `text`.
#[cold]
pub(super) fn fault_error(fault: Fault, text: &str, type_name: &str) -> TypeError {
    match fault {
        Fault::Syntax => TypeError::new(
            "22007",
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        ),
        Fault::FieldRange | Fault::MonthOrDay => {
            let error =
                TypeError::new("22008", format!("date/time field value out of range: \"{text}\""));
            match fault {
                Fault::MonthOrDay => {
                    error.with_hint("Perhaps you need a different \"datestyle\" setting.")
                }
                _ => error,
            }
        }
        Fault::ZoneRange => {
            TypeError::new("22009", format!("time zone displacement out of range: \"{text}\""))
        }
        Fault::UnknownZone(name) => {
            TypeError::new("22023", format!("time zone \"{name}\" not recognized"))
        }
    }
}
