//! Format pictures of numbers, such as `999,999.99`.
//!
//! `to_char` writes numbers, and `to_number` reads them.

mod to_char;
mod to_number;

pub use to_char::{float4_to_char, float8_to_char, int4_to_char, int8_to_char, numeric_to_char};
pub use to_number::to_number;

use crate::error::{Result, TypeError};

/// Case of the letters that a pattern writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Upper,
    Lower,
}

/// A pattern of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// `9`
    Nine,
    /// `0`
    Zero,
    /// `.`
    Point,
    /// `D`
    LocalPoint,
    /// `,`
    Comma,
    /// `G`
    Group,
    /// `L`
    Currency,
    /// `S`
    Sign,
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `SG`
    PlusMinus,
    /// `PR`
    Brackets,
    /// `RN`
    Roman(Case),
    /// `TH`
    Ordinal(Case),
    /// `V`
    Shift,
    /// `EEEE`
    Exponent,
    /// `FM`
    Fill,
    /// `B`
    Blank,
    /// `C`, `SP`: taken, and without a meaning.
    Nothing,
}

/// All patterns in upper case. A pattern stands after every longer one that begins with it.
const PATTERNS: &[(&str, Pattern)] = &[
    (",", Pattern::Comma),
    (".", Pattern::Point),
    ("0", Pattern::Zero),
    ("9", Pattern::Nine),
    ("B", Pattern::Blank),
    ("C", Pattern::Nothing),
    ("D", Pattern::LocalPoint),
    ("EEEE", Pattern::Exponent),
    ("FM", Pattern::Fill),
    ("G", Pattern::Group),
    ("L", Pattern::Currency),
    ("MI", Pattern::Minus),
    ("PL", Pattern::Plus),
    ("PR", Pattern::Brackets),
    ("RN", Pattern::Roman(Case::Upper)),
    ("SG", Pattern::PlusMinus),
    ("SP", Pattern::Nothing),
    ("S", Pattern::Sign),
    ("TH", Pattern::Ordinal(Case::Upper)),
    ("V", Pattern::Shift),
];

/// A piece of a picture.
#[derive(Clone, Copy, Debug)]
enum Node {
    Pattern(Pattern),
    /// Any other character, and each one between double quotes.
    Text(char),
}

/// The place of a sign written as `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignPlace {
    Before,
    Behind,
}

/// A picture, with the joint meaning of its patterns.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says that a pattern is there")]
struct Picture {
    nodes: Vec<Node>,
    /// Number of digits before the decimal point, without the digits behind `V`.
    before: usize,
    /// Digits after the decimal point.
    after: usize,
    /// Number of digits behind `V`: the number is multiplied by ten to this power.
    shift: usize,
    /// Digits before the first `0`.
    zero_start: usize,
    /// Digits up to the last `0`.
    zero_end: usize,
    /// The place of an `S`, and the digits before it.
    sign: Option<SignPlace>,
    digits_before_sign: usize,
    has_zero: bool,
    has_point: bool,
    has_shift: bool,
    has_minus: bool,
    has_plus: bool,
    has_brackets: bool,
    has_roman: bool,
    has_exponent: bool,
    has_blank: bool,
    fill: bool,
}

fn syntax_error(message: &str) -> TypeError {
    TypeError::new("42601", message)
}

/// Returns the pattern that `text` begins with, and its length in bytes.
fn pattern_at(text: &str) -> Option<(Pattern, usize)> {
    PATTERNS.iter().find_map(|(name, pattern)| {
        let start = text.get(..name.len())?;
        if start == *name {
            return Some((*pattern, name.len()));
        }
        let is_lower = start.bytes().all(|byte| !byte.is_ascii_uppercase());
        (is_lower && start.eq_ignore_ascii_case(name)).then(|| {
            let pattern = match pattern {
                Pattern::Roman(_) => Pattern::Roman(Case::Lower),
                Pattern::Ordinal(_) => Pattern::Ordinal(Case::Lower),
                other => *other,
            };
            (pattern, name.len())
        })
    })
}

impl Picture {
    /// Reads a picture.
    ///
    /// # Errors
    /// `42601` for patterns that do not go together.
    fn parse(text: &str) -> Result<Self> {
        let mut picture = Self::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some((pattern, length)) = pattern_at(rest) {
                picture.add(pattern)?;
                picture.nodes.push(Node::Pattern(pattern));
                rest = &rest[length..];
            } else if first == '"' {
                let mut characters = rest[1..].chars();
                while let Some(character) = characters.next() {
                    match character {
                        '"' => break,
                        '\\' => {
                            picture.nodes.push(Node::Text(characters.next().unwrap_or('\\')));
                        }
                        character => picture.nodes.push(Node::Text(character)),
                    }
                }
                rest = characters.as_str();
            } else {
                // Outside of quotes a backslash means something before a quote only.
                let escaped = rest.starts_with("\\\"");
                picture.nodes.push(Node::Text(if escaped { '"' } else { first }));
                rest = &rest[if escaped { 2 } else { first.len_utf8() }..];
            }
        }
        Ok(picture)
    }

    fn add(&mut self, pattern: Pattern) -> Result<()> {
        if self.has_exponent && pattern != Pattern::Exponent {
            return Err(syntax_error("\"EEEE\" must be the last pattern used"));
        }
        match pattern {
            Pattern::Nine => {
                if self.has_brackets {
                    return Err(syntax_error("\"9\" must be ahead of \"PR\""));
                }
                if self.has_shift {
                    self.shift += 1;
                } else if self.has_point {
                    self.after += 1;
                } else {
                    self.before += 1;
                }
            }
            Pattern::Zero => {
                if self.has_brackets {
                    return Err(syntax_error("\"0\" must be ahead of \"PR\""));
                }
                if self.has_point {
                    self.after += 1;
                } else {
                    if !self.has_zero {
                        self.has_zero = true;
                        self.zero_start = self.before;
                    }
                    self.before += 1;
                }
                self.zero_end = self.before + self.after;
            }
            Pattern::Blank => {
                self.has_blank |= self.before == 0 && self.after == 0 && !self.has_zero;
            }
            Pattern::Point | Pattern::LocalPoint => {
                if self.has_point {
                    return Err(syntax_error("multiple decimal points"));
                }
                if self.has_shift {
                    return Err(syntax_error("cannot use \"V\" and decimal point together"));
                }
                self.has_point = true;
            }
            Pattern::Shift => {
                if self.has_point {
                    return Err(syntax_error("cannot use \"V\" and decimal point together"));
                }
                self.has_shift = true;
            }
            Pattern::Fill => self.fill = true,
            Pattern::Roman(_) => self.has_roman = true,
            Pattern::Exponent => self.add_exponent()?,
            Pattern::Sign
            | Pattern::Minus
            | Pattern::Plus
            | Pattern::PlusMinus
            | Pattern::Brackets => self.add_sign(pattern)?,
            Pattern::Comma
            | Pattern::Group
            | Pattern::Currency
            | Pattern::Ordinal(_)
            | Pattern::Nothing => {}
        }
        Ok(())
    }

    fn add_sign(&mut self, pattern: Pattern) -> Result<()> {
        let has_sign = self.sign.is_some();
        match pattern {
            Pattern::Sign => {
                if has_sign {
                    return Err(syntax_error("cannot use \"S\" twice"));
                }
                if self.has_plus || self.has_minus || self.has_brackets {
                    return Err(syntax_error(
                        "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together",
                    ));
                }
                if self.has_point {
                    self.sign = Some(SignPlace::Behind);
                } else {
                    self.sign = Some(SignPlace::Before);
                    self.digits_before_sign = self.before;
                }
            }
            Pattern::Brackets => {
                if has_sign || self.has_plus || self.has_minus {
                    return Err(syntax_error(
                        "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together",
                    ));
                }
                self.has_brackets = true;
            }
            Pattern::Minus => {
                if has_sign {
                    return Err(syntax_error("cannot use \"S\" and \"MI\" together"));
                }
                self.has_minus = true;
            }
            Pattern::Plus => {
                if has_sign {
                    return Err(syntax_error("cannot use \"S\" and \"PL\" together"));
                }
                self.has_plus = true;
            }
            _ => {
                if has_sign {
                    return Err(syntax_error("cannot use \"S\" and \"SG\" together"));
                }
                self.has_minus = true;
                self.has_plus = true;
            }
        }
        Ok(())
    }

    fn add_exponent(&mut self) -> Result<()> {
        if self.has_exponent {
            return Err(syntax_error("cannot use \"EEEE\" twice"));
        }
        let others = self.has_blank
            || self.fill
            || self.sign.is_some()
            || self.has_brackets
            || self.has_minus
            || self.has_plus
            || self.has_roman
            || self.has_shift;
        if others {
            return Err(syntax_error("\"EEEE\" is incompatible with other formats").with_detail(
                "\"EEEE\" may only be used together with digit and decimal point patterns.",
            ));
        }
        self.has_exponent = true;
        Ok(())
    }
}
