//! Commits that are logged and not yet visible.

use std::collections::VecDeque;

use niwaki_env::sync::{Mutex, MutexGuard};
use niwaki_storage::{Csn, Xid};

/// A commit whose record is in the log and which is not yet visible.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) csn: Csn,
    pub(crate) xid: Xid,
    pub(crate) subxids: Box<[Xid]>,
    /// True if the commit need not be flushed to become visible.
    pub(crate) unflushed: bool,
}

/// Commits between log and visibility, in log order.
#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    pub(crate) pending: Mutex<VecDeque<Pending>>,
}

impl CommitQueue {
    /// Keeps commits from being logged and published while the returned guard lives.
    pub(crate) fn lock(&self) -> LockedQueue<'_> {
        LockedQueue(self.pending.lock())
    }
}

/// The queue under its lock: no commit is logged or published meanwhile.
pub(crate) struct LockedQueue<'a>(MutexGuard<'a, VecDeque<Pending>>);

impl LockedQueue<'_> {
    /// Returns transactions and subtransactions that committed and are not published.
    pub(crate) fn xids(&self) -> impl Iterator<Item = Xid> {
        self.0.iter().flat_map(|commit| commit.subxids.iter().copied().chain([commit.xid]))
    }
}
