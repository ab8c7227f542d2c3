//! `json` taken apart: each part is its text in the value.

use super::edit::path_index;
use super::json_tree::place;
use super::parse::{Build, Scalar, parse};
use super::text::write_json_string;
use crate::error::Result;

/// A part of a JSON text.
#[derive(Clone, Debug)]
pub struct RawJson<'a> {
    /// The part's text as it was given, without blanks around it.
    pub text: &'a str,
    /// The kind of the part.
    pub kind: RawKind<'a>,
}

/// The kind of a part of a JSON text.
#[derive(Clone, Debug)]
pub enum RawKind<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string: its content.
    String(String),
    /// An array.
    Array(Vec<RawJson<'a>>),
    /// An object; a key may be there several times.
    Object(Vec<(String, RawJson<'a>)>),
}

impl<'a> RawJson<'a> {
    /// Takes a text apart.
    ///
    /// # Errors
    /// `22P02` for text that is not JSON or has half a surrogate pair. `22P05` for an escaped zero
    /// character, `54001` if the text nests too deeply.
    pub fn parse(text: &'a str) -> Result<Self> {
        parse(text, &mut Parts::<true>)
    }

    /// Takes a text apart; strings keep their escapes, also those that mean no character.
    ///
    /// # Errors
    /// As [`RawJson::parse`], but not for escapes.
    pub fn parse_escaped(text: &'a str) -> Result<Self> {
        parse(text, &mut Parts::<false>)
    }

    /// Returns the value of a key; of several the last.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.kind {
            RawKind::Object(pairs) => {
                pairs.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Returns the item at `index`, counted from the end if it is negative.
    pub fn item(&self, index: i64) -> Option<&Self> {
        match &self.kind {
            RawKind::Array(items) => items.get(place(index, items.len())?),
            _ => None,
        }
    }

    /// Returns the part where `path` leads.
    pub fn at_path(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |part, step| match part.kind {
            RawKind::Array(_) => part.item(path_index(step)?.into()),
            _ => part.get(step),
        })
    }

    /// Returns the result of `->>`: the content of a string, none for `null`, and other parts as
    /// they stand.
    pub fn unquoted(&self) -> Option<&str> {
        match &self.kind {
            RawKind::Null => None,
            RawKind::String(text) => Some(text),
            _ => Some(self.text),
        }
    }

    /// Appends the value without pairs whose value is `null`, and without blanks.
    pub fn write_without_nulls(&self, out: &mut Vec<u8>) {
        match &self.kind {
            RawKind::String(text) => write_json_string(text, out),
            RawKind::Array(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    item.write_without_nulls(out);
                }
                out.push(b']');
            }
            RawKind::Object(pairs) => {
                out.push(b'{');
                let stay = pairs.iter().filter(|(_, value)| !matches!(value.kind, RawKind::Null));
                for (at, (key, value)) in stay.enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_json_string(key, out);
                    out.push(b':');
                    value.write_without_nulls(out);
                }
                out.push(b'}');
            }
            _ => out.extend_from_slice(self.text.as_bytes()),
        }
    }
}

/// Builds parts, whose strings are decoded or not.
struct Parts<const DECODES: bool>;

impl<'a, const DECODES: bool> Build<'a> for Parts<DECODES> {
    const DECODES: bool = DECODES;
    type Key = String;
    type Value = RawJson<'a>;

    fn key(&mut self, key: &str) -> String {
        key.to_owned()
    }

    fn scalar(&mut self, scalar: Scalar<'_>, text: &'a str) -> Result<RawJson<'a>> {
        let kind = match scalar {
            Scalar::Null => RawKind::Null,
            Scalar::Bool(_) => RawKind::Bool,
            Scalar::Number(_) => RawKind::Number,
            Scalar::String(text) => RawKind::String(text.to_owned()),
        };
        Ok(RawJson { text, kind })
    }

    fn array(&mut self, items: Vec<RawJson<'a>>, text: &'a str) -> Result<RawJson<'a>> {
        Ok(RawJson { text, kind: RawKind::Array(items) })
    }

    fn object(&mut self, pairs: Vec<(String, RawJson<'a>)>, text: &'a str) -> Result<RawJson<'a>> {
        Ok(RawJson { text, kind: RawKind::Object(pairs) })
    }
}

/// The shape of a whole JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonShape {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array, with its number of items.
    Array(usize),
    /// An object.
    Object,
}

impl JsonShape {
    /// Returns the name that `json_typeof` gives.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array(_) => "array",
            Self::Object => "object",
        }
    }
}

/// Returns the shape of a text, and checks that the text is JSON. Escapes in strings may mean no
/// character.
///
/// # Errors
/// `22P02` for text that is not JSON, `54001` if it nests too deeply.
pub fn json_shape(text: &str) -> Result<JsonShape> {
    parse(text, &mut Shapes)
}

/// Builder that keeps only the kind of each value.
struct Shapes;

impl<'a> Build<'a> for Shapes {
    const DECODES: bool = false;
    type Key = ();
    type Value = JsonShape;

    fn key(&mut self, _: &str) {}

    fn scalar(&mut self, scalar: Scalar<'_>, _: &'a str) -> Result<JsonShape> {
        Ok(match scalar {
            Scalar::Null => JsonShape::Null,
            Scalar::Bool(_) => JsonShape::Bool,
            Scalar::Number(_) => JsonShape::Number,
            Scalar::String(_) => JsonShape::String,
        })
    }

    fn array(&mut self, items: Vec<JsonShape>, _: &'a str) -> Result<JsonShape> {
        Ok(JsonShape::Array(items.len()))
    }

    fn object(&mut self, _: Vec<((), JsonShape)>, _: &'a str) -> Result<JsonShape> {
        Ok(JsonShape::Object)
    }
}
