//! Line pointers that no index names any more, as the indexes report while they delete entries.
//!
//! A root that is DEAD keeps its line pointer until every index entry for it is gone. Vacuum
//! ensures that by visiting every index. Between two vacuums, indexes delete entries by themselves,
//! leaf by leaf. Each deletion reports the roots for which the index has no entry any more. A root
//! that all indexes of the table have reported is free. The next pass over its page frees the line
//! pointer, with the usual log record. So an update that needs an entry in every index does not
//! cost its page a line pointer for good.
//!
//! ```text
//! page 17   root 4: index a                   root 9: indexes a, b, c   freed by the next pass
//! page 18   root 2: indexes a, c
//! ```
//!
//! Why nothing is freed too early (X4; rules `complete-record`, `one-cleaner` and `index-build`):
//! - A root that is not `mixed` has one entry in an index, at most. The index reports the root
//!   under the latch of the leaf from which that entry goes. All versions of the root are dead to
//!   all snapshots then, so no entry for the root comes again.
//! - As long as an index has its entry, it has not reported the root, so the root was not freed. So
//!   the known reports belong to the root as it is now. A report about a freed root is forgotten
//!   under the page's latch.
//! - A [`crate::FreeingPaused`] protects tasks that remember roots for long. These are vacuum,
//!   between collecting and freeing, and an index build, from its reading of the heap until all
//!   writers know the index. A transaction that drops an index holds one too, because a rollback
//!   brings the index back. A change of indexes forgets all reports.
//! - A change that is rolled back leaves the reports from before valid
//!   ([`crate::FreeingPaused::undone`]). While the change lasted, nothing was reported, and no
//!   removed version was cleaned up, on the basis of the indexes of that time.
//! - Reports for another set of indexes than the table has now are forgotten. Only writers report;
//!   they hold the table's lock, and so know its indexes.
//!
//! The reports are in memory and bounded, and may be lost at any time: vacuum frees what is
//! forgotten.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_storage::{BlockNumber, RelFileId, Tid};

/// The most indexes of a table for which reports are kept, because [`Root::reported`] has one bit
/// for each index.
const INDEXES_MAX: usize = u16::BITS as usize;
/// Number of parts of the reports. Each part has its own lock; the block number selects the part.
const PARTS: usize = 16;
/// The most roots that a part remembers, 4 bytes each. At this limit the part forgets all and
/// begins anew.
const ROOTS_MAX: usize = 1 << 18;

/// The reports about one heap's roots.
#[derive(Debug, Default)]
pub(crate) struct UnreferencedRoots {
    /// Number of [`crate::FreeingPaused`] that exist for this heap.
    pub(crate) paused: AtomicU32,
    /// Number of transactions that have changed the table's indexes and whose end is still open.
    pub(crate) changing: AtomicU32,
    parts: [Mutex<Part>; PARTS],
}

#[derive(Debug, Default)]
struct Part {
    /// The table's indexes, as the reporting writers know them.
    indexes: Arc<[RelFileId]>,
    blocks: HashMap<BlockNumber, Vec<Root>>,
    /// Number of roots of all blocks together.
    roots: usize,
}

#[derive(Clone, Copy, Debug)]
struct Root {
    offset: u16,
    /// Indexes that have no entry for the root, as bits by position.
    reported: u16,
}

impl Part {
    /// Asserts that all counted roots lie in blocks, and that each block has a root.
    fn assert_state(&self) {
        debug_assert!(self.roots >= self.blocks.len(), "a block has no root");
        debug_assert_eq!(self.roots == 0, self.blocks.is_empty(), "roots without a block");
        debug_assert!(self.roots < ROOTS_MAX + usize::from(u16::MAX), "{} roots", self.roots);
        debug_assert!(self.indexes.len() <= INDEXES_MAX, "{} indexes", self.indexes.len());
    }

    fn forget_all(&mut self) {
        self.blocks.clear();
        self.roots = 0;
        self.assert_state();
    }
}

impl UnreferencedRoots {
    fn part(&self, block: BlockNumber) -> &Mutex<Part> {
        &self.parts[block.0 as usize % PARTS]
    }

    /// Records that an index has no entry for these roots any more. `position` is the index's
    /// position among all indexes of the table.
    pub(crate) fn note(&self, indexes: &Arc<[RelFileId]>, position: usize, roots: &[Tid]) {
        if indexes.len() > INDEXES_MAX {
            return;
        }
        debug_assert!(position < indexes.len(), "{position} of {} indexes", indexes.len());
        for same in roots.chunk_by(|a, b| a.block == b.block) {
            let block = same[0].block;
            let mut part = self.part(block).lock();
            if !Arc::ptr_eq(&part.indexes, indexes) {
                if part.indexes != *indexes {
                    part.forget_all();
                }
                part.indexes = Arc::clone(indexes);
            }
            if part.roots >= ROOTS_MAX {
                part.forget_all();
            }
            let Part { blocks, roots: count, .. } = &mut *part;
            let known = blocks.entry(block).or_default();
            for root in same {
                let offset = root.offset.0;
                let reported = 1 << position;
                if let Some(root) = known.iter_mut().find(|root| root.offset == offset) {
                    root.reported |= reported;
                } else {
                    known.push(Root { offset, reported });
                    *count += 1;
                }
            }
            part.assert_state();
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        // SeqCst: a cleaner raises the counter before it latches the page, and every thread that
        // latches the page later sees this.
        self.paused.load(Ordering::SeqCst) > 0 && !seeded_bug!("freed-beside-a-cleaner")
    }

    /// Returns whether a transaction is changing the indexes: they may become others, or the former
    /// ones again.
    pub(crate) fn is_changing(&self) -> bool {
        // SeqCst, as for `paused`.
        self.changing.load(Ordering::SeqCst) > 0
    }

    /// Returns roots of a block that no index names. Returns none if line pointers must not be
    /// freed now.
    pub(crate) fn on(&self, block: BlockNumber) -> Vec<u16> {
        if self.is_paused() {
            return Vec::new();
        }
        let part = self.part(block).lock();
        part.assert_state();
        let all = ((1u32 << part.indexes.len()) - 1) as u16;
        let is_free = |root: &&Root| {
            root.reported == all || (seeded_bug!("freed-after-one-index") && root.reported != 0)
        };
        let known = part.blocks.get(&block).into_iter().flatten();
        known.filter(is_free).map(|root| root.offset).collect()
    }

    /// Forgets roots of a block that were freed.
    pub(crate) fn forget(&self, block: BlockNumber, offsets: &[u16]) {
        let mut part = self.part(block).lock();
        let Part { blocks, roots, .. } = &mut *part;
        let Some(known) = blocks.get_mut(&block) else { return };
        let before = known.len();
        known.retain(|root| !offsets.contains(&root.offset));
        *roots -= before - known.len();
        if known.is_empty() {
            blocks.remove(&block);
        }
        part.assert_state();
    }

    /// Forgets the reports about the pages from `first` on, which the heap no longer has.
    pub(crate) fn forget_from(&self, first: BlockNumber) {
        for part in &self.parts {
            let mut part = part.lock();
            part.blocks.retain(|block, _| *block < first);
            part.roots = part.blocks.values().map(Vec::len).sum();
            part.assert_state();
        }
    }

    /// Forgets all reports, because the table has other indexes. Returns the number of forgotten
    /// roots.
    pub(crate) fn forget_all(&self) -> usize {
        let mut roots = 0;
        for part in &self.parts {
            let mut part = part.lock();
            roots += part.roots;
            part.forget_all();
        }
        roots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tid(block: u32, offset: u16) -> Tid {
        Tid::new(block, offset)
    }

    fn files(numbers: &[u64]) -> Arc<[RelFileId]> {
        numbers.iter().map(|&number| RelFileId(number)).collect()
    }

    #[test]
    fn free_is_what_all_indexes_told_of() {
        let unreferenced = UnreferencedRoots::default();
        let indexes = files(&[7, 8, 9]);
        unreferenced.note(&indexes, 0, &[tid(1, 4), tid(1, 5), tid(17, 4)]);
        unreferenced.note(&indexes, 2, &[tid(1, 5), tid(1, 4)]);
        assert!(unreferenced.on(BlockNumber(1)).is_empty());
        unreferenced.note(&indexes, 1, &[tid(1, 5)]);
        assert_eq!(unreferenced.on(BlockNumber(1)), [5]);
        assert!(unreferenced.on(BlockNumber(17)).is_empty());
        unreferenced.forget(BlockNumber(1), &[5, 6]);
        assert!(unreferenced.on(BlockNumber(1)).is_empty());
        unreferenced.note(&indexes, 1, &[tid(1, 4)]);
        assert_eq!(unreferenced.on(BlockNumber(1)), [4]);
        unreferenced.forget_all();
        assert!(unreferenced.on(BlockNumber(1)).is_empty());
    }

    #[test]
    #[should_panic(expected = "roots without a block")]
    #[cfg(debug_assertions)]
    fn roots_lie_in_blocks() {
        Part { roots: 1, ..Part::default() }.assert_state();
    }

    #[test]
    fn other_indexes_begin_anew() {
        let unreferenced = UnreferencedRoots::default();
        unreferenced.note(&files(&[7, 8]), 0, &[tid(1, 4)]);
        // The same indexes, reported by a table that was opened anew.
        unreferenced.note(&files(&[7, 8]), 1, &[tid(1, 4)]);
        assert_eq!(unreferenced.on(BlockNumber(1)), [4]);
        unreferenced.note(&files(&[7, 8, 9]), 2, &[tid(1, 4)]);
        assert!(unreferenced.on(BlockNumber(1)).is_empty());
        let many: Vec<u64> = (0..20).collect();
        for position in 0..20 {
            unreferenced.note(&files(&many), position, &[tid(1, 4)]);
        }
        assert!(unreferenced.on(BlockNumber(1)).is_empty(), "more indexes than it works with");
    }
}
