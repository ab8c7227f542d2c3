//! One-dimensional arrays as text: `{1,2,NULL}`, `{"a b",c}`.

use super::{input, write_text};
use crate::error::{Result, TypeError};
use crate::{ColumnType, Datum, InputContext, TextSettings, TypeOid};

/// Reads an array of `element`s.
///
/// # Errors
/// `22P02` for a malformed literal or element, `0A000` for more than one dimension or given bounds.
pub(super) fn parse_array(
    element: ColumnType,
    text: &str,
    context: &InputContext<'_>,
) -> Result<Datum> {
    let malformed = |detail: &str| {
        TypeError::new("22P02", format!("malformed array literal: \"{text}\"")).with_detail(detail)
    };
    let trimmed = text.trim_matches(super::is_space);
    if trimmed.starts_with('[') {
        return Err(TypeError::unsupported("array literals with explicit bounds"));
    }
    let body = trimmed
        .strip_prefix('{')
        .ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?;
    let mut rest = body.chars().peekable();
    let mut values = Vec::new();
    let skip_spaces = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        while rest.next_if(|c| super::is_space(*c)).is_some() {}
    };
    let ended = || malformed("Unexpected end of input.");
    skip_spaces(&mut rest);
    if rest.next_if_eq(&'}').is_some() {
        return finish(rest, element.oid, values, malformed);
    }
    loop {
        skip_spaces(&mut rest);
        let mut item = String::new();
        let mut quoted = false;
        // Blanks at the end of an unquoted item are not part of it, unless escaped.
        let mut kept = 0;
        match rest.peek() {
            Some('{') => return Err(TypeError::unsupported("multidimensional arrays")),
            Some('"') => {
                quoted = true;
                rest.next();
                loop {
                    match rest.next().ok_or_else(ended)? {
                        '"' => break,
                        '\\' => item.push(rest.next().ok_or_else(ended)?),
                        character => item.push(character),
                    }
                }
                skip_spaces(&mut rest);
            }
            _ => loop {
                match *rest.peek().ok_or_else(ended)? {
                    ',' | '}' => break,
                    '"' => return Err(malformed("Unexpected array element.")),
                    '{' => return Err(malformed("Unexpected \"{\" character.")),
                    '\\' => {
                        rest.next();
                        item.push(rest.next().ok_or_else(ended)?);
                        // An escaped NULL is text.
                        quoted = true;
                        kept = item.len();
                    }
                    character => {
                        rest.next();
                        item.push(character);
                        if !super::is_space(character) {
                            kept = item.len();
                        }
                    }
                }
            },
        }
        if !quoted || kept > 0 {
            item.truncate(kept);
        }
        if !quoted && item.is_empty() {
            let found = rest.peek().copied().unwrap_or('}');
            return Err(malformed(&format!("Unexpected \"{found}\" character.")));
        }
        values.push(if !quoted && item.eq_ignore_ascii_case("null") {
            Datum::Null
        } else {
            input(element, &item, context)?
        });
        match rest.next().ok_or_else(ended)? {
            ',' => {}
            '}' => return finish(rest, element.oid, values, malformed),
            _ => return Err(malformed("Unexpected array element.")),
        }
    }
}

fn finish(
    mut rest: impl Iterator<Item = char>,
    element: TypeOid,
    values: Vec<Datum>,
    malformed: impl Fn(&str) -> TypeError,
) -> Result<Datum> {
    // The blanks at the end were trimmed before.
    match rest.next() {
        None => Ok(Datum::Array(element, values.into())),
        Some(_) => Err(malformed("Junk after closing right brace.")),
    }
}

/// Appends the array; elements that would be misread without quotes get them.
pub(super) fn write_array(
    element: TypeOid,
    values: &[Datum],
    settings: &TextSettings,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    let mut item = Vec::new();
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        if value.is_null() {
            out.extend_from_slice(b"NULL");
            continue;
        }
        item.clear();
        write_text(value, element, settings, &mut item);
        if !needs_quotes(&item) {
            out.extend_from_slice(&item);
            continue;
        }
        out.push(b'"');
        for byte in &item {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    out.push(b'}');
}

fn needs_quotes(item: &[u8]) -> bool {
    item.is_empty()
        || item.eq_ignore_ascii_case(b"null")
        || item.iter().any(|byte| {
            matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || super::is_space(char::from(*byte))
        })
}
