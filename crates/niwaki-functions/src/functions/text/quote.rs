//! Quotes names and strings as SQL does.

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::charge_whole;
use niwaki_types::{Datum, TypeOid, quote_identifier};

use crate::functions::text::strings::{string, text, wrong};
use crate::functions::{Function, functions};

/// Writes a string as an SQL literal.
pub(crate) fn quote_string(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if value.contains('\\') {
        return format!("E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

/// Writes a string constant as definitions show it: a backslash stands for itself.
pub fn string_constant(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Charges memory for a quoted text: each of some characters is doubled, and quotes surround the
/// text.
fn charge_quoted(text: &str, doubled: &[u8]) -> Result<()> {
    /// Bytes for the quotes and the escape prefix.
    const AROUND: usize = 4;
    let more = text.bytes().filter(|byte| doubled.contains(byte)).count();
    Ok(charge_whole(text.len() + more + AROUND)?)
}

fn quote_ident(a: &Datum) -> Result<Datum> {
    let text = text(a)?;
    charge_quoted(text, b"\"")?;
    Ok(string(quote_identifier(text)))
}

fn quote_literal(a: &Datum) -> Result<Datum> {
    let text = text(a)?;
    charge_quoted(text, b"'\\")?;
    Ok(string(quote_string(text)))
}

fn quote_nullable(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Null] => Ok(Datum::text("NULL")),
        [value] => quote_literal(value),
        _ => Err(wrong()),
    }
}

/// `parse_ident(text [, strict])`: returns the parts of a dotted name, each possibly quoted.
fn parse_ident(values: &[Datum]) -> Result<Datum> {
    let (whole, strict) = match values {
        [whole] => (text(whole)?, true),
        [whole, Datum::Bool(strict)] => (text(whole)?, *strict),
        _ => return Err(wrong()),
    };
    let invalid =
        || SqlError::new("22023", format!("string is not a valid identifier: \"{whole}\""));
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}');
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let goes_on = |c: char| begins(c) || c.is_ascii_digit() || c == '$';
    let mut parts = Vec::new();
    let mut rest = whole.trim_start_matches(blank);
    let mut after_dot = false;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (name, behind) = unquoted(quoted)
                .ok_or_else(|| invalid().with_detail("String has unclosed double quotes."))?;
            if name.is_empty() {
                return Err(invalid().with_detail("Quoted identifier must not be empty."));
            }
            parts.push(string(name));
            rest = behind;
        } else if rest.starts_with(begins) {
            let end = rest.find(|c: char| !goes_on(c)).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            parts.push(string(name.to_ascii_lowercase()));
            rest = behind;
        } else if rest.starts_with('.') {
            return Err(invalid().with_detail("No valid identifier before \".\"."));
        } else if after_dot {
            return Err(invalid().with_detail("No valid identifier after \".\"."));
        } else {
            return Err(invalid());
        }
        rest = rest.trim_start_matches(blank);
        if let Some(behind) = rest.strip_prefix('.') {
            after_dot = true;
            rest = behind.trim_start_matches(blank);
        } else if rest.is_empty() || !strict {
            return Ok(Datum::array(TypeOid::TEXT, parts));
        } else {
            return Err(invalid());
        }
    }
}

/// Returns the name up to its closing quote, and the rest; a doubled quote is one quote of the
/// name.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, behind)),
        }
    }
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "quote_ident" (TEXT) TEXT strict single immutable Unary(quote_ident);
    "quote_literal" (TEXT) TEXT strict single immutable Unary(quote_literal);
    "quote_literal" (ELEMENT) TEXT strict single stable Unary(quote_literal);
    "quote_nullable" (TEXT) TEXT nullable single immutable Pure(quote_nullable);
    "quote_nullable" (ELEMENT) TEXT nullable single stable Pure(quote_nullable);
    "parse_ident" (TEXT) TEXTS strict single immutable Pure(parse_ident);
    "parse_ident" (TEXT, BOOL) TEXTS strict single immutable Pure(parse_ident);
};
