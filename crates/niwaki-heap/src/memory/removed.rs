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
//! the places of its pieces, later and without a latch (rule `bytes-under-latch`). Keys may be made
//! of out-of-line values, so the gardener gives up the pieces after it has read the keys.
//!
//! The queues are in memory and bounded, and may be lost at any time. Forgotten entries lead to
//! chains whose versions have other keys. The recheck skips them, until vacuum removes them; vacuum
//! removes forgotten pieces too.

use std::collections::VecDeque;

use niwaki_env::SIMULATED;
use niwaki_env::sometimes;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::{Tid, Xid};

use crate::format::rows::VersionRow;
use crate::memory::record_id::RecordId;

/// Memory for the removed versions of a queue, in bytes; later versions are forgotten.
const BYTES_MAX: usize = 1 << 20;

// A queue that is half full still takes the versions of a page.
const _: () = assert!(BYTES_MAX / 2 >= 2 * PAGE_SIZE, "a pass would forget versions");

/// A removed version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedVersion {
    /// Root of the version's chain; may be another row's by now.
    pub root: Tid,
    /// The root's record, which counts it until [`crate::Heap::note_cleaned`].
    pub record: Option<RecordId>,
    /// True if no version of the chain remained after the removal: then no version there can have
    /// its key.
    pub was_last: bool,
    /// Some value of the version lies out of line. The caller that takes the version gives it to
    /// [`crate::Heap::give_up_pieces`], once it has read the keys.
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
pub(crate) trait Size {
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
    pub(crate) indexed: Queue<RemovedVersion>,
    /// Versions with out-of-line values whose keys have been read or do not matter.
    pub(crate) external: Queue<VersionRow>,
    /// Rows of a heap of pieces that will go.
    pub(crate) ended: Queue<EndedRows>,
    /// Number of entries that the table's observer got at once, less the entries that
    /// [`crate::Heap::take_reported`] took. A hint.
    pub(crate) reported: AtomicUsize,
}

/// A bounded queue of versions.
#[derive(Debug)]
pub(crate) struct Queue<V> {
    waiting: Mutex<Waiting<V>>,
    /// The number of waiting elements; a hint.
    pub(crate) count: AtomicUsize,
}

#[derive(Debug)]
struct Waiting<V> {
    versions: VecDeque<V>,
    bytes: usize,
}

impl<V: Size> Waiting<V> {
    /// Asserts that the counted bytes belong to the waiting elements, and keep to their limit.
    fn assert_state(&self) {
        let least = self.versions.len() * size_of::<V>();
        debug_assert!(self.bytes >= least, "{} bytes are less than {least}", self.bytes);
        debug_assert!(self.bytes <= BYTES_MAX, "{} bytes wait", self.bytes);
        debug_assert_eq!(self.bytes == 0, self.versions.is_empty(), "bytes without an element");
    }
}

impl<V> Default for Queue<V> {
    fn default() -> Self {
        let waiting = Waiting { versions: VecDeque::new(), bytes: 0 };
        Self { waiting: Mutex::new(waiting), count: AtomicUsize::new(0) }
    }
}

impl<V: Size> Queue<V> {
    /// Appends the versions for which there is room. Returns the number of forgotten ones.
    pub(crate) fn push(&self, versions: Vec<V>) -> usize {
        if versions.is_empty() {
            return 0;
        }
        let mut waiting = self.waiting.lock();
        waiting.assert_state();
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
        waiting.assert_state();
        self.count.store(waiting.versions.len(), Ordering::Relaxed);
        forgotten
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.waiting.lock().bytes > BYTES_MAX / 2
    }

    pub(crate) fn take(&self, most: usize) -> Vec<V> {
        let mut waiting = self.waiting.lock();
        let count = waiting.versions.len().min(most);
        let taken: Vec<_> = waiting.versions.drain(..count).collect();
        waiting.bytes -= taken.iter().map(V::size).sum::<usize>();
        waiting.assert_state();
        self.count.store(waiting.versions.len(), Ordering::Relaxed);
        taken
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

    #[test]
    #[should_panic(expected = "bytes without an element")]
    #[cfg(debug_assertions)]
    fn bytes_belong_to_elements() {
        Waiting::<VersionRow> { versions: VecDeque::new(), bytes: 1 }.assert_state();
    }
}
