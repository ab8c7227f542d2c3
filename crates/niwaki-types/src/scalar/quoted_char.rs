//! The type `"char"`: one byte, in quotes because `char` is another type.
//!
//! A value is a text of the one character that has the byte for its code, or the empty text for
//! zero. Order and equality are the order and equality of the texts. Beyond ASCII the value is
//! shown as a backslash and three octal digits, and read in that form too.

use std::borrow::Cow;

/// Returns the value of a text: `\ooo`, or its first byte.
pub fn parse(text: &str) -> String {
    let byte = match text.as_bytes() {
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] => {
            (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
        }
        bytes => bytes.first().copied().unwrap_or(0),
    };
    of_byte(byte)
}

/// Returns the value of a byte.
pub fn of_byte(byte: u8) -> String {
    if byte == 0 { String::new() } else { char::from(byte).to_string() }
}

/// Returns the byte of a value.
pub fn byte(value: &str) -> u8 {
    value.chars().next().and_then(|character| u8::try_from(character).ok()).unwrap_or(0)
}

/// Returns the text that shows a value.
pub fn shown(value: &str) -> Cow<'_, str> {
    match byte(value) {
        ..0x80 => Cow::Borrowed(value),
        byte => Cow::Owned(format!("\\{byte:03o}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_reads_back() {
        for code in 0..=u8::MAX {
            let value = of_byte(code);
            assert_eq!(byte(&value), code);
            assert_eq!(parse(&shown(&value)), value);
        }
    }

    #[test]
    fn the_first_byte_counts() {
        assert_eq!(parse("abc"), "a");
        assert_eq!(shown(&parse("é")), "\\303");
        assert_eq!(parse("\\000"), "");
        assert_eq!(parse("\\400"), "\\");
        assert_eq!(parse(""), "");
    }
}
