//! Waits for rows that other transactions change or lock, in the order of a queue.

use niwaki_heap::{Blocker, HeapOutcome};
use niwaki_storage::{OffsetNumber, Tid};
use niwaki_txn::{Error as TxnError, RowKey, RowLockMode, Transaction, TupleGuard, WaitPolicy};

use crate::error::{Error, Result};
use crate::relation::table::Table;

/// A place in the queue for a row, kept from the first wait to the end of the operation.
pub(crate) struct RowQueue<'t> {
    pub(crate) tid: Tid,
    pub(crate) mode: RowLockMode,
    pub(crate) wait: WaitPolicy,
    pub(crate) guard: Option<TupleGuard<'t>>,
}

impl Table {
    /// Repeats an operation until no other transaction blocks it.
    pub(crate) fn attempt<'t>(
        &self,
        tx: &'t Transaction,
        queue: &mut RowQueue<'t>,
        mut operation: impl FnMut() -> niwaki_heap::Result<HeapOutcome>,
    ) -> Result<HeapOutcome> {
        debug_assert_eq!(queue.wait, WaitPolicy::Block, "an operation that is repeated waits");
        // Ends: each turn but the last waits for the end of a transaction or lock.
        loop {
            match operation()? {
                HeapOutcome::Wait(blocker) => {
                    let waited = self.wait(tx, blocker, queue)?;
                    debug_assert!(waited, "an operation goes on beside its blocker");
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Waits for the blocker, in the order in which the waiters for the row came. No latch is held.
    /// Returns false when the policy is not to wait.
    pub(crate) fn wait<'t>(
        &self,
        tx: &'t Transaction,
        blocker: Blocker,
        queue: &mut RowQueue<'t>,
    ) -> Result<bool> {
        debug_assert_ne!(queue.tid.offset, OffsetNumber::INVALID, "the queue of no row");
        let policy = queue.wait;
        let locks = self.engine.transactions().locks();
        let file = self.relation.file.id;
        let row = RowKey { file, root: queue.tid, incarnation: 0 };
        // The first waiter of the queue waits for the holders of the row, so they cannot wait
        // behind it.
        let has_it = matches!(blocker, Blocker::OwnRow(_)) || locks.holds_row(tx, row);
        if queue.guard.is_none() && !has_it {
            let got = locks.lock_tuple(tx, file, queue.tid, queue.mode, policy);
            match got.map_err(|error| self.not_available(error))? {
                None => return Ok(false),
                guard => queue.guard = guard,
            }
        }
        match blocker {
            Blocker::Transaction(xid) => locks.wait_for_xid(tx, xid, policy),
            Blocker::Row(row) | Blocker::OwnRow(row) => {
                locks.wait_for_row(tx, row, queue.mode, policy)
            }
        }
        .map_err(|error| self.not_available(error))
    }

    /// Adds the name of the table to a `NOWAIT` error: the lock manager does not know it.
    fn not_available(&self, error: TxnError) -> Error {
        match error {
            TxnError::LockNotAvailable { .. } => {
                Error::RowNotAvailable { table: self.definition.name.clone() }
            }
            other => Error::Transaction(other),
        }
    }
}
