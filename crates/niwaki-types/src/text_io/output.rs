//! Value to text, per type.

use super::array_text::write_array;
use super::record_text::write_record;
use crate::datetime;
use crate::scalar::bytes::write_bytea;
use crate::scalar::float::{write_float4, write_float8};
use crate::scalar::quoted_char;
use crate::scalar::uuid::write_uuid;
use crate::settings::TextSettings;
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;

/// Appends `value`, of type `oid`, as PostgreSQL shows it under `settings`. NULL appends nothing:
/// the protocol expresses NULL in the length.
///
/// Integers, text and dates allocate nothing beyond what `out` grows by.
#[inline]
pub fn write_text(value: &Datum, oid: TypeOid, settings: &TextSettings, out: &mut Vec<u8>) {
    match value {
        Datum::Int4(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
        }
        Datum::Int8(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
        }
        Datum::Text(value) if oid != TypeOid::CHAR => out.extend_from_slice(value.as_bytes()),
        _ => write_other(value, oid, settings, out),
    }
}

fn write_other(value: &Datum, oid: TypeOid, settings: &TextSettings, out: &mut Vec<u8>) {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(if *value { b't' } else { b'f' }),
        Datum::Int2(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
        }
        Datum::Int4(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
        }
        Datum::Int8(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
        }
        Datum::Float4(value) => write_float4(*value, settings.extra_float_digits, out),
        Datum::Float8(value) => write_float8(*value, settings.extra_float_digits, out),
        Datum::Numeric(value) => value.write_text(out),
        Datum::Text(value) => out.extend_from_slice(quoted_char::shown(value).as_bytes()),
        Datum::Bytea(value) => write_bytea(value, settings.bytea_escape, out),
        Datum::Date(value) => datetime::write_date(*value, settings, out),
        Datum::Timestamp(value) => datetime::write_timestamp(*value, settings, out),
        Datum::TimestampTz(value) => datetime::write_timestamptz(*value, settings, out),
        Datum::Interval(value) => {
            datetime::write_interval(value, settings.interval_style, out);
        }
        Datum::Time(value) => datetime::write_time_of_day(*value, out),
        Datum::TimeTz(value) => datetime::write_timetz(value, out),
        Datum::Uuid(value) => write_uuid(value, out),
        Datum::Oid(0) if oid.is_object_name() => out.push(b'-'),
        Datum::Oid(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
        }
        Datum::Tid(block, offset) => {
            out.push(b'(');
            out.extend_from_slice(itoa::Buffer::new().format(*block).as_bytes());
            out.push(b',');
            out.extend_from_slice(itoa::Buffer::new().format(*offset).as_bytes());
            out.push(b')');
        }
        Datum::Lsn(value) => {
            out.extend_from_slice(
                format!("{:X}/{:X}", value >> 32, value & 0xffff_ffff).as_bytes(),
            );
        }
        Datum::Jsonb(value) => value.write_text(out),
        Datum::Enum(oid, position) => settings.types.write_label(*oid, *position, out),
        Datum::Array(element, values) if oid.is_vector() => {
            for (number, value) in values.iter().enumerate() {
                if number > 0 {
                    out.push(b' ');
                }
                write_text(value, *element, settings, out);
            }
        }
        Datum::Array(element, array) => write_array(*element, array, settings, out),
        Datum::Record(_, record) => write_record(record, settings, out),
    }
}

/// Does [`write_text`], and returns a string.
pub fn to_text(value: &Datum, oid: TypeOid, settings: &TextSettings) -> String {
    let mut out = Vec::new();
    write_text(value, oid, settings, &mut out);
    // Everything written is ASCII or was UTF-8 in the value.
    String::from_utf8(out).unwrap_or_default()
}
