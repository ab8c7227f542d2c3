//! Queues of removed versions that may have left index entries or out-of-line values behind.
//!
//! The gardener works these queues off. An index may have an entry for a mixed root (a root with
//! several keys) whose key belongs to a removed version only. An index has entries for a root that
//! is DEAD, or for a stub that leads to another page. The pieces of out-of-line values (TOAST
//! chunks) lie in another heap.
//!
//! A pass is the last to see the version's bytes. Where stored bytes show the keys, the table finds
//! at once the keys that no remaining version of the chain has (`observer.rs`). All these bytes are
//! on the latched page. Otherwise, the version is copied here. The gardener finds out its keys, and
//! the places of its pieces, later and without a latch (rule 9b.16). Keys may be made of
//! out-of-line values, so the gardener gives up the pieces after it has read the keys.
//!
//! The queues are in memory and bounded, and may be lost at any time. Forgotten entries lead to
//! chains whose versions have other keys. The recheck skips them, until vacuum removes them; vacuum
//! removes forgotten pieces too.

use std::collections::VecDeque;

use niwaki_env::SIMULATED;
use niwaki_env::sometimes;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, Mixed, OffsetNumber, Tid, Xid};

use crate::format::header::{NO_LINK, flags};
use crate::format::page::{self, Chain};
use crate::format::rows::{VersionRow, row_ref};
use crate::memory::counters::count;
use crate::memory::observer::KeysLeft;
use crate::memory::record_id::RecordId;
use crate::relation::Heap;

/// Memory for the removed versions of a queue, in bytes; later versions are forgotten.
const BYTES_MAX: usize = 1 << 20;

/// A removed version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedVersion {
    /// Root of the version's chain; may be another row's by now.
    pub root: Tid,
    /// The root's record, which counts it until [`Heap::seen_to`].
    pub record: Option<RecordId>,
    /// True if no version of the chain remained after the removal: then no version there can have
    /// its key.
    pub was_last: bool,
    /// Some value of the version lies out of line. The caller that takes the version gives it to
    /// [`Heap::give_up_pieces`], once it has read the keys.
    pub has_external: bool,
    /// Contents of the version.
    pub row: VersionRow,
}

/// Rows of a heap of pieces (TOAST chunks) that one transaction inserted and one ended. They can go
/// when the ending transaction has committed, and the last snapshot in their lifetime is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRows {
    /// The inserter: together with their addresses, it distinguishes these rows from rows that come
    /// later.
    pub inserter: Xid,
    /// Addresses of the rows.
    pub rows: Vec<Tid>,
}

/// Memory of one queued element, in bytes.
trait Size {
    fn size(&self) -> usize;
}

impl Size for RemovedVersion {
    fn size(&self) -> usize {
        size_of::<Self>() + self.row.bytes.len()
    }
}

impl Size for VersionRow {
    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

impl Size for EndedRows {
    fn size(&self) -> usize {
        size_of::<Self>() + size_of_val(self.rows.as_slice())
    }
}

/// The queues of one heap for the gardener.
#[derive(Debug, Default)]
pub(crate) struct RemovedVersions {
    /// Versions whose roots are mixed, or have no version left.
    indexed: Queue<RemovedVersion>,
    /// Versions with out-of-line values whose keys have been read or do not matter.
    external: Queue<VersionRow>,
    /// Rows of a heap of pieces that will go.
    ended: Queue<EndedRows>,
    /// Number of entries that the table's observer got at once, less the entries that
    /// [`Heap::take_told`] took. A hint.
    told: AtomicUsize,
}

/// A bounded queue of versions.
#[derive(Debug)]
struct Queue<V> {
    waiting: Mutex<Waiting<V>>,
    /// The number of waiting elements; a hint.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Waiting<V> {
    versions: VecDeque<V>,
    bytes: usize,
}

impl<V> Default for Queue<V> {
    fn default() -> Self {
        let waiting = Waiting { versions: VecDeque::new(), bytes: 0 };
        Self { waiting: Mutex::new(waiting), count: AtomicUsize::new(0) }
    }
}

impl<V: Size> Queue<V> {
    /// Appends the versions for which there is room. Returns the number of forgotten ones.
    fn push(&self, versions: Vec<V>) -> usize {
        if versions.is_empty() {
            return 0;
        }
        let mut waiting = self.waiting.lock();
        let mut forgotten = 0;
        if SIMULATED && sometimes!(1, 64) {
            // Simulations lose the whole queue, because it may be lost at any time.
            forgotten = waiting.versions.len();
            *waiting = Waiting { versions: VecDeque::new(), bytes: 0 };
        }
        for version in versions {
            // Simulations also lose single versions.
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

    fn is_half_full(&self) -> bool {
        self.waiting.lock().bytes > BYTES_MAX / 2
    }

    fn take(&self, most: usize) -> Vec<V> {
        let mut waiting = self.waiting.lock();
        let count = waiting.versions.len().min(most);
        let taken: Vec<_> = waiting.versions.drain(..count).collect();
        waiting.bytes -= taken.iter().map(V::size).sum::<usize>();
        self.count.store(waiting.versions.len(), Ordering::Relaxed);
        taken
    }
}

impl Heap<'_> {
    /// Tells the table's observer which index entries the `removed` versions of a page may leave
    /// behind. Counts these entries in the records of their roots.
    ///
    /// Returns copies of the versions that only the gardener can judge later. Candidates are all
    /// removed versions of mixed roots. Of each other root in `ended`, the candidate is the paired
    /// version, the last one of its chain. This version has the keys of all entries of the root,
    /// and the root's record begins with it (`records.rs`). The last *removed* version would be
    /// wrong. A version of an aborted update has the same root, and may have another key in an
    /// index that was built later.
    ///
    /// Also returns copies of the other removed versions with out-of-line values. The versions are
    /// still on the page, and go before its latch is released.
    pub(crate) fn tell_or_copy(
        &self,
        page: &Page,
        block: BlockNumber,
        (removed, ended): (&[u16], &[(u16, u16)]),
        untold: bool,
    ) -> (Vec<RemovedVersion>, Vec<VersionRow>) {
        let is_mixed = |root| page.item_id(OffsetNumber(root)).mixed() != Mixed::No;
        let of_mixed = removed.iter().filter_map(|&offset| {
            let tuple = page::tuple(page, offset)?;
            let root = if tuple.has(flags::HEAP_ONLY) { tuple.root() } else { offset };
            is_mixed(root).then_some((root, offset, true))
        });
        let of_others = ended.iter().filter(|&&(root, _)| !is_mixed(root));
        let of_others = of_others.map(|&(root, offset)| (root, offset, false));
        let records = &self.relation.shared.records;
        let observed = match untold || (SIMULATED && sometimes!(1, 4)) {
            true => None,
            false => records.observers.current(),
        };
        let (mut copies, mut keyed) = (Vec::new(), Vec::new());
        let (mut told, mut versions) = (0, 0);
        let (mut left, mut stay) = (KeysLeft::default(), Vec::new());
        for (root, offset, is_mixed) in of_mixed.chain(of_others) {
            let Some(tuple) = page::tuple(page, offset).filter(|it| !it.has(flags::STUB)) else {
                continue;
            };
            let root = Tid { block, offset: OffsetNumber(root) };
            let row = row_ref(page, root, tuple);
            versions += 1;
            if let Some((epoch, observer)) = &observed {
                left.clear();
                stay.clear();
                // Of the other roots, no version stays.
                if is_mixed {
                    let rest = Chain::new(page, root.offset.0)
                        .filter(|(at, it)| !removed.contains(at) && !it.has(flags::STUB));
                    stay.extend(rest.map(|(_, tuple)| row_ref(page, root, tuple)));
                }
                let next = tuple.link();
                left.moved = stay.is_empty() && next != NO_LINK && next.block != block;
                if observer.keys_left(row, &stay, &mut left)
                    && let Some(record) =
                        records.told(*epoch, root, !is_mixed, &left, observer.payloads_right())
                {
                    observer.suspect(&left, root, record, self.arrived(root));
                    told += left.len();
                    continue;
                }
            }
            // The record counts this version from the start. An empty record would say that no
            // entry is left.
            if !is_mixed {
                records.begin(root);
            }
            let record = records.removed(root);
            if untold {
                continue;
            }
            let was_last = ended.iter().any(|&(of, _)| of == root.offset.0);
            let has_external = tuple.has(flags::HAS_EXTERNAL);
            if has_external {
                keyed.push(offset);
            }
            copies.push(RemovedVersion { root, record, was_last, has_external, row: row.into() });
        }
        if !untold {
            count(&self.relation.counters.told, versions);
        }
        if told > 0 {
            self.relation.shared.removed.told.fetch_add(told, Ordering::Relaxed);
        }
        let copy = |&offset: &u16| {
            let tuple = page::tuple(page, offset).filter(|tuple| tuple.has(flags::HAS_EXTERNAL))?;
            let (natts, has_nulls) = (tuple.natts(), tuple.has(flags::HAS_NULLS));
            Some(VersionRow { natts, has_nulls, bytes: tuple.data().to_vec() })
        };
        let others = removed.iter().filter(|offset| !keyed.contains(offset));
        (copies, others.filter_map(copy).collect())
    }

    /// Queues versions whose removal has happened and is logged.
    pub(crate) fn tell_removed(&self, indexed: Vec<RemovedVersion>, external: Vec<VersionRow>) {
        self.remember_removed(indexed);
        self.relation.shared.removed.external.push(external);
    }

    /// Takes back versions that were handed out and whose entries are still there: they wait again.
    pub fn remember_removed(&self, versions: Vec<RemovedVersion>) {
        let forgotten = self.relation.shared.removed.indexed.push(versions);
        count(&self.relation.counters.forgotten, forgotten);
    }

    /// Returns the approximate number of removed versions that wait for the gardener.
    #[inline]
    pub fn removed_waiting(&self) -> usize {
        self.relation.shared.removed.indexed.count.load(Ordering::Relaxed)
    }

    /// Returns whether the waiting removed versions take half of their memory.
    pub fn removed_is_half_full(&self) -> bool {
        self.relation.shared.removed.indexed.is_half_full()
    }

    /// Returns the approximate number of entries that the observer got at once, and that
    /// [`Heap::take_told`] has not taken.
    #[inline]
    pub fn entries_told(&self) -> usize {
        self.relation.shared.removed.told.load(Ordering::Relaxed)
    }

    /// Subtracts up to `most` entries, which the caller cleans up, from [`Heap::entries_told`].
    /// Returns the number subtracted.
    pub fn take_told(&self, most: usize) -> usize {
        let told = &self.relation.shared.removed.told;
        let less = |told: usize| Some(told.saturating_sub(most));
        // The result is always `Ok`.
        let before = told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.unwrap_or_default().min(most)
    }

    /// Hands out at most `most` waiting versions, oldest first. The caller removes their entries,
    /// then the pieces of their values.
    pub fn take_removed(&self, most: usize) -> Vec<RemovedVersion> {
        self.relation.shared.removed.indexed.take(most)
    }

    /// Allows the pieces of this removed version's values to go, because its keys are not needed
    /// any more.
    pub fn give_up_pieces(&self, version: VersionRow) {
        self.relation.shared.removed.external.push(vec![version]);
    }

    /// Remembers rows of a heap of pieces that will go.
    pub fn note_ended(&self, rows: EndedRows) {
        self.relation.shared.removed.ended.push(vec![rows]);
    }

    /// Returns the approximate number of waiting lists of ended rows.
    #[inline]
    pub fn ended_waiting(&self) -> usize {
        self.relation.shared.removed.ended.count.load(Ordering::Relaxed)
    }

    /// Hands out at most `most` lists of ended rows, oldest first. The caller notes lists again
    /// that cannot go yet.
    pub fn take_ended(&self, most: usize) -> Vec<EndedRows> {
        self.relation.shared.removed.ended.take(most)
    }

    /// Returns the approximate number of removed versions with out-of-line values that wait for the
    /// gardener.
    #[inline]
    pub fn external_waiting(&self) -> usize {
        self.relation.shared.removed.external.count.load(Ordering::Relaxed)
    }

    /// Hands out at most `most` of these versions, oldest first. The caller removes the pieces of
    /// their values.
    pub fn take_external(&self, most: usize) -> Vec<VersionRow> {
        self.relation.shared.removed.external.take(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_forgotten() {
        let removed = Queue::default();
        let version = |offset| RemovedVersion {
            root: Tid::new(1, offset),
            record: None,
            was_last: false,
            has_external: false,
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
