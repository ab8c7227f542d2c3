//! Options of the transaction manager, and limits that no option sets.

use std::time::Duration;

/// Options of a [`TransactionManager`](crate::TransactionManager).
#[derive(Clone, Debug)]
pub struct TxnOptions {
    /// The greatest number of sessions at a time, background workers included.
    pub sessions_max: usize,
    /// The greatest number of snapshots held at a time (each open cursor of an older snapshot
    /// counts).
    pub snapshots_max: usize,
    /// The greatest number of shared row locks kept in memory at a time. A transaction's locks of
    /// rows of one page, in one mode, count once and take about 200 bytes.
    pub row_locks_max: usize,
    /// Time that a session waits for a lock before it looks for a deadlock. A session may set
    /// another time.
    pub deadlock_timeout: Duration,
    /// Removes versions between snapshots too (docs/internals/design.md, "Garbage by interval").
    /// When off, every version since the oldest snapshot is kept, as PostgreSQL does.
    pub interval_gc: bool,
    /// Time that a waiter spins before it sleeps. Waking a sleeping thread costs more than this
    /// when the processor was idle.
    pub spin: Duration,
    /// The greatest number of waiters that spin at a time; further waiters sleep at once.
    pub spinners_max: usize,
}

impl Default for TxnOptions {
    fn default() -> Self {
        Self {
            sessions_max: 1024,
            snapshots_max: 4096,
            row_locks_max: 1_000_000,
            deadlock_timeout: Duration::from_secs(1),
            interval_gc: true,
            spin: Duration::from_micros(20),
            spinners_max: 1,
        }
    }
}

/// Chooses a limit: the real one, or a smaller one under the deterministic scheduler and again
/// under the model checker.
pub(crate) const fn limit(real: usize, scheduled: usize, model_checked: usize) -> usize {
    debug_assert!(scheduled <= real, "a limit of the scheduler is above the real one");
    debug_assert!(model_checked <= real, "a limit of the model checker is above the real one");
    if niwaki_env::sync::MODEL_CHECKED {
        model_checked
    } else if niwaki_env::sync::SCHEDULED {
        scheduled
    } else {
        real
    }
}
