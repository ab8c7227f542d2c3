//! The parser: turns query text into PostgreSQL's syntax trees.
//!
//! It finds the positions of errors, and refuses text that nests too deeply.

use std::sync::Arc;

use niwaki_env::stack::{self, TooDeep};
use pg_query::NodeEnum;
use pg_query::protobuf::{ScanToken, Token};
// The syntax tree arrives as a protobuf message, nested as deeply as the query. This crate is named
// here because a feature switches its recursion limit (100) off. `nesting_bound` replaces that
// limit.
use prost as _;

use crate::error::{Result, SqlError};
use crate::tree::SyntaxTree;

/// Most nesting levels of the messages of a syntax tree. The library refuses more (54001).
const NESTING_MAX: usize = 10_000;
/// Stack that the library and prost take for each of these levels, in bytes. Decoding a chain of
/// NOT takes most: 13.2 kB for two levels, where a crate is one unit of code.
const LEVEL_BYTES: usize = 12 << 10;
const _: () = assert!(NESTING_MAX * LEVEL_BYTES < stack::BYTES_MAX);
/// Message levels that a bracket or a CASE adds. The next constants are for an operator, a nested
/// query, and a set operation or join.
const BRACKET_DEPTH: usize = 4;
const OPERATOR_DEPTH: usize = 2;
const SELECT_DEPTH: usize = 8;
const CLAUSE_DEPTH: usize = 4;

/// Size of texts, in bytes, below which memory need not be estimated.
const SMALL_TEXT_BYTES: usize = 2 << 10;
/// Memory, in bytes, that the library takes for each word or sign of a text. It was measured with
/// lists of numbers, of rows and of targets.
const WORD_MEMORY_BYTES: usize = 400;
/// Memory, in bytes, for a piece that only the token list has: a comment or a point. The token list
/// is read if a name may follow a parameter directly. `STATEMENT_MEMORY_BYTES` is the memory for
/// each statement, measured with statements separated by semicolons.
const TOKEN_MEMORY_BYTES: usize = 120;
const STATEMENT_MEMORY_BYTES: usize = 2_000;

/// One statement of a query text.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// The syntax tree, with the stack that reading it takes.
    pub node: SyntaxTree,
    /// The whole query text, to which positions refer.
    pub source: Arc<str>,
    /// Byte offset in `source` at which the statement begins.
    pub start: usize,
    /// Byte offset after the statement's end.
    pub end: usize,
}

impl ParsedStatement {
    /// Returns the statement's own text, without surrounding blanks.
    pub fn text(&self) -> &str {
        self.source.get(self.start..self.end).unwrap_or(&self.source).trim()
    }
}

/// Returns the position, in characters from 1, of a byte of the query; `None` for the parser's
/// unknown location (-1).
pub fn position_of(source: &str, location: i32) -> Option<u32> {
    let byte = usize::try_from(location).ok()?.min(source.len());
    let bytes = source.as_bytes().get(..byte)?;
    // Every byte that is no continuation byte begins a character.
    let characters = bytes.iter().filter(|b| (**b & 0xC0) != 0x80).count();
    u32::try_from(characters + 1).ok()
}

/// Parses a query text, which may have several statements. An empty text has none.
///
/// # Errors
/// `42601` with a position, `54001` for text that nests too deeply, `22021` for a zero byte.
pub fn parse(query: &str) -> Result<Vec<ParsedStatement>> {
    if query.as_bytes().contains(&0) {
        return Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    let memory = if query.len() < SMALL_TEXT_BYTES { 0 } else { memory_bytes(query) };
    // A session without free memory must still be able to end its transaction.
    if memory > 0 {
        niwaki_env::memory::room(memory)?;
    }
    let _held = niwaki_env::memory::Held::own(memory);
    let bytes = stack_bytes(query);
    // The library asks the system for the remaining stack, and refuses what it considers too deep.
    stack::of_thread(bytes, || parse_here(query, bytes))
}

/// Returns a rough estimate, in bytes, of the memory that the library takes for reading `query`. A
/// literal counts as one word, whatever its content is.
fn memory_bytes(query: &str) -> usize {
    let bytes = query.as_bytes();
    let (mut words, mut statements, mut position) = (0_usize, 0_usize, 0);
    let (mut tokens, mut behind_literal) = (0_usize, None);
    let mut copied = Copied::default();
    while position < bytes.len() {
        let (piece, end) = piece(bytes, position);
        copied.pass(&piece, &bytes[position..end], words);
        words += match piece {
            Piece::Blank | Piece::Comment | Piece::Sign(b'.') => 0,
            // Adjacent literals are one, with a doubled quote inside.
            Piece::Literal => usize::from(behind_literal.replace(end) != Some(position)),
            Piece::Operators(count) => count,
            Piece::Word(_) | Piece::Number | Piece::Sign(_) => 1,
        };
        tokens += usize::from(matches!(piece, Piece::Comment | Piece::Sign(b'.')));
        statements += usize::from(matches!(piece, Piece::Sign(b';')));
        position = end;
    }
    // The text itself is copied a few times.
    (words.saturating_add(copied.words) * WORD_MEMORY_BYTES)
        .saturating_add(tokens * TOKEN_MEMORY_BYTES)
        .saturating_add(statements * STATEMENT_MEMORY_BYTES)
        .saturating_add(query.len() * 4)
}

/// Counter of words that the tree repeats: each column of `SET (a, b, …) = (…)` has a copy of the
/// assigned row.
#[derive(Default)]
struct Copied {
    words: usize,
    /// For each open bracket: the words before it, and the words of the list that the bracket is
    /// assigned to.
    open: Vec<(usize, usize)>,
    /// The words of the bracketed list that ends here, and whether an equals sign has followed.
    list: Option<(usize, bool)>,
}

impl Copied {
    /// Passes a piece of the text, which follows `words` words.
    fn pass(&mut self, piece: &Piece<'_>, text: &[u8], words: usize) {
        self.list = match (piece, self.list) {
            (Piece::Blank | Piece::Comment, list) => list,
            (Piece::Operators(_), Some((count, false))) if text == b"=" => Some((count, true)),
            (Piece::Word(word), Some((_, true))) if word.eq_ignore_ascii_case(b"row") => self.list,
            // Deeper nesting is refused anyway, so it is not followed: that would also take memory.
            (Piece::Sign(b'('), list) if self.open.len() < NESTING_MAX => {
                let assigned = list.filter(|list| list.1).map_or(0, |list| list.0);
                self.open.push((words, assigned));
                None
            }
            (Piece::Sign(b')'), _) => {
                let (before, assigned) = self.open.pop().unwrap_or((words, 0));
                let count = words - before;
                self.words = self.words.saturating_add(assigned.saturating_mul(count));
                Some((count, false))
            }
            _ => None,
        };
    }
}

/// Returns the stack, in bytes, that reading the syntax tree of `source` takes.
pub fn stack_bytes(source: &str) -> usize {
    nesting_bound(source).min(NESTING_MAX) * LEVEL_BYTES
}

/// Copies a part of the syntax tree of `source`, to be kept separately.
pub fn part(node: &NodeEnum, source: &str) -> SyntaxTree {
    SyntaxTree::new(node.clone(), stack_bytes(source))
}

/// Does the work of [`parse`] with `bytes` of stack.
fn parse_here(query: &str, bytes: usize) -> Result<Vec<ParsedStatement>> {
    let result = pg_query::parse(query, 0).map_err(|error| syntax_error(query, &error));
    if let Some(junk) = junk_behind_parameter(query) {
        // An error further to the left is reported instead.
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
            node: SyntaxTree::new(node, bytes),
            source: source.clone(),
            start,
            end,
        });
    }
    Ok(statements)
}

/// Returns the error for a name directly after a parameter (`$1a`). The library reads that as two
/// words; PostgreSQL refuses it.
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
    // Almost no text has such a place, even in a string or a comment.
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

/// An open bracket or CASE at a place of the text.
struct Level {
    /// True for a CASE, false for a bracket.
    case: bool,
    /// Levels added by the operators of the current expression. Operators before a comma, AND or OR
    /// are not part of the expression that follows.
    operators: usize,
    /// Levels added by set operations and joins. Each of them contains everything before it.
    clauses: usize,
    /// Number of BETWEENs whose AND is still missing. The operand after it belongs to them.
    betweens: usize,
}

/// A token of the lexer, roughly.
enum Piece<'q> {
    /// White space.
    Blank,
    Comment,
    /// A string or a quoted name. With a doubled quote, the part up to the first of both quotes.
    Literal,
    Word(&'q [u8]),
    Number,
    /// Number of adjacent operators.
    Operators(usize),
    Sign(u8),
}

/// Returns the piece of text at `start`, and the offset after it.
///
/// The piece must agree with the lexer, character by character, about strings, comments and names.
/// Otherwise a text could hide brackets or words, and would be read without the stack and the
/// memory for them.
fn piece(bytes: &[u8], start: usize) -> (Piece<'_>, usize) {
    let Some(&byte) = bytes.get(start) else { return (Piece::Blank, start) };
    let next = start + 1;
    let run = |belongs: &dyn Fn(&u8) -> bool| {
        start + bytes.iter().skip(start).take_while(|byte| belongs(byte)).count()
    };
    match byte {
        b'\'' | b'"' => (Piece::Literal, behind_quote(bytes, next, byte)),
        b'-' if bytes.get(next) == Some(&b'-') => {
            (Piece::Comment, run(&|byte| !matches!(byte, b'\n' | b'\r')))
        }
        b'/' if bytes.get(next) == Some(&b'*') => (Piece::Comment, behind_comment(bytes, next + 1)),
        b'$' => match behind_dollar_quote(bytes, next) {
            // The digits of a parameter have no point: a name may follow it directly.
            end if end == next => match behind_digits(bytes, next) {
                digits if digits == next => (Piece::Sign(byte), next),
                digits => (Piece::Number, digits),
            },
            end => (Piece::Literal, end),
        },
        b'0'..=b'9' => (Piece::Number, behind_number(bytes, start)),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
            let end =
                run(&|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..));
            let word = &bytes[start..end];
            if word.eq_ignore_ascii_case(b"e") && bytes.get(end) == Some(&b'\'') {
                return (Piece::Literal, behind_escapes(bytes, end + 1));
            }
            (Piece::Word(word), end)
        }
        b':' => (Piece::Operators(1), run(&|byte| *byte == b':')),
        _ if OPERATORS.contains(&byte) => {
            let mut end = next;
            // Ends: a comment begins, or the operator characters are over.
            while let Some(byte) = bytes.get(end)
                && OPERATORS.contains(byte)
                && !matches!(bytes.get(end..end + 2), Some(b"--" | b"/*"))
            {
                end += 1;
            }
            (Piece::Operators(operators_in(&bytes[start..end])), end)
        }
        _ if byte.is_ascii_whitespace() || byte == VERTICAL_TAB => (Piece::Blank, next),
        _ => (Piece::Sign(byte), next),
    }
}

/// A blank for the lexer, though not for [`u8::is_ascii_whitespace`].
const VERTICAL_TAB: u8 = 0x0b;

/// Returns the offset after the decimal digits at `position`.
fn behind_digits(bytes: &[u8], position: usize) -> usize {
    let rest = bytes.get(position..).unwrap_or_default();
    position + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns the offset after the number at `position`. Its point belongs to it, also as its last
/// character: a word after `1.` is no name. Letters directly after a number are part of it, or the
/// lexer refuses them.
fn behind_number(bytes: &[u8], position: usize) -> usize {
    let run = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        let belongs = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        from + rest.iter().take_while(belongs).count()
    };
    let end = run(position);
    match bytes.get(end..end + 2) {
        Some(b"..") => end,
        _ if bytes.get(end) == Some(&b'.') => run(end + 1),
        _ => end,
    }
}

/// Returns the number of operators that the lexer reads in adjacent operator characters. Each
/// trailing plus or minus is a separate operator, unless the text has a character outside of
/// standard SQL.
fn operators_in(text: &[u8]) -> usize {
    if text.iter().any(|byte| b"~!@#^&|`?%".contains(byte)) {
        return 1;
    }
    let signs = text.iter().rev().take_while(|byte| matches!(byte, b'+' | b'-')).count();
    signs + usize::from(signs < text.len())
}

/// Returns an upper bound of the nesting depth of the syntax tree of `query`, up to
/// [`NESTING_MAX`].
///
/// The bound sums the open brackets and `CASE`s at each point, with the set operations, joins and
/// operators being read there. AND, OR and lists are flat in the grammar's trees and count little.
fn nesting_bound(query: &str) -> usize {
    let bytes = query.as_bytes();
    let open = |case| Level { case, operators: 0, clauses: 0, betweens: 0 };
    let (mut position, mut behind_point) = (0, false);
    let mut deepest = 0usize;
    let mut levels = vec![open(false)];
    let mut sum = 0usize;
    while position < bytes.len() {
        let (piece, end) = piece(bytes, position);
        position = end;
        let behind = match piece {
            Piece::Blank | Piece::Comment => behind_point,
            _ => std::mem::replace(&mut behind_point, matches!(piece, Piece::Sign(b'.'))),
        };
        match piece {
            Piece::Sign(b'(' | b'[') => {
                levels.push(open(false));
                sum += BRACKET_DEPTH;
            }
            Piece::Sign(b')' | b']') => close(&mut levels, &mut sum, false),
            Piece::Sign(b',') => {
                sum -= levels.last_mut().map_or(0, Level::next_operand);
            }
            Piece::Sign(b';') => (sum, levels) = (0, vec![open(false)]),
            Piece::Operators(count) => {
                sum += count * OPERATOR_DEPTH;
                if let Some(level) = levels.last_mut() {
                    level.operators += count * OPERATOR_DEPTH;
                }
            }
            // After a point, each word is a name.
            Piece::Word(word) if !behind => {
                let is = |keyword: &[u8]| word.eq_ignore_ascii_case(keyword);
                if is(b"case") {
                    levels.push(open(true));
                    sum += BRACKET_DEPTH;
                } else if is(b"end") {
                    // In brackets inside a CASE, END is the name of a column.
                    if levels.last().is_some_and(|level| level.case) {
                        close(&mut levels, &mut sum, true);
                    }
                } else if let Some(level) = levels.last_mut() {
                    if level.case && (is(b"when") || is(b"then") || is(b"else")) {
                        // The parts of a CASE do not nest in each other.
                        sum -= level.next_operand();
                    }
                    sum += level.word(word);
                    if is(b"and") && level.betweens > 0 {
                        level.betweens -= 1;
                    } else if is(b"and") || is(b"or") {
                        sum -= level.next_operand();
                    }
                }
            }
            Piece::Blank
            | Piece::Comment
            | Piece::Literal
            | Piece::Word(_)
            | Piece::Number
            | Piece::Sign(_) => {}
        }
        deepest = deepest.max(sum);
        // Open levels take memory that is not accounted for.
        if deepest >= NESTING_MAX {
            break;
        }
    }
    deepest
}

/// The characters of operators.
const OPERATORS: &[u8] = b"+-*/%<>=|~^&#!@?`";

impl Level {
    /// Counts a word. Returns the number of levels that it adds.
    fn word(&mut self, word: &[u8]) -> usize {
        let is_one_of =
            |words: &[&str]| words.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()));
        let (clause, operator) = if is_one_of(&["select", "values", "table"]) {
            (SELECT_DEPTH, 0)
        } else if is_one_of(&["union", "intersect", "except", "join"]) {
            (CLAUSE_DEPTH, 0)
        } else if is_one_of(&[
            "not", "is", "isnull", "notnull", "collate", "at", "operator", "like", "ilike",
            "similar", "in", "between", "overlaps",
        ]) {
            (0, OPERATOR_DEPTH)
        } else {
            (0, 0)
        };
        self.clauses += clause;
        self.operators += operator;
        self.betweens += usize::from(is_one_of(&["between"]));
        clause + operator
    }

    /// Begins a new operand, whose operators do not nest in the earlier ones. Returns the number of
    /// levels that the earlier operators had added.
    fn next_operand(&mut self) -> usize {
        self.betweens = 0;
        std::mem::take(&mut self.operators)
    }
}

/// Closes levels up to a bracket or a CASE of the same kind.
fn close(levels: &mut Vec<Level>, sum: &mut usize, case: bool) {
    // END is also a statement, and brackets may be unbalanced: the parser reports that.
    if !levels.iter().skip(1).any(|level| level.case == case) {
        return;
    }
    while levels.len() > 1
        && let Some(level) = levels.pop()
    {
        *sum -= level.operators + level.clauses + BRACKET_DEPTH;
        if level.case == case {
            break;
        }
    }
}

/// Returns the offset after a quoted string or name whose quote is before `position`.
fn behind_quote(bytes: &[u8], position: usize, quote: u8) -> usize {
    let rest = bytes.get(position..).unwrap_or_default();
    memchr::memchr(quote, rest).map_or(bytes.len(), |at| position + at + 1)
}

/// Returns the offset after an E'' string that begins before `position`. Escapes are also valid
/// after a doubled quote, and in a continuation of the string on another line.
fn behind_escapes(bytes: &[u8], mut position: usize) -> usize {
    while let Some(inner) = bytes.get(position) {
        position += 1;
        match inner {
            b'\\' => position += 1,
            b'\'' if bytes.get(position) == Some(&b'\'') => position += 1,
            b'\'' => match behind_continuation(bytes, position) {
                Some(goes_on) => position = goes_on,
                None => return position,
            },
            _ => {}
        }
    }
    bytes.len()
}

/// Returns the offset after the quote that continues a string which ended before `position`. Only
/// blanks, line ends and comments up to a line end may be in between, with at least one line end.
pub fn behind_continuation(bytes: &[u8], mut position: usize) -> Option<usize> {
    let mut line_ended = false;
    loop {
        match bytes.get(position)? {
            b'\'' => return line_ended.then_some(position + 1),
            b'\n' | b'\r' => line_ended = true,
            b' ' | b'\t' | 0x0B | 0x0C => {}
            b'-' if bytes.get(position + 1) == Some(&b'-') => {
                let rest = bytes.get(position..).unwrap_or_default();
                // The next turn visits the line end.
                position += memchr::memchr2(b'\n', b'\r', rest)? - 1;
            }
            _ => return None,
        }
        position += 1;
    }
}

/// Returns the offset after a comment that begins before `position`. Comments nest.
fn behind_comment(bytes: &[u8], mut position: usize) -> usize {
    let mut open = 1usize;
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
    position
}

/// Returns the offset after `$tag$ … $tag$`, whose first `$` is before `position`. Returns
/// `position` for a parameter.
fn behind_dollar_quote(bytes: &[u8], position: usize) -> usize {
    let rest = bytes.get(position..).unwrap_or_default();
    let tag = rest.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80));
    let Some(length) = tag else { return position };
    if rest.get(length) != Some(&b'$') || rest.first().is_some_and(u8::is_ascii_digit) {
        return position;
    }
    let quote = &bytes[position - 1..=position + length];
    let text = position + length + 1;
    let end = memchr::memmem::find(bytes.get(text..).unwrap_or_default(), quote);
    end.map_or(bytes.len(), |at| text + at + quote.len())
}

/// Converts the parser's error to an error with SQLSTATE and position.
///
/// The library returns only the message, so the position is searched. The message names the token
/// at which the parser stopped. The position is the first token with that text for which the
/// query's prefix fails with the same message.
fn syntax_error(query: &str, error: &pg_query::Error) -> SqlError {
    let message = match error {
        pg_query::Error::Parse(message) => message.clone(),
        other => return SqlError::new("42601", other.to_string()),
    };
    if message.contains("stack depth limit") || message.contains("nested too deeply") {
        return SqlError::from(TooDeep);
    }
    let sqlstate = if message.contains("memory exhausted") {
        "54001"
    } else if message.contains("is not supported") || message.contains("not yet implemented") {
        "0A000"
    } else if message == "invalid Unicode escape" && !query.to_ascii_lowercase().contains("u&") {
        // An E'' string. All other wrong escapes are syntax errors.
        "22025"
    } else if message.starts_with("frame start") || message.starts_with("frame end") {
        // Bounds of a window frame that contradict each other.
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
    // An unterminated quote reports everything from its opening quote on.
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

    fn refused(query: &str) -> bool {
        parse(query).is_err_and(|error| error.sqlstate == "54001")
    }

    #[test]
    fn what_nests_too_deeply_is_refused() {
        let deep = format!("select {}1{}", "(".repeat(20_000), ")".repeat(20_000));
        assert_eq!(parse(&deep).unwrap_err().sqlstate, "54001");
        let long_sum = format!("select 1{}", " + 1".repeat(30_000));
        assert_eq!(parse(&long_sum).unwrap_err().sqlstate, "54001");
        // Some of these queries are parsed, and some refused: none may end the process.
        for (levels, part) in [
            (4_000, "+-"),
            (2_000, "1 between 1 and not "),
            (2_000, "case when t.end then "),
            (2_000, "case when (select 1 as end) then "),
        ] {
            let ends = if part.starts_with("case") { " end".repeat(levels) } else { String::new() };
            let query = format!("select {}1{ends}", part.repeat(levels));
            assert!(parse(&query).is_ok_and(|one| one.len() == 1) || refused(&query), "{part}");
        }
        let query = format!(r"select e'''\'', {}1{}", "- (".repeat(2_000), ")".repeat(2_000));
        assert!(parse(&query).is_ok_and(|one| one.len() == 1) || refused(&query));
        let flat = format!("select 1 where {}true", "(1 = 1) and ".repeat(5_000));
        assert_eq!(parse(&flat).unwrap().len(), 1);
        let values = format!("insert into t values {}(1, 2)", "(1 + 1, 2 * 3), ".repeat(5_000));
        assert_eq!(parse(&values).unwrap().len(), 1);
    }

    /// Prefixes that look like the start of a string to a scanner that does not follow the lexer's
    /// rules.
    const HIDING: &[&str] = &[
        "select a$b$, ",
        r"select date'\', ",
        r"select é'\', ",
        "select 1 +-- '\n",
        "select 1 +/* ' */ ",
        "select 1 /* /* */ ' */, ",
        "select $1$b$ $b$, ",
        "select \"'\", ",
        r"select e'\'', ",
        r"select e'''\'', ",
        r"select e'a''\\''\'', ",
        "select e'a'\n'\\'', ",
        "select e'a' -- '\r -- '\n '\\'', ",
        "select e'a' '\\', ",
        "select 'a''', ",
        "-- don't\nselect ",
        "select $a$'$a$, ",
    ];

    #[test]
    fn nothing_hides_words_from_what_they_take() {
        for before in HIDING {
            let query = format!("{before}{}", "1, ".repeat(10_000));
            assert!(memory_bytes(&query) > 20_000 * WORD_MEMORY_BYTES, "{before}");
        }
        // The content of literals and comments is copied, and takes no further memory.
        let list = [
            "-- 1, 2, 3, 4 '\n",
            "/* 1, 2 /* 3 */ ' */",
            "'1, '', \", $a$, 2'",
            r"e'\', 1, 2'",
            "$a$1, 2, ' $b$ $a$",
            "\"1, '2\"",
        ];
        for one in list {
            let query = format!("select {},", [one; 1_000].join(","));
            let words = (memory_bytes(&query) - query.len() * 4) / WORD_MEMORY_BYTES;
            assert!(words <= 2_001, "{words}: {one}");
        }
    }

    #[test]
    fn what_each_column_of_a_list_has_a_copy_of_counts_as_often() {
        let names: Vec<String> = (0..400).map(|number| format!("c{number}")).collect();
        let names = names.join(", ");
        for source in ["(select", "row (", "/**/ ROW(("] {
            let close = ")".repeat(source.matches('(').count());
            let assigned = format!("update w set ({names}) = {source} {names}{close}");
            assert!(memory_bytes(&assigned) > 400 * 400 * WORD_MEMORY_BYTES, "{source}");
        }
        let compared = format!("select ({names}) < (select {names})");
        assert!(memory_bytes(&compared) < 2_000 * WORD_MEMORY_BYTES);
    }

    #[test]
    fn what_only_the_list_of_tokens_has_takes_memory_too() {
        for token in ["/**/", "--\n", ".", "1.1.", "+-"] {
            let query = format!("select {} $1a", token.repeat(10_000));
            assert!(memory_bytes(&query) > 10_000 * TOKEN_MEMORY_BYTES, "{token}");
        }
    }

    #[test]
    fn nothing_hides_nesting_from_its_bound() {
        let levels = 1_000;
        let brackets = format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
        for before in HIDING {
            let query = format!("{before}{brackets}");
            assert!(nesting_bound(&query) >= levels * BRACKET_DEPTH, "{before}");
        }
        // The content of a part does not remove the levels that contain the parts.
        for part in [
            " union all select 1, 2",
            " join t on a and b",
            " operator(pg_catalog.+) 1",
            " operator(pg_catalog.+) 1.",
            " operator(pg_catalog.+) 1_0.",
            " operator(pg_catalog.+) 0x1F",
            " operator(pg_catalog.+) 1.5e-1",
            " + x.\u{b}and",
            " + $1.and",
            " at time zone 'x'",
            " at time zone 1.",
            " isnull",
        ] {
            let query = format!("select 1{}", part.repeat(levels));
            assert!(nesting_bound(&query) >= levels * OPERATOR_DEPTH, "{part}");
        }
        for case in [
            "case when a and b then 1 when a, b then ",
            "case when t.end then ",
            "case when t /* */ . end then ",
            "case when (select 1 as end) then ",
            "case when (select true end) then ",
        ] {
            let query = format!("select {}", case.repeat(levels));
            assert!(nesting_bound(&query) >= levels * BRACKET_DEPTH, "{case}");
        }
        // The AND of BETWEEN does not combine conditions.
        let query = format!("select 1{}", " between 1 and not 2".repeat(levels));
        assert!(nesting_bound(&query) >= levels * OPERATOR_DEPTH);
        let query = format!("select {}1", "1 between 1 and 2 and ".repeat(levels));
        assert!(nesting_bound(&query) < 100);
        // Each sign is an operator.
        for signs in ["+-", "=-+-+ ", "*+- "] {
            let query = format!("select {}1", signs.repeat(levels));
            assert!(nesting_bound(&query) >= 2 * levels * OPERATOR_DEPTH, "{signs}");
        }
        for (text, count) in [("=-", 2), ("@-", 1), ("->>", 1), ("+-+", 3), ("<=", 1)] {
            assert_eq!(operators_in(text.as_bytes()), count, "{text}");
        }
        let query = format!("select {}", "case when a and b then 1 end, ".repeat(levels));
        assert!(nesting_bound(&query) < 100);
        let query = format!("select case {} end", "when a = 1 then b + 2 ".repeat(levels));
        assert!(nesting_bound(&query) < 100);
        assert!(nesting_bound(&"begin; select (1); end; ".repeat(levels)) < 100);
    }
}
