//! Time zones: names, and the offset in force at a moment.

use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::{self, AmbiguousOffset};

use super::abbreviations::{self, Abbreviated};
use super::calendar::{
    DAYS_PER_CYCLE, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    civil_from_days, finite_timestamp, is_infinite, split,
};
use crate::error::{Result, TypeError};

/// Seconds from 1970-01-01 to 2000-01-01.
const EPOCH_UNIX_SECONDS: i64 = 946_684_800;
/// Day after which zone rules are not looked up: they are known to the year 9999. Later moments use
/// the rules of the same place in an earlier cycle of 400 years, which has the same weekdays.
const RULES_END_DAYS: i64 = 2_921_575;
/// Summer time of the United States: from the second Sunday of March to the first one of November.
const USUAL_SUMMER_TIME: &str = ",M3.2.0,M11.1.0";
/// Most changes of a zone after a moment that a search for an abbreviation looks at. There must be
/// a limit: rules of summer time have no end.
const CHANGES_MAX: usize = 200;

/// A time zone: the bundled rules of a named one, or a fixed offset. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct TimeZone {
    rules: tz::TimeZone,
    name: Arc<str>,
    /// True if the offset is always 0. The flag spares a look into the rules in most sessions.
    is_utc: bool,
    /// Abbreviation of the time in a POSIX rule without summer time.
    abbreviation: Option<Arc<str>>,
    /// The abbreviation whose last offset in these rules is meant.
    meaning: Option<Arc<str>>,
}

impl TimeZone {
    fn of(rules: tz::TimeZone, name: &str) -> Self {
        Self { rules, name: name.into(), is_utc: false, abbreviation: None, meaning: None }
    }

    /// Returns coordinated universal time.
    pub fn utc() -> Self {
        Self { is_utc: true, ..Self::of(tz::TimeZone::UTC, "UTC") }
    }

    /// Returns the zone that `SET TimeZone` means by `name`. A name is one of the zone database in
    /// any case of letters, a POSIX rule, or a number of hours east of Greenwich.
    ///
    /// # Errors
    /// `22023` when there is none.
    pub fn get(name: &str) -> Result<Self> {
        let unknown = || unknown(name);
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Self::utc());
        }
        if let Ok(hours) = name.parse::<f64>() {
            if hours.abs() > 168.0 {
                return Err(unknown());
            }
            return Self::fixed((hours * 3600.0).round() as i32).ok_or_else(unknown);
        }
        if let Ok(rules) = tz::TimeZone::get(name) {
            let name = rules.iana_name().unwrap_or(name).to_owned();
            // Containers often use the first of these names.
            let is_utc =
                ["Etc/UTC", "GMT", "Etc/GMT", "UCT", "Zulu", "Universal"].contains(&name.as_str());
            return Ok(Self { is_utc, ..Self::of(rules, &name) });
        }
        // All other names are known by their upper-case form.
        let name = &*name.to_ascii_uppercase();
        // An abbreviation, which may stand in angle brackets, and an offset without summer time.
        let offset = match name.strip_prefix('<') {
            Some(rest) => rest.split_once('>').map(|(_, offset)| offset),
            None => Some(name.trim_start_matches(|c: char| c.is_ascii_alphabetic())),
        };
        if let Some(zone) = offset.and_then(posix_offset).and_then(|west| Self::fixed(-west)) {
            let called = match name.strip_prefix('<') {
                Some(rest) => rest.split_once('>').map(|(called, _)| called),
                None => name.find(|c: char| !c.is_ascii_alphabetic()).map(|end| &name[..end]),
            };
            let abbreviation = called.filter(|called| !called.is_empty()).map(Arc::from);
            return Ok(Self { name: name.into(), abbreviation, ..zone });
        }
        let rules = tz::TimeZone::posix(name);
        // Summer time without a rule follows the rule of the United States.
        let rules = rules.or_else(|_| tz::TimeZone::posix(&format!("{name}{USUAL_SUMMER_TIME}")));
        Ok(Self::of(rules.map_err(|_| unknown())?, name))
    }

    /// Returns the zone that an abbreviation means; `None` for another word.
    pub(crate) fn of_abbreviation(word: &str) -> Option<Self> {
        match abbreviations::find(word)? {
            Abbreviated::Always(seconds) => Self::fixed(seconds),
            Abbreviated::In(zone) => {
                let meaning = Some(word.to_ascii_uppercase().into());
                Some(Self { meaning, ..Self::get(zone).ok()? })
            }
        }
    }

    /// Decides whether this is an abbreviation whose meaning comes from the zone's rules.
    pub(crate) fn is_abbreviation(&self) -> bool {
        self.meaning.is_some()
    }

    /// Returns the zone that `AT TIME ZONE` means by `name`: an abbreviation such as `PDT`, or
    /// hours **west** of Greenwich as in a POSIX rule. Other names are read as [`TimeZone::get`]
    /// does.
    ///
    /// # Errors
    /// `22023` when there is none.
    pub fn get_or_abbreviation(name: &str) -> Result<Self> {
        match Self::of_abbreviation(name) {
            Some(zone) => Ok(zone),
            None if name.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) => {
                let zone = posix_offset(name).and_then(|west| Self::fixed(-west));
                zone.ok_or_else(|| unknown(name))
            }
            None => Self::get(name),
        }
    }

    /// Returns the zone of an argument such as `make_timestamptz` has: an offset with its sign
    /// (`+05:30` is east of Greenwich), an abbreviation, or a name.
    ///
    /// # Errors
    /// `22023`
    pub fn of_argument(name: &str) -> Result<Self> {
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(TypeError::new(
                "22023",
                format!("invalid input syntax for type numeric time zone: \"{name}\""),
            )
            .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
        }
        if name.starts_with(['+', '-']) {
            match super::offset::offset(name) {
                Ok(seconds) => {
                    if let Some(zone) = Self::fixed(seconds) {
                        return Ok(zone);
                    }
                }
                Err(super::offset::Fault::ZoneRange) => {
                    return Err(TypeError::new(
                        "22023",
                        format!("numeric time zone \"{name}\" out of range"),
                    ));
                }
                Err(_) => {}
            }
        }
        Self::get_or_abbreviation(name)
            .map_err(|_| TypeError::new("22023", format!("time zone \"{name}\" not recognized")))
    }

    /// Returns a fixed offset in seconds east of Greenwich.
    pub(crate) fn fixed(seconds: i32) -> Option<Self> {
        let offset = tz::Offset::from_seconds(seconds).ok()?;
        // PostgreSQL names such a zone by a POSIX rule, whose sign counts westwards.
        let (hours, rest) = (seconds.abs() / 3600, seconds.abs() % 3600);
        let shown = match (rest / 60, rest % 60) {
            (0, 0) => format!("{hours:02}"),
            (minutes, 0) => format!("{hours:02}:{minutes:02}"),
            (minutes, seconds) => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        };
        let (east, west) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
        let name = format!("<{east}{shown}>{west}{shown}");
        Some(Self::of(tz::TimeZone::fixed(offset), &name))
    }

    /// Returns the names of all zones of the zone database, in alphabetic order.
    pub fn names() -> Vec<String> {
        let mut names: Vec<String> =
            tz::db().available().map(|name| name.as_str().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Decides whether a moment, in microseconds since 2000-01-01 UTC, is in summer time.
    pub fn is_summer_at(&self, micros: i64) -> bool {
        let micros = within_rules(micros);
        let seconds = micros.div_euclid(MICROS_PER_SECOND) + EPOCH_UNIX_SECONDS;
        jiff::Timestamp::from_second(seconds)
            .is_ok_and(|moment| self.rules.to_offset_info(moment).dst().is_dst())
    }

    /// Returns the name as the zone database spells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the seconds east of Greenwich, if they never changed.
    pub(crate) fn only_offset(&self) -> Option<i32> {
        let first = self.rules.to_offset(jiff::Timestamp::MIN);
        let mut changes = self.rules.following(jiff::Timestamp::MIN);
        // A zone with summer time has endless changes, and soon a second offset.
        changes.all(|change| change.offset() == first).then(|| first.seconds())
    }

    /// Returns the seconds east of Greenwich at a moment, in microseconds since 2000-01-01 UTC.
    pub fn offset_at(&self, micros: i64) -> i32 {
        if self.is_utc || is_infinite(micros) {
            return 0;
        }
        let micros = within_rules(micros);
        let seconds = micros.div_euclid(MICROS_PER_SECOND) + EPOCH_UNIX_SECONDS;
        match (jiff::Timestamp::from_second(seconds), &self.meaning) {
            (Ok(moment), Some(word)) => self.meaning_at(moment, word).seconds(),
            (Ok(moment), None) => self.rules.to_offset(moment).seconds(),
            (Err(_), _) => 0,
        }
    }

    /// Returns the last offset with this abbreviation up to the moment, or else the first one after
    /// it. Rules that do not know the abbreviation give the zone's offset.
    fn meaning_at(&self, moment: jiff::Timestamp, word: &str) -> tz::Offset {
        let now = self.rules.to_offset_info(moment);
        if now.abbreviation() == word {
            return now.offset();
        }
        let mut before = self.rules.preceding(moment);
        let mut after = self.rules.following(moment).take(CHANGES_MAX);
        let found = before.find(|change| change.abbreviation() == word);
        let found = found.or_else(|| after.find(|change| change.abbreviation() == word));
        found.map_or(now.offset(), |change| change.offset())
    }

    /// Returns the abbreviation of the zone's time at a moment: `CET`, `+03`, `LMT`.
    pub fn abbreviation_at(&self, micros: i64) -> String {
        if let Some(abbreviation) = &self.abbreviation {
            return abbreviation.to_string();
        }
        let micros = within_rules(micros);
        let seconds = micros.div_euclid(MICROS_PER_SECOND) + EPOCH_UNIX_SECONDS;
        match jiff::Timestamp::from_second(seconds) {
            Ok(moment) => self.rules.to_offset_info(moment).abbreviation().to_owned(),
            Err(_) => String::new(),
        }
    }

    /// Returns the local time that clocks show at a moment.
    ///
    /// # Errors
    /// `22008` when the local time is out of range.
    pub fn to_local(&self, micros: i64) -> Result<i64> {
        if self.is_utc || is_infinite(micros) {
            return Ok(micros);
        }
        let offset = i64::from(self.offset_at(micros)) * MICROS_PER_SECOND;
        finite_timestamp(i128::from(micros) + i128::from(offset))
    }

    /// Returns the moment at which clocks show `local`. Of two such moments it returns the later. A
    /// time that clocks jump over is read with the offset from before the jump.
    ///
    /// # Errors
    /// `22008` when the moment is out of range.
    pub fn to_utc(&self, local: i64) -> Result<i64> {
        if self.is_utc || is_infinite(local) {
            return Ok(local);
        }
        let by = |seconds: i32| {
            let offset = i128::from(seconds) * i128::from(MICROS_PER_SECOND);
            finite_timestamp(i128::from(local) - offset)
        };
        let moment = by(self.local_offset(local))?;
        if self.is_abbreviation() { by(self.offset_at(moment)) } else { Ok(moment) }
    }

    fn local_offset(&self, local: i64) -> i32 {
        let Some(clock) = clock(within_rules(local)) else { return 0 };
        match self.rules.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
            AmbiguousOffset::Gap { before, .. } => before.seconds(),
            AmbiguousOffset::Fold { after, .. } => after.seconds(),
        }
    }
}

#[cold]
fn unknown(name: &str) -> TypeError {
    TypeError::new("22023", format!("time zone \"{name}\" not recognized"))
}

/// Returns the seconds west of Greenwich of the offset in a POSIX rule without summer time: `5`,
/// `+5:30`.
fn posix_offset(text: &str) -> Option<i32> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    let mut parts = body.split(':');
    for unit in [3600, 60, 1] {
        let Some(part) = parts.next() else { break };
        if part.is_empty() || part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        seconds += part.parse::<i32>().ok()? * unit;
    }
    if parts.next().is_some() || seconds > 24 * 3600 {
        return None;
    }
    Some(if negative { -seconds } else { seconds })
}

/// Returns the same place in a cycle of 400 years that has rules.
fn within_rules(micros: i64) -> i64 {
    // A day's distance from the end leaves room for any offset.
    let end = (RULES_END_DAYS - 1) * MICROS_PER_DAY;
    if micros < end {
        return micros;
    }
    let cycle = DAYS_PER_CYCLE * MICROS_PER_DAY;
    micros - ((micros - end) / cycle + 1) * cycle
}

fn clock(local: i64) -> Option<DateTime> {
    let (days, time) = split(local);
    let civil = civil_from_days(days);
    DateTime::new(
        i16::try_from(civil.year).ok()?,
        i8::try_from(civil.month).ok()?,
        i8::try_from(civil.day).ok()?,
        (time / MICROS_PER_HOUR) as i8,
        (time / MICROS_PER_MINUTE % 60) as i8,
        (time / MICROS_PER_SECOND % 60) as i8,
        (time % MICROS_PER_SECOND * 1000) as i32,
    )
    .ok()
}
