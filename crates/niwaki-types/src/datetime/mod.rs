//! Dates, timestamps and intervals: calendar arithmetic, text, time zones.

mod interval;
mod zone;

pub use interval::Interval;
pub use zone::TimeZone;

/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;
