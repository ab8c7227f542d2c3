//! Cuts a body into tokens.

use std::ops::Range;

use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::parse::behind_continuation;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name or keyword without quotes.
    Word,
    /// A name in quotes.
    Quoted,
    /// A string or number, which no statement can begin with.
    Literal,
    /// `:=`
    Assign,
    /// Any other character.
    Sign(u8),
    /// The end of the body.
    End,
}

/// A token with its place in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) at: Range<usize>,
}

/// Cuts a body into tokens; the last token is the end.
///
/// # Errors
/// `42601` for a string, name or comment that does not end.
pub(super) fn tokens(body: &str) -> Result<Vec<Token>> {
    let bytes = body.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    // Ends: each turn advances `at`.
    while let Some(byte) = bytes.get(at).copied() {
        let start = at;
        let kind = match byte {
            _ if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                while bytes.get(at).is_some_and(|b| !matches!(b, b'\n' | b'\r')) {
                    at += 1;
                }
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = comment_end(bytes, at)
                    .ok_or_else(|| unterminated("/* comment", body, start))?;
                continue;
            }
            b'"' => {
                at = quote_end(bytes, at, false)
                    .ok_or_else(|| unterminated("quoted identifier", body, start))?;
                TokenKind::Quoted
            }
            b'\'' => {
                let escapes = escapes_before(bytes, at);
                let end_of = |at| {
                    let end = quote_end(bytes, at, escapes);
                    end.ok_or_else(|| unterminated("quoted string", body, start))
                };
                at = end_of(at)?;
                // A string that continues on another line has escapes there, too.
                while escapes && let Some(inside) = behind_continuation(bytes, at) {
                    at = end_of(inside - 1)?;
                }
                TokenKind::Literal
            }
            b'$' if dollar_tag(bytes, at).is_some() => {
                let tag = dollar_tag(bytes, at).unwrap_or_default();
                let inside = at + tag.len();
                let rest = body.get(inside..).unwrap_or_default();
                let tag = body.get(at..inside).unwrap_or_default();
                let length = rest
                    .find(tag)
                    .ok_or_else(|| unterminated("dollar-quoted string", body, start))?;
                at = inside + length + tag.len();
                TokenKind::Literal
            }
            b':' if bytes.get(at + 1) == Some(&b'=') => {
                at += 2;
                TokenKind::Assign
            }
            _ if is_name_start(byte) => {
                while bytes
                    .get(at)
                    .is_some_and(|b| is_name_start(*b) || b.is_ascii_digit() || *b == b'$')
                {
                    at += 1;
                }
                TokenKind::Word
            }
            _ if byte.is_ascii_digit() => {
                while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                    at += 1;
                }
                TokenKind::Literal
            }
            _ => {
                at += 1;
                TokenKind::Sign(byte)
            }
        };
        tokens.push(Token { kind, at: start..at });
    }
    tokens.push(Token { kind: TokenKind::End, at: body.len()..body.len() });
    Ok(tokens)
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()
}

/// Returns the position after a comment that begins at `at`; comments nest.
fn comment_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open = 0usize;
    // Ends: each turn advances `at`.
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                open += 1;
                at += 2;
            }
            (b'*', Some(b'/')) => {
                open -= 1;
                at += 2;
                if open == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

/// Returns the position after the string or name whose quote is at `at`. A doubled quote is one of
/// its characters.
fn quote_end(bytes: &[u8], at: usize, escapes: bool) -> Option<usize> {
    let quote = *bytes.get(at)?;
    let mut at = at + 1;
    // Ends: each turn advances `at`.
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        if escapes && byte == b'\\' {
            at += 1;
        } else if byte == quote {
            if bytes.get(at) != Some(&quote) {
                return Some(at);
            }
            at += 1;
        }
    }
}

/// Decides whether an E precedes the quote at `at` without being part of a longer name.
fn escapes_before(bytes: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| bytes.get(at)).copied();
    let named = before(2).is_some_and(|b| is_name_start(b) || b.is_ascii_digit() || b == b'$');
    matches!(before(1), Some(b'e' | b'E')) && !named
}

/// Returns the `$tag$` at `at`, if there is one.
fn dollar_tag(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at + 1..)?;
    let length = rest.iter().position(|b| !(is_name_start(*b) || b.is_ascii_digit()))?;
    let is_tag = rest.get(length) == Some(&b'$') && !rest.first().is_some_and(u8::is_ascii_digit);
    if is_tag { bytes.get(at..at + length + 2) } else { None }
}

fn unterminated(what: &str, body: &str, at: usize) -> SqlError {
    let rest = body.get(at..).unwrap_or_default();
    SqlError::new("42601", format!("unterminated {what} at or near \"{rest}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_goes_on_in_another_line_has_escapes_there() {
        let kinds = |body: &str| -> Vec<TokenKind> {
            tokens(body).unwrap().into_iter().map(|token| token.kind).collect()
        };
        let (word, semicolon) = (TokenKind::Word, TokenKind::Sign(b';'));
        let expected =
            [word, TokenKind::Assign, word, TokenKind::Literal, semicolon, word, TokenKind::End];
        assert_eq!(kinds("x := e'a'\n'\\'; z'; y"), expected);
        assert_eq!(kinds("x := e'a' -- '\n -- '\n '\\'; z'; y"), expected);
        assert_eq!(kinds("x := e'a'''; y"), expected);
    }
}
