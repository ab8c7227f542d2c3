//! Line pointers that no index names any more, as the indexes tell while they delete entries.
//!
//! A root that is DEAD keeps its line pointer until every index entry for it is gone. Vacuum makes sure of
//! that by visiting every index. Between two vacuums indexes delete entries by themselves, leaf by leaf, and
//! each deletion tells of which roots the index has no entry any more. Who was told of by all indexes of the
//! table is free: the next pass over its page frees the line pointer, in the log as any other. So an update
//! that needs an entry in every index costs its page no line pointer for good.
//!
//! ```text
//! page 17   root 4: index a                   root 9: indexes a, b, c   freed by the next pass
//! page 18   root 2: indexes a, c
//! ```
//!
//! Why nothing is freed too early (X4; rules 9b.8, 9b.10, 9b.12):
//! - A root that is not `mixed` has one entry in an index, at most. It is told of under the latch of the leaf
//!   from which that entry goes, when all versions of the root are dead to everyone: none comes again.
//! - As long as an index has its entry it did not tell, so the root was not freed; so what is known belongs
//!   to the root as it is now. What is freed, by whomever, is forgotten under the page's latch.
//! - Who remembers roots for long (vacuum between collecting and freeing, a build between reading the heap
//!   and being known to all writers) holds a [`FreeingPaused`], and so does a transaction that drops an index,
//!   which a rollback brings back; a change of indexes forgets all.
//! - A change that is rolled back leaves what was known before ([`FreeingPaused::undone`]): while
//!   it lasted nobody told of anything, nor saw to removed versions, by the indexes that there were
//!   then.
//! - What was told by other indexes than the table has now is forgotten. Only writers tell, who hold the
//!   table's lock, and so know its indexes.
//!
//! It is in memory and bounded, and may be lost at any time: vacuum frees what is forgotten.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{Mixed, OffsetNumber, RelFileId, Tid};

use crate::counters::{HeapCounters, count};
use crate::records::Begun;
use crate::relation::{Heap, Shared};

/// Most indexes of a table that it works with.
const INDEXES_MAX: usize = u16::BITS as usize;
/// Parts of the memory, each with its own lock, by block.
const PARTS: usize = 16;
/// Most roots that a part remembers, 4 bytes each; then it forgets all and begins anew.
const ROOTS_MAX: usize = 1 << 18;

/// What is known of one heap's roots.
#[derive(Debug, Default)]
pub(crate) struct Unindexed {
    /// How many want no line pointer to be freed.
    paused: AtomicU32,
    /// How many transactions have changed the table's indexes, and nobody knows yet whether they
    /// commit.
    changing: AtomicU32,
    parts: [Mutex<Part>; PARTS],
}

#[derive(Debug, Default)]
struct Part {
    /// The table's indexes, as those who told know them.
    indexes: Arc<[RelFileId]>,
    blocks: HashMap<u32, Vec<Root>>,
    /// Roots of all blocks together.
    roots: usize,
}

#[derive(Clone, Copy, Debug)]
struct Root {
    offset: u16,
    /// Indexes without an entry for it, by position.
    told: u16,
}

impl Part {
    fn forget_all(&mut self) {
        self.blocks.clear();
        self.roots = 0;
    }
}

impl Unindexed {
    fn part(&self, block: u32) -> &Mutex<Part> {
        &self.parts[block as usize % PARTS]
    }

    /// An index, by its position among all of the table, has no entry for these roots any more.
    fn note(&self, indexes: &Arc<[RelFileId]>, position: usize, roots: &[Tid]) {
        if indexes.len() > INDEXES_MAX {
            return;
        }
        for same in roots.chunk_by(|a, b| a.block == b.block) {
            let block = same[0].block.0;
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
                let told = 1 << position;
                match known.iter_mut().find(|root| root.offset == offset) {
                    Some(root) => root.told |= told,
                    None => {
                        known.push(Root { offset, told });
                        *count += 1;
                    }
                }
            }
        }
    }

    fn is_paused(&self) -> bool {
        // SeqCst: a cleaner that raised it before it latched the page is seen by whoever latches it later.
        self.paused.load(Ordering::SeqCst) > 0 && !seeded_bug!("freed-beside-a-cleaner")
    }

    /// Whether the indexes may turn out to be others, or those of before.
    pub(crate) fn is_changing(&self) -> bool {
        // SeqCst, as for `paused`.
        self.changing.load(Ordering::SeqCst) > 0
    }

    /// Roots of a block that no index names, unless line pointers must not be freed now.
    fn on(&self, block: u32) -> Vec<u16> {
        if self.is_paused() {
            return Vec::new();
        }
        let part = self.part(block).lock();
        let all = ((1u32 << part.indexes.len()) - 1) as u16;
        let is_free = |root: &&Root| {
            root.told == all || (seeded_bug!("freed-after-one-index") && root.told != 0)
        };
        let known = part.blocks.get(&block).into_iter().flatten();
        known.filter(is_free).map(|root| root.offset).collect()
    }

    /// These were freed.
    fn forget(&self, block: u32, offsets: &[u16]) {
        let mut part = self.part(block).lock();
        let Part { blocks, roots, .. } = &mut *part;
        let Some(known) = blocks.get_mut(&block) else { return };
        let before = known.len();
        known.retain(|root| !offsets.contains(&root.offset));
        *roots -= before - known.len();
        if known.is_empty() {
            blocks.remove(&block);
        }
    }

    /// The heap has no pages from `first` on any more.
    pub(crate) fn forget_from(&self, first: u32) {
        for part in &self.parts {
            let mut part = part.lock();
            part.blocks.retain(|block, _| *block < first);
            part.roots = part.blocks.values().map(Vec::len).sum();
        }
    }

    /// The table has other indexes. Returns how many roots are forgotten.
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

/// While it lives no line pointer of the heap is freed, and no root cleared of `mixed`, but by its holder.
#[derive(Debug)]
pub struct FreeingPaused {
    shared: Arc<Shared>,
    counters: Arc<HeapCounters>,
    forgets: bool,
    changes: bool,
    /// Records that begin later know the new index.
    until: Option<Begun>,
}

impl FreeingPaused {
    /// For a transaction that changes the table's indexes while nobody else writes to it, until it
    /// ends. Nobody is told of removed versions meanwhile, nor sees to them: they wait, copied. As
    /// [`FreeingPaused::forgetting`] at the end, except if that is [`FreeingPaused::undone`].
    #[must_use]
    pub fn changing(mut self) -> Self {
        (self.forgets, self.changes) = (true, true);
        // In this order: who sets an observer asks under the lock that this takes then.
        self.shared.unindexed.changing.fetch_add(1, Ordering::SeqCst);
        self.shared.records.end_epoch();
        self
    }

    /// The index that comes is built: what is removed from now on is known to be in it.
    pub fn built(&mut self) {
        self.until = Some(self.shared.records.begun());
    }

    /// The transaction is rolled back: the indexes are those of before, and what was known of them
    /// holds.
    pub fn undone(mut self) {
        self.forgets &= !self.changes;
    }

    /// For whoever changes the table's indexes: what is known before and meanwhile is forgotten at the end.
    #[must_use]
    pub fn forgetting(mut self) -> Self {
        self.forgets = true;
        self
    }
}

impl Drop for FreeingPaused {
    fn drop(&mut self) {
        if self.forgets {
            let roots = self.shared.unindexed.forget_all();
            let records = match &self.until {
                Some(until) => self.shared.records.end_until(until),
                None => self.shared.records.end_all(),
            };
            // Most are in both. They wait for vacuum now, which is to know that it is wanted.
            count(&self.counters.forgotten, roots.max(records));
        }
        if self.changes {
            self.shared.unindexed.changing.fetch_sub(1, Ordering::SeqCst);
        }
        self.shared.unindexed.paused.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Heap<'_> {
    /// Keeps others from freeing line pointers: for vacuum, from before it collects the first DEAD one until
    /// it freed the last (rule 9b.10), and for index builds (rule 9b.12).
    pub fn pause_freeing(&self) -> FreeingPaused {
        self.relation.shared.unindexed.paused.fetch_add(1, Ordering::SeqCst);
        let (shared, counters) = (&self.relation.shared, &self.relation.counters);
        let (shared, counters) = (shared.clone(), counters.clone());
        FreeingPaused { shared, counters, forgets: false, changes: false, until: None }
    }

    /// Whether a transaction changes the table's indexes ([`FreeingPaused::changing`]).
    pub fn indexes_change(&self) -> bool {
        self.relation.shared.unindexed.is_changing()
    }

    /// Whether somebody does; asked under a page's latch, it lasts until that is released.
    pub(crate) fn is_freeing_paused(&self) -> bool {
        self.relation.shared.unindexed.is_paused()
    }

    /// The index at `position` of all of the table's has no entry for these roots any more, whose versions
    /// are all dead to everyone; none of them is mixed. Told under the latch of the leaf from which the
    /// entries went, by a writer: whoever holds a lock on the table that excludes definitions.
    pub fn note_unindexed(&self, indexes: &Arc<[RelFileId]>, position: usize, roots: &[Tid]) {
        if !self.indexes_change() {
            self.relation.shared.unindexed.note(indexes, position, roots);
        }
    }

    /// Line pointers of a page, latched for writing, that a pass may free.
    pub(crate) fn unindexed_on(&self, page: &Page, block: u32) -> Vec<u16> {
        let mut free = self.relation.shared.unindexed.on(block);
        free.retain(|&offset| {
            let id = page.item_id(OffsetNumber(offset));
            debug_assert!(id.state() != ItemState::Unused, "X4: freed, and not forgotten");
            id.state() == ItemState::Dead && id.mixed() == Mixed::No
        });
        free
    }

    /// Line pointers of a block were freed, under the page's latch.
    pub(crate) fn forget_freed(&self, block: u32, offsets: &[u16]) {
        self.relation.shared.unindexed.forget(block, offsets);
        self.relation.shared.records.end(block, offsets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visibility::{MapOptions, VisibilityMap};

    fn tid(block: u32, offset: u16) -> Tid {
        Tid::new(block, offset)
    }

    fn files(numbers: &[u64]) -> Arc<[RelFileId]> {
        numbers.iter().map(|&number| RelFileId(number)).collect()
    }

    #[test]
    fn free_is_what_all_indexes_told_of() {
        let unindexed = Unindexed::default();
        let indexes = files(&[7, 8, 9]);
        unindexed.note(&indexes, 0, &[tid(1, 4), tid(1, 5), tid(17, 4)]);
        unindexed.note(&indexes, 2, &[tid(1, 5), tid(1, 4)]);
        assert!(unindexed.on(1).is_empty());
        unindexed.note(&indexes, 1, &[tid(1, 5)]);
        assert_eq!(unindexed.on(1), [5]);
        assert!(unindexed.on(17).is_empty());
        unindexed.forget(1, &[5, 6]);
        assert!(unindexed.on(1).is_empty());
        unindexed.note(&indexes, 1, &[tid(1, 4)]);
        assert_eq!(unindexed.on(1), [4]);
        unindexed.forget_all();
        assert!(unindexed.on(1).is_empty());
    }

    #[test]
    fn other_indexes_begin_anew() {
        let unindexed = Unindexed::default();
        unindexed.note(&files(&[7, 8]), 0, &[tid(1, 4)]);
        // The same, told by a table opened anew.
        unindexed.note(&files(&[7, 8]), 1, &[tid(1, 4)]);
        assert_eq!(unindexed.on(1), [4]);
        unindexed.note(&files(&[7, 8, 9]), 2, &[tid(1, 4)]);
        assert!(unindexed.on(1).is_empty());
        let many: Vec<u64> = (0..20).collect();
        for position in 0..20 {
            unindexed.note(&files(&many), position, &[tid(1, 4)]);
        }
        assert!(unindexed.on(1).is_empty(), "more indexes than it works with");
    }

    #[test]
    fn nothing_is_freed_while_somebody_remembers_roots() {
        let map = VisibilityMap::new(MapOptions::default(), Arc::default());
        let shared = Arc::new(Shared::new(map, Arc::default()));
        let counters = Arc::new(HeapCounters::default());
        let indexes = files(&[7]);
        shared.unindexed.note(&indexes, 0, &[tid(1, 4)]);
        let pause = |forgets| {
            shared.unindexed.paused.fetch_add(1, Ordering::SeqCst);
            let (shared, counters) = (Arc::clone(&shared), Arc::clone(&counters));
            FreeingPaused { shared, counters, forgets, changes: false, until: None }
        };
        let (vacuum, other) = (pause(false), pause(false));
        assert!(shared.unindexed.on(1).is_empty());
        drop(vacuum);
        assert!(shared.unindexed.on(1).is_empty());
        drop(other);
        assert_eq!(shared.unindexed.on(1), [4]);
        assert_eq!(counters.read().forgotten, 0);
        let change = pause(false).changing();
        assert!(shared.unindexed.is_changing());
        change.undone();
        assert!(!shared.unindexed.is_changing());
        assert_eq!(shared.unindexed.on(1), [4], "the indexes are those of before");
        drop(pause(false).changing());
        assert!(shared.unindexed.on(1).is_empty() && !shared.unindexed.is_changing());
        assert_eq!(counters.read().forgotten, 1);
        shared.unindexed.note(&indexes, 0, &[tid(1, 4)]);
        drop(pause(true));
        assert!(shared.unindexed.on(1).is_empty());
        assert_eq!(counters.read().forgotten, 2, "vacuum is told of it");
    }
}
