//! Arbitrary values of every type, for the property tests of this crate.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::Union;

use crate::json::tests::{any_json_text, any_jsonb};
use crate::numeric::tests::any_numeric;
use crate::{Array, Datum, Dimension, Interval, TimeTz, TypeOid};

/// An enum whose labels are not known, so that positions are shown.
const ENUM: TypeOid = TypeOid::of_enum(16_400);

/// The array type of [`ENUM`].
const ENUM_ARRAY: TypeOid = TypeOid(ENUM.0 | 1 << 30);

/// Every type that a column can have.
pub(crate) const TYPES: [TypeOid; 39] = [
    TypeOid::BOOL,
    TypeOid::BYTEA,
    TypeOid::CHAR,
    TypeOid::NAME,
    TypeOid::INT8,
    TypeOid::INT2,
    TypeOid::INT4,
    TypeOid::TEXT,
    TypeOid::OID,
    TypeOid::TID,
    TypeOid::XID,
    TypeOid::FLOAT4,
    TypeOid::FLOAT8,
    TypeOid::UNKNOWN,
    TypeOid::TEXT_ARRAY,
    TypeOid::NAME_ARRAY,
    TypeOid::INT4_ARRAY,
    TypeOid::BPCHAR,
    TypeOid::VARCHAR,
    TypeOid::DATE,
    TypeOid::TIMESTAMP,
    TypeOid::TIMESTAMPTZ,
    TypeOid::INTERVAL,
    TypeOid::NUMERIC,
    TypeOid::PG_LSN,
    TypeOid::INT8_ARRAY,
    TypeOid::FLOAT8_ARRAY,
    TypeOid::NUMERIC_ARRAY,
    TypeOid::TIMESTAMP_ARRAY,
    TypeOid::TIME,
    TypeOid::TIMETZ,
    TypeOid::UUID,
    TypeOid::TIMETZ_ARRAY,
    TypeOid::UUID_ARRAY,
    TypeOid::JSON,
    TypeOid::JSONB,
    TypeOid::JSONB_ARRAY,
    ENUM,
    ENUM_ARRAY,
];

/// Makes a type.
pub(crate) fn any_type() -> impl Strategy<Value = TypeOid> {
    proptest::sample::select(TYPES.to_vec())
}

/// Makes a value of `oid` that is not NULL; close values and beginnings of each other are frequent.
pub(crate) fn value_of(oid: TypeOid) -> BoxedStrategy<Datum> {
    let text = || prop_oneof!["[ab ]{0,4}", "[ -~]{0,20}", "\\PC{0,6}", "[a-z]{120,300}"];
    match oid {
        TypeOid::BOOL => any::<bool>().prop_map(Datum::Bool).boxed(),
        TypeOid::BYTEA => prop_oneof![
            proptest::collection::vec(0u8..3, 0..5),
            proptest::collection::vec(any::<u8>(), 0..200),
        ]
        .prop_map(|bytes| Datum::Bytea(bytes.into()))
        .boxed(),
        TypeOid::CHAR => "[ -~]?".prop_map(|text| Datum::text(&text)).boxed(),
        TypeOid::INT2 => any::<i16>().prop_map(Datum::Int2).boxed(),
        TypeOid::INT4 => prop_oneof![any::<i32>(), -3..3i32].prop_map(Datum::Int4).boxed(),
        TypeOid::INT8 => prop_oneof![any::<i64>(), -3..3i64].prop_map(Datum::Int8).boxed(),
        TypeOid::OID | TypeOid::XID => any::<u32>().prop_map(Datum::Oid).boxed(),
        TypeOid::TID => (0..4u32, any::<u16>()).prop_map(|(a, b)| Datum::Tid(a, b)).boxed(),
        TypeOid::FLOAT4 => Union::new([
            any::<f32>().boxed(),
            any::<u32>().prop_map(f32::from_bits).boxed(),
            proptest::sample::select(vec![0.0f32, -0.0, f32::NAN, -f32::NAN, f32::INFINITY])
                .boxed(),
        ])
        .prop_map(Datum::Float4)
        .boxed(),
        TypeOid::FLOAT8 => Union::new([
            any::<f64>().boxed(),
            any::<u64>().prop_map(f64::from_bits).boxed(),
            proptest::sample::select(vec![0.0f64, -0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY])
                .boxed(),
        ])
        .prop_map(Datum::Float8)
        .boxed(),
        TypeOid::TEXT_ARRAY => array_of(TypeOid::TEXT),
        TypeOid::NAME_ARRAY => array_of(TypeOid::NAME),
        TypeOid::INT4_ARRAY => array_of(TypeOid::INT4),
        TypeOid::INT8_ARRAY => array_of(TypeOid::INT8),
        TypeOid::FLOAT8_ARRAY => array_of(TypeOid::FLOAT8),
        TypeOid::NUMERIC_ARRAY => array_of(TypeOid::NUMERIC),
        TypeOid::TIMESTAMP_ARRAY => array_of(TypeOid::TIMESTAMP),
        TypeOid::TIMETZ_ARRAY => array_of(TypeOid::TIMETZ),
        TypeOid::UUID_ARRAY => array_of(TypeOid::UUID),
        TypeOid::JSON => any_json_text().prop_map(|text| Datum::text(&text)).boxed(),
        TypeOid::JSONB => any_jsonb().prop_map(Datum::Jsonb).boxed(),
        TypeOid::JSONB_ARRAY => array_of(TypeOid::JSONB),
        ENUM => prop_oneof![any::<u64>(), 0..3u64].prop_map(|at| Datum::Enum(ENUM, at)).boxed(),
        ENUM_ARRAY => array_of(ENUM),
        TypeOid::DATE => {
            prop_oneof![-2_451_545..2_145_031_949i32, -400..400i32, Just(i32::MAX), Just(i32::MIN)]
                .prop_map(Datum::Date)
                .boxed()
        }
        TypeOid::TIMESTAMP => any_moment().prop_map(Datum::Timestamp).boxed(),
        TypeOid::TIMESTAMPTZ => any_moment().prop_map(Datum::TimestampTz).boxed(),
        TypeOid::INTERVAL => prop_oneof![
            (-2..3i32, -40..40i32, -3..3i64).prop_map(|(months, days, hours)| {
                Interval::new(months, days, hours * 12 * 3_600_000_000)
            }),
            (any::<i32>(), any::<i32>(), any::<i64>())
                .prop_map(|(months, days, micros)| Interval::new(months, days, micros)),
        ]
        .prop_map(|interval| Datum::Interval(Arc::new(interval)))
        .boxed(),
        TypeOid::NUMERIC => {
            any_numeric().prop_map(|number| Datum::Numeric(Arc::new(number))).boxed()
        }
        TypeOid::TIME => any_time().prop_map(Datum::Time).boxed(),
        // Times and zones often add up to the same moment.
        TypeOid::TIMETZ => prop_oneof![
            (any_time(), -57_599..57_600i32),
            (0..4i64, -2..3i32).prop_map(|(time, west)| (time * 3_600_000_000, west * 3600)),
        ]
        .prop_map(|(time, west)| Datum::TimeTz(TimeTz { time, west }))
        .boxed(),
        TypeOid::UUID => prop_oneof![
            any::<[u8; 16]>(),
            (0..3u8).prop_map(|last| {
                let mut bytes = [0xff; 16];
                bytes[15] = last;
                bytes
            }),
        ]
        .prop_map(Datum::Uuid)
        .boxed(),
        TypeOid::PG_LSN => any::<u64>().prop_map(Datum::Lsn).boxed(),
        TypeOid::NAME => "[a-c]{0,3}".prop_map(|text| Datum::text(&text)).boxed(),
        _ => text().prop_map(|text| Datum::text(&text)).boxed(),
    }
}

fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![0..86_400_000_001i64, 0..3i64, Just(86_400_000_000)]
}

fn any_moment() -> impl Strategy<Value = i64> {
    prop_oneof![
        -211_813_488_000_000_000..9_223_371_331_200_000_000i64,
        -5..5i64,
        Just(i64::MAX),
        Just(i64::MIN),
    ]
}

fn array_of(element: TypeOid) -> BoxedStrategy<Datum> {
    let list = proptest::collection::vec(value_or_null(element), 0..4)
        .prop_map(move |values| Datum::array(element, values));
    let dimension = || (1..3u32, prop_oneof![Just(1), -1..3i32]);
    let shaped = proptest::collection::vec(dimension(), 1..4).prop_flat_map(move |shape| {
        let count = shape.iter().map(|(length, _)| *length as usize).product::<usize>();
        proptest::collection::vec(value_or_null(element), count).prop_map(move |values| {
            let dimensions: Vec<Dimension> = shape
                .iter()
                .map(|(length, lower)| Dimension { length: *length, lower: *lower })
                .collect();
            Datum::Array(element, Arc::new(Array::new(&dimensions, values).expect("an array")))
        })
    });
    prop_oneof![2 => list, 1 => shaped].boxed()
}

/// Makes a value of `oid` or NULL.
pub(crate) fn value_or_null(oid: TypeOid) -> BoxedStrategy<Datum> {
    prop_oneof![1 => Just(Datum::Null), 6 => value_of(oid)].boxed()
}

/// Decides whether two values have the same bytes, which is more than being equal. Zeros have
/// signs, NaNs bits, numerics a scale, intervals parts.
pub(crate) fn same_image(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Float4(a), Datum::Float4(b)) => a.to_bits() == b.to_bits(),
        (Datum::Float8(a), Datum::Float8(b)) => a.to_bits() == b.to_bits(),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.to_string() == b.to_string(),
        (Datum::Interval(a), Datum::Interval(b)) => a.same_image(b),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => a.to_string() == b.to_string(),
        (Datum::Array(a, x), Datum::Array(b, y)) => {
            a == b
                && x.dimensions() == y.dimensions()
                && x.iter().zip(y.iter()).all(|(x, y)| same_image(x, y))
        }
        // Text compares all its bytes under this type.
        _ => crate::equal(TypeOid::TEXT, a, b),
    }
}
