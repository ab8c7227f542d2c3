//! What a statement sees: its snapshot and its own transaction's earlier commands.

use niwaki_storage::{Csn, Xid};

use crate::command::{CommandId, TupleCid};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// The eyes of one statement. Borrowed from the transaction for the duration of a call; cheap.
#[derive(Clone, Copy, Debug)]
pub struct View<'t> {
    transaction: &'t Transaction,
    csn: Csn,
    command: CommandId,
    may_follow: bool,
}

impl<'t> View<'t> {
    pub(crate) fn new(transaction: &'t Transaction, snapshot: &Snapshot) -> Self {
        debug_assert!(
            snapshot.csn() <= transaction.manager().published(),
            "S1: a snapshot is of commits that are published"
        );
        Self {
            transaction,
            csn: snapshot.csn(),
            command: snapshot.command(),
            may_follow: snapshot.may_follow(),
        }
    }

    /// The transaction that looks.
    #[inline]
    pub fn transaction(&self) -> &'t Transaction {
        self.transaction
    }

    /// The snapshot's position in the order of commits.
    #[inline]
    pub fn csn(&self) -> Csn {
        self.csn
    }

    /// Own changes of commands before this one are seen.
    #[inline]
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// Whether the snapshot is registered as one that may follow update chains past what it sees
    /// (rule 9b.6). A statement that locks or changes rows at READ COMMITTED must have it.
    #[inline]
    pub fn may_follow(&self) -> bool {
        self.may_follow
    }

    /// Whether `xid` is this transaction or one of its subtransactions not rolled back.
    #[inline]
    pub fn is_mine(&self, xid: Xid) -> bool {
        self.transaction.is_mine(xid)
    }

    /// Whether another transaction's work is seen: it committed, and in the snapshot's past. False
    /// for the own transaction; true for [`Xid::FROZEN`].
    #[inline]
    pub fn committed_before(&self, xid: Xid) -> bool {
        self.transaction.manager().committed_at_or_before(xid, self.csn)
    }

    /// Whether the insertion by `xmin` is seen; `cid` is the tuple's command field.
    #[inline]
    pub fn sees_insert(&self, xmin: Xid, cid: TupleCid) -> bool {
        if self.is_mine(xmin) {
            return self.transaction.inserted_by(cid) < self.command;
        }
        self.committed_before(xmin)
    }

    /// Whether the deletion by `xmax` is seen; false for [`Xid::INVALID`]. Pass it only when it is a
    /// deletion or update, not when it merely locks.
    #[inline]
    pub fn sees_delete(&self, xmax: Xid, cid: TupleCid) -> bool {
        if xmax == Xid::INVALID {
            return false;
        }
        if self.is_mine(xmax) {
            return self.transaction.deleted_by(cid) < self.command;
        }
        self.committed_before(xmax)
    }

    /// Whether the version is seen: its insertion is, its deletion is not. `xmax` is
    /// [`Xid::INVALID`] when nobody deleted or updated it, also when somebody only locks it.
    #[inline]
    pub fn sees(&self, xmin: Xid, xmax: Xid, cid: TupleCid) -> bool {
        self.sees_insert(xmin, cid) && !self.sees_delete(xmax, cid)
    }
}
