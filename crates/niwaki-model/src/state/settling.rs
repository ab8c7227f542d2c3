//! Counts of removed versions whose entries are not cleaned up yet.

use std::collections::BTreeMap;

use crate::state::heap::{Tid, Values};

/// The state of settling.
#[derive(Default)]
pub(crate) struct Settling {
    /// Counts of roots that became mixed, or lost their last version, while they were watched.
    pub(crate) counts: BTreeMap<Tid, Count>,
    /// Versions removed from these roots.
    pub(crate) queue: Vec<Removed>,
    /// Number of counts begun so far.
    pub(crate) begun: u64,
    /// Number of versions that came to each root (root change counter).
    pub(crate) arrivals: BTreeMap<Tid, u64>,
    /// The last versions that the running pass removed from roots that are not mixed.
    pub(crate) last: BTreeMap<Tid, Values>,
}

pub(crate) struct Count {
    /// Number of the count, because line pointers are used again.
    pub(crate) id: u64,
    /// Removed versions whose entries are not cleaned up yet.
    pub(crate) unseen: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Removed {
    pub(crate) root: Tid,
    pub(crate) count: Option<u64>,
    pub(crate) values: Values,
    /// The finding of the pass that removed the version.
    pub(crate) seen: Option<Seen>,
}

#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// A bit for each index in which no remaining version has the removed version's key.
    pub(crate) left: u8,
    /// Number of versions that had come to the root.
    pub(crate) arrived: u64,
}

impl Settling {
    /// Begins a count: the root becomes mixed, or has no version any more.
    pub(crate) fn begin(&mut self, root: Tid) {
        self.begun += 1;
        self.counts.insert(root, Count { id: self.begun, unseen: 0 });
    }

    /// Ends a count: the root is no longer mixed, or no longer a root.
    pub(crate) fn end(&mut self, root: Tid) {
        self.counts.remove(&root);
    }

    /// Ends all counts: the set of indexes changed, or a crash lost the memory.
    pub(crate) fn end_all(&mut self) {
        self.counts.clear();
    }

    pub(crate) fn remove(&mut self, root: Tid, values: Values, lost: bool) {
        let count = self.counts.get_mut(&root).map(|count| {
            count.unseen += 1;
            count.id
        });
        if !lost {
            self.queue.push(Removed { root, count, values, seen: None });
        }
    }

    /// Counts a removed version as cleaned up. With `own`, only if it was counted under the same
    /// count.
    pub(crate) fn see(&mut self, removed: &Removed, own: bool) {
        if let Some(count) = self.counts.get_mut(&removed.root)
            && (Some(count.id) == removed.count || !own)
        {
            assert!(count.unseen > 0 || !own, "seen to more often than removed");
            count.unseen = count.unseen.saturating_sub(1);
        }
    }
}
