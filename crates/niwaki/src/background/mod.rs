//! Work beside sessions: VACUUM and ANALYZE, autovacuum, and the gardener's thread.

pub(crate) mod autovacuum;
pub(crate) mod gardener;
pub(crate) mod maintenance;
pub(crate) mod vacuum_options;
