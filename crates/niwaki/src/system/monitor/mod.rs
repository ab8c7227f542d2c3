//! The running database as system views show it: activity, progress and counters.
//!
//! - `activity`: the work of each session, for `pg_stat_activity`.
//! - `progress`: index builds and vacuums that run.
//! - `statistics`: counters of a database, a table and an index.
//! - `table_counters`, `index_counters`, `memory`, `read_ahead`, `snapshots`, `background_tasks`:
//!   views of Niwaki's own.

pub(crate) mod activity;
pub(crate) mod background_tasks;
pub(crate) mod index_counters;
pub(crate) mod memory;
pub(crate) mod progress;
pub(crate) mod read_ahead;
pub(crate) mod snapshots;
pub(crate) mod statistics;
pub(crate) mod table_counters;
