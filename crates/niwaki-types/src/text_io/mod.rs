//! Values as text, in and out, exactly as PostgreSQL reads and shows them.
//!
//! The order: containers (`array_text`, `record_text`), then any value (`input`, `output`). The
//! first two and the last two call each other.

mod array_text;
pub(crate) mod input;
pub(crate) mod output;
mod record_text;
#[cfg(test)]
pub(crate) mod tests;
