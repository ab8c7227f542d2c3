//! Statements: of sessions, of long readers, and CREATE INDEX CONCURRENTLY.
//!
//! - `scan`: scans through an index or along the heap.
//! - `unique`: inserts entries after their unique checks.
//! - `update`: changes and locks rows.
//! - `session`: runs transactions.
//! - `reader`: reads for long with one snapshot.
//! - `build`: builds an index concurrently.

pub(crate) mod build;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod session;
pub(crate) mod unique;
pub(crate) mod update;
