//! Values as text, in and out, exactly as PostgreSQL reads and shows them.

mod float;

pub use float::{parse_float4, parse_float8, write_float4, write_float8};

/// The characters that input functions skip around a value.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
