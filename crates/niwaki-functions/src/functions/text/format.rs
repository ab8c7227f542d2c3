//! Joins values into one text: `concat`, `format`, `array_to_string`.

use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::value_text;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::GrowingText;
use niwaki_types::{Datum, quote_identifier};

use crate::functions::text::quote::quote_string;

use crate::functions::text::strings::{shown_type, string, wrong};
use crate::functions::{Function, functions};

fn shown(value: &Datum, exec: &ExecContext<'_>) -> String {
    match value {
        Datum::Text(text) => text.to_string(),
        // Booleans are shown as by the type's output function: t and f.
        other => value_text(other, shown_type(other), exec),
    }
}

fn concat(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let mut result = GrowingText::new();
    for value in values.iter().filter(|v| !v.is_null()) {
        result.push_str(&shown(value, exec))?;
    }
    Ok(result.finish()?)
}

fn concat_ws(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some((Datum::Text(separator), values)) = values.split_first() else {
        return Ok(Datum::Null);
    };
    let parts: Vec<String> =
        values.iter().filter(|v| !v.is_null()).map(|v| shown(v, exec)).collect();
    Ok(string(parts.join(separator)))
}

/// A format specifier: `%` and the letters after it.
#[derive(Default)]
struct Specifier {
    /// Number of the argument, from 1; 0 means the next one.
    argument: usize,
    left: bool,
    width: i64,
    /// Number of the argument that holds the width; 0 means the next one.
    width_argument: Option<usize>,
    kind: char,
}

#[cold]
fn unterminated() -> SqlError {
    SqlError::new("22023", "unterminated format() type specifier")
        .with_hint("For a single \"%\" use \"%%\".")
}

type Rest<'t> = std::iter::Peekable<std::str::Chars<'t>>;

fn digits(rest: &mut Rest<'_>) -> Result<Option<i64>> {
    let mut value = None;
    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
        rest.next();
        let number = value.unwrap_or(0i64) * 10 + i64::from(digit);
        if number > i64::from(i32::MAX) {
            return Err(SqlError::new("22003", "number is out of range"));
        }
        value = Some(number);
    }
    if value.is_some() && rest.peek().is_none() {
        return Err(unterminated());
    }
    Ok(value)
}

/// Checks the number of an argument, which is not 0.
fn argument_number(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(SqlError::new(
            "22023",
            "format specifies argument 0, but arguments are numbered from 1",
        )),
    }
}

impl Specifier {
    /// Reads `[position$][-][width]type`.
    fn read(rest: &mut Rest<'_>) -> Result<Self> {
        let mut found = Self::default();
        match digits(rest)? {
            Some(number) if rest.next_if_eq(&'$').is_some() => {
                found.argument = argument_number(number)?;
                found.read_width(rest)?;
            }
            Some(width) => found.width = width,
            None => found.read_width(rest)?,
        }
        found.kind = rest.next().ok_or_else(unterminated)?;
        if !matches!(found.kind, 's' | 'I' | 'L') {
            return Err(SqlError::new(
                "22023",
                format!("unrecognized format() type specifier \"{}\"", found.kind),
            )
            .with_hint("For a single \"%\" use \"%%\"."));
        }
        Ok(found)
    }

    fn read_width(&mut self, rest: &mut Rest<'_>) -> Result<()> {
        while rest.next_if_eq(&'-').is_some() {
            self.left = true;
        }
        if rest.next_if_eq(&'*').is_none() {
            self.width = digits(rest)?.unwrap_or(0);
            return Ok(());
        }
        if rest.peek().is_none() {
            return Err(unterminated());
        }
        self.width_argument = Some(match digits(rest)? {
            None => 0,
            Some(number) => {
                if rest.next_if_eq(&'$').is_none() {
                    return Err(SqlError::new(
                        "22023",
                        "width argument position must be ended by \"$\"",
                    ));
                }
                argument_number(number)?
            }
        });
        Ok(())
    }

    /// Appends a text, padded with blanks to the width. The flag `-` or a negative width puts the
    /// blanks on the right.
    fn push(&self, result: &mut GrowingText, text: &str) -> Result<()> {
        let width = usize::try_from(self.width.unsigned_abs()).unwrap_or(usize::MAX);
        let missing = width.saturating_sub(text.chars().count());
        let left = self.left || self.width < 0;
        if left {
            result.push_str(text)?;
        }
        result.push_times(' ', missing)?;
        if !left {
            result.push_str(text)?;
        }
        Ok(())
    }
}

/// `format(template, …)`
fn format_text(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some((Datum::Text(template), values)) = values.split_first() else {
        return Ok(Datum::Null);
    };
    let mut result = GrowingText::new();
    // The number of the argument taken last.
    let mut taken = 0usize;
    let mut take = |number: usize| {
        taken = if number > 0 { number } else { taken + 1 };
        values
            .get(taken - 1)
            .ok_or_else(|| SqlError::new("22023", "too few arguments for format()"))
    };
    let mut rest = template.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '%' {
            result.push(character)?;
            continue;
        }
        match rest.peek() {
            None => return Err(unterminated()),
            Some('%') => {
                rest.next();
                result.push('%')?;
                continue;
            }
            Some(_) => {}
        }
        let mut specifier = Specifier::read(&mut rest)?;
        if let Some(number) = specifier.width_argument {
            specifier.width = width(take(number)?, exec)?;
        }
        let value = take(specifier.argument)?;
        match (specifier.kind, value.is_null()) {
            ('s', true) => specifier.push(&mut result, "")?,
            ('s', false) => specifier.push(&mut result, &shown(value, exec))?,
            ('I', true) => {
                return Err(SqlError::new(
                    "22004",
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('I', false) => specifier.push(&mut result, &quote_identifier(&shown(value, exec)))?,
            (_, true) => specifier.push(&mut result, "NULL")?,
            (_, false) => specifier.push(&mut result, &quote_string(&shown(value, exec)))?,
        }
    }
    Ok(result.finish()?)
}

/// Returns the width that an argument holds.
fn width(value: &Datum, exec: &ExecContext<'_>) -> Result<i64> {
    match value {
        Datum::Null => Ok(0),
        Datum::Int2(v) => Ok(i64::from(*v)),
        Datum::Int4(v) => Ok(i64::from(*v)),
        other => Ok(i64::from(niwaki_types::parse_int4(&shown(other, exec))?)),
    }
}

/// Returns the arguments, with the elements of the last one, an array, in its place.
fn spread(values: &[Datum]) -> Option<Vec<Datum>> {
    let (last, first) = values.split_last()?;
    let Datum::Array(_, elements) = last else { return None };
    Some(first.iter().chain(elements.iter()).cloned().collect())
}

fn concat_elements(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    spread(values).map_or(Ok(Datum::Null), |values| concat(exec, &values))
}

fn concat_ws_elements(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    spread(values).map_or(Ok(Datum::Null), |values| concat_ws(exec, &values))
}

/// Formats with the elements of an array; a NULL array has no elements.
fn format_elements(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    match spread(values) {
        Some(values) => format_text(exec, &values),
        None => format_text(exec, values.get(..1).unwrap_or_default()),
    }
}

fn array_to_string(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, elements), Datum::Text(separator), null @ ..] = values else {
        return if values.len() < 2 { Err(wrong()) } else { Ok(Datum::Null) };
    };
    let mut parts = Vec::new();
    for value in elements.iter() {
        match (value, null.first()) {
            (Datum::Null, Some(Datum::Text(null))) => parts.push(null.to_string()),
            (Datum::Null, _) => {}
            (value, _) => parts.push(value_text(value, *element, exec)),
        }
    }
    Ok(string(parts.join(separator)))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "concat" (ANY) TEXT nullable variadic stable Context(concat);
    "concat_ws" (TEXT, ANY) TEXT nullable variadic stable Context(concat_ws);
    "format" (TEXT) TEXT nullable single stable Context(format_text);
    "format" (TEXT, ANY) TEXT nullable variadic stable Context(format_text);
    "array_to_string" (ARRAY, TEXT) TEXT strict single stable Context(array_to_string);
    "array_to_string" (ARRAY, TEXT, TEXT) TEXT nullable single stable Context(array_to_string);
};

pub(crate) const VARIADIC: &[Function] = functions! {
    "concat" (ARRAY) TEXT nullable single stable Context(concat_elements);
    "concat_ws" (TEXT, ARRAY) TEXT nullable single stable Context(concat_ws_elements);
    "format" (TEXT, ARRAY) TEXT nullable single stable Context(format_elements);
};
