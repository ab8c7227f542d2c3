//! Counters of checkpoints, since the database was opened.

use niwaki_env::sync::plain_atomic::AtomicU64 as Counter;

#[derive(Debug, Default)]
pub(crate) struct CheckpointCounters {
    pub(super) timed: Counter,
    pub(super) requested: Counter,
    pub(super) write_us: Counter,
    pub(super) sync_us: Counter,
}
