//! Values as text, in and out, exactly as PostgreSQL reads and shows them.

mod array;
pub(crate) mod input;
pub(crate) mod output;
mod record;
#[cfg(test)]
pub(crate) mod tests;
