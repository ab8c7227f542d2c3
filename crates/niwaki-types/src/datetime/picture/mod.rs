//! Format pictures of dates and times, such as `YYYY-MM-DD HH24:MI`.
//!
//! `to_char` writes moments, and `to_timestamp` and `to_date` read them.

mod read;
mod resolve;
mod write;

pub use read::{to_date, to_timestamp};
pub use write::{interval_to_char, timestamp_to_char, timestamptz_to_char};

/// Full names of the months.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Full names of the days of the week; their first three letters are the short ones.
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Numbers of the months in Roman numerals.
const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The meaning of a pattern in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// `AM`; with dots `A.M.`
    Meridiem(Dots),
    /// `AD`; with dots `A.D.`
    Era(Dots),
    Century,
    /// `Y,YYY`
    YearWithComma,
    /// The last digits of the year, by their number; 4 are the whole year.
    Year(usize),
    /// The last digits of the ISO year, by their number.
    IsoYear(usize),
    Quarter,
    Month,
    MonthName,
    ShortMonthName,
    RomanMonth,
    /// The week of the year.
    Week,
    IsoWeek,
    WeekOfMonth,
    Day,
    DayOfYear,
    IsoDayOfYear,
    /// 1 for Sunday.
    DayOfWeek,
    /// 1 for Monday.
    IsoDayOfWeek,
    DayName,
    ShortDayName,
    Julian,
    Hour12,
    Hour24,
    Minute,
    Second,
    SecondOfDay,
    /// Digits after the second, by their number.
    Fraction(u32),
    Milliseconds,
    Microseconds,
    /// The zone's abbreviation.
    Zone,
    ZoneHour,
    ZoneMinute,
    /// `+02`, `-03:30`
    ZoneOffset,
    /// `FX`: from here on the text is read as exactly as the picture says.
    Exact,
}

/// The form of an era or meridiem: with or without a dot behind each letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dots {
    With,
    Without,
}

/// Case of the letters of a pattern, which the written letters get, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Upper,
    /// The first letter is upper case.
    Capital,
    Lower,
}

/// Convention for counting days; a text to be read must keep to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    Gregorian,
    IsoWeek,
}

/// A pattern with its meaning, whether digits stand there, and its convention.
struct Pattern {
    name: &'static str,
    field: Field,
    digits: bool,
    convention: Option<Convention>,
}

const fn pattern(name: &'static str, field: Field, digits: bool) -> Pattern {
    Pattern { name, field, digits, convention: None }
}

const fn gregorian(name: &'static str, field: Field, digits: bool) -> Pattern {
    Pattern { name, field, digits, convention: Some(Convention::Gregorian) }
}

const fn iso(name: &'static str, field: Field) -> Pattern {
    Pattern { name, field, digits: true, convention: Some(Convention::IsoWeek) }
}

/// All patterns. A pattern stands after every longer one that begins with it. Each may also stand
/// in lower case.
const PATTERNS: &[Pattern] = &[
    pattern("A.D.", Field::Era(Dots::With), false),
    pattern("A.M.", Field::Meridiem(Dots::With), false),
    pattern("AD", Field::Era(Dots::Without), false),
    pattern("AM", Field::Meridiem(Dots::Without), false),
    pattern("B.C.", Field::Era(Dots::With), false),
    pattern("BC", Field::Era(Dots::Without), false),
    pattern("CC", Field::Century, true),
    pattern("DAY", Field::DayName, false),
    gregorian("DDD", Field::DayOfYear, true),
    gregorian("DD", Field::Day, true),
    pattern("DY", Field::ShortDayName, false),
    gregorian("D", Field::DayOfWeek, true),
    pattern("FF1", Field::Fraction(1), true),
    pattern("FF2", Field::Fraction(2), true),
    pattern("FF3", Field::Fraction(3), true),
    pattern("FF4", Field::Fraction(4), true),
    pattern("FF5", Field::Fraction(5), true),
    pattern("FF6", Field::Fraction(6), true),
    pattern("FX", Field::Exact, false),
    pattern("HH24", Field::Hour24, true),
    pattern("HH12", Field::Hour12, true),
    pattern("HH", Field::Hour12, true),
    iso("IDDD", Field::IsoDayOfYear),
    iso("ID", Field::IsoDayOfWeek),
    iso("IW", Field::IsoWeek),
    iso("IYYY", Field::IsoYear(4)),
    iso("IYY", Field::IsoYear(3)),
    iso("IY", Field::IsoYear(2)),
    iso("I", Field::IsoYear(1)),
    pattern("J", Field::Julian, true),
    pattern("MI", Field::Minute, true),
    gregorian("MM", Field::Month, true),
    gregorian("MONTH", Field::MonthName, false),
    gregorian("MON", Field::ShortMonthName, false),
    pattern("MS", Field::Milliseconds, true),
    pattern("OF", Field::ZoneOffset, false),
    pattern("P.M.", Field::Meridiem(Dots::With), false),
    pattern("PM", Field::Meridiem(Dots::Without), false),
    pattern("Q", Field::Quarter, true),
    gregorian("RM", Field::RomanMonth, false),
    pattern("SSSSS", Field::SecondOfDay, true),
    pattern("SSSS", Field::SecondOfDay, true),
    pattern("SS", Field::Second, true),
    pattern("TZH", Field::ZoneHour, false),
    pattern("TZM", Field::ZoneMinute, true),
    pattern("TZ", Field::Zone, false),
    pattern("US", Field::Microseconds, true),
    gregorian("WW", Field::Week, true),
    gregorian("W", Field::WeekOfMonth, true),
    gregorian("Y,YYY", Field::YearWithComma, true),
    gregorian("YYYY", Field::Year(4), true),
    gregorian("YYY", Field::Year(3), true),
    gregorian("YY", Field::Year(2), true),
    gregorian("Y", Field::Year(1), true),
];

/// Patterns with a capital and small letters.
const CAPITALIZED: &[Pattern] = &[
    pattern("Day", Field::DayName, false),
    pattern("Dy", Field::ShortDayName, false),
    gregorian("Month", Field::MonthName, false),
    gregorian("Mon", Field::ShortMonthName, false),
];

/// A pattern at its place in a picture.
#[derive(Clone, Copy, Debug)]
struct Item<'p> {
    field: Field,
    case: Case,
    /// The pattern's text in the picture.
    name: &'p str,
    digits: bool,
    convention: Option<Convention>,
    /// `FM` stands before the pattern: without padding.
    fill: bool,
    /// `TM` stands before the pattern: names of the session's language, which is English, without
    /// padding.
    translated: bool,
    /// `TH` or `th` stands behind the pattern.
    ordinal: Option<Case>,
}

/// A piece of a picture.
#[derive(Clone, Copy, Debug)]
enum Node<'p> {
    Item(Item<'p>),
    Space(char),
    /// An ASCII character that is neither blank, letter nor digit.
    Separator(char),
    /// Any other character, and each one between double quotes.
    Text(char),
}

/// Decides whether C calls the character a space.
fn is_space(character: char) -> bool {
    crate::scalar::space::is_space(character)
}

fn is_separator(character: char) -> bool {
    character.is_ascii_punctuation()
}

/// Returns the pattern that `text` begins with, and the case of its letters.
fn pattern_at(text: &str) -> Option<(&'static Pattern, Case)> {
    let begins = |name: &str, fold: fn(&u8) -> u8| {
        let bytes = text.as_bytes();
        bytes.len() >= name.len() && name.bytes().zip(bytes).all(|(a, b)| fold(&a) == *b)
    };
    if let Some(found) = CAPITALIZED.iter().find(|pattern| text.starts_with(pattern.name)) {
        return Some((found, Case::Capital));
    }
    PATTERNS.iter().find_map(|pattern| {
        if begins(pattern.name, |byte| *byte) {
            Some((pattern, Case::Upper))
        } else if begins(pattern.name, u8::to_ascii_lowercase) {
            Some((pattern, Case::Lower))
        } else {
            None
        }
    })
}

/// Cuts a picture into its pieces. Every text is a picture.
fn parse(picture: &str) -> Vec<Node<'_>> {
    let mut nodes = Vec::new();
    let mut rest = picture;
    while !rest.is_empty() {
        let (mut fill, mut translated) = (false, false);
        if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            (fill, rest) = (true, after);
        } else if let Some(after) = rest.strip_prefix("TM").or_else(|| rest.strip_prefix("tm")) {
            (translated, rest) = (true, after);
        }
        if let Some((pattern, case)) = pattern_at(rest) {
            let (name, mut after) = rest.split_at(pattern.name.len());
            let mut ordinal = None;
            for (suffix, case) in
                [("TH", Some(Case::Upper)), ("th", Some(Case::Lower)), ("SP", None)]
            {
                if let Some(behind) = after.strip_prefix(suffix) {
                    (ordinal, after) = (case, behind);
                    break;
                }
            }
            rest = after;
            nodes.push(Node::Item(Item {
                field: pattern.field,
                case,
                name,
                digits: pattern.digits,
                convention: pattern.convention,
                fill,
                translated,
                ordinal,
            }));
        } else if let Some(quoted) = rest.strip_prefix('"') {
            rest = parse_quoted(quoted, &mut nodes);
        } else {
            // Outside of quotes a backslash means something before a quote only.
            let text = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
            let Some(character) = text.chars().next() else { break };
            nodes.push(if is_separator(character) {
                Node::Separator(character)
            } else if is_space(character) {
                Node::Space(character)
            } else {
                Node::Text(character)
            });
            rest = &text[character.len_utf8()..];
        }
    }
    nodes
}

/// Takes text up to the closing quote; a backslash quotes the next character. Returns the rest.
fn parse_quoted<'p>(text: &'p str, nodes: &mut Vec<Node<'p>>) -> &'p str {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => nodes.push(Node::Text(characters.next().unwrap_or('\\'))),
            character => nodes.push(Node::Text(character)),
        }
    }
    characters.as_str()
}

/// Returns the Julian day of a date. Its month and day may lie outside the calendar, as in
/// intervals.
fn julian_day(year: i64, month: i64, day: i64) -> i64 {
    // Counted from March, so that the leap day is the last of a year: 30.6 days a month on average.
    let (year, month) =
        if month > 2 { (year + 4800, month + 1) } else { (year + 4799, month + 13) };
    let century = year / 100;
    365 * year + year / 4 - century + century / 4 + 7834 * month / 256 + day - 32_167
}

/// Returns the Julian day of the Monday with which an ISO year begins: the Monday of the week of
/// January 4.
fn iso_year_start(year: i64) -> i64 {
    let fourth = julian_day(year, 1, 4);
    fourth - fourth.rem_euclid(7)
}
