#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it in this list.

// Options of VACUUM, by settings and by statement.
pub mod vacuum_options;

// VACUUM and ANALYZE of one table.
pub mod maintenance;

// Automatic VACUUM and ANALYZE.
pub mod autovacuum;

// The thread that cleans up tables whose writers have gone.
pub mod gardener;
