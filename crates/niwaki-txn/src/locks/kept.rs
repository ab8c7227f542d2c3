//! A table lock that belongs to a session instead of a transaction.

use std::sync::Arc;

use super::mode::Mode;
use super::{LockKey, TableId, TableLockMode};
use crate::session::SessionControl;
use crate::transaction::Transaction;

/// A table lock that a session holds until this is dropped, over as many transactions as it likes: for
/// work in several steps. The session's transactions count as its holders too: what they lock in the same
/// mode is theirs already.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct KeptLock {
    session: Arc<SessionControl>,
    key: LockKey,
    mode: Mode,
}

impl Transaction {
    /// Makes a table lock of this transaction outlive it. `None` if the transaction did not take the lock
    /// itself in just this mode. No savepoint is open.
    ///
    /// # Panics
    /// For the weak modes, which exclude too little to keep anybody out between transactions.
    pub fn keep_table_lock(&self, table: TableId, mode: TableLockMode) -> Option<KeptLock> {
        assert!(mode > TableLockMode::RowExclusive, "a weak lock is not kept");
        debug_assert_eq!(self.savepoint_depth(), 0, "a rollback would not know of it");
        let (key, mode) = (LockKey::Table(table), Mode::from(mode));
        let session = Arc::clone(self.session());
        self.held.forget(key, mode.bit).then(|| KeptLock { session, key, mode })
    }
}

impl Drop for KeptLock {
    fn drop(&mut self) {
        self.session.manager().locks().release(&self.session, &self.key, self.mode.bit);
    }
}
