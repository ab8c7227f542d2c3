//! Text to a time of day, with and without time zone.
//!
//! PostgreSQL reads times by special rules. A bare number is a time, and a date is taken where it
//! is needed to know the offset of a zone.

use super::fields::{Reader, Zone, clock, packed_clock, set_once};
use super::moment_text::fault_error;
use super::tokens::{Token, tokenize};
use crate::error::Result;
use crate::moment::calendar::{MICROS_PER_DAY, MICROS_PER_HOUR, split};
use crate::moment::offset::{Fault, offset};
use crate::moment::time_of_day::{TimeTz, check_displacement, zone_west};
use crate::moment::zone::TimeZone;
use crate::settings::InputContext;

/// Marks a time that no day has.
const BEYOND: i64 = i64::MAX;

/// Reads a time of day, in microseconds since midnight; a zone in the text is ignored.
///
/// # Errors
/// `22007` for bad syntax, `22008` out of range, `22009`, `22023` for a bad zone.
pub fn parse_time(text: &str, context: &InputContext<'_>) -> Result<i64> {
    match read(text, context) {
        Ok(value) => Ok(value.time),
        Err(fault) => Err(fault_error(fault, text, "time")),
    }
}

/// Reads a time of day with its zone, which is the session's if the text has none.
///
/// # Errors
/// As [`parse_time`].
pub fn parse_timetz(text: &str, context: &InputContext<'_>) -> Result<TimeTz> {
    read(text, context)
        .and_then(|value| match check_displacement(value.west) {
            Ok(_) => Ok(value),
            Err(_) => Err(Fault::ZoneRange),
        })
        .map_err(|fault| fault_error(fault, text, "time with time zone"))
}

fn read(text: &str, context: &InputContext<'_>) -> Result<TimeTz, Fault> {
    let local = context.settings.zone.to_local(context.now).map_err(|_| Fault::FieldRange)?;
    let (today, time_now) = split(local);
    let tokens = tokenize(text).ok_or(Fault::Syntax)?;
    let mut reader = Reader::new(context.settings.date_order);
    let mut summer_time = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            // `dst` says something only of the zone before it.
            Token::Word(word) if word.eq_ignore_ascii_case("dst") && reader.zone.is_none() => {
                if std::mem::replace(&mut summer_time, true) {
                    return Err(Fault::Syntax);
                }
            }
            _ => take(&mut reader, &tokens, at, *token, time_now)?,
        }
    }
    if summer_time && !matches!(reader.zone, Some(Zone::Offset(_))) {
        // A time that no day has is reported first.
        return Err(if reader.time == Some(BEYOND) { Fault::FieldRange } else { Fault::Syntax });
    }
    finish(reader, today, &context.settings.zone)
}

/// Decides whether the text begins with a date: a time follows, or the text ends with a token that
/// only zones look like.
fn begins_with_date(tokens: &[Token<'_>]) -> bool {
    matches!(tokens.get(1), Some(Token::Time(_))) || ends_with_zone(tokens)
}

fn ends_with_zone(tokens: &[Token<'_>]) -> bool {
    tokens.len() >= 2 && matches!(tokens.last(), Some(Token::Date(_) | Token::Zone(_)))
}

fn take(
    reader: &mut Reader,
    tokens: &[Token<'_>],
    at: usize,
    token: Token<'_>,
    time_now: i64,
) -> Result<(), Fault> {
    let date_first = at == 0 && begins_with_date(tokens);
    match token {
        Token::TimeMarker => Ok(()),
        Token::Time(text) => set_once(
            &mut reader.time,
            time_or_beyond(clock(text), || {
                // Wrong minutes and seconds are reported at once.
                let minutes =
                    text.find(':').and_then(|colon| text.get(colon..)).unwrap_or_default();
                clock(&format!("0{minutes}")).is_ok()
            })?,
        ),
        Token::Date(text) if date_first => reader.take_date(text),
        Token::Date(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            // A packed time and its offset look like a date: `040506-08`.
            if reader.time.is_some() {
                return Err(Fault::Syntax);
            }
            let minus = text.find('-').ok_or(Fault::Syntax)?;
            let (digits, zone) = text.split_at(minus);
            if zone[1..].contains(|c: char| !c.is_ascii_digit()) {
                return Err(Fault::Syntax);
            }
            set_once(&mut reader.zone, Zone::Offset(offset(zone)?))?;
            set_once(&mut reader.time, time_or_beyond(packed_clock(digits, None), || true)?)
        }
        Token::Zone(_) if date_first => Err(Fault::Syntax),
        Token::Date(name) | Token::Zone(name) => match TimeZone::get(name) {
            Ok(zone) => set_once(&mut reader.zone, Zone::Named(zone)),
            Err(_) => Err(Fault::UnknownZone(name.to_ascii_lowercase())),
        },
        Token::Offset(text) => set_once(&mut reader.zone, Zone::Offset(offset(text)?)),
        // `1999.008`: a year and the day of it.
        Token::Number(text, false) if at == 0 && text.contains('.') && ends_with_zone(tokens) => {
            reader.take_date(text)
        }
        Token::Number(text, time_marker) => {
            let (digits, fraction) = match text.split_once('.') {
                Some((digits, fraction)) => (digits, Some(fraction)),
                None => (text, None),
            };
            if fraction.is_some() && !time_marker && digits.len() <= 2 {
                return Err(Fault::Syntax);
            }
            set_once(&mut reader.time, time_or_beyond(packed_clock(digits, fraction), || true)?)
        }
        Token::Julian(_) => reader.take(token),
        Token::SignedWord(..) => Err(Fault::Syntax),
        Token::Word(word) => {
            take_word(reader, word, tokens.get(at + 1..).unwrap_or_default(), time_now)
        }
    }
}

/// Returns the time, or [`BEYOND`] where no day has it and `later` allows that. The form of the
/// time is checked first then.
fn time_or_beyond(time: Result<i64, Fault>, later: impl FnOnce() -> bool) -> Result<i64, Fault> {
    match time {
        Err(Fault::FieldRange) if later() => Ok(BEYOND),
        other => other,
    }
}

fn take_word(
    reader: &mut Reader,
    word: &str,
    rest: &[Token<'_>],
    time_now: i64,
) -> Result<(), Fault> {
    if let Some(zone) = Zone::of_abbreviation(word) {
        return set_once(&mut reader.zone, zone);
    }
    match word.to_ascii_lowercase().as_str() {
        "now" => set_once(&mut reader.time, time_now),
        "allballs" | "am" | "pm" | "ad" | "bc" | "at" | "on" | "dst" => {
            reader.take(Token::Word(word))
        }
        // `t` stands before a time.
        "t" => match rest.first() {
            Some(Token::Number(..) | Token::Time(_) | Token::Date(_)) => Ok(()),
            _ => Err(Fault::Syntax),
        },
        // Such a word gives the meaning of the numbers behind it. Texts with it are not read, but
        // times are no numbers.
        "y" | "m" | "d" | "h" | "mm" | "s" | "j" | "jd" | "julian" | "dow" | "doy" | "isodow"
        | "isoyear" => {
            let number = rest.iter().any(|token| matches!(token, Token::Number(..)));
            if number { Err(Fault::Syntax) } else { Ok(()) }
        }
        _ => match TimeZone::get(word) {
            Ok(zone) => set_once(&mut reader.zone, Zone::Named(zone)),
            Err(_) => Err(Fault::Syntax),
        },
    }
}

fn finish(reader: Reader, today: i64, session: &TimeZone) -> Result<TimeTz, Fault> {
    let day = if reader.has_date() { Some(reader.day()?) } else { None };
    let mut time = reader.time.ok_or(Fault::Syntax)?;
    if let Some(afternoon) = reader.afternoon {
        let hour = time / MICROS_PER_HOUR;
        if hour > 12 {
            return Err(Fault::FieldRange);
        }
        if afternoon && hour != 12 {
            time += 12 * MICROS_PER_HOUR;
        } else if !afternoon && hour == 12 {
            time -= 12 * MICROS_PER_HOUR;
        }
    }
    // The second of 60 in the last minute may have a fraction.
    if time > MICROS_PER_DAY {
        return Err(Fault::FieldRange);
    }
    let west = match &reader.zone {
        Some(Zone::Offset(east)) => east.saturating_neg(),
        // The meaning of an abbreviation today, if no day is given.
        Some(Zone::Named(zone)) if zone.is_abbreviation() => {
            zone_west(day.unwrap_or(today), time, zone)
        }
        Some(Zone::Named(zone)) => match (zone.only_offset(), day) {
            (Some(east), _) => east.saturating_neg(),
            (None, Some(day)) => zone_west(day, time, zone),
            // The offset depends on the day.
            (None, None) => return Err(Fault::Syntax),
        },
        None => zone_west(day.unwrap_or(today), time, session),
    };
    Ok(TimeTz { time, west })
}
