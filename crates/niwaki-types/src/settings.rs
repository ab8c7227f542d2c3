//! The session settings and the moment that reading and showing values depend on.

use std::sync::Arc;

use crate::datetime::TimeZone;
use crate::error::Result;

/// Order of the fields of an ambiguous date such as `1/2/2003` (`DateStyle`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year: PostgreSQL's default.
    #[default]
    MonthDayYear,
    /// Day, month, year.
    DayMonthYear,
    /// Year, month, day.
    YearMonthDay,
}

/// How values are read from text and shown as text (session settings).
#[derive(Clone, Debug)]
pub struct TextSettings {
    /// Session time zone name, as in `SHOW TimeZone`.
    pub time_zone: Arc<str>,
    /// The rules of `time_zone`; set both with [`TextSettings::set_time_zone`].
    pub zone: TimeZone,
    /// `extra_float_digits`: above 0 the shortest text that reads back as the same number.
    pub extra_float_digits: i32,
    /// Field order of `DateStyle`. Output is always ISO.
    pub date_order: DateOrder,
    /// `bytea_output = escape` instead of `hex`.
    pub bytea_escape: bool,
}

impl Default for TextSettings {
    fn default() -> Self {
        Self {
            time_zone: Arc::from("UTC"),
            zone: TimeZone::utc(),
            extra_float_digits: 1,
            date_order: DateOrder::default(),
            bytea_escape: false,
        }
    }
}

impl TextSettings {
    /// Changes the session time zone.
    ///
    /// # Errors
    /// `22023` when there is no zone of that name.
    pub fn set_time_zone(&mut self, name: &str) -> Result<()> {
        let zone = TimeZone::get(name)?;
        self.time_zone = Arc::from(zone.name());
        self.zone = zone;
        Ok(())
    }
}

/// What reading a value from text may need besides the text.
#[derive(Clone, Copy, Debug)]
pub struct InputContext<'a> {
    /// Session settings.
    pub settings: &'a TextSettings,
    /// Start of the transaction, in microseconds since 2000-01-01 00:00:00 UTC: what `now` means.
    pub now: i64,
}
