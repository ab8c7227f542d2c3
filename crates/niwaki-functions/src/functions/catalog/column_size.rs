//! `pg_column_size`: returns the bytes that PostgreSQL would store for a value in a column.
//!
//! Values of variable length have a header of one byte, or of four where the whole is longer than
//! 127 bytes. Nothing is compressed, and nothing counts as stored elsewhere.

use niwaki_catalog::builtin_types;
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Array, Datum, Jsonb, Numeric, Record, TypeOid};

use crate::functions::{Function, functions};

/// Bytes of the header of a variable-length value in memory.
const HEADER_BYTES: usize = 4;
/// Bytes of the longest value, its header included, that has a header of one byte.
const SHORT_BYTES_MAX: usize = 127;

/// The bytes of a value.
enum Size {
    Fixed(usize),
    /// The content after a header of one or four bytes.
    Variable(usize),
    /// The content after a header that always has four bytes.
    Plain(usize),
}

impl Size {
    fn in_memory(&self) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Variable(bytes) | Self::Plain(bytes) => HEADER_BYTES + bytes,
        }
    }

    fn stored(&self) -> usize {
        match self {
            Self::Variable(bytes) if *bytes < SHORT_BYTES_MAX => 1 + bytes,
            _ => self.in_memory(),
        }
    }
}

/// Returns the next multiple of `to`, a power of two.
fn aligned(at: usize, to: usize) -> usize {
    at.next_multiple_of(to)
}

/// Returns `pg_type.typalign` in bytes.
fn alignment(kind: TypeOid) -> usize {
    if kind.element().unwrap_or(kind).is_composite() {
        return 8;
    }
    match builtin_types().by_oid(kind.0).map(|kind| kind.align) {
        Some("c") => 1,
        Some("s") => 2,
        Some("d") => 8,
        _ => 4,
    }
}

fn size(value: &Datum, kind: TypeOid) -> Size {
    match value {
        Datum::Null => Size::Fixed(0),
        Datum::Bool(_) => Size::Fixed(1),
        Datum::Int2(_) => Size::Fixed(2),
        Datum::Int4(_) | Datum::Float4(_) | Datum::Date(_) | Datum::Oid(_) | Datum::Enum(..) => {
            Size::Fixed(4)
        }
        Datum::Tid(..) => Size::Fixed(6),
        Datum::Int8(_)
        | Datum::Float8(_)
        | Datum::Timestamp(_)
        | Datum::TimestampTz(_)
        | Datum::Time(_)
        | Datum::Lsn(_) => Size::Fixed(8),
        Datum::TimeTz(_) => Size::Fixed(12),
        Datum::Interval(_) | Datum::Uuid(_) => Size::Fixed(16),
        Datum::Text(_) if kind == TypeOid::NAME => Size::Fixed(64),
        Datum::Text(_) if kind == TypeOid::CHAR => Size::Fixed(1),
        Datum::Text(text) => Size::Variable(text.len()),
        Datum::Bytea(bytes) => Size::Variable(bytes.len()),
        Datum::Numeric(number) => Size::Variable(numeric(number)),
        Datum::Jsonb(json) => Size::Variable(jsonb(json)),
        Datum::Array(element, array) if kind.is_vector() => Size::Plain(array_of(array, *element)),
        Datum::Array(element, array) => Size::Variable(array_of(array, *element)),
        Datum::Record(_, row) => Size::Variable(record(row)),
    }
}

/// Returns the bytes of a numeric: a header of two bytes, then digits of base 10,000. The header
/// has four bytes for many decimals and for very large or small numbers.
fn numeric(number: &Numeric) -> usize {
    const DECIMALS_MAX: u16 = 63;
    let mut wire = Vec::new();
    number.write_wire(&mut wire);
    let field =
        |at: usize| wire.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
    let (digits, weight, decimals) = (usize::from(field(0)), field(2).cast_signed(), field(6));
    let finite = number.is_finite();
    let long = finite && (decimals > DECIMALS_MAX || !(-64..=63).contains(&weight));
    if long { 4 + 2 * digits } else { 2 + 2 * digits }
}

/// Returns the bytes of a whole value after its header; a lone scalar is kept as an array of one.
fn jsonb(json: &Jsonb) -> usize {
    match json {
        Jsonb::Array(_) | Jsonb::Object(_) => jsonb_part(json, 0),
        scalar => jsonb_part(scalar, 8),
    }
}

/// Returns the end of a part that begins at `at`, or after `at` for its alignment. Depth is
/// bounded: values that nest too deeply are refused when they are made.
fn jsonb_part(json: &Jsonb, at: usize) -> usize {
    match json {
        Jsonb::Null | Jsonb::Bool(_) => at,
        Jsonb::String(text) => at + text.len(),
        Jsonb::Number(number) => aligned(at, 4) + HEADER_BYTES + numeric(number),
        Jsonb::Array(array) => {
            let items = array.items();
            let begin = aligned(at, 4) + 4 + 4 * items.len();
            items.iter().fold(begin, |at, item| jsonb_part(item, at))
        }
        Jsonb::Object(object) => {
            let pairs = object.pairs();
            let keys: usize = pairs.iter().map(|(key, _)| key.len()).sum();
            let begin = aligned(at, 4) + 4 + 8 * pairs.len() + keys;
            pairs.iter().fold(begin, |at, (_, value)| jsonb_part(value, at))
        }
    }
}

/// Adds up the dimensions, the NULL bitmap if any element is NULL, and the elements.
fn array_of(array: &Array, element: TypeOid) -> usize {
    let bitmap = if array.has_nulls() { array.len().div_ceil(8) } else { 0 };
    let begin = aligned(16 + 8 * array.dimensions().len() + bitmap, 8);
    let align = alignment(element);
    let end = array
        .iter()
        .filter(|value| !value.is_null())
        .fold(begin, |at, value| aligned(at + size(value, element).in_memory(), align));
    end - HEADER_BYTES
}

/// Adds up the header of a row, the NULL bitmap if any field is NULL, and the fields.
fn record(row: &Record) -> usize {
    let bitmap = if row.none_null() { 0 } else { row.values().len().div_ceil(8) };
    let begin = aligned(23 + bitmap, 8);
    let end =
        row.fields().filter(|(_, value)| !value.is_null()).fold(begin, |at, (kind, value)| {
            let own = size(value, kind);
            let is_short = matches!(own, Size::Variable(_)) && own.stored() <= SHORT_BYTES_MAX;
            let at = if is_short { at } else { aligned(at, alignment(kind)) };
            at + own.stored()
        });
    end - HEADER_BYTES
}

fn column_size(_: &mut ExecContext<'_>, types: &[TypeOid], values: &[Datum]) -> Result<Datum> {
    let ([kind], [value]) = (types, values) else {
        return Err(SqlError::internal("pg_column_size was given other arguments"));
    };
    let bytes = match value {
        // Most of these rows are whole rows, and not values of a column.
        Datum::Record(..) => size(value, *kind).in_memory(),
        value => size(value, *kind).stored(),
    };
    i32::try_from(bytes)
        .map(Datum::Int4)
        .map_err(|_| crate::functions::number::operators::range("integer"))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pg_column_size" (ANY) INT4 strict single stable Typed(column_size);
};
