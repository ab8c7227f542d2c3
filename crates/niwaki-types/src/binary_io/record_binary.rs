//! Composite values in the binary format: the number of fields, then for each its type, its length
//! and its value.

use std::sync::Arc;

use super::{Reader, length_word, read_binary, write_binary};
use crate::error::{Result, TypeError, left_over};
use crate::types::oid::TypeOid;
use crate::types::user_types::UserTypes;
use crate::value::datum::Datum;
use crate::value::record::{Record, attributes_of};

pub(super) fn write_record(record: &Record, types: &UserTypes, out: &mut Vec<u8>) {
    out.extend_from_slice(&length_word(record.values().len()));
    for (kind, value) in record.fields() {
        out.extend_from_slice(&kind.0.to_be_bytes());
        if value.is_null() {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            continue;
        }
        let mut field = Vec::new();
        write_binary(value, kind, types, &mut field);
        out.extend_from_slice(&length_word(field.len()));
        out.extend_from_slice(&field);
    }
}

pub(super) fn read_record(oid: TypeOid, bytes: &[u8], types: &UserTypes) -> Result<Datum> {
    let attributes = attributes_of(oid, types)?;
    let mut reader = Reader(bytes);
    let count = i32::from_be_bytes(reader.take()?);
    if usize::try_from(count) != Ok(attributes.len()) {
        return Err(TypeError::new(
            "42804",
            format!("wrong number of columns: {count}, expected {}", attributes.len()),
        ));
    }
    let mut values = Vec::with_capacity(attributes.len());
    for (number, attribute) in attributes.iter().enumerate() {
        let place = number.saturating_add(1);
        let wanted = attribute.column.oid;
        let sent = TypeOid(u32::from_be_bytes(reader.take()?));
        if sent != wanted {
            let shown =
                |oid: TypeOid| types.shown(oid).unwrap_or_else(|| oid.display_name().into());
            return Err(TypeError::new(
                "42804",
                format!(
                    "binary data has type {} ({}) instead of expected {} ({}) in record column {place}",
                    sent.0,
                    shown(sent),
                    wanted.0,
                    shown(wanted)
                ),
            ));
        }
        let length = i32::from_be_bytes(reader.take()?);
        values.push(match usize::try_from(length) {
            Ok(length) => {
                let field = reader.take_slice(length).map_err(|_| field_length())?;
                read_binary(attribute.column, field, types).map_err(|error| {
                    // Leftover bytes are reported for the field.
                    if error.sqlstate == left_over().sqlstate
                        && error.message == left_over().message
                    {
                        let text = format!("improper binary format in record column {place}");
                        TypeError::invalid_binary(text)
                    } else {
                        error
                    }
                })?
            }
            Err(_) if length == -1 => Datum::Null,
            Err(_) => return Err(field_length()),
        });
    }
    if !reader.0.is_empty() {
        return Err(left_over());
    }
    let kinds: Vec<TypeOid> = attributes.iter().map(|attribute| attribute.column.oid).collect();
    Ok(Datum::Record(oid, Arc::new(Record::new(kinds, values))))
}

#[cold]
fn field_length() -> TypeError {
    TypeError::invalid_binary("insufficient data left in message")
}
