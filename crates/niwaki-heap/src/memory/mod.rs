//! The memory of an open heap between operations: hints, queues and counts.
//!
//! Everything here is bounded, and gone after a restart. The order: counters and flags
//! (`counters`, `changed`, `arrivals`, `unmixes`), the two maps (`bits`, `filled`, `freespace`),
//! then what passes leave for later (`record_id`, `observer`, `records`, `removed`, `unindexed`,
//! `held`).

pub(crate) mod arrivals;
pub(crate) mod bits;
pub(crate) mod changed;
pub(crate) mod counters;
pub(crate) mod filled;
pub(crate) mod freespace;
pub(crate) mod held;
pub(crate) mod observer;
pub(crate) mod record_id;
pub(crate) mod records;
pub(crate) mod removed;
pub(crate) mod unindexed;
pub(crate) mod unmixes;
