//! Turns JSON objects into rows: `jsonb_to_recordset(…) AS t (a int, b text)`,
//! `jsonb_populate_record(row, …)`.
//!
//! A column reads the text that `->>` gives for its field. Columns of `json` and `jsonb` get the
//! field as it is. For an array column, a JSON array becomes an array literal, the form that the
//! column's type reads.

use std::borrow::Cow;
use std::sync::Arc;

use niwaki_expr::context::{ExecContext, RecordFields};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::element_of;
use niwaki_types::{ColumnType, Datum, Jsonb, RawJson, RawKind, TypeOid};

use super::super::{Function, Objects, ObjectsFunction, functions};
use super::values::{invalid, text};

const ONE: ObjectsFunction = ObjectsFunction { objects: Objects::One, body: fields_of_objects };
const EACH: ObjectsFunction = ObjectsFunction { objects: Objects::Each, body: fields_of_objects };

pub(in super::super) const FUNCTIONS: &[Function] = functions! {
    "json_to_record" (JSON) RECORD strict single stable Objects(ONE);
    "json_to_recordset" (JSON) RECORD nullable single stable Objects(EACH);
    "jsonb_to_record" (JSONB) RECORD strict single stable Objects(ONE);
    "jsonb_to_recordset" (JSONB) RECORD nullable single stable Objects(EACH);
    "json_populate_record" (ELEMENT, JSON) ELEMENT nullable single stable Objects(ONE);
    "json_populate_recordset" (ELEMENT, JSON) ELEMENT nullable single stable Objects(EACH);
    "jsonb_populate_record" (ELEMENT, JSONB) ELEMENT nullable single stable Objects(ONE);
    "jsonb_populate_recordset" (ELEMENT, JSONB) ELEMENT nullable single stable Objects(EACH);
};

/// Returns the function of this name, if it makes rows of JSON objects.
pub fn of_json_objects(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// A JSON value in either form (`json` text or `jsonb`), as the fields of a row need it.
trait Value: Sized {
    /// Returns the value of a key; `None` also if this value is not an object.
    fn field(&self, key: &str) -> Option<&Self>;
    fn items(&self) -> Option<Vec<&Self>>;
    fn is_object(&self) -> bool;
    /// Returns the content of a string.
    fn string(&self) -> Option<&str>;
    /// Returns the result of `->>`; `None` for `null`.
    fn unquoted(&self) -> Option<Cow<'_, str>>;
    /// Returns the value itself.
    fn whole(&self) -> Datum;
    /// Returns the JSON text of the value.
    fn json(&self, exec: &ExecContext<'_>) -> String;
}

impl Value for RawJson<'_> {
    fn field(&self, key: &str) -> Option<&Self> {
        self.get(key)
    }

    fn items(&self) -> Option<Vec<&Self>> {
        if let RawKind::Array(items) = &self.kind { Some(items.iter().collect()) } else { None }
    }

    fn is_object(&self) -> bool {
        matches!(self.kind, RawKind::Object(_))
    }

    fn string(&self) -> Option<&str> {
        if let RawKind::String(text) = &self.kind { Some(text) } else { None }
    }

    fn unquoted(&self) -> Option<Cow<'_, str>> {
        RawJson::unquoted(self).map(Cow::Borrowed)
    }

    fn whole(&self) -> Datum {
        Datum::text(self.text)
    }

    fn json(&self, _: &ExecContext<'_>) -> String {
        self.text.to_owned()
    }
}

impl Value for Arc<Jsonb> {
    fn field(&self, key: &str) -> Option<&Self> {
        if let Jsonb::Object(object) = &**self { object.get(key) } else { None }
    }

    fn items(&self) -> Option<Vec<&Self>> {
        if let Jsonb::Array(array) = &**self { Some(array.items().iter().collect()) } else { None }
    }

    fn is_object(&self) -> bool {
        matches!(**self, Jsonb::Object(_))
    }

    fn string(&self) -> Option<&str> {
        if let Jsonb::String(text) = &**self { Some(text) } else { None }
    }

    fn unquoted(&self) -> Option<Cow<'_, str>> {
        Jsonb::unquoted(self).map(Cow::Owned)
    }

    fn whole(&self) -> Datum {
        Datum::Jsonb(Arc::clone(self))
    }

    fn json(&self, exec: &ExecContext<'_>) -> String {
        niwaki_types::to_text(&self.whole(), TypeOid::JSONB, exec.text)
    }
}

/// Decides whether a column of this type gets the field as it is.
pub fn takes_json(column: ColumnType) -> bool {
    matches!(column.oid, TypeOid::JSON | TypeOid::JSONB)
}

/// Calls `emit` with the fields of each object, in the order of the columns. A field is text, or
/// JSON where the column takes JSON; `None` where the object has no such key.
///
/// # Errors
/// 22023 for a value that is not an object, or not an array of objects; 22P02 for a value that
/// should be an array; 0A000 for an object in the place of a composite value.
fn fields_of_objects(
    function: &Function,
    json: &Datum,
    fields: &RecordFields,
    exec: &ExecContext<'_>,
    emit: &mut dyn FnMut(Vec<Option<Datum>>),
) -> Result<()> {
    match json {
        Datum::Jsonb(value) => of_value(function, value, fields, exec, emit),
        value => of_value(function, &RawJson::parse(text(value)?)?, fields, exec, emit),
    }
}

fn of_value<V: Value>(
    function: &Function,
    value: &V,
    fields: &RecordFields,
    exec: &ExecContext<'_>,
    emit: &mut dyn FnMut(Vec<Option<Datum>>),
) -> Result<()> {
    let name = function.name;
    let one = |object: &V| -> Result<Vec<Option<Datum>>> {
        let field = |(key, column): &(Arc<str>, ColumnType)| {
            object.field(key).map(|value| as_field(value, key, *column, exec)).transpose()
        };
        fields.iter().map(field).collect()
    };
    if !function.returns_set() {
        if value.is_object() {
            emit(one(value)?);
            return Ok(());
        }
        let what = if value.items().is_some() { "an array" } else { "a scalar" };
        return Err(invalid(format!("cannot call populate_composite on {what}")));
    }
    let Some(items) = value.items() else {
        let what = match value.is_object() {
            _ if name.starts_with("jsonb") => "a non-array",
            true => "an object",
            false => "a scalar",
        };
        return Err(invalid(format!("cannot call {name} on {what}")));
    };
    for item in items {
        if !item.is_object() {
            return Err(invalid(format!("argument of {name} must be an array of objects")));
        }
        emit(one(item)?);
    }
    Ok(())
}

fn as_field<V: Value>(
    value: &V,
    key: &str,
    column: ColumnType,
    exec: &ExecContext<'_>,
) -> Result<Datum> {
    let Some(unquoted) = value.unquoted() else { return Ok(Datum::Null) };
    if takes_json(column) {
        return Ok(value.whole());
    }
    // The content of a string is read like any other text.
    if value.string().is_some() {
        return Ok(Datum::text(&unquoted));
    }
    if let Some(element) = element_of(column.oid) {
        let mut literal = String::new();
        let items = value.items().ok_or_else(|| {
            SqlError::new("22P02", "expected JSON array")
                .with_hint(format!("See the value of key \"{key}\"."))
        })?;
        write_array(&items, element, exec, &mut literal)?;
        return Ok(Datum::text(&literal));
    }
    refuse_composite(value, column.oid)?;
    Ok(Datum::text(&unquoted))
}

fn refuse_composite<V: Value>(value: &V, oid: TypeOid) -> Result<()> {
    if oid.is_composite() && value.is_object() {
        return Err(SqlError::unsupported("a JSON object in the place of a composite value"));
    }
    Ok(())
}

/// Appends the literal of an array.
fn write_array<V: Value>(
    items: &[&V],
    element: TypeOid,
    exec: &ExecContext<'_>,
    out: &mut String,
) -> Result<()> {
    out.push('{');
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        if let Some(inner) = item.items() {
            write_array(&inner, element, exec, out)?;
            continue;
        }
        let Some(mut text) = item.unquoted() else {
            out.push_str("NULL");
            continue;
        };
        if takes_json(ColumnType::new(element)) {
            text = Cow::Owned(item.json(exec));
        }
        refuse_composite(*item, element)?;
        out.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                out.push('\\');
            }
            out.push(character);
        }
        out.push('"');
    }
    out.push('}');
    Ok(())
}
