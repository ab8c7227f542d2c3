//! Query text into PostgreSQL's own syntax trees, with positions for its errors and a guard against
//! text that nests too deeply.

use std::sync::Arc;

use pg_query::NodeEnum;
use pg_query::protobuf::{ScanToken, Token};
// The syntax tree arrives as a protobuf message nested as deeply as the query; this crate is named
// here because its recursion limit (100) is switched off by a feature. `nesting_bound` replaces it.
use prost as _;

use crate::error::{Result, SqlError};

/// How deeply the messages of a syntax tree may nest before the query is refused with `54001`: the
/// library writes, reads and drops them recursively on the session's stack.
const NESTING_MAX: usize = 1_000;
/// Messages that a bracket, an operator, a nested query and a CASE or join add to the depth.
const BRACKET_DEPTH: usize = 4;
const OPERATOR_DEPTH: usize = 2;
const SELECT_DEPTH: usize = 8;
const CLAUSE_DEPTH: usize = 4;

/// One statement of a query text.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// Its syntax tree.
    pub node: Arc<NodeEnum>,
    /// The whole query text, to which positions refer.
    pub source: Arc<str>,
    /// Byte at which the statement begins in it.
    pub start: usize,
    /// Byte after its end.
    pub end: usize,
}

impl ParsedStatement {
    /// The statement's own text, without surrounding blanks.
    pub fn text(&self) -> &str {
        self.source.get(self.start..self.end).unwrap_or(&self.source).trim()
    }
}

/// Position in characters, from 1, of a byte of the query; `None` for the parser's "nowhere" (-1).
pub fn position_of(source: &str, location: i32) -> Option<u32> {
    let byte = usize::try_from(location).ok()?.min(source.len());
    let bytes = source.as_bytes().get(..byte)?;
    // A character begins at every byte that is no continuation byte.
    let characters = bytes.iter().filter(|b| (**b & 0xC0) != 0x80).count();
    u32::try_from(characters + 1).ok()
}

/// Parses a query text that may hold several statements; an empty text gives none.
///
/// # Errors
/// `42601` with a position, `54001` for text that nests too deeply, `22021` for a zero byte.
pub fn parse(query: &str) -> Result<Vec<ParsedStatement>> {
    if query.as_bytes().contains(&0) {
        return Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    if nesting_bound(query) > NESTING_MAX {
        return Err(SqlError::new("54001", "stack depth limit exceeded")
            .with_hint("The query nests expressions too deeply; rewrite it with fewer levels."));
    }
    let result = pg_query::parse(query, 0).map_err(|error| syntax_error(query, &error));
    if let Some(junk) = junk_behind_parameter(query) {
        // Whatever is wrong before is told first.
        return Err(result.err().filter(|error| error.position < junk.position).unwrap_or(junk));
    }
    let result = result?;
    let source: Arc<str> = Arc::from(query);
    let mut statements = Vec::with_capacity(result.protobuf.stmts.len());
    for raw in result.protobuf.stmts {
        let Some(node) = raw.stmt.and_then(|node| node.node) else { continue };
        let start = usize::try_from(raw.stmt_location).unwrap_or(0);
        let length = usize::try_from(raw.stmt_len).unwrap_or(0);
        let end = if length == 0 { query.len() } else { (start + length).min(query.len()) };
        statements.push(ParsedStatement {
            node: Arc::new(node),
            source: source.clone(),
            start,
            end,
        });
    }
    Ok(statements)
}

/// The error of a name directly behind a parameter (`$1a`), which the library reads as two words and PostgreSQL does not.
fn junk_behind_parameter(query: &str) -> Option<SqlError> {
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
    let bytes = query.as_bytes();
    let run = |from: usize, belongs: &dyn Fn(&u8) -> bool| {
        from + bytes.iter().skip(from).take_while(|byte| belongs(byte)).count()
    };
    let place = |(at, _): (usize, &str)| {
        let end = run(at + 1, &u8::is_ascii_digit);
        let junk =
            end > at + 1 && bytes.get(end).is_some_and(|byte| *byte != b'$' && in_name(byte));
        junk.then_some((at, end))
    };
    // Next to no text has such a place at all, be it in a string or a comment.
    let mut places = query.match_indices('$').filter_map(place).peekable();
    places.peek()?;
    let words = pg_query::scan(query).ok()?;
    let is_parameter = |at: usize| {
        let begins = |word: &ScanToken| usize::try_from(word.start) == Ok(at);
        words.tokens.iter().any(|word| begins(word) && word.token() == Token::Param)
    };
    let (at, end) = places.find(|(at, _)| is_parameter(*at))?;
    let shown = query.get(at..run(end, &in_name)).unwrap_or_default();
    let message = format!("trailing junk after parameter at or near \"{shown}\"");
    let position = i32::try_from(at).ok().and_then(|at| position_of(query, at));
    Some(SqlError::new("42601", message).with_position(position))
}

/// An upper bound on how deeply the syntax tree of `query` nests: open brackets and `CASE`s at any
/// point, plus the operators of the expression that is being read there. AND, OR and lists are flat in
/// the grammar's trees and count little.
fn nesting_bound(query: &str) -> usize {
    let bytes = query.as_bytes();
    let mut position = 0;
    let mut deepest = 0usize;
    // Operators seen in each open bracket since its last comma.
    let mut levels: Vec<usize> = vec![0];
    let mut sum = 0usize;
    while let Some(&byte) = bytes.get(position) {
        position += 1;
        match byte {
            b'\'' | b'"' => {
                // E'…' has escapes, in which a quote does not end the string.
                let escapes = byte == b'\''
                    && position >= 2
                    && matches!(bytes.get(position - 2), Some(b'e' | b'E'));
                while let Some(inner) = bytes.get(position) {
                    position += 1;
                    if *inner == byte {
                        break;
                    }
                    if escapes && *inner == b'\\' {
                        position += 1;
                    }
                }
            }
            b'-' if bytes.get(position) == Some(&b'-') => {
                while bytes.get(position).is_some_and(|b| !matches!(b, b'\n' | b'\r')) {
                    position += 1;
                }
            }
            b'/' if bytes.get(position) == Some(&b'*') => {
                // Comments nest.
                let mut open = 1usize;
                position += 1;
                while open > 0 && position < bytes.len() {
                    match (bytes.get(position), bytes.get(position + 1)) {
                        (Some(b'/'), Some(b'*')) => {
                            open += 1;
                            position += 1;
                        }
                        (Some(b'*'), Some(b'/')) => {
                            open -= 1;
                            position += 1;
                        }
                        _ => {}
                    }
                    position += 1;
                }
            }
            b'$' => {
                // $tag$ … $tag$
                let rest = &bytes[position..];
                let tag = rest
                    .iter()
                    .position(|b| !(b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80));
                if let Some(length) = tag
                    && rest.get(length) == Some(&b'$')
                    && !rest.first().is_some_and(u8::is_ascii_digit)
                {
                    let quote = &bytes[position - 1..=position + length];
                    position += length + 1;
                    while position < bytes.len() && !bytes[position..].starts_with(quote) {
                        position += 1;
                    }
                    position += quote.len();
                }
            }
            b'(' | b'[' => {
                levels.push(0);
                sum += BRACKET_DEPTH;
            }
            b')' | b']' if levels.len() > 1 => {
                sum -= levels.pop().unwrap_or(0) + BRACKET_DEPTH;
            }
            b',' | b';' => {
                if let Some(level) = levels.last_mut() {
                    sum -= *level;
                    *level = 0;
                }
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'|' | b'~' | b'^' | b':'
            | b'&' | b'#' | b'!' | b'@' => {
                while bytes.get(position).is_some_and(|b| b"+-*/%<>=|~^:&#!@".contains(b)) {
                    position += 1;
                }
                if let Some(level) = levels.last_mut() {
                    *level += OPERATOR_DEPTH;
                    sum += OPERATOR_DEPTH;
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let start = position - 1;
                while bytes.get(position).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                    position += 1;
                }
                let word = &query[start..position];
                let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
                let depth = if is("select") {
                    SELECT_DEPTH
                } else if ["case", "union", "intersect", "except", "join", "else"]
                    .iter()
                    .any(|keyword| is(keyword))
                {
                    CLAUSE_DEPTH
                } else if ["not", "is", "collate"].iter().any(|keyword| is(keyword)) {
                    OPERATOR_DEPTH
                } else {
                    0
                };
                // AND and OR start a new operand, whose operators do not nest in the earlier ones'.
                if depth > 0 {
                    if let Some(level) = levels.last_mut() {
                        *level += depth;
                        sum += depth;
                    }
                } else if (word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or"))
                    && let Some(level) = levels.last_mut()
                {
                    sum -= *level;
                    *level = 0;
                }
            }
            _ => {}
        }
        deepest = deepest.max(sum);
    }
    deepest
}

/// The parser's error with SQLSTATE and position. The library gives the message only, so the position
/// is found again: the message names the token it stopped at, and of the tokens with that text it is
/// the first whose prefix of the query fails in the same way.
fn syntax_error(query: &str, error: &pg_query::Error) -> SqlError {
    let message = match error {
        pg_query::Error::Parse(message) => message.clone(),
        other => return SqlError::new("42601", other.to_string()),
    };
    let sqlstate = if message.contains("stack depth limit") || message.contains("memory exhausted")
    {
        "54001"
    } else if message.contains("is not supported") || message.contains("not yet implemented") {
        "0A000"
    } else if message == "invalid Unicode escape" && !query.to_ascii_lowercase().contains("u&") {
        // Of a string with E; all else that is wrong with escapes is wrong syntax.
        "22025"
    } else if message.starts_with("frame start") || message.starts_with("frame end") {
        // Bounds of a window's frame that cannot be together.
        "42P20"
    } else if message.starts_with("unrecognized partitioning strategy")
        || message.starts_with("column number must be in range")
    {
        "22023"
    } else {
        "42601"
    };
    let position = error_byte(query, &message)
        .and_then(|byte| i32::try_from(byte).ok())
        .and_then(|byte| position_of(query, byte));
    let hint = match (message.as_str(), sqlstate) {
        ("invalid Unicode escape", "22025") => {
            Some(r"Unicode escapes must be \uXXXX or \UXXXXXXXX.")
        }
        ("invalid Unicode escape", _) => Some(r"Unicode escapes must be \XXXX or \+XXXXXX."),
        _ => None,
    };
    let error = SqlError::new(sqlstate, message).with_position(position);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

fn error_byte(query: &str, message: &str) -> Option<usize> {
    if message.ends_with("at end of input") {
        return Some(query.len());
    }
    let (_, rest) = message.split_once(" at or near \"")?;
    let token = rest.strip_suffix('"')?;
    if token.is_empty() {
        return None;
    }
    // An unterminated quote reports everything from its opening on.
    if message.starts_with("unterminated") {
        return query.find(token);
    }
    let mut candidates = 0;
    for (byte, _) in query.match_indices(token) {
        candidates += 1;
        if candidates > 64 {
            return None;
        }
        let end = byte + token.len();
        if let Err(pg_query::Error::Parse(prefix)) = pg_query::parse(query.get(..end)?, 0)
            && prefix == message
        {
            return Some(byte);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_statements_keep_their_text() {
        let statements = parse("select 1; ; select 'é' ;").unwrap();
        assert_eq!(statements.len(), 2);
        assert_eq!(statements[0].text(), "select 1");
        assert_eq!(statements[1].text(), "select 'é'");
        assert!(parse("  -- nothing\n").unwrap().is_empty());
    }

    #[test]
    fn syntax_errors_have_postgresql_positions() {
        let error = parse("select 1 from t where").unwrap_err();
        assert_eq!(
            (error.sqlstate, error.message.as_str()),
            ("42601", "syntax error at end of input")
        );
        assert_eq!(error.position, Some(22));
        let error = parse("selec 1").unwrap_err();
        assert_eq!(error.message, "syntax error at or near \"selec\"");
        assert_eq!(error.position, Some(1));
        let error = parse("select 'é', from t from t").unwrap_err();
        assert_eq!(error.message, "syntax error at or near \"from\"");
        assert_eq!(error.position, Some(13));
        let error = parse("select 'abc").unwrap_err();
        assert_eq!(error.position, Some(8));
    }

    #[test]
    fn deep_nesting_is_refused_before_the_parser_sees_it() {
        let deep = format!("select {}1{}", "(".repeat(20_000), ")".repeat(20_000));
        assert_eq!(parse(&deep).unwrap_err().sqlstate, "54001");
        let long_sum = format!("select 1{}", " + 1".repeat(5_000));
        assert_eq!(parse(&long_sum).unwrap_err().sqlstate, "54001");
        let moderate = format!("select 1{}", " + 1".repeat(400));
        assert_eq!(parse(&moderate).unwrap().len(), 1);
        let flat = format!("select 1 where {}true", "1 = 1 and ".repeat(5_000));
        assert_eq!(parse(&flat).unwrap().len(), 1);
        let values = format!("insert into t values {}(1, 2)", "(1 + 1, 2 * 3), ".repeat(5_000));
        assert_eq!(parse(&values).unwrap().len(), 1);
    }
}
