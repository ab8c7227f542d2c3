//! Dates, times and format pictures.

pub(super) mod dates;
pub(super) mod formatting;
pub(super) mod moments;
pub(super) mod overlaps;
pub(super) mod time_of_day;
