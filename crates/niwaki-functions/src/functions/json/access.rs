//! Reads JSON values: their parts, their kind, their containment.

use std::sync::Arc;

use niwaki_parse::error::Result;
use niwaki_types::{Datum, JsonShape, Jsonb, RawJson, json_shape};

use super::values::{invalid, text, texts, tree, wrong};

/// Returns a part of a value as a value of the same type.
fn part(value: &Datum, find: &Find<'_>) -> Result<Datum> {
    Ok(match value {
        Datum::Jsonb(value) => {
            find.in_tree(value).map_or(Datum::Null, |part| Datum::Jsonb(Arc::clone(part)))
        }
        value => {
            let raw = RawJson::parse(text(value)?)?;
            find.in_text(&raw).map_or(Datum::Null, |part| Datum::text(part.text))
        }
    })
}

/// Returns a part of a value as text.
fn part_text(value: &Datum, find: &Find<'_>) -> Result<Datum> {
    Ok(match value {
        Datum::Jsonb(value) => {
            let part = find.in_tree(value).and_then(|part| part.unquoted());
            part.map_or(Datum::Null, |text| Datum::Text(text.into()))
        }
        value => {
            let raw = RawJson::parse(text(value)?)?;
            find.in_text(&raw).and_then(RawJson::unquoted).map_or(Datum::Null, Datum::text)
        }
    })
}

/// The part to look for.
enum Find<'f> {
    Key(&'f str),
    Item(i64),
    Path(Vec<&'f str>),
}

impl Find<'_> {
    fn in_tree<'j>(&self, value: &'j Arc<Jsonb>) -> Option<&'j Arc<Jsonb>> {
        match (self, &**value) {
            (Self::Key(key), Jsonb::Object(object)) => object.get(key),
            (Self::Item(index), Jsonb::Array(array)) => array.item(*index),
            // PostgreSQL keeps a lone scalar as an array of one item, so item 0 of a scalar is the
            // scalar.
            (Self::Item(0 | -1), scalar) if scalar.is_scalar() => Some(value),
            (Self::Path(path), _) => Jsonb::at_path(value, path),
            _ => None,
        }
    }

    fn in_text<'j, 'a>(&self, value: &'j RawJson<'a>) -> Option<&'j RawJson<'a>> {
        match self {
            Self::Key(key) => value.get(key),
            Self::Item(index) => value.item(*index),
            Self::Path(path) => value.at_path(path),
        }
    }
}

fn key(value: &Datum) -> Result<Find<'_>> {
    text(value).map(Find::Key)
}

fn index(value: &Datum) -> Result<Find<'_>> {
    match value {
        Datum::Int4(index) => Ok(Find::Item(i64::from(*index))),
        _ => Err(wrong()),
    }
}

pub(super) fn field(value: &Datum, name: &Datum) -> Result<Datum> {
    part(value, &key(name)?)
}

pub(super) fn field_text(value: &Datum, name: &Datum) -> Result<Datum> {
    part_text(value, &key(name)?)
}

pub(super) fn item(value: &Datum, number: &Datum) -> Result<Datum> {
    part(value, &index(number)?)
}

pub(super) fn item_text(value: &Datum, number: &Datum) -> Result<Datum> {
    part_text(value, &index(number)?)
}

/// Returns the steps of a path; `None` if one step is NULL: such a path leads nowhere.
fn path_of(steps: &Datum) -> Result<Option<Find<'_>>> {
    let steps: Option<Vec<&str>> = texts(steps)?.into_iter().collect();
    Ok(steps.map(Find::Path))
}

pub(super) fn path(value: &Datum, steps: &Datum) -> Result<Datum> {
    path_of(steps)?.map_or(Ok(Datum::Null), |find| part(value, &find))
}

pub(super) fn path_text(value: &Datum, steps: &Datum) -> Result<Datum> {
    path_of(steps)?.map_or(Ok(Datum::Null), |find| part_text(value, &find))
}

/// Returns a value and the path of the steps after it.
fn value_and_steps(values: &[Datum]) -> Result<(&Datum, Find<'_>)> {
    let (value, steps) = values.split_first().ok_or_else(wrong)?;
    Ok((value, Find::Path(steps.iter().map(text).collect::<Result<_>>()?)))
}

pub(super) fn steps(values: &[Datum]) -> Result<Datum> {
    let (value, find) = value_and_steps(values)?;
    part(value, &find)
}

pub(super) fn steps_text(values: &[Datum]) -> Result<Datum> {
    let (value, find) = value_and_steps(values)?;
    part_text(value, &find)
}

pub(super) fn type_of(value: &Datum) -> Result<Datum> {
    Ok(Datum::text(match value {
        Datum::Jsonb(value) => value.type_name(),
        value => json_shape(text(value)?)?.name(),
    }))
}

pub(super) fn array_length(value: &Datum) -> Result<Datum> {
    let shape = match value {
        Datum::Jsonb(value) => match &**value {
            Jsonb::Array(array) => JsonShape::Array(array.items().len()),
            Jsonb::Object(_) => JsonShape::Object,
            _ => JsonShape::Null,
        },
        value => json_shape(text(value)?)?,
    };
    match shape {
        JsonShape::Array(count) => i32::try_from(count)
            .map(Datum::Int4)
            .map_err(|_| crate::functions::number::operators::range("integer")),
        JsonShape::Object => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }
}

pub(super) fn contains(whole: &Datum, part: &Datum) -> Result<Datum> {
    Ok(Datum::Bool(tree(whole)?.contains(tree(part)?)))
}

pub(super) fn contained(part: &Datum, whole: &Datum) -> Result<Datum> {
    contains(whole, part)
}

pub(super) fn exists(value: &Datum, name: &Datum) -> Result<Datum> {
    Ok(Datum::Bool(tree(value)?.has_key(text(name)?)))
}

pub(super) fn exists_any(value: &Datum, names: &Datum) -> Result<Datum> {
    let value = tree(value)?;
    Ok(Datum::Bool(texts(names)?.into_iter().flatten().any(|name| value.has_key(name))))
}

pub(super) fn exists_all(value: &Datum, names: &Datum) -> Result<Datum> {
    let value = tree(value)?;
    Ok(Datum::Bool(texts(names)?.into_iter().flatten().all(|name| value.has_key(name))))
}
