//! Execution: queries of a session, with all that ends a statement.
//!
//! - `scan`, `store`: tables under a statement's snapshot.
//! - `opened`, `source`: system views about the session and the running database.
//! - `current_row`, `environment`: rows of cursors, and services for SQL functions.
//! - `planning`, `at_end`: inputs of plans, and what the end of a statement uses.
//! - `foreign_keys`, `reference_query`, `orphans`: checks and actions of foreign keys.
//! - `statement_end`: checks, actions and triggers after a statement.
//! - `query`: plans queries and runs them.
//! - `partition_rows`: whether rows belong to their partition.
//! - `constraints`: when constraints are checked.

pub(crate) mod at_end;
pub(crate) mod constraints;
pub(crate) mod current_row;
pub(crate) mod environment;
pub(crate) mod foreign_keys;
pub(crate) mod opened;
pub(crate) mod orphans;
pub(crate) mod partition_rows;
pub(crate) mod planning;
pub(crate) mod query;
pub(crate) mod reference_query;
mod scan;
pub(crate) mod source;
pub(crate) mod statement_end;
pub(crate) mod store;
