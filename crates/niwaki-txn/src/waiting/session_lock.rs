//! A table lock that belongs to a session instead of a transaction.

use std::sync::Arc;

use crate::handle::session::SessionControl;
use crate::handle::transaction::Transaction;
use crate::locks::key::{LockKey, TableId};
use crate::locks::mode::{Mode, TableLockMode};

/// A table lock that a session holds until this value is dropped, across any number of
/// transactions: for work in several steps. The session's transactions count as holders too: a lock
/// request of theirs in the same mode is granted at once.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct SessionLock {
    session: Arc<SessionControl>,
    key: LockKey,
    mode: Mode,
}

impl Transaction {
    /// Makes a table lock of this transaction outlive it. `None` if the transaction did not take
    /// the lock itself in exactly this mode. No savepoint may be open.
    ///
    /// # Panics
    /// For the weak modes, which exclude too little to keep other sessions out between
    /// transactions.
    pub fn keep_table_lock(&self, table: TableId, mode: TableLockMode) -> Option<SessionLock> {
        assert!(mode > TableLockMode::RowExclusive, "a weak lock is not kept");
        debug_assert_eq!(self.savepoint_depth(), 0, "a rollback would not know of it");
        let (key, mode) = (LockKey::Table(table), Mode::from(mode));
        let session = Arc::clone(self.session());
        self.held.forget(key, mode.bit).then(|| SessionLock { session, key, mode })
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        self.session.manager().locks().release(&self.session, &self.key, self.mode.bit);
    }
}
