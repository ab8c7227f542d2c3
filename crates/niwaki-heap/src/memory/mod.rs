//! The memory of an open heap between operations: hints, queues and counts.
//!
//! Everything here is bounded, and gone after a restart. The order: counters and flags (`counters`,
//! `changed_tables`, `root_changes`, `unmix_counter`), the two maps (`bits`, `uncommitted_pages`,
//! `freespace`), full pages (`unprunable`), then what passes leave for later (`record_id`,
//! `observer`, `cleanup_ledger`, `removed`, `unreferenced`, `retained`).

pub(crate) mod bits;
pub(crate) mod changed_tables;
pub(crate) mod cleanup_ledger;
pub(crate) mod counters;
pub(crate) mod freespace;
pub(crate) mod observer;
pub(crate) mod record_id;
pub(crate) mod removed;
pub(crate) mod retained;
pub(crate) mod root_changes;
pub(crate) mod uncommitted_pages;
pub(crate) mod unmix_counter;
pub(crate) mod unprunable;
pub(crate) mod unreferenced;
