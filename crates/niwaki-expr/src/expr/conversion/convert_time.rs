//! Conversions between dates, moments and times of day.

use std::sync::Arc;

use niwaki_parse::error::Result;
use niwaki_types::{Datum, TextSettings, TimeTz, TypeOid, datetime};

use crate::function::wrong_types;

/// Converts between date, timestamp and timestamptz in the session's time zone.
///
/// # Errors
/// `22008` when the target cannot show the moment.
pub fn convert_time(value: &Datum, to: TypeOid, text: &TextSettings) -> Result<Datum> {
    let zone = &text.zone;
    Ok(match (value, to) {
        (Datum::Date(d), TypeOid::TIMESTAMP) => Datum::Timestamp(datetime::date_to_timestamp(*d)?),
        (Datum::Date(d), TypeOid::TIMESTAMPTZ) => {
            Datum::TimestampTz(datetime::date_to_timestamptz(*d, zone)?)
        }
        (Datum::Timestamp(t), TypeOid::DATE) => Datum::Date(datetime::timestamp_to_date(*t)?),
        (Datum::Timestamp(t), TypeOid::TIMESTAMPTZ) => {
            Datum::TimestampTz(datetime::timestamp_to_timestamptz(*t, zone)?)
        }
        (Datum::TimestampTz(t), TypeOid::DATE) => {
            Datum::Date(datetime::timestamptz_to_date(*t, zone)?)
        }
        (Datum::TimestampTz(t), TypeOid::TIMESTAMP) => {
            Datum::Timestamp(datetime::timestamptz_to_timestamp(*t, zone)?)
        }
        (value, _) => value.clone(),
    })
}

/// Converts from and to times of day in the session's time zone. `now` is the start of the
/// transaction; its day gives the offset of a time without zone.
///
/// # Errors
/// `22008` when clocks in the zone cannot show the moment.
pub fn convert_time_of_day(
    value: &Datum,
    to: TypeOid,
    text: &TextSettings,
    now: i64,
) -> Result<Datum> {
    let zone = &text.zone;
    // An infinite moment has no time of day.
    let time = |time: Option<i64>| time.map_or(Datum::Null, Datum::Time);
    let time_tz = |time: Option<TimeTz>| time.map_or(Datum::Null, Datum::TimeTz);
    Ok(match (value, to) {
        (Datum::Time(t), TypeOid::INTERVAL) => {
            Datum::Interval(Arc::new(datetime::time_to_interval(*t)))
        }
        (Datum::Time(t), TypeOid::TIMETZ) => {
            Datum::TimeTz(datetime::time_to_timetz(*t, zone, now)?)
        }
        (Datum::TimeTz(t), TypeOid::TIME) => Datum::Time(t.time),
        (Datum::Interval(i), TypeOid::TIME) => Datum::Time(datetime::interval_to_time(i)),
        (Datum::Timestamp(t), TypeOid::TIME) => time(datetime::timestamp_to_time(*t)),
        (Datum::TimestampTz(t), TypeOid::TIME) => time(datetime::timestamptz_to_time(*t, zone)?),
        (Datum::TimestampTz(t), TypeOid::TIMETZ) => {
            time_tz(datetime::timestamptz_to_timetz(*t, zone)?)
        }
        _ => return Err(wrong_types("::")),
    })
}
