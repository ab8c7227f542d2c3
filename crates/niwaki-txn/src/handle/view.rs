//! A statement's view of the database: its snapshot and its own transaction's earlier commands.

use niwaki_env::invariant;
use niwaki_storage::{Csn, Xid};

use crate::handle::transaction::Transaction;
use crate::visibility::command::{CommandId, TupleCid};
use crate::visibility::snapshot::Snapshot;

/// The view of one statement, for visibility checks. Borrowed from the transaction for the duration
/// of a call; cheap.
#[derive(Clone, Copy, Debug)]
pub struct View<'t> {
    transaction: &'t Transaction,
    csn: Csn,
    command: CommandId,
    may_follow: bool,
}

impl Transaction {
    /// Returns the view of a statement with this snapshot.
    #[inline]
    pub fn view(&self, snapshot: &Snapshot) -> View<'_> {
        View::new(self, snapshot)
    }
}

impl<'t> View<'t> {
    pub(crate) fn new(transaction: &'t Transaction, snapshot: &Snapshot) -> Self {
        invariant!(
            S1,
            snapshot.csn() <= transaction.manager().published(),
            "a snapshot is of commits that are published"
        );
        Self {
            transaction,
            csn: snapshot.csn(),
            command: snapshot.command(),
            may_follow: snapshot.may_follow(),
        }
    }

    /// Returns the transaction that the view belongs to.
    #[inline]
    pub fn transaction(&self) -> &'t Transaction {
        self.transaction
    }

    /// Returns the snapshot's position in the order of commits.
    #[inline]
    pub fn csn(&self) -> Csn {
        self.csn
    }

    /// Returns the current command: the view sees own changes of earlier commands only.
    #[inline]
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// Returns whether the snapshot is registered as one that may follow update chains past the
    /// versions it sees (rule `stub`). A statement that locks or changes rows at READ COMMITTED
    /// must have such a snapshot.
    #[inline]
    pub fn may_follow(&self) -> bool {
        self.may_follow
    }

    /// Returns whether `xid` is this transaction or one of its subtransactions not rolled back.
    #[inline]
    pub fn is_mine(&self, xid: Xid) -> bool {
        self.transaction.is_mine(xid)
    }

    /// Returns whether the view sees another transaction's work: `xid` committed at or before the
    /// snapshot. False for the own transaction; true for [`Xid::FROZEN`].
    #[inline]
    pub fn committed_before(&self, xid: Xid) -> bool {
        self.transaction.manager().committed_at_or_before(xid, self.csn)
    }

    /// Returns whether the view sees the insertion by `xmin`; `cid` is the tuple's command field.
    #[inline]
    pub fn sees_insert(&self, xmin: Xid, cid: TupleCid) -> bool {
        if self.is_mine(xmin) {
            return self.transaction.inserted_by(cid) < self.command;
        }
        self.committed_before(xmin)
    }

    /// Returns whether the view sees the deletion by `xmax`; false for [`Xid::INVALID`]. Pass
    /// `xmax` only when it deleted or updated the version, not when it merely locks.
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

    /// Returns whether the view sees the version: it sees the insertion and not the deletion.
    /// `xmax` is [`Xid::INVALID`] when no transaction deleted or updated the version, even if one
    /// locks it.
    #[inline]
    pub fn sees(&self, xmin: Xid, xmax: Xid, cid: TupleCid) -> bool {
        self.sees_insert(xmin, cid) && !self.sees_delete(xmax, cid)
    }
}
