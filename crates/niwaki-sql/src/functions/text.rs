//! Functions on strings and byte strings.

use md5::{Digest, Md5};
use niwaki_types::{Datum, TypeOid};

use super::{Function, functions};
use crate::context::ExecContext;
use crate::error::{Result, SqlError};
use crate::expr::value_text;

/// Longest string a function makes, in bytes (PostgreSQL's limit of one value).
const TEXT_BYTES_MAX: usize = 1 << 30;

fn wrong() -> SqlError {
    SqlError::internal("a text function was given values of other types")
}

fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(text) => Ok(text),
        _ => Err(wrong()),
    }
}

fn int(value: &Datum) -> Result<i64> {
    match value {
        Datum::Int4(v) => Ok(i64::from(*v)),
        Datum::Int8(v) => Ok(*v),
        _ => Err(wrong()),
    }
}

fn string(text: impl Into<std::sync::Arc<str>>) -> Datum {
    Datum::Text(text.into())
}

fn count(value: usize) -> Result<Datum> {
    i32::try_from(value).map(Datum::Int4).map_err(|_| super::operators::range("integer"))
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

fn lower(a: &Datum) -> Result<Datum> {
    Ok(string(text(a)?.to_lowercase()))
}

fn upper(a: &Datum) -> Result<Datum> {
    Ok(string(text(a)?.to_uppercase()))
}

fn initcap(a: &Datum) -> Result<Datum> {
    let mut result = String::new();
    let mut inside = false;
    for character in text(a)?.chars() {
        if inside {
            result.extend(character.to_lowercase());
        } else {
            result.extend(character.to_uppercase());
        }
        inside = character.is_alphanumeric();
    }
    Ok(string(result))
}

fn md5_hex(a: &Datum) -> Result<Datum> {
    let bytes: &[u8] = match a {
        Datum::Bytea(bytes) => bytes,
        _ => text(a)?.as_bytes(),
    };
    let mut result = String::with_capacity(32);
    for byte in Md5::digest(bytes) {
        for digit in [byte >> 4, byte & 15] {
            result.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    Ok(string(result))
}

fn repeat(a: &Datum, times: &Datum) -> Result<Datum> {
    let piece = text(a)?;
    let times = usize::try_from(int(times)?).unwrap_or(0);
    if piece.len().saturating_mul(times) >= TEXT_BYTES_MAX {
        return Err(SqlError::new("54000", "requested length too large"));
    }
    Ok(string(piece.repeat(times)))
}

fn reverse(a: &Datum) -> Result<Datum> {
    Ok(string(text(a)?.chars().rev().collect::<String>()))
}

/// `substring(s from start for count)` in characters; `start` may be before the string.
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

fn substring_pattern(a: &Datum, pattern: &Datum) -> Result<Datum> {
    let source = text(a)?;
    let compiled = super::pattern::compile(text(pattern)?, false)?;
    Ok(compiled
        .captures(source)
        .and_then(|found| found.get(1).or_else(|| found.get(0)))
        .map_or(Datum::Null, |found| Datum::text(found.as_str())))
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
    Ok(string(text(source)?.replace(from, text(to)?)))
}

fn translate(values: &[Datum]) -> Result<Datum> {
    let [source, from, to] = values else { return Err(wrong()) };
    let to: Vec<char> = text(to)?.chars().collect();
    let from: Vec<char> = text(from)?.chars().collect();
    let mut result = String::new();
    for character in text(source)?.chars() {
        match from.iter().position(|f| *f == character) {
            None => result.push(character),
            Some(at) => result.extend(to.get(at)),
        }
    }
    Ok(string(result))
}

fn pad(values: &[Datum], left: bool) -> Result<Datum> {
    let fill = match values.get(2) {
        Some(fill) => text(fill)?,
        None => " ",
    };
    let [source, width, ..] = values else { return Err(wrong()) };
    let (source, width) = (text(source)?, usize::try_from(int(width)?).unwrap_or(0));
    if width.saturating_mul(4) >= TEXT_BYTES_MAX {
        return Err(SqlError::new("54000", "requested length too large"));
    }
    let have = source.chars().count();
    if have >= width {
        return Ok(string(source.chars().take(width).collect::<String>()));
    }
    let padding: String = fill.chars().cycle().take(width - have).collect();
    Ok(string(if left { padding + source } else { source.to_owned() + &padding }))
}

fn lpad(values: &[Datum]) -> Result<Datum> {
    pad(values, true)
}
fn rpad(values: &[Datum]) -> Result<Datum> {
    pad(values, false)
}

fn trim(values: &[Datum], left: bool, right: bool) -> Result<Datum> {
    let set = match values.get(1) {
        Some(set) => text(set)?,
        None => " ",
    };
    let mut rest = text(values.first().ok_or_else(wrong)?)?;
    let removed = |c: char| set.contains(c);
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
    if code == 0 {
        return Err(SqlError::new("54000", "null character not permitted"));
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
    let parts: Vec<&str> =
        if separator.is_empty() { vec![source] } else { source.split(separator).collect() };
    let size = i64::try_from(parts.len()).unwrap_or(i64::MAX);
    let index = if number > 0 { number - 1 } else { size.saturating_add(number) };
    Ok(Datum::text(usize::try_from(index).ok().and_then(|i| parts.get(i)).copied().unwrap_or("")))
}

fn starts_with(a: &Datum, prefix: &Datum) -> Result<Datum> {
    Ok(Datum::Bool(text(a)?.starts_with(text(prefix)?)))
}

fn to_hex(a: &Datum) -> Result<Datum> {
    Ok(string(match a {
        Datum::Int4(v) => format!("{v:x}"),
        _ => format!("{:x}", int(a)?),
    }))
}

/// The type a value of a polymorphic argument has, as far as showing it goes.
pub(super) fn shown_type(value: &Datum) -> TypeOid {
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
        Datum::Array(element, _) => crate::types::array_of(*element).unwrap_or(TypeOid::TEXT_ARRAY),
        Datum::Text(_) | Datum::Null => TypeOid::TEXT,
    }
}

fn shown(value: &Datum, exec: &ExecContext<'_>) -> String {
    match value {
        Datum::Text(text) => text.to_string(),
        // concat() shows booleans as the type's output function does: t and f.
        other => value_text(other, shown_type(other), exec),
    }
}

fn concat(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let mut result = String::new();
    for value in values.iter().filter(|v| !v.is_null()) {
        result.push_str(&shown(value, exec));
    }
    Ok(string(result))
}

fn concat_ws(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some((Datum::Text(separator), values)) = values.split_first() else {
        return Ok(Datum::Null);
    };
    let parts: Vec<String> =
        values.iter().filter(|v| !v.is_null()).map(|v| shown(v, exec)).collect();
    Ok(string(parts.join(separator)))
}

/// `format(template, …)` with `%s`, `%I`, `%L`, `%%` and positions.
fn format_text(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some((Datum::Text(template), values)) = values.split_first() else {
        return Ok(Datum::Null);
    };
    let mut result = String::new();
    let mut next = 0usize;
    let mut characters = template.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            result.push(character);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = characters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if !digits.is_empty() {
            if characters.next_if_eq(&'$').is_none() {
                return Err(SqlError::unsupported("a width in format()"));
            }
            next = match digits.parse::<usize>() {
                Ok(0) => {
                    return Err(SqlError::new(
                        "22023",
                        "format specifies argument 0, but arguments are numbered from 1",
                    ));
                }
                Ok(n) => n - 1,
                Err(_) => return Err(SqlError::new("22003", "number is out of range")),
            };
        }
        let specifier = characters.next().ok_or_else(|| {
            SqlError::new("22023", "unterminated format() type specifier")
                .with_hint("For a single \"%\" use \"%%\".")
        })?;
        if specifier == '%' {
            result.push('%');
            continue;
        }
        if !matches!(specifier, 's' | 'I' | 'L') {
            return Err(SqlError::new(
                "22023",
                format!("unrecognized format() type specifier \"{specifier}\""),
            )
            .with_hint("For a single \"%\" use \"%%\"."));
        }
        let value = values
            .get(next)
            .ok_or_else(|| SqlError::new("22023", "too few arguments for format()"))?;
        next += 1;
        match (specifier, value.is_null()) {
            ('s', true) => {}
            ('s', false) => result.push_str(&shown(value, exec)),
            ('I', true) => {
                return Err(SqlError::new(
                    "22004",
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('I', false) => result.push_str(&quote_identifier(&shown(value, exec))),
            (_, true) => result.push_str("NULL"),
            (_, false) => result.push_str(&quote_string(&shown(value, exec))),
        }
    }
    Ok(string(result))
}

/// Words that cannot be column names without quotes, as `quote_ident` must know.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// A name as it must be written in SQL: quoted unless it is a plain lower-case word.
pub(crate) fn quote_identifier(name: &str) -> String {
    let mut bytes = name.bytes();
    let plain = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !RESERVED.contains(&name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A string as an SQL literal.
pub(crate) fn quote_string(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if value.contains('\\') {
        return format!("E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

fn quote_ident(a: &Datum) -> Result<Datum> {
    Ok(string(quote_identifier(text(a)?)))
}

fn quote_literal(a: &Datum) -> Result<Datum> {
    Ok(string(quote_string(text(a)?)))
}

fn quote_nullable(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Null] => Ok(Datum::text("NULL")),
        [value] => quote_literal(value),
        _ => Err(wrong()),
    }
}

fn regexp_replace(values: &[Datum]) -> Result<Datum> {
    let [source, pattern, replacement, flags @ ..] = values else { return Err(wrong()) };
    let flags = match flags.first() {
        Some(flags) => text(flags)?,
        None => "",
    };
    if let Some(unknown) = flags.chars().find(|c| !matches!(c, 'g' | 'i')) {
        return Err(SqlError::unsupported(format!("regular expression option \"{unknown}\"")));
    }
    let compiled = super::pattern::compile(text(pattern)?, flags.contains('i'))?;
    // \1 … \9 and \& become the library's ${n}; a plain $ is doubled.
    let mut replacement_text = String::new();
    let mut characters = text(replacement)?.chars();
    while let Some(character) = characters.next() {
        match character {
            '$' => replacement_text.push_str("$$"),
            '\\' => match characters.next() {
                Some('&') => replacement_text.push_str("${0}"),
                Some(digit @ '1'..='9') => {
                    replacement_text.push_str("${");
                    replacement_text.push(digit);
                    replacement_text.push('}');
                }
                Some(other) => replacement_text.push(other),
                None => replacement_text.push('\\'),
            },
            character => replacement_text.push(character),
        }
    }
    let source = text(source)?;
    let result = if flags.contains('g') {
        compiled.replace_all(source, replacement_text.as_str())
    } else {
        compiled.replace(source, replacement_text.as_str())
    };
    Ok(Datum::text(&result))
}

fn encode(bytes: &Datum, format: &Datum) -> Result<Datum> {
    let Datum::Bytea(bytes) = bytes else { return Err(wrong()) };
    match text(format)?.to_ascii_lowercase().as_str() {
        "hex" => {
            let mut result = String::with_capacity(bytes.len() * 2);
            for byte in bytes.iter() {
                for digit in [byte >> 4, byte & 15] {
                    result.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
                }
            }
            Ok(string(result))
        }
        other => Err(SqlError::unsupported(format!("encoding \"{other}\""))),
    }
}

fn decode(source: &Datum, format: &Datum) -> Result<Datum> {
    let source = text(source)?;
    match text(format)?.to_ascii_lowercase().as_str() {
        "hex" => {
            let digits: Vec<char> = source.chars().filter(|c| !c.is_whitespace()).collect();
            if !digits.len().is_multiple_of(2) {
                return Err(SqlError::new(
                    "22023",
                    "invalid hexadecimal data: odd number of digits",
                ));
            }
            let mut bytes = Vec::with_capacity(digits.len() / 2);
            for pair in digits.chunks(2) {
                let mut byte = 0u32;
                for digit in pair {
                    let value = digit.to_digit(16).ok_or_else(|| {
                        SqlError::new("22023", format!("invalid hexadecimal digit: \"{digit}\""))
                    })?;
                    byte = byte * 16 + value;
                }
                bytes.push(u8::try_from(byte).unwrap_or(0));
            }
            Ok(Datum::Bytea(bytes.into()))
        }
        other => Err(SqlError::unsupported(format!("encoding \"{other}\""))),
    }
}

fn string_to_array(values: &[Datum]) -> Result<Datum> {
    let [source, separator] = values else { return Err(wrong()) };
    let Datum::Text(source) = source else { return Ok(Datum::Null) };
    let parts: Vec<Datum> = match separator {
        _ if source.is_empty() => Vec::new(),
        Datum::Text(separator) if separator.is_empty() => vec![Datum::text(source)],
        Datum::Text(separator) => source.split(&**separator).map(Datum::text).collect(),
        _ => source.chars().map(|c| string(String::from(c))).collect(),
    };
    Ok(Datum::Array(TypeOid::TEXT, parts.into()))
}

fn array_to_string(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(_, elements), Datum::Text(separator), rest @ ..] = values else {
        return Ok(Datum::Null);
    };
    let mut parts = Vec::new();
    for element in elements.iter() {
        match (element, rest.first()) {
            (Datum::Null, Some(Datum::Text(null))) => parts.push(null.to_string()),
            (Datum::Null, _) => {}
            (value, _) => parts.push(shown(value, exec)),
        }
    }
    Ok(string(parts.join(separator)))
}

pub(super) const FUNCTIONS: &[Function] = functions! {
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
    "md5" (TEXT) TEXT strict single immutable Unary(md5_hex);
    "md5" (BYTEA) TEXT strict single immutable Unary(md5_hex);
    "repeat" (TEXT, INT4) TEXT strict single immutable Binary(repeat);
    "reverse" (TEXT) TEXT strict single immutable Unary(reverse);
    "substring" (TEXT, INT4) TEXT strict single immutable Pure(substring);
    "substring" (TEXT, INT4, INT4) TEXT strict single immutable Pure(substring);
    "substring" (BYTEA, INT4) BYTEA strict single immutable Pure(substring);
    "substring" (BYTEA, INT4, INT4) BYTEA strict single immutable Pure(substring);
    "substring" (TEXT, TEXT) TEXT strict single immutable Binary(substring_pattern);
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
    "concat" (ANY) TEXT nullable variadic stable Context(concat);
    "concat_ws" (TEXT, ANY) TEXT nullable variadic stable Context(concat_ws);
    "format" (TEXT) TEXT nullable single stable Context(format_text);
    "format" (TEXT, ANY) TEXT nullable variadic stable Context(format_text);
    "quote_ident" (TEXT) TEXT strict single immutable Unary(quote_ident);
    "quote_literal" (TEXT) TEXT strict single immutable Unary(quote_literal);
    "quote_nullable" (TEXT) TEXT nullable single immutable Pure(quote_nullable);
    "regexp_replace" (TEXT, TEXT, TEXT) TEXT strict single immutable Pure(regexp_replace);
    "regexp_replace" (TEXT, TEXT, TEXT, TEXT) TEXT strict single immutable Pure(regexp_replace);
    "like_escape" (TEXT, TEXT) TEXT strict single immutable Binary(super::pattern::like_escape);
    "encode" (BYTEA, TEXT) TEXT strict single immutable Binary(encode);
    "decode" (TEXT, TEXT) BYTEA strict single immutable Binary(decode);
    "string_to_array" (TEXT, TEXT) TEXTS nullable single immutable Pure(string_to_array);
    "array_to_string" (ARRAY, TEXT) TEXT nullable single stable Context(array_to_string);
    "array_to_string" (ARRAY, TEXT, TEXT) TEXT nullable single stable Context(array_to_string);
};
