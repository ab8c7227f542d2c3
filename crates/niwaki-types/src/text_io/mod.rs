//! Values as text, in and out, exactly as PostgreSQL reads and shows them.

mod array;
pub(crate) mod input;
pub(crate) mod output;
mod record;
#[cfg(test)]
pub(crate) mod tests;

/// Decides whether a character is one that input functions skip around a value.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
