//! PostgreSQL's wire protocol 3: messages as bytes, no I/O.

pub(crate) mod backend;
pub(crate) mod frontend;
