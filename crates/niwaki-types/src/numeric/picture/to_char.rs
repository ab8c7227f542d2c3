//! Numbers to text by a picture: `to_char`.

use super::{Case, Node, Pattern, Picture, SignPlace};
use crate::error::{Result, TypeError};
use crate::numeric::{INTEGER_DIGITS_MAX, Numeric, big_power, overflow};
use crate::scalar::ordinal::ordinal;

/// Significant decimal digits that a `float4` always keeps.
const FLOAT4_DIGITS: usize = 6;
/// Significant decimal digits that a `float8` always keeps.
const FLOAT8_DIGITS: usize = 15;
/// Text in place of a number that Roman numerals do not have.
const NO_NUMERAL: &str = "###############";

/// Writes a `numeric` by a picture.
///
/// # Errors
/// `42601` for a picture whose patterns do not go together. `22P02` for an ordinal of a value
/// without a last digit. `22003` and `0A000` for a Roman number that is no `int4`.
pub fn numeric_to_char(value: &Numeric, picture: &str) -> Result<String> {
    let mut picture = Picture::parse(picture)?;
    if picture.has_roman {
        return roman_to_char(Some(value.to_i32()?), picture);
    }
    if picture.has_exponent {
        return Ok(match numeric_scientific(value, picture.after)? {
            Some(text) => text,
            None => no_exponent(&picture),
        });
    }
    let mut value = value.clone();
    if picture.has_shift {
        value = value.mul(&power_of_ten(picture.shift)?)?;
        picture.before += picture.shift;
    }
    let rounded = value.round(i32::try_from(picture.after).unwrap_or(i32::MAX))?;
    signed_to_char(&rounded.to_string(), picture)
}

/// Writes an `int4` by a picture.
///
/// # Errors
/// As [`numeric_to_char`].
pub fn int4_to_char(value: i32, picture: &str) -> Result<String> {
    let mut picture = Picture::parse(picture)?;
    if picture.has_roman {
        return roman_to_char(Some(value), picture);
    }
    if picture.has_exponent {
        return Ok(scientific(value.into(), picture.after));
    }
    let mut value = value;
    if picture.has_shift {
        // A product that is too large wraps, as in PostgreSQL.
        let power = u32::try_from(picture.shift).ok().and_then(|shift| 10i32.checked_pow(shift));
        value = value.wrapping_mul(power.unwrap_or(i32::MIN));
        picture.before += picture.shift;
    }
    integer_to_char(&value.to_string(), picture)
}

/// Writes an `int8` by a picture.
///
/// # Errors
/// As [`numeric_to_char`]; `22003` also when `V` makes the number too large.
pub fn int8_to_char(value: i64, picture: &str) -> Result<String> {
    let mut picture = Picture::parse(picture)?;
    if picture.has_roman {
        let value = i32::try_from(value).map_err(|_| TypeError::out_of_range("integer"))?;
        return roman_to_char(Some(value), picture);
    }
    if picture.has_exponent {
        return Ok(numeric_scientific(&value.into(), picture.after)?.unwrap_or_default());
    }
    let mut value = value;
    if picture.has_shift {
        let power = u32::try_from(picture.shift).ok().and_then(|shift| 10i64.checked_pow(shift));
        value = power
            .and_then(|power| value.checked_mul(power))
            .ok_or_else(|| TypeError::out_of_range("bigint"))?;
        picture.before += picture.shift;
    }
    integer_to_char(&value.to_string(), picture)
}

/// Writes a `float4` by a picture: not more digits than the type keeps.
///
/// # Errors
/// As [`numeric_to_char`].
pub fn float4_to_char(value: f32, picture: &str) -> Result<String> {
    let picture = Picture::parse(picture)?;
    let shifted = value * 10f64.powf(picture.shift as f64) as f32;
    let shifted = if picture.has_shift { shifted } else { value };
    float_to_char(value.into(), shifted.into(), FLOAT4_DIGITS, picture)
}

/// Writes a `float8` by a picture: not more digits than the type keeps.
///
/// # Errors
/// As [`numeric_to_char`].
pub fn float8_to_char(value: f64, picture: &str) -> Result<String> {
    let picture = Picture::parse(picture)?;
    let shifted = value * 10f64.powf(picture.shift as f64);
    let shifted = if picture.has_shift { shifted } else { value };
    float_to_char(value, shifted, FLOAT8_DIGITS, picture)
}

fn float_to_char(value: f64, shifted: f64, digits: usize, mut picture: Picture) -> Result<String> {
    if picture.has_roman {
        let rounded = value.round_ties_even();
        let fits = (-2_147_483_648.0..2_147_483_648.0).contains(&rounded);
        return roman_to_char(fits.then_some(rounded as i32), picture);
    }
    if picture.has_exponent {
        return Ok(if value.is_finite() {
            scientific(value, picture.after)
        } else {
            no_exponent(&picture)
        });
    }
    picture.before += picture.shift;
    let whole = fixed(shifted.abs(), 0).len();
    picture.after = picture.after.min(digits.saturating_sub(whole));
    signed_to_char(&fixed(shifted, picture.after), picture)
}

/// Returns the number with `digits` digits after the point.
fn fixed(value: f64, digits: usize) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value < 0.0 { "-Infinity".to_owned() } else { "Infinity".to_owned() }
    } else {
        format!("{value:.digits$}")
    }
}

fn power_of_ten(exponent: usize) -> Result<Numeric> {
    match u32::try_from(exponent) {
        Ok(exponent) if exponent <= INTEGER_DIGITS_MAX => {
            Numeric::from_parts(big_power(exponent), 0)
        }
        _ => Err(overflow()),
    }
}

/// Returns a text such as ` 1.50e+03`. It has a blank or a minus, `digits` digits after the point,
/// and an exponent of two digits at least.
fn scientific(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let blank = if mantissa.starts_with('-') { "" } else { " " };
    format!("{blank}{mantissa}e{exponent:+03}")
}

/// Does the same for a `numeric`, exactly; `None` for NaN and infinities.
fn numeric_scientific(value: &Numeric, digits: usize) -> Result<Option<String>> {
    if !value.is_finite() {
        return Ok(None);
    }
    let exponent = value.leading_exponent().unwrap_or(0);
    let scale = u32::try_from(digits).unwrap_or(u32::MAX);
    let power = power_of_ten(exponent.unsigned_abs() as usize)?;
    let significand = if exponent < 0 {
        value.mul(&power)?.round(i32::try_from(digits).unwrap_or(i32::MAX))?
    } else {
        value.div_to_scale(&power, scale)?
    };
    let blank = if significand.is_negative() { "" } else { " " };
    Ok(Some(format!("{blank}{significand}e{exponent:+03}")))
}

/// Returns the text in place of a number in scientific form where there is none.
fn no_exponent(picture: &Picture) -> String {
    // The text is sign, point, `e`, sign of the exponent and its two digits.
    let mut text = vec![b'#'; picture.before + picture.after + 6];
    if let Some(sign) = text.first_mut() {
        *sign = b' ';
    }
    if let Some(point) = text.get_mut(picture.before + 1) {
        *point = b'.';
    }
    String::from_utf8(text).unwrap_or_default()
}

fn roman_to_char(value: Option<i32>, mut picture: Picture) -> Result<String> {
    let numeral = match value {
        Some(value @ 1..=3999) => roman(value),
        _ => NO_NUMERAL.to_owned(),
    };
    // All flags for digits and signs are off.
    picture = Picture {
        nodes: picture.nodes,
        fill: picture.fill,
        has_roman: true,
        zero_start: picture.zero_start,
        zero_end: picture.zero_end,
        ..Picture::default()
    };
    Writer::new(picture, numeral, 0, 0).write()
}

fn roman(value: i32) -> String {
    const NUMERALS: [(i32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut rest = value;
    let mut text = String::new();
    for (worth, numeral) in NUMERALS {
        while rest >= worth {
            text.push_str(numeral);
            rest -= worth;
        }
    }
    text
}

/// Writes an integer, whose digits after the point are zeros.
fn integer_to_char(text: &str, picture: Picture) -> Result<String> {
    if picture.after == 0 {
        return signed_to_char(text, picture);
    }
    let zeros = "0".repeat(picture.after);
    signed_to_char(&format!("{text}.{zeros}"), picture)
}

/// Writes a number given by its text, rounded already.
fn signed_to_char(text: &str, picture: Picture) -> Result<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (b'-', digits),
        None => (b'+', text),
    };
    let whole = digits.find('.').unwrap_or(digits.len());
    let blanks = picture.before.saturating_sub(whole);
    let number = if whole > picture.before {
        // There is no room for the number.
        let mut number = "#".repeat(picture.before);
        number.push('.');
        number.push_str(&"#".repeat(picture.after));
        number
    } else {
        digits.to_owned()
    };
    Writer::new(picture, number, sign, blanks).write()
}

/// Writes one number: walks over the picture and, along with it, over the digits.
struct Writer {
    picture: Picture,
    number: Vec<u8>,
    /// Number of digits of the number that are written.
    at: usize,
    /// `+`, `-`, or 0 for Roman numerals.
    sign: u8,
    sign_written: bool,
    /// Number of digits of the picture for which the number has none.
    blanks: usize,
    /// Number of digits and points of the picture that are passed.
    passed: usize,
    /// Number of digits and points of the picture, nearly. It decides where a sign behind the
    /// number goes.
    count: usize,
    /// A digit was written last.
    inside: bool,
    /// With `FM`, the last shown digit after the point.
    last_relevant: Option<usize>,
    /// The written text; a zero byte ends it.
    out: Vec<u8>,
}

impl Writer {
    fn new(mut picture: Picture, number: String, sign: u8, blanks: usize) -> Self {
        let number = number.into_bytes();
        let separate = picture.has_plus || picture.has_minus;
        // MI and SG write the sign; PL leaves a minus to the digits.
        let sign_written = if separate {
            picture.has_minus
        } else {
            sign == b'+' && picture.fill && picture.sign.is_none()
        };
        if sign != b'-' && picture.fill {
            picture.has_brackets = false;
        }
        let digits_follow = picture.before > picture.digits_before_sign;
        if picture.sign == Some(SignPlace::Before) && !digits_follow {
            picture.sign = Some(SignPlace::Behind);
        }
        let mut last_relevant = None;
        if picture.fill && picture.has_point {
            last_relevant = number.iter().position(|byte| *byte == b'.').map(|point| {
                let nonzero = number.iter().rposition(|byte| *byte != b'0' && *byte != b'.');
                nonzero.filter(|last| *last > point).unwrap_or(point)
            });
            // Digits that the picture has as `0` are shown.
            if picture.zero_end > blanks {
                let last_zero = (picture.zero_end - blanks).min(number.len().saturating_sub(1));
                last_relevant = last_relevant.map(|last| last.max(last_zero));
            }
        }
        let mut count = picture.before + picture.after;
        if !sign_written && blanks == 0 {
            count += 1;
        }
        Self {
            picture,
            number,
            at: 0,
            sign,
            sign_written,
            blanks,
            passed: 0,
            count,
            inside: false,
            last_relevant,
            out: Vec::new(),
        }
    }

    fn write(mut self) -> Result<String> {
        let nodes = std::mem::take(&mut self.picture.nodes);
        for node in &nodes {
            match node {
                Node::Text(character) => {
                    let mut buffer = [0; 4];
                    self.out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                }
                Node::Pattern(pattern) => self.pattern(*pattern)?,
            }
        }
        let end = self.out.iter().position(|byte| *byte == 0).unwrap_or(self.out.len());
        self.out.truncate(end);
        Ok(String::from_utf8(self.out).unwrap_or_default())
    }

    fn pattern(&mut self, pattern: Pattern) -> Result<()> {
        let fill = self.picture.fill;
        match pattern {
            Pattern::Nine | Pattern::Zero | Pattern::Point | Pattern::LocalPoint => {
                if !self.picture.has_roman {
                    self.digit(pattern);
                }
            }
            Pattern::Comma | Pattern::Group => {
                if self.inside {
                    self.out.push(b',');
                } else if !fill {
                    self.out.push(b' ');
                }
            }
            Pattern::Currency => self.out.push(b' '),
            Pattern::Roman(case) => self.roman(case),
            Pattern::Ordinal(case) => self.ordinal(case)?,
            Pattern::Minus => self.sign_or_blank(b'-'),
            Pattern::Plus => self.sign_or_blank(b'+'),
            Pattern::PlusMinus => self.out.push(self.sign),
            Pattern::Sign
            | Pattern::Brackets
            | Pattern::Shift
            | Pattern::Exponent
            | Pattern::Fill
            | Pattern::Blank
            | Pattern::Nothing => {}
        }
        Ok(())
    }

    fn sign_or_blank(&mut self, sign: u8) {
        if self.sign == sign {
            self.out.push(sign);
        } else if !self.picture.fill {
            self.out.push(b' ');
        }
    }

    fn roman(&mut self, case: Case) {
        let numeral = String::from_utf8_lossy(&self.number).into_owned();
        let numeral = match case {
            Case::Upper => numeral,
            Case::Lower => numeral.to_ascii_lowercase(),
        };
        let width = if self.picture.fill { 0 } else { NO_NUMERAL.len() };
        self.out.extend_from_slice(format!("{numeral:>width$}").as_bytes());
    }

    fn ordinal(&mut self, case: Case) -> Result<()> {
        let overflown = self.number.first() == Some(&b'#');
        let none = self.picture.has_roman || self.sign == b'-' || self.picture.has_point;
        if none || overflown {
            return Ok(());
        }
        let number = String::from_utf8_lossy(&self.number);
        if !number.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(TypeError::new("22P02", format!("\"{number}\" is not a number")));
        }
        let suffix = ordinal(&number);
        match case {
            Case::Upper => self.out.extend_from_slice(suffix.to_ascii_uppercase().as_bytes()),
            Case::Lower => self.out.extend_from_slice(suffix.as_bytes()),
        }
        Ok(())
    }

    /// Returns the next character of the number; 0 behind its end.
    fn next(&self) -> u8 {
        self.number.get(self.at).copied().unwrap_or(0)
    }

    /// Decides whether the number is shown as nothing but a point behind its first digits.
    fn ends_with_point(&self) -> bool {
        self.last_relevant.and_then(|last| self.number.get(last)) == Some(&b'.')
    }

    /// Decides whether this is the zero before a point that `9.9` does not show.
    fn is_hidden_zero(&self) -> bool {
        !self.picture.has_zero
            && self.at == 0
            && self.number.first() == Some(&b'0')
            && self.picture.after != 0
    }

    /// Writes one `9`, `0` or point of the picture.
    fn digit(&mut self, pattern: Pattern) {
        self.inside = false;
        let zeros_begin = self.picture.has_zero && self.picture.zero_start == self.passed;
        if !self.sign_written
            && (self.passed >= self.blanks || zeros_begin)
            && (!self.is_hidden_zero() || self.ends_with_point())
        {
            self.sign_before();
        }
        if self.passed < self.blanks {
            if self.picture.has_zero && self.picture.zero_start <= self.passed {
                self.out.push(b'0');
                self.inside = true;
            } else if !self.picture.fill {
                self.out.push(b' ');
            }
        } else {
            self.next_digit(pattern);
        }
        let mut end = self.count + usize::from(self.blanks > 0);
        end += usize::from(self.picture.has_point);
        // The count is one less than the number of digits.
        let is_last = self.passed + 2 == end;
        if is_last && self.last_relevant != Some(self.at) {
            self.sign_behind();
        }
        self.passed += 1;
    }

    fn next_digit(&mut self, pattern: Pattern) {
        let next = self.next();
        let behind = self.last_relevant.is_some_and(|last| self.at > last);
        if next == b'.' {
            if !self.ends_with_point() || self.picture.fill {
                self.out.push(b'.');
            }
        } else if behind && pattern != Pattern::Zero {
            // `FM` leaves out zeros at the end.
        } else if self.is_hidden_zero() {
            if !self.picture.fill {
                self.out.push(b' ');
            } else if self.ends_with_point() {
                self.out.push(b'0');
            }
        } else {
            self.out.push(next);
            self.inside = true;
        }
        if next != 0 {
            self.at += 1;
        }
    }

    /// Writes the sign, where the first digit is to come.
    fn sign_before(&mut self) {
        if let Some(place) = self.picture.sign {
            if place == SignPlace::Before {
                self.out.push(self.sign);
                self.sign_written = true;
            }
            return;
        }
        if self.picture.has_brackets {
            self.out.push(if self.sign == b'+' { b' ' } else { b'<' });
        } else if self.sign == b'-' {
            self.out.push(b'-');
        } else if !self.picture.fill {
            self.out.push(b' ');
        }
        self.sign_written = true;
    }

    /// Writes the sign, or the closing bracket, behind the last digit.
    fn sign_behind(&mut self) {
        if self.sign_written && self.picture.has_brackets {
            self.out.push(if self.sign == b'+' { b' ' } else { b'>' });
        } else if self.picture.sign == Some(SignPlace::Behind) {
            self.out.push(self.sign);
        }
    }
}
