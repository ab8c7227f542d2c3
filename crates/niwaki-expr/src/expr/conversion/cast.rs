//! Converts values to another type, length or precision.

use std::borrow::Cow;
use std::sync::Arc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{CastContext, CastPath, cast_path, element_of};
use niwaki_types::{
    ColumnType, Datum, InputContext, Numeric, TypeError, TypeOid, datetime, quoted_char,
};

use super::object_names::{object_input, object_name};
use crate::context::ExecContext;
use crate::expr::path_input;

/// Converts a value that is not NULL.
///
/// # Errors
/// `22003`, `22P02`, `42P01` (regclass), and the errors of the target's input function.
#[expect(clippy::only_used_in_recursion, reason = "casts to types of a fixed length will need it")]
pub fn cast_value(
    value: &Datum,
    from: TypeOid,
    to: TypeOid,
    explicit: bool,
    exec: &ExecContext<'_>,
) -> Result<Datum> {
    use TypeOid as T;
    match cast_path(from, to, CastContext::Explicit) {
        Some(CastPath::Relabel) => return Ok(value.clone()),
        Some(CastPath::Array) => {
            let (Datum::Array(_, array), Some(from), Some(to)) =
                (value, element_of(from), element_of(to))
            else {
                return Err(SqlError::internal("array cast of something else"));
            };
            let values = array
                .iter()
                .map(|v| {
                    if v.is_null() {
                        Ok(Datum::Null)
                    } else {
                        cast_value(v, from, to, explicit, exec)
                    }
                })
                .collect::<Result<Vec<Datum>>>()?;
            return Ok(Datum::Array(to, Arc::new(array.with_values(values))));
        }
        _ => {}
    }
    match (value, to) {
        (Datum::Jsonb(v), T::BOOL) => Ok(niwaki_types::jsonb_to_scalar(v, to)?),
        (Datum::Jsonb(v), _) if is_number(to) => Ok(niwaki_types::jsonb_to_scalar(v, to)?),
        (Datum::Int2(v), _) if is_number(to) => int_to(i64::from(*v), to),
        (Datum::Int4(v), _) if is_number(to) => int_to(i64::from(*v), to),
        (Datum::Int8(v), _) if is_number(to) => int_to(*v, to),
        (Datum::Oid(v), T::INT4) => Ok(Datum::Int4(v.cast_signed())),
        (Datum::Oid(v), T::INT8) => Ok(Datum::Int8(i64::from(*v))),
        (Datum::Float4(v), _) if is_number(to) => float_to(f64::from(*v), Some(*v), to),
        (Datum::Float8(v), _) if is_number(to) => float_to(*v, None, to),
        (Datum::Numeric(v), T::INT2) => Ok(Datum::Int2(v.to_i16()?)),
        (Datum::Numeric(v), T::INT4) => Ok(Datum::Int4(v.to_i32()?)),
        (Datum::Numeric(v), T::INT8) => Ok(Datum::Int8(v.to_i64()?)),
        (Datum::Numeric(v), T::FLOAT4) => Ok(Datum::Float4(v.to_f32()?)),
        (Datum::Numeric(v), T::FLOAT8) => Ok(Datum::Float8(v.to_f64()?)),
        (Datum::Int4(v), T::BOOL) => Ok(Datum::Bool(*v != 0)),
        (Datum::Bool(v), T::INT4) => Ok(Datum::Int4(i32::from(*v))),
        (Datum::Bool(v), T::TEXT | T::VARCHAR | T::BPCHAR) => {
            Ok(Datum::text(if *v { "true" } else { "false" }))
        }
        (Datum::Text(v), T::INT4) if from == T::CHAR => {
            Ok(Datum::Int4(quoted_char::byte(v).cast_signed().into()))
        }
        (Datum::Text(v), T::TEXT | T::VARCHAR | T::NAME | T::BPCHAR | T::CHAR) => {
            let text = match from {
                T::BPCHAR => Cow::Borrowed(v.trim_end_matches(' ')),
                T::CHAR if to != T::CHAR => quoted_char::shown(v),
                // The cast writes the length of the network part, which the output of a host
                // address leaves out.
                T::INET => Cow::Owned(format!("{v}/{}", if v.contains(':') { 128 } else { 32 })),
                _ => Cow::Borrowed(&**v),
            };
            let text = &*text;
            Ok(match to {
                T::NAME => Datum::text(truncate_name(text)),
                T::CHAR if from != T::CHAR => Datum::Text(quoted_char::parse(text).into()),
                _ if text.len() == v.len() => Datum::Text(Arc::clone(v)),
                _ => Datum::text(text),
            })
        }
        (
            Datum::Date(_) | Datum::Timestamp(_) | Datum::TimestampTz(_),
            T::DATE | T::TIMESTAMP | T::TIMESTAMPTZ,
        ) => super::convert_time::convert_time(value, to, exec.text),
        (
            Datum::Time(_)
            | Datum::TimeTz(_)
            | Datum::Interval(_)
            | Datum::Timestamp(_)
            | Datum::TimestampTz(_),
            T::TIME | T::TIMETZ | T::INTERVAL,
        ) => {
            let now = exec.environment.transaction_timestamp();
            crate::expr::convert_time_of_day(value, to, exec.text, now)
        }
        (Datum::Text(v), to) if to.is_object_name() => object_input(v, to, exec.catalog, exec.path),
        (Datum::Text(v), T::JSONPATH) => path_input(v),
        (Datum::Text(v), _) => {
            let text = if from == T::BPCHAR { v.trim_end_matches(' ') } else { v };
            let context =
                InputContext { settings: exec.text, now: exec.environment.transaction_timestamp() };
            Ok(niwaki_types::input(ColumnType::new(to), text, &context)?)
        }
        (value, T::NAME) => Ok(Datum::text(truncate_name(&value_text(value, from, exec)))),
        (value, T::TEXT | T::VARCHAR | T::BPCHAR | T::JSON) => {
            Ok(Datum::text(&value_text(value, from, exec)))
        }
        _ => Err(SqlError::internal(format!(
            "no conversion from {} to {}",
            niwaki_parse::types::format_oid(from),
            niwaki_parse::types::format_oid(to)
        ))),
    }
}

/// Converts a time that is not NULL, for a comparison with times of another type. A time beyond the
/// other type's range becomes a time before or behind all finite times of that type.
///
/// # Errors
/// The errors of [`cast_value`], except range errors.
pub(crate) fn cast_compared(
    value: &Datum,
    from: TypeOid,
    to: TypeOid,
    exec: &ExecContext<'_>,
) -> Result<Datum> {
    let outside = match cast_value(value, from, to, false, exec) {
        Err(error) if error.sqlstate == "22008" => error,
        done => return done,
    };
    let is_behind = match value {
        Datum::Date(days) => *days > 0,
        Datum::Timestamp(us) => *us > 0,
        _ => return Err(outside),
    };
    // These values stand next to infinity, where no finite time is.
    let us = if is_behind { i64::MAX - 1 } else { i64::MIN + 1 };
    match to {
        TypeOid::TIMESTAMP => Ok(Datum::Timestamp(us)),
        TypeOid::TIMESTAMPTZ => Ok(Datum::TimestampTz(us)),
        _ => Err(outside),
    }
}

/// Returns a value as text, with names for the numbers of catalog objects.
pub fn value_text(value: &Datum, oid: TypeOid, exec: &ExecContext<'_>) -> String {
    match value {
        Datum::Oid(number) if oid.is_object_name() => object_name(*number, oid, exec),
        // The array itself does not know the type that its numbers were cast to.
        Datum::Array(own, values) if element_of(oid).unwrap_or(*own).is_object_name() => {
            let element = element_of(oid).unwrap_or(*own);
            let names = values.iter().map(|value| match value {
                Datum::Null => Datum::Null,
                value => Datum::Text(value_text(value, element, exec).into()),
            });
            let names = Arc::new(values.with_values(names.collect()));
            let names = Datum::Array(TypeOid::TEXT, names);
            niwaki_types::to_text(&names, TypeOid::TEXT_ARRAY, exec.text)
        }
        value => niwaki_types::to_text(value, oid, exec.text),
    }
}

/// Decides whether the output of a type's values needs the catalog.
pub fn shows_names(oid: TypeOid) -> bool {
    oid.is_object_name() || element_of(oid).is_some_and(TypeOid::is_object_name)
}

fn is_number(oid: TypeOid) -> bool {
    use TypeOid as T;
    matches!(
        oid,
        T::INT2 | T::INT4 | T::INT8 | T::FLOAT4 | T::FLOAT8 | T::NUMERIC | T::OID | T::CHAR
    ) || oid.is_object_name()
}

fn int_to(value: i64, to: TypeOid) -> Result<Datum> {
    use TypeOid as T;
    let range = || SqlError::from(TypeError::out_of_range(to.display_name()));
    Ok(match to {
        T::INT2 => Datum::Int2(i16::try_from(value).map_err(|_| range())?),
        T::INT4 => Datum::Int4(i32::try_from(value).map_err(|_| range())?),
        T::INT8 => Datum::Int8(value),
        #[expect(clippy::cast_precision_loss, reason = "what the conversion means")]
        T::FLOAT4 => Datum::Float4(value as f32),
        #[expect(clippy::cast_precision_loss, reason = "what the conversion means")]
        T::FLOAT8 => Datum::Float8(value as f64),
        T::NUMERIC => Datum::Numeric(Arc::new(Numeric::from(value))),
        to if to.is_number_of_object() => Datum::Oid(match u32::try_from(value) {
            Ok(number) => number,
            // A negative int4 keeps its bits, as PostgreSQL's cast does.
            Err(_) => {
                i32::try_from(value).map_err(|_| TypeError::out_of_range("OID"))?.cast_unsigned()
            }
        }),
        T::CHAR => {
            let byte = i8::try_from(value).map_err(|_| TypeError::out_of_range("\"char\""))?;
            Datum::Text(quoted_char::of_byte(byte.cast_unsigned()).into())
        }
        _ => return Err(range()),
    })
}

fn float_to(value: f64, single: Option<f32>, to: TypeOid) -> Result<Datum> {
    use TypeOid as T;
    let range = || SqlError::from(TypeError::out_of_range(to.display_name()));
    // The conversion rounds halves to even, as rint does. The bounds are exact powers of two.
    let whole = |limit: f64| {
        let rounded = value.round_ties_even();
        if rounded >= -limit && rounded < limit { Ok(rounded) } else { Err(range()) }
    };
    #[expect(clippy::cast_possible_truncation, reason = "within bounds, checked just above")]
    Ok(match to {
        T::INT2 => Datum::Int2(whole(32_768.0)? as i16),
        T::INT4 => Datum::Int4(whole(2_147_483_648.0)? as i32),
        T::INT8 => Datum::Int8(whole(9_223_372_036_854_775_808.0)? as i64),
        T::FLOAT8 => Datum::Float8(value),
        T::FLOAT4 => {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(SqlError::new("22003", "value out of range: overflow"));
            }
            if narrow == 0.0 && value != 0.0 {
                return Err(SqlError::new("22003", "value out of range: underflow"));
            }
            Datum::Float4(narrow)
        }
        T::NUMERIC => Datum::Numeric(Arc::new(match single {
            Some(single) => Numeric::from_f32(single),
            None => Numeric::from_f64(value),
        })),
        _ => return Err(range()),
    })
}

/// Returns the first 63 bytes of a name, cut at a character boundary.
pub(crate) fn truncate_name(text: &str) -> &str {
    if text.len() <= 63 {
        return text;
    }
    let mut end = 63;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Reads a relation name (or a number) for `regclass`.
pub(crate) fn regclass_input(
    text: &str,
    catalog: &niwaki_catalog::CatalogState,
    path: &niwaki_catalog::SearchPath,
) -> Result<Datum> {
    let trimmed = text.trim();
    if trimmed == "-" {
        return Ok(Datum::Oid(0));
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return trimmed.parse().map(Datum::Oid).map_err(|_| {
            SqlError::new("22003", format!("value \"{trimmed}\" is out of range for type oid"))
        });
    }
    let parts =
        split_identifier(trimmed).ok_or_else(|| SqlError::new("42602", "invalid name syntax"))?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        [_, schema, name] => (Some(schema.as_str()), name),
        _ => {
            return Err(SqlError::new("42601", "improper relation name (too many dotted names): "));
        }
    };
    match catalog.resolve(path, schema, name) {
        Ok(relation) => Ok(Datum::Oid(relation.oid.0)),
        // A composite type is a relation to PostgreSQL.
        Err(error) => match catalog.resolve_type(path, schema, name) {
            Some(found) if found.attributes().is_some() => Ok(Datum::Oid(found.oid.0)),
            _ => Err(match schema.filter(|schema| catalog.schema_by_name(schema).is_none()) {
                Some(schema) => SqlError::undefined_schema(schema),
                None => error.into(),
            }),
        },
    }
}

/// Splits a possibly quoted, dotted name into its parts, and folds unquoted parts to lower case.
pub(crate) fn split_identifier(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        if let Some(after) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut characters = after.char_indices().peekable();
            let end = loop {
                let (at, character) = characters.next()?;
                if character != '"' {
                    part.push(character);
                } else if characters.peek().is_some_and(|(_, next)| *next == '"') {
                    part.push('"');
                    characters.next();
                } else {
                    break at + 1;
                }
            };
            parts.push(truncate_name(&part).to_owned());
            rest = after.get(end..)?.trim_start();
        } else {
            let end = rest.find(|c: char| c == '.' || c.is_whitespace()).unwrap_or(rest.len());
            let part = rest.get(..end)?;
            let mut characters = part.chars();
            let first = characters.next()?;
            if !(first.is_alphabetic() || first == '_')
                || !characters.all(|c| c.is_alphanumeric() || c == '_' || c == '$')
            {
                return None;
            }
            parts.push(truncate_name(&part.to_lowercase()).to_owned());
            rest = rest.get(end..)?.trim_start();
        }
        if rest.is_empty() {
            return Some(parts);
        }
        rest = rest.strip_prefix('.')?.trim_start();
    }
}

/// Fits a value to its column's length, precision or number of fractional digits.
///
/// An explicit cast cuts a string that is too long. Storing such a string fails unless only blanks
/// are cut.
///
/// # Errors
/// `22001` for a string that is too long, `22003` for a number with too many digits.
pub fn coerce_length(value: Datum, column: ColumnType, explicit: bool) -> Result<Datum> {
    if column.typmod < 0 {
        return Ok(value);
    }
    if let (Datum::Array(kind, array), Some(element)) = (&value, element_of(column.oid)) {
        let column = ColumnType::with_typmod(element, column.typmod);
        let values = array.iter().map(|value| coerce_length(value.clone(), column, explicit));
        let values = values.collect::<Result<Vec<Datum>>>()?;
        return Ok(Datum::Array(*kind, Arc::new(array.with_values(values))));
    }
    match (&value, column.oid) {
        (Datum::Text(text), TypeOid::VARCHAR | TypeOid::BPCHAR) => {
            let Some(limit) = column.length_limit() else { return Ok(value) };
            let pads = column.oid == TypeOid::BPCHAR;
            // A text of at most `limit` bytes has at most `limit` characters.
            if text.len() == limit && text.is_ascii() || (!pads && text.len() <= limit) {
                return Ok(value);
            }
            let count = text.chars().count();
            if count > limit {
                let cut = text.char_indices().nth(limit).map_or(text.len(), |(byte, _)| byte);
                if !explicit && text[cut..].bytes().any(|b| b != b' ') {
                    return Err(SqlError::new(
                        "22001",
                        format!(
                            "value too long for type {}",
                            niwaki_parse::types::format_type(column)
                        ),
                    ));
                }
                return Ok(Datum::text(&text[..cut]));
            }
            if pads && count < limit {
                let mut padded = String::with_capacity(text.len() + limit - count);
                padded.push_str(text);
                padded.extend(std::iter::repeat_n(' ', limit - count));
                return Ok(Datum::Text(padded.into()));
            }
            Ok(value)
        }
        (Datum::Numeric(number), TypeOid::NUMERIC) => {
            Ok(Datum::Numeric(Arc::new(number.apply_typmod(column.typmod)?)))
        }
        (Datum::Timestamp(micros), TypeOid::TIMESTAMP) => {
            Ok(Datum::Timestamp(round_micros(*micros, column.typmod)))
        }
        (Datum::TimestampTz(micros), TypeOid::TIMESTAMPTZ) => {
            Ok(Datum::TimestampTz(round_micros(*micros, column.typmod)))
        }
        (Datum::Time(time), TypeOid::TIME) => {
            Ok(Datum::Time(datetime::round_time(*time, column.typmod)))
        }
        (Datum::TimeTz(time), TypeOid::TIMETZ) => Ok(Datum::TimeTz(time.round(column.typmod))),
        (Datum::Interval(interval), TypeOid::INTERVAL) => {
            Ok(Datum::Interval(Arc::new(interval.apply_typmod(column.typmod)?)))
        }
        _ => Ok(value),
    }
}

/// Rounds to `digits` fractional digits of a second, halves away from zero.
fn round_micros(micros: i64, digits: i32) -> i64 {
    let Ok(digits) = u32::try_from(digits) else { return micros };
    if digits >= 6 || micros == i64::MAX || micros == i64::MIN {
        return micros;
    }
    let unit = 10i64.pow(6 - digits);
    let half = unit / 2;
    let rounded = if micros >= 0 { micros.checked_add(half) } else { micros.checked_sub(half) };
    rounded.map_or(micros, |r| r / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_the_grammar_does() {
        assert_eq!(split_identifier("Foo").unwrap(), ["foo"]);
        assert_eq!(split_identifier("\"Foo\" . bar").unwrap(), ["Foo", "bar"]);
        assert_eq!(split_identifier("\"a\"\"b\"").unwrap(), ["a\"b"]);
        assert!(split_identifier("a..b").is_none());
        assert!(split_identifier("").is_none());
        assert!(split_identifier("\"a").is_none());
    }

    #[test]
    fn strings_are_fitted_as_columns_and_casts_do() {
        let char3 = ColumnType::with_typmod(TypeOid::BPCHAR, 7);
        let varchar3 = ColumnType::with_typmod(TypeOid::VARCHAR, 7);
        let fit = |text, column, explicit| match coerce_length(Datum::text(text), column, explicit)
        {
            Ok(Datum::Text(text)) => Ok(text.to_string()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.message.clone()),
        };
        assert_eq!(fit("é", char3, false).unwrap(), "é  ");
        assert_eq!(fit("abc   ", varchar3, false).unwrap(), "abc");
        assert_eq!(fit("abcd", varchar3, true).unwrap(), "abc");
        assert_eq!(
            fit("abcd", varchar3, false).unwrap_err(),
            "value too long for type character varying(3)"
        );
        assert_eq!(fit("abcd", char3, false).unwrap_err(), "value too long for type character(3)");
    }
}
