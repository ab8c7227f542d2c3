//! Sorts of more rows than memory holds, for index builds and for queries.
//!
//! - `temp_files`: temporary files, and the quota of a session.
//! - `runs`: the records that are sorted, and runs of them in temporary files.
//! - `sort`: sorts in memory, writes sorted runs, and merges the runs.

pub(crate) mod runs;
pub(crate) mod sort;
pub(crate) mod temp_files;
