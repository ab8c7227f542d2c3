//! The typmod of an interval column, such as `interval day to second(3)`: its fields and the
//! precision of its seconds.

use super::interval::range;
use crate::error::{Result, TypeError};

/// Most digits after the second.
const PRECISION_MAX: i32 = 6;
/// The precision of a typmod without one.
const PRECISION_FULL: i32 = 0xffff;

/// The ranges of fields that SQL names.
const RANGES: [(i32, &str); 13] = [
    (range::YEAR, "year"),
    (range::MONTH, "month"),
    (range::YEAR | range::MONTH, "year to month"),
    (range::DAY, "day"),
    (range::HOUR, "hour"),
    (range::MINUTE, "minute"),
    (range::SECOND, "second"),
    (range::DAY | range::HOUR, "day to hour"),
    (range::DAY | range::HOUR | range::MINUTE, "day to minute"),
    (range::DAY | range::HOUR | range::MINUTE | range::SECOND, "day to second"),
    (range::HOUR | range::MINUTE, "hour to minute"),
    (range::HOUR | range::MINUTE | range::SECOND, "hour to second"),
    (range::MINUTE | range::SECOND, "minute to second"),
];

/// Returns the typmod of an interval with these fields (a bit for each, or all) and `precision`
/// digits after the second. More than six digits count as six.
///
/// # Errors
/// `22023` for fields that SQL does not name, or a negative precision.
pub fn interval_typmod(fields: i32, precision: Option<i32>) -> Result<i32> {
    let known = fields == range::FULL || RANGES.iter().any(|(range, _)| *range == fields);
    if !known {
        return Err(TypeError::new("22023", "invalid INTERVAL type modifier"));
    }
    let precision = match precision {
        None if fields == range::FULL => return Ok(-1),
        None => PRECISION_FULL,
        Some(digits) if digits < 0 => {
            return Err(TypeError::new(
                "22023",
                format!("INTERVAL({digits}) precision must not be negative"),
            ));
        }
        Some(digits) => digits.min(PRECISION_MAX),
    };
    Ok(fields << 16 | precision)
}

/// Returns the part that a typmod adds to the type's name: ` year to month`, ` second(3)`, `(3)`,
/// or nothing.
pub fn interval_typmod_text(typmod: i32) -> String {
    if typmod < 0 {
        return String::new();
    }
    let fields = range::of(typmod);
    let mut text = RANGES
        .iter()
        .find(|(range, _)| *range == fields)
        .map_or_else(String::new, |(_, name)| format!(" {name}"));
    let precision = typmod & PRECISION_FULL;
    if precision != PRECISION_FULL {
        text.push_str(&format!("({precision})"));
    }
    text
}
