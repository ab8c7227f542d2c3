//! Functions of regular expressions: `regexp_*`.

use niwaki_expr::context::ExecContext;
use niwaki_expr::regexp::{Expression, Match, Options, compile};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::{GrowingArray, GrowingText, value_bytes};
use niwaki_types::{Datum, TypeOid};

use crate::functions::{Function, functions};

fn wrong() -> SqlError {
    SqlError::internal("a function of regular expressions was given values of other types")
}

fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(text) => Ok(text),
        _ => Err(wrong()),
    }
}

/// Reads options by their letters, and whether all matches are meant.
fn flags<const ASCII: bool>(letters: &str) -> Result<(Options, bool)> {
    let mut options = Options { ascii: ASCII, ..Options::default() };
    let mut global = false;
    for letter in letters.chars() {
        if letter == 'g' {
            global = true;
        } else if !options.apply(letter) {
            return Err(SqlError::new(
                "22023",
                format!("invalid regular expression option: \"{letter}\""),
            ));
        }
    }
    Ok((options, global))
}

/// Reads the options of a function that does not support `g`.
fn single_flags<const ASCII: bool>(function: &str, letters: Option<&Datum>) -> Result<Options> {
    let letters = letters.map_or(Ok(""), text)?;
    match flags::<ASCII>(letters)? {
        (options, false) => Ok(options),
        (_, true) => Err(SqlError::new(
            "22023",
            format!("{function}() does not support the \"global\" option"),
        )),
    }
}

/// Reads a whole number that must be at least `least`.
fn parameter(name: &str, value: Option<&Datum>, default: usize, least: i32) -> Result<usize> {
    match value {
        None => Ok(default),
        Some(Datum::Int4(number)) if *number >= least => {
            usize::try_from(*number).map_err(|_| wrong())
        }
        Some(Datum::Int4(number)) => {
            Err(SqlError::new("22023", format!("invalid value for parameter \"{name}\": {number}")))
        }
        Some(_) => Err(wrong()),
    }
}

/// Returns the byte at which character `start` (from 1) begins; `None` beyond the end.
fn byte_of(text: &str, start: usize) -> Option<usize> {
    let mut positions = text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    positions.nth(start - 1)
}

fn part(text: &str, span: Option<(usize, usize)>) -> Datum {
    span.and_then(|(start, end)| text.get(start..end)).map_or(Datum::Null, Datum::text)
}

fn texts(values: Vec<Datum>) -> Datum {
    Datum::array(TypeOid::TEXT, values)
}

/// Returns the groups of a match, or the whole match without groups.
fn groups_of(source: &str, found: &Match) -> Datum {
    if found.groups.is_empty() {
        return texts(vec![part(source, Some((found.start, found.end)))]);
    }
    texts(found.groups.iter().map(|span| part(source, *span)).collect())
}

fn regexp_match<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, letters @ ..] = values else { return Err(wrong()) };
    let options = single_flags::<ASCII>("regexp_match", letters.first())
        .map_err(|error| hint_at_matches(error, letters.first()))?;
    let source = text(source)?;
    let found = compile(text(pattern)?, &options)?.find(source, 0)?;
    Ok(found.map_or(Datum::Null, |found| groups_of(source, &found)))
}

fn hint_at_matches(error: SqlError, letters: Option<&Datum>) -> SqlError {
    match letters {
        Some(Datum::Text(letters)) if flags::<false>(letters).is_ok() => {
            error.with_hint("Use the regexp_matches function instead.")
        }
        _ => error,
    }
}

fn regexp_matches<const ASCII: bool>(
    _: &mut ExecContext<'_>,
    values: &[Datum],
) -> Result<Vec<Datum>> {
    let [source, pattern, letters @ ..] = values else { return Err(wrong()) };
    let (options, global) = flags::<ASCII>(letters.first().map_or(Ok(""), text)?)?;
    let source = text(source)?;
    let mut rows = GrowingArray::new();
    let mut refused = Ok(());
    compile(text(pattern)?, &options)?.find_all(source, 0, false, |found| {
        let groups = groups_of(source, &found);
        let bytes = value_bytes(&groups);
        refused = rows.push(groups, bytes);
        global && refused.is_ok()
    })?;
    refused?;
    Ok(rows.into_values())
}

/// Returns the texts between matches.
fn split<const ASCII: bool>(function: &str, values: &[Datum]) -> Result<Vec<Datum>> {
    let [source, pattern, letters @ ..] = values else { return Err(wrong()) };
    let options = single_flags::<ASCII>(function, letters.first())?;
    let source = text(source)?;
    let mut parts = GrowingArray::new();
    let mut refused = Ok(());
    let mut from = 0;
    let mut add = |span| {
        let value = part(source, Some(span));
        let bytes = value_bytes(&value);
        parts.push(value, bytes)
    };
    compile(text(pattern)?, &options)?.find_all(source, 0, true, |found| {
        refused = add((from, found.start));
        from = found.end;
        refused.is_ok()
    })?;
    refused?;
    add((from, source.len()))?;
    Ok(parts.into_values())
}

fn split_to_array<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    split::<ASCII>("regexp_split_to_array", values).map(texts)
}

fn split_to_table<const ASCII: bool>(
    _: &mut ExecContext<'_>,
    values: &[Datum],
) -> Result<Vec<Datum>> {
    split::<ASCII>("regexp_split_to_table", values)
}

/// Calls `each` for the matches from character `start` on.
fn matches_from(
    compiled: &Expression,
    source: &str,
    start: usize,
    each: impl FnMut(Match) -> bool,
) -> Result<()> {
    match byte_of(source, start) {
        Some(from) => compiled.find_all(source, from, false, each),
        None => Ok(()),
    }
}

/// Returns the match number `number` from character `start` on.
fn nth_match(
    compiled: &Expression,
    source: &str,
    start: usize,
    number: usize,
) -> Result<Option<Match>> {
    let mut seen = 0;
    let mut wanted = None;
    matches_from(compiled, source, start, |found| {
        seen += 1;
        if seen == number {
            wanted = Some(found);
        }
        seen < number
    })?;
    Ok(wanted)
}

fn regexp_count<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, rest @ ..] = values else { return Err(wrong()) };
    let start = parameter("start", rest.first(), 1, 1)?;
    let options = single_flags::<ASCII>("regexp_count", rest.get(1))?;
    let mut count = 0i32;
    matches_from(&*compile(text(pattern)?, &options)?, text(source)?, start, |_| {
        count = count.saturating_add(1);
        true
    })?;
    Ok(Datum::Int4(count))
}

fn regexp_like<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, rest @ ..] = values else { return Err(wrong()) };
    let options = single_flags::<ASCII>("regexp_like", rest.first())?;
    compile(text(pattern)?, &options)?.is_match(text(source)?).map(Datum::Bool)
}

/// Returns the span that a parameter `subexpr` asks for: 0 is the whole match.
fn span_of(found: &Match, group: usize) -> Option<(usize, usize)> {
    match group.checked_sub(1) {
        None => Some((found.start, found.end)),
        Some(group) => found.groups.get(group).copied().flatten(),
    }
}

fn regexp_instr<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, rest @ ..] = values else { return Err(wrong()) };
    let start = parameter("start", rest.first(), 1, 1)?;
    let number = parameter("n", rest.get(1), 1, 1)?;
    let behind = parameter("endoption", rest.get(2), 0, 0)?;
    if behind > 1 {
        return Err(SqlError::new(
            "22023",
            format!("invalid value for parameter \"endoption\": {behind}"),
        ));
    }
    let options = single_flags::<ASCII>("regexp_instr", rest.get(3))?;
    let group = parameter("subexpr", rest.get(4), 0, 0)?;
    let source = text(source)?;
    let found = nth_match(&*compile(text(pattern)?, &options)?, source, start, number)?;
    let byte = found
        .and_then(|found| span_of(&found, group))
        .map(|(start, end)| if behind == 1 { end } else { start });
    let Some(before) = byte.and_then(|byte| source.get(..byte)) else { return Ok(Datum::Int4(0)) };
    i32::try_from(before.chars().count() + 1)
        .map(Datum::Int4)
        .map_err(|_| crate::functions::number::operators::range("integer"))
}

fn regexp_substr<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, rest @ ..] = values else { return Err(wrong()) };
    let start = parameter("start", rest.first(), 1, 1)?;
    let number = parameter("n", rest.get(1), 1, 1)?;
    let options = single_flags::<ASCII>("regexp_substr", rest.get(2))?;
    let group = parameter("subexpr", rest.get(3), 0, 0)?;
    let source = text(source)?;
    let found = nth_match(&*compile(text(pattern)?, &options)?, source, start, number)?;
    Ok(part(source, found.and_then(|found| span_of(&found, group))))
}

/// Replaces matches from character `start` on: match `number`, or all for 0.
fn replaced(
    source: &str,
    compiled: &Expression,
    replacement: &str,
    start: usize,
    number: usize,
) -> Result<Datum> {
    let mut result = GrowingText::new();
    let mut copied = 0;
    let mut seen = 0;
    let mut refused = Ok(());
    matches_from(compiled, source, start, |found| {
        seen += 1;
        if number > 0 && seen < number {
            return true;
        }
        let before = source.get(copied..found.start).unwrap_or_default();
        refused = result
            .push_str(before)
            .and_then(|()| push_replacement(&mut result, source, &found, replacement));
        copied = found.end;
        number == 0 && refused.is_ok()
    })?;
    refused?;
    result.push_str(source.get(copied..).unwrap_or_default())?;
    Ok(result.finish()?)
}

/// Writes a replacement: `\1` to `\9` are groups, `\&` is the whole match, `\\` a backslash.
///
/// # Errors
/// `54000` for a text that is too long.
fn push_replacement(
    result: &mut GrowingText,
    source: &str,
    found: &Match,
    replacement: &str,
) -> std::result::Result<(), niwaki_types::TypeError> {
    let push_span = |result: &mut GrowingText, span: Option<(usize, usize)>| {
        let text = span.and_then(|(start, end)| source.get(start..end));
        result.push_str(text.unwrap_or_default())
    };
    let mut rest = replacement.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            result.push(character)?;
            continue;
        }
        match rest.clone().next() {
            Some(digit @ '1'..='9') => {
                let group = digit.to_digit(10).map_or(0, |digit| digit as usize);
                push_span(result, span_of(found, group))?;
            }
            Some('&') => push_span(result, Some((found.start, found.end)))?,
            Some('\\') => result.push('\\')?,
            // No special meaning: the backslash and the character both stay.
            _ => {
                result.push('\\')?;
                continue;
            }
        }
        rest.next();
    }
    Ok(())
}

/// `regexp_replace(source, pattern, replacement [, flags])`
fn regexp_replace<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, replacement, letters @ ..] = values else { return Err(wrong()) };
    let letters = letters.first().map_or(Ok(""), text)?;
    if letters.starts_with(|c: char| c.is_ascii_digit()) {
        let first = letters.chars().next().unwrap_or_default();
        return Err(SqlError::new(
            "22023",
            format!("invalid regular expression option: \"{first}\""),
        )
        .with_hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
        ));
    }
    let (options, global) = flags::<ASCII>(letters)?;
    let compiled = compile(text(pattern)?, &options)?;
    replaced(text(source)?, &compiled, text(replacement)?, 1, usize::from(!global))
}

/// `regexp_replace(source, pattern, replacement, start [, n [, flags]])`
fn regexp_replace_from<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, replacement, start, rest @ ..] = values else { return Err(wrong()) };
    let start = parameter("start", Some(start), 1, 1)?;
    let number = parameter("n", rest.first(), 1, 0)?;
    let (options, _) = flags::<ASCII>(rest.get(1).map_or(Ok(""), text)?)?;
    let compiled = compile(text(pattern)?, &options)?;
    replaced(text(source)?, &compiled, text(replacement)?, start, number)
}

/// Functions with variants by collation: cases and classes cover all characters, or ASCII
/// characters only.
macro_rules! collated {
    ($ascii:literal) => {
        functions! {
            "regexp_match" (TEXT, TEXT) TEXTS strict single immutable Pure(regexp_match::<$ascii>);
            "regexp_match" (TEXT, TEXT, TEXT) TEXTS strict single immutable Pure(regexp_match::<$ascii>);
            "regexp_matches" (TEXT, TEXT) TEXTS strict single immutable Set(regexp_matches::<$ascii>);
            "regexp_matches" (TEXT, TEXT, TEXT) TEXTS strict single immutable Set(regexp_matches::<$ascii>);
            "regexp_replace" (TEXT, TEXT, TEXT) TEXT strict single immutable Pure(regexp_replace::<$ascii>);
            "regexp_replace" (TEXT, TEXT, TEXT, TEXT) TEXT strict single immutable Pure(regexp_replace::<$ascii>);
            "regexp_replace" (TEXT, TEXT, TEXT, INT4) TEXT strict single immutable Pure(regexp_replace_from::<$ascii>);
            "regexp_replace" (TEXT, TEXT, TEXT, INT4, INT4) TEXT strict single immutable Pure(regexp_replace_from::<$ascii>);
            "regexp_replace" (TEXT, TEXT, TEXT, INT4, INT4, TEXT) TEXT strict single immutable Pure(regexp_replace_from::<$ascii>);
            "regexp_split_to_array" (TEXT, TEXT) TEXTS strict single immutable Pure(split_to_array::<$ascii>);
            "regexp_split_to_array" (TEXT, TEXT, TEXT) TEXTS strict single immutable Pure(split_to_array::<$ascii>);
            "regexp_split_to_table" (TEXT, TEXT) TEXT strict single immutable Set(split_to_table::<$ascii>);
            "regexp_split_to_table" (TEXT, TEXT, TEXT) TEXT strict single immutable Set(split_to_table::<$ascii>);
            "regexp_count" (TEXT, TEXT) INT4 strict single immutable Pure(regexp_count::<$ascii>);
            "regexp_count" (TEXT, TEXT, INT4) INT4 strict single immutable Pure(regexp_count::<$ascii>);
            "regexp_count" (TEXT, TEXT, INT4, TEXT) INT4 strict single immutable Pure(regexp_count::<$ascii>);
            "regexp_like" (TEXT, TEXT) BOOL strict single immutable Pure(regexp_like::<$ascii>);
            "regexp_like" (TEXT, TEXT, TEXT) BOOL strict single immutable Pure(regexp_like::<$ascii>);
            "regexp_instr" (TEXT, TEXT) INT4 strict single immutable Pure(regexp_instr::<$ascii>);
            "regexp_instr" (TEXT, TEXT, INT4) INT4 strict single immutable Pure(regexp_instr::<$ascii>);
            "regexp_instr" (TEXT, TEXT, INT4, INT4) INT4 strict single immutable Pure(regexp_instr::<$ascii>);
            "regexp_instr" (TEXT, TEXT, INT4, INT4, INT4) INT4 strict single immutable Pure(regexp_instr::<$ascii>);
            "regexp_instr" (TEXT, TEXT, INT4, INT4, INT4, TEXT) INT4 strict single immutable Pure(regexp_instr::<$ascii>);
            "regexp_instr" (TEXT, TEXT, INT4, INT4, INT4, TEXT, INT4) INT4 strict single immutable Pure(regexp_instr::<$ascii>);
            "regexp_substr" (TEXT, TEXT) TEXT strict single immutable Pure(regexp_substr::<$ascii>);
            "regexp_substr" (TEXT, TEXT, INT4) TEXT strict single immutable Pure(regexp_substr::<$ascii>);
            "regexp_substr" (TEXT, TEXT, INT4, INT4) TEXT strict single immutable Pure(regexp_substr::<$ascii>);
            "regexp_substr" (TEXT, TEXT, INT4, INT4, TEXT) TEXT strict single immutable Pure(regexp_substr::<$ascii>);
            "regexp_substr" (TEXT, TEXT, INT4, INT4, TEXT, INT4) TEXT strict single immutable Pure(regexp_substr::<$ascii>);
            "substring" (TEXT, TEXT) TEXT strict single immutable Binary(crate::functions::text::pattern::substring_pattern::<$ascii>);
            "substring" (TEXT, TEXT, TEXT) TEXT strict single immutable Pure(crate::functions::text::pattern::substring_similar::<$ascii>);
        }
    };
}

pub(crate) const COLLATED: &[Function] = collated!(false);
/// The functions under a collation of ASCII.
pub(crate) const ASCII: &[Function] = collated!(true);

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "similar_to_escape" (TEXT) TEXT strict single immutable Pure(crate::functions::text::pattern::similar_to_escape);
    "similar_to_escape" (TEXT, TEXT) TEXT strict single immutable Pure(crate::functions::text::pattern::similar_to_escape);
    "similar_escape" (TEXT, TEXT) TEXT nullable single immutable Pure(crate::functions::text::pattern::similar_escape);
};
