//! The decoders of this crate against any bytes.
//!
//! Each decoder in [`TARGETS`] accepts or refuses the bytes, and never panics. Accepted values are
//! written and read again, and must be the same.
//!
//! `niwaki_env::hostile` and the targets under `fuzz/` feed them.

use std::hash::DefaultHasher;

use niwaki_env::hostile::Target;

use crate::{
    Apart, ColumnMask, ColumnType, Compression, Datum, Field, InputContext, KeyOrder, Numeric,
    RowView, TextSettings, TypeOid, UserTypes, ValuePointer, compare, compress, datetime,
    decode_key, decompress, encode_key, equal, float4_to_char, float8_to_char, form_row,
    form_row_apart, hash, input, int4_to_char, int8_to_char, numeric_to_char, read_binary,
    read_tagged_row, to_number, to_text, value_of_image, write_binary, write_tagged,
    write_tagged_row,
};

/// The decoders.
pub const TARGETS: &[Target] = &[
    ("value_text", value_text_seeds, value_text),
    ("value_binary", value_binary_seeds, value_binary),
    ("stored_row", stored_row_seeds, stored_row),
    ("tagged_row", tagged_row_seeds, tagged_row),
    ("index_key", index_key_seeds, index_key),
    ("numeric", numeric_seeds, numeric),
    ("picture", picture_seeds, picture),
];

/// A value of each type that has a text form, as text.
const EXAMPLES: &[(TypeOid, &str)] = &[
    (TypeOid::BOOL, "yes"),
    (TypeOid::BYTEA, "\\x00ff10"),
    (TypeOid::BYTEA, "a\\\\b\\000"),
    (TypeOid::CHAR, "x"),
    (TypeOid::NAME, "a_name"),
    (TypeOid::INT8, "-9223372036854775808"),
    (TypeOid::INT2, "32767"),
    (TypeOid::INT4, " +12 "),
    (TypeOid::TEXT, "some text, ünïcode"),
    (TypeOid::OID, "4294967295"),
    (TypeOid::TID, "(4294967295,65535)"),
    (TypeOid::XID, "7"),
    (TypeOid::FLOAT4, "1.5e-30"),
    (TypeOid::FLOAT8, "-Infinity"),
    (TypeOid::TEXT_ARRAY, "{a,\"b\\\"c\",NULL}"),
    (TypeOid::NAME_ARRAY, "{a,b}"),
    (TypeOid::INT4_ARRAY, "{1,NULL,-3}"),
    (TypeOid::BYTEA_ARRAY, "{\"\\\\x00\"}"),
    (TypeOid::INTERVAL_ARRAY, "{\"1 day\",\"-2 mons\"}"),
    (TypeOid::BPCHAR, "ab  "),
    (TypeOid::VARCHAR, "ab"),
    (TypeOid::DATE, "2024-02-28 BC"),
    (TypeOid::TIMESTAMP, "Mon Feb 29 23:59:60.999999 2024"),
    (TypeOid::TIMESTAMPTZ, "2024-02-29T12:00:00.5+05:45"),
    (TypeOid::TIMESTAMPTZ, "20240229 040506 America/New_York"),
    (TypeOid::INTERVAL, "P1Y2M3DT4H5M6.7S"),
    (TypeOid::INTERVAL, "@ 1 year 2 mons -3 days 04:05:06.7 ago"),
    (TypeOid::NUMERIC, "-12345678901234567890.0123456789e-5"),
    (TypeOid::NUMERIC_ARRAY, "{1.0,NaN,Infinity}"),
    (TypeOid::PG_LSN, "16/B374D848"),
    (TypeOid::REGCLASS, "1259"),
    (TypeOid::TIME, "04:05:06.789 PM"),
    (TypeOid::TIME, "240000"),
    (TypeOid::TIMETZ, "040506.5-08:30"),
    (TypeOid::TIMETZ, "2003-04-12 04:05:06 America/New_York"),
    (TypeOid::TIMETZ_ARRAY, "{04:05+00,NULL,allballs}"),
    (TypeOid::UUID, "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}"),
    (TypeOid::UUID_ARRAY, "{a0eebc999c0b4ef8bb6d6bb9bd380a11,NULL}"),
    (TypeOid::JSON, " {\"a\" : [1, -2.5e3, null], \"a\": \"\\u0000\\ud83d\"} "),
    (
        TypeOid::JSONB,
        "{\"long key\": [1.50, -2e3, \"\\ud83d\\ude04\\n\"], \"b\": {\"\": [[], {}, true, null]}}",
    ),
    (TypeOid::JSONB, "[[[[[[[[false]]]]]]]]"),
    (
        TypeOid::JSONPATH,
        "strict $.a[0 to last] ? (@.\"b\\u0041\" like_regex \"^x\" flag \"i\" && !(@ > -1.5e2)).**{1 to 2}.size()",
    ),
    (TypeOid::JSONB_ARRAY, "{\"{\\\"a\\\": 1}\",NULL,3}"),
    (TypeOid::INT4_ARRAY, "[0:1][-1:0]={{1,2},{3,NULL}}"),
    (TypeOid::of_enum(16_400), "4611686018427387904"),
];

fn kind_of(byte: u8) -> TypeOid {
    EXAMPLES[usize::from(byte) % EXAMPLES.len()].0
}

/// Returns a small, a numeric or an odd typmod; half of the inputs get none.
fn typmod_of(byte: u8) -> i32 {
    match byte {
        0..=127 => -1,
        128..=191 => i32::from(byte) - 128,
        192..=223 => (i32::from(byte) - 192) << 16 | 6,
        _ => i32::from(byte).wrapping_mul(0x0101_0101),
    }
}

/// Returns the examples with the two bytes in front that pick type and typmod.
fn examples(rest: impl Fn(TypeOid, &str) -> Vec<u8>) -> Vec<Vec<u8>> {
    let examples = EXAMPLES.iter().enumerate();
    examples.map(|(at, (oid, text))| [vec![at as u8, 0], rest(*oid, text)].concat()).collect()
}

fn value(oid: TypeOid, text: &str) -> Datum {
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    input(oid.into(), text, &context).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn value_text_seeds() -> Vec<Vec<u8>> {
    examples(|_, text| text.as_bytes().to_vec())
}

fn value_text(bytes: &[u8]) {
    let Some((&[kind, typmod], text)) = bytes.split_first_chunk::<2>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let kind = ColumnType::with_typmod(kind_of(kind), typmod_of(typmod));
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    let Ok(value) = input(kind, text, &context) else { return };
    use_value(kind.oid, &value);
    let written = to_text(&value, kind.oid, &settings);
    match input(kind, &written, &context) {
        Ok(again) => {
            assert!(equal(kind.oid, &value, &again), "{text:?} → {written:?} → {again:?}");
        }
        Err(error) => panic!("{text:?} was read as {written:?}, which is refused: {error}"),
    }
}

/// Uses a value as every value must allow, wherever it came from.
fn use_value(oid: TypeOid, value: &Datum) {
    assert!(compare(oid, value, value).is_eq());
    hash(oid, value, &mut DefaultHasher::new());
    let mut row = Vec::new();
    let columns = [ColumnType::new(oid)];
    let has_nulls = form_row(&columns, std::slice::from_ref(value), &mut row);
    let view = RowView::new(&columns, 1, has_nulls, &row).and_then(|mut view| view.get(0));
    let again = view.unwrap_or_else(|error| panic!("{value:?} is not stored: {error}"));
    assert!(matches!(again, Some(Field::Value(again)) if equal(oid, value, &again)), "{value:?}");
}

fn value_binary_seeds() -> Vec<Vec<u8>> {
    examples(|oid, text| {
        let mut out = Vec::new();
        write_binary(&value(oid, text), oid, &UserTypes::default(), &mut out);
        out
    })
}

fn value_binary(bytes: &[u8]) {
    let Some((&[kind, typmod], bytes)) = bytes.split_first_chunk::<2>() else { return };
    let kind = ColumnType::with_typmod(kind_of(kind), typmod_of(typmod));
    let Ok(value) = read_binary(kind, bytes, &UserTypes::default()) else { return };
    use_value(kind.oid, &value);
    to_text(&value, kind.oid, &TextSettings::default());
    let mut written = Vec::new();
    write_binary(&value, kind.oid, &UserTypes::default(), &mut written);
    match read_binary(kind, &written, &UserTypes::default()) {
        Ok(again) => assert!(equal(kind.oid, &value, &again), "{value:?} → {again:?}"),
        Err(error) => panic!("{value:?} was written as {written:?}, which is refused: {error}"),
    }
}

/// Returns number of columns, their types, number of attributes and whether there are NULLs; then
/// the row.
fn stored_row_seeds() -> Vec<Vec<u8>> {
    let row = |nulls: bool| {
        let columns: Vec<_> = EXAMPLES.iter().map(|(oid, _)| ColumnType::new(*oid)).collect();
        let values = EXAMPLES.iter().enumerate().map(|(at, (oid, text))| {
            if nulls && at % 3 == 0 { Datum::Null } else { value(*oid, text) }
        });
        let values: Vec<_> = values.collect();
        let count = EXAMPLES.len() as u8;
        let mut out = vec![count];
        out.extend(0..count);
        out.extend([count, u8::from(nulls)]);
        form_row(&columns, &values, &mut out);
        out
    };
    vec![row(false), row(true), row_apart()]
}

/// Makes a row of texts: one compressed, one out of line.
fn row_apart() -> Vec<u8> {
    let text = EXAMPLES.iter().position(|(oid, _)| *oid == TypeOid::TEXT).unwrap_or(0) as u8;
    let columns = [ColumnType::new(kind_of(text)); 3];
    let long = "niwaki ".repeat(30);
    let values = [Datum::text(&long), Datum::text("a"), Datum::text(&long)];
    let raw_length = long.len() as u32;
    let compressed = compress(long.as_bytes()).unwrap_or_default();
    let form = |column| match column {
        0 => Some(Apart::Compressed {
            compression: Compression::Lz4,
            raw_length,
            bytes: &compressed,
        }),
        2 => Some(Apart::OutOfLine(ValuePointer {
            compression: Compression::None,
            raw_length,
            stored_length: raw_length,
            xid: 7,
            block: 3,
            offset: 1,
        })),
        _ => None,
    };
    let mut out = vec![3, text, text, text, 3, 0];
    form_row_apart(&columns, &values, form, &mut out);
    out
}

fn stored_row(bytes: &[u8]) {
    let Some((&count, rest)) = bytes.split_first() else { return };
    let Some((kinds, rest)) = rest.split_at_checked(usize::from(count)) else { return };
    let Some((&[natts, has_nulls], row)) = rest.split_first_chunk::<2>() else { return };
    let columns: Vec<_> = kinds.iter().map(|kind| ColumnType::new(kind_of(*kind))).collect();
    let Ok(mut view) = RowView::new(&columns, natts.into(), has_nulls & 1 == 1, row) else {
        return;
    };
    let sound = view.check().is_ok();
    for column in (0..=columns.len()).rev() {
        assert!(view.get_apart(column).is_ok() || !sound);
        assert!(view.get(column).is_ok() || !sound);
    }
    let mut out = vec![Datum::Null; columns.len()];
    let needed = ColumnMask::all(columns.len());
    let mut apart = Vec::new();
    assert!(view.deform_into(&mut out, &needed, &mut apart).is_ok() || !sound);
    for (column, form) in apart {
        let Apart::Compressed { compression, raw_length, bytes } = form else { continue };
        let image = decompress(compression, raw_length, bytes.into());
        let value = image.and_then(|image| value_of_image(columns[column].oid, &image));
        assert!(value.is_ok() || !sound);
    }
}

fn tagged_row_seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut seeds = vec![Vec::new()];
    for (oid, text) in EXAMPLES {
        let mut one = vec![0];
        write_tagged(&value(*oid, text), &mut one);
        all.extend_from_slice(&one);
        seeds.push(one);
    }
    seeds.push(all);
    seeds
}

fn tagged_row(bytes: &[u8]) {
    let mut row = Vec::new();
    if read_tagged_row(bytes, &mut row).is_ok() {
        let (mut out, mut again) = (Vec::new(), Vec::new());
        write_tagged_row(&row, &mut out);
        assert!(read_tagged_row(&out, &mut again).is_ok());
        assert_eq!(row.len(), again.len());
    }
}

fn index_key_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for order in 0..4 {
        seeds.extend(examples(|oid, text| {
            let mut out = Vec::new();
            encode_key(&value(oid, text), order_of(oid, order), &mut out);
            out
        }));
        let first = seeds.len() - EXAMPLES.len();
        seeds[first..].iter_mut().for_each(|seed| seed[1] = order);
    }
    seeds
}

fn order_of(oid: TypeOid, byte: u8) -> KeyOrder {
    KeyOrder { oid, descending: byte & 1 == 1, nulls_first: byte & 2 == 2 }
}

fn index_key(bytes: &[u8]) {
    let Some((&[kind, order], key)) = bytes.split_first_chunk::<2>() else { return };
    let order = order_of(kind_of(kind), order);
    let Ok((value, taken)) = decode_key(key, order) else { return };
    assert!(taken <= key.len());
    let Some(value) = value else { return };
    let mut again = Vec::new();
    encode_key(&value, order, &mut again);
    let reread = decode_key(&again, order);
    assert!(
        reread.is_ok_and(|(reread, all)| reread.is_some_and(|r| equal(order.oid, &r, &value))
            && all == again.len()),
        "{value:?}"
    );
}

fn numeric_seeds() -> Vec<Vec<u8>> {
    let texts = ["0.0000", "-12345.678e3", "99999999999999999999.5", "NaN", "-inf", "1e-40"];
    let mut seeds = Vec::new();
    for text in texts {
        let number = Numeric::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (mut wire, mut stored) = (vec![0], vec![1]);
        number.write_wire(&mut wire);
        number.write_stored(&mut stored);
        seeds.extend([wire, stored, [b"\x02", text.as_bytes()].concat()]);
    }
    seeds
}

fn numeric(bytes: &[u8]) {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let number = match form % 3 {
        0 => Numeric::from_wire(bytes),
        1 => Numeric::from_stored(bytes),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => Numeric::parse(text),
            Err(_) => return,
        },
    };
    let Ok(number) = number else { return };
    let text = number.to_string();
    let again = Numeric::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(number, again);
    assert_eq!(number.neg().neg(), number);
    let zero = number.sub(&number);
    assert!(zero.is_ok(), "{text}");
    // Sums and roundings may leave the range; they must say so.
    let _ = (number.add(&again), number.ceil(), number.floor(), number.round(3), number.trunc(-3));
    if text.len() < 200 {
        let _ = (number.mul(&again), number.div(&again), number.rem(&again));
    }
}

/// Returns a format picture, a zero byte, and the text that it reads.
fn picture_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "FXYYYY-MM-DD HH24:MI:SS.US\x002024-02-29 13:05:06.789",
        "Dy, FMDDth Mon Y,YYY \"at\" HH12:MI a.m. TZH:TZM\x00Mon, 3rd Jun 2,024 at 05:06 p.m. -03:30",
        "IYYY-IW-ID CC J Q W RM B.C. SSSSS FF3\x002024-09-3 21 2460000 1 2 XII A.D. 00001 123",
        "FMS9G999G990D99EEEE\x00-1,234,567.89",
        "<L9,999.99PR>\x00<1,234.56>",
        "FM99V99thRN\x001234th",
    ];
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

fn picture(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (picture, given) = text.split_once('\0').unwrap_or((text, ""));
    let settings = TextSettings::default();
    let read = datetime::to_timestamp(given, picture, &settings.zone);
    let _ = datetime::to_date(given, picture);
    let number = to_number(given, picture);
    let moment = read.unwrap_or(762_000_000_123_456);
    let _ = datetime::timestamp_to_char(moment, picture);
    let _ = datetime::timestamptz_to_char(moment, picture, &settings.zone);
    let interval = datetime::Interval::new(given.len() as i32 - 10, -3, moment);
    let _ = datetime::interval_to_char(&interval, picture);
    let number = number.ok().flatten().unwrap_or(Numeric::from(-1_234_567i64));
    let _ = numeric_to_char(&number, picture);
    let _ = int4_to_char(-12_345, picture);
    let _ = int8_to_char(1_234_567_890_123, picture);
    for number in [number.to_f64().unwrap_or(0.5), f64::NAN, -0.0, f64::MAX] {
        let _ = (float4_to_char(number as f32, picture), float8_to_char(number, picture));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
