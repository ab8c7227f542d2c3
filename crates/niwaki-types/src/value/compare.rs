//! Comparison and hashing of values by the default operator class of their type.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::datum::Datum;
use super::key_order::KeyOrder;
use crate::types::oid::TypeOid;

/// Compares two values of type `oid` (integers also across their widths). NaN is the greatest
/// number and equal to itself, and `-0 = 0`. Text is compared by its bytes, `char(n)` without
/// trailing blanks. As in a sort, NULL is greater than everything and equal to NULL.
#[inline]
pub fn compare(oid: TypeOid, a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) if oid != TypeOid::BPCHAR => {
            a.as_bytes().cmp(b.as_bytes())
        }
        _ => compare_any(oid, a, b),
    }
}

fn compare_any(oid: TypeOid, a: &Datum, b: &Datum) -> Ordering {
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return a.cmp(&b);
    }
    match (a, b) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Float4(a), Datum::Float4(b)) => float_order(f64::from(*a), f64::from(*b)),
        (Datum::Float8(a), Datum::Float8(b)) => float_order(*a, *b),
        (Datum::Float4(a), Datum::Float8(b)) => float_order(f64::from(*a), *b),
        (Datum::Float8(a), Datum::Float4(b)) => float_order(*a, f64::from(*b)),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) if oid == TypeOid::BPCHAR => {
            bpchar_trimmed_bytes(a.as_bytes()).cmp(bpchar_trimmed_bytes(b.as_bytes()))
        }
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
        (Datum::TimestampTz(a), Datum::TimestampTz(b)) => a.cmp(b),
        (Datum::Interval(a), Datum::Interval(b)) => a.cmp(b),
        (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::TimeTz(a), Datum::TimeTz(b)) => a.cmp(b),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
        (Datum::Tid(a, c), Datum::Tid(b, d)) => (a, c).cmp(&(b, d)),
        (Datum::Lsn(a), Datum::Lsn(b)) => a.cmp(b),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => a.compare(b),
        (Datum::Enum(_, a), Datum::Enum(_, b)) => a.cmp(b),
        (Datum::Array(element, a), Datum::Array(_, b)) => a.compare(*element, b),
        (Datum::Record(_, a), Datum::Record(_, b)) => a.compare(b),
        // Values of different types never meet: the analyzer has converted them. Their order is
        // still total, so that a mistake there cannot break a sort.
        _ => variant_rank(a).cmp(&variant_rank(b)),
    }
}

/// Decides whether two values of type `oid` are equal; NULL equals NULL.
#[inline]
pub fn equal(oid: TypeOid, a: &Datum, b: &Datum) -> bool {
    compare(oid, a, b) == Ordering::Equal
}

/// Compares as an index column or an ORDER BY item orders: direction and place of NULLs included.
#[inline]
pub fn compare_ordered(order: KeyOrder, a: &Datum, b: &Datum) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (false, false) => {
            let ascending = compare(order.oid, a, b);
            if order.descending { ascending.reverse() } else { ascending }
        }
        (true, true) => Ordering::Equal,
        (true, false) if order.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if order.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
    }
}

/// Feeds `value` of type `oid` to `state` so that equal values ([`equal`]) hash alike, integers
/// across their widths and floats across theirs included.
pub fn hash<H: Hasher>(oid: TypeOid, value: &Datum, state: &mut H) {
    if let Some(value) = integer(value) {
        return state.write_i64(value);
    }
    match value {
        Datum::Null => state.write_u8(0),
        Datum::Bool(value) => state.write_u8((*value).into()),
        Datum::Float4(value) => state.write_u64(canonical_bits(f64::from(*value))),
        Datum::Float8(value) => state.write_u64(canonical_bits(*value)),
        Datum::Numeric(value) => value.hash(state),
        Datum::Text(value) if oid == TypeOid::BPCHAR => bpchar_trimmed(value).hash(state),
        Datum::Text(value) => value.hash(state),
        Datum::Bytea(value) => value.hash(state),
        Datum::Date(value) => state.write_i32(*value),
        Datum::Timestamp(value) | Datum::TimestampTz(value) | Datum::Time(value) => {
            state.write_i64(*value);
        }
        Datum::Interval(value) => value.hash(state),
        Datum::TimeTz(value) => value.hash(state),
        Datum::Uuid(value) => state.write(value),
        Datum::Oid(value) => state.write_u32(*value),
        Datum::Tid(block, offset) => {
            state.write_u32(*block);
            state.write_u16(*offset);
        }
        Datum::Lsn(value) | Datum::Enum(_, value) => state.write_u64(*value),
        Datum::Jsonb(value) => value.hash_into(state),
        Datum::Array(element, values) => {
            state.write_usize(values.len());
            for value in values.iter() {
                hash(*element, value, state);
            }
        }
        Datum::Record(_, record) => {
            state.write_usize(record.values().len());
            for (kind, value) in record.fields() {
                hash(kind, value, state);
            }
        }
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => {}
    }
}

/// Returns `text` without its trailing blanks, as `char(n)` compares it.
#[inline]
pub(crate) fn bpchar_trimmed(text: &str) -> &str {
    &text[..bpchar_trimmed_bytes(text.as_bytes()).len()]
}

/// Does [`bpchar_trimmed`] on the bytes of a text.
#[inline]
pub(crate) fn bpchar_trimmed_bytes(text: &[u8]) -> &[u8] {
    // The loop takes eight bytes at a time: mostly all of them are padding, up to the column's
    // length.
    let blanks = text.rchunks_exact(8).take_while(|eight| *eight == [b' '; 8]).count() * 8;
    let rest = &text[..text.len() - blanks];
    let end = rest.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// Returns the bits that equal floats share: one zero, one NaN.
#[inline]
pub(crate) fn canonical_bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else {
        value.to_bits()
    }
}

#[inline]
fn integer(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int2(value) => Some((*value).into()),
        Datum::Int4(value) => Some((*value).into()),
        Datum::Int8(value) => Some(*value),
        _ => None,
    }
}

#[inline]
fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn variant_rank(value: &Datum) -> u8 {
    match value {
        Datum::Null => 255,
        Datum::Bool(_) => 0,
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => 1,
        Datum::Float4(_) | Datum::Float8(_) => 2,
        Datum::Numeric(_) => 3,
        Datum::Text(_) => 4,
        Datum::Bytea(_) => 5,
        Datum::Date(_) => 6,
        Datum::Timestamp(_) => 7,
        Datum::TimestampTz(_) => 8,
        Datum::Interval(_) => 9,
        Datum::Oid(_) => 10,
        Datum::Tid(..) => 11,
        Datum::Lsn(_) => 12,
        Datum::Array(..) => 13,
        Datum::Time(_) => 14,
        Datum::TimeTz(_) => 15,
        Datum::Uuid(_) => 16,
        Datum::Jsonb(_) => 17,
        Datum::Enum(..) => 18,
        Datum::Record(..) => 19,
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use proptest::prelude::*;

    use super::*;
    use crate::test_values::{any_type, value_or_null};

    #[test]
    fn padding_of_any_length_is_left_out() {
        for kept in ["", "a", " a", "a  b", "12345678", "        x", "é", "\t", "a       \n"] {
            for blanks in 0..40 {
                let padded = format!("{kept}{}", " ".repeat(blanks));
                assert_eq!(bpchar_trimmed(&padded), kept);
            }
        }
    }

    fn hash_of(oid: TypeOid, value: &Datum) -> u64 {
        let mut state = DefaultHasher::new();
        hash(oid, value, &mut state);
        state.finish()
    }

    fn three() -> impl Strategy<Value = (TypeOid, Datum, Datum, Datum)> {
        any_type().prop_flat_map(|oid| {
            (Just(oid), value_or_null(oid), value_or_null(oid), value_or_null(oid))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn the_order_is_total((oid, a, b, c) in three()) {
            prop_assert_eq!(compare(oid, &a, &a), Ordering::Equal);
            prop_assert_eq!(compare(oid, &a, &b), compare(oid, &b, &a).reverse());
            if compare(oid, &a, &b).is_le() && compare(oid, &b, &c).is_le() {
                prop_assert!(compare(oid, &a, &c).is_le());
            }
        }

        #[test]
        fn equal_values_hash_alike((oid, a, b, _) in three()) {
            if equal(oid, &a, &b) {
                prop_assert_eq!(hash_of(oid, &a), hash_of(oid, &b));
            }
        }

        #[test]
        fn integers_compare_across_widths(a in any::<i16>(), b in any::<i32>(), c in any::<i64>()) {
            let (short, word, long) = (Datum::Int2(a), Datum::Int4(b), Datum::Int8(c));
            let order = |x: &Datum, y: &Datum| compare(TypeOid::INT8, x, y);
            prop_assert_eq!(order(&short, &word), i32::from(a).cmp(&b));
            prop_assert_eq!(order(&word, &long), i64::from(b).cmp(&c));
            prop_assert_eq!(order(&long, &short), c.cmp(&a.into()));
            let widened = Datum::Int8(a.into());
            prop_assert_eq!(hash_of(TypeOid::INT2, &short), hash_of(TypeOid::INT8, &widened));
        }
    }

    #[test]
    fn nan_is_the_greatest_number_and_zeros_are_equal() {
        let float = TypeOid::FLOAT8;
        let order = |a: f64, b: f64| compare(float, &Datum::Float8(a), &Datum::Float8(b));
        assert_eq!(order(f64::NAN, f64::INFINITY), Ordering::Greater);
        assert_eq!(order(f64::NAN, -f64::NAN), Ordering::Equal);
        assert_eq!(order(-0.0, 0.0), Ordering::Equal);
        assert_eq!(order(f64::NEG_INFINITY, -1.0), Ordering::Less);
        let hash = |value: f64| hash_of(float, &Datum::Float8(value));
        assert_eq!(hash(-0.0), hash(0.0));
        assert_eq!(hash(f64::NAN), hash(-f64::NAN));
    }

    #[test]
    fn only_char_ignores_trailing_blanks() {
        let (short, long) = (Datum::text("a"), Datum::text("a  "));
        assert_eq!(compare(TypeOid::BPCHAR, &short, &long), Ordering::Equal);
        assert_eq!(hash_of(TypeOid::BPCHAR, &short), hash_of(TypeOid::BPCHAR, &long));
        assert_eq!(compare(TypeOid::TEXT, &short, &long), Ordering::Less);
        // Bytes are compared, not code points: in UTF-8 the orders agree, and upper case comes
        // first.
        let (upper, accent) = (Datum::text("Z"), Datum::text("é"));
        assert_eq!(compare(TypeOid::TEXT, &upper, &short), Ordering::Less);
        assert_eq!(compare(TypeOid::TEXT, &accent, &short), Ordering::Greater);
    }

    #[test]
    fn nulls_stand_where_the_column_says() {
        let order = |descending, nulls_first| {
            let order = KeyOrder { oid: TypeOid::INT4, descending, nulls_first };
            compare_ordered(order, &Datum::Null, &Datum::Int4(1))
        };
        assert_eq!(order(false, false), Ordering::Greater);
        assert_eq!(order(true, false), Ordering::Greater);
        assert_eq!(order(false, true), Ordering::Less);
        assert_eq!(order(true, true), Ordering::Less);
    }
}
