//! Arrays as text: `{1,2,NULL}`, `{{"a b",c},{d,e}}`, `[0:1]={1,2}`.

use std::sync::Arc;

use super::input::input;
use super::output::write_text;
use crate::error::{Result, TypeError};
use crate::settings::{InputContext, TextSettings};
use crate::types::column::ColumnType;
use crate::types::oid::TypeOid;
use crate::value::array::{
    ARRAY_DIMENSIONS_MAX, Array, Dimension, check_dimensions, too_many_dimensions,
};
use crate::value::datum::Datum;

/// Reads an array of `element`s.
///
/// # Errors
/// `22P02` for a malformed literal or element, `2202E` and `54000` for impossible bounds.
pub(super) fn parse_array(
    element: ColumnType,
    text: &str,
    context: &InputContext<'_>,
) -> Result<Datum> {
    let malformed = |detail: &str| malformed(text, detail);
    let (given, body) = given_dimensions(text, &malformed)?;
    let found = count_elements(body)?;
    let dimensions = match given {
        None => found.iter().copied().map(Dimension::new).collect(),
        Some(given) => {
            if !given.iter().map(|dimension| dimension.length).eq(found.iter().copied()) {
                return Err(malformed("Specified array dimensions do not match array contents."));
            }
            given
        }
    };
    let count = check_dimensions(&dimensions)?;
    let values = read_elements(element, body, dimensions.len(), context)?
        .filter(|values| values.len() == count)
        .ok_or_else(|| malformed(""))?;
    Ok(Datum::Array(element.oid, Arc::new(Array::new(&dimensions, values)?)))
}

#[cold]
fn malformed(text: &str, detail: &str) -> TypeError {
    let error = TypeError::new("22P02", format!("malformed array literal: \"{text}\""));
    if detail.is_empty() { error } else { error.with_detail(detail) }
}

/// Reads the dimensions that may stand before an array, and returns the array from its brace on.
fn given_dimensions<'t>(
    text: &'t str,
    malformed: &impl Fn(&str) -> TypeError,
) -> Result<(Option<Vec<Dimension>>, &'t str)> {
    let mut rest = text.trim_start_matches(crate::scalar::space::is_space);
    let mut dimensions = Vec::new();
    while let Some(after) = rest.strip_prefix('[') {
        if dimensions.len() >= ARRAY_DIMENSIONS_MAX {
            return Err(too_many_dimensions(dimensions.len() + 1));
        }
        let (first, after) = leading_number(after).ok_or_else(|| {
            malformed("\"[\" must introduce explicitly-specified array dimensions.")
        })?;
        let (lower, upper, after) = match after.strip_prefix(':') {
            Some(after) => {
                let (upper, after) = leading_number(after)
                    .ok_or_else(|| malformed("Missing array dimension value."))?;
                (first, upper, after)
            }
            None => (1, first, after),
        };
        let after = after
            .strip_prefix(']')
            .ok_or_else(|| malformed("Missing \"]\" after array dimensions."))?;
        let length = i64::from(upper) - i64::from(lower) + 1;
        if length < 1 {
            return Err(TypeError::new("2202E", "upper bound cannot be less than lower bound"));
        }
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        dimensions.push(Dimension { length, lower });
        rest = after.trim_start_matches(crate::scalar::space::is_space);
    }
    if dimensions.is_empty() {
        if !rest.starts_with('{') {
            return Err(malformed("Array value must start with \"{\" or dimension information."));
        }
        return Ok((None, rest));
    }
    let rest = rest
        .strip_prefix('=')
        .ok_or_else(|| malformed("Missing \"=\" after array dimensions."))?
        .trim_start_matches(crate::scalar::space::is_space);
    if !rest.starts_with('{') {
        return Err(malformed("Array contents must start with \"{\"."));
    }
    Ok((Some(dimensions), rest))
}

/// Reads a number made of digits and signs at the front, as the C library does: as far as it is
/// one.
fn leading_number(text: &str) -> Option<(i32, &str)> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '+' | '-')).unwrap_or(text.len());
    if end == 0 {
        return None;
    }
    let (number, rest) = text.split_at(end);
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    let digits = &digits[..digits.find(['+', '-']).unwrap_or(digits.len())];
    let magnitude = digits.bytes().fold(0i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    let value = if number.starts_with('-') { -magnitude } else { magnitude };
    // A number longer than a long is cut to 32 bits there.
    Some((value as i32, rest))
}

/// Position of the reader in an array's structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first brace.
    Outside,
    LevelStarted,
    Element,
    Quoted,
    QuotedEnded,
    ElementDelimited,
    LevelEnded,
    LevelDelimited,
}

/// Returns the lengths of the dimensions that the braces show; none for `{}`.
fn count_elements(body: &str) -> Result<Vec<u32>> {
    // The message shows the array without the dimensions, as in PostgreSQL.
    let malformed = |detail: &str| malformed(body, detail);
    let unexpected = |c: char| malformed(&format!("Unexpected \"{c}\" character."));
    let ended = || malformed("Unexpected end of input.");
    let mut characters = body.chars();
    let mut place = Place::Outside;
    // `open`: the number of items so far of each open level. `lengths`: for each level, the number
    // of items in its closed ones.
    let mut open: Vec<u32> = Vec::new();
    let mut lengths: Vec<Option<u32>> = Vec::new();
    let mut empty = true;
    loop {
        let character = characters.next().ok_or_else(ended)?;
        match (character, place) {
            ('\\', Place::Quoted) => {
                characters.next().ok_or_else(ended)?;
            }
            ('"', Place::Quoted) => place = Place::QuotedEnded,
            (_, Place::Quoted) => {}
            ('\\', Place::LevelStarted | Place::Element | Place::ElementDelimited) => {
                characters.next().ok_or_else(ended)?;
                place = Place::Element;
                empty = false;
            }
            ('\\', _) => return Err(unexpected('\\')),
            ('"', Place::LevelStarted | Place::ElementDelimited) => {
                place = Place::Quoted;
                empty = false;
            }
            ('"', _) => return Err(malformed("Unexpected array element.")),
            ('{', Place::Outside | Place::LevelStarted | Place::LevelDelimited) => {
                if open.len() >= ARRAY_DIMENSIONS_MAX {
                    return Err(too_many_dimensions(open.len() + 1));
                }
                open.push(1);
                if lengths.len() < open.len() {
                    lengths.push(None);
                }
                place = Place::LevelStarted;
            }
            ('{', _) => return Err(unexpected('{')),
            (
                '}',
                Place::Element | Place::QuotedEnded | Place::LevelEnded | Place::LevelStarted,
            ) if place != Place::LevelStarted || open.len() == 1 => {
                let items = open.pop().ok_or_else(|| malformed("Unmatched \"}\" character."))?;
                if let Some(length) = lengths.get_mut(open.len())
                    && *length.get_or_insert(items) != items
                {
                    return Err(malformed(
                        "Multidimensional arrays must have sub-arrays with matching dimensions.",
                    ));
                }
                place = Place::LevelEnded;
                if open.is_empty() {
                    break;
                }
            }
            ('}', _) => return Err(unexpected('}')),
            (',', Place::Element | Place::QuotedEnded | Place::LevelEnded) => {
                let ended = place == Place::LevelEnded;
                place = if ended { Place::LevelDelimited } else { Place::ElementDelimited };
                if let Some(items) = open.last_mut() {
                    *items += 1;
                }
            }
            (',', _) => return Err(unexpected(',')),
            (space, _) if crate::scalar::space::is_space(space) => {}
            (_, Place::LevelStarted | Place::Element | Place::ElementDelimited) => {
                place = Place::Element;
                empty = false;
            }
            _ => return Err(malformed("Unexpected array element.")),
        }
    }
    if !characters.as_str().trim_matches(crate::scalar::space::is_space).is_empty() {
        return Err(malformed("Junk after closing right brace."));
    }
    Ok(if empty { Vec::new() } else { lengths.into_iter().flatten().collect() })
}

/// Reads the elements of an array whose structure is right; `None` when some stand less deep than
/// others.
fn read_elements(
    element: ColumnType,
    body: &str,
    depth: usize,
    context: &InputContext<'_>,
) -> Result<Option<Vec<Datum>>> {
    let mut rest = body.chars().peekable();
    let mut values = Vec::new();
    let mut level = 0;
    while let Some(&character) = rest.peek() {
        match character {
            '{' => level += 1,
            '}' => level -= 1,
            ',' => {}
            space if crate::scalar::space::is_space(space) => {}
            _ => {
                if level != depth {
                    return Ok(None);
                }
                let (item, quoted) = read_item(&mut rest);
                values.push(if !quoted && item.eq_ignore_ascii_case("null") {
                    Datum::Null
                } else {
                    input(element, &item, context)?
                });
                continue;
            }
        }
        rest.next();
    }
    Ok(Some(values))
}

/// Reads the text of an item, and whether some part of it was quoted or escaped.
fn read_item(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> (String, bool) {
    let mut item = String::new();
    let mut quoted = false;
    let mut inside = false;
    // Blanks at the end of an unquoted item are not part of it, unless escaped.
    let mut kept = 0;
    while let Some(character) = rest.next_if(|c| inside || !matches!(c, ',' | '}')) {
        match character {
            '"' => {
                inside = !inside;
                quoted = true;
                kept = item.len();
            }
            '\\' => {
                item.extend(rest.next());
                quoted = true;
                kept = item.len();
            }
            character => {
                item.push(character);
                if inside || !crate::scalar::space::is_space(character) {
                    kept = item.len();
                }
            }
        }
    }
    item.truncate(kept);
    (item, quoted)
}

/// Appends the array; elements that would be misread without quotes get them.
pub(super) fn write_array(
    element: TypeOid,
    array: &Array,
    settings: &TextSettings,
    out: &mut Vec<u8>,
) {
    let dimensions = array.dimensions();
    if array.is_empty() {
        return out.extend_from_slice(b"{}");
    }
    if dimensions.iter().any(|dimension| dimension.lower != 1) {
        out.extend_from_slice(array.dimensions_text().as_bytes());
        out.push(b'=');
    }
    let mut values = array.iter();
    write_level(element, dimensions, &mut values, settings, out);
}

fn write_level(
    element: TypeOid,
    dimensions: &[Dimension],
    values: &mut std::slice::Iter<'_, Datum>,
    settings: &TextSettings,
    out: &mut Vec<u8>,
) {
    let Some((dimension, inner)) = dimensions.split_first() else {
        if let Some(value) = values.next() {
            write_item(element, value, settings, out);
        }
        return;
    };
    out.push(b'{');
    for position in 0..dimension.length {
        if position > 0 {
            out.push(b',');
        }
        write_level(element, inner, values, settings, out);
    }
    out.push(b'}');
}

fn write_item(element: TypeOid, value: &Datum, settings: &TextSettings, out: &mut Vec<u8>) {
    if value.is_null() {
        return out.extend_from_slice(b"NULL");
    }
    let start = out.len();
    write_text(value, element, settings, out);
    let item = out.get(start..).unwrap_or_default();
    if !needs_quotes(item) {
        return;
    }
    let item = item.to_vec();
    out.truncate(start);
    out.push(b'"');
    for byte in &item {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

fn needs_quotes(item: &[u8]) -> bool {
    item.is_empty()
        || item.eq_ignore_ascii_case(b"null")
        || item.iter().any(|byte| {
            matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',')
                || crate::scalar::space::is_space(char::from(*byte))
        })
}
