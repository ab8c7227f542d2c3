use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::test_values::{same_image, value_or_null};
use crate::value::compare::compare_ordered;
use crate::{
    ColumnType, CompositeType, Field, InputContext, KeyOrder, RowView, TextSettings, decode_key,
    encode_key, form_row, input, key_length, read_binary, read_tagged_row, to_text, write_binary,
    write_tagged_row,
};

const INNER: TypeOid = TypeOid::of_composite(16_401);
const OUTER: TypeOid = TypeOid::of_composite(16_402);

fn kinds_of(oid: TypeOid) -> Vec<TypeOid> {
    match oid {
        INNER => vec![TypeOid::INT4, TypeOid::TEXT, TypeOid::NUMERIC, TypeOid::TEXT_ARRAY],
        OUTER => {
            let array = INNER.array().expect("an array type");
            vec![TypeOid::BOOL, INNER, array, TypeOid::BYTEA, TypeOid::TIMESTAMP]
        }
        _ => Vec::new(),
    }
}

fn types() -> Arc<UserTypes> {
    let mut types = UserTypes::default();
    for oid in [INNER, OUTER] {
        let attribute = |(number, kind): (usize, TypeOid)| Attribute {
            name: Arc::from(format!("a{number}")),
            column: ColumnType::new(kind),
        };
        let attributes = kinds_of(oid).into_iter().enumerate().map(attribute).collect();
        types.put_composite(oid, Arc::new(CompositeType { attributes }));
    }
    Arc::new(types)
}

fn field_of(kind: TypeOid) -> BoxedStrategy<Datum> {
    if kind == INNER {
        return prop_oneof![1 => Just(Datum::Null), 4 => record_of(INNER)].boxed();
    }
    if kind.element() == Some(INNER) {
        let values = proptest::collection::vec(field_of(INNER), 0..3);
        return values.prop_map(|values| Datum::array(INNER, values)).boxed();
    }
    value_or_null(kind)
}

fn record_of(oid: TypeOid) -> BoxedStrategy<Datum> {
    let kinds = kinds_of(oid);
    let fields: Vec<_> = kinds.iter().map(|kind| field_of(*kind)).collect();
    fields
        .prop_map(move |values| Datum::Record(oid, Arc::new(Record::new(kinds.clone(), values))))
        .boxed()
}

/// Decides whether two values have the same bytes, fields of composite values too.
fn same(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Record(a, x), Datum::Record(b, y)) => {
            a == b
                && x.kinds() == y.kinds()
                && x.names() == y.names()
                && x.values().iter().zip(y.values()).all(|(x, y)| same(x, y))
        }
        (Datum::Array(a, x), Datum::Array(b, y)) if a.is_composite() => {
            a == b && x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| same(x, y))
        }
        _ => same_image(a, b),
    }
}

fn settings() -> TextSettings {
    TextSettings { types: types(), ..TextSettings::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn values_come_back_from_rows(value in record_of(OUTER), cut in any::<usize>()) {
        let columns = [ColumnType::new(OUTER), ColumnType::new(TypeOid::INT4)];
        let mut bytes = Vec::new();
        let nulls = form_row(&columns, &[value.clone(), Datum::Int4(7)], &mut bytes);
        let mut view = RowView::new(&columns, 2, nulls, &bytes).expect("own row");
        view.check().expect("own row");
        match view.get(0).expect("own row") {
            Some(Field::Value(found)) => prop_assert!(same(&found, &value)),
            other => prop_assert!(false, "{:?}", other),
        }
        // Damage gives an error, never a panic.
        let mut damaged = bytes.clone();
        let place = cut % damaged.len();
        damaged[place] ^= 1 << (cut % 8);
        if let Ok(view) = RowView::new(&columns, 2, nulls, &damaged) {
            let _ = view.check();
        }
    }

    #[test]
    fn values_come_back_from_temporary_files(value in record_of(OUTER)) {
        let Datum::Record(_, record) = &value else { return Ok(()) };
        let names: Arc<[Arc<str>]> = (0..record.values().len())
            .map(|number| Arc::from(format!("name {number}")))
            .collect();
        let named = Record::clone(record).with_names(names);
        let named = Datum::Record(TypeOid::RECORD, Arc::new(named));
        let row = [value.clone(), named, Datum::Null];
        let mut bytes = Vec::new();
        write_tagged_row(&row, &mut bytes);
        let mut found = Vec::new();
        read_tagged_row(&bytes, &mut found).expect("own row");
        prop_assert!(found.len() == 3 && found.iter().zip(&row).all(|(a, b)| same(a, b)));
    }

    #[test]
    fn keys_have_the_order_of_values(
        a in record_of(OUTER),
        b in record_of(OUTER),
        descending in any::<bool>(),
    ) {
        let order = KeyOrder { descending, ..KeyOrder::ascending(OUTER) };
        let encoded = |value: &Datum| {
            let mut out = Vec::new();
            encode_key(value, order, &mut out);
            out
        };
        let (left, right) = (encoded(&a), encoded(&b));
        prop_assert_eq!(left.cmp(&right), compare_ordered(order, &a, &b));
        if left != right {
            prop_assert!(!left.starts_with(&right) && !right.starts_with(&left));
        }
        let both = [left.clone(), right].concat();
        prop_assert_eq!(key_length(&both, order).expect("own key"), left.len());
        let (value, length) = decode_key(&both, order).expect("own key");
        prop_assert!(value.is_none() && length == left.len());
    }

    #[test]
    fn text_and_binary_come_back(value in record_of(OUTER)) {
        let settings = settings();
        let context = InputContext { settings: &settings, now: 0 };
        let shown = to_text(&value, OUTER, &settings);
        let back = input(OUTER.into(), &shown, &context).expect("own text");
        prop_assert!(crate::equal(OUTER, &back, &value), "{}", shown);
        let mut bytes = Vec::new();
        write_binary(&value, OUTER, &settings.types, &mut bytes);
        let back = read_binary(OUTER.into(), &bytes, &settings.types).expect("own bytes");
        prop_assert!(same(&back, &value));
    }

    #[test]
    fn any_text_and_bytes_are_a_value_or_an_error(
        text in "[(),\"\\\\a1{} ]{0,20}",
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let settings = settings();
        let context = InputContext { settings: &settings, now: 0 };
        if let Ok(value) = input(INNER.into(), &text, &context) {
            let shown = to_text(&value, INNER, &settings);
            let again = input(INNER.into(), &shown, &context).expect("own text");
            prop_assert!(crate::equal(INNER, &again, &value), "{} shown as {}", text, shown);
        }
        let _ = read_binary(OUTER.into(), &bytes, &settings.types);
        let _ = key_length(&bytes, KeyOrder::ascending(OUTER));
        let _ = read_tagged_row(&bytes, &mut Vec::new());
    }
}

#[test]
fn values_stand_in_one_another_only_so_deep() {
    let nested = |levels: usize| {
        let mut value = Datum::Int4(1);
        let mut kind = TypeOid::INT4;
        for _ in 0..levels {
            value = Datum::Record(INNER, Arc::new(Record::new([kind], vec![value])));
            kind = INNER;
        }
        let columns = [ColumnType::new(INNER)];
        let mut bytes = Vec::new();
        form_row(&columns, &[value], &mut bytes);
        RowView::new(&columns, 1, false, &bytes).and_then(|view| view.check())
    };
    nested(RECORD_DEPTH_MAX).expect("within the limit");
    assert_eq!(nested(RECORD_DEPTH_MAX + 2).expect_err("too deep").sqlstate, "XX001");
}

#[test]
fn wire_bytes_are_those_of_postgresql() {
    // record_send(row(1, null, 1.5, array['a'])::inner), with the type's own number.
    let value = Record::new(
        kinds_of(INNER),
        vec![
            Datum::Int4(1),
            Datum::Null,
            Datum::Numeric(Arc::new(crate::Numeric::parse("1.5").expect("a number"))),
            Datum::array(TypeOid::TEXT, vec![Datum::text("a")]),
        ],
    );
    let mut bytes = Vec::new();
    write_binary(&Datum::Record(INNER, Arc::new(value)), INNER, &types(), &mut bytes);
    let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        shown,
        "00000004\
         00000017\
         00000004\
         00000001\
         00000019\
         ffffffff\
         000006a4\
         0000000c\
         000200000000000100011388\
         000003f1\
         00000019\
         000000010000000000000019000000010000000100000001\
         61"
    );
}

#[test]
fn what_cannot_be_compared_is_told() {
    let row = |kinds: &[TypeOid], values: Vec<Datum>| Record::new(kinds, values);
    let short = row(&[TypeOid::INT4], vec![Datum::Int4(1)]);
    let long = row(&[TypeOid::INT4, TypeOid::TEXT], vec![Datum::Int4(1), Datum::Null]);
    let wide = row(&[TypeOid::INT8], vec![Datum::Int8(1)]);
    let message = |a: &Record, b: &Record| a.try_compare(b, true).expect_err("refused").message;
    assert_eq!(
        message(&short, &long),
        "cannot compare record types with different numbers of columns"
    );
    assert_eq!(
        message(&short, &wide),
        "cannot compare dissimilar column types integer and bigint at record column 1"
    );
    let more = row(&[TypeOid::INT4, TypeOid::TEXT], vec![Datum::Int4(2), Datum::Null]);
    assert!(short.try_compare(&more, true).expect("the first field decides").is_lt());
    assert!(!long.all_null() && !long.none_null() && short.none_null());
}
