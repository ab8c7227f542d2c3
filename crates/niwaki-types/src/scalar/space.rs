//! Blanks around a value.

/// Decides whether a character is one that input functions skip around a value.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
