//! The running database as system views show it: activity, progress and counters.
//!
//! - `activity`: the work of each session, for `pg_stat_activity`.
//! - `progress`: index builds and vacuums that run.
//! - `statistics`: counters of a database, a table and an index.
//! - `table_counters`, `index_counters`, `memory`, `read_ahead`, `snapshots`, `background_tasks`:
//!   views of Niwaki's own.

pub mod activity;
pub mod background_tasks;
pub mod index_counters;
pub mod memory;
pub mod progress;
pub mod read_ahead;
pub mod snapshots;
pub mod statistics;
pub mod table_counters;
