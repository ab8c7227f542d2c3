//! Days, moments, times of day and intervals as numbers: limits, zones and arithmetic.
//!
//! Days and microseconds count from 2000-01-01. The order: days (`calendar`), lengths of time
//! (`interval`, `interval_typmod`), zones (`offset`, `abbreviations`, `zone`), arithmetic
//! (`operations`, `time_of_day`, `construct`).

pub(crate) mod abbreviations;
pub(crate) mod calendar;
pub(crate) mod construct;
pub(crate) mod interval;
pub(crate) mod interval_typmod;
pub(crate) mod offset;
pub(crate) mod operations;
pub(crate) mod time_of_day;
pub(crate) mod zone;
