//! Reads and writes the formats of COPY. Pure functions over bytes: no table, no session.

mod binary;
mod csv;
mod input;
mod output;

pub use binary::fields as binary_fields;
pub use input::{CopyInput, Fields, context, context_column};
pub use output::CopyOutput;
