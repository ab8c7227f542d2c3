//! Ordinals of English: `1st`, `2nd`.

/// Returns the suffix that makes a number, given by its digits, an ordinal.
pub(crate) fn ordinal(digits: &str) -> &'static str {
    let bytes = digits.as_bytes();
    let teen = bytes.len() > 1 && bytes.get(bytes.len() - 2) == Some(&b'1');
    match bytes.last() {
        Some(b'1') if !teen => "st",
        Some(b'2') if !teen => "nd",
        Some(b'3') if !teen => "rd",
        _ => "th",
    }
}
