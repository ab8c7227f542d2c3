//! `jsonb` as text.

use std::fmt;

use super::json_tree::Jsonb;

/// Blanks for each level of [`Jsonb::write_pretty`].
const INDENT: usize = 4;

/// Appends `text` as a JSON string, with quotes, and with escapes where JSON asks for them.
pub fn write_json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            0x08 => b"\\b",
            0x0c => b"\\f",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..=31 => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(escape);
    }
    out.push(b'"');
}

impl Jsonb {
    /// Appends the value as PostgreSQL shows it: on one line, with a blank after each comma and
    /// colon.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => number.write_text(out),
            Self::String(text) => write_json_string(text, out),
            Self::Array(array) => {
                out.push(b'[');
                for (at, item) in array.items().iter().enumerate() {
                    if at > 0 {
                        out.extend_from_slice(b", ");
                    }
                    item.write_text(out);
                }
                out.push(b']');
            }
            Self::Object(object) => {
                out.push(b'{');
                for (at, (key, value)) in object.pairs().iter().enumerate() {
                    if at > 0 {
                        out.extend_from_slice(b", ");
                    }
                    write_json_string(key, out);
                    out.extend_from_slice(b": ");
                    value.write_text(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Appends the value on several lines, as `jsonb_pretty` shows it.
    pub fn write_pretty(&self, out: &mut Vec<u8>) {
        self.write_level(0, out);
    }

    fn write_level(&self, level: usize, out: &mut Vec<u8>) {
        let line = |level: usize, out: &mut Vec<u8>| {
            out.push(b'\n');
            out.resize(out.len() + level * INDENT, b' ');
        };
        match self {
            Self::Array(array) => {
                out.push(b'[');
                for (at, item) in array.items().iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    line(level + 1, out);
                    item.write_level(level + 1, out);
                }
                line(level, out);
                out.push(b']');
            }
            Self::Object(object) => {
                out.push(b'{');
                for (at, (key, value)) in object.pairs().iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    line(level + 1, out);
                    write_json_string(key, out);
                    out.extend_from_slice(b": ");
                    value.write_level(level + 1, out);
                }
                line(level, out);
                out.push(b'}');
            }
            scalar => scalar.write_text(out),
        }
    }

    /// Returns the result of `->>`: the text of a string, none for `null`, and other values as they
    /// are shown.
    pub fn unquoted(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::String(text) => Some(text.as_ref().to_owned()),
            other => Some(other.to_string()),
        }
    }
}

impl fmt::Display for Jsonb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.write_text(&mut out);
        formatter.write_str(std::str::from_utf8(&out).map_err(|_| fmt::Error)?)
    }
}
