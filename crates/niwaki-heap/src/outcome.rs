//! What goes into a heap operation and what comes out of it.

use niwaki_storage::{Tid, Xid};
use niwaki_txn::RowKey;

use crate::rows::RowRef;

/// A row to store.
#[derive(Clone, Copy, Debug)]
pub struct NewRow<'a> {
    /// Columns the bytes hold.
    pub natts: u16,
    /// Whether the bytes begin with a null bitmap.
    pub has_nulls: bool,
    /// Some value of it lies out of line.
    pub has_external: bool,
    /// The stored form of the values (`niwaki_types::form_row`).
    pub bytes: &'a [u8],
}

/// Which row is to be changed or locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTarget {
    /// Root of the row's chain: what scans and indexes give.
    pub root: Tid,
    /// The version whose contents the caller has judged, when it is not the one that its snapshot
    /// sees: an earlier attempt locked it for this transaction and handed it out, so it stays where
    /// it is (rule 9b.5).
    pub version: Option<Tid>,
}

impl RowTarget {
    /// The version of this row that the snapshot sees.
    #[inline]
    pub fn visible(root: Tid) -> Self {
        Self { root, version: None }
    }
}

/// Contents of one version, copied from its page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRow {
    /// Columns the bytes hold.
    pub natts: u16,
    /// Whether the bytes begin with a null bitmap.
    pub has_nulls: bool,
    /// The stored values.
    pub bytes: Vec<u8>,
}

impl From<RowRef<'_>> for VersionRow {
    fn from(row: RowRef<'_>) -> Self {
        Self { natts: row.natts, has_nulls: row.has_nulls, bytes: row.bytes.to_vec() }
    }
}

/// Why an operation cannot go on now. No latch is held when it is returned; wait, then try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// This transaction changed or locked the row and is in progress.
    Transaction(Xid),
    /// Somebody holds the row in memory in a mode that excludes this one.
    Row(RowKey),
    /// The same, and this transaction has the row: it changed or locked the version. Whoever queues
    /// for the row waits for this transaction, which must not queue behind them.
    OwnRow(RowKey),
}

/// The newest version of a row, locked for this transaction and copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// What a next attempt is to be made on.
    pub target: RowTarget,
    /// Contents.
    pub row: VersionRow,
}

/// What came of an update, a deletion or a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done {
        /// Root of the chain that holds the newest version now.
        root: Tid,
        /// An update that needs no index entries.
        heap_only: bool,
    },
    /// This command or a later one of this transaction changed the row already.
    SelfModified,
    /// Wait without any latch, then start again.
    Wait(Blocker),
    /// The snapshot may follow: the newest version, now locked.
    Changed(Newest),
    /// The snapshot may follow: the row was deleted.
    Gone,
    /// The snapshot may follow: the row went to another table.
    Moved,
    /// Nothing was done: the version that would be replaced, this one, has values out of line
    /// ([`crate::Heap::update_unless_external`]).
    External(VersionRow),
    /// The snapshot may not follow: another transaction updated the row.
    ConcurrentUpdate,
    /// The snapshot may not follow: another transaction deleted it.
    ConcurrentDelete,
}

/// What was found behind an index entry by somebody who wants to insert its key
/// ([`crate::Heap::live_row`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveRow {
    /// The live version; locked, if that was asked for.
    Found(Newest),
    /// This command made it.
    OwnCommand,
    /// Wait without any latch, then ask again.
    Wait(Blocker),
    /// No live version has the key any more: look for the key again.
    Gone,
    /// It is not in the past of the transaction's snapshot, which is to stay.
    NotSeen,
}

/// How the caller wants a row updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateKind {
    /// The new version is heap-only if it fits on the page of the old one.
    pub heap_only: bool,
    /// Some index key, predicate or payload changes: the root of a heap-only version becomes `mixed`, in
    /// the same record (rule 9b.9).
    pub mixed: bool,
    /// A key of a unique index changes: as strong as FOR UPDATE.
    pub key_changed: bool,
}
