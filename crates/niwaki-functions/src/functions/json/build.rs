//! Builds JSON arrays and objects, also in aggregates.

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::{ask_to_grow, charge_more, value_bytes};
use niwaki_types::{Datum, Jsonb, TypeOid, write_json_string};

use super::convert::{key_text, to_tree, write_json};
use super::values::{invalid, string, texts, wrong};

pub(super) fn to_json(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    let ([oid, ..], [value, ..]) = (types, values) else { return Err(wrong()) };
    let mut out = Vec::new();
    write_json(value, *oid, &[], exec, &mut out);
    string(out)
}

pub(super) fn to_jsonb(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    let ([oid, ..], [value, ..]) = (types, values) else { return Err(wrong()) };
    to_tree(value, *oid, exec).map(Datum::Jsonb)
}

/// `array_to_json(array [, pretty])`
pub(super) fn array_to_json(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    let ([oid, ..], [value, rest @ ..]) = (types, values) else { return Err(wrong()) };
    let line: &[u8] = if matches!(rest, [Datum::Bool(true)]) { b"\n " } else { &[] };
    let mut out = Vec::new();
    write_json(value, *oid, line, exec, &mut out);
    string(out)
}

/// `row_to_json(record [, pretty])`
pub(super) fn row_to_json(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    array_to_json(exec, types, values)
}

/// A function that builds a JSON value from arguments and their types.
type Build = fn(&mut ExecContext<'_>, &[TypeOid], &[Datum]) -> Result<Datum>;

/// Builds the value from the elements of an array, of all its dimensions: `VARIADIC array`.
fn of_elements(build: Build, exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, elements)] = values else { return Ok(Datum::Null) };
    build(exec, &vec![*element; elements.len()], elements)
}

pub(super) fn json_array_of(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    of_elements(json_array, exec, values)
}

pub(super) fn jsonb_array_of(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    of_elements(jsonb_array, exec, values)
}

pub(super) fn json_object_of(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    of_elements(json_object, exec, values)
}

pub(super) fn jsonb_object_of(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    of_elements(jsonb_object, exec, values)
}

pub(super) fn json_array(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    let mut out = vec![b'['];
    for (at, (value, oid)) in values.iter().zip(types).enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        write_json(value, *oid, &[], exec, &mut out);
        charge_more(out.len(), 0)?;
    }
    out.push(b']');
    string(out)
}

pub(super) fn jsonb_array(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    let items = values.iter().zip(types).map(|(value, oid)| to_tree(value, *oid, exec));
    let array = Jsonb::array(items.collect::<Result<_>>()?)?;
    Ok(Datum::Jsonb(Arc::new(array)))
}

/// Refuses a key without a value.
fn check_pairs(values: &[Datum], function: &str) -> Result<()> {
    if values.len().is_multiple_of(2) {
        return Ok(());
    }
    Err(invalid("argument list must have even number of elements").with_hint(format!(
        "The arguments of {function}() must consist of alternating keys and values."
    )))
}

pub(super) fn json_object(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    check_pairs(values, "json_build_object")?;
    let mut out = vec![b'{'];
    for (at, (pair, oids)) in values.chunks(2).zip(types.chunks(2)).enumerate() {
        let ([key, value], [key_oid, oid]) = (pair, oids) else { return Err(wrong()) };
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        if key.is_null() {
            return Err(invalid(format!("argument {} cannot be null", 2 * at + 1))
                .with_hint("Object keys should be text."));
        }
        write_json_string(&key_text(key, *key_oid, exec)?, &mut out);
        out.extend_from_slice(b" : ");
        write_json(value, *oid, &[], exec, &mut out);
        charge_more(out.len(), 0)?;
    }
    out.push(b'}');
    string(out)
}

pub(super) fn jsonb_object(
    exec: &mut ExecContext<'_>,
    types: &[TypeOid],
    values: &[Datum],
) -> Result<Datum> {
    check_pairs(values, "jsonb_build_object")?;
    let mut pairs = Vec::with_capacity(values.len() / 2);
    for (at, (pair, oids)) in values.chunks(2).zip(types.chunks(2)).enumerate() {
        let ([key, value], [key_oid, oid]) = (pair, oids) else { return Err(wrong()) };
        if key.is_null() {
            return Err(invalid(format!("argument {}: key must not be null", 2 * at + 1)));
        }
        let key = key_text(key, *key_oid, exec)?;
        pairs.push((key.into(), to_tree(value, *oid, exec)?));
    }
    Ok(Datum::Jsonb(Arc::new(Jsonb::object(pairs)?)))
}

/// Returns the pairs of `json_object(texts)`, or `json_object(keys, values)`.
fn text_pairs(values: &[Datum]) -> Result<Vec<(&str, Option<&str>)>> {
    let subscripts = |message: &str| SqlError::new("2202E", message);
    let pairs: Vec<(Option<&str>, Option<&str>)> = match values {
        [both] => {
            let both = texts(both)?;
            if !both.len().is_multiple_of(2) {
                return Err(subscripts("array must have even number of elements"));
            }
            both.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        }
        [keys, values] => {
            let (keys, values) = (texts(keys)?, texts(values)?);
            if keys.len() != values.len() {
                return Err(subscripts("mismatched array dimensions"));
            }
            keys.into_iter().zip(values).collect()
        }
        _ => return Err(wrong()),
    };
    let with_key = |(key, value): (Option<_>, _)| {
        let missing = || SqlError::new("22004", "null value not allowed for object key");
        key.map(|key| (key, value)).ok_or_else(missing)
    };
    pairs.into_iter().map(with_key).collect()
}

pub(super) fn json_of_texts(values: &[Datum]) -> Result<Datum> {
    let mut out = vec![b'{'];
    for (at, (key, value)) in text_pairs(values)?.into_iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        write_json_string(key, &mut out);
        out.extend_from_slice(b" : ");
        match value {
            Some(value) => write_json_string(value, &mut out),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    string(out)
}

pub(super) fn jsonb_of_texts(values: &[Datum]) -> Result<Datum> {
    let pair = |(key, value): (&str, Option<&str>)| {
        (Arc::from(key), Arc::new(value.map_or(Jsonb::Null, Jsonb::string)))
    };
    let object = Jsonb::object(text_pairs(values)?.into_iter().map(pair).collect())?;
    Ok(Datum::Jsonb(Arc::new(object)))
}

/// Appends a part to the parts of a state. The vector doubles when it grows.
fn push<T>(parts: &mut Vec<T>, part: T) -> Result<()> {
    let place = size_of::<T>();
    let [capacity, length] = [parts.capacity(), parts.len()];
    ask_to_grow(capacity.saturating_mul(place), length.saturating_mul(place), place)?;
    parts.push(part);
    Ok(())
}

/// The running state of `json_agg`, `jsonb_agg`, `json_object_agg` or `jsonb_object_agg`.
#[derive(Clone, Debug)]
pub enum JsonAggregate {
    /// A text.
    Text {
        /// The text so far, empty before the first row.
        text: Vec<u8>,
        /// True if it is an object.
        object: bool,
    },
    /// A jsonb array.
    Items {
        /// The items so far.
        items: Option<Vec<Arc<Jsonb>>>,
        /// The bytes of memory that they take.
        bytes: usize,
    },
    /// A jsonb object.
    Pairs {
        /// The pairs so far.
        pairs: Option<Vec<(Arc<str>, Arc<Jsonb>)>>,
        /// The bytes of memory that they take.
        bytes: usize,
    },
}

impl JsonAggregate {
    /// Returns the state before the first row.
    pub fn new(binary: bool, object: bool) -> Self {
        match (binary, object) {
            (false, object) => Self::Text { text: Vec::new(), object },
            (true, false) => Self::Items { items: None, bytes: 0 },
            (true, true) => Self::Pairs { pairs: None, bytes: 0 },
        }
    }

    /// Returns the bytes of memory that the state holds, roughly.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text, .. } => text.len(),
            Self::Items { items, bytes } => bytes + size_of_val(items.as_deref().unwrap_or(&[])),
            Self::Pairs { pairs, bytes } => bytes + size_of_val(pairs.as_deref().unwrap_or(&[])),
        }
    }

    /// Adds a row's arguments, whose types are `types`.
    ///
    /// # Errors
    /// `22023` for a key that is NULL or has parts. `54000` or `53200` when the value grows too
    /// large.
    pub fn add(
        &mut self,
        types: &[TypeOid],
        values: &[Datum],
        exec: &ExecContext<'_>,
    ) -> Result<()> {
        let named = || invalid("field name must not be null");
        match (self, values, types) {
            (Self::Text { text, object: false }, [value], [oid]) => {
                let first = text.is_empty();
                text.extend_from_slice(if first { b"[" } else { b", " });
                if !first && matches!(value, Datum::Array(..) | Datum::Record(..)) {
                    text.extend_from_slice(b"\n ");
                }
                charge_more(text.len(), value_bytes(value))?;
                ask_to_grow(text.capacity(), text.len(), value_bytes(value))?;
                write_json(value, *oid, &[], exec, text);
            }
            (Self::Text { text, object: true }, [key, value], [key_oid, oid]) => {
                text.extend_from_slice(if text.is_empty() { b"{ " } else { b", " });
                if key.is_null() {
                    return Err(named());
                }
                write_json_string(&key_text(key, *key_oid, exec)?, text);
                text.extend_from_slice(b" : ");
                charge_more(text.len(), value_bytes(value))?;
                ask_to_grow(text.capacity(), text.len(), value_bytes(value))?;
                write_json(value, *oid, &[], exec, text);
            }
            (Self::Items { items, bytes }, [value], [oid]) => {
                let item = to_tree(value, *oid, exec)?;
                charge_more(*bytes, item.memory())?;
                *bytes += item.memory();
                push(items.get_or_insert_default(), item)?;
            }
            (Self::Pairs { pairs, bytes }, [key, value], [key_oid, oid]) => {
                if key.is_null() {
                    return Err(named());
                }
                let key = key_text(key, *key_oid, exec)?;
                let value = to_tree(value, *oid, exec)?;
                charge_more(*bytes, key.len() + value.memory())?;
                *bytes += key.len() + value.memory();
                push(pairs.get_or_insert_default(), (key.into(), value))?;
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Returns the result; NULL if there was no row.
    ///
    /// # Errors
    /// `54000` or `53200` for a value that is too large, `54001` for one that nests too deeply.
    pub fn finish(self) -> Result<Datum> {
        let tree = |value: Jsonb| Datum::Jsonb(Arc::new(value));
        match self {
            Self::Text { text, .. } if text.is_empty() => Ok(Datum::Null),
            Self::Text { mut text, object } => {
                text.extend_from_slice(if object { b" }" } else { b"]" });
                string(text)
            }
            Self::Items { items: Some(items), .. } => Ok(tree(Jsonb::array(items)?)),
            Self::Pairs { pairs: Some(pairs), .. } => Ok(tree(Jsonb::object(pairs)?)),
            Self::Items { items: None, .. } | Self::Pairs { pairs: None, .. } => Ok(Datum::Null),
        }
    }
}
