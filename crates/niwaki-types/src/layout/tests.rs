use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::test_values::{any_type, same_image, value_or_null};
use crate::{
    Jsonb, KeyOrder, Numeric, TimeTz, TypeOid, Vector, compress, encode_key, value_of_image,
};

/// Returns a value that is neither compressed nor out of line.
fn plain(view: &mut RowView<'_>, column: usize) -> Datum {
    match view.get(column).expect("own row").expect("the row has it") {
        Field::Value(value) => value,
        Field::Apart(apart) => panic!("it is {apart:?}"),
    }
}

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
    fn sets_of_columns_meet_where_one_is_in_both(
        one in proptest::collection::vec(0usize..200, 0..8),
        other in proptest::collection::vec(0usize..200, 0..8),
    ) {
        let masks = [&one, &other].map(|columns| columns.iter().copied().collect::<ColumnMask>());
        let meet = one.iter().any(|column| other.contains(column));
        prop_assert_eq!(masks[0].meets(&masks[1]), meet);
        prop_assert_eq!(masks[1].meets(&masks[0]), meet);
    }

    #[test]
    fn tagged_rows_come_back((_, values) in any_row(), cut in any::<usize>()) {
        let mut bytes = Vec::new();
        write_tagged_row(&values, &mut bytes);
        let mut found = Vec::new();
        read_tagged_row(&bytes, &mut found).expect("own row");
        prop_assert_eq!(found.len(), values.len());
        prop_assert!(found.iter().zip(&values).all(|(found, value)| same_image(found, value)));
        let mut places = vec![Datum::Null; values.len() + 1];
        prop_assert_eq!(read_tagged_into(&bytes, &mut places).expect("own row"), values.len());
        prop_assert!(places.iter().zip(&values).all(|(found, value)| same_image(found, value)));
        if let Some(last) = values.len().checked_sub(1) {
            prop_assert!(read_tagged_into(&bytes, &mut places[..last]).is_err());
        }
        // The remaining bytes are a row of fewer values, or none.
        let cut = cut % (bytes.len() + 1);
        let mut found = Vec::new();
        if read_tagged_row(&bytes[..cut], &mut found).is_ok() {
            prop_assert!(found.iter().zip(&values).all(|(found, value)| same_image(found, value)));
        }
    }

    #[test]
    fn rows_come_back((columns, values) in any_row(), order in any::<u64>(), mask in any_mask()) {
        let mut bytes = Vec::new();
        let has_nulls = form_row(&columns, &values, &mut bytes);
        prop_assert_eq!(has_nulls, values.iter().any(Datum::is_null));
        let mut view = RowView::new(&columns, columns.len(), has_nulls, &bytes).expect("own row");
        view.check().expect("own row");

        // Columns are read in any order, some of them twice.
        for step in 0..columns.len() * 2 {
            let column = (order as usize).wrapping_mul(step + 1) % columns.len();
            prop_assert!(view.get_apart(column).expect("own row").is_none());
            prop_assert!(same_image(&plain(&mut view, column), &values[column]));
            let order = KeyOrder { descending: step % 2 == 1, ..KeyOrder::ascending(columns[column].oid) };
            let (mut key, mut of_value) = (Vec::new(), Vec::new());
            prop_assert_eq!(view.encode_key(column, order, &mut key).expect("own row"), Some(true));
            encode_key(&values[column], order, &mut of_value);
            prop_assert_eq!(&key, &of_value);
            let other = &values[(column + 1) % columns.len()];
            encode_key(other, order, &mut key);
            let rest = &key[of_value.len()..];
            prop_assert_eq!(view.strip_key(column, order, &key).expect("own row"), KeyPart::Rest(rest));
            let twice = rest.repeat(2);
            let part = view.strip_key(column, order, &twice).expect("own row");
            prop_assert_eq!(part == KeyPart::Rest(rest), of_value == rest);
        }
        let missing = view.strip_key(columns.len(), KeyOrder::ascending(TypeOid::INT4), &[]);
        prop_assert_eq!(missing.expect("own row"), KeyPart::Missing);
        prop_assert!(view.get(columns.len()).expect("own row").is_none());
        let order = KeyOrder::ascending(TypeOid::INT4);
        prop_assert_eq!(view.encode_key(columns.len(), order, &mut Vec::new()).expect("own row"), None);

        // A place that was not asked for keeps its value.
        let mut places = vec![Datum::text("untouched"); columns.len()];
        let mut apart = Vec::new();
        let present = view.deform_into(&mut places, &mask, &mut apart).expect("own row");
        prop_assert_eq!((present, apart), (columns.len(), Vec::new()));
        for (column, place) in places.iter().enumerate() {
            let untouched = Datum::text("untouched");
            let expected = if mask.contains(column) { &values[column] } else { &untouched };
            prop_assert!(same_image(place, expected));
        }

        // The row is decoded twice into vectors, which have a value more each time.
        let mut vectors: Vec<Vector> = columns.iter().map(|kind| Vector::for_type(kind.oid)).collect();
        for rows in 1..=2 {
            let present = view.deform_into_vectors(&mut vectors, &mask, &mut Vec::new()).expect("own row");
            prop_assert_eq!(present, columns.len());
            for (column, vector) in vectors.iter().enumerate() {
                if !mask.contains(column) {
                    prop_assert!(vector.is_empty());
                    continue;
                }
                prop_assert_eq!(vector.len(), rows);
                let value = vector.get(rows - 1);
                prop_assert!(value.is_null() == values[column].is_null());
                prop_assert!(value.is_null() || same_image(&value, &values[column]));
            }
        }
    }

    #[test]
    fn forms_that_tell_differ_where_keys_do(
        (oid, values) in any_type().prop_flat_map(|oid| (Just(oid), proptest::collection::vec(value_or_null(oid), 2..6))),
    ) {
        let order = KeyOrder::ascending(oid);
        let forms: Vec<_> = values.iter().filter(|value| !value.is_null()).map(|value| {
            let (mut form, mut key) = (Vec::new(), Vec::new());
            form_row(&[ColumnType::new(oid)], std::slice::from_ref(value), &mut form);
            encode_key(value, order, &mut key);
            (form, key)
        }).collect();
        for (form, key) in &forms {
            for (other, other_key) in &forms {
                let told = form_tells(oid, form) && form_tells(oid, other);
                prop_assert!(!told || (form == other) == (key == other_key));
            }
        }
    }

    #[test]
    fn versions_that_go_on_alike_have_the_same_columns_from_there_on(
        ((columns, values), other) in any_row().prop_flat_map(|(columns, values)| {
            let others: Vec<_> = columns.iter().map(|column| value_or_null(column.oid)).collect();
            (Just((columns, values)), others)
        }),
        changed in any_mask(),
    ) {
        let mut there = values.clone();
        for column in changed.iter().filter(|column| *column < columns.len()) {
            there[column] = other[column].clone();
        }
        let form = |values: &[Datum]| {
            let mut bytes = Vec::new();
            (form_row(&columns, values, &mut bytes), bytes)
        };
        let ((nulls, bytes), (other_nulls, others)) = (form(&values), form(&there));
        let natts = columns.len();
        let mut view = RowView::new(&columns, natts, nulls, &bytes).expect("own row");
        let mut others = RowView::new(&columns, natts, other_nulls, &others).expect("own row");
        for column in 0..natts {
            let same = view.get_stored(column).expect("own row") == others.get_stored(column).expect("own row");
            let (mut here, mut there) = (view.clone(), others.clone());
            let alike = (column + 1..natts).all(|later| {
                here.get_stored(later).expect("own row") == there.get_stored(later).expect("own row")
            });
            let said = view.goes_on_as(&others);
            prop_assert!(!said || alike, "column {column}");
            // Only NULLs may make `goes_on_as` false for rows that are alike.
            let no_null = !nulls && !other_nulls;
            prop_assert!(said || !alike || !no_null, "column {column}, same {same}");
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
        let all = ColumnMask::all(columns.len());
        let present = view.deform_into(&mut places, &all, &mut Vec::new());
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

/// Reads everything; must not panic, whatever the bytes are.
fn read_everything(columns: &[ColumnType], has_nulls: bool, bytes: &[u8]) {
    let Ok(mut view) = RowView::new(columns, columns.len(), has_nulls, bytes) else { return };
    let sound = view.check().is_ok();
    let mut read = true;
    for column in (0..columns.len()).rev() {
        read &= view.get(column).is_ok();
        let _ = view.get_apart(column);
    }
    assert!(read || !sound, "what passes the check can be read");
    let mut places = vec![Datum::Null; columns.len()];
    let mut apart = Vec::new();
    let _ = view.deform_into(&mut places, &ColumnMask::all(columns.len()), &mut apart);
    for (column, form) in apart {
        let Apart::Compressed { compression, raw_length, bytes } = form else { continue };
        if let Ok(image) = decompress(compression, raw_length, bytes.into()) {
            let _ = value_of_image(columns[column].oid, &image);
        }
    }
}

#[test]
fn bytes_of_arrays_are_as_the_format_says() {
    let stored = |text: &str| {
        let settings = crate::TextSettings::default();
        let context = crate::InputContext { settings: &settings, now: 0 };
        let value = crate::input(TypeOid::INT2_ARRAY.into(), text, &context).expect("an array");
        let mut bytes = Vec::new();
        form_row(&[TypeOid::INT2_ARRAY.into()], &[value], &mut bytes);
        bytes
    };
    assert_eq!(stored("{}"), [5, 21, 0, 0, 0, 0], "length, smallint, no dimensions");
    assert_eq!(
        stored("{7,NULL}"),
        [17, 21, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 7, 0, 1],
        "two elements from 1, of which one is NULL"
    );
    assert_eq!(
        stored("[-1:-1][0:0]={{5}}"),
        [24, 21, 0, 0, 0, 2]
            .into_iter()
            .chain([1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0])
            .collect::<Vec<u8>>()
    );
}

#[test]
fn damaged_arrays_are_refused() {
    // Cases: seven dimensions; no dimension but a length; more elements than bytes; elements behind
    // the last one.
    for (image, message) in [
        (&[21, 0, 0, 0, 7][..], "stored row ends inside a value"),
        (&[21, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0], "a dimension without elements"),
        (&[21, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0], "stored row ends inside a value"),
        (&[21, 0, 0, 0, 1, 255, 255, 255, 255, 1, 0, 0, 0], "array size exceeds"),
        (&[21, 0, 0, 0, 1, 1, 0, 0, 0, 255, 255, 255, 127, 1], "lower bound is too large"),
        (&[21, 0, 0, 0, 0, 1], "bytes after its last element"),
        (&[21, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 2], "the null mark 2"),
        (&[23, 0, 0, 0, 0], "elements of type oid 23, not 21"),
    ] {
        let error = value_of_image(TypeOid::INT2_ARRAY, image).expect_err("damaged");
        assert_eq!(error.sqlstate, "XX001");
        assert!(error.message.contains(message), "{error}, not {message}");
    }
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
fn times_and_uuids_are_as_the_format_says() {
    let columns = [TypeOid::TIME, TypeOid::TIMETZ, TypeOid::UUID].map(ColumnType::new);
    let uuid: [u8; 16] = std::array::from_fn(|at| at as u8);
    let zoned = TimeTz { time: 1, west: -2 };
    let values = [Datum::Time(86_400_000_000), Datum::TimeTz(zoned), Datum::Uuid(uuid)];
    let mut bytes = Vec::new();
    assert!(!form_row(&columns, &values, &mut bytes));
    let mut expected = vec![0, 0x60, 0xd7, 0x1d, 0x14, 0, 0, 0];
    expected.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
    expected.extend_from_slice(&uuid);
    assert_eq!(bytes, expected);
    // A time beyond the day is damage, with and without a zone.
    for (column, place) in [(0, 0), (1, 8)] {
        let mut damaged = bytes.clone();
        damaged[place + 7] = 0x80;
        let mut view = RowView::new(&columns, 3, false, &damaged).expect("no bitmap is needed");
        assert_eq!(view.get(column).expect_err("damaged").sqlstate, "XX001");
        assert!(view.check().is_err());
    }
}

#[test]
fn bytes_of_jsonb_are_as_the_format_says() {
    let stored = |text: &str| {
        let value = Datum::Jsonb(Jsonb::parse(text).expect("JSON"));
        image(TypeOid::JSONB, &value).into_owned()
    };
    let example = [0xc1, 0x81, 0x61, 0xa2, 0x62, 0x00, 0x01, 0x40];
    assert_eq!(stored("{\"a\": [1, true]}"), example);
    assert_eq!(stored("[null, false, -1.50]"), [0xa3, 0x00, 0x20, 0x62, 0x82, 150]);
    // The length stands in the head up to 28, then in one, two and four bytes.
    for (length, head) in [
        (28usize, &[0x80u8 | 28][..]),
        (29, &[0x80 | 29, 29]),
        (255, &[0x80 | 29, 255]),
        (256, &[0x80 | 30, 0, 1]),
        (65_536, &[0x80 | 31, 0, 0, 1, 0]),
    ] {
        let bytes = stored(&format!("\"{}\"", "x".repeat(length)));
        assert_eq!((&bytes[..head.len()], bytes.len()), (head, head.len() + length));
    }
    for wrong in [
        &[0x9d, 3, b'a', b'b', b'c'][..], // not the shortest form of a length
        &[0xe0],                          // no such kind
        &[0x01],                          // null has no length
        &[0x81, 0],                       // a zero character
        &[0xc2, 0x81, b'b', 0, 0x81, b'a', 0], // keys out of order
        &[0xc2, 0x81, b'a', 0, 0x81, b'a', 0], // a key twice
        &[0xc1, 0x00, 0x00],              // a key that is no string
        &[0x61, 0x3f],                    // NaN
        &[0xa2, 0x00],                    // an item too few
        &[0x00, 0x00],                    // a value too many
    ] {
        let error = value_of_image(TypeOid::JSONB, wrong).expect_err("damage");
        assert_eq!(error.sqlstate, "XX001", "{wrong:?}");
    }
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
        assert!(same_image(&plain(&mut view, 0), &text));
    }
}

/// Returns a pointer with a different number in each field.
fn pointer(compression: Compression) -> ValuePointer {
    let stored_length = if compression == Compression::None { 0x0403_0201 } else { 0x0003_0201 };
    ValuePointer {
        compression,
        raw_length: 0x0403_0201,
        stored_length,
        xid: 0x1817_1615_1413_1211,
        block: 0x2423_2221,
        offset: 0x3231,
    }
}

#[test]
fn values_apart_are_as_the_format_says() {
    let columns = [TypeOid::TEXT, TypeOid::INT4, TypeOid::BYTEA].map(ColumnType::new);
    let text = "abcabcabc".repeat(40);
    let values = [Datum::text(&text), Datum::Int4(-1), Datum::Bytea(Arc::from([7u8; 3]))];
    let compressed = compress(text.as_bytes()).expect("it saves");
    let forms = [
        Some(Apart::Compressed {
            compression: Compression::Lz4,
            raw_length: 360,
            bytes: &compressed,
        }),
        None,
        Some(Apart::OutOfLine(pointer(Compression::Lz4))),
    ];
    let mut bytes = Vec::new();
    assert!(!form_row_apart(&columns, &values, |column| forms[column], &mut bytes));
    let length = u8::try_from(compressed.len() + 5).expect("short");
    assert!(length < 0x80);
    let mut expected = vec![0xc1, length, 1, 0x68, 1, 0, 0];
    expected.extend_from_slice(&compressed);
    assert_eq!(expected.len(), forms[0].expect("one").size_in_row());
    expected.extend_from_slice(&[0xff; 4]);
    expected.extend_from_slice(&[0xc2, 23, 1, 1, 2, 3, 4, 1, 2, 3, 0]);
    expected.extend_from_slice(&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    expected.extend_from_slice(&[0x21, 0x22, 0x23, 0x24, 0x31, 0x32]);
    assert_eq!(bytes, expected);
    assert_eq!(ValuePointer::SIZE_IN_ROW, 25);

    let mut view = RowView::new(&columns, 3, false, &bytes).expect("own row");
    view.check().expect("own row");
    assert_eq!(view.get_apart(2).expect("own row"), forms[2]);
    let (order, mut key) = (KeyOrder::ascending(TypeOid::TEXT), Vec::new());
    assert_eq!(view.encode_key(0, order, &mut key).expect("own row"), Some(false));
    assert!(key.is_empty());
    assert_eq!(view.get_apart(0).expect("own row"), forms[0]);
    assert!(same_image(&plain(&mut view, 1), &values[1]));
    let mut places = vec![Datum::Null; 3];
    let mut apart = Vec::new();
    view.deform_into(&mut places, &ColumnMask::all(3), &mut apart).expect("own row");
    assert_eq!(apart, [(0, forms[0].expect("one")), (2, forms[2].expect("one"))]);
    let image = decompress(Compression::Lz4, 360, (&compressed).into()).expect("own image");
    let back = value_of_image(TypeOid::TEXT, &image).expect("own image");
    assert!(same_image(&back, &values[0]));
}

#[test]
fn damaged_values_apart_are_refused() {
    let columns = [ColumnType::new(TypeOid::TEXT)];
    let refused = |bytes: &[u8]| {
        let mut view = RowView::new(&columns, 1, false, bytes).expect("no bitmap is needed");
        assert_eq!(view.get(0).expect_err("damaged").sqlstate, "XX001", "{bytes:?}");
    };
    refused(&[0xc2, 1, 0]);
    refused(&[0xc2, 23, 0]);
    refused(&[0xc1, 4, 1, 0, 0, 0]);
    refused(&[0xc1, 5, 0, 0, 0, 0, 0]);
    refused(&[0xc1, 5, 2, 0, 0, 0, 0]);
    let mut wrong = vec![0xc2, 23];
    wrong.extend_from_slice(
        &ValuePointer { raw_length: 9, ..pointer(Compression::None) }.to_bytes(),
    );
    refused(&wrong);
    // This type's values are never compressed or out of line.
    let columns = [ColumnType::new(TypeOid::NAME)];
    let mut view = RowView::new(&columns, 1, false, &[0xc1, 5, 1, 1, 0, 0, 0]).expect("a row");
    assert_eq!(view.get(0).expect_err("a name").sqlstate, "XX001");

    let code = |length: u32, bytes: &'static [u8]| {
        decompress(Compression::Lz4, length, bytes.into()).expect_err("damaged").sqlstate
    };
    // An impossible length of such a block asks for no memory.
    assert_eq!(code(u32::MAX, &[0x1f, 0, 1, 0]), "XX001");
    assert_eq!(code(1 << 30, &[0x1f, 0, 1, 0]), "XX001");
    assert_eq!(code(500, &[0x1f, 0, 1, 0]), "XX001");
    assert_eq!(code(4, &[]), "XX001");
    assert!(decompress(Compression::None, 3, b"abcd".into()).is_err());
}

proptest! {
    #[test]
    fn images_come_back(values in proptest::collection::vec(value_or_null(TypeOid::NUMERIC_ARRAY), 0..3)) {
        for value in values.iter().filter(|value| !value.is_null()) {
            let image = image(TypeOid::NUMERIC_ARRAY, value);
            let back = value_of_image(TypeOid::NUMERIC_ARRAY, &image).expect("own image");
            prop_assert!(same_image(&back, value));
        }
    }

    #[test]
    fn compressed_images_come_back(image in proptest::collection::vec(0u8..4, 0..4000)) {
        let Some(compressed) = compress(&image) else { return Ok(()) };
        prop_assert!(compressed.len() < image.len());
        let length = u32::try_from(image.len()).expect("short");
        let back = decompress(Compression::Lz4, length, (&compressed).into()).expect("own image");
        prop_assert_eq!(back.as_ref(), image);
        prop_assert!(decompress(Compression::Lz4, length + 1, (&compressed).into()).is_err());
        prop_assert!(decompress(Compression::Lz4, length - 1, (&compressed).into()).is_err());
    }

    #[test]
    fn any_bytes_decompress_or_not(length in any::<u32>(), bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(image) = decompress(Compression::Lz4, length, (&bytes).into()) {
            prop_assert_eq!(image.len(), length as usize);
        }
    }
}

#[test]
fn more_attributes_than_columns_is_corruption() {
    let columns = [ColumnType::new(TypeOid::INT4)];
    let error = RowView::new(&columns, 2, false, &[0; 8]).expect_err("one column");
    assert_eq!(error.sqlstate, "XX001");
}

#[test]
fn a_set_of_columns_has_what_was_added() {
    let some = [0, 63, 64, 130];
    let mask: ColumnMask = some.into_iter().collect();
    assert_eq!(mask.iter().collect::<Vec<_>>(), some);
    assert_eq!(mask.end(), 131);
    assert!((0..300).all(|column| mask.contains(column) == some.contains(&column)));
    assert_eq!(mask, some.into_iter().rev().collect());
}
