//! Versions of mixed roots that passes removed: what the gardener works off.
//!
//! An index may have an entry with the key of such a version, for its root, that no version has any more. A pass
//! knows the version's bytes last, so it copies them here; which keys they have is found out later, where
//! nothing is latched (rule 9b.16).
//!
//! It is in memory and bounded, and may be lost at any time: entries that are forgotten lead to chains whose
//! versions have other keys, which recheck passes over, until vacuum takes them away.

use std::collections::VecDeque;

use niwaki_env::failpoints::SIMULATED;
use niwaki_env::sometimes;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, Mixed, OffsetNumber, Tid};

use crate::counters::count;
use crate::header::flags;
use crate::outcome::VersionRow;
use crate::page;
use crate::read::row_ref;
use crate::records::RecordId;
use crate::relation::Heap;

/// Most bytes of versions that are kept for a heap; what comes then is forgotten.
const BYTES_MAX: usize = 1 << 20;

/// A version that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedVersion {
    /// Root of its chain; may be another row's by now.
    pub root: Tid,
    /// The root's record, which counts it.
    pub record: Option<RecordId>,
    /// What it was.
    pub row: VersionRow,
}

impl RemovedVersion {
    fn size(&self) -> usize {
        size_of::<Self>() + self.row.bytes.len()
    }
}

/// Versions that wait for the gardener, of one heap.
#[derive(Debug, Default)]
pub(crate) struct RemovedVersions {
    waiting: Mutex<Waiting>,
    /// How many there are; a hint.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    versions: VecDeque<RemovedVersion>,
    bytes: usize,
}

impl RemovedVersions {
    /// Appends what there is room for; returns how many there was none for.
    fn push(&self, versions: Vec<RemovedVersion>) -> usize {
        let mut waiting = self.waiting.lock();
        let mut forgotten = 0;
        for version in versions {
            // Simulations lose some too.
            if waiting.bytes + version.size() > BYTES_MAX || (SIMULATED && sometimes!(1, 16)) {
                forgotten += 1;
                continue;
            }
            waiting.bytes += version.size();
            waiting.versions.push_back(version);
        }
        self.count.store(waiting.versions.len(), Ordering::Relaxed);
        forgotten
    }

    fn take(&self, most: usize) -> Vec<RemovedVersion> {
        let mut waiting = self.waiting.lock();
        let count = waiting.versions.len().min(most);
        let taken: Vec<_> = waiting.versions.drain(..count).collect();
        waiting.bytes -= taken.iter().map(RemovedVersion::size).sum::<usize>();
        self.count.store(waiting.versions.len(), Ordering::Relaxed);
        taken
    }
}

impl Heap<'_> {
    /// Copies those of these versions of a page whose roots are mixed, and counts them in their roots' records. They
    /// are on the page still, and go before its latch is released.
    pub(crate) fn copy_mixed(
        &self,
        page: &Page,
        block: BlockNumber,
        removed: &[u16],
    ) -> Vec<RemovedVersion> {
        let copy = |&offset: &u16| {
            let tuple = page::tuple(page, offset).filter(|tuple| !tuple.has(flags::STUB))?;
            let root = if tuple.has(flags::HEAP_ONLY) { tuple.root() } else { offset };
            let root = Tid { block, offset: OffsetNumber(root) };
            let mixed = page.item_id(root.offset).mixed() != Mixed::No;
            mixed.then(|| {
                let record = self.relation.shared.records.removed(root);
                RemovedVersion { root, record, row: row_ref(page, root, tuple).into() }
            })
        };
        removed.iter().filter_map(copy).collect()
    }

    /// These versions are gone, and logged so.
    pub(crate) fn tell_removed(&self, versions: Vec<RemovedVersion>) {
        if !versions.is_empty() {
            let forgotten = self.relation.shared.removed.push(versions);
            count(&self.relation.counters.forgotten, forgotten);
        }
    }

    /// About how many removed versions wait for the gardener.
    #[inline]
    pub fn removed_waiting(&self) -> usize {
        self.relation.shared.removed.count.load(Ordering::Relaxed)
    }

    /// Hands out at most so many of those that wait, oldest first: who takes them sees to their entries.
    pub fn take_removed(&self, most: usize) -> Vec<RemovedVersion> {
        self.relation.shared.removed.take(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_forgotten() {
        let removed = RemovedVersions::default();
        let version = |offset| RemovedVersion {
            root: Tid::new(1, offset),
            record: None,
            row: VersionRow { natts: 1, has_nulls: false, bytes: vec![0; 8000] },
        };
        let forgotten: usize = (0..200).map(|offset| removed.push(vec![version(offset)])).sum();
        let count = removed.count.load(Ordering::Relaxed);
        assert_eq!(forgotten, 200 - count);
        assert!((100..140).contains(&count), "{count}");
        let first = removed.take(count - 1);
        assert_eq!(first.len(), count - 1);
        assert_eq!(usize::from(first[count - 2].root.offset.0), count - 2, "the first ones stay");
        assert_eq!(removed.take(usize::MAX), [version(count as u16 - 1)]);
        assert_eq!(removed.waiting.lock().bytes, 0);
    }
}
