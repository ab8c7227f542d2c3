//! A parser of JSON text; its builder chooses the tree that the parser makes.

use super::lex::{Fault, Lexer, Token};
use crate::error::{Result, TypeError};
use crate::work::charge::{ask_to_grow, charge_parts};

/// Levels of arrays and objects inside each other. All walks over a value are recursive, on stacks
/// of 1 MiB at least. PostgreSQL's bound is its stack, some thousands of levels.
pub const JSON_DEPTH_MAX: u16 = 1000;

/// Returns the error of a value that nests too deeply.
#[cold]
pub(super) fn too_deep() -> TypeError {
    TypeError::new("54001", "stack depth limit exceeded")
        .with_detail(format!("JSON may have {JSON_DEPTH_MAX} levels of arrays and objects."))
}

/// A value that has no parts.
pub(super) enum Scalar<'s> {
    Null,
    Bool(bool),
    /// The text of a number.
    Number(&'s str),
    /// A string without quotes; without escapes if the builder [`Build::DECODES`] them.
    String(&'s str),
}

/// The builder of the parser's result. `raw` is always the text of the value itself.
pub(super) trait Build<'a> {
    /// Escapes in strings are resolved, and refused where they mean no character.
    const DECODES: bool;
    type Key;
    type Value;
    fn key(&mut self, key: &str) -> Self::Key;
    fn scalar(&mut self, scalar: Scalar<'_>, raw: &'a str) -> Result<Self::Value>;
    fn array(&mut self, items: Vec<Self::Value>, raw: &'a str) -> Result<Self::Value>;
    fn object(&mut self, pairs: Vec<(Self::Key, Self::Value)>, raw: &'a str)
    -> Result<Self::Value>;
}

/// Reads all of `text` as one value.
///
/// # Errors
/// `22P02`, `22P05`; `54001` beyond [`JSON_DEPTH_MAX`]; errors of the builder.
pub(super) fn parse<'a, B: Build<'a>>(text: &'a str, builder: &mut B) -> Result<B::Value> {
    let mut parser = Parser { lexer: Lexer::new(text, B::DECODES), builder, depth: 0 };
    parser.lexer.advance()?;
    let value = parser.value()?;
    if parser.lexer.token() != Token::End {
        return Err(parser.lexer.unexpected(Fault::ExpectedEnd));
    }
    Ok(value)
}

/// Memory of a value beside its place, in bytes, roughly: its counters and the allocator's part.
const VALUE_BYTES: usize = 64;

/// Appends a part, whose memory is charged.
fn append<T>(parts: &mut Vec<T>, part: T) -> Result<()> {
    let place = size_of::<T>();
    charge_parts(1, place.saturating_add(VALUE_BYTES))?;
    let [capacity, length] = [parts.capacity(), parts.len()];
    ask_to_grow(capacity.saturating_mul(place), length.saturating_mul(place), place)?;
    parts.push(part);
    Ok(())
}

struct Parser<'a, 'b, B> {
    lexer: Lexer<'a>,
    builder: &'b mut B,
    depth: u16,
}

impl<'a, B: Build<'a>> Parser<'a, '_, B> {
    fn value(&mut self) -> Result<B::Value> {
        let raw = self.lexer.text_from(self.lexer.start());
        let scalar = match self.lexer.token() {
            Token::ObjectStart => return self.object(),
            Token::ArrayStart => return self.array(),
            Token::String => Scalar::String(self.lexer.string()),
            Token::Number => Scalar::Number(raw),
            Token::True => Scalar::Bool(true),
            Token::False => Scalar::Bool(false),
            Token::Null => Scalar::Null,
            _ => return Err(self.lexer.unexpected(Fault::ExpectedValue)),
        };
        let value = self.builder.scalar(scalar, raw)?;
        self.lexer.advance()?;
        Ok(value)
    }

    /// Goes a level down, behind an opening bracket. Returns the place of the bracket.
    fn open(&mut self) -> Result<usize> {
        self.depth += 1;
        if self.depth > JSON_DEPTH_MAX {
            return Err(too_deep());
        }
        let start = self.lexer.start();
        self.lexer.advance()?;
        Ok(start)
    }

    /// Goes a level up, behind the closing bracket. Returns the text of the value.
    fn close(&mut self, start: usize, bracket: Token, fault: Fault) -> Result<&'a str> {
        if self.lexer.token() != bracket {
            return Err(self.lexer.unexpected(fault));
        }
        let raw = self.lexer.text_from(start);
        self.lexer.advance()?;
        self.depth -= 1;
        Ok(raw)
    }

    fn array(&mut self) -> Result<B::Value> {
        let start = self.open()?;
        let mut items = Vec::new();
        if self.lexer.token() != Token::ArrayEnd {
            append(&mut items, self.value()?)?;
            while self.lexer.token() == Token::Comma {
                self.lexer.advance()?;
                append(&mut items, self.value()?)?;
            }
        }
        let raw = self.close(start, Token::ArrayEnd, Fault::ExpectedArrayNext)?;
        self.builder.array(items, raw)
    }

    fn object(&mut self) -> Result<B::Value> {
        let start = self.open()?;
        let mut pairs = Vec::new();
        match self.lexer.token() {
            Token::ObjectEnd => {}
            Token::String => {
                append(&mut pairs, self.pair()?)?;
                while self.lexer.token() == Token::Comma {
                    self.lexer.advance()?;
                    append(&mut pairs, self.pair()?)?;
                }
            }
            _ => return Err(self.lexer.unexpected(Fault::ExpectedObjectFirst)),
        }
        let raw = self.close(start, Token::ObjectEnd, Fault::ExpectedObjectNext)?;
        self.builder.object(pairs, raw)
    }

    fn pair(&mut self) -> Result<(B::Key, B::Value)> {
        if self.lexer.token() != Token::String {
            return Err(self.lexer.unexpected(Fault::ExpectedString));
        }
        let key = self.builder.key(self.lexer.string());
        self.lexer.advance()?;
        if self.lexer.token() != Token::Colon {
            return Err(self.lexer.unexpected(Fault::ExpectedColon));
        }
        self.lexer.advance()?;
        Ok((key, self.value()?))
    }
}
