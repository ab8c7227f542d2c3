//! Values as text, in and out, exactly as PostgreSQL reads and shows them.

mod array;
mod bytes;
mod float;
mod input;
mod integer;
mod output;
mod record;
#[cfg(test)]
pub(crate) mod tests;
mod uuid;

pub use float::{parse_float4, parse_float8, write_float4, write_float8};
pub(crate) use input::{NAME_BYTES_MAX, check_text, fit_length, truncated_name};
pub use input::{input, parse_bool};
pub use integer::{parse_int2, parse_int4, parse_int8};
pub use output::{to_text, write_text};

/// Decides whether a character is one that input functions skip around a value.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
