//! Arguments and results of heap operations.

use niwaki_storage::{Tid, Xid};
use niwaki_txn::RowKey;

use crate::format::rows::VersionRow;

/// A row to store.
#[derive(Clone, Copy, Debug)]
pub struct NewRow<'a> {
    /// Columns the bytes hold.
    pub natts: u16,
    /// True if the bytes begin with a null bitmap.
    pub has_nulls: bool,
    /// Some value of the row lies out of line.
    pub has_external: bool,
    /// The stored form of the values (`niwaki_types::form_row`).
    pub bytes: &'a [u8],
}

/// The row to change or to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTarget {
    /// Chain root of the row, as scans and indexes return it.
    pub root: Tid,
    /// The version whose contents the caller has judged, if the caller's snapshot does not see this
    /// version. An earlier attempt locked the version for this transaction and returned it, so the
    /// version stays in its place (rule `follow-again`).
    pub version: Option<Tid>,
}

impl RowTarget {
    /// Names the version of this row that the snapshot sees.
    #[inline]
    pub fn visible(root: Tid) -> Self {
        Self { root, version: None }
    }
}

/// The reason why an operation must wait. No latch is held when an operation returns a blocker. The
/// caller waits, then tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// This transaction changed or locked the row and is in progress.
    Transaction(Xid),
    /// Another transaction holds a row lock in memory in a mode that excludes this one.
    Row(RowKey),
    /// The same lock conflict, while this transaction has the row: it changed or locked the
    /// version. Transactions that queue for the row wait for this transaction, so it must not queue
    /// behind them.
    OwnRow(RowKey),
}

/// The newest version of a row, copied. Unless the caller wanted no lock ([`LiveRow::Found`]), the
/// version is locked for this transaction, strongly enough for the request. So it stays the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestVersion {
    /// The target for the next attempt, if the row still qualifies.
    pub target: RowTarget,
    /// Contents of the version.
    pub row: VersionRow,
}

/// The result of an update, a deletion or a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeapOutcome {
    /// The operation is done.
    Done {
        /// Root of the chain that now holds the newest version.
        root: Tid,
        /// True for an update that needs no index entries.
        heap_only: bool,
    },
    /// This command or a later one of this transaction changed the row already.
    SelfModified,
    /// Wait without any latch, then start again.
    Wait(Blocker),
    /// The snapshot may follow the row: this is the newest version, now locked.
    Changed(NewestVersion),
    /// The snapshot may follow the row, and the row was deleted.
    Gone,
    /// The snapshot may follow the row, and the row went to another table.
    Moved,
    /// The operation changed nothing: the version to be replaced, this one, has values out of line
    /// ([`crate::Heap::update_unless_external`]).
    External(VersionRow),
    /// The snapshot may not follow the row: another transaction updated it.
    ConcurrentUpdate,
    /// The snapshot may not follow the row: another transaction deleted it.
    ConcurrentDelete,
}

/// The row behind an index entry, as an insertion of the same key finds it
/// ([`crate::Heap::live_row`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveRow {
    /// The live version. It is locked if the caller asked for a lock.
    Found(NewestVersion),
    /// This command inserted the version.
    OwnCommand,
    /// Wait without any latch, then ask again.
    Wait(Blocker),
    /// No live version has the key any more: look for the key again.
    Gone,
    /// The live version is not in the past of the transaction's snapshot, and the snapshot must not
    /// change.
    NotSeen,
}

/// The kind of update that the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateKind {
    /// The new version is heap-only if it fits on the page of the old one.
    pub heap_only: bool,
    /// Some index key, predicate or payload changes. The root of a heap-only version becomes
    /// `mixed` (a root with several keys), in the same log record (rule `mixed-flag`).
    pub mixed: bool,
    /// A key of a unique index changes: the update is as strong as FOR UPDATE.
    pub key_changed: bool,
}
