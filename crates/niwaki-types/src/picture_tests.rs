//! Format pictures, and the styles of dates and intervals, held against PostgreSQL's results.

use std::sync::Arc;

use crate::operations_tests::operand;
use crate::text_io::tests::{column_type, unescaped};
use crate::{
    DateOrder, DateStyle, Datum, InputContext, IntervalStyle, Result, TextSettings, TypeOid,
    datetime, float4_to_char, float8_to_char, input, int4_to_char, int8_to_char, numeric_to_char,
    to_number, to_text,
};

/// The text of a value, or an error with all that a client sees of it.
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
