//! Functions on strings.

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::{GrowingArray, GrowingText, TEXT_BYTES_MAX, charge_more, value_bytes};
use niwaki_types::{Datum, TypeOid};

use crate::functions::{Function, functions};

pub(crate) fn wrong() -> SqlError {
    SqlError::internal("a text function was given values of other types")
}

pub(crate) fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(text) => Ok(text),
        _ => Err(wrong()),
    }
}

pub(crate) fn int(value: &Datum) -> Result<i64> {
    match value {
        Datum::Int4(v) => Ok(i64::from(*v)),
        Datum::Int8(v) => Ok(*v),
        _ => Err(wrong()),
    }
}

pub(crate) fn string(text: impl Into<std::sync::Arc<str>>) -> Datum {
    Datum::Text(text.into())
}

pub(crate) fn count(value: usize) -> Result<Datum> {
    i32::try_from(value)
        .map(Datum::Int4)
        .map_err(|_| crate::functions::number::operators::range("integer"))
}

fn length(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Bytea(bytes) => count(bytes.len()),
        _ => count(text(a)?.chars().count()),
    }
}

fn blank_length(a: &Datum) -> Result<Datum> {
    count(text(a)?.trim_end_matches(' ').chars().count())
}

fn octet_length(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Bytea(bytes) => count(bytes.len()),
        _ => count(text(a)?.len()),
    }
}

fn bit_length(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Bytea(bytes) => count(bytes.len() * 8),
        _ => count(text(a)?.len() * 8),
    }
}

/// Maps one character to one. A character stays if its other case has several characters, except
/// the dotted capital I.
fn lower_case(character: char) -> char {
    let mut all = character.to_lowercase();
    match (all.next(), all.next()) {
        (Some(only), None) => only,
        (Some(first), Some('\u{307}')) => first,
        _ => character,
    }
}

fn upper_case(character: char) -> char {
    let mut all = character.to_uppercase();
    match (all.next(), all.next()) {
        (Some(only), None) => only,
        _ => character,
    }
}

/// Bytes that [`by_parts`] changes between two interrupt checks: far below a millisecond's work.
const PART_BYTES: usize = 64 << 10;

/// Changes a text part by part; each part is changed alone.
fn by_parts(source: &str, change: impl Fn(&str) -> String) -> Result<Datum> {
    if source.len() <= PART_BYTES {
        return Ok(string(change(source)));
    }
    let mut result = GrowingText::new();
    let mut rest = source;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        result.push_str(&change(part))?;
        rest = behind;
    }
    Ok(result.finish()?)
}

/// Lowers ASCII letters only, for a collation in which only ASCII letters have cases.
fn lower_ascii(a: &Datum) -> Result<Datum> {
    by_parts(text(a)?, str::to_ascii_lowercase)
}

fn upper_ascii(a: &Datum) -> Result<Datum> {
    by_parts(text(a)?, str::to_ascii_uppercase)
}

fn initcap_ascii(a: &Datum) -> Result<Datum> {
    let mut inside = false;
    characters_of(text(a)?.chars().map(|character| {
        let (lower, upper) = (character.to_ascii_lowercase(), character.to_ascii_uppercase());
        let shown = if inside { lower } else { upper };
        inside = character.is_ascii_alphanumeric();
        shown
    }))
}

fn lower(a: &Datum) -> Result<Datum> {
    characters_of(text(a)?.chars().map(lower_case))
}

fn upper(a: &Datum) -> Result<Datum> {
    characters_of(text(a)?.chars().map(upper_case))
}

fn initcap(a: &Datum) -> Result<Datum> {
    let mut inside = false;
    characters_of(text(a)?.chars().map(|character| {
        let shown = if inside { lower_case(character) } else { upper_case(character) };
        inside = character.is_alphanumeric();
        shown
    }))
}

/// Makes a text of these characters, at most as long as a text may be.
fn characters_of(characters: impl Iterator<Item = char>) -> Result<Datum> {
    let mut result = GrowingText::new();
    result.extend(characters)?;
    Ok(result.finish()?)
}

/// Bytes of pieces that [`repeat`] appends at once: far below the work between two interrupt
/// checks.
const REPEATED_BYTES: usize = 16 << 10;

fn repeat(a: &Datum, times: &Datum) -> Result<Datum> {
    let piece = text(a)?;
    let times = usize::try_from(int(times)?).unwrap_or(0);
    if piece.len().saturating_mul(times) > TEXT_BYTES_MAX {
        return Err(SqlError::new("54000", "requested length too large"));
    }
    let mut result = GrowingText::new();
    // An empty piece gives an empty text, however often it repeats.
    let times = if piece.is_empty() { 0 } else { times };
    // Many short pieces are appended at once, because each call counts its work.
    let many = (REPEATED_BYTES / piece.len().max(1)).clamp(1, times.max(1));
    let pieces = piece.repeat(many);
    for _ in 0..times / many {
        result.push_str(&pieces)?;
    }
    for _ in 0..times % many {
        result.push_str(piece)?;
    }
    Ok(result.finish()?)
}

fn reverse(a: &Datum) -> Result<Datum> {
    characters_of(text(a)?.chars().rev())
}

/// `substring(s from start for count)` in characters; `start` may lie before the string.
fn characters(source: &str, start: i64, length: Option<i64>) -> Result<Datum> {
    if length.is_some_and(|l| l < 0) {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let end = length.map_or(i64::MAX, |l| start.saturating_add(l));
    let first = start.max(1);
    let skip = usize::try_from(first - 1).unwrap_or(usize::MAX);
    let take = usize::try_from(end.saturating_sub(first)).unwrap_or(0);
    Ok(string(source.chars().skip(skip).take(take).collect::<String>()))
}

fn substring(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Bytea(bytes), start] => Ok(bytes_part(bytes, int(start)?, i64::MAX)),
        [Datum::Bytea(bytes), start, length] => {
            let (start, length) = (int(start)?, int(length)?);
            if length < 0 {
                return Err(SqlError::new("22011", "negative substring length not allowed"));
            }
            Ok(bytes_part(bytes, start, start.saturating_add(length)))
        }
        [source, start] => characters(text(source)?, int(start)?, None),
        [source, start, length] => characters(text(source)?, int(start)?, Some(int(length)?)),
        _ => Err(wrong()),
    }
}

fn bytes_part(bytes: &[u8], start: i64, end: i64) -> Datum {
    let first = usize::try_from(start.max(1) - 1).unwrap_or(usize::MAX).min(bytes.len());
    let last = usize::try_from(end.saturating_sub(1)).unwrap_or(0).clamp(first, bytes.len());
    Datum::Bytea(bytes[first..last].into())
}

fn position(haystack: &Datum, needle: &Datum) -> Result<Datum> {
    let haystack = text(haystack)?;
    match haystack.find(text(needle)?) {
        Some(byte) => count(haystack[..byte].chars().count() + 1),
        None => Ok(Datum::Int4(0)),
    }
}

fn replace(values: &[Datum]) -> Result<Datum> {
    let [source, from, to] = values else { return Err(wrong()) };
    let from = text(from)?;
    if from.is_empty() {
        return Ok(source.clone());
    }
    let (source, to) = (text(source)?, text(to)?);
    if source.len().saturating_add((source.len() / from.len()).saturating_mul(to.len()))
        > TEXT_BYTES_MAX
    {
        let found = source.matches(from).count();
        let stays = source.len() - found * from.len();
        charge_more(0, found.saturating_mul(to.len()).saturating_add(stays))?;
    }
    let mut result = GrowingText::new();
    let mut copied = 0;
    for (at, _) in source.match_indices(from) {
        result.push_str(source.get(copied..at).unwrap_or_default())?;
        result.push_str(to)?;
        copied = at + from.len();
    }
    result.push_str(source.get(copied..).unwrap_or_default())?;
    Ok(result.finish()?)
}

fn translate(values: &[Datum]) -> Result<Datum> {
    let [source, from, to] = values else { return Err(wrong()) };
    let to: Vec<char> = text(to)?.chars().collect();
    // The first of several equal characters counts.
    let mut places = HashMap::default();
    for (at, character) in text(from)?.chars().enumerate() {
        places.entry(character).or_insert(at);
    }
    characters_of(text(source)?.chars().filter_map(|character| match places.get(&character) {
        None => Some(character),
        Some(at) => to.get(*at).copied(),
    }))
}

fn pad(values: &[Datum], left: bool) -> Result<Datum> {
    let fill = match values.get(2) {
        Some(fill) => text(fill)?,
        None => " ",
    };
    let [source, width, ..] = values else { return Err(wrong()) };
    let (source, width) = (text(source)?, usize::try_from(int(width)?).unwrap_or(0));
    if width.saturating_mul(4) > TEXT_BYTES_MAX {
        return Err(SqlError::new("54000", "requested length too large"));
    }
    let have = source.chars().count();
    if have >= width {
        return Ok(string(source.chars().take(width).collect::<String>()));
    }
    let mut result = GrowingText::new();
    let padding = fill.chars().cycle().take(width - have);
    if left {
        result.extend(padding)?;
        result.push_str(source)?;
    } else {
        result.push_str(source)?;
        result.extend(padding)?;
    }
    Ok(result.finish()?)
}

fn lpad(values: &[Datum]) -> Result<Datum> {
    pad(values, true)
}
fn rpad(values: &[Datum]) -> Result<Datum> {
    pad(values, false)
}

/// The longest set of trimmed characters, in bytes, that is searched one character after the other.
/// A longer set becomes a hash set.
const LISTED_BYTES_MAX: usize = 64;

fn trim(values: &[Datum], left: bool, right: bool) -> Result<Datum> {
    let set = match values.get(1) {
        Some(set) => text(set)?,
        None => " ",
    };
    let mut rest = text(values.first().ok_or_else(wrong)?)?;
    let many: HashSet<char> =
        if set.len() > LISTED_BYTES_MAX { set.chars().collect() } else { HashSet::default() };
    let removed = |c: char| if many.is_empty() { set.contains(c) } else { many.contains(&c) };
    if left {
        rest = rest.trim_start_matches(removed);
    }
    if right {
        rest = rest.trim_end_matches(removed);
    }
    Ok(Datum::text(rest))
}

fn btrim(values: &[Datum]) -> Result<Datum> {
    trim(values, true, true)
}
fn ltrim(values: &[Datum]) -> Result<Datum> {
    trim(values, true, false)
}
fn rtrim(values: &[Datum]) -> Result<Datum> {
    trim(values, false, true)
}

/// `left(s, n)`: a negative n drops that many from the end.
fn left(a: &Datum, n: &Datum) -> Result<Datum> {
    let (source, n) = (text(a)?, int(n)?);
    let size = i64::try_from(source.chars().count()).unwrap_or(i64::MAX);
    let take = if n >= 0 { n } else { (size + n).max(0) };
    Ok(string(source.chars().take(usize::try_from(take).unwrap_or(0)).collect::<String>()))
}

fn right(a: &Datum, n: &Datum) -> Result<Datum> {
    let (source, n) = (text(a)?, int(n)?);
    let size = i64::try_from(source.chars().count()).unwrap_or(i64::MAX);
    let skip = if n >= 0 { (size - n).max(0) } else { n.saturating_neg() };
    Ok(string(source.chars().skip(usize::try_from(skip).unwrap_or(0)).collect::<String>()))
}

fn ascii(a: &Datum) -> Result<Datum> {
    let code = text(a)?.chars().next().map_or(0, u32::from);
    count(usize::try_from(code).unwrap_or(0))
}

fn chr(a: &Datum) -> Result<Datum> {
    let code = int(a)?;
    if code < 0 {
        return Err(SqlError::new("22023", "character number must be positive"));
    }
    if code == 0 {
        return Err(SqlError::new("54000", "null character not permitted"));
    }
    if code > 0x10_ffff {
        return Err(SqlError::new(
            "54000",
            format!("requested character too large for encoding: {code}"),
        ));
    }
    u32::try_from(code).ok().and_then(char::from_u32).map(|c| string(String::from(c))).ok_or_else(
        || SqlError::new("54000", format!("requested character not valid for encoding: {code}")),
    )
}

fn split_part(values: &[Datum]) -> Result<Datum> {
    let [source, separator, number] = values else { return Err(wrong()) };
    let (source, separator, number) = (text(source)?, text(separator)?, int(number)?);
    if number == 0 {
        return Err(SqlError::new("22023", "field position must not be zero"));
    }
    if separator.is_empty() {
        return Ok(Datum::text(if matches!(number, 1 | -1) { source } else { "" }));
    }
    // Parts are counted and not kept: there may be as many parts as bytes.
    let index = if number > 0 {
        number - 1
    } else {
        let size = source.split(separator).count();
        i64::try_from(size).unwrap_or(i64::MAX).saturating_add(number)
    };
    let part = usize::try_from(index).ok().and_then(|index| source.split(separator).nth(index));
    Ok(Datum::text(part.unwrap_or("")))
}

pub(crate) fn starts_with(a: &Datum, prefix: &Datum) -> Result<Datum> {
    Ok(Datum::Bool(text(a)?.starts_with(text(prefix)?)))
}

fn to_hex(a: &Datum) -> Result<Datum> {
    Ok(string(match a {
        Datum::Int4(v) => format!("{v:x}"),
        _ => format!("{:x}", int(a)?),
    }))
}

/// Returns the type of a polymorphic argument's value, precise enough to show the value.
#[inline]
pub(crate) fn shown_type(value: &Datum) -> TypeOid {
    match value {
        Datum::Bool(_) => TypeOid::BOOL,
        Datum::Int2(_) => TypeOid::INT2,
        Datum::Int4(_) => TypeOid::INT4,
        Datum::Int8(_) => TypeOid::INT8,
        Datum::Float4(_) => TypeOid::FLOAT4,
        Datum::Float8(_) => TypeOid::FLOAT8,
        Datum::Numeric(_) => TypeOid::NUMERIC,
        Datum::Bytea(_) => TypeOid::BYTEA,
        Datum::Date(_) => TypeOid::DATE,
        Datum::Timestamp(_) => TypeOid::TIMESTAMP,
        Datum::TimestampTz(_) => TypeOid::TIMESTAMPTZ,
        Datum::Interval(_) => TypeOid::INTERVAL,
        Datum::Time(_) => TypeOid::TIME,
        Datum::TimeTz(_) => TypeOid::TIMETZ,
        Datum::Uuid(_) => TypeOid::UUID,
        Datum::Oid(_) => TypeOid::OID,
        Datum::Tid(..) => TypeOid::TID,
        Datum::Lsn(_) => TypeOid::PG_LSN,
        Datum::Jsonb(_) => TypeOid::JSONB,
        Datum::Enum(oid, _) => *oid,
        Datum::Array(element, _) => {
            niwaki_parse::types::array_of(*element).unwrap_or(TypeOid::TEXT_ARRAY)
        }
        Datum::Record(oid, _) => *oid,
        Datum::Text(_) | Datum::Null => TypeOid::TEXT,
    }
}

/// `overlay(text placing new from start [for count])`
fn overlay(values: &[Datum]) -> Result<Datum> {
    let [source, new, start, count @ ..] = values else { return Err(wrong()) };
    let (source, new) = (text(source)?, text(new)?);
    let replaced = match count.first() {
        Some(count) => int(count)?,
        None => i64::try_from(new.chars().count()).unwrap_or(i64::MAX),
    };
    let (before, after) = overlay_bounds(int(start)?, replaced)?;
    let mut result = GrowingText::new();
    result.extend(source.chars().take(before))?;
    result.push_str(new)?;
    result.extend(source.chars().skip(after))?;
    Ok(result.finish()?)
}

/// Returns the number of characters kept at the front, and the position from which the rest is
/// kept.
///
/// # Errors
/// `22011` for a start before the first character, `22003` beyond int4.
pub(crate) fn overlay_bounds(start: i64, replaced: i64) -> Result<(usize, usize)> {
    if start <= 0 {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let behind = start.saturating_add(replaced);
    let behind =
        i32::try_from(behind).map_err(|_| crate::functions::number::operators::range("integer"))?;
    let part = |number: i64| usize::try_from(number).unwrap_or(0);
    Ok((part(start - 1), part(i64::from(behind) - 1)))
}

/// Splits a text at a separator. A NULL separator gives each character, an empty one the whole
/// text.
fn parts(values: &[Datum]) -> Result<Option<Vec<Datum>>> {
    let [source, separator, null @ ..] = values else { return Err(wrong()) };
    let Datum::Text(source) = source else { return Ok(None) };
    let null = match null.first() {
        Some(Datum::Text(null)) => Some(&**null),
        _ => None,
    };
    let mut parts = GrowingArray::new();
    let mut add = |part: &str| {
        let value = if Some(part) == null { Datum::Null } else { Datum::text(part) };
        let bytes = value_bytes(&value);
        parts.push(value, bytes)
    };
    match separator {
        _ if source.is_empty() => {}
        Datum::Text(separator) if separator.is_empty() => add(source)?,
        Datum::Text(separator) => source.split(&**separator).try_for_each(add)?,
        _ => source.chars().try_for_each(|c| add(&*c.encode_utf8(&mut [0; 4])))?,
    }
    Ok(Some(parts.into_values()))
}

fn string_to_array(values: &[Datum]) -> Result<Datum> {
    Ok(parts(values)?.map_or(Datum::Null, |parts| Datum::array(TypeOid::TEXT, parts)))
}

fn string_to_table(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    Ok(parts(values)?.unwrap_or_default())
}

/// The functions under a collation in which only ASCII letters have cases.
pub(crate) const ASCII: &[Function] = functions! {
    "lower" (TEXT) TEXT strict single immutable Unary(lower_ascii);
    "upper" (TEXT) TEXT strict single immutable Unary(upper_ascii);
    "initcap" (TEXT) TEXT strict single immutable Unary(initcap_ascii);
};

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "length" (TEXT) INT4 strict single immutable Unary(length);
    "length" (BPCHAR) INT4 strict single immutable Unary(blank_length);
    "length" (BYTEA) INT4 strict single immutable Unary(length);
    "char_length" (TEXT) INT4 strict single immutable Unary(length);
    "char_length" (BPCHAR) INT4 strict single immutable Unary(blank_length);
    "character_length" (TEXT) INT4 strict single immutable Unary(length);
    "character_length" (BPCHAR) INT4 strict single immutable Unary(blank_length);
    "octet_length" (TEXT) INT4 strict single immutable Unary(octet_length);
    "octet_length" (BPCHAR) INT4 strict single immutable Unary(octet_length);
    "octet_length" (BYTEA) INT4 strict single immutable Unary(octet_length);
    "bit_length" (TEXT) INT4 strict single immutable Unary(bit_length);
    "bit_length" (BYTEA) INT4 strict single immutable Unary(bit_length);
    "lower" (TEXT) TEXT strict single immutable Unary(lower);
    "upper" (TEXT) TEXT strict single immutable Unary(upper);
    "initcap" (TEXT) TEXT strict single immutable Unary(initcap);
    "repeat" (TEXT, INT4) TEXT strict single immutable Binary(repeat);
    "reverse" (TEXT) TEXT strict single immutable Unary(reverse);
    "substring" (TEXT, INT4) TEXT strict single immutable Pure(substring);
    "substring" (TEXT, INT4, INT4) TEXT strict single immutable Pure(substring);
    "substring" (BYTEA, INT4) BYTEA strict single immutable Pure(substring);
    "substring" (BYTEA, INT4, INT4) BYTEA strict single immutable Pure(substring);
    "substr" (BYTEA, INT4) BYTEA strict single immutable Pure(substring);
    "substr" (BYTEA, INT4, INT4) BYTEA strict single immutable Pure(substring);
    "substr" (TEXT, INT4) TEXT strict single immutable Pure(substring);
    "substr" (TEXT, INT4, INT4) TEXT strict single immutable Pure(substring);
    "position" (TEXT, TEXT) INT4 strict single immutable Binary(position);
    "strpos" (TEXT, TEXT) INT4 strict single immutable Binary(position);
    "replace" (TEXT, TEXT, TEXT) TEXT strict single immutable Pure(replace);
    "translate" (TEXT, TEXT, TEXT) TEXT strict single immutable Pure(translate);
    "lpad" (TEXT, INT4) TEXT strict single immutable Pure(lpad);
    "lpad" (TEXT, INT4, TEXT) TEXT strict single immutable Pure(lpad);
    "rpad" (TEXT, INT4) TEXT strict single immutable Pure(rpad);
    "rpad" (TEXT, INT4, TEXT) TEXT strict single immutable Pure(rpad);
    "btrim" (TEXT) TEXT strict single immutable Pure(btrim);
    "btrim" (TEXT, TEXT) TEXT strict single immutable Pure(btrim);
    "ltrim" (TEXT) TEXT strict single immutable Pure(ltrim);
    "ltrim" (TEXT, TEXT) TEXT strict single immutable Pure(ltrim);
    "rtrim" (TEXT) TEXT strict single immutable Pure(rtrim);
    "rtrim" (TEXT, TEXT) TEXT strict single immutable Pure(rtrim);
    "left" (TEXT, INT4) TEXT strict single immutable Binary(left);
    "right" (TEXT, INT4) TEXT strict single immutable Binary(right);
    "ascii" (TEXT) INT4 strict single immutable Unary(ascii);
    "chr" (INT4) TEXT strict single immutable Unary(chr);
    "split_part" (TEXT, TEXT, INT4) TEXT strict single immutable Pure(split_part);
    "starts_with" (TEXT, TEXT) BOOL strict single immutable Binary(starts_with);
    "to_hex" (INT4) TEXT strict single immutable Unary(to_hex);
    "to_hex" (INT8) TEXT strict single immutable Unary(to_hex);
    "like_escape" (TEXT, TEXT) TEXT strict single immutable Binary(crate::functions::text::pattern::like_escape);
    "like_escape" (BYTEA, BYTEA) BYTEA strict single immutable Binary(crate::functions::text::pattern::like_escape_bytes);
    "like" (TEXT, TEXT) BOOL strict single immutable Binary(crate::functions::text::pattern::like);
    "like" (NAME, TEXT) BOOL strict single immutable Binary(crate::functions::text::pattern::like);
    "like" (BYTEA, BYTEA) BOOL strict single immutable Binary(crate::functions::text::pattern::like_bytes);
    "notlike" (TEXT, TEXT) BOOL strict single immutable Binary(crate::functions::number::operators::not_like);
    "notlike" (NAME, TEXT) BOOL strict single immutable Binary(crate::functions::number::operators::not_like);
    "notlike" (BYTEA, BYTEA) BOOL strict single immutable Binary(crate::functions::number::operators::not_like_bytes);
    "overlay" (TEXT, TEXT, INT4) TEXT strict single immutable Pure(overlay);
    "overlay" (TEXT, TEXT, INT4, INT4) TEXT strict single immutable Pure(overlay);
    "string_to_array" (TEXT, TEXT) TEXTS nullable single immutable Pure(string_to_array);
    "string_to_array" (TEXT, TEXT, TEXT) TEXTS nullable single immutable Pure(string_to_array);
    "string_to_table" (TEXT, TEXT) TEXT nullable single immutable Set(string_to_table);
    "string_to_table" (TEXT, TEXT, TEXT) TEXT nullable single immutable Set(string_to_table);
};
