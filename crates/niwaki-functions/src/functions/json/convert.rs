//! Converts values of any type to JSON.

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::value_text;
use niwaki_parse::error::Result;
use niwaki_types::growing::charge_parts;
use niwaki_types::{
    DateStyle, Datum, Dimension, Jsonb, Numeric, Record, TextSettings, TypeOid, to_text,
    write_json_string,
};

use super::values::invalid;

/// Appends a value of type `oid` as the functions of `json` show it. Arrays have the text `line`
/// after each comma.
pub(super) fn write_json(
    value: &Datum,
    oid: TypeOid,
    line: &[u8],
    exec: &ExecContext<'_>,
    out: &mut Vec<u8>,
) {
    match value {
        Datum::Null => out.extend_from_slice(b"null"),
        Datum::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Datum::Text(text) if oid == TypeOid::JSON => out.extend_from_slice(text.as_bytes()),
        Datum::Jsonb(value) => value.write_text(out),
        Datum::Array(element, array) => {
            write_level(array.dimensions(), &mut array.iter(), *element, line, exec, out);
        }
        Datum::Record(oid, record) => write_fields(*oid, record, line, exec, out),
        value => {
            let shown = scalar_text(value, oid, exec);
            if is_number(value, &shown) {
                out.extend_from_slice(shown.as_bytes());
            } else {
                write_json_string(&shown, out);
            }
        }
    }
}

/// Appends a row as an object.
fn write_fields(
    oid: TypeOid,
    record: &Record,
    line: &[u8],
    exec: &ExecContext<'_>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (number, (kind, value)) in record.fields().enumerate() {
        if number > 0 {
            out.push(b',');
            out.extend_from_slice(line);
        }
        write_json_string(&record.name_of(number, oid, &exec.text.types), out);
        out.push(b':');
        write_json(value, kind, &[], exec, out);
    }
    out.push(b'}');
}

/// Appends one dimension of an array with the inner ones; only the outermost has lines.
fn write_level(
    dimensions: &[Dimension],
    values: &mut std::slice::Iter<'_, Datum>,
    element: TypeOid,
    line: &[u8],
    exec: &ExecContext<'_>,
    out: &mut Vec<u8>,
) {
    out.push(b'[');
    if let Some((dimension, inner)) = dimensions.split_first() {
        for at in 0..dimension.length {
            if at > 0 {
                out.push(b',');
                out.extend_from_slice(line);
            }
            if !inner.is_empty() {
                write_level(inner, values, element, &[], exec, out);
            } else if let Some(value) = values.next() {
                write_json(value, element, &[], exec, out);
            }
        }
    }
    out.push(b']');
}

/// Returns one dimension of an array, with the inner ones, as `jsonb`.
fn tree_level(
    dimensions: &[Dimension],
    values: &mut std::slice::Iter<'_, Datum>,
    element: TypeOid,
    exec: &ExecContext<'_>,
) -> Result<Jsonb> {
    let mut items = Vec::new();
    if let Some((dimension, inner)) = dimensions.split_first() {
        for _ in 0..dimension.length {
            if !inner.is_empty() {
                items.push(Arc::new(tree_level(inner, values, element, exec)?));
            } else if let Some(value) = values.next() {
                items.push(to_tree(value, element, exec)?);
            }
        }
    }
    Ok(Jsonb::array(items)?)
}

/// Returns a value of type `oid` as `jsonb`.
///
/// # Errors
/// Errors of reading `json` as `jsonb`.
pub(super) fn to_tree(value: &Datum, oid: TypeOid, exec: &ExecContext<'_>) -> Result<Arc<Jsonb>> {
    // The rough size of one value and its place.
    charge_parts(1, 2 * size_of::<Jsonb>())?;
    Ok(Arc::new(match value {
        Datum::Null => Jsonb::Null,
        Datum::Bool(value) => Jsonb::Bool(*value),
        Datum::Text(text) if oid == TypeOid::JSON => return Ok(Jsonb::parse(text)?),
        Datum::Jsonb(value) => return Ok(Arc::clone(value)),
        Datum::Array(element, array) => {
            tree_level(array.dimensions(), &mut array.iter(), *element, exec)?
        }
        Datum::Record(oid, record) => {
            let mut pairs = Vec::with_capacity(record.values().len());
            for (number, (kind, value)) in record.fields().enumerate() {
                let name = record.name_of(number, *oid, &exec.text.types);
                pairs.push((name, to_tree(value, kind, exec)?));
            }
            Jsonb::object(pairs)?
        }
        Datum::Numeric(value) if value.is_finite() => Jsonb::Number(Numeric::clone(value)),
        value => {
            let shown = scalar_text(value, oid, exec);
            if is_number(value, &shown) {
                Jsonb::Number(Numeric::parse(&shown)?)
            } else {
                Jsonb::string(&shown)
            }
        }
    }))
}

/// Returns the text of a value that is not NULL as the key of an object.
///
/// # Errors
/// `22023` for a value that has parts.
pub(super) fn key_text(value: &Datum, oid: TypeOid, exec: &ExecContext<'_>) -> Result<String> {
    match value {
        Datum::Array(..) | Datum::Jsonb(_) | Datum::Record(..) => Err(key_has_parts()),
        Datum::Text(_) if oid == TypeOid::JSON => Err(key_has_parts()),
        Datum::Bool(value) => Ok(if *value { "true" } else { "false" }.to_owned()),
        value => Ok(scalar_text(value, oid, exec)),
    }
}

fn key_has_parts() -> niwaki_parse::error::SqlError {
    invalid("key value must be scalar, not array, composite, or json")
}

/// Decides whether a value is a JSON number, which excludes words such as NaN.
fn is_number(value: &Datum, shown: &str) -> bool {
    let number = matches!(
        value,
        Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)
            | Datum::Float4(_)
            | Datum::Float8(_)
            | Datum::Numeric(_)
    );
    number && shown.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the text of a value without parts; moments are written as in XML.
fn scalar_text(value: &Datum, oid: TypeOid, exec: &ExecContext<'_>) -> String {
    let styled = matches!(value, Datum::Date(_) | Datum::Timestamp(_) | Datum::TimestampTz(_))
        && exec.text.date_style != DateStyle::Iso;
    let shown = if styled {
        to_text(value, oid, &TextSettings { date_style: DateStyle::Iso, ..exec.text.clone() })
    } else {
        value_text(value, oid, exec)
    };
    match value {
        Datum::Timestamp(_) => shown.replacen(' ', "T", 1),
        Datum::TimestampTz(_) => {
            let (moment, era) = match shown.strip_suffix(" BC") {
                Some(moment) => (moment, " BC"),
                None => (shown.as_str(), ""),
            };
            let Some((day, time)) = moment.split_once(' ') else { return shown };
            // The offset always has minutes.
            let hours_only =
                time.rfind(['+', '-']).is_some_and(|sign| time.len() == sign + "+00".len());
            let minutes = if hours_only { ":00" } else { "" };
            format!("{day}T{time}{minutes}{era}")
        }
        _ => shown,
    }
}
