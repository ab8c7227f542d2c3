//! Operators, functions and casts held against PostgreSQL's results.

use std::sync::Arc;

use crate::text_io::tests::{column_type, rendered, unescaped};
use crate::{
    ArithmeticOperator, ColumnType, Datum, InputContext, Result, TextSettings, TypeOid, absolute,
    arithmetic, cast, datetime, input, negate, zoned_arithmetic,
};

/// Returns the value that `text::definition` gives.
pub(crate) fn operand(definition: &str, text: &str, context: &InputContext<'_>) -> Result<Datum> {
    let text = Datum::text(text);
    cast(&text, TypeOid::UNKNOWN, column_type(definition), true, context)
}

/// Returns the type of a result, for its output function.
fn type_of(value: &Datum) -> TypeOid {
    match value {
        Datum::Date(_) => TypeOid::DATE,
        Datum::Interval(_) => TypeOid::INTERVAL,
        Datum::Time(_) => TypeOid::TIME,
        Datum::TimeTz(_) => TypeOid::TIMETZ,
        _ => TypeOid::TEXT,
    }
}

fn evaluate(
    operation: &str,
    a: Datum,
    from: TypeOid,
    target: &str,
    b: &str,
    context: &InputContext<'_>,
) -> Result<Datum> {
    let settings = context.settings;
    if let Some(field) = operation.strip_prefix("extract:") {
        return datetime::extract(field, &a, settings);
    }
    if let Some(field) = operation.strip_prefix("date_part:") {
        return datetime::date_part(field, &a, settings);
    }
    if let Some(unit) = operation.strip_prefix("date_trunc:") {
        return datetime::date_trunc(unit, &a, settings);
    }
    if let Some(month_and_day) = operation.strip_prefix("make_date:") {
        let (month, day) = month_and_day.split_once(':').expect("month and day");
        let part = |text: &str| text.parse().expect("a number");
        return match &a {
            Datum::Int4(year) => {
                Ok(Datum::Date(datetime::make_date(*year, part(month), part(day))?))
            }
            other => panic!("make_date of {other:?}"),
        };
    }
    if let Some(hour_and_minute) = operation.strip_prefix("make_time:") {
        let (hour, minute) = hour_and_minute.split_once(':').expect("hour and minute");
        let part = |text: &str| text.parse().expect("a number");
        return match &a {
            Datum::Float8(second) => {
                Ok(Datum::Time(datetime::make_time(part(hour), part(minute), *second)?))
            }
            other => panic!("make_time of {other:?}"),
        };
    }
    let binary = |operator| {
        let b = operand(target, b, context)?;
        match (&a, &b) {
            (Datum::TimestampTz(_), Datum::Interval(_))
            | (Datum::Interval(_), Datum::TimestampTz(_)) => {
                zoned_arithmetic(operator, &a, &b, &settings.zone)
            }
            _ => arithmetic(operator, &a, &b),
        }
    };
    match operation {
        "+" => binary(ArithmeticOperator::Add),
        "-" => binary(ArithmeticOperator::Subtract),
        "*" => binary(ArithmeticOperator::Multiply),
        "/" => binary(ArithmeticOperator::Divide),
        "%" => binary(ArithmeticOperator::Modulo),
        "neg" => negate(&a),
        "abs" => absolute(&a),
        "age" => match (&a, operand(target, b, context)?) {
            (Datum::Timestamp(a), Datum::Timestamp(b)) => {
                Ok(Datum::Interval(Arc::new(datetime::age(*a, b)?)))
            }
            other => panic!("age of {other:?}"),
        },
        "justify_hours" | "justify_days" | "justify_interval" => match &a {
            Datum::Interval(interval) => Ok(Datum::Interval(Arc::new(match operation {
                "justify_hours" => interval.justify_hours()?,
                "justify_days" => interval.justify_days()?,
                _ => interval.justify_interval()?,
            }))),
            other => panic!("{operation} of {other:?}"),
        },
        "to_timestamp" => match &a {
            Datum::Float8(seconds) => {
                Ok(Datum::TimestampTz(datetime::timestamp_from_unix(*seconds)?))
            }
            other => panic!("to_timestamp of {other:?}"),
        },
        "cast" => cast(&a, from, column_type(target), true, context),
        other => panic!("unknown operation {other}"),
    }
}

#[test]
fn results_are_those_of_postgresql() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut settings = TextSettings::default();
    for line in include_str!("../testdata/operations.tsv").lines() {
        if line.starts_with('#') {
            continue;
        }
        let [operation, definition, a, target, b, zone, expected] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("a line of seven fields: {line}");
        };
        count += 1;
        settings.set_time_zone(zone).expect("a zone");
        let context = InputContext { settings: &settings, now: 0 };
        let from = column_type(definition).oid;
        let result = operand(definition, &unescaped(a), &context)
            .and_then(|a| evaluate(operation, a, from, target, &unescaped(b), &context));
        let oid = match (&result, operation) {
            (_, "cast") => column_type(target).oid,
            (Ok(value), _) => type_of(value),
            _ => TypeOid::TEXT,
        };
        let mut found = rendered(result, oid, &settings);
        let expected = unescaped(expected);
        if oid == TypeOid::BOOL && !found.starts_with('!') {
            found = if found == "t" { "true".into() } else { "false".into() };
        }
        // The analyzer decides which message reports a missing cast.
        let same = found == expected || (expected == "!42846" && found.starts_with("!42846"));
        if !same {
            wrong.push(format!(
                "{operation} {definition} {a:?} {target} {b:?} in {zone}: {found}, not {expected}"
            ));
        }
    }
    assert!(count > 5000, "the data file is there");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn assignment_refuses_what_an_explicit_cast_cuts() {
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    let text = Datum::text("abcdef");
    let to = ColumnType::with_typmod(TypeOid::VARCHAR, 4 + 3);
    let cut = cast(&text, TypeOid::TEXT, to, true, &context).expect("an explicit cast");
    assert!(crate::equal(TypeOid::TEXT, &cut, &Datum::text("abc")));
    let error = cast(&text, TypeOid::TEXT, to, false, &context).expect_err("an assignment");
    assert_eq!(error.sqlstate, "22001");
    let blanks = Datum::text("abc   ");
    let cut = cast(&blanks, TypeOid::TEXT, to, false, &context).expect("only blanks are lost");
    assert!(crate::equal(TypeOid::TEXT, &cut, &Datum::text("abc")));
}

#[test]
fn words_for_moments_use_the_start_of_the_transaction() {
    let mut settings = TextSettings::default();
    settings.set_time_zone("America/New_York").expect("a zone");
    // 2024-03-10 02:00 UTC is still the evening of the 9th in New York.
    let utc = InputContext { settings: &TextSettings::default(), now: 0 };
    let now = match input(TypeOid::TIMESTAMPTZ.into(), "2024-03-10 02:00:00+00", &utc) {
        Ok(Datum::TimestampTz(now)) => now,
        other => panic!("{other:?}"),
    };
    let context = InputContext { settings: &settings, now };
    let shown =
        |oid: TypeOid, text: &str| rendered(input(oid.into(), text, &context), oid, &settings);
    assert_eq!(shown(TypeOid::DATE, "today"), "2024-03-09");
    assert_eq!(shown(TypeOid::DATE, "tomorrow"), "2024-03-10");
    assert_eq!(shown(TypeOid::DATE, "Yesterday"), "2024-03-08");
    assert_eq!(shown(TypeOid::TIMESTAMPTZ, "now"), "2024-03-09 21:00:00-05");
    assert_eq!(shown(TypeOid::TIMESTAMP, "now"), "2024-03-09 21:00:00");
    assert_eq!(shown(TypeOid::TIMESTAMPTZ, "tomorrow 12:00"), "2024-03-10 12:00:00-04");
    assert_eq!(shown(TypeOid::TIMESTAMP, "epoch"), "1970-01-01 00:00:00");
}
