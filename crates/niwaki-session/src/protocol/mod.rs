//! Messages of clients: statements prepared, bound and run, and utility statements.
//!
//! - `portal_rows`: movement of portals.
//! - `custom_plans`: plans for the values of parameters.
//! - `copy_file`, `copy_lines`, `copy_filter`, `copy`: COPY.
//! - `cursor`, `prepared`: cursors and prepared statements in SQL.
//! - `vacuum`, `databases`, `notify`: VACUUM and ANALYZE, databases, messages.
//! - `utility`: dispatches utility statements, those of data definition included.
//! - `simple`, `extended`: the two protocols of queries.

pub(crate) mod copy;
pub(crate) mod copy_file;
pub(crate) mod copy_filter;
pub(crate) mod copy_lines;
pub(crate) mod cursor;
pub(crate) mod custom_plans;
pub(crate) mod databases;
pub(crate) mod extended;
pub(crate) mod notify;
pub(crate) mod portal_rows;
pub(crate) mod prepared;
pub(crate) mod simple;
pub(crate) mod utility;
pub(crate) mod vacuum;
