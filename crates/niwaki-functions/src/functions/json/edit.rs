//! Changes, adds and removes parts of JSON values.

use std::sync::Arc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Jsonb, PathChange, RawJson};

use super::values::{invalid, string, text, texts, tree, wrong};

fn json(value: niwaki_types::Result<Arc<Jsonb>>) -> Result<Datum> {
    Ok(Datum::Jsonb(value?))
}

pub(super) fn concat(a: &Datum, b: &Datum) -> Result<Datum> {
    json(Jsonb::concat(tree(a)?, tree(b)?))
}

pub(super) fn delete_key(value: &Datum, key: &Datum) -> Result<Datum> {
    json(Jsonb::without_keys(tree(value)?, &[text(key)?]))
}

pub(super) fn delete_keys(value: &Datum, keys: &Datum) -> Result<Datum> {
    let keys: Vec<&str> = texts(keys)?.into_iter().flatten().collect();
    json(Jsonb::without_keys(tree(value)?, &keys))
}

/// `jsonb_delete(value, key, …)`: skips keys that are NULL.
pub(super) fn delete_each(values: &[Datum]) -> Result<Datum> {
    let (value, keys) = values.split_first().ok_or_else(wrong)?;
    if value.is_null() {
        return Ok(Datum::Null);
    }
    let keys = keys.iter().filter(|key| !key.is_null()).map(text).collect::<Result<Vec<&str>>>()?;
    json(Jsonb::without_keys(tree(value)?, &keys))
}

pub(super) fn delete_item(value: &Datum, index: &Datum) -> Result<Datum> {
    let Datum::Int4(index) = index else { return Err(wrong()) };
    json(Jsonb::without_item(tree(value)?, i64::from(*index)))
}

pub(super) fn delete_path(value: &Datum, path: &Datum) -> Result<Datum> {
    json(Jsonb::change(tree(value)?, &texts(path)?, &PathChange::Delete))
}

/// `jsonb_set(target, path, new [, create])`
pub(super) fn set(values: &[Datum]) -> Result<Datum> {
    let [target, path, new, rest @ ..] = values else { return Err(wrong()) };
    let new = Arc::clone(tree(new)?);
    let change = if matches!(rest, [Datum::Bool(false)]) {
        PathChange::Replace(new)
    } else {
        PathChange::Set(new)
    };
    json(Jsonb::change(tree(target)?, &texts(path)?, &change))
}

/// `jsonb_insert(target, path, new [, after])`
pub(super) fn insert(values: &[Datum]) -> Result<Datum> {
    let [target, path, new, rest @ ..] = values else { return Err(wrong()) };
    let new = Arc::clone(tree(new)?);
    let change = if matches!(rest, [Datum::Bool(true)]) {
        PathChange::InsertAfter(new)
    } else {
        PathChange::InsertBefore(new)
    };
    json(Jsonb::change(tree(target)?, &texts(path)?, &change))
}

/// `jsonb_set_lax(target, path, new [, create [, treatment of NULL]])`
pub(super) fn set_lax(values: &[Datum]) -> Result<Datum> {
    let [target, path, new, rest @ ..] = values else { return Err(wrong()) };
    let create = rest.first().cloned().unwrap_or(Datum::Bool(true));
    if target.is_null() || path.is_null() || create.is_null() {
        return Ok(Datum::Null);
    }
    let unknown = || {
        invalid(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
        )
    };
    let treatment = match rest.get(1) {
        None => "use_json_null",
        Some(Datum::Null) => return Err(unknown()),
        Some(treatment) => text(treatment)?,
    };
    let set_to = |new: Datum| set(&[target.clone(), path.clone(), new, create.clone()]);
    if !new.is_null() {
        return set_to(new.clone());
    }
    match treatment {
        "use_json_null" => set_to(Datum::Jsonb(Arc::new(Jsonb::Null))),
        "delete_key" => delete_path(target, path),
        "return_target" => Ok(target.clone()),
        "raise_exception" => Err(SqlError::new("22004", "JSON value must not be null")
            .with_detail(
                "Exception was raised because null_value_treatment is \"raise_exception\".",
            )
            .with_hint(
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
            )),
        _ => Err(unknown()),
    }
}

pub(super) fn strip_nulls(value: &Datum) -> Result<Datum> {
    match value {
        Datum::Jsonb(value) => json(Jsonb::without_nulls(value)),
        value => {
            let mut out = Vec::new();
            RawJson::parse(text(value)?)?.write_without_nulls(&mut out);
            string(out)
        }
    }
}

pub(super) fn pretty(value: &Datum) -> Result<Datum> {
    let mut out = Vec::new();
    tree(value)?.write_pretty(&mut out);
    string(out)
}
