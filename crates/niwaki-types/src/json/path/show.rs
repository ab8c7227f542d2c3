//! `jsonpath` as PostgreSQL shows it.

use std::fmt;

use super::{JsonPath, PathOperator, PathStep};
use crate::json::text::write_json_string;

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.lax {
            f.write_str("strict ")?;
        }
        path(&self.root, true, f)
    }
}

/// Returns the precedence of a step.
fn tightness(step: &PathStep) -> u8 {
    match step {
        PathStep::Binary(operator, ..) => match operator {
            PathOperator::Or => 0,
            PathOperator::And => 1,
            PathOperator::Add | PathOperator::Subtract => 3,
            PathOperator::Multiply | PathOperator::Divide | PathOperator::Remainder => 4,
            _ => 2,
        },
        PathStep::Sign(..) => 5,
        _ => 6,
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    write_json_string(text, &mut bytes);
    f.write_str(&String::from_utf8_lossy(&bytes))
}

/// Writes a path, its first step in brackets if `brackets`, where it can be.
fn path(steps: &[PathStep], brackets: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some((first, others)) = steps.split_first() else { return Ok(()) };
    match first {
        PathStep::Number(number) if !others.is_empty() => write!(f, "({number})")?,
        // PostgreSQL leaves these brackets out inside operators, and cannot read back its own text.
        first => step(first, false, brackets || !others.is_empty(), f)?,
    }
    others.iter().try_for_each(|other| step(other, true, true, f))
}

/// Writes an operand of an operator of this precedence.
fn operand(steps: &[PathStep], outer: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    path(steps, steps.first().is_some_and(|first| tightness(first) <= outer), f)
}

fn step(step: &PathStep, behind: bool, brackets: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let point = if behind { "." } else { "" };
    match step {
        PathStep::Null => f.write_str("null"),
        PathStep::Bool(value) => write!(f, "{value}"),
        PathStep::Number(number) => write!(f, "{number}"),
        PathStep::String(text) => quoted(text, f),
        PathStep::Variable(name) => {
            f.write_str("$")?;
            quoted(name, f)
        }
        PathStep::Root => f.write_str("$"),
        PathStep::Current => f.write_str("@"),
        PathStep::Last => f.write_str("last"),
        PathStep::Key(key) => {
            f.write_str(point)?;
            quoted(key, f)
        }
        PathStep::AnyKey => write!(f, "{point}*"),
        PathStep::AnyItem => f.write_str("[*]"),
        PathStep::Items(items) => {
            f.write_str("[")?;
            for (at, (from, to)) in items.iter().enumerate() {
                if at > 0 {
                    f.write_str(",")?;
                }
                path(from, false, f)?;
                if let Some(to) = to {
                    f.write_str(" to ")?;
                    path(to, false, f)?;
                }
            }
            f.write_str("]")
        }
        PathStep::Any(first, last) => {
            write!(f, "{point}**")?;
            match (*first, *last) {
                (0, u32::MAX) => Ok(()),
                (u32::MAX, u32::MAX) => f.write_str("{last}"),
                (first, last) if first == last => write!(f, "{{{first}}}"),
                (u32::MAX, last) => write!(f, "{{last to {last}}}"),
                (first, u32::MAX) => write!(f, "{{{first} to last}}"),
                (first, last) => write!(f, "{{{first} to {last}}}"),
            }
        }
        PathStep::Filter(condition) => {
            f.write_str("?(")?;
            path(condition, false, f)?;
            f.write_str(")")
        }
        PathStep::Method(method) => write!(f, ".{}()", method.word()),
        PathStep::DateTime(template) => {
            f.write_str(".datetime(")?;
            if let Some(template) = template {
                quoted(template, f)?;
            }
            f.write_str(")")
        }
        PathStep::Not(condition) => {
            f.write_str("!(")?;
            path(condition, false, f)?;
            f.write_str(")")
        }
        PathStep::IsUnknown(condition) => {
            f.write_str("(")?;
            path(condition, false, f)?;
            f.write_str(") is unknown")
        }
        PathStep::Exists(found) => {
            f.write_str("exists (")?;
            path(found, false, f)?;
            f.write_str(")")
        }
        PathStep::Sign(..) | PathStep::Binary(..) | PathStep::LikeRegex(..) => {
            let (open, close) = if brackets { ("(", ")") } else { ("", "") };
            f.write_str(open)?;
            operation(step, f)?;
            f.write_str(close)
        }
    }
}

fn operation(step: &PathStep, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let outer = tightness(step);
    match step {
        PathStep::Sign(negative, inner) => {
            f.write_str(if *negative { "-" } else { "+" })?;
            operand(inner, outer, f)
        }
        PathStep::Binary(operator, left, right) => {
            operand(left, outer, f)?;
            write!(f, " {} ", operator.word())?;
            operand(right, outer, f)
        }
        PathStep::LikeRegex(value, pattern, flags) => {
            operand(value, outer, f)?;
            f.write_str(" like_regex ")?;
            quoted(pattern, f)?;
            let letters = [
                (flags.fold, 'i'),
                (flags.dot_all, 's'),
                (flags.lines, 'm'),
                (flags.expanded, 'x'),
                (flags.quote, 'q'),
            ];
            let letters: String =
                letters.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter).collect();
            if letters.is_empty() { Ok(()) } else { write!(f, " flag \"{letters}\"") }
        }
        _ => Ok(()),
    }
}
