//! Durations in the three forms of ISO 8601.
//!
//! They are with designators (`P1Y2M3DT4H5M6S`), with signs between the parts (`P1-2-3T4:5:6`) and
//! without any (`P00010203T040506`).

use super::{Fault, Number, Sum, Unit};

/// Largest number in a duration.
const NUMBER_MAX: f64 = 1e15;

/// Reads the text behind the `P`.
pub(super) fn read(text: &str) -> Result<Sum, Fault> {
    let mut sum = Sum::default();
    if text.is_empty() {
        return Err(Fault::Syntax);
    }
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    if !alternative(date, '-', 8, DATE, &mut sum)? {
        designated(
            date,
            &[('Y', DATE[0]), ('M', DATE[1]), ('W', Unit::Week), ('D', DATE[2])],
            &mut sum,
        )?;
    }
    let Some(time) = time else { return Ok(sum) };
    if !alternative(time, ':', 6, TIME, &mut sum)? {
        // Another `T` may stand between designated numbers.
        for part in time.split('T') {
            designated(part, &[('H', TIME[0]), ('M', TIME[1]), ('S', TIME[2])], &mut sum)?;
        }
    }
    Ok(sum)
}

const DATE: [Unit; 3] = [Unit::Year, Unit::Month, Unit::Day];
const TIME: [Unit; 3] = [Unit::Hour, Unit::Minute, Unit::Second];

/// Reads numbers with a letter behind each, in any order.
fn designated(text: &str, designators: &[(char, Unit)], sum: &mut Sum) -> Result<(), Fault> {
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let mut letters = after.chars();
        let letter = letters.next();
        let unit = designators.iter().find(|(known, _)| Some(*known) == letter);
        let (_, unit) = unit.ok_or(Fault::Syntax)?;
        sum.add_again(number, *unit);
        rest = letters.as_str();
    }
    Ok(())
}

/// Reads up to three numbers with `between` between them, or one number of `width` digits that
/// holds all three. Returns whether the text is one of these forms, which have no letters.
fn alternative(
    text: &str,
    between: char,
    width: usize,
    units: [Unit; 3],
    sum: &mut Sum,
) -> Result<bool, Fault> {
    if text.is_empty() {
        return Ok(false);
    }
    let (first, mut rest) = number(text)?;
    if !(rest.is_empty() || rest.starts_with(between)) {
        return Ok(false);
    }
    if rest.is_empty() && integer_width(text) == width {
        let Number { whole, fraction } = first;
        for (whole, unit) in [whole / 10_000, whole / 100 % 100, whole % 100].into_iter().zip(units)
        {
            sum.add_again(Number { whole, fraction: 0.0 }, unit);
        }
        // A fraction of seconds counts as a fraction of a microsecond, as in PostgreSQL.
        let unit = if units == TIME { Unit::Microsecond } else { Unit::Day };
        sum.add_again(Number { whole: 0, fraction }, unit);
        return Ok(true);
    }
    sum.add_again(first, units[0]);
    for unit in &units[1..] {
        let Some(after) = rest.strip_prefix(between) else { break };
        let (next, after) = number(after)?;
        sum.add_again(next, *unit);
        rest = after;
    }
    if rest.is_empty() { Ok(true) } else { Err(Fault::Syntax) }
}

/// Returns the number of digits before a point, behind a sign.
fn integer_width(text: &str) -> usize {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().take_while(u8::is_ascii_digit).count()
}

/// Reads a decimal number at the start of a text, and returns the rest too. As in PostgreSQL, the
/// number is read as a binary fraction, whose error is part of the result.
fn number(text: &str) -> Result<(Number, &str), Fault> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.')) {
        return Err(Fault::Syntax);
    }
    let (mantissa, _) = super::split_while(text, |c| c.is_ascii_digit() || matches!(c, '-' | '.'));
    let exponent = text[mantissa.len()..].strip_prefix(['e', 'E']).map_or(0, |rest| {
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 { 0 } else { 1 + rest.len() - digits.len() + count }
    });
    // A second sign begins the next number.
    let signs = mantissa.char_indices().skip(1).find(|(_, c)| *c == '-').map(|(at, _)| at);
    let end = signs.unwrap_or(mantissa.len() + exponent);
    let value: f64 = text[..end].parse().map_err(|_| Fault::Syntax)?;
    if !value.is_finite() {
        return Err(Fault::Syntax);
    }
    if value.abs() > NUMBER_MAX {
        return Err(Fault::FieldRange);
    }
    let whole = value.trunc();
    let number = Number { whole: whole as i128, fraction: value - whole };
    Ok((number, &text[end..]))
}
