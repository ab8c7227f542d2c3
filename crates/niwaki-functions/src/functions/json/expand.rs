//! Expands the parts of a JSON value into rows.

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::Result;
use niwaki_types::growing::charge_parts;
use niwaki_types::{Datum, Jsonb, RawJson, RawKind, TypeOid};

use super::super::{EmitRow, RowsFunction, T};
use super::values::{invalid, text, wrong};

/// Memory of a row beside its text, in bytes, roughly.
const ROW_BYTES: usize = size_of::<Datum>() + 32;

fn tree_text(value: &Jsonb) -> Datum {
    value.unquoted().map_or(Datum::Null, |text| Datum::Text(text.into()))
}

fn raw_text(value: &RawJson<'_>) -> Datum {
    value.unquoted().map_or(Datum::Null, Datum::text)
}

pub(super) fn keys(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let refused = |function: &str, array: bool| {
        let what = if array { "an array" } else { "a scalar" };
        invalid(format!("cannot call {function} on {what}"))
    };
    match values {
        [Datum::Jsonb(value)] => match &**value {
            Jsonb::Object(object) => {
                charge_parts(object.pairs().len(), ROW_BYTES)?;
                Ok(object.pairs().iter().map(|(key, _)| Datum::Text(Arc::clone(key))).collect())
            }
            other => Err(refused("jsonb_object_keys", matches!(other, Jsonb::Array(_)))),
        },
        [value] => match RawJson::parse(text(value)?)?.kind {
            RawKind::Object(pairs) => {
                Ok(pairs.into_iter().map(|(key, _)| Datum::Text(key.into())).collect())
            }
            other => Err(refused("json_object_keys", matches!(other, RawKind::Array(_)))),
        },
        _ => Err(wrong()),
    }
}

pub(super) fn elements(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let [value] = values else { return Err(wrong()) };
    match value {
        Datum::Jsonb(value) => {
            Ok(tree_items(value)?.iter().map(|item| Datum::Jsonb(Arc::clone(item))).collect())
        }
        value => {
            let value = RawJson::parse_escaped(text(value)?)?;
            let items = raw_items(&value, "json_array_elements")?;
            Ok(items.iter().map(|item| Datum::text(item.text)).collect())
        }
    }
}

pub(super) fn elements_text(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let [value] = values else { return Err(wrong()) };
    match value {
        Datum::Jsonb(value) => Ok(tree_items(value)?.iter().map(|item| tree_text(item)).collect()),
        value => {
            let value = RawJson::parse(text(value)?)?;
            let items = raw_items(&value, "json_array_elements_text")?;
            Ok(items.iter().map(raw_text).collect())
        }
    }
}

fn tree_items(value: &Jsonb) -> Result<&[Arc<Jsonb>]> {
    match value {
        Jsonb::Array(array) => {
            charge_parts(array.items().len(), ROW_BYTES)?;
            Ok(array.items())
        }
        Jsonb::Object(_) => Err(invalid("cannot extract elements from an object")),
        _ => Err(invalid("cannot extract elements from a scalar")),
    }
}

fn raw_items<'r, 'a>(value: &'r RawJson<'a>, function: &str) -> Result<&'r [RawJson<'a>]> {
    match &value.kind {
        RawKind::Array(items) => {
            // The texts of all items are copied.
            let places = items.len().saturating_mul(ROW_BYTES);
            charge_parts(1, places.saturating_add(value.text.len()))?;
            Ok(items)
        }
        RawKind::Object(_) => Err(invalid(format!("cannot call {function} on a non-array"))),
        _ => Err(invalid(format!("cannot call {function} on a scalar"))),
    }
}

pub(super) static EACH_JSON: RowsFunction =
    RowsFunction { columns: &[("key", T::TEXT), ("value", TypeOid::JSON)], body: each_json };
pub(super) static EACH_JSONB: RowsFunction =
    RowsFunction { columns: &[("key", T::TEXT), ("value", TypeOid::JSONB)], body: each_jsonb };
pub(super) static EACH_JSON_TEXT: RowsFunction =
    RowsFunction { columns: &[("key", T::TEXT), ("value", T::TEXT)], body: each_json_text };
pub(super) static EACH_JSONB_TEXT: RowsFunction =
    RowsFunction { columns: &[("key", T::TEXT), ("value", T::TEXT)], body: each_jsonb_text };

fn each_json(_: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    raw_pairs(values, |value| Datum::text(value.text), emit)
}

fn each_json_text(_: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    raw_pairs(values, raw_text, emit)
}

fn raw_pairs(
    values: &[Datum],
    shown: impl Fn(&RawJson<'_>) -> Datum,
    emit: EmitRow<'_>,
) -> Result<()> {
    let [value] = values else { return Err(wrong()) };
    match RawJson::parse(text(value)?)?.kind {
        RawKind::Object(pairs) => pairs
            .into_iter()
            .try_for_each(|(key, value)| emit(vec![Datum::Text(key.into()), shown(&value)])),
        RawKind::Array(_) => Err(invalid("cannot deconstruct an array as an object")),
        _ => Err(invalid("cannot deconstruct a scalar")),
    }
}

fn each_jsonb(_: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    tree_pairs(values, "jsonb_each", |value| Datum::Jsonb(Arc::clone(value)), emit)
}

fn each_jsonb_text(_: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    tree_pairs(values, "jsonb_each_text", |value| tree_text(value), emit)
}

fn tree_pairs(
    values: &[Datum],
    function: &str,
    shown: impl Fn(&Arc<Jsonb>) -> Datum,
    emit: EmitRow<'_>,
) -> Result<()> {
    let [Datum::Jsonb(value)] = values else { return Err(wrong()) };
    let Jsonb::Object(object) = &**value else {
        return Err(invalid(format!("cannot call {function} on a non-object")));
    };
    object
        .pairs()
        .iter()
        .try_for_each(|(key, value)| emit(vec![Datum::Text(Arc::clone(key)), shown(value)]))
}
