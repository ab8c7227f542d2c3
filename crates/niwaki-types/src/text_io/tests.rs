use crate::{
    ColumnType, Datum, InputContext, Result, TextSettings, TypeOid, datetime, input,
    numeric_typmod, to_text,
};

/// Returns the type that a column definition in the data file names.
pub(crate) fn column_type(definition: &str) -> ColumnType {
    let (name, modifier) = match definition.split_once('(') {
        Some((name, rest)) => {
            let (modifier, tail) = rest.split_once(')').expect("a closing parenthesis");
            (format!("{name}{tail}"), Some(modifier))
        }
        None => (definition.to_owned(), None),
    };
    let number = || modifier.map_or(-1, |text| text.parse::<i32>().expect("a modifier"));
    let oid = match name.as_str() {
        "numeric" => {
            let typmod = modifier.map_or(-1, |text| {
                let (precision, scale) = text.split_once(',').expect("precision and scale");
                let part = |text: &str| text.parse().expect("a number");
                numeric_typmod(part(precision), part(scale)).expect("a typmod")
            });
            return ColumnType::with_typmod(TypeOid::NUMERIC, typmod);
        }
        "character varying" | "character" => {
            let oid = if name == "character" { TypeOid::BPCHAR } else { TypeOid::VARCHAR };
            let typmod = modifier.map_or(-1, |_| number() + 4);
            return ColumnType::with_typmod(oid, typmod);
        }
        "timestamp without time zone" => {
            return ColumnType::with_typmod(TypeOid::TIMESTAMP, number());
        }
        "timestamp with time zone" => {
            return ColumnType::with_typmod(TypeOid::TIMESTAMPTZ, number());
        }
        "time without time zone" => return ColumnType::with_typmod(TypeOid::TIME, number()),
        "time with time zone" => return ColumnType::with_typmod(TypeOid::TIMETZ, number()),
        "interval" if modifier.is_some() => {
            return ColumnType::with_typmod(TypeOid::INTERVAL, 0x7fff << 16 | number());
        }
        fields if fields.starts_with("interval ") => {
            return interval_fields(fields, modifier.map(|_| number()));
        }
        other => crate::test_values::TYPES
            .into_iter()
            .find(|oid| oid.display_name() == other)
            .unwrap_or_else(|| panic!("unknown type {other}")),
    };
    ColumnType::new(oid)
}

/// Returns the type of `interval year to month` and its like.
fn interval_fields(definition: &str, precision: Option<i32>) -> ColumnType {
    const FIELDS: [(&str, i32); 6] =
        [("year", 2), ("month", 1), ("day", 3), ("hour", 10), ("minute", 11), ("second", 12)];
    let position = |name: &str| FIELDS.iter().position(|(field, _)| *field == name);
    let names = definition.trim_start_matches("interval").trim();
    let (first, last) = names.split_once(" to ").unwrap_or((names, names));
    let (first, last) = (position(first).expect("a field"), position(last).expect("a field"));
    let fields = FIELDS[first..=last].iter().fold(0, |fields, (_, bit)| fields | 1 << bit);
    let typmod = datetime::interval_typmod(fields, precision).expect("a typmod");
    ColumnType::with_typmod(TypeOid::INTERVAL, typmod)
}

pub(crate) fn unescaped(field: &str) -> String {
    let mut text = String::new();
    let mut rest = field.chars();
    while let Some(character) = rest.next() {
        text.push(match character {
            '\\' => match rest.next().expect("an escape") {
                't' => '\t',
                'n' => '\n',
                other => other,
            },
            other => other,
        });
    }
    text
}

pub(crate) fn rendered(result: Result<Datum>, oid: TypeOid, settings: &TextSettings) -> String {
    match result {
        Ok(Datum::Null) => "<null>".into(),
        Ok(value) => {
            let text = to_text(&value, oid, settings);
            // The data came from a cast to text, which drops padding.
            if oid == TypeOid::BPCHAR { text.trim_end_matches(' ').into() } else { text }
        }
        Err(error) => {
            let detail = error.detail.map(|detail| format!(" [{detail}]")).unwrap_or_default();
            format!("!{} {}{detail}", error.sqlstate, error.message)
        }
    }
}

#[test]
fn input_and_output_are_those_of_postgresql() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut settings = TextSettings::default();
    for line in include_str!("../../testdata/text.tsv").lines() {
        if line.starts_with('#') {
            continue;
        }
        let [definition, zone, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a line of four fields: {line}");
        };
        count += 1;
        settings.set_time_zone(zone).expect("a zone");
        let context = InputContext { settings: &settings, now: 0 };
        let kind = column_type(definition);
        let found = rendered(input(kind, &unescaped(text), &context), kind.oid, &settings);
        // A cast of a boolean to text shows the word, the output function a letter.
        let mut expected = unescaped(expected);
        if kind.oid == TypeOid::BOOL && !expected.starts_with('!') {
            expected.truncate(1);
        }
        if found != expected {
            wrong.push(format!("{definition} in {zone}: {text:?} gives {found}, not {expected}"));
        }
    }
    assert!(count > 1000, "the data file is there");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
