//! The tokens of a date or timestamp's text.

/// A piece of the text of a date or timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Digits, perhaps with a fraction; the flag says that an ISO `T` stands before them.
    Number(&'a str, bool),
    /// Fields between `-`, `/` or `.`.
    Date(&'a str),
    /// The ISO `T` directly before a digit.
    TimeMarker,
    /// Digits with colons, perhaps with a fraction.
    Time(&'a str),
    /// Letters.
    Word(&'a str),
    /// A sign (true for a minus) and letters.
    SignedWord(bool, &'a str),
    /// A sign, digits, perhaps colons.
    Offset(&'a str),
    /// The digits after a `J`, perhaps with a fraction.
    Julian(&'a str),
    /// A name in a form that only time zones have: with a slash or digits, and then perhaps
    /// underscores.
    Zone(&'a str),
}

/// Returns the tokens of `text`, or `None` when it has a character that none of them starts with.
pub(super) fn tokenize(text: &str) -> Option<Vec<Token<'_>>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut time_marker = false;
    while let Some(&first) = bytes.get(at) {
        let start = at;
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        // Punctuation that begins no token only separates.
        let separates = first.is_ascii_punctuation() && !matches!(first, b'+' | b'-' | b'.');
        if first.is_ascii_whitespace() || separates || first == 0x0b {
            at += 1;
            continue;
        }
        if first.is_ascii_digit() {
            let token = number(text, &mut at, time_marker);
            time_marker = false;
            tokens.push(token);
        } else if first == b'+' || first == b'-' {
            if next.is_ascii_digit() {
                at = run(bytes, at + 1, |byte| byte.is_ascii_digit() || byte == b':');
                tokens.push(Token::Offset(&text[start..at]));
            } else if next.is_ascii_alphabetic() {
                at = run(bytes, at + 1, |byte| byte.is_ascii_alphabetic());
                tokens.push(Token::SignedWord(first == b'-', &text[start + 1..at]));
            } else {
                return None;
            }
        } else if first.is_ascii_alphabetic() {
            if next.is_ascii_digit() && first.eq_ignore_ascii_case(&b't') {
                time_marker = true;
                tokens.push(Token::TimeMarker);
                at += 1;
            } else if next.is_ascii_digit() && first.eq_ignore_ascii_case(&b'j') {
                at = run(bytes, at + 1, |byte| byte.is_ascii_digit());
                if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
                {
                    at = run(bytes, at + 1, |byte| byte.is_ascii_digit());
                }
                tokens.push(Token::Julian(&text[start + 1..at]));
            } else {
                tokens.push(word(text, &mut at));
            }
        } else {
            return None;
        }
    }
    Some(tokens)
}

fn run(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().skip(from).position(|byte| !belongs(*byte)).map_or(bytes.len(), |more| from + more)
}

fn number<'a>(text: &'a str, at: &mut usize, time_marker: bool) -> Token<'a> {
    let bytes = text.as_bytes();
    let digit = |byte: u8| byte.is_ascii_digit();
    let start = *at;
    let end = run(bytes, start, digit);
    let delimiter = bytes.get(end).copied().unwrap_or(0);
    let after = bytes.get(end + 1).copied().unwrap_or(0);
    match delimiter {
        b':' => {
            *at = run(bytes, end, |byte| byte.is_ascii_digit() || byte == b':' || byte == b'.');
            Token::Time(&text[start..*at])
        }
        b'-' | b'/' | b'.' if after.is_ascii_alphanumeric() && !time_marker => {
            let letters = after.is_ascii_alphabetic();
            let second = if letters {
                run(bytes, end + 1, |byte| byte.is_ascii_alphabetic())
            } else {
                run(bytes, end + 1, digit)
            };
            // A month by name makes everything up to a blank one token, so that a `T` is no
            // separator after it.
            let belongs =
                |byte: u8| if letters { byte.is_ascii_alphanumeric() } else { digit(byte) };
            let third = (bytes.get(second) == Some(&delimiter))
                .then(|| run(bytes, second + 1, belongs))
                .filter(|third| *third > second + 1);
            *at = third.unwrap_or(second);
            if third.is_some() && delimiter == b'-' && bytes.get(*at) == Some(&delimiter) {
                // A text with a fourth field is no date.
                *at = run(bytes, *at, |byte| byte.is_ascii_digit() || byte == b'-');
            }
            if delimiter == b'.' && third.is_none() && !letters {
                return Token::Number(&text[start..*at], false);
            }
            Token::Date(&text[start..*at])
        }
        b'.' if time_marker => {
            *at = run(bytes, end + 1, digit);
            Token::Number(&text[start..*at], true)
        }
        _ => {
            *at = end;
            Token::Number(&text[start..end], time_marker)
        }
    }
}

fn word<'a>(text: &'a str, at: &mut usize) -> Token<'a> {
    let bytes = text.as_bytes();
    let start = *at;
    let end = run(bytes, start, |byte| byte.is_ascii_alphabetic());
    let delimiter = bytes.get(end).copied().unwrap_or(0);
    let after = bytes.get(end + 1).copied().unwrap_or(0);
    let letters = &text[start..end];
    if matches!(delimiter, b'-' | b'/' | b'.')
        && after.is_ascii_digit()
        && month_number(letters).is_some()
    {
        let digit = |byte: u8| byte.is_ascii_digit();
        let second = run(bytes, end + 1, digit);
        *at = if bytes.get(second) == Some(&delimiter) {
            run(bytes, second + 1, |byte| byte.is_ascii_alphanumeric())
        } else {
            second
        };
        return Token::Date(&text[start..*at]);
    }
    // `GMT+3` is a POSIX rule.
    let posix = delimiter == b'-' && after.is_ascii_digit();
    let runs_on = delimiter.is_ascii_digit() || delimiter == b'+' && after.is_ascii_digit();
    if posix || delimiter == b'/' || runs_on && !is_known(letters) {
        *at = run(bytes, end, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'+' | b'-' | b'.' | b':')
        });
        return Token::Zone(&text[start..*at]);
    }
    *at = end;
    Token::Word(letters)
}

/// Returns the number of a month by its full name or its usual abbreviation.
pub(super) fn month_number(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let lower = word.to_ascii_lowercase();
    let position = MONTHS.iter().position(|month| {
        *month == lower
            || month.get(..3) == Some(&lower)
            || (*month == "september" && lower == "sept")
    })?;
    u32::try_from(position + 1).ok()
}

/// Decides whether `word` has a meaning besides zones, so that digits behind it do not belong to
/// it.
pub(super) fn is_known(word: &str) -> bool {
    const WORDS: [&str; 28] = [
        "ad",
        "allballs",
        "am",
        "at",
        "bc",
        "d",
        "dow",
        "doy",
        "dst",
        "epoch",
        "h",
        "infinity",
        "isodow",
        "isoyear",
        "j",
        "jd",
        "julian",
        "m",
        "mm",
        "now",
        "on",
        "pm",
        "s",
        "t",
        "today",
        "tomorrow",
        "y",
        "yesterday",
    ];
    let known = WORDS.iter().any(|known| known.eq_ignore_ascii_case(word));
    known || month_number(word).is_some() || is_weekday(word)
}

/// Decides whether `word` names a day of the week, which adds nothing to the date.
pub(super) fn is_weekday(word: &str) -> bool {
    const DAYS: [&str; 18] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "mon",
        "tue",
        "tues",
        "wed",
        "weds",
        "thu",
        "thur",
        "thurs",
        "fri",
        "sat",
        "sun",
    ];
    DAYS.iter().any(|day| day.eq_ignore_ascii_case(word))
}
