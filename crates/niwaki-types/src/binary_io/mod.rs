//! Values in the binary format of the wire protocol.
//!
//! Containers are in `array_binary` and `record_binary`; they and this file call each other.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod array_binary;
mod record_binary;

use std::net::IpAddr;
use std::sync::Arc;

use crate::datetime;
use crate::error::{Result, TypeError, invalid_utf8, left_over};
use crate::json::json_tree::Jsonb;
use crate::json::path::JsonPath;
use crate::json::raw::json_shape;
use crate::moment::interval::Interval;
use crate::moment::time_of_day::TimeTz;
use crate::numeric::Numeric;
use crate::scalar::quoted_char;
use crate::text_io::input::{NAME_BYTES_MAX, check_text, fit_length};
use crate::types::column::ColumnType;
use crate::types::oid::TypeOid;
use crate::types::user_types::UserTypes;
use crate::value::datum::Datum;

/// Version byte before the text of a `jsonb`: the only version there is.
const JSONB_VERSION: u8 = 1;
/// The first byte of `jsonpath`.
const JSONPATH_VERSION: u8 = 1;

/// Appends `value`, of type `oid`, in binary; `types` has the labels of enums. NULL appends
/// nothing: the protocol expresses NULL in the length.
#[inline]
pub fn write_binary(value: &Datum, oid: TypeOid, types: &UserTypes, out: &mut Vec<u8>) {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push((*value).into()),
        Datum::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => value.write_wire(out),
        Datum::Text(value) if oid == TypeOid::CHAR => out.push(quoted_char::byte(value)),
        Datum::Text(value) if oid == TypeOid::INET => write_host_address(value, out),
        Datum::Text(value) => {
            if oid == TypeOid::JSONPATH {
                out.push(JSONPATH_VERSION);
            }
            out.extend_from_slice(value.as_bytes());
        }
        Datum::Bytea(value) => out.extend_from_slice(value),
        Datum::Date(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Timestamp(value) | Datum::TimestampTz(value) | Datum::Time(value) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        Datum::TimeTz(value) => {
            out.extend_from_slice(&value.time.to_be_bytes());
            out.extend_from_slice(&value.west.to_be_bytes());
        }
        Datum::Uuid(value) => out.extend_from_slice(value),
        Datum::Interval(value) => {
            out.extend_from_slice(&value.micros.to_be_bytes());
            out.extend_from_slice(&value.days.to_be_bytes());
            out.extend_from_slice(&value.months.to_be_bytes());
        }
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Tid(block, offset) => {
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&offset.to_be_bytes());
        }
        Datum::Lsn(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Jsonb(value) => {
            out.push(JSONB_VERSION);
            value.write_text(out);
        }
        Datum::Enum(oid, position) => types.write_label(*oid, *position, out),
        Datum::Array(element, values) => array_binary::write_array(*element, values, types, out),
        Datum::Record(_, value) => record_binary::write_record(value, types, out),
    }
}

/// Returns a count as the protocol's signed word. Values are held to 1 GiB long before they come
/// here.
fn length_word(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

/// Reads a value of type `kind` from all of `bytes`; a typmod is applied as an assignment applies
/// it.
///
/// # Errors
/// `22P03` when there are bytes left over or the bytes are not a value of the type. `08P01` when
/// there are too few, and `22021` for text that is not UTF-8. For values out of range or too long,
/// the errors of [`crate::input`].
#[inline]
pub fn read_binary(kind: ColumnType, bytes: &[u8], types: &UserTypes) -> Result<Datum> {
    match kind.oid {
        TypeOid::INT4 => Ok(Datum::Int4(i32::from_be_bytes(exactly(bytes)?))),
        TypeOid::INT8 => Ok(Datum::Int8(i64::from_be_bytes(exactly(bytes)?))),
        _ => read_other(kind, bytes, types),
    }
}

#[expect(clippy::too_many_lines, reason = "one flat match over types")]
fn read_other(kind: ColumnType, bytes: &[u8], types: &UserTypes) -> Result<Datum> {
    Ok(match kind.oid {
        TypeOid::BOOL => Datum::Bool(exactly::<1>(bytes)? != [0]),
        TypeOid::INT2 => Datum::Int2(i16::from_be_bytes(exactly(bytes)?)),
        TypeOid::INT4 => Datum::Int4(i32::from_be_bytes(exactly(bytes)?)),
        TypeOid::INT8 => Datum::Int8(i64::from_be_bytes(exactly(bytes)?)),
        TypeOid::FLOAT4 => Datum::Float4(f32::from_be_bytes(exactly(bytes)?)),
        TypeOid::FLOAT8 => Datum::Float8(f64::from_be_bytes(exactly(bytes)?)),
        TypeOid::NUMERIC => {
            let value = Numeric::from_wire(bytes)?;
            Datum::Numeric(Arc::new(if kind.typmod >= 4 {
                value.apply_typmod(kind.typmod)?
            } else {
                value
            }))
        }
        TypeOid::TEXT | TypeOid::UNKNOWN => Datum::Text(Arc::from(text(bytes)?)),
        TypeOid::JSON => {
            let text = text(bytes)?;
            json_shape(text)?;
            Datum::Text(Arc::from(text))
        }
        TypeOid::JSONB => {
            let mut reader = Reader(bytes);
            match reader.take()? {
                [JSONB_VERSION] => Datum::Jsonb(Jsonb::parse(text(reader.0)?)?),
                [other] => {
                    let message = format!("unsupported jsonb version number {other}");
                    return Err(TypeError::new("XX000", message));
                }
            }
        }
        TypeOid::JSONPATH => {
            let mut reader = Reader(bytes);
            match reader.take()? {
                [JSONPATH_VERSION] => Datum::text(&JsonPath::parse(text(reader.0)?)?.to_string()),
                [other] => {
                    let message = format!("unsupported jsonpath version number: {other}");
                    return Err(TypeError::new("XX000", message));
                }
            }
        }
        TypeOid::VARCHAR | TypeOid::BPCHAR => {
            Datum::Text(Arc::from(fit_length(kind, text(bytes)?, false)?))
        }
        TypeOid::NAME => {
            if bytes.len() > NAME_BYTES_MAX {
                return Err(TypeError::new("42622", "identifier too long")
                    .with_detail("Identifier must be less than 64 characters."));
            }
            Datum::Text(Arc::from(text(bytes)?))
        }
        TypeOid::CHAR => {
            let [byte] = exactly(bytes)?;
            Datum::Text(quoted_char::of_byte(byte).into())
        }
        TypeOid::BYTEA => Datum::Bytea(Arc::from(bytes)),
        TypeOid::DATE => {
            Datum::Date(datetime::check_date(i32::from_be_bytes(exactly(bytes)?).into())?)
        }
        TypeOid::TIMESTAMP => {
            let value = datetime::check_timestamp(i64::from_be_bytes(exactly(bytes)?))?;
            Datum::Timestamp(datetime::round_to_precision(value, kind.typmod)?)
        }
        TypeOid::TIMESTAMPTZ => {
            let value = datetime::check_timestamp(i64::from_be_bytes(exactly(bytes)?))?;
            Datum::TimestampTz(datetime::round_to_precision(value, kind.typmod)?)
        }
        TypeOid::INTERVAL => {
            let bytes: [u8; 16] = exactly(bytes)?;
            let mut reader = Reader(&bytes);
            let micros = i64::from_be_bytes(reader.take()?);
            let days = i32::from_be_bytes(reader.take()?);
            let months = i32::from_be_bytes(reader.take()?);
            let value = Interval::new(months, days, micros).apply_typmod(kind.typmod)?;
            Datum::Interval(Arc::new(value))
        }
        TypeOid::TIME => {
            let value = datetime::check_time(i64::from_be_bytes(exactly(bytes)?))?;
            Datum::Time(datetime::round_time(value, kind.typmod))
        }
        TypeOid::TIMETZ => {
            let bytes: [u8; 12] = exactly(bytes)?;
            let mut reader = Reader(&bytes);
            let time = datetime::check_time(i64::from_be_bytes(reader.take()?))?;
            let west = datetime::check_displacement(i32::from_be_bytes(reader.take()?))?;
            Datum::TimeTz(TimeTz { time: datetime::round_time(time, kind.typmod), west })
        }
        TypeOid::UUID => Datum::Uuid(exactly(bytes)?),
        number if number.is_number_of_object() => Datum::Oid(u32::from_be_bytes(exactly(bytes)?)),
        TypeOid::TID => {
            let [a, b, c, d, e, f] = exactly(bytes)?;
            Datum::Tid(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]))
        }
        TypeOid::PG_LSN => Datum::Lsn(u64::from_be_bytes(exactly(bytes)?)),
        oid if oid.is_enum() => Datum::Enum(oid, types.read_label(oid, text(bytes)?)?),
        record if record.is_record() => record_binary::read_record(record, bytes, types)?,
        array => match array.element() {
            Some(element) => array_binary::read_array(
                ColumnType::with_typmod(element, kind.typmod),
                bytes,
                types,
            )?,
            None => {
                return Err(TypeError::unsupported(format!(
                    "reading a value of the type with OID {} is not supported yet",
                    array.0
                )));
            }
        },
    })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(*front)
    }

    fn take_slice(&mut self, length: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(front)
    }
}

/// Returns all of `bytes` as an array of fixed length.
#[inline]
fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| if bytes.len() < N { too_short() } else { left_over() })
}

fn text(bytes: &[u8]) -> Result<&str> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| invalid_utf8(bytes, error.valid_up_to()))?;
    check_text(text)
}

#[cold]
fn too_short() -> TypeError {
    TypeError::new("08P01", "insufficient data left in message")
}

/// Appends the binary form of an `inet` that is one host. The form is the family, the bits of the
/// network, the `cidr` flag, the length of the address, and the address.
fn write_host_address(text: &str, out: &mut Vec<u8>) {
    match text.parse() {
        Ok(IpAddr::V4(address)) => {
            out.extend_from_slice(&[2, 32, 0, 4]);
            out.extend_from_slice(&address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            out.extend_from_slice(&[3, 128, 0, 16]);
            out.extend_from_slice(&address.octets());
        }
        Err(_) => debug_assert!(false, "{text} is no address"),
    }
}

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that panics has failed, as it should"
)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_values::{any_type, same_image, value_of};
    use crate::text_io::tests::{column_type, unescaped};
    use crate::{InputContext, TextSettings, input};

    fn read(kind: ColumnType, bytes: &[u8]) -> Result<Datum> {
        read_binary(kind, bytes, &UserTypes::default())
    }

    fn written(value: &Datum, oid: TypeOid) -> Vec<u8> {
        let mut out = Vec::new();
        write_binary(value, oid, &UserTypes::default(), &mut out);
        out
    }

    #[test]
    fn the_binary_form_of_an_address_says_its_family() {
        let bytes = |text: &str| written(&Datum::Text(text.into()), TypeOid::INET);
        assert_eq!(bytes("127.0.0.1"), [2, 32, 0, 4, 127, 0, 0, 1]);
        let long = bytes("::1");
        assert_eq!(long.get(..4), Some(&[3, 128, 0, 16][..]));
        assert_eq!((long.len(), long.last()), (20, Some(&1)));
    }

    #[test]
    fn bytes_are_those_of_postgresql() {
        let settings = TextSettings::default();
        let context = InputContext { settings: &settings, now: 0 };
        let mut count = 0;
        for line in include_str!("../../testdata/binary.tsv").lines() {
            if line.starts_with('#') {
                continue;
            }
            let [definition, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("a line of three fields: {line}");
            };
            let kind = column_type(definition);
            let value = input(kind, &unescaped(text), &context).expect("a value");
            let bytes = written(&value, kind.oid);
            let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown, expected, "{definition} {text}");
            let back = read(kind, &bytes).expect("own bytes");
            assert!(same_image(&back, &value), "{definition} {text} reads back");
            count += 1;
        }
        assert!(count > 40, "the data file is there");
    }

    proptest! {
        #[test]
        fn values_come_back((oid, value) in any_type().prop_flat_map(|oid| (Just(oid), value_of(oid)))) {
            let back = read(oid.into(), &written(&value, oid)).expect("own bytes");
            prop_assert!(same_image(&back, &value));
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(
            oid in any_type(),
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            // A value that was accepted can be sent again.
            if let Ok(value) = read(oid.into(), &bytes) {
                let again = read(oid.into(), &written(&value, oid)).expect("own bytes");
                prop_assert!(same_image(&again, &value));
            }
        }

        #[test]
        fn a_byte_more_or_less_is_refused(
            (oid, value) in any_type().prop_flat_map(|oid| (Just(oid), value_of(oid))),
        ) {
            // The content of texts and byte strings may have any length.
            if (oid.fixed_length().is_none() && oid != TypeOid::NUMERIC) || oid.is_enum() {
                return Ok(());
            }
            let mut bytes = written(&value, oid);
            bytes.push(0);
            prop_assert_eq!(read(oid.into(), &bytes).expect_err("too long").sqlstate, "22P03");
            bytes.truncate(bytes.len() - 2);
            prop_assert_eq!(read(oid.into(), &bytes).expect_err("too short").sqlstate, "08P01");
        }

        #[test]
        fn any_text_is_a_value_or_an_error(
            oid in any_type(),
            text in prop_oneof!["[-+0-9a-zA-Z:./ ,{}\"\\\\]{0,24}", "\\PC{0,24}"],
        ) {
            let settings = TextSettings::default();
            let context = InputContext { settings: &settings, now: 0 };
            if let Ok(value) = input(oid.into(), &text, &context) {
                // Every accepted value has a text that means the same.
                let shown = crate::to_text(&value, oid, &settings);
                let again = input(oid.into(), &shown, &context).expect("own text");
                prop_assert!(crate::equal(oid, &again, &value), "{} shown as {}", text, shown);
            }
        }

        #[test]
        fn text_comes_back((oid, value) in any_type().prop_flat_map(|oid| (Just(oid), value_of(oid)))) {
            let settings = TextSettings::default();
            let context = InputContext { settings: &settings, now: 0 };
            let shown = crate::to_text(&value, oid, &settings);
            let back = input(oid.into(), &shown, &context).expect("own text");
            prop_assert!(crate::equal(oid, &back, &value), "{} from {:?}", shown, value);
        }
    }

    #[test]
    fn times_that_no_day_or_zone_has_are_refused() {
        let code = |oid: TypeOid, bytes: &[u8]| read(oid.into(), bytes).err().map(|e| e.sqlstate);
        let zoned = |time: i64, west: i32| {
            code(TypeOid::TIMETZ, &[&time.to_be_bytes()[..], &west.to_be_bytes()].concat())
        };
        assert_eq!(code(TypeOid::TIME, &86_400_000_000i64.to_be_bytes()), None);
        assert_eq!(code(TypeOid::TIME, &86_400_000_001i64.to_be_bytes()), Some("22008"));
        assert_eq!(code(TypeOid::TIME, &(-1i64).to_be_bytes()), Some("22008"));
        assert_eq!(zoned(0, 57_599), None);
        assert_eq!(zoned(0, -57_599), None);
        assert_eq!(zoned(0, 57_600), Some("22009"));
        assert_eq!(zoned(0, -57_600), Some("22009"));
        assert_eq!(zoned(-1, 0), Some("22008"));
    }

    #[test]
    fn an_array_cannot_ask_for_more_than_it_brings() {
        // The bytes claim a dimension of a hundred million elements in twenty bytes.
        let mut bytes = Vec::new();
        for word in [1i32, 0, 23, 100_000_000, 1] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        let error = read(TypeOid::INT4_ARRAY.into(), &bytes).expect_err("no elements");
        assert_eq!(error.sqlstate, "08P01");
    }
}
