//! The tokens of `jsonpath` text.

use crate::error::{Result, TypeError};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A string in quotes.
    String(String),
    /// A name without quotes; the words of the language are names too.
    Name(String),
    /// A name without quotes that has an escape: never a word of the language.
    Escaped(String),
    /// `$name`
    Variable(String),
    /// Digits alone.
    Integer(String),
    /// A number with a point or an exponent.
    Decimal(String),
    /// An operator or another mark.
    Mark(&'static str),
    /// The text is over.
    End,
}

/// All marks; longer ones come first.
const MARKS: [&str; 30] = [
    "&&", "||", "**", "<=", "==", "<>", "!=", ">=", "!", "<", ">", "?", "%", "$", ".", "[", "]",
    "{", "}", "(", ")", "@", ",", "*", "-", "+", "/", "#", ":", "=",
];

/// Reads tokens from the front of a text.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

/// Returns the error 42601, at the text there.
pub(super) fn wrong(what: &str, near: &str) -> TypeError {
    let place = match near {
        "" => "at end of jsonpath input".to_owned(),
        near => format!("at or near \"{near}\" of jsonpath input"),
    };
    TypeError::new("42601", format!("{what} {place}"))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

/// Decides whether a character can stand in a name as it is.
fn is_other(c: char) -> bool {
    !is_blank(c) && !"?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(c)
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the remaining text.
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, c: char) {
        self.at += c.len_utf8();
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            if self.rest().starts_with("/*") {
                let end = self.rest().find("*/");
                let end = end.ok_or_else(|| wrong("unexpected end of comment", ""))?;
                self.at += end + 2;
                continue;
            }
            match self.peek() {
                Some(c) if is_blank(c) => self.skip(c),
                _ => return Ok(()),
            }
        }
    }

    /// Returns the next token and the text that messages show for it. As in PostgreSQL, that text
    /// is the blanks behind a name.
    pub(super) fn next(&mut self) -> Result<(Token, &'t str)> {
        self.skip_blanks()?;
        let start = self.at;
        let token = self.token()?;
        let shown = match token {
            Token::Name(_) | Token::Escaped(_) => {
                let rest = self.rest();
                let end = rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
                rest.get(..end)
            }
            _ => self.text.get(start..self.at),
        };
        Ok((token, shown.unwrap_or_default()))
    }

    fn token(&mut self) -> Result<Token> {
        let Some(first) = self.peek() else { return Ok(Token::End) };
        let second = self.rest().chars().nth(1);
        if first.is_ascii_digit() || first == '.' && second.is_some_and(|c| c.is_ascii_digit()) {
            return self.number();
        }
        if first == '"' {
            self.skip(first);
            return self.quoted().map(Token::String);
        }
        if first == '$' {
            match second {
                Some('"') => {
                    self.at += 2;
                    return self.quoted().map(Token::Variable);
                }
                Some(c) if is_other(c) => {
                    self.skip(first);
                    let rest = self.rest();
                    let end = rest.find(|c| !is_other(c)).unwrap_or(rest.len());
                    self.at += end;
                    return Ok(Token::Variable(rest.get(..end).unwrap_or_default().to_owned()));
                }
                _ => {}
            }
        }
        if is_other(first) || first == '\\' {
            return self.name();
        }
        let rest = self.rest();
        let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
        // `&` and `|` alone are marks that no grammar rule has.
        let mark = mark.unwrap_or(if first == '&' { "&" } else { "|" });
        self.at += mark.len();
        Ok(Token::Mark(mark))
    }

    fn digits(&mut self) -> usize {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        end
    }

    fn number(&mut self) -> Result<Token> {
        let start = self.at;
        if self.peek() == Some('0') {
            self.at += 1;
        } else {
            self.digits();
        }
        let mut decimal = false;
        if self.peek() == Some('.') {
            decimal = true;
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            let before = self.at;
            self.at += 1;
            let signed = matches!(self.peek(), Some('+' | '-'));
            self.at += usize::from(signed);
            if self.digits() > 0 {
                decimal = true;
            } else if signed {
                let near = self.text.get(start..self.at).unwrap_or_default();
                return Err(wrong("invalid numeric literal", near));
            } else {
                self.at = before;
            }
        }
        if let Some(junk) = self.peek().filter(|c| is_other(*c)) {
            self.skip(junk);
            let near = self.text.get(start..self.at).unwrap_or_default();
            return Err(wrong("trailing junk after numeric literal", near));
        }
        let text = self.text.get(start..self.at).unwrap_or_default().to_owned();
        Ok(if decimal { Token::Decimal(text) } else { Token::Integer(text) })
    }

    fn name(&mut self) -> Result<Token> {
        let (mut name, mut escaped) = (String::new(), false);
        while let Some(c) = self.peek() {
            if c == '\\' {
                escaped = true;
                self.escape(&mut name)?;
            } else if is_other(c) {
                name.push(c);
                self.skip(c);
            } else {
                break;
            }
        }
        Ok(if escaped { Token::Escaped(name) } else { Token::Name(name) })
    }

    /// Reads the text up to the closing quote.
    fn quoted(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return Err(wrong("unexpected end of quoted string", "")),
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some('\\') => self.escape(&mut text)?,
                Some(c) => {
                    text.push(c);
                    self.skip(c);
                }
            }
        }
    }

    /// Reads an escape, or several that make one character.
    fn escape(&mut self, into: &mut String) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.peek() else {
            return Err(wrong("unexpected end after backslash", ""));
        };
        self.skip(c);
        match c {
            'b' => into.push('\u{8}'),
            'f' => into.push('\u{c}'),
            'n' => into.push('\n'),
            'r' => into.push('\r'),
            't' => into.push('\t'),
            'v' => into.push('\u{b}'),
            'x' => {
                let code = self.hex(2, 2);
                let code = code.ok_or_else(|| self.invalid(start, "hex character"))?;
                push_code(code, into)?;
            }
            'u' => {
                let first = self.code(start)?;
                if !(0xD800..0xE000).contains(&first) {
                    return push_code(first, into);
                }
                if first >= 0xDC00 {
                    return Err(surrogate("Unicode low surrogate must follow a high surrogate."));
                }
                let low = "Unicode low surrogate must follow a high surrogate.";
                if !self.rest().starts_with("\\u") {
                    return Err(surrogate(low));
                }
                let again = self.at;
                self.at += 2;
                let second = self.code(again)?;
                if (0xD800..0xDC00).contains(&second) {
                    let message = "Unicode high surrogate must not follow a high surrogate.";
                    return Err(surrogate(message));
                }
                if !(0xDC00..0xE000).contains(&second) {
                    return Err(surrogate(low));
                }
                push_code(0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF), into)?;
            }
            c => into.push(c),
        }
        Ok(())
    }

    /// Reads the number behind `\u`: four digits, or up to six in braces.
    fn code(&mut self, start: usize) -> Result<u32> {
        let found = if self.peek() == Some('{') {
            self.at += 1;
            let code = self.hex(1, 6);
            let closed = self.peek() == Some('}');
            self.at += usize::from(closed);
            code.filter(|_| closed)
        } else {
            self.hex(4, 4)
        };
        found.ok_or_else(|| self.invalid(start, "unicode"))
    }

    fn hex(&mut self, least: usize, most: usize) -> Option<u32> {
        let rest = self.rest();
        let count = rest.bytes().take(most).take_while(u8::is_ascii_hexdigit).count();
        self.at += count;
        if count < least {
            return None;
        }
        u32::from_str_radix(rest.get(..count)?, 16).ok()
    }

    fn invalid(&self, start: usize, what: &str) -> TypeError {
        wrong(
            &format!("invalid {what} sequence"),
            self.text.get(start..self.at).unwrap_or_default(),
        )
    }
}

fn surrogate(detail: &'static str) -> TypeError {
    TypeError::new("22P02", "invalid input syntax for type jsonpath").with_detail(detail)
}

fn push_code(code: u32, into: &mut String) -> Result<()> {
    if code == 0 {
        let error = TypeError::new("22P05", "unsupported Unicode escape sequence");
        return Err(error.with_detail("\\u0000 cannot be converted to text."));
    }
    let c = char::from_u32(code)
        .ok_or_else(|| TypeError::new("22P05", "could not convert Unicode to server encoding"))?;
    into.push(c);
    Ok(())
}
