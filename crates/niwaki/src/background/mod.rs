//! Work beside sessions: VACUUM and ANALYZE, autovacuum, and the gardener's thread.
//!
//! - `vacuum_options`: options of VACUUM, by settings and by statement.
//! - `maintenance`: VACUUM and ANALYZE of one table.
//! - `autovacuum`: automatic VACUUM and ANALYZE.
//! - `gardener`: the thread that cleans up tables whose writers have gone.

pub(crate) mod autovacuum;
pub(crate) mod gardener;
pub(crate) mod maintenance;
pub(crate) mod vacuum_options;
