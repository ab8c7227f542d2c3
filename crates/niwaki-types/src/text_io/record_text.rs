//! Composite values as text: `(1,"a b",)`.

use std::sync::Arc;

use super::input::input;
use super::output::write_text;
use crate::error::{Result, TypeError};
use crate::settings::{InputContext, TextSettings};
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;
use crate::value::record::{Record, attributes_of};

/// Reads a value of a composite type.
///
/// # Errors
/// `22P02` for a malformed literal, the errors of the fields' types, `0A000` for `record`.
pub(super) fn parse_record(oid: TypeOid, text: &str, context: &InputContext<'_>) -> Result<Datum> {
    let attributes = attributes_of(oid, &context.settings.types)?;
    let malformed = |detail: &str| {
        TypeError::new("22P02", format!("malformed record literal: \"{text}\"")).with_detail(detail)
    };
    let rest = text.trim_start_matches(crate::scalar::space::is_space);
    let mut rest = rest.strip_prefix('(').ok_or_else(|| malformed("Missing left parenthesis."))?;
    let mut values = Vec::with_capacity(attributes.len());
    for (number, attribute) in attributes.iter().enumerate() {
        if number > 0 {
            rest = rest.strip_prefix(',').ok_or_else(|| malformed("Too few columns."))?;
        }
        if rest.starts_with([',', ')']) {
            values.push(Datum::Null);
            continue;
        }
        let (field, after) =
            take_field(rest).ok_or_else(|| malformed("Unexpected end of input."))?;
        values.push(input(attribute.column, &field, context)?);
        rest = after;
    }
    let rest = rest.strip_prefix(')').ok_or_else(|| malformed("Too many columns."))?;
    if !rest.trim_start_matches(crate::scalar::space::is_space).is_empty() {
        return Err(malformed("Junk after right parenthesis."));
    }
    let kinds: Vec<TypeOid> = attributes.iter().map(|attribute| attribute.column.oid).collect();
    Ok(Datum::Record(oid, Arc::new(Record::new(kinds, values))))
}

/// Takes the text of a field, without quotes and escapes, and returns the rest too; `None` where
/// the text ends inside.
fn take_field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut quoted = false;
    let mut characters = text.chars();
    loop {
        let rest = characters.as_str();
        match characters.next()? {
            ',' | ')' if !quoted => return Some((field, rest)),
            '\\' => field.push(characters.next()?),
            '"' if !quoted => quoted = true,
            '"' if characters.as_str().starts_with('"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = false,
            character => field.push(character),
        }
    }
}

/// Appends the fields in brackets. Fields that would be misread without quotes get them, and NULL
/// is nothing.
pub(super) fn write_record(record: &Record, settings: &TextSettings, out: &mut Vec<u8>) {
    out.push(b'(');
    for (number, (kind, value)) in record.fields().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        if value.is_null() {
            continue;
        }
        let start = out.len();
        write_text(value, kind, settings, out);
        let field = out.get(start..).unwrap_or_default();
        if !needs_quotes(field) {
            continue;
        }
        let field = field.to_vec();
        out.truncate(start);
        out.push(b'"');
        for byte in &field {
            if matches!(byte, b'"' | b'\\') {
                out.push(*byte);
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    out.push(b')');
}

fn needs_quotes(field: &[u8]) -> bool {
    field.is_empty()
        || field.iter().any(|byte| {
            matches!(byte, b'"' | b'\\' | b'(' | b')' | b',')
                || crate::scalar::space::is_space(char::from(*byte))
        })
}
