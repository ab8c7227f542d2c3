//! The session's context for reading and showing values: its settings and the current moment.

use std::sync::Arc;

use crate::error::Result;
use crate::moment::zone::TimeZone;
use crate::types::user_types::UserTypes;

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

/// Output form of dates and timestamps (`DateStyle`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateStyle {
    /// `2003-04-12 04:05:06+02`: PostgreSQL's default.
    #[default]
    Iso,
    /// `04/12/2003 04:05:06 CEST`
    Sql,
    /// `Sat Apr 12 04:05:06 2003 CEST`
    Postgres,
    /// `12.04.2003 04:05:06 CEST`
    German,
}

/// Output form of intervals (`IntervalStyle`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`: PostgreSQL's default.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`. A sign before the first part of a text counts for all parts.
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

/// Session settings for reading values from text and showing them as text.
#[derive(Clone, Debug)]
pub struct TextSettings {
    /// Session time zone name, as in `SHOW TimeZone`.
    pub time_zone: Arc<str>,
    /// The rules of `time_zone`; set both with [`TextSettings::set_time_zone`].
    pub zone: TimeZone,
    /// `extra_float_digits`: above 0 the shortest text that reads back as the same number.
    pub extra_float_digits: i32,
    /// Field order of `DateStyle`: for reading, and for showing in the styles SQL and Postgres.
    pub date_order: DateOrder,
    /// Output form of `DateStyle`.
    pub date_style: DateStyle,
    /// `IntervalStyle`
    pub interval_style: IntervalStyle,
    /// `bytea_output = escape` instead of `hex`.
    pub bytea_escape: bool,
    /// The user-defined types.
    pub types: Arc<UserTypes>,
}

impl Default for TextSettings {
    fn default() -> Self {
        Self {
            time_zone: Arc::from("UTC"),
            zone: TimeZone::utc(),
            extra_float_digits: 1,
            date_order: DateOrder::default(),
            date_style: DateStyle::default(),
            interval_style: IntervalStyle::default(),
            bytea_escape: false,
            types: Arc::default(),
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

/// The context for reading a value from text.
#[derive(Clone, Copy, Debug)]
pub struct InputContext<'a> {
    /// Session settings.
    pub settings: &'a TextSettings,
    /// Start of the transaction, in microseconds since 2000-01-01 00:00:00 UTC: the meaning of
    /// `now`.
    pub now: i64,
}
