use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::test_values::{any_type, same_image, value_or_null};
use crate::{Numeric, TypeOid};

fn any_row() -> impl Strategy<Value = (Vec<ColumnType>, Vec<Datum>)> {
    proptest::collection::vec(any_type(), 0..20).prop_flat_map(|types| {
        let values: Vec<_> = types.iter().map(|oid| value_or_null(*oid)).collect();
        (Just(types.into_iter().map(ColumnType::new).collect::<Vec<_>>()), values)
    })
}

fn any_mask() -> impl Strategy<Value = ColumnMask> {
    proptest::collection::vec(0usize..20, 0..20).prop_map(|columns| columns.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn rows_come_back((columns, values) in any_row(), order in any::<u64>(), mask in any_mask()) {
        let mut bytes = Vec::new();
        let has_nulls = form_row(&columns, &values, &mut bytes);
        prop_assert_eq!(has_nulls, values.iter().any(Datum::is_null));
        let mut view = RowView::new(&columns, columns.len(), has_nulls, &bytes).expect("own row");
        view.check().expect("own row");

        let mut all = Vec::new();
        view.deform_all(&mut all).expect("own row");
        prop_assert!(all.iter().zip(&values).all(|(a, b)| same_image(a, b)));

        // In any order, some of them twice.
        for step in 0..columns.len() * 2 {
            let column = (order as usize).wrapping_mul(step + 1) % columns.len();
            let value = view.get(column).expect("own row").expect("the row has it");
            prop_assert!(same_image(&value, &values[column]));
            let raw = view.get_raw(column).expect("own row").expect("the row has it");
            prop_assert_eq!(raw.is_none(), values[column].is_null());
        }
        prop_assert!(view.get(columns.len()).expect("own row").is_none());

        // A place that was not asked for keeps what stands there.
        let mut places = vec![Datum::text("untouched"); columns.len()];
        let present = view.deform_into(&mut places, &mask).expect("own row");
        prop_assert_eq!(present, columns.len());
        for (column, place) in places.iter().enumerate() {
            let untouched = Datum::text("untouched");
            let expected = if mask.contains(column) { &values[column] } else { &untouched };
            prop_assert!(same_image(place, expected));
        }
    }

    #[test]
    fn columns_added_later_are_missing((mut columns, values) in any_row()) {
        let mut bytes = Vec::new();
        let has_nulls = form_row(&columns, &values, &mut bytes);
        columns.push(ColumnType::new(TypeOid::INT4));
        let natts = values.len();
        let mut view = RowView::new(&columns, natts, has_nulls, &bytes).expect("own row");
        prop_assert!(view.get(natts).expect("own row").is_none());
        let mut places = vec![Datum::Bool(true); columns.len()];
        let present = view.deform_into(&mut places, &ColumnMask::all(columns.len()));
        prop_assert_eq!(present.expect("own row"), natts);
        prop_assert!(matches!(places.last(), Some(Datum::Bool(true))));
    }

    #[test]
    fn damaged_rows_are_values_or_errors(
        (columns, values) in any_row(),
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        cut in any::<u16>(),
    ) {
        let mut bytes = Vec::new();
        let has_nulls = form_row(&columns, &values, &mut bytes);
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
        }
        bytes.truncate(usize::from(cut) % (bytes.len() + 1));
        read_everything(&columns, has_nulls, &bytes);
    }

    #[test]
    fn any_bytes_are_values_or_errors(
        types in proptest::collection::vec(any_type(), 0..12),
        has_nulls in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let columns: Vec<_> = types.into_iter().map(ColumnType::new).collect();
        read_everything(&columns, has_nulls, &bytes);
    }
}

/// Must not panic, whatever the bytes are.
fn read_everything(columns: &[ColumnType], has_nulls: bool, bytes: &[u8]) {
    let Ok(mut view) = RowView::new(columns, columns.len(), has_nulls, bytes) else { return };
    let sound = view.check().is_ok();
    let mut read = true;
    for column in (0..columns.len()).rev() {
        read &= view.get(column).is_ok();
        let _ = view.get_raw(column);
    }
    assert!(read || !sound, "what passes the check can be read");
    let mut places = vec![Datum::Null; columns.len()];
    let _ = view.deform_into(&mut places, &ColumnMask::all(columns.len()));
}

#[test]
fn bytes_are_as_the_format_says() {
    let columns = [TypeOid::INT4, TypeOid::TEXT, TypeOid::INT8, TypeOid::NUMERIC, TypeOid::BOOL]
        .map(ColumnType::new);
    let number = Datum::Numeric(Arc::new(Numeric::parse("-1.50").expect("a number")));
    let values = [Datum::Int4(-2), Datum::text("hé"), Datum::Null, number, Datum::Bool(true)];
    let mut bytes = Vec::new();
    assert!(form_row(&columns, &values, &mut bytes));
    assert_eq!(
        bytes,
        [
            0b0000_0100, // the third value is NULL
            0xfe,
            0xff,
            0xff,
            0xff, // -2
            3,
            b'h',
            0xc3,
            0xa9, // three bytes of text
            2,
            0x80 | 2,
            150, // two bytes: negative, scale 2, coefficient 150
            1,   // true
        ]
    );
}

#[test]
fn lengths_grow_at_128_and_16384() {
    let columns = [ColumnType::new(TypeOid::TEXT)];
    for (length, header) in [
        (0usize, &[0u8][..]),
        (127, &[127]),
        (128, &[0x80, 128]),
        (16_383, &[0xbf, 0xff]),
        (16_384, &[0xc0, 0, 0x40, 0, 0]),
    ] {
        let text = Datum::text(&"x".repeat(length));
        let mut bytes = Vec::new();
        assert!(!form_row(&columns, std::slice::from_ref(&text), &mut bytes));
        assert_eq!(&bytes[..header.len()], header, "header of {length}");
        assert_eq!(bytes.len(), header.len() + length);
        let mut view = RowView::new(&columns, 1, false, &bytes).expect("own row");
        let back = view.get(0).expect("own row").expect("one column");
        assert!(same_image(&back, &text));
    }
}

#[test]
fn values_out_of_line_are_refused_by_name() {
    let columns = [ColumnType::new(TypeOid::TEXT)];
    let mut view = RowView::new(&columns, 1, false, &[0xc2, 1, 0]).expect("a bitmap is not needed");
    assert_eq!(view.get(0).expect_err("not supported yet").sqlstate, "0A000");
}

#[test]
fn more_attributes_than_columns_is_corruption() {
    let columns = [ColumnType::new(TypeOid::INT4)];
    let error = RowView::new(&columns, 2, false, &[0; 8]).expect_err("one column");
    assert_eq!(error.sqlstate, "XX001");
}
