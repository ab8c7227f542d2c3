//! Dates, timestamps and intervals: calendar arithmetic, text, time zones.
//!
//! Days and microseconds count from 2000-01-01. The calendar is the Gregorian one at all times,
//! with a year 0 that is shown as 1 BC.
//!
//! The arithmetic stands in the wing `moment`. The order here: reading (`tokens`, `fields`,
//! `moment_text`, `time_text`, `interval_text`), showing (`format`, `styles`), fields of values
//! (`extract`), and pictures (`picture`).

mod extract;
mod fields;
mod format;
mod interval_text;
mod moment_text;
mod picture;
mod styles;
#[cfg(test)]
mod tests;
mod time_text;
mod tokens;

pub use crate::moment::calendar::{
    Civil, DATE_INFINITY, DATE_NEGATIVE_INFINITY, MICROS_PER_DAY, TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY, check_date, check_timestamp, civil_from_days, days_from_civil,
    is_infinite, round_to_precision,
};
pub use crate::moment::construct::{date_bin, make_interval, make_timestamp};
pub use crate::moment::interval::Interval;
pub use crate::moment::interval_typmod::{interval_typmod, interval_typmod_text};
pub use crate::moment::operations::{
    add_days, age, date_to_timestamp, date_to_timestamptz, make_date, subtract_dates,
    subtract_timestamps, timestamp_from_unix, timestamp_plus_interval, timestamp_to_date,
    timestamp_to_timestamptz, timestamptz_plus_interval, timestamptz_to_date,
    timestamptz_to_timestamp,
};
pub use crate::moment::time_of_day::{
    TimeTz, add_time, check_displacement, check_time, date_plus_time, date_plus_timetz,
    interval_to_time, make_time, round_time, subtract_times, time_to_interval, time_to_timetz,
    timestamp_to_time, timestamptz_to_time, timestamptz_to_timetz,
};
pub use crate::moment::zone::TimeZone;
pub use extract::{date_part, date_trunc, extract, trunc_zoned};
pub use format::{
    write_date, write_interval, write_time_of_day, write_timestamp, write_timestamptz, write_timetz,
};
pub use interval_text::parse_interval;
pub use moment_text::{parse_date, parse_timestamp, parse_timestamptz};
pub use picture::{
    interval_to_char, timestamp_to_char, timestamptz_to_char, to_date, to_timestamp,
};
pub use styles::time_of_day_text;
pub use time_text::{parse_time, parse_timetz};
