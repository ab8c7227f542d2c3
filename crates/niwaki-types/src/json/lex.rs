//! The tokens of JSON text, with PostgreSQL's errors for other text.

use crate::error::{Result, TypeError};

/// The next token of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Nothing was read yet.
    None,
    String,
    Number,
    True,
    False,
    Null,
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    /// The text is over.
    End,
}

/// The fault of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text there is no token.
    Token,
    /// A backslash before a character that needs no escape.
    Escape,
    /// A control character inside a string.
    Control(u8),
    /// `\u` without four digits.
    UnicodeFormat,
    /// `\u0000`
    CodePointZero,
    /// The first half of a pair after another first half.
    HighSurrogate,
    /// Half of a pair alone.
    LowSurrogate,
    ExpectedEnd,
    ExpectedValue,
    ExpectedString,
    ExpectedColon,
    ExpectedArrayNext,
    ExpectedObjectFirst,
    ExpectedObjectNext,
    /// The text ends too early.
    ExpectedMore,
}

/// Bytes of a line that an error shows.
const SHOWN_MAX: usize = 50;

/// Reads tokens from the front of a text.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Escapes in strings are resolved, and refused where they mean no character.
    decodes: bool,
    token: Token,
    start: usize,
    /// The end of the last token. An error inside a token moves it to the place where the error is
    /// seen.
    end: usize,
    line: usize,
    line_start: usize,
    decoded: String,
}

/// Returns the bytes that belong to the same word, for the sake of errors.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, decodes: bool) -> Self {
        Self {
            text,
            decodes,
            token: Token::None,
            start: 0,
            end: 0,
            line: 1,
            line_start: 0,
            decoded: String::new(),
        }
    }

    /// Returns the token that was read last.
    pub(super) fn token(&self) -> Token {
        self.token
    }

    /// Returns where the token begins.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Returns the text from `start` to the end of the last token.
    pub(super) fn text_from(&self, start: usize) -> &'a str {
        self.text.get(start..self.end).unwrap_or_default()
    }

    /// Returns the last token, if it is a string: without quotes, and without escapes if they are
    /// resolved.
    pub(super) fn string(&self) -> &str {
        if self.decodes {
            &self.decoded
        } else {
            let quoted = self.text_from(self.start);
            quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(quoted)
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Reads the next token.
    ///
    /// # Errors
    /// `22P02`; `22P05` for an escaped zero character.
    pub(super) fn advance(&mut self) -> Result<()> {
        let mut at = self.end;
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.byte(at) {
            at += 1;
            if byte == b'\n' {
                self.line += 1;
                self.line_start = at;
            }
        }
        self.start = at;
        let single = match self.byte(at) {
            None => {
                self.end = at;
                self.token = Token::End;
                return Ok(());
            }
            Some(b'{') => Token::ObjectStart,
            Some(b'}') => Token::ObjectEnd,
            Some(b'[') => Token::ArrayStart,
            Some(b']') => Token::ArrayEnd,
            Some(b',') => Token::Comma,
            Some(b':') => Token::Colon,
            Some(b'"') => return self.read_string(),
            Some(b'-') => return self.read_number(at + 1),
            Some(b'0'..=b'9') => return self.read_number(at),
            Some(_) => return self.read_word(),
        };
        self.end = at + 1;
        self.token = single;
        Ok(())
    }

    fn read_word(&mut self) -> Result<()> {
        let mut at = self.start;
        while self.byte(at).is_some_and(is_word) {
            at += 1;
        }
        if at == self.start {
            self.end = at + 1;
            return Err(self.error(Fault::Token));
        }
        self.end = at;
        self.token = match self.text_from(self.start) {
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => return Err(self.error(Fault::Token)),
        };
        Ok(())
    }

    /// Reads a number, whose digits begin at `at`.
    fn read_number(&mut self, mut at: usize) -> Result<()> {
        let is_digit = |at: usize| self.byte(at).is_some_and(|byte| byte.is_ascii_digit());
        let digits = |mut at: usize| {
            while is_digit(at) {
                at += 1;
            }
            at
        };
        let mut wrong = false;
        match self.byte(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = digits(at),
            _ => wrong = true,
        }
        if self.byte(at) == Some(b'.') {
            at += 1;
            wrong |= !is_digit(at);
            at = digits(at);
        }
        if let Some(b'e' | b'E') = self.byte(at) {
            at += 1;
            if let Some(b'+' | b'-') = self.byte(at) {
                at += 1;
            }
            wrong |= !is_digit(at);
            at = digits(at);
        }
        // Characters joined to a number belong to it, so that the error shows all of it.
        while self.byte(at).is_some_and(is_word) {
            wrong = true;
            at += 1;
        }
        self.end = at;
        if wrong {
            return Err(self.error(Fault::Token));
        }
        self.token = Token::Number;
        Ok(())
    }

    fn read_string(&mut self) -> Result<()> {
        let text = self.text;
        self.decoded.clear();
        let mut high = None;
        let mut at = self.start + 1;
        loop {
            let run = at;
            while self.byte(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..=31)) {
                at += 1;
            }
            if self.decodes && at > run {
                if high.is_some() {
                    return Err(self.error_at(self.after(run), Fault::LowSurrogate));
                }
                self.decoded.push_str(text.get(run..at).unwrap_or_default());
            }
            match self.byte(at) {
                Some(b'"') => break,
                Some(b'\\') => at = self.read_escape(at + 1, &mut high)?,
                Some(control) => return Err(self.error_at(at, Fault::Control(control))),
                None => return Err(self.error_at(at, Fault::Token)),
            }
        }
        self.end = at + 1;
        if high.is_some() {
            return Err(self.error(Fault::LowSurrogate));
        }
        self.token = Token::String;
        Ok(())
    }

    /// Reads the escape behind a backslash, and returns its end. `high` is the first half of a pair
    /// that waits for its second.
    fn read_escape(&mut self, at: usize, high: &mut Option<u32>) -> Result<usize> {
        let Some(byte) = self.byte(at) else { return Err(self.error_at(at, Fault::Token)) };
        if byte == b'u' {
            let mut code = 0;
            for place in at + 1..at + 5 {
                let Some(byte) = self.byte(place) else {
                    return Err(self.error_at(place, Fault::Token));
                };
                let Some(digit) = char::from(byte).to_digit(16) else {
                    return Err(self.error_at(self.after(place), Fault::UnicodeFormat));
                };
                code = code * 16 + digit;
            }
            if self.decodes
                && let Err(fault) = self.take_code(code, high)
            {
                return Err(self.error_at(at + 5, fault));
            }
            return Ok(at + 5);
        }
        if self.decodes && high.is_some() {
            return Err(self.error_at(self.after(at), Fault::LowSurrogate));
        }
        let character = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => {
                self.start = at;
                return Err(self.error_at(self.after(at), Fault::Escape));
            }
        };
        if self.decodes {
            self.decoded.push(character);
        }
        Ok(at + 1)
    }

    /// Appends the character of an escaped code, or keeps the first half of one.
    fn take_code(&mut self, code: u32, high: &mut Option<u32>) -> std::result::Result<(), Fault> {
        let code = match (code, high.take()) {
            (0xd800..=0xdbff, None) => {
                *high = Some(code);
                return Ok(());
            }
            (0xd800..=0xdbff, Some(_)) => return Err(Fault::HighSurrogate),
            (0xdc00..=0xdfff, Some(first)) => 0x10000 + ((first & 0x3ff) << 10) + (code & 0x3ff),
            (0xdc00..=0xdfff, None) | (_, Some(_)) => return Err(Fault::LowSurrogate),
            (0, None) => return Err(Fault::CodePointZero),
            (code, None) => code,
        };
        self.decoded.extend(char::from_u32(code));
        Ok(())
    }

    /// Returns the end of the character at `at`.
    fn after(&self, at: usize) -> usize {
        let character = self.text.get(at..).and_then(|rest| rest.chars().next());
        at + character.map_or(1, char::len_utf8)
    }

    fn error_at(&mut self, end: usize, fault: Fault) -> TypeError {
        self.end = end;
        self.error(fault)
    }

    /// Returns the error for a token that does not belong where it stands.
    pub(super) fn unexpected(&self, fault: Fault) -> TypeError {
        self.error(if self.token == Token::End { Fault::ExpectedMore } else { fault })
    }

    #[cold]
    fn error(&self, fault: Fault) -> TypeError {
        let token = self.text_from(self.start);
        let expected = |what: &str| format!("Expected {what}, but found \"{token}\".");
        let detail = match fault {
            Fault::Token => format!("Token \"{token}\" is invalid."),
            Fault::Escape => format!("Escape sequence \"\\{token}\" is invalid."),
            Fault::Control(byte) => format!("Character with value 0x{byte:02x} must be escaped."),
            Fault::UnicodeFormat => {
                "\"\\u\" must be followed by four hexadecimal digits.".to_owned()
            }
            Fault::CodePointZero => "\\u0000 cannot be converted to text.".to_owned(),
            Fault::HighSurrogate => {
                "Unicode high surrogate must not follow a high surrogate.".to_owned()
            }
            Fault::LowSurrogate => "Unicode low surrogate must follow a high surrogate.".to_owned(),
            Fault::ExpectedEnd => expected("end of input"),
            Fault::ExpectedValue => expected("JSON value"),
            Fault::ExpectedString => expected("string"),
            Fault::ExpectedColon => expected("\":\""),
            Fault::ExpectedArrayNext => expected("\",\" or \"]\""),
            Fault::ExpectedObjectFirst => expected("string or \"}\""),
            Fault::ExpectedObjectNext => expected("\",\" or \"}\""),
            Fault::ExpectedMore => "The input string ended unexpectedly.".to_owned(),
        };
        let error = if fault == Fault::CodePointZero {
            TypeError::new("22P05", "unsupported Unicode escape sequence")
        } else {
            TypeError::new("22P02", "invalid input syntax for type json")
        };
        error.with_detail(detail).with_context(self.context())
    }

    /// Returns the line that the error is in, up to the error, as far as it is not too long.
    fn context(&self) -> String {
        let mut start = self.line_start;
        while self.end.saturating_sub(start) >= SHOWN_MAX {
            start = self.after(start);
        }
        if start.saturating_sub(self.line_start) <= 3 {
            start = self.line_start;
        }
        let before = if start > self.line_start { "..." } else { "" };
        let goes_on = self.token != Token::End
            && self.byte(self.end).is_some_and(|byte| !matches!(byte, b'\n' | b'\r'));
        let after = if goes_on { "..." } else { "" };
        let shown = self.text.get(start..self.end).unwrap_or_default();
        format!("JSON data, line {}: {before}{shown}{after}", self.line)
    }
}
