//! Reads a setting's value from the text of SET, and shows it as SHOW does.

use std::sync::Arc;

use super::SettingError;
use super::table::{Kind, SettingDefinition, Unit};

/// A checked value. Numbers are in the setting's own unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value of a switch.
    Bool(bool),
    /// The value of an integer setting.
    Int(i64),
    /// The value of a floating-point setting.
    Float(f64),
    /// The value of a word or text setting.
    Text(Arc<str>),
}

impl Value {
    pub(super) fn default_of(definition: &SettingDefinition) -> Self {
        match definition.kind {
            Kind::Bool(b) => Self::Bool(b),
            Kind::Int { default, .. } => Self::Int(default),
            Kind::Float { default, .. } => Self::Float(default),
            Kind::Enum(words) => Self::Text(Arc::from(words[0])),
            Kind::Text(t) => Self::Text(Arc::from(t)),
        }
    }

    /// Reads `text` for a setting, with units, and checks the range.
    ///
    /// # Errors
    /// 22023 with PostgreSQL's wording.
    pub(super) fn parse(definition: &SettingDefinition, text: &str) -> Result<Self, SettingError> {
        let name = definition.name;
        match definition.kind {
            Kind::Bool(_) => parse_bool(text).map(Self::Bool).ok_or_else(|| {
                SettingError::new("22023", format!("parameter \"{name}\" requires a Boolean value"))
            }),
            Kind::Int { unit, min, max, .. } => {
                let number = parse_number(text, unit).ok_or_else(|| invalid(name, text, unit))?;
                let rounded = number.round_ties_even();
                if !(min as f64..=max as f64).contains(&rounded) {
                    let (suffix, _) = unit_word(unit);
                    let with = |v: i64| {
                        if suffix.is_empty() { v.to_string() } else { format!("{v} {suffix}") }
                    };
                    return Err(SettingError::new(
                        "22023",
                        format!(
                            "{} is outside the valid range for parameter \"{name}\" ({} .. {})",
                            with(rounded as i64),
                            with(min),
                            with(max)
                        ),
                    ));
                }
                Ok(Self::Int(rounded as i64))
            }
            Kind::Float { unit, min, max, .. } => {
                let plain = || text.trim().parse().ok().filter(|_| unit == Unit::None);
                let number = plain().or_else(|| parse_number(text, unit));
                let number = number.ok_or_else(|| invalid(name, text, unit))?;
                if !(min..=max).contains(&number) {
                    let (suffix, _) = unit_word(unit);
                    let shown = format!("{number} {suffix}");
                    return Err(SettingError::new(
                        "22023",
                        format!(
                            "{} is outside the valid range for parameter \"{name}\" ({min} .. {max})",
                            shown.trim_end()
                        ),
                    ));
                }
                Ok(Self::Float(number))
            }
            Kind::Enum(words) => {
                let wanted = text.trim();
                let found =
                    words.iter().find(|w| w.eq_ignore_ascii_case(wanted)).copied().or_else(|| {
                        // The words of a switch are accepted where the list has on and off.
                        let word = if parse_bool(wanted)? { "on" } else { "off" };
                        words.iter().find(|w| **w == word).copied()
                    });
                found.map(|w| Self::Text(Arc::from(w))).ok_or_else(|| {
                    let mut sorted = words.to_vec();
                    sorted.sort_unstable();
                    SettingError {
                        hint: Some(format!("Available values: {}.", sorted.join(", "))),
                        ..invalid(name, text, Unit::None)
                    }
                })
            }
            Kind::Text(_) => Ok(Self::Text(Arc::from(text))),
        }
    }

    /// Shows the value as SHOW does: numbers in the greatest unit that divides them.
    pub(super) fn show(&self, definition: &SettingDefinition) -> String {
        match (self, definition.kind) {
            (Self::Int(v), Kind::Int { unit, .. }) => show_int(*v, unit),
            (Self::Float(v), Kind::Float { unit, .. }) => show_float(*v, unit),
            _ => self.plain(),
        }
    }

    /// Shows the value as `pg_settings.setting` does: numbers in their base unit.
    pub(super) fn plain(&self) -> String {
        match self {
            Self::Bool(true) => "on".to_owned(),
            Self::Bool(false) => "off".to_owned(),
            Self::Int(v) => v.to_string(),
            Self::Float(v) => v.to_string(),
            Self::Text(t) => t.to_string(),
        }
    }
}

fn invalid(name: &str, text: &str, unit: Unit) -> SettingError {
    // A text that does not begin like a number gets no hint about units.
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let number = text.trim_start().trim_start_matches(['+', '-']).starts_with(is_number);
    SettingError {
        sqlstate: "22023",
        message: format!("invalid value for parameter \"{name}\": \"{text}\""),
        detail: None,
        hint: match unit {
            _ if !number => None,
            Unit::Blocks | Unit::Bytes | Unit::Kilobytes | Unit::Megabytes => Some(
                "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\"."
                    .to_owned(),
            ),
            Unit::Milliseconds | Unit::Seconds | Unit::Minutes => Some(
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."
                    .to_owned(),
            ),
            Unit::None => None,
        },
    }
}

/// Reads on/off, true/false, yes/no, 1/0, and their unambiguous beginnings.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    let t = text.trim().to_ascii_lowercase();
    if t.is_empty() {
        return None;
    }
    for (word, value, least) in [
        ("true", true, 1),
        ("false", false, 1),
        ("yes", true, 1),
        ("no", false, 1),
        ("on", true, 2),
        ("off", false, 2),
        ("1", true, 1),
        ("0", false, 1),
    ] {
        if t.len() >= least && word.starts_with(&t) {
            return Some(value);
        }
    }
    None
}

/// Returns the suffix of the base unit, and its size: in bytes, or in microseconds.
pub(super) fn unit_word(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::None => ("", 1.0),
        Unit::Bytes => ("B", 1.0),
        Unit::Kilobytes => ("kB", 1024.0),
        Unit::Blocks => ("8kB", 8192.0),
        Unit::Megabytes => ("MB", 1_048_576.0),
        Unit::Milliseconds => ("ms", 1000.0),
        Unit::Seconds => ("s", 1_000_000.0),
        Unit::Minutes => ("min", 60_000_000.0),
    }
}

const MEMORY: [(&str, f64); 5] = [
    ("TB", 1_099_511_627_776.0),
    ("GB", 1_073_741_824.0),
    ("MB", 1_048_576.0),
    ("kB", 1024.0),
    ("B", 1.0),
];
const TIME: [(&str, f64); 6] = [
    ("d", 86_400_000_000.0),
    ("h", 3_600_000_000.0),
    ("min", 60_000_000.0),
    ("s", 1_000_000.0),
    ("ms", 1000.0),
    ("us", 1.0),
];

fn units_of(unit: Unit) -> &'static [(&'static str, f64)] {
    match unit {
        Unit::None => &[],
        Unit::Bytes | Unit::Kilobytes | Unit::Blocks | Unit::Megabytes => &MEMORY,
        Unit::Milliseconds | Unit::Seconds | Unit::Minutes => &TIME,
    }
}

/// Reads a number in the setting's unit.
fn parse_number(text: &str, unit: Unit) -> Option<f64> {
    let t = text.trim();
    if let Some(hex) = t.strip_prefix("0x").or_else(|| t.strip_prefix("0X")) {
        return i64::from_str_radix(hex, 16).ok().map(|v| v as f64);
    }
    let end = t
        .char_indices()
        .find(|(i, c)| !(c.is_ascii_digit() || *c == '.' || ((*c == '-' || *c == '+') && *i == 0)))
        .map_or(t.len(), |(i, _)| i);
    let number: f64 = t[..end].parse().ok()?;
    let suffix = t[end..].trim();
    if suffix.is_empty() {
        return Some(number);
    }
    let (_, scale) = units_of(unit).iter().find(|(w, _)| *w == suffix)?;
    Some(number * scale / unit_word(unit).1)
}

/// Reads an amount of memory in kilobytes: a number, perhaps with a unit.
pub fn parse_kilobytes(text: &str) -> Option<i64> {
    let number = parse_number(text, Unit::Kilobytes)?.round();
    (number.abs() < 1e15).then_some(number as i64)
}

fn show_float(value: f64, unit: Unit) -> String {
    let total = value * unit_word(unit).1;
    let whole =
        units_of(unit).iter().find(|(_, scale)| value > 0.0 && (total / scale).fract() == 0.0);
    match whole {
        Some((word, scale)) => format!("{}{word}", total / scale),
        None => value.to_string(),
    }
}

fn show_int(value: i64, unit: Unit) -> String {
    if value <= 0 || unit == Unit::None {
        return value.to_string();
    }
    let base = unit_word(unit).1 as i64;
    let Some(total) = value.checked_mul(base) else { return value.to_string() };
    for (word, scale) in units_of(unit) {
        let scale = *scale as i64;
        if total % scale == 0 {
            return format!("{}{word}", total / scale);
        }
    }
    value.to_string()
}
