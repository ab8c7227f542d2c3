//! Comparisons of rows by the bytes that PostgreSQL keeps of their fields, whatever the types mean
//! by equal.

use std::cmp::Ordering;

use crate::error::Result;
use crate::layout::tagged::write_tagged;
use crate::numeric::Numeric;
use crate::scalar::quoted_char;
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;
use crate::value::record::Record;
use crate::value::record::record_order::same_kinds;

impl Record {
    /// Compares two rows by the images of their fields, NULL behind all values. `1.0` and `1.00`
    /// are two values here, and a negative number is larger than a positive one. Only rows of equal
    /// images are equal.
    ///
    /// Images of arrays, `jsonb` and composite values are this crate's own. Equality is
    /// PostgreSQL's answer there, but the order may be another.
    ///
    /// # Errors
    /// `42804` where the first fields that differ are of different types, or where all are equal
    /// and one row has more.
    pub fn compare_images(&self, other: &Self) -> Result<Ordering> {
        let pairs = self.fields().zip(other.fields());
        for (number, ((kind, a), (other_kind, b))) in pairs.enumerate() {
            same_kinds(kind, other_kind, number)?;
            let order = match (a.is_null(), b.is_null()) {
                (false, false) => image(kind, a).cmp(&image(kind, b)),
                (a_null, b_null) => a_null.cmp(&b_null),
            };
            if order.is_ne() {
                return Ok(order);
            }
        }
        self.same_width(other)?;
        Ok(Ordering::Equal)
    }
}

/// The bytes of a value as in memory. Values of one type have images of one kind.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Image {
    /// A machine word without a sign. Narrower values are extended with their sign.
    Word(u64),
    /// Bytes; if all bytes of the shorter image agree, it comes first.
    Bytes(Vec<u8>),
}

fn image(kind: TypeOid, value: &Datum) -> Image {
    let word = |value: i64| Image::Word(value as u64);
    let bytes = |value: &[u8]| Image::Bytes(value.to_vec());
    match value {
        Datum::Null => Image::Word(0),
        Datum::Bool(value) => word((*value).into()),
        Datum::Int2(value) => word((*value).into()),
        Datum::Int4(value) | Datum::Date(value) => word((*value).into()),
        Datum::Int8(value)
        | Datum::Timestamp(value)
        | Datum::TimestampTz(value)
        | Datum::Time(value) => word(*value),
        Datum::Float4(value) => word((value.to_bits() as i32).into()),
        Datum::Float8(value) => Image::Word(value.to_bits()),
        Datum::Oid(value) => word((*value as i32).into()),
        Datum::Lsn(value) | Datum::Enum(_, value) => Image::Word(*value),
        Datum::Text(value) if kind == TypeOid::CHAR => {
            word((quoted_char::byte(value) as i8).into())
        }
        Datum::Text(value) => bytes(value.as_bytes()),
        Datum::Bytea(value) => bytes(value),
        Datum::Uuid(value) => bytes(value),
        Datum::Numeric(value) => Image::Bytes(numeric(value)),
        Datum::TimeTz(value) => {
            Image::Bytes([&value.time.to_le_bytes()[..], &value.west.to_le_bytes()].concat())
        }
        Datum::Tid(block, offset) => {
            let (high, low) = ((block >> 16) as u16, *block as u16);
            Image::Bytes([high, low, *offset].into_iter().flat_map(u16::to_le_bytes).collect())
        }
        Datum::Interval(_) | Datum::Jsonb(_) | Datum::Array(..) | Datum::Record(..) => {
            let mut image = Vec::new();
            write_tagged(value, &mut image);
            Image::Bytes(image)
        }
    }
}

/// Returns a number as PostgreSQL stores it: a short header where scale and weight allow it, then
/// groups of four digits.
fn numeric(value: &Numeric) -> Vec<u8> {
    const SPECIAL: u16 = 0xC000;
    const SHORT: u16 = 0x8000;
    const SHORT_NEGATIVE: u16 = 0x2000;
    const SHORT_WEIGHT_NEGATIVE: u16 = 0x0040;
    const SHORT_WEIGHT: u16 = 0x003F;
    const SHORT_SCALE_MAX: u16 = 63;
    let mut wire = Vec::new();
    value.write_wire(&mut wire);
    let mut words = wire
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0u16, |word, byte| word << 8 | u16::from(*byte)));
    let mut header = || words.next().unwrap_or(0);
    let (_, weight, sign, scale) = (header(), header() as i16, header(), header());
    let mut stored = Vec::new();
    if sign & SPECIAL == SPECIAL {
        stored.push(sign);
    } else if scale <= SHORT_SCALE_MAX && (-64..=63).contains(&weight) {
        let negative = if sign == 0 { 0 } else { SHORT_NEGATIVE };
        let below = if weight < 0 { SHORT_WEIGHT_NEGATIVE } else { 0 };
        stored.push(SHORT | negative | scale << 7 | below | weight as u16 & SHORT_WEIGHT);
    } else {
        stored.extend([sign | scale, weight as u16]);
    }
    stored.extend(words);
    stored.into_iter().flat_map(u16::to_le_bytes).collect()
}
