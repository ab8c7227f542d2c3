//! Reads a regular expression into a tree.

use std::rc::Rc;

use niwaki_parse::error::{Result, SqlError};

use super::chars::{CharSet, Class};
use super::invalid;

/// The options that decide how an expression is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Options {
    /// Ignores case: upper and lower case are the same.
    pub fold: bool,
    /// Restricts cases and classes to ASCII characters, including the class of words.
    pub ascii: bool,
    /// Takes the whole expression literally.
    pub literal: bool,
    /// Ignores blanks and comments in the expression.
    pub expanded: bool,
    /// Keeps `.` and `[^…]` from matching a newline.
    pub newline_stops: bool,
    /// Lets `^` and `$` match at newlines, too.
    pub newline_anchors: bool,
    /// Marks a POSIX expression, which is refused.
    pub posix: bool,
}

impl Options {
    /// Applies one option letter; false for a letter that PostgreSQL does not have.
    pub fn apply(&mut self, letter: char) -> bool {
        match letter {
            'b' | 'e' => self.posix = true,
            'c' => self.fold = false,
            'i' => self.fold = true,
            'm' | 'n' => (self.newline_stops, self.newline_anchors) = (true, true),
            'p' => (self.newline_stops, self.newline_anchors) = (true, false),
            'w' => (self.newline_stops, self.newline_anchors) = (false, true),
            's' => (self.newline_stops, self.newline_anchors) = (false, false),
            'q' => self.literal = true,
            't' => self.expanded = false,
            'x' => self.expanded = true,
            _ => return false,
        }
        true
    }
}

/// A condition on a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart { ascii: bool },
    WordEnd { ascii: bool },
    WordEdge { ascii: bool },
    NotWordEdge { ascii: bool },
}

impl Assertion {
    fn translated(self) -> &'static str {
        match self {
            Self::TextStart => r"\A",
            Self::TextEnd => r"\z",
            Self::LineStart => "(?m:^)",
            Self::LineEnd => "(?m:$)",
            Self::WordStart { ascii: false } => r"\b{start}",
            Self::WordEnd { ascii: false } => r"\b{end}",
            Self::WordEdge { ascii: false } => r"\b",
            Self::NotWordEdge { ascii: false } => r"\B",
            Self::WordStart { ascii: true } => r"(?-u:\b{start})",
            Self::WordEnd { ascii: true } => r"(?-u:\b{end})",
            Self::WordEdge { ascii: true } => r"(?-u:\b)",
            // This assertion would hold inside of characters, so the `regex` crate refuses it.
            Self::NotWordEdge { ascii: true } => r"(?-u:\B)",
        }
    }
}

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Matches the empty text.
    Empty,
    /// One character of a set.
    Set(Rc<CharSet>),
    Assert(Assertion),
    /// A lookaround constraint: text that must, or must not, follow (or precede).
    Look {
        ahead: bool,
        negated: bool,
        node: Box<Node>,
    },
    /// A back reference: the text that a group matched.
    Back(usize),
    /// A group, by its number from 1.
    Capture(usize, Box<Node>),
    Cat(Vec<Node>),
    Alt(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        /// The most repetitions; `None` without limit.
        max: Option<u32>,
        /// True to prefer the longest text; `None` leaves the preference to the repeated part.
        longest: Option<bool>,
    },
}

/// The result of reading an expression.
pub(super) struct Parsed {
    pub(super) root: Node,
    pub(super) groups: usize,
    /// True if back references ignore case: of ASCII letters only if `ascii`, or of all.
    pub(super) fold: bool,
    pub(super) ascii: bool,
    /// The same expression for the `regex` crate, if that crate can express it.
    pub(super) translated: Option<String>,
}

/// The highest number of repetitions in a quantifier.
const REPEAT_MAX: u32 = 255;
/// The deepest nesting of groups.
const DEPTH_MAX: usize = 150;

const UNBALANCED: &str = "parentheses () not balanced";
const NO_OPERAND: &str = "quantifier operand invalid";
const BAD_ESCAPE: &str = "invalid escape \\ sequence";
const BAD_BOUNDS: &str = "invalid repetition count(s)";
const OPEN_BRACKET: &str = "brackets [] not balanced";

/// Reads an expression.
///
/// # Errors
/// `2201B` for a bad expression, `0A000` for POSIX expressions.
pub(super) fn parse(pattern: &str, options: &Options) -> Result<Parsed> {
    let mut parser = Parser {
        chars: pattern.chars().collect(),
        at: 0,
        options: *options,
        groups: 0,
        closed: Vec::new(),
        depth: 0,
        in_look: false,
    };
    parser.prefix()?;
    if parser.options.posix && !parser.options.literal {
        return Err(SqlError::unsupported("a basic or extended (POSIX) regular expression"));
    }
    let root = if parser.options.literal {
        let rest = parser.chars.get(parser.at..).unwrap_or_default();
        Node::Cat(rest.iter().map(|c| parser.literal(*c)).collect())
    } else {
        let root = parser.alternatives()?;
        if parser.at < parser.chars.len() {
            return Err(invalid(UNBALANCED));
        }
        root
    };
    let mut text = String::new();
    let translated = translate(&root, &mut text).then_some(text);
    let Options { fold, ascii, .. } = parser.options;
    Ok(Parsed { root, groups: parser.groups, fold, ascii, translated })
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    options: Options,
    groups: usize,
    /// The groups that a back reference may name.
    closed: Vec<usize>,
    depth: usize,
    in_look: bool,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += 1;
        }
        found
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek_at(ahead) == Some(c))
    }

    /// Reads the director `***` and the options in front.
    fn prefix(&mut self) -> Result<()> {
        if self.options.literal {
            return Ok(());
        }
        if self.starts_with("***") {
            match self.peek_at(3) {
                Some('=') => {
                    self.at += 4;
                    self.options.literal = true;
                    return Ok(());
                }
                Some(':') => {
                    self.at += 4;
                    self.options.posix = false;
                }
                _ => return Err(invalid(NO_OPERAND)),
            }
        }
        if self.options.posix {
            return Ok(());
        }
        if self.starts_with("(?") && self.peek_at(2).is_some_and(|c| c.is_ascii_alphabetic()) {
            self.at += 2;
            while let Some(letter) = self.peek().filter(char::is_ascii_alphabetic) {
                if !self.options.apply(letter) {
                    return Err(invalid("invalid embedded option"));
                }
                self.at += 1;
            }
            if !self.eat(')') {
                return Err(invalid("invalid embedded option"));
            }
        }
        Ok(())
    }

    /// Skips comments, and blanks where they have no meaning.
    fn skip(&mut self) {
        loop {
            if self.starts_with("(?#") {
                while self.peek().is_some_and(|c| c != ')') {
                    self.at += 1;
                }
                self.at = (self.at + 1).min(self.chars.len());
            } else if self.options.expanded && self.peek().is_some_and(char::is_whitespace) {
                self.at += 1;
            } else if self.options.expanded && self.peek() == Some('#') {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn alternatives(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut branches = vec![self.branch()?];
        while self.eat('|') {
            branches.push(self.branch()?);
        }
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Node::Alt(branches),
        })
    }

    fn branch(&mut self) -> Result<Node> {
        let mut parts = Vec::new();
        loop {
            self.skip();
            match self.peek() {
                None | Some('|' | ')') => break,
                Some(_) => parts.push(self.quantified()?),
            }
        }
        Ok(match parts.len() {
            0 => Node::Empty,
            1 => parts.remove(0),
            _ => Node::Cat(parts),
        })
    }

    fn quantified(&mut self) -> Result<Node> {
        let (atom, is_constraint) = self.atom()?;
        self.skip();
        let bound = self.peek() == Some('{') && self.peek_at(1).is_some_and(|c| c.is_ascii_digit());
        let (min, max, fixed) = match self.peek() {
            _ if is_constraint => return Ok(atom),
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('?') => (0, Some(1), false),
            Some('{') if bound => self.bounds()?,
            _ => return Ok(atom),
        };
        self.at += 1;
        let longest = !self.eat('?');
        if max == Some(0) {
            // A part that never matches captures nothing. Its groups can be referred to, and then
            // nothing matches either.
            return Ok(Node::Empty);
        }
        let longest = (!fixed).then_some(longest);
        Ok(Node::Repeat { node: Box::new(atom), min, max, longest })
    }

    /// Reads `{m}`, `{m,}` or `{m,n}` up to the closing brace; returns whether the form
    /// is `{m}`.
    fn bounds(&mut self) -> Result<(u32, Option<u32>, bool)> {
        self.at += 1;
        let min = self.number()?;
        let (max, fixed) = if self.eat(',') {
            let max = match self.peek() {
                Some(c) if c.is_ascii_digit() => Some(self.number()?),
                _ => None,
            };
            (max, false)
        } else {
            (Some(min), true)
        };
        if max.is_some_and(|max| max < min) {
            return Err(invalid(BAD_BOUNDS));
        }
        match self.peek() {
            Some('}') => Ok((min, max, fixed)),
            None => Err(invalid("braces {} not balanced")),
            Some(_) => Err(invalid(BAD_BOUNDS)),
        }
    }

    fn number(&mut self) -> Result<u32> {
        let mut value = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            value = value * 10 + digit;
            if value > REPEAT_MAX {
                return Err(invalid(BAD_BOUNDS));
            }
            self.at += 1;
        }
        Ok(value)
    }

    /// Reads one atom, or a constraint, which cannot be quantified.
    fn atom(&mut self) -> Result<(Node, bool)> {
        let Some(c) = self.peek() else { return Ok((Node::Empty, false)) };
        self.at += 1;
        let anchors = self.options.newline_anchors;
        Ok(match c {
            '(' => return self.group(),
            '[' => return self.bracket(),
            '\\' => return self.escape(),
            '.' => (Node::Set(Rc::new(CharSet::any(self.options.newline_stops))), false),
            '^' if anchors => (Node::Assert(Assertion::LineStart), true),
            '^' => (Node::Assert(Assertion::TextStart), true),
            '$' if anchors => (Node::Assert(Assertion::LineEnd), true),
            '$' => (Node::Assert(Assertion::TextEnd), true),
            '*' | '+' | '?' => return Err(invalid(NO_OPERAND)),
            '{' if self.peek().is_some_and(|c| c.is_ascii_digit()) => {
                return Err(invalid(NO_OPERAND));
            }
            c => (self.literal(c), false),
        })
    }

    fn literal(&self, c: char) -> Node {
        Node::Set(Rc::new(CharSet::one(c, self.options.fold, self.options.ascii)))
    }

    fn group(&mut self) -> Result<(Node, bool)> {
        let close = |this: &mut Self| {
            if this.eat(')') { Ok(()) } else { Err(invalid(UNBALANCED)) }
        };
        if self.eat('?') {
            let look =
                [("=", true, false), ("!", true, true), ("<=", false, false), ("<!", false, true)];
            if self.eat(':') {
                let inside = self.alternatives()?;
                close(self)?;
                return Ok((inside, false));
            }
            for (sign, ahead, negated) in look {
                if self.starts_with(sign) {
                    self.at += sign.len();
                    // Parentheses inside a lookaround capture nothing.
                    let outside = std::mem::replace(&mut self.in_look, true);
                    let inside = self.alternatives()?;
                    self.in_look = outside;
                    close(self)?;
                    return Ok((Node::Look { ahead, negated, node: Box::new(inside) }, true));
                }
            }
            return Err(invalid(NO_OPERAND));
        }
        if self.in_look {
            let inside = self.alternatives()?;
            close(self)?;
            return Ok((inside, false));
        }
        self.groups += 1;
        let number = self.groups;
        let inside = self.alternatives()?;
        close(self)?;
        self.closed.push(number);
        Ok((Node::Capture(number, Box::new(inside)), false))
    }

    /// Reads an escape outside brackets.
    fn escape(&mut self) -> Result<(Node, bool)> {
        let ascii = self.options.ascii;
        let assertion = match self.peek() {
            Some('A') => Some(Assertion::TextStart),
            Some('Z') => Some(Assertion::TextEnd),
            Some('m') => Some(Assertion::WordStart { ascii }),
            Some('M') => Some(Assertion::WordEnd { ascii }),
            Some('y') => Some(Assertion::WordEdge { ascii }),
            Some('Y') => Some(Assertion::NotWordEdge { ascii }),
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.at += 1;
            return Ok((Node::Assert(assertion), true));
        }
        if let Some('1'..='9') = self.peek() {
            let start = self.at;
            let mut number = 0usize;
            while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
                number = number.saturating_mul(10).saturating_add(digit as usize);
                self.at += 1;
            }
            // Several digits mean a group only if a group of this number exists.
            if self.at == start + 1 || number <= self.groups {
                if self.in_look || !self.closed.contains(&number) {
                    return Err(invalid("invalid backreference number"));
                }
                return Ok((Node::Back(number), false));
            }
            self.at = start;
            let c = self.code(8, 1, 3)?;
            return Ok((self.literal(c), false));
        }
        Ok(match self.character()? {
            Escaped::Char(c) => (self.literal(c), false),
            Escaped::Class(class, outside) => {
                (Node::Set(Rc::new(CharSet::class(class, outside, self.options.ascii))), false)
            }
        })
    }

    /// Reads an escape for a character or a class, after its backslash.
    fn character(&mut self) -> Result<Escaped> {
        let Some(c) = self.peek() else { return Err(invalid(BAD_ESCAPE)) };
        self.at += 1;
        Ok(match c {
            'd' => Escaped::Class(Class::Digit, false),
            's' => Escaped::Class(Class::Space, false),
            'w' => Escaped::Class(Class::Word, false),
            'D' => Escaped::Class(Class::Digit, true),
            'S' => Escaped::Class(Class::Space, true),
            'W' => Escaped::Class(Class::Word, true),
            'a' => Escaped::Char('\u{7}'),
            'b' => Escaped::Char('\u{8}'),
            'B' => Escaped::Char('\\'),
            'e' => Escaped::Char('\u{1b}'),
            'f' => Escaped::Char('\u{c}'),
            'n' => Escaped::Char('\n'),
            'r' => Escaped::Char('\r'),
            't' => Escaped::Char('\t'),
            'v' => Escaped::Char('\u{b}'),
            'c' => {
                let Some(c) = self.peek() else { return Err(invalid(BAD_ESCAPE)) };
                self.at += 1;
                let code = u32::from(c) & 0x1f;
                Escaped::Char(char::from_u32(code).unwrap_or(c))
            }
            'u' => Escaped::Char(self.code(16, 4, 4)?),
            'U' => Escaped::Char(self.code(16, 8, 8)?),
            'x' => Escaped::Char(self.code(16, 1, 255)?),
            '0' => {
                self.at -= 1;
                Escaped::Char(self.code(8, 1, 3)?)
            }
            c if c.is_alphanumeric() => return Err(invalid(BAD_ESCAPE)),
            c => Escaped::Char(c),
        })
    }

    /// Reads the character of a number with `least` to `most` digits.
    fn code(&mut self, radix: u32, least: usize, most: usize) -> Result<char> {
        let mut value = 0u32;
        let mut digits = 0;
        while digits < most
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(radix))
        {
            value = value.saturating_mul(radix).saturating_add(digit);
            digits += 1;
            self.at += 1;
        }
        let character = char::from_u32(value).filter(|_| digits >= least);
        character.ok_or_else(|| invalid(BAD_ESCAPE))
    }

    /// Reads a bracket expression, after its opening bracket.
    fn bracket(&mut self) -> Result<(Node, bool)> {
        let ascii = self.options.ascii;
        let edges =
            [("[:<:]]", Assertion::WordStart { ascii }), ("[:>:]]", Assertion::WordEnd { ascii })];
        for (text, assertion) in edges {
            if self.starts_with(text) {
                self.at += text.len();
                return Ok((Node::Assert(assertion), true));
            }
        }
        let negated = self.eat('^');
        let mut set = CharSet {
            negated,
            fold: self.options.fold,
            ascii,
            no_newline: negated && self.options.newline_stops,
            ..CharSet::default()
        };
        let mut first = true;
        loop {
            let Some(c) = self.peek() else { return Err(invalid(OPEN_BRACKET)) };
            if c == ']' && !first {
                self.at += 1;
                set.spell_out_cases();
                return Ok((Node::Set(Rc::new(set)), false));
            }
            if c == '-' && !first && self.peek_at(1) != Some(']') {
                // A range without a beginning.
                return Err(invalid("invalid character range"));
            }
            first = false;
            let from = match self.element()? {
                Escaped::Char(c) => c,
                Escaped::Class(class, outside) => {
                    set.classes.push((class, outside));
                    continue;
                }
            };
            let is_range =
                self.peek() == Some('-') && self.peek_at(1).is_some_and(|next| next != ']');
            let to = if is_range {
                self.at += 1;
                match self.element()? {
                    Escaped::Char(c) => c,
                    Escaped::Class(..) => return Err(invalid("invalid character range")),
                }
            } else {
                from
            };
            if to < from {
                return Err(invalid("invalid character range"));
            }
            set.ranges.push((from, to));
        }
    }

    /// Reads one element of a bracket expression.
    fn element(&mut self) -> Result<Escaped> {
        let Some(c) = self.peek() else { return Err(invalid(OPEN_BRACKET)) };
        self.at += 1;
        match (c, self.peek()) {
            ('\\', _) => self.character(),
            ('[', Some(kind @ (':' | '.' | '='))) => {
                self.at += 1;
                let start = self.at;
                while !(self.peek() == Some(kind) && self.peek_at(1) == Some(']')) {
                    if self.peek().is_none() {
                        return Err(invalid(OPEN_BRACKET));
                    }
                    self.at += 1;
                }
                let name: String =
                    self.chars.get(start..self.at).unwrap_or_default().iter().collect();
                self.at += 2;
                self.named_element(kind, &name)
            }
            (c, _) => Ok(Escaped::Char(c)),
        }
    }

    fn named_element(&self, kind: char, name: &str) -> Result<Escaped> {
        if kind == ':' {
            return match Class::named(name) {
                // Without case, these classes are the same.
                Some(Class::Lower | Class::Upper) if self.options.fold => {
                    Ok(Escaped::Class(Class::Alpha, false))
                }
                Some(class) => Ok(Escaped::Class(class, false)),
                None => Err(invalid("invalid character class")),
            };
        }
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(Escaped::Char(only)),
            _ => Err(invalid("invalid collating element")),
        }
    }
}

enum Escaped {
    Char(char),
    /// A class; true for the characters outside of it.
    Class(Class, bool),
}

/// Writes a node for the `regex` crate; false when the crate cannot express the node.
fn translate(node: &Node, out: &mut String) -> bool {
    use std::fmt::Write as _;
    match node {
        Node::Empty => {
            out.push_str("(?:)");
            true
        }
        Node::Set(set) => {
            set.translate(out);
            true
        }
        Node::Assert(assertion) => {
            out.push_str(assertion.translated());
            true
        }
        Node::Look { .. } | Node::Back(_) => false,
        Node::Capture(_, inside) => {
            out.push_str("(?:");
            let done = translate(inside, out);
            out.push(')');
            done
        }
        Node::Cat(parts) => {
            out.push_str("(?:");
            let done = parts.iter().all(|part| translate(part, out));
            out.push(')');
            done
        }
        Node::Alt(parts) => {
            out.push_str("(?:");
            let mut done = true;
            for (number, part) in parts.iter().enumerate() {
                if number > 0 {
                    out.push('|');
                }
                done = done && translate(part, out);
            }
            out.push(')');
            done
        }
        Node::Repeat { node, min, max, .. } => {
            out.push_str("(?:");
            let done = translate(node, out);
            // Writing to a string cannot fail.
            let _ = match max {
                Some(max) => write!(out, "){{{min},{max}}}"),
                None => write!(out, "){{{min},}}"),
            };
            done
        }
    }
}
