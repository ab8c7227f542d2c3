//! The running database as system views show it: activity, progress and counters.

pub(crate) mod activity;
pub(crate) mod background_tasks;
pub(crate) mod index_counters;
pub(crate) mod memory;
pub(crate) mod progress;
pub(crate) mod read_ahead;
pub(crate) mod snapshots;
pub(crate) mod statistics;
pub(crate) mod table_counters;
