//! Values as text, in and out, exactly as PostgreSQL reads and shows them.
//!
//! The order: containers (`array`, `record`), then any value (`input`, `output`). The first two
//! and the last two call each other.

mod array;
pub(crate) mod input;
pub(crate) mod output;
mod record;
#[cfg(test)]
pub(crate) mod tests;
