//! The text format of COPY, both ways. Pure functions over bytes: no table, no session.

mod input;
mod output;

pub use input::{CopyInput, Fields, context, context_column};
pub use output::CopyOutput;
