//! The operators that match a text with a pattern: LIKE, SIMILAR TO and regular expressions.

use niwaki_expr::regexp::{Options, compile};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, work};

use crate::functions::number::operators::invert;
use crate::functions::{Function, functions};

fn texts<'d>(a: &'d Datum, b: &'d Datum) -> Result<(&'d str, &'d str)> {
    match (a, b) {
        (Datum::Text(a), Datum::Text(b)) => Ok((a, b)),
        _ => Err(crate::functions::wrong_types("~~")),
    }
}

/// `text LIKE pattern`
pub(crate) fn like(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    matches_like(text, pattern, Some('\\')).map(Datum::Bool)
}

/// `text ILIKE pattern`
fn ilike<const ASCII: bool>(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    let lower = |text: &str| if ASCII { text.to_ascii_lowercase() } else { text.to_lowercase() };
    matches_like(&lower(text), &lower(pattern), Some('\\')).map(Datum::Bool)
}

fn not_ilike<const ASCII: bool>(text: &Datum, pattern: &Datum) -> Result<Datum> {
    ilike::<ASCII>(text, pattern).map(invert)
}

/// Matches a whole text against a LIKE pattern: `%` is any string, `_` any character.
///
/// After a mismatch behind a `%`, only the last `%` needs to take one character more. The work is
/// at most the product of the two lengths. The `%` skips at once to the next occurrence of the
/// literal that follows.
fn matches_like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    let mut text_rest = text.chars();
    let mut pattern_rest = pattern.chars();
    // The place to continue at when the characters after the last `%` do not match.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        work::tick(1)?;
        let mut ahead = pattern_rest.clone();
        let step = match ahead.next() {
            None if text_rest.as_str().is_empty() => return Ok(true),
            None => false,
            Some('%') => {
                let literal = literal_of(ahead.as_str(), escape);
                if literal.len() == ahead.as_str().len() {
                    return Ok(text_rest.as_str().ends_with(literal));
                }
                if !skip_to(literal, &mut text_rest) {
                    return Ok(false);
                }
                retry = Some((text_rest.clone(), ahead.clone()));
                pattern_rest = ahead;
                continue;
            }
            Some('_') => text_rest.next().is_some(),
            // At the end of the text the remaining pattern does not matter.
            Some(c) if Some(c) == escape && text_rest.as_str().is_empty() => false,
            Some(c) if Some(c) == escape => {
                let literal = ahead.next().ok_or_else(|| {
                    SqlError::new("22025", "LIKE pattern must not end with escape character")
                })?;
                text_rest.next() == Some(literal)
            }
            Some(c) => text_rest.next() == Some(c),
        };
        if step {
            pattern_rest = ahead;
            continue;
        }
        let Some((start, after)) = &mut retry else { return Ok(false) };
        if start.next().is_none() || !skip_to(literal_of(after.as_str(), escape), start) {
            return Ok(false);
        }
        text_rest = start.clone();
        pattern_rest = after.clone();
    }
}

/// Returns the literal beginning of a pattern, which contains no `%`, `_` or escape.
fn literal_of(pattern: &str, escape: Option<char>) -> &str {
    let end = pattern.find(|c| matches!(c, '%' | '_') || Some(c) == escape);
    &pattern[..end.unwrap_or(pattern.len())]
}

/// Skips the text before the next occurrence of a literal; false when there is none.
fn skip_to(literal: &str, rest: &mut std::str::Chars<'_>) -> bool {
    let text = rest.as_str();
    // A character never begins inside another one.
    let found = memchr::memmem::find(text.as_bytes(), literal.as_bytes());
    *rest = text[found.unwrap_or(text.len())..].chars();
    found.is_some()
}

/// `like_escape(pattern, escape)`: the pattern rewritten so that its escape character is `\`.
pub(crate) fn like_escape(pattern: &Datum, escape: &Datum) -> Result<Datum> {
    let (pattern, escape) = texts(pattern, escape)?;
    with_backslash(pattern, escape).map(|pattern| Datum::Text(pattern.into()))
}

/// `like_escape` of byte strings.
pub(crate) fn like_escape_bytes(pattern: &Datum, escape: &Datum) -> Result<Datum> {
    let (Datum::Bytea(pattern), Datum::Bytea(escape)) = (pattern, escape) else {
        return Err(crate::functions::wrong_types("~~"));
    };
    let pattern = with_backslash(&characters(pattern), &characters(escape))?;
    // Each character is the number of a byte, or a backslash.
    let bytes: Vec<u8> = pattern.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect();
    Ok(Datum::Bytea(bytes.into()))
}

/// Returns each byte as the character of its number, which keeps the meaning of patterns.
fn characters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn with_backslash(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_character(escape)?;
    if escape == Some('\\') {
        return Ok(pattern.to_owned());
    }
    let mut result = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if Some(character) == escape {
            result.push('\\');
            result.extend(rest.next());
        } else if character == '\\' {
            result.push_str("\\\\");
        } else {
            result.push(character);
        }
    }
    Ok(result)
}

/// `bytea LIKE pattern`: byte by byte.
pub(crate) fn like_bytes(bytes: &Datum, pattern: &Datum) -> Result<Datum> {
    let (Datum::Bytea(bytes), Datum::Bytea(pattern)) = (bytes, pattern) else {
        return Err(crate::functions::wrong_types("~~"));
    };
    matches_like(&characters(bytes), &characters(pattern), Some('\\')).map(Datum::Bool)
}

/// `text ~ pattern`
fn regex_match<const ASCII: bool>(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    let options = Options { ascii: ASCII, ..Options::default() };
    compile(pattern, &options)?.is_match(text).map(Datum::Bool)
}

fn not_regex<const ASCII: bool>(text: &Datum, pattern: &Datum) -> Result<Datum> {
    regex_match::<ASCII>(text, pattern).map(invert)
}

/// `text ~* pattern`
fn regex_match_insensitive<const ASCII: bool>(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    let options = Options { fold: true, ascii: ASCII, ..Options::default() };
    compile(pattern, &options)?.is_match(text).map(Datum::Bool)
}

fn not_regex_insensitive<const ASCII: bool>(text: &Datum, pattern: &Datum) -> Result<Datum> {
    regex_match_insensitive::<ASCII>(text, pattern).map(invert)
}

/// Operators with variants by collation: cases and classes cover all characters, or ASCII
/// characters only.
macro_rules! operators {
    ($ascii:literal) => {
        functions! {
            "~~*" (TEXT, TEXT) BOOL strict single immutable Binary(ilike::<$ascii>);
            "~~*" (NAME, TEXT) BOOL strict single immutable Binary(ilike::<$ascii>);
            "~~*" (BPCHAR, TEXT) BOOL strict single immutable Binary(ilike::<$ascii>);
            "!~~*" (TEXT, TEXT) BOOL strict single immutable Binary(not_ilike::<$ascii>);
            "!~~*" (NAME, TEXT) BOOL strict single immutable Binary(not_ilike::<$ascii>);
            "!~~*" (BPCHAR, TEXT) BOOL strict single immutable Binary(not_ilike::<$ascii>);
            "~" (TEXT, TEXT) BOOL strict single immutable Binary(regex_match::<$ascii>);
            "~" (NAME, TEXT) BOOL strict single immutable Binary(regex_match::<$ascii>);
            "~" (BPCHAR, TEXT) BOOL strict single immutable Binary(regex_match::<$ascii>);
            "!~" (TEXT, TEXT) BOOL strict single immutable Binary(not_regex::<$ascii>);
            "!~" (NAME, TEXT) BOOL strict single immutable Binary(not_regex::<$ascii>);
            "!~" (BPCHAR, TEXT) BOOL strict single immutable Binary(not_regex::<$ascii>);
            "~*" (TEXT, TEXT) BOOL strict single immutable Binary(regex_match_insensitive::<$ascii>);
            "~*" (NAME, TEXT) BOOL strict single immutable Binary(regex_match_insensitive::<$ascii>);
            "~*" (BPCHAR, TEXT) BOOL strict single immutable Binary(regex_match_insensitive::<$ascii>);
            "!~*" (TEXT, TEXT) BOOL strict single immutable Binary(not_regex_insensitive::<$ascii>);
            "!~*" (NAME, TEXT) BOOL strict single immutable Binary(not_regex_insensitive::<$ascii>);
            "!~*" (BPCHAR, TEXT) BOOL strict single immutable Binary(not_regex_insensitive::<$ascii>);
        }
    };
}

pub(crate) const OPERATORS: &[Function] = operators!(false);
/// The operators under a collation of ASCII.
pub(crate) const ASCII_OPERATORS: &[Function] = operators!(true);

/// Returns the one character of an ESCAPE clause, if any.
fn escape_character(escape: &str) -> Result<Option<char>> {
    let mut characters = escape.chars();
    match (characters.next(), characters.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => Ok(Some(one)),
        _ => Err(SqlError::new("22025", "invalid escape string")
            .with_hint("Escape string must be empty or one character.")),
    }
}

/// Returns the regular expression of a SIMILAR TO pattern, with an escape character or none.
///
/// # Errors
/// `2200C` for more than two separators, `22025` for an escape of several characters.
pub(crate) fn similar_expression(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_character(escape)?;
    let mut result = String::from("^(?:");
    let mut rest = pattern.chars();
    let mut separators = 0;
    let mut in_brackets = false;
    while let Some(character) = rest.next() {
        if Some(character) == escape {
            let Some(next) = rest.next() else { break };
            if next == '"' && !in_brackets {
                // substring() returns the text between two separators; the parts around take the
                // shortest match.
                match separators {
                    0 => result.push_str("){1,1}?("),
                    1 => result.push_str("){1,1}(?:"),
                    _ => {
                        return Err(SqlError::new(
                            "2200C",
                            "SQL regular expression may not contain more than two escape-double-quote separators",
                        ));
                    }
                }
                separators += 1;
            } else {
                result.push('\\');
                result.push(next);
            }
            continue;
        }
        if in_brackets {
            if character == '\\' {
                result.push('\\');
            }
            result.push(character);
            in_brackets = character != ']';
            continue;
        }
        match character {
            '[' => {
                result.push('[');
                in_brackets = true;
            }
            '%' => result.push_str(".*"),
            '_' => result.push('.'),
            '(' => result.push_str("(?:"),
            '\\' | '.' | '^' | '$' => {
                result.push('\\');
                result.push(character);
            }
            other => result.push(other),
        }
    }
    result.push_str(")$");
    Ok(result)
}

/// `similar_to_escape(pattern [, escape])`
pub(crate) fn similar_to_escape(values: &[Datum]) -> Result<Datum> {
    let expression = match values {
        [Datum::Text(pattern)] => similar_expression(pattern, "\\")?,
        [Datum::Text(pattern), Datum::Text(escape)] => similar_expression(pattern, escape)?,
        _ => return Err(crate::functions::wrong_types("SIMILAR TO")),
    };
    Ok(Datum::Text(expression.into()))
}

/// `similar_escape(pattern, escape)`: a NULL escape means the default one.
pub(crate) fn similar_escape(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Null, _] => Ok(Datum::Null),
        [pattern, Datum::Null] => similar_to_escape(std::slice::from_ref(pattern)),
        values => similar_to_escape(values),
    }
}

/// `substring(text SIMILAR pattern ESCAPE escape)`
pub(crate) fn substring_similar<const ASCII: bool>(values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern), Datum::Text(escape)] = values else {
        return Err(crate::functions::wrong_types("SIMILAR"));
    };
    substring_of::<ASCII>(text, &similar_expression(pattern, escape)?)
}

/// `substring(text from pattern)`: returns the match of the first group, or the whole match without
/// a group.
pub(crate) fn substring_pattern<const ASCII: bool>(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    substring_of::<ASCII>(text, pattern)
}

fn substring_of<const ASCII: bool>(text: &str, pattern: &str) -> Result<Datum> {
    let options = Options { ascii: ASCII, ..Options::default() };
    let compiled = compile(pattern, &options)?;
    let Some(found) = compiled.find(text, 0)? else { return Ok(Datum::Null) };
    let span = match found.groups.first() {
        Some(group) => *group,
        None => Some((found.start, found.end)),
    };
    Ok(span.and_then(|(start, end)| text.get(start..end)).map_or(Datum::Null, Datum::text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_follows_the_standard() {
        let check = |text, pattern| matches_like(text, pattern, Some('\\')).unwrap();
        assert!(check("abc", "a%"));
        assert!(check("abc", "%c"));
        assert!(check("abc", "a_c"));
        assert!(check("aXbXc", "a%b%c"));
        assert!(check("", "%"));
        assert!(check("50%", "50\\%"));
        assert!(!check("505", "50\\%"));
        assert!(!check("abc", "b%"));
        assert!(!check("abc", "abcd"));
        assert!(!check("a", "a\\"));
        assert!(check("mississippi", "m%iss%ip%i"));
        assert_eq!(matches_like("ab", "a\\", Some('\\')).unwrap_err().sqlstate, "22025");
        assert!(check("äöü", "%ö%"));
        assert!(!check("a special, special request", "%special%requests%"));
        assert!(
            check("ab", "%_b") && check("ab", "%b%") && check("ab", "a%_%") && !check("a", "a%_%")
        );
    }

    /// Compares LIKE with its definition for each text and pattern of a few characters.
    #[test]
    fn like_is_what_it_is_defined_to_be() {
        fn defined(text: &[char], pattern: &[char]) -> bool {
            match pattern {
                [] => text.is_empty(),
                ['%', rest @ ..] => (0..=text.len()).any(|taken| defined(&text[taken..], rest)),
                ['_', rest @ ..] => !text.is_empty() && defined(&text[1..], rest),
                ['\\', c, rest @ ..] | [c, rest @ ..] => {
                    text.first() == Some(c) && defined(&text[1..], rest)
                }
            }
        }
        fn all(letters: &[char], length: usize) -> Vec<String> {
            let mut found = vec![String::new()];
            let mut last = found.clone();
            for _ in 0..length {
                last = last
                    .iter()
                    .flat_map(|text| letters.iter().map(move |letter| format!("{text}{letter}")))
                    .collect();
                found.extend(last.iter().cloned());
            }
            found
        }
        let chars = |text: &str| text.chars().collect::<Vec<char>>();
        for pattern in all(&['a', 'é', '%', '_', '\\'], 5) {
            let own = chars(&pattern);
            let escapes = pattern.chars().rev().take_while(|c| *c == '\\').count();
            if escapes % 2 == 1 {
                continue;
            }
            for text in all(&['a', 'é', '%'], 4) {
                let found = matches_like(&text, &pattern, Some('\\')).unwrap();
                assert_eq!(found, defined(&chars(&text), &own), "{text} LIKE {pattern}");
            }
        }
    }

    #[test]
    fn expressions_use_postgresql_escapes() {
        let compiled = |pattern| compile(pattern, &Options::default());
        let is_match = |text, pattern| compiled(pattern).unwrap().is_match(text).unwrap();
        assert!(is_match("one two", "\\mtwo\\M"));
        assert!(!is_match("onetwo", "\\mtwo"));
        assert!(is_match("a\nb", "a.b"));
        assert!(is_match("abab", "^(ab)\\1$"));
        assert_eq!(compiled("(a").unwrap_err().sqlstate, "2201B");
    }
}
