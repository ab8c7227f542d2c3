//! Reads `DateStyle`: a form of output and an order of fields, each given by a word.

use niwaki_types::{DateOrder, DateStyle};

use super::session::split_identifiers;

/// Reads the text of SET and returns the whole setting, as SHOW shows it. A part that `text` leaves
/// out is as in `current`. The word `default` in `text` means `reset`.
///
/// # Errors
/// The detail of PostgreSQL's message.
pub(super) fn check(text: &str, current: &str, reset: &str) -> Result<String, String> {
    let (mut style, mut order) = (None, None);
    let words = split_identifiers(text).ok_or("List syntax is invalid.")?;
    let mut agree = true;
    for word in words {
        let word = word.to_ascii_lowercase();
        let (new_style, new_order) = match word.as_str() {
            "iso" => (Some(DateStyle::Iso), None),
            "sql" => (Some(DateStyle::Sql), None),
            "german" => {
                // German style has its usual order, unless another is given.
                order = order.or(Some((DateOrder::DayMonthYear, false)));
                (Some(DateStyle::German), None)
            }
            "ymd" => (None, Some(DateOrder::YearMonthDay)),
            "dmy" => (None, Some(DateOrder::DayMonthYear)),
            "mdy" | "us" => (None, Some(DateOrder::MonthDayYear)),
            "default" => {
                let (reset_style, reset_order) = parts(reset);
                style = style.or(Some(reset_style));
                order = order.or(Some((reset_order, false)));
                continue;
            }
            word if word.starts_with("postgres") => (Some(DateStyle::Postgres), None),
            word if word.starts_with("euro") => (None, Some(DateOrder::DayMonthYear)),
            word if word.starts_with("noneuro") => (None, Some(DateOrder::MonthDayYear)),
            word => return Err(format!("Unrecognized key word: \"{word}\".")),
        };
        if let Some(new) = new_style {
            agree &= *style.get_or_insert(new) == new;
        }
        if let Some(new) = new_order {
            agree &= !matches!(order, Some((old, true)) if old != new);
            order = Some((new, true));
        }
    }
    if !agree {
        return Err("Conflicting \"datestyle\" specifications.".to_owned());
    }
    let (current_style, current_order) = parts(current);
    let style = match style.unwrap_or(current_style) {
        DateStyle::Iso => "ISO",
        DateStyle::Sql => "SQL",
        DateStyle::German => "German",
        DateStyle::Postgres => "Postgres",
    };
    let order = match order.map_or(current_order, |(order, _)| order) {
        DateOrder::YearMonthDay => "YMD",
        DateOrder::DayMonthYear => "DMY",
        DateOrder::MonthDayYear => "MDY",
    };
    Ok(format!("{style}, {order}"))
}

/// Returns the two parts of a whole setting.
pub(super) fn parts(setting: &str) -> (DateStyle, DateOrder) {
    let (style, order) = setting.split_once(", ").unwrap_or((setting, ""));
    let style = match style {
        "SQL" => DateStyle::Sql,
        "German" => DateStyle::German,
        "Postgres" => DateStyle::Postgres,
        _ => DateStyle::Iso,
    };
    let order = match order {
        "YMD" => DateOrder::YearMonthDay,
        "DMY" => DateOrder::DayMonthYear,
        _ => DateOrder::MonthDayYear,
    };
    (style, order)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn words_are_combined() {
        let set = |text| check(text, "SQL, DMY", "ISO, MDY");
        for (text, whole) in [
            ("iso", "ISO, DMY"),
            ("MDY", "SQL, MDY"),
            ("german", "German, DMY"),
            ("german, ymd", "German, YMD"),
            ("Postgres, European", "Postgres, DMY"),
            ("default", "ISO, MDY"),
            ("noneuropean,sql", "SQL, MDY"),
            ("", "SQL, DMY"),
        ] {
            assert_eq!(set(text).as_deref(), Ok(whole), "{text}");
        }
        for text in ["iso, sql", "dmy, mdy", "roman", "iso,,dmy"] {
            assert!(set(text).is_err(), "{text}");
        }
    }
}
