//! Query text into PostgreSQL's own syntax trees, with positions for its errors and a guard against
//! text that nests too deeply.

use std::sync::Arc;

use niwaki_env::stack::{self, Deep, TooDeep};
use pg_query::NodeEnum;
use pg_query::protobuf::{ScanToken, Token};
// The syntax tree arrives as a protobuf message nested as deeply as the query; this crate is named
// here because its recursion limit (100) is switched off by a feature. `nesting_bound` replaces it.
use prost as _;

use crate::error::{Result, SqlError};

/// How deeply the messages of a syntax tree may nest: the library refuses more (54001).
const NESTING_MAX: usize = 10_000;
/// Stack that the library and prost take for each of those levels, in bytes.
const LEVEL_BYTES: usize = 4 << 10;
/// Messages that a bracket, an operator, a nested query and a CASE or join add to the depth.
const BRACKET_DEPTH: usize = 4;
const OPERATOR_DEPTH: usize = 2;
const SELECT_DEPTH: usize = 8;
const CLAUSE_DEPTH: usize = 4;

/// Texts below this take no memory worth a look, in bytes.
const SMALL_TEXT_BYTES: usize = 16 << 10;
/// Memory that the library takes for a word or sign of a text, and for a statement, in bytes: measured
/// (lists of numbers, of rows, of targets; statements with a semicolon between).
const WORD_MEMORY_BYTES: usize = 400;
const STATEMENT_MEMORY_BYTES: usize = 2_000;

/// One statement of a query text.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// Its syntax tree, and the stack that reading it takes.
    pub node: Arc<Deep<NodeEnum>>,
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
    let memory = if query.len() < SMALL_TEXT_BYTES { 0 } else { memory_bytes(query) };
    // A session that has no room left must be able to end its transaction.
    if memory > 0 {
        niwaki_env::memory::room(memory)?;
    }
    let _held = niwaki_env::memory::Held::own(memory);
    let bytes = stack_bytes(query);
    // The library asks the system how much stack is left, and refuses what it deems too deep for
    // it.
    stack::of_thread(bytes, || parse_here(query, bytes))
}

/// Memory that the library takes for reading `query`, in bytes, roughly. A literal is one word; what
/// it holds is not looked at more closely than that.
fn memory_bytes(query: &str) -> usize {
    let bytes = query.as_bytes();
    let (mut words, mut statements, mut position) = (0_usize, 0_usize, 0);
    let mut behind_literal = None;
    while position < bytes.len() {
        let (piece, end) = piece(bytes, position);
        let counts = match piece {
            Piece::Blank | Piece::Sign(b'.') => false,
            // Those that touch are one, with a doubled quote in it.
            Piece::Literal => behind_literal.replace(end) != Some(position),
            Piece::Word(_) | Piece::Number | Piece::Operator | Piece::Sign(_) => true,
        };
        words += usize::from(counts);
        statements += usize::from(matches!(piece, Piece::Sign(b';')));
        position = end;
    }
    // The text is copied a few times.
    (words * WORD_MEMORY_BYTES)
        .saturating_add(statements * STATEMENT_MEMORY_BYTES)
        .saturating_add(query.len() * 4)
}

/// Stack that reading the syntax tree of `source` takes, in bytes.
pub(crate) fn stack_bytes(source: &str) -> usize {
    nesting_bound(source).min(NESTING_MAX) * LEVEL_BYTES
}

/// A part of the syntax tree of `source`, to be kept by itself.
pub(crate) fn part(node: &NodeEnum, source: &str) -> Arc<Deep<NodeEnum>> {
    Arc::new(Deep::new(node.clone(), stack_bytes(source)))
}

/// As [`parse`], with `bytes` of stack.
fn parse_here(query: &str, bytes: usize) -> Result<Vec<ParsedStatement>> {
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
            node: Arc::new(Deep::new(node, bytes)),
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

/// What is open at a place of a text.
struct Level {
    /// Whether CASE opened it, and not a bracket.
    case: bool,
    /// Levels that the operators of the expression that is being read add: those that stand before
    /// a comma, AND or OR are no part of what follows.
    operators: usize,
    /// Levels that set operations and joins add, each of which holds all before it.
    clauses: usize,
}

/// What the lexer takes for one thing.
enum Piece<'q> {
    /// White space or a comment.
    Blank,
    /// A string or a quoted name, or a part of one that ends with the first of two quotes.
    Literal,
    Word(&'q [u8]),
    Number,
    Operator,
    Sign(u8),
}

/// What stands at a place of a text, before its end, and the place behind it.
///
/// What the lexer takes for a string, a comment or a name must be the same here, character by
/// character: a text that hides brackets or words would be read without the stack and the memory
/// for them.
fn piece(bytes: &[u8], start: usize) -> (Piece<'_>, usize) {
    let Some(&byte) = bytes.get(start) else { return (Piece::Blank, start) };
    let next = start + 1;
    let run = |belongs: &dyn Fn(&u8) -> bool| {
        start + bytes.iter().skip(start).take_while(|byte| belongs(byte)).count()
    };
    match byte {
        b'\'' | b'"' => (Piece::Literal, behind_quote(bytes, next, byte, false)),
        b'-' if bytes.get(next) == Some(&b'-') => {
            (Piece::Blank, run(&|byte| !matches!(byte, b'\n' | b'\r')))
        }
        b'/' if bytes.get(next) == Some(&b'*') => (Piece::Blank, behind_comment(bytes, next + 1)),
        b'$' => match behind_dollar_quote(bytes, next) {
            end if end == next => (Piece::Sign(byte), end),
            end => (Piece::Literal, end),
        },
        b'0'..=b'9' => (Piece::Number, run(&|byte| byte.is_ascii_digit() || *byte == b'.')),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
            let end =
                run(&|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..));
            let word = &bytes[start..end];
            if word.eq_ignore_ascii_case(b"e") && bytes.get(end) == Some(&b'\'') {
                return (Piece::Literal, behind_quote(bytes, end + 1, b'\'', true));
            }
            (Piece::Word(word), end)
        }
        _ if OPERATORS.contains(&byte) => {
            let mut end = next;
            // Ends where a comment begins.
            while let Some(byte) = bytes.get(end)
                && OPERATORS.contains(byte)
                && !matches!(bytes.get(end..end + 2), Some(b"--" | b"/*"))
            {
                end += 1;
            }
            (Piece::Operator, end)
        }
        _ if byte.is_ascii_whitespace() => (Piece::Blank, next),
        _ => (Piece::Sign(byte), next),
    }
}

/// An upper bound on how deeply the syntax tree of `query` nests: open brackets and `CASE`s at any
/// point, with the set operations, joins and operators that are being read there. AND, OR and lists
/// are flat in the grammar's trees and count little.
fn nesting_bound(query: &str) -> usize {
    let bytes = query.as_bytes();
    let open = |case| Level { case, operators: 0, clauses: 0 };
    let mut position = 0;
    let mut deepest = 0usize;
    let mut levels = vec![open(false)];
    let mut sum = 0usize;
    while position < bytes.len() {
        let (piece, end) = piece(bytes, position);
        position = end;
        match piece {
            Piece::Sign(b'(' | b'[') => {
                levels.push(open(false));
                sum += BRACKET_DEPTH;
            }
            Piece::Sign(b')' | b']') => close(&mut levels, &mut sum, false),
            Piece::Sign(b',') => {
                sum -= levels.last_mut().map_or(0, |level| std::mem::take(&mut level.operators));
            }
            Piece::Sign(b';') => (sum, levels) = (0, vec![open(false)]),
            Piece::Operator => {
                sum += OPERATOR_DEPTH;
                if let Some(level) = levels.last_mut() {
                    level.operators += OPERATOR_DEPTH;
                }
            }
            Piece::Word(word) => {
                let is = |keyword: &[u8]| word.eq_ignore_ascii_case(keyword);
                if is(b"case") {
                    levels.push(open(true));
                    sum += BRACKET_DEPTH;
                } else if is(b"end") {
                    close(&mut levels, &mut sum, true);
                } else if let Some(level) = levels.last_mut() {
                    sum += level.word(word);
                    // A new operand, whose operators do not nest in the earlier ones'.
                    if is(b"and") || is(b"or") {
                        sum -= std::mem::take(&mut level.operators);
                    }
                }
            }
            Piece::Blank | Piece::Literal | Piece::Number | Piece::Sign(_) => {}
        }
        deepest = deepest.max(sum);
    }
    deepest
}

/// Characters of operators.
const OPERATORS: &[u8] = b"+-*/%<>=|~^:&#!@?`";

impl Level {
    /// Counts a word. Returns how many levels it adds.
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
        clause + operator
    }
}

/// Takes what is open off, up to a bracket or a CASE of the same kind.
fn close(levels: &mut Vec<Level>, sum: &mut usize, case: bool) {
    // END is also a statement, and brackets may not match: the parser says so.
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

/// The place behind a quoted string or name that begins before `position`.
fn behind_quote(bytes: &[u8], mut position: usize, quote: u8, escapes: bool) -> usize {
    while let Some(inner) = bytes.get(position) {
        position += 1;
        if *inner == quote {
            break;
        }
        if escapes && *inner == b'\\' {
            position += 1;
        }
    }
    position
}

/// The place behind a comment that begins before `position`. Comments nest.
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

/// The place behind `$tag$ … $tag$`, whose first `$` stands before `position`; `position` for a
/// parameter.
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

/// The parser's error with SQLSTATE and position. The library gives the message only, so the position
/// is found again: the message names the token it stopped at, and of the tokens with that text it is
/// the first whose prefix of the query fails in the same way.
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
    fn what_nests_too_deeply_is_refused() {
        let deep = format!("select {}1{}", "(".repeat(20_000), ")".repeat(20_000));
        assert_eq!(parse(&deep).unwrap_err().sqlstate, "54001");
        let long_sum = format!("select 1{}", " + 1".repeat(30_000));
        assert_eq!(parse(&long_sum).unwrap_err().sqlstate, "54001");
        let flat = format!("select 1 where {}true", "(1 = 1) and ".repeat(5_000));
        assert_eq!(parse(&flat).unwrap().len(), 1);
        let values = format!("insert into t values {}(1, 2)", "(1 + 1, 2 * 3), ".repeat(5_000));
        assert_eq!(parse(&values).unwrap().len(), 1);
    }

    /// Beginnings behind which all is a string for one that does not know the lexer's rules.
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
        // What stands in literals and comments is copied, and takes no more than that.
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
    fn nothing_hides_nesting_from_its_bound() {
        let levels = 1_000;
        let brackets = format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
        for before in HIDING {
            let query = format!("{before}{brackets}");
            assert!(nesting_bound(&query) >= levels * BRACKET_DEPTH, "{before}");
        }
        // What stands in each part does not take away what holds the parts.
        for part in [
            " union all select 1, 2",
            " join t on a and b",
            " operator(pg_catalog.+) 1",
            " at time zone 'x'",
            " isnull",
        ] {
            let query = format!("select 1{}", part.repeat(levels));
            assert!(nesting_bound(&query) >= levels * OPERATOR_DEPTH, "{part}");
        }
        let case = "case when a and b then 1 when a, b then ".repeat(levels);
        assert!(nesting_bound(&format!("select {case}")) >= levels * BRACKET_DEPTH);
        let query = format!("select {}", "case when a and b then 1 end, ".repeat(levels));
        assert!(nesting_bound(&query) < 100);
        assert!(nesting_bound(&"begin; select (1); end; ".repeat(levels)) < 100);
    }
}
