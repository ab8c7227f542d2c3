//! Times of day, with and without a zone: limits, arithmetic, conversions.

use std::cmp::Ordering;

use super::calendar::{
    MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, finite_timestamp,
    is_infinite, round_micros, split,
};
use super::interval::Interval;
use super::operations::date_to_timestamp;
use super::zone::TimeZone;
use crate::error::{Result, TypeError};

/// Limit of a zone's distance from Greenwich in values from outside, in seconds: less than this.
const DISPLACEMENT_END: i32 = 16 * 3600;

/// `timetz`: a time of day with its zone's distance from Greenwich.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeTz {
    /// Microseconds since local midnight, 0 to 24 hours.
    pub time: i64,
    /// Seconds west of Greenwich; PostgreSQL counts this way here.
    pub west: i32,
}

impl TimeTz {
    /// Returns the microseconds from midnight in Greenwich, the first key of the order.
    #[inline]
    pub fn moment(&self) -> i64 {
        self.time.wrapping_add(i64::from(self.west) * MICROS_PER_SECOND)
    }

    /// Returns the value in a zone that has this [`TimeTz::moment`]. Its time may be no time of
    /// day.
    #[inline]
    pub fn from_moment(moment: i64, west: i32) -> Self {
        Self { time: moment.wrapping_sub(i64::from(west) * MICROS_PER_SECOND), west }
    }

    /// Returns the value with its time rounded as [`round_time`].
    #[must_use]
    pub fn round(self, typmod: i32) -> Self {
        Self { time: round_time(self.time, typmod), ..self }
    }

    /// Returns the same moment in a zone `west` seconds west of Greenwich, on whatever day.
    #[must_use]
    pub fn in_zone(&self, west: i32) -> Self {
        let time = Self::from_moment(self.moment(), west).time;
        Self { time: time.rem_euclid(MICROS_PER_DAY), west }
    }
}

impl Ord for TimeTz {
    /// Orders values of one moment by their zones, so that only the same value is equal.
    fn cmp(&self, other: &Self) -> Ordering {
        (self.moment(), self.west).cmp(&(other.moment(), other.west))
    }
}

impl PartialOrd for TimeTz {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn is_time(micros: i64) -> bool {
    (0..=MICROS_PER_DAY).contains(&micros)
}

/// Returns `micros` if it is a time of day.
///
/// # Errors
/// `22008`
pub fn check_time(micros: i64) -> Result<i64> {
    if is_time(micros) { Ok(micros) } else { Err(TypeError::new("22008", "time out of range")) }
}

/// Returns `micros` if it is a time of day, as everything that was stored is.
///
/// # Errors
/// `XX001`
pub(crate) fn stored_time(micros: i64) -> Result<i64> {
    if is_time(micros) {
        Ok(micros)
    } else {
        Err(TypeError::corrupt(format!("stored time of day is {micros} microseconds")))
    }
}

/// Returns `seconds` if a zone may be so far from Greenwich.
///
/// # Errors
/// `22009`
pub fn check_displacement(seconds: i32) -> Result<i32> {
    if -DISPLACEMENT_END < seconds && seconds < DISPLACEMENT_END {
        Ok(seconds)
    } else {
        Err(TypeError::new("22009", "time zone displacement out of range"))
    }
}

/// Rounds a time of day half up to the digits of a second that `time(p)` allows; -1 changes
/// nothing. A time that close to midnight becomes 24:00:00.
pub fn round_time(time: i64, typmod: i32) -> i64 {
    if (0..6).contains(&typmod) { round_micros(time, typmod.unsigned_abs()) } else { time }
}

/// Adds microseconds to a time of day, around the clock; never gives 24:00:00.
pub fn add_time(time: i64, micros: i64) -> i64 {
    (time % MICROS_PER_DAY + micros % MICROS_PER_DAY).rem_euclid(MICROS_PER_DAY)
}

/// Returns the time from `b` to `a`.
pub fn subtract_times(a: i64, b: i64) -> Interval {
    Interval::new(0, 0, a.saturating_sub(b))
}

/// Returns the time part of an interval, around the clock. Days and months do not count.
pub fn interval_to_time(interval: &Interval) -> i64 {
    interval.micros.rem_euclid(MICROS_PER_DAY)
}

/// Returns the interval from midnight to the time.
pub fn time_to_interval(time: i64) -> Interval {
    Interval::new(0, 0, time)
}

/// Returns the time of day of a timestamp; an infinite one has none.
pub fn timestamp_to_time(micros: i64) -> Option<i64> {
    (!is_infinite(micros)).then(|| split(micros).1)
}

/// Returns the time that clocks in `zone` show at a moment; an infinite moment has no time of day.
///
/// # Errors
/// `22008` when the local time is out of range.
pub fn timestamptz_to_time(micros: i64, zone: &TimeZone) -> Result<Option<i64>> {
    Ok(timestamp_to_time(zone.to_local(micros)?))
}

/// Works as [`timestamptz_to_time`], with the offset that is in force at the moment.
///
/// # Errors
/// `22008` when the local time is out of range.
pub fn timestamptz_to_timetz(micros: i64, zone: &TimeZone) -> Result<Option<TimeTz>> {
    let west = zone.offset_at(micros).saturating_neg();
    Ok(timestamptz_to_time(micros, zone)?.map(|time| TimeTz { time, west }))
}

/// Returns the time of day as clocks in `zone` show it on the local day of the moment `now`.
///
/// # Errors
/// `22008` when the local time of `now` is out of range.
pub fn time_to_timetz(time: i64, zone: &TimeZone, now: i64) -> Result<TimeTz> {
    let (today, _) = split(zone.to_local(now)?);
    Ok(TimeTz { time, west: zone_west(today, time, zone) })
}

/// Returns the seconds west of Greenwich of `zone` when its clocks show a time on a day (from
/// 2000-01-01); 0 where no timestamp is.
pub(crate) fn zone_west(day: i64, time: i64, zone: &TimeZone) -> i32 {
    let local = i128::from(day) * i128::from(MICROS_PER_DAY) + i128::from(time);
    let offset = finite_timestamp(local).and_then(|local| Ok(zone.to_utc(local)? - local));
    let west = offset.map_or(0, |offset| offset / MICROS_PER_SECOND);
    i32::try_from(west).unwrap_or(0)
}

/// Adds a time of day to a date; an infinite date stays.
///
/// # Errors
/// `22008`
pub fn date_plus_time(date: i32, time: i64) -> Result<i64> {
    let midnight = date_to_timestamp(date)?;
    if is_infinite(midnight) {
        return Ok(midnight);
    }
    finite_timestamp(i128::from(midnight) + i128::from(time))
}

/// Returns the moment of a time of day in its zone on a date; an infinite date stays.
///
/// # Errors
/// `22008`
pub fn date_plus_timetz(date: i32, time: &TimeTz) -> Result<i64> {
    let midnight = date_to_timestamp(date)?;
    if is_infinite(midnight) {
        return Ok(midnight);
    }
    finite_timestamp(i128::from(midnight) + i128::from(time.moment()))
        .map_err(|_| TypeError::new("22008", "date out of range for timestamp"))
}

/// Returns the time of day of an hour, a minute and a second with its fraction: `make_time`.
///
/// # Errors
/// `22008` when there is no such time.
pub fn make_time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let out_of_range = || {
        let mut shown = Vec::new();
        // Six significant digits, as C's %g has them.
        crate::scalar::float::write_float8(second, 6 - 15, &mut shown);
        let shown = String::from_utf8_lossy(&shown).into_owned();
        TypeError::new(
            "22008",
            format!("time field value out of range: {hour}:{minute:02}:{shown:0>2}"),
        )
    };
    let micros = (second * 1e6).round_ties_even();
    let fits = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60.0 * 1e6).contains(&micros);
    if !fits {
        return Err(out_of_range());
    }
    let time =
        i64::from(hour) * MICROS_PER_HOUR + i64::from(minute) * MICROS_PER_MINUTE + micros as i64;
    check_time(time).map_err(|_| out_of_range())
}
