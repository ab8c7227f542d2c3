//! Counters of page writes, since the database was opened.

use niwaki_env::sync::plain_atomic::AtomicU64 as Counter;

/// Counters of written pages, by cause, since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    pub(crate) checkpoint: Counter,
    pub(crate) background: Counter,
    pub(crate) sessions: Counter,
    pub(crate) allocated: Counter,
    pub(crate) background_stopped: Counter,
    /// Write calls, each of one page or of several neighbours.
    pub(crate) writes: Counter,
}
