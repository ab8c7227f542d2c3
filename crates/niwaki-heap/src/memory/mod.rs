//! What an open heap keeps in memory between operations: hints, queues and counts.
//!
//! Everything here is bounded, and may be lost at any time. The order: counters and flags, the two
//! maps, then what passes leave for later: the ledger of roots, the queues, the notes.

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
