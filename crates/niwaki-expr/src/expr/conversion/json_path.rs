//! Reads values of type `jsonpath`.

use std::rc::Rc;

use niwaki_parse::error::Result;
use niwaki_types::{Datum, JsonPath, Path, PathStep, RegexFlags};

use crate::regexp::{Expression, Options, compile};

/// Reads a value of type `jsonpath`, with the regular expressions in it.
///
/// # Errors
/// As [`JsonPath::parse`], and as [`pattern`] for each regular expression.
pub fn path_input(given: &str) -> Result<Datum> {
    let path = JsonPath::parse(given)?;
    check_patterns(&path.root)?;
    Ok(Datum::text(&path.to_string()))
}

/// Refuses invalid regular expressions.
fn check_patterns(path: &Path) -> Result<()> {
    for step in path {
        match step {
            PathStep::LikeRegex(value, pattern, flags) => {
                check_patterns(value)?;
                self::pattern(pattern, *flags)?;
            }
            PathStep::Items(items) => {
                for (from, to) in items {
                    check_patterns(from)?;
                    to.as_ref().map_or(Ok(()), check_patterns)?;
                }
            }
            PathStep::Filter(inner)
            | PathStep::Sign(_, inner)
            | PathStep::Not(inner)
            | PathStep::IsUnknown(inner)
            | PathStep::Exists(inner) => check_patterns(inner)?,
            PathStep::Binary(_, left, right) => {
                check_patterns(left)?;
                check_patterns(right)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Compiles the regular expression of `like_regex`.
///
/// # Errors
/// As [`compile`].
pub fn pattern(pattern: &str, flags: RegexFlags) -> Result<Rc<Expression>> {
    let options = Options {
        fold: flags.fold,
        literal: flags.quote,
        newline_stops: !flags.quote && !flags.dot_all,
        newline_anchors: !flags.quote && flags.lines,
        ..Options::default()
    };
    compile(pattern, &options)
}
