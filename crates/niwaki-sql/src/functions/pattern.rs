//! LIKE and regular expressions.

use std::cell::RefCell;
use std::rc::Rc;

use niwaki_types::Datum;
use regex::{Regex, RegexBuilder};

use crate::error::{Result, SqlError};

fn texts<'d>(a: &'d Datum, b: &'d Datum) -> Result<(&'d str, &'d str)> {
    match (a, b) {
        (Datum::Text(a), Datum::Text(b)) => Ok((a, b)),
        _ => Err(super::operators::wrong_types("~~")),
    }
}

/// `text LIKE pattern`
pub(super) fn like(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    matches_like(text, pattern, Some('\\')).map(Datum::Bool)
}

/// `text ILIKE pattern`
pub(super) fn ilike(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    matches_like(&text.to_lowercase(), &pattern.to_lowercase(), Some('\\')).map(Datum::Bool)
}

/// Matches a whole text against a LIKE pattern: `%` is any string, `_` any character.
///
/// On a mismatch after a `%` only the last `%` needs to take one character more, so the work is at
/// most the product of the two lengths.
fn matches_like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    let mut text_rest = text.chars();
    let mut pattern_rest = pattern.chars();
    // Where to go on when the characters after the last `%` do not match.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let mut ahead = pattern_rest.clone();
        let step = match ahead.next() {
            None if text_rest.as_str().is_empty() => return Ok(true),
            None => false,
            Some('%') => {
                retry = Some((text_rest.clone(), ahead.clone()));
                pattern_rest = ahead;
                continue;
            }
            Some('_') => text_rest.next().is_some(),
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
        if start.next().is_none() {
            return Ok(false);
        }
        text_rest = start.clone();
        pattern_rest = after.clone();
    }
}

/// `like_escape(pattern, escape)`: the pattern rewritten so that its escape character is `\`.
pub(super) fn like_escape(pattern: &Datum, escape: &Datum) -> Result<Datum> {
    let (pattern, escape) = texts(pattern, escape)?;
    let mut characters = escape.chars();
    let escape = match (characters.next(), characters.next()) {
        (None, _) => None,
        (Some(one), None) => Some(one),
        _ => {
            return Err(SqlError::new("22025", "invalid escape string")
                .with_hint("Escape string must be empty or one character."));
        }
    };
    if escape == Some('\\') {
        return Ok(Datum::text(pattern));
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
    Ok(Datum::Text(result.into()))
}

/// How many compiled expressions a thread keeps.
const CACHE_ENTRIES: usize = 32;

type Cache = RefCell<Vec<(String, bool, Rc<Regex>)>>;

niwaki_env::thread_local! {
    static CACHE: Cache = const { RefCell::new(Vec::new()) };
}

/// Compiles a PostgreSQL expression, or takes it from this thread's cache.
pub(super) fn compile(pattern: &str, insensitive: bool) -> Result<Rc<Regex>> {
    CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some(at) = cache.iter().position(|(p, i, _)| p == pattern && *i == insensitive) {
            // The most recently used one stays first.
            cache[..=at].rotate_right(1);
            return Ok(Rc::clone(&cache[0].2));
        }
        let compiled = RegexBuilder::new(&translate(pattern)?)
            .case_insensitive(insensitive)
            .dot_matches_new_line(true)
            .size_limit(10 << 20)
            .nest_limit(200)
            .build()
            .map_err(|error| {
                SqlError::new("2201B", format!("invalid regular expression: {}", reason(&error)))
            })?;
        let compiled = Rc::new(compiled);
        cache.truncate(CACHE_ENTRIES - 1);
        cache.insert(0, (pattern.to_owned(), insensitive, Rc::clone(&compiled)));
        Ok(compiled)
    })
}

/// What is wrong, from the last line of the library's report; in PostgreSQL's words where it has some.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    match line {
        "unclosed group" | "unopened group" => "parentheses () not balanced",
        "unclosed character class" => "brackets [] not balanced",
        "repetition operator missing expression" => "quantifier operand invalid",
        other => other,
    }
    .to_owned()
}

/// PostgreSQL's escapes that the library spells differently. Back references are refused.
fn translate(pattern: &str) -> Result<String> {
    let mut result = String::with_capacity(pattern.len());
    let rest = pattern.strip_prefix("***:").unwrap_or(pattern);
    if let Some(literal) = rest.strip_prefix("***=") {
        return Ok(regex::escape(literal));
    }
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            result.push(character);
            continue;
        }
        match characters.next() {
            Some('m' | '<') => result.push_str("\\b{start}"),
            Some('M' | '>') => result.push_str("\\b{end}"),
            Some('y') => result.push_str("\\b"),
            Some('Y') => result.push_str("\\B"),
            Some('Z') => result.push_str("\\z"),
            Some('1'..='9') => {
                return Err(SqlError::unsupported("a back reference in a regular expression"));
            }
            Some(other) => {
                result.push('\\');
                result.push(other);
            }
            None => {
                return Err(SqlError::new(
                    "2201B",
                    "invalid regular expression: invalid escape \\ sequence",
                ));
            }
        }
    }
    Ok(result)
}

/// `text ~ pattern`
pub(super) fn regex_match(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    Ok(Datum::Bool(compile(pattern, false)?.is_match(text)))
}

/// `text ~* pattern`
pub(super) fn regex_match_insensitive(text: &Datum, pattern: &Datum) -> Result<Datum> {
    let (text, pattern) = texts(text, pattern)?;
    Ok(Datum::Bool(compile(pattern, true)?.is_match(text)))
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
        assert!(check("mississippi", "m%iss%ip%i"));
        assert_eq!(matches_like("a", "a\\", Some('\\')).unwrap_err().sqlstate, "22025");
    }

    #[test]
    fn expressions_use_postgresql_escapes() {
        let is_match = |text, pattern| compile(pattern, false).unwrap().is_match(text);
        assert!(is_match("one two", "\\mtwo\\M"));
        assert!(!is_match("onetwo", "\\mtwo"));
        assert!(is_match("a\nb", "a.b"));
        assert_eq!(compile("(a)\\1", false).unwrap_err().sqlstate, "0A000");
        assert_eq!(compile("(a", false).unwrap_err().sqlstate, "2201B");
    }
}
