//! Execution: queries of a session, with all that ends a statement.
//!
//! - `scan`, `store`: tables under a statement's snapshot.
//! - `open_statements`, `source`: system views about the session and the running database.
//! - `current_row`, `environment`: rows of cursors, and services for SQL functions.
//! - `planning`, `after_trigger_context`: inputs of plans, and what the end of a statement uses.
//! - `foreign_keys`, `reference_query`, `orphans`: checks and actions of foreign keys.
//! - `after_triggers`: checks, actions and triggers that a statement leaves to its end.
//! - `query`: plans queries and runs them.
//! - `partition_rows`: whether rows belong to their partition.
//! - `constraints`: when constraints are checked.

pub(crate) mod after_trigger_context;
pub(crate) mod after_triggers;
pub(crate) mod constraints;
pub(crate) mod current_row;
pub(crate) mod environment;
pub(crate) mod foreign_keys;
pub(crate) mod open_statements;
pub(crate) mod orphans;
pub(crate) mod partition_rows;
pub(crate) mod planning;
pub(crate) mod query;
pub(crate) mod reference_query;
mod scan;
pub(crate) mod source;
pub(crate) mod store;
