//! Text to a number by a picture: `to_number`.

use super::{Node, Pattern, Picture, SignPlace};
use crate::error::{Result, TypeError};
use crate::numeric::Numeric;

/// Reads a number; `None`, which SQL shows as NULL, for an empty picture.
///
/// # Errors
/// `42601` for a picture whose patterns do not go together, `0A000` for `EEEE` and `RN`. `22P02`
/// for text without digits, `22003` for more digits than the picture has.
pub fn to_number(text: &str, picture: &str) -> Result<Option<Numeric>> {
    if picture.is_empty() {
        return Ok(None);
    }
    let picture = Picture::parse(picture)?;
    for (there, name) in [(picture.has_exponent, "EEEE"), (picture.has_roman, "RN")] {
        if there {
            return Err(TypeError::new("0A000", format!("\"{name}\" not supported for input")));
        }
    }
    let mut reader = Reader {
        picture: &picture,
        text: text.as_bytes(),
        at: 0,
        sign: b' ',
        digits: Vec::new(),
        before: 0,
        after: 0,
        has_point: false,
    };
    reader.read();
    let mut digits = reader.digits;
    if digits.last() == Some(&b'.') {
        digits.pop();
    }
    let number = format!("{}{}", char::from(reader.sign), String::from_utf8_lossy(&digits));
    let scale = i32::try_from(reader.after).unwrap_or(i32::MAX);
    let precision =
        i32::try_from(picture.before + picture.shift + reader.after).unwrap_or(i32::MAX);
    let typmod = (precision.wrapping_shl(16) | scale).wrapping_add(4);
    let value = Numeric::parse(&number)?.apply_typmod(typmod)?;
    if !picture.has_shift {
        return Ok(Some(value));
    }
    let exponent = i64::try_from(picture.shift).unwrap_or(i64::MAX);
    let factor = Numeric::from(10i64).power(&Numeric::from(-exponent))?;
    value.mul(&factor).map(Some)
}

/// Walks over the picture and, along with it, over the text.
struct Reader<'t> {
    picture: &'t Picture,
    text: &'t [u8],
    at: usize,
    /// `+`, `-`, or a blank as long as none was read.
    sign: u8,
    /// Digits and point.
    digits: Vec<u8>,
    /// Digits read before and after the point.
    before: usize,
    after: usize,
    has_point: bool,
}

impl Reader<'_> {
    fn is_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Returns the byte at the place, 0 at the end.
    fn byte(&self) -> u8 {
        self.byte_at(self.at)
    }

    fn byte_at(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn read(&mut self) {
        let picture = self.picture;
        for node in &picture.nodes {
            if self.is_end() {
                break;
            }
            match node {
                Node::Text(_) => self.skip_character(),
                Node::Pattern(pattern) => self.pattern(*pattern),
            }
        }
    }

    fn skip_character(&mut self) {
        // The text is UTF-8, unless a pattern ended inside of a character.
        self.at += match self.byte() {
            0..0xc0 => 1,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
    }

    fn pattern(&mut self, pattern: Pattern) {
        match pattern {
            Pattern::Nine | Pattern::Zero | Pattern::Point | Pattern::LocalPoint => {
                self.digit(matches!(pattern, Pattern::Nine | Pattern::Zero));
                self.at += 1;
            }
            Pattern::Comma | Pattern::Group => {
                if !self.picture.fill && self.byte() == b',' {
                    self.at += 1;
                }
            }
            Pattern::Currency => self.skip_other(1),
            Pattern::Ordinal(_) => {
                if !self.picture.has_point {
                    self.skip_other(2);
                }
            }
            Pattern::Minus => self.sign(b"-"),
            Pattern::Plus => self.sign(b"+"),
            Pattern::PlusMinus => self.sign(b"-+"),
            Pattern::Sign
            | Pattern::Brackets
            | Pattern::Roman(_)
            | Pattern::Shift
            | Pattern::Exponent
            | Pattern::Fill
            | Pattern::Blank
            | Pattern::Nothing => {}
        }
    }

    fn sign(&mut self, signs: &[u8]) {
        let byte = self.byte();
        if signs.contains(&byte) {
            self.sign = byte;
            self.at += 1;
        } else {
            self.skip_other(1);
        }
    }

    /// Skips up to `count` characters that no number has.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            if self.is_end() || b"0123456789.,+-".contains(&self.byte()) {
                break;
            }
            self.skip_character();
        }
    }

    /// Reads a digit or the point, and a sign before the first or behind the last digit. The place
    /// stays at the last byte that was read.
    fn digit(&mut self, is_digit: bool) {
        if self.byte() == b' ' {
            self.at += 1;
        }
        if self.is_end() {
            return;
        }
        if self.sign == b' ' && is_digit && self.before + self.after == 0 {
            let byte = self.byte();
            let bracket = byte == b'<'
                && self.picture.has_brackets
                && self.picture.sign != Some(SignPlace::Before);
            if byte == b'-' || byte == b'+' || bracket {
                self.sign = if byte == b'+' { b'+' } else { b'-' };
                self.at += 1;
            }
        }
        if self.is_end() {
            return;
        }
        let mut read = false;
        let byte = self.byte();
        if byte.is_ascii_digit() {
            if self.has_point && self.after == self.picture.after {
                return;
            }
            self.digits.push(byte);
            if self.has_point {
                self.after += 1;
            } else {
                self.before += 1;
            }
            read = true;
        } else if self.picture.has_point && !self.has_point && byte == b'.' {
            self.digits.push(b'.');
            self.has_point = true;
            read = true;
        }
        if self.sign == b' ' && self.before + self.after > 0 {
            self.sign_behind(read);
        }
    }

    fn sign_behind(&mut self, read: bool) {
        let has_sign = self.picture.sign.is_some();
        let next = self.byte_at(self.at + 1);
        let goes_on = self.at + 1 < self.text.len() && !next.is_ascii_digit();
        if has_sign && read && goes_on {
            if next == b'-' || next == b'+' {
                self.sign = next;
                self.at += 1;
            }
        } else if !read && !has_sign && (self.picture.has_plus || self.picture.has_minus) {
            let byte = self.byte();
            if byte == b'-' || byte == b'+' {
                self.sign = byte;
            }
        }
    }
}
