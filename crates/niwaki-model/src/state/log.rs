//! The log, and the pages on disk.

use std::collections::BTreeMap;

use crate::state::heap::Page;
use crate::state::index::{Leaf, Place};
use crate::state::oracle::Writes;
use crate::state::transactions::{Csn, Xid};

/// Number of a record, from 1; 0 is before all records.
pub(crate) type Lsn = usize;

/// A page of either kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PageId {
    Heap(u8),
    Leaf(usize, usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Image {
    Heap(Page),
    Leaf(Leaf),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LogRecord {
    pub(crate) images: Vec<(PageId, Image)>,
    /// Entries whose LP_DEAD hint was taken back.
    pub(crate) revived: Vec<(PageId, Place)>,
    pub(crate) commit: Option<Commit>,
}

#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) csn: Csn,
    pub(crate) xids: Vec<Xid>,
    pub(crate) writes: Writes,
}

/// A commit that is logged and not published (rule `early-release`).
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) csn: Csn,
    pub(crate) xids: Vec<Xid>,
    pub(crate) writes: Writes,
    /// The commit is published only when it is flushed.
    pub(crate) durable: bool,
    /// The commit has definitions, which come into force when it is published.
    pub(crate) late: bool,
    pub(crate) marked: bool,
}

/// The log, and the pages as they were written last. Kept only in runs that crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) kept: bool,
    pub(crate) records: Vec<LogRecord>,
    pub(crate) flushed: Lsn,
    /// The device failed: nothing more becomes durable.
    pub(crate) failed: bool,
    /// Pages that the current step changes.
    pub(crate) changed: Vec<PageId>,
    pub(crate) next: LogRecord,
    /// The last record of each page.
    pub(crate) lsn: BTreeMap<PageId, Lsn>,
    pub(crate) disk: BTreeMap<PageId, (Lsn, Image)>,
    pub(crate) commits: BTreeMap<Csn, Lsn>,
}

impl Log {
    pub(crate) fn page_changed(&mut self, page: u8) {
        self.change(PageId::Heap(page));
    }

    pub(crate) fn leaf_changed(&mut self, index: usize, leaf: usize) {
        self.change(PageId::Leaf(index, leaf));
    }

    fn change(&mut self, page: PageId) {
        if self.kept && !self.changed.contains(&page) {
            self.changed.push(page);
        }
    }

    pub(crate) fn commit(&mut self, csn: Csn, xids: &[Xid], writes: &Writes) {
        if self.kept {
            let (xids, writes) = (xids.to_vec(), writes.clone());
            self.next.commit = Some(Commit { csn, xids, writes });
        }
    }

    pub(crate) fn flush_commit(&mut self, csn: Csn) {
        if let Some(lsn) = self.commits.get(&csn).filter(|_| !self.failed) {
            self.flushed = self.flushed.max(*lsn);
        }
    }

    pub(crate) fn flush(&mut self) {
        self.flushed = self.records.len();
    }

    /// Returns whether a commit would survive a crash now. Without a log there are no crashes.
    pub(crate) fn has_commit(&self, csn: Csn) -> bool {
        self.commits.get(&csn).is_none_or(|lsn| *lsn <= self.flushed)
    }

    /// Returns whether the last change of a heap page would survive a crash now.
    pub(crate) fn has_page(&self, page: u8) -> bool {
        self.lsn.get(&PageId::Heap(page)).is_none_or(|lsn| *lsn <= self.flushed)
    }
}
