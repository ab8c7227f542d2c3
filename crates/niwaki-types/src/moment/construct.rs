//! Moments and intervals out of numbers: `make_timestamp`, `make_interval`, `date_bin`.

use super::calendar::{
    MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, days_from_civil,
    days_in_month, finite_timestamp, is_infinite,
};
use super::interval::{Interval, out_of_range as interval_out_of_range};
use crate::error::{Result, TypeError};

/// Returns the local time of these parts; a negative year is before Christ, and a second may have a
/// fraction.
///
/// # Errors
/// `22008` when there is no such date or time of day.
pub fn make_timestamp(
    year: i32,
    month: i32,
    day: i32,
    hour: i32,
    minute: i32,
    second: f64,
) -> Result<i64> {
    let error = |message: String| TypeError::new("22008", message);
    let no_date = || error(format!("date field value out of range: {year}-{month:02}-{day:02}"));
    let astronomical = if year < 0 { i64::from(year) + 1 } else { i64::from(year) };
    let month_number = u32::try_from(month).ok().filter(|month| (1..=12).contains(month));
    let (Some(month_number), Ok(day_number)) = (month_number, u32::try_from(day)) else {
        return Err(no_date());
    };
    if year == 0 || day_number == 0 || day_number > days_in_month(astronomical, month_number) {
        return Err(no_date());
    }
    // Julian days cover some months more than dates do.
    let counted = (-4713, 11)..(5_874_898, 6);
    if !counted.contains(&(astronomical, month_number)) {
        return Err(error(format!("date out of range: {year}-{month:02}-{day:02}")));
    }
    let date = days_from_civil(astronomical, month_number, day_number);
    let time = time_of_day(hour, minute, second).ok_or_else(|| {
        let second = shown(second);
        error(format!("time field value out of range: {hour}:{minute:02}:{second}"))
    })?;
    let micros = i128::from(date) * i128::from(MICROS_PER_DAY) + i128::from(time);
    finite_timestamp(micros).map_err(|_| {
        let second = shown(second);
        error(format!(
            "timestamp out of range: {year}-{month:02}-{day:02} {hour}:{minute:02}:{second}"
        ))
    })
}

/// Returns the microseconds since midnight; 24:00:00 and a second of 60 are allowed.
fn time_of_day(hour: i32, minute: i32, second: f64) -> Option<i64> {
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..=60.0).contains(&second) {
        return None;
    }
    let micros = (second * 1e6).round_ties_even() as i64;
    let time = i64::from(hour) * MICROS_PER_HOUR + i64::from(minute) * MICROS_PER_MINUTE + micros;
    (micros <= 60 * MICROS_PER_SECOND && time <= MICROS_PER_DAY).then_some(time)
}

/// Returns a number of seconds for a message: six significant digits, two characters at least.
fn shown(second: f64) -> String {
    let mut text = Vec::new();
    crate::scalar::float::write_float8(second, 6 - 15, &mut text);
    format!("{:0>2}", String::from_utf8_lossy(&text))
}

/// Returns the interval of these parts.
///
/// # Errors
/// `22008` when a part does not fit, or the seconds are no number.
pub fn make_interval(
    years: i32,
    months: i32,
    weeks: i32,
    days: i32,
    hours: i32,
    minutes: i32,
    seconds: f64,
) -> Result<Interval> {
    if !seconds.is_finite() {
        return Err(interval_out_of_range());
    }
    let sum = || {
        let months = years.checked_mul(12)?.checked_add(months)?;
        let days = weeks.checked_mul(7)?.checked_add(days)?;
        let micros = (seconds * 1e6).round_ties_even();
        let limit = f64::powi(2.0, 63);
        if !(-limit..limit).contains(&micros) {
            return None;
        }
        let whole = i64::from(hours) * MICROS_PER_HOUR + i64::from(minutes) * MICROS_PER_MINUTE;
        Some(Interval::new(months, days, whole.checked_add(micros as i64)?))
    };
    sum().ok_or_else(interval_out_of_range)
}

/// Returns the start of the stride, counted from `origin`, that the moment lies in. An infinite
/// moment stays.
///
/// # Errors
/// `22008` for an infinite origin, a stride that is not above zero, or a result out of range.
/// `0A000` for a stride with months.
pub fn date_bin(stride: &Interval, moment: i64, origin: i64) -> Result<i64> {
    if is_infinite(moment) {
        return Ok(moment);
    }
    if is_infinite(origin) {
        return Err(TypeError::new("22008", "origin out of range"));
    }
    if stride.months != 0 {
        return Err(TypeError::new(
            "0A000",
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let stride = i64::from(stride.days)
        .checked_mul(MICROS_PER_DAY)
        .and_then(|days| days.checked_add(stride.micros))
        .ok_or_else(interval_out_of_range)?;
    if stride <= 0 {
        return Err(TypeError::new("22008", "stride must be greater than zero"));
    }
    let since = moment.checked_sub(origin).ok_or_else(interval_out_of_range)?;
    let start = i128::from(moment) - i128::from(since.rem_euclid(stride));
    finite_timestamp(start)
}
