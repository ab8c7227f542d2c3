//! Format pictures, with the styles of dates and intervals, held against PostgreSQL's results.

use std::sync::Arc;

use proptest::prelude::*;

use crate::operations_tests::operand;
use crate::text_io::tests::{column_type, unescaped};
use crate::{
    DateOrder, DateStyle, Datum, InputContext, IntervalStyle, Result, TextSettings, TypeOid,
    datetime, float4_to_char, float8_to_char, input, int4_to_char, int8_to_char, numeric_to_char,
    to_number, to_text,
};

/// Returns the text of a value, or an error with all that a client sees of it.
fn rendered(result: Result<Datum>, oid: TypeOid, settings: &TextSettings) -> String {
    match result {
        Ok(Datum::Null) => "<null>".into(),
        Ok(value) => to_text(&value, oid, settings),
        Err(error) => {
            let detail = error.detail.map(|detail| format!(" [{detail}]")).unwrap_or_default();
            let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("!{} {}{detail}{hint}", error.sqlstate, error.message)
        }
    }
}

fn evaluate(function: &str, a: &Datum, picture: &str, settings: &TextSettings) -> Result<Datum> {
    let shown = match (function, a) {
        ("to_char", Datum::Timestamp(a)) => datetime::timestamp_to_char(*a, picture)?,
        ("to_char", Datum::TimestampTz(a)) => {
            datetime::timestamptz_to_char(*a, picture, &settings.zone)?
        }
        ("to_char", Datum::Interval(a)) => datetime::interval_to_char(a, picture)?,
        ("to_char", Datum::Int4(a)) => Some(int4_to_char(*a, picture)?),
        ("to_char", Datum::Int8(a)) => Some(int8_to_char(*a, picture)?),
        ("to_char", Datum::Float4(a)) => Some(float4_to_char(*a, picture)?),
        ("to_char", Datum::Float8(a)) => Some(float8_to_char(*a, picture)?),
        ("to_char", Datum::Numeric(a)) => Some(numeric_to_char(a, picture)?),
        ("to_timestamp", Datum::Text(a)) => {
            return Ok(Datum::TimestampTz(datetime::to_timestamp(a, picture, &settings.zone)?));
        }
        ("to_date", Datum::Text(a)) => return Ok(Datum::Date(datetime::to_date(a, picture)?)),
        ("to_number", Datum::Text(a)) => {
            let number = to_number(a, picture)?;
            return Ok(number.map_or(Datum::Null, |number| Datum::Numeric(Arc::new(number))));
        }
        other => panic!("unknown function {other:?}"),
    };
    Ok(shown.map_or(Datum::Null, |text| Datum::Text(text.into())))
}

#[test]
fn pictures_are_those_of_postgresql() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut settings = TextSettings::default();
    for line in include_str!("../testdata/pictures.tsv").lines() {
        if line.starts_with('#') {
            continue;
        }
        let [function, definition, a, picture, zone, expected] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("a line of six fields: {line}");
        };
        count += 1;
        settings.set_time_zone(zone).expect("a zone");
        let context = InputContext { settings: &settings, now: 0 };
        let result = operand(definition, &unescaped(a), &context)
            .and_then(|a| evaluate(function, &a, &unescaped(picture), &settings));
        let found = rendered(result, TypeOid::TEXT, &settings);
        let expected = unescaped(expected);
        if found != expected {
            wrong.push(format!(
                "{function} {definition} {a:?} by {picture:?} in {zone}: {found:?}, not {expected:?}"
            ));
        }
    }
    assert!(count > 1000, "the data file is there");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn styles_are_those_of_postgresql() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("../testdata/styles.tsv").lines() {
        if line.starts_with('#') {
            continue;
        }
        let [style, definition, zone, text, expected] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("a line of five fields: {line}");
        };
        count += 1;
        let mut settings = TextSettings::default();
        settings.set_time_zone(zone).expect("a zone");
        match style.split_once(", ") {
            Some((style, order)) => {
                settings.date_style = match style {
                    "ISO" => DateStyle::Iso,
                    "SQL" => DateStyle::Sql,
                    "Postgres" => DateStyle::Postgres,
                    "German" => DateStyle::German,
                    other => panic!("unknown style {other}"),
                };
                settings.date_order = match order {
                    "MDY" => DateOrder::MonthDayYear,
                    "DMY" => DateOrder::DayMonthYear,
                    "YMD" => DateOrder::YearMonthDay,
                    other => panic!("unknown order {other}"),
                };
            }
            None => {
                settings.interval_style = match style {
                    "postgres" => IntervalStyle::Postgres,
                    "postgres_verbose" => IntervalStyle::PostgresVerbose,
                    "sql_standard" => IntervalStyle::SqlStandard,
                    "iso_8601" => IntervalStyle::Iso8601,
                    other => panic!("unknown style {other}"),
                };
            }
        }
        let context = InputContext { settings: &settings, now: 0 };
        let kind = column_type(definition);
        let result = input(kind, &unescaped(text), &context);
        let found = rendered(result, kind.oid, &settings);
        let expected = unescaped(expected);
        if found != expected {
            wrong.push(format!(
                "{style} {definition} in {zone}: {text:?} gives {found}, not {expected}"
            ));
        }
    }
    assert!(count > 300, "the data file is there");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Makes pictures of patterns, their parts, and other text.
fn any_picture() -> impl Strategy<Value = String> {
    const PIECES: [&str; 60] = [
        "YYYY", "Y,YYY", "YY", "IYYY", "IW", "ID", "IDDD", "MM", "Month", "mon", "RM", "DD", "DDD",
        "D", "Day", "dy", "WW", "W", "CC", "J", "Q", "HH24", "HH12", "MI", "SS", "SSSS", "MS",
        "US", "FF3", "AM", "p.m.", "BC", "a.d.", "TZ", "TZH", "TZM", "OF", "FM", "TM", "FX", "TH",
        "th", "SP", "9", "0", ".", ",", "D", "G", "L", "S", "MI", "PL", "SG", "PR", "V", "RN",
        "EEEE", "B", "\"",
    ];
    let piece = prop_oneof![
        8 => proptest::sample::select(PIECES.to_vec()).prop_map(str::to_owned),
        1 => "[ -~]{0,3}",
        1 => "\\PC{0,2}",
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn any_given() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-+ 0-9.,:/]{0,20}",
        "[0-9]{1,4}[- /][0-9]{1,2}[- /][0-9]{1,2} [0-9]{1,2}:[0-9]{2} ?(am|PM|BC|é)?",
        "\\PC{0,12}",
    ]
}

proptest! {
    #[test]
    fn no_picture_is_fatal(
        picture in any_picture(),
        given in any_given(),
        micros in -211_813_488_000_000_000i64..9_223_371_331_200_000_000,
        (months, days) in any::<(i32, i32)>(),
        (whole, fraction) in any::<(i64, f64)>(),
    ) {
        let zone = TextSettings::default().zone;
        let interval = datetime::Interval::new(months, days, micros);
        // Any input gives a value or an error with its own SQLSTATE.
        let _ = datetime::timestamp_to_char(micros, &picture);
        let _ = datetime::timestamptz_to_char(micros, &picture, &zone);
        let _ = datetime::interval_to_char(&interval, &picture);
        let _ = datetime::to_timestamp(&given, &picture, &zone);
        let _ = datetime::to_date(&given, &picture);
        let _ = to_number(&given, &picture);
        let _ = int4_to_char(months, &picture);
        let _ = int8_to_char(whole, &picture);
        let _ = float4_to_char(fraction as f32, &picture);
        let _ = float8_to_char(fraction, &picture);
        let _ = numeric_to_char(&whole.into(), &picture);
    }

    #[test]
    fn what_is_written_is_read(micros in -63_000_000_000_000_000i64..252_000_000_000_000_000) {
        let zone = TextSettings::default().zone;
        for picture in [
            "YYYY-MM-DD HH24:MI:SS.US",
            "FMDay, DDth Month YYYY, HH12:MI:SS.FF6 p.m.",
            "IYYY-IW-ID SSSSS.US",
            "CC YY DDD HH24MISSUS",
            "J HH24:MI:SS:MS US",
        ] {
            let shown = datetime::timestamp_to_char(micros, picture).expect("a moment");
            let shown = shown.expect("a picture");
            // Milliseconds and microseconds are added up.
            let expected = if picture.ends_with("MS US") {
                micros + micros.rem_euclid(1_000_000) / 1000 * 1000
            } else {
                micros
            };
            match datetime::to_timestamp(&shown, picture, &zone) {
                Ok(found) => prop_assert_eq!(found, expected, "{} by {}", shown, picture),
                Err(error) => prop_assert!(
                    picture.ends_with("MS US") && error.sqlstate == "22008",
                    "{} by {}: {}", shown, picture, error
                ),
            }
        }
    }

    #[test]
    fn numbers_written_are_read(whole in -99_999_999i64..99_999_999) {
        for picture in ["S99,999,999", "999999999MI", "FM999999990PR", "FM99G999G999S", "SG00000000"] {
            let shown = int8_to_char(whole, picture).expect("a number");
            // With `FM` the commas of a picture are not read.
            if picture.contains('G') && shown.contains(',') {
                continue;
            }
            let found = to_number(&shown, picture).expect("a number").expect("a picture");
            prop_assert_eq!(found, whole.into(), "{} by {}", shown, picture);
        }
    }
}
