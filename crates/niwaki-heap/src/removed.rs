//! Versions that passes removed and that left something behind elsewhere: what the gardener works off.
//!
//! An index may have an entry with the key of a version of a mixed root, for its root, that no version has any
//! more, and has those of a root that is DEAD, or a stub that leads to another page; and the pieces of values out of line lie in another heap. A pass
//! knows the version's bytes last. Which keys it has that no version of its chain keeps the table says at once
//! (`observer.rs`), where stored bytes tell: both are in the page that is latched. Where they do not, the version is
//! copied here; its keys, and where the pieces are, is found out later, where nothing is latched (rule 9b.16).
//! Keys may be made of values out of line: whoever has read them gives up the pieces.
//!
//! It is in memory and bounded, and may be lost at any time: entries that are forgotten lead to chains whose
//! versions have other keys, which recheck passes over, until vacuum takes them away; and so it does with
//! pieces.

use std::collections::VecDeque;

use niwaki_env::SIMULATED;
use niwaki_env::sometimes;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, Mixed, OffsetNumber, Tid, Xid};

use crate::counters::count;
use crate::header::{NO_LINK, flags};
use crate::observer::KeysLeft;
use crate::outcome::VersionRow;
use crate::page::{self, Chain};
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
    /// The root's record, which counts it until [`Heap::seen_to`].
    pub record: Option<RecordId>,
    /// Nothing was left of its chain when it went: no version there can have its key.
    pub was_last: bool,
    /// Some value of it lies out of line: who takes it gives it to [`Heap::give_up_pieces`], once
    /// its keys are read.
    pub has_external: bool,
    /// What it was.
    pub row: VersionRow,
}

/// Rows of a heap of pieces that one transaction inserted and one ended. They can go when that has
/// committed, and the last snapshot in their life is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRows {
    /// Who inserted them: with their addresses this tells them from rows that come later.
    pub inserter: Xid,
    /// Where they are.
    pub rows: Vec<Tid>,
}

/// What is kept of a version takes so much memory.
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

/// What waits for the gardener, of one heap.
#[derive(Debug, Default)]
pub(crate) struct RemovedVersions {
    /// Versions whose roots are mixed, or have none any more.
    indexed: Queue<RemovedVersion>,
    /// Versions with values out of line, of which nobody reads keys any more.
    external: Queue<VersionRow>,
    /// Of a heap of pieces: rows that will go.
    ended: Queue<EndedRows>,
    /// Entries of which the table was told at once, since somebody asked; a hint.
    told: AtomicUsize,
}

/// A bounded queue of versions.
#[derive(Debug)]
struct Queue<V> {
    waiting: Mutex<Waiting<V>>,
    /// How many there are; a hint.
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
    /// Appends what there is room for; returns how many there was none for.
    fn push(&self, versions: Vec<V>) -> usize {
        if versions.is_empty() {
            return 0;
        }
        let mut waiting = self.waiting.lock();
        let mut forgotten = 0;
        if SIMULATED && sometimes!(1, 64) {
            // All of it is lost, as it may be at any time.
            forgotten = waiting.versions.len();
            *waiting = Waiting { versions: VecDeque::new(), bytes: 0 };
        }
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
    /// Tells the table of those of the `removed` versions of a page that may leave index entries behind, and counts what
    /// it is to see to in their roots' records; returns copies of those that it can only judge later: all whose roots are
    /// mixed; and of each other root in `ended` (with the last version of its
    /// chain) that one, which has the keys of all its entries: the record begins with it (`records.rs`). Not the last
    /// one removed: versions of aborted updates, whose root it is too, may have other keys in an index that was built
    /// later. They are on the page still, and go before its latch is released.
    ///
    /// Returns copies of the other versions with values out of line, too.
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
                // Nothing stays of the others.
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
            // With this version to see to: a record without one would say that nothing is left.
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

    /// These versions are gone, and logged so.
    pub(crate) fn tell_removed(&self, indexed: Vec<RemovedVersion>, external: Vec<VersionRow>) {
        self.remember_removed(indexed);
        self.relation.shared.removed.external.push(external);
    }

    /// Takes back versions that were handed out and whose entries are still there: they wait again.
    pub fn remember_removed(&self, versions: Vec<RemovedVersion>) {
        let forgotten = self.relation.shared.removed.indexed.push(versions);
        count(&self.relation.counters.forgotten, forgotten);
    }

    /// About how many removed versions wait for the gardener.
    #[inline]
    pub fn removed_waiting(&self) -> usize {
        self.relation.shared.removed.indexed.count.load(Ordering::Relaxed)
    }

    /// Whether they take half of the room that there is for them.
    pub fn removed_is_half_full(&self) -> bool {
        self.relation.shared.removed.indexed.is_half_full()
    }

    /// About how many entries the table was told of at once, for whom nobody has called [`Heap::take_told`].
    #[inline]
    pub fn entries_told(&self) -> usize {
        self.relation.shared.removed.told.load(Ordering::Relaxed)
    }

    /// Somebody sees to as many entries; how many there were of these.
    pub fn take_told(&self, most: usize) -> usize {
        let told = &self.relation.shared.removed.told;
        let less = |told: usize| Some(told.saturating_sub(most));
        // Always `Ok`.
        let before = told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.unwrap_or_default().min(most)
    }

    /// Hands out at most `most` of those that wait, oldest first. The caller removes their entries,
    /// then the pieces of their values.
    pub fn take_removed(&self, most: usize) -> Vec<RemovedVersion> {
        self.relation.shared.removed.indexed.take(most)
    }

    /// Nobody reads keys of this removed version any more: the pieces of its values may go.
    pub fn give_up_pieces(&self, version: VersionRow) {
        self.relation.shared.removed.external.push(vec![version]);
    }

    /// Remembers rows of a heap of pieces that will go.
    pub fn note_ended(&self, rows: EndedRows) {
        self.relation.shared.removed.ended.push(vec![rows]);
    }

    /// About how many lists of such rows wait for the gardener.
    #[inline]
    pub fn ended_waiting(&self) -> usize {
        self.relation.shared.removed.ended.count.load(Ordering::Relaxed)
    }

    /// Hands out at most so many lists of such rows, oldest first; those that cannot go yet are to be noted again.
    pub fn take_ended(&self, most: usize) -> Vec<EndedRows> {
        self.relation.shared.removed.ended.take(most)
    }

    /// About how many removed versions with values out of line wait for the gardener.
    #[inline]
    pub fn external_waiting(&self) -> usize {
        self.relation.shared.removed.external.count.load(Ordering::Relaxed)
    }

    /// Hands out at most so many of those, oldest first: who takes them sees to the pieces of their values.
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
