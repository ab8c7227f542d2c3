use std::cmp::Ordering;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::datetime::Interval;
use crate::test_values::{any_type, same_image, value_or_null};
use crate::value::compare::compare_ordered;
use crate::{Jsonb, Numeric};

fn encoded(value: &Datum, order: KeyOrder) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(value, order, &mut out);
    out
}

#[test]
fn equal_values_of_other_images_are_not_the_same() {
    let number = |text| Datum::Numeric(Arc::new(Numeric::parse(text).expect("a number")));
    let document = |text| Datum::Jsonb(Jsonb::parse(text).expect("a document"));
    let (day, hours) = (Interval::new(0, 1, 0), Interval::new(0, 0, 86_400_000_000));
    let pairs = [
        (Datum::Float8(0.0), Datum::Float8(-0.0)),
        (Datum::Float4(0.0), Datum::Float4(-0.0)),
        (Datum::text("a "), Datum::text("a")),
        (Datum::Null, Datum::Int4(0)),
        (number("1.0"), number("1.00")),
        (document("[1.0]"), document("[1.00]")),
        (Datum::Interval(Arc::new(day)), Datum::Interval(Arc::new(hours))),
    ];
    assert!(pairs.iter().all(|(a, b)| !a.same_image(b) && !b.same_image(a)));
    assert!(pairs.iter().all(|(a, b)| a.same_image(&a.clone()) && b.same_image(&b.clone())));
    assert!(Datum::text("a").same_image(&Datum::text("a")));
    assert!(number("1.0").same_image(&number("1.0")));
    assert!(document("[1.0]").same_image(&document("[1.0]")));
}

fn any_order() -> impl Strategy<Value = KeyOrder> {
    (any_type(), any::<bool>(), any::<bool>()).prop_map(|(oid, descending, nulls_first)| KeyOrder {
        oid,
        descending,
        nulls_first,
    })
}

fn pairs() -> impl Strategy<Value = (KeyOrder, Datum, Datum)> {
    any_order()
        .prop_flat_map(|order| (Just(order), value_or_null(order.oid), value_or_null(order.oid)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8000))]

    #[test]
    fn bytes_have_the_order_of_values((order, a, b) in pairs()) {
        let (left, right) = (encoded(&a, order), encoded(&b, order));
        prop_assert_eq!(left.cmp(&right), compare_ordered(order, &a, &b));
        // A key is compared with its following bytes: a proper prefix would let these decide.
        if left != right {
            prop_assert!(!left.starts_with(&right) && !right.starts_with(&left));
        }
    }

    #[test]
    fn a_key_begins_with_that_of_an_equal_value((order, a, b) in pairs()) {
        let mut key = encoded(&a, order);
        let length = key.len();
        encode_key(&b, order, &mut key);
        let equal = encoded(&a, order) == encoded(&b, order);
        let rest = &key[length..];
        prop_assert_eq!(strip_key(&a, order, &key), Some(rest));
        prop_assert_eq!(strip_key(&b, order, &key), equal.then_some(rest));
        if let Datum::Text(text) = &b {
            let found = strip_text_key(text.as_bytes(), order, &key);
            prop_assert_eq!(found, equal.then_some(rest));
            // A truncated key is no key.
            let own = encoded(&b, order);
            let cut_off = strip_text_key(text.as_bytes(), order, &own[..own.len() - 1]);
            prop_assert_eq!(cut_off, None);
        }
    }

    #[test]
    fn values_are_the_same_where_all_their_bytes_are((order, a, b) in pairs()) {
        prop_assert!(a.same_image(&a.clone()));
        prop_assert_eq!(a.same_image(&b), same_image(&a, &b));
        if a.same_image(&b) {
            prop_assert_eq!(encoded(&a, order), encoded(&b, order));
        }
    }

    #[test]
    fn values_come_back((order, value, other) in pairs()) {
        let mut bytes = encoded(&value, order);
        let length = bytes.len();
        // The following bytes belong to another column.
        encode_key(&other, order, &mut bytes);
        let (decoded, taken) = decode_key(&bytes, order).expect("an own encoding");
        prop_assert_eq!(taken, length);
        prop_assert_eq!(key_length(&bytes, order).expect("an own encoding"), length);
        if value.is_null() {
            prop_assert!(decoded.is_some_and(|decoded| decoded.is_null()));
        } else if key_equal_is_image_equal(order.oid) {
            prop_assert!(decoded.is_some_and(|decoded| same_image(&decoded, &value)));
        } else {
            prop_assert!(decoded.is_none());
        }
    }

    #[test]
    fn equal_images_where_keys_promise_them((order, a, b) in pairs()) {
        if key_equal_is_image_equal(order.oid)
            && compare_ordered(order, &a, &b) == Ordering::Equal
        {
            prop_assert!(same_image(&a, &b));
        }
    }

    #[test]
    fn any_bytes_decode_or_fail(
        order in any_order(),
        bytes in proptest::collection::vec(prop_oneof![Just(0x20u8), any::<u8>()], 0..24),
    ) {
        if let Ok((_, taken)) = decode_key(&bytes, order) {
            prop_assert!(taken <= bytes.len());
        }
        if let Ok(length) = key_length(&bytes, order) {
            prop_assert!(length <= bytes.len());
        }
    }
}

#[test]
fn integers_are_five_and_nine_bytes() {
    let ascending = KeyOrder::ascending(TypeOid::INT4);
    assert_eq!(encoded(&Datum::Int4(1), ascending), [0x20, 0x80, 0, 0, 1]);
    assert_eq!(encoded(&Datum::Int4(-1), ascending), [0x20, 0x7f, 0xff, 0xff, 0xff]);
    let descending = KeyOrder::descending(TypeOid::INT8);
    assert_eq!(
        encoded(&Datum::Int8(0), descending),
        [0x20, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
    );
}

#[test]
fn zoned_times_are_ordered_by_moment_and_then_by_zone() {
    let order = KeyOrder::ascending(TypeOid::TIMETZ);
    let key = |hour: i64, west: i32| {
        let value = TimeTz { time: hour * 3_600_000_000, west: west * 3600 };
        encoded(&Datum::TimeTz(value), order)
    };
    assert_eq!(key(0, 0), [0x20, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0]);
    assert!(key(13, -1) < key(12, 0) && key(12, 0) < key(11, 1));
    assert!(key(12, -1) < key(13, -1) && key(11, 1) < key(0, 14));
    // A key of a time that no day has was not written here.
    let mut bytes = key(0, 0);
    bytes[1] = 0x7f;
    assert_eq!(decode_key(&bytes, order).expect_err("damaged").sqlstate, "XX001");
}

#[test]
fn equal_numerics_of_different_scale_have_one_key() {
    let key = |text: &str| {
        let number = Numeric::parse(text).expect("a number");
        encoded(&Datum::Numeric(Arc::new(number)), KeyOrder::ascending(TypeOid::NUMERIC))
    };
    assert_eq!(key("1.0"), key("1.000"));
    assert_eq!(key("0"), key("0.00"));
    assert!(key("-Infinity") < key("-1e50"));
    assert!(key("-2") < key("-1.5"));
    assert!(key("-0.001") < key("0"));
    assert!(key("9.99") < key("10"));
    assert!(key("1e50") < key("Infinity"));
    assert!(key("Infinity") < key("NaN"));
}

#[test]
fn trailing_blanks_of_char_do_not_count() {
    let order = KeyOrder::ascending(TypeOid::BPCHAR);
    assert_eq!(encoded(&Datum::text("ab  "), order), encoded(&Datum::text("ab"), order));
    let order = KeyOrder::ascending(TypeOid::TEXT);
    assert!(encoded(&Datum::text("ab"), order) < encoded(&Datum::text("ab  "), order));
}

#[test]
fn keys_of_arrays_are_as_the_format_says() {
    let key = |text: &str| {
        let settings = crate::TextSettings::default();
        let context = crate::InputContext { settings: &settings, now: 0 };
        let value = crate::input(TypeOid::INT2_ARRAY.into(), text, &context).expect("an array");
        encoded(&value, KeyOrder::ascending(TypeOid::INT2_ARRAY))
    };
    assert_eq!(key("{}"), [0x20, 0, 0]);
    assert_eq!(key("{7,NULL}"), [0x20, 1, 0x20, 0x80, 7, 1, 0x30, 0, 1, 2]);
    assert_eq!(key("[0:0]={7}"), [0x20, 1, 0x20, 0x80, 7, 0, 1, 1, 0x80, 0, 0, 0]);
    assert_eq!(
        key("[1:1][5:5]={{7}}"),
        [0x20, 1, 0x20, 0x80, 7, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 0x80, 0, 0, 5]
    );
}
