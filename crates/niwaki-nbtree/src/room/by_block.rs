//! Groups the entries of a leaf by the heap block to which each entry leads.
//!
//! A leaf of few keys holds more than a thousand TIDs, but a pass over the leaf visits six heap
//! blocks at most. So nothing is sorted and nothing is copied before the blocks are chosen. One
//! walk over the leaf chains the entries of each block together, by means of a small hash table of
//! blocks.
//!
//! ```text
//! entries   0:(a,17.1)  1:(a,18.2)  2:(b,17.4)  3:(c,90.1)         next     -  -  0  -
//! blocks    17: 2 entries, last 2     18: 1, last 1     90: 1, last 3
//! ```

use niwaki_storage::page::{PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, Lsn, OffsetNumber, Tid};

use crate::error::Result;
use crate::page::change;
use crate::page::entry::EntryPlace;
use crate::page::layout::{IndexPage, LINE_POINTER};
use crate::page::tuple::{LeafTuple, TID_SIZE};
use crate::table::DeletionCandidate;
use crate::tree::index::Index;

/// The end of a chain, or an empty slot of the hash table.
const NONE: u16 = u16::MAX;
// No leaf has as many TIDs.
const _: () = assert!(PAGE_SIZE / TID_SIZE < NONE as usize);

/// One entry of the leaf.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: EntryPlace,
    /// Offset of the entry's TID.
    offset: OffsetNumber,
    promising: bool,
    /// The entry before this one in the chain of its block.
    next: u16,
}

/// A heap block that entries lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapBlock {
    pub(crate) block: BlockNumber,
    /// The number of entries on the block, then how many of them are promising, and marked LP_DEAD.
    pub(crate) entries: u16,
    pub(crate) promising: u16,
    pub(crate) known_dead: u16,
    last: u16,
}

/// The entries of a leaf, chained by heap block; valid as long as the leaf does not change.
pub(crate) struct EntriesByBlock<'a> {
    leaf: &'a Page,
    entries: Vec<Entry>,
    pub(crate) blocks: Vec<HeapBlock>,
    /// Numbers of `blocks` by hash of the block. The length is a power of two, at least twice the
    /// number of entries.
    slots: Vec<u16>,
    /// The number of the block that the last lookup found.
    latest: usize,
}

impl Index {
    /// Returns every entry of a leaf, by heap block.
    ///
    /// Entries with equal keys are promising. At most one entry of a posting list is promising:
    /// where most of the list lies on one heap block, an entry there. So lists, which say little
    /// about dead versions, do not outweigh plain duplicates, which were inserted since.
    pub(crate) fn by_block<'a>(
        &self,
        leaf: &'a Page,
        block: BlockNumber,
    ) -> Result<EntriesByBlock<'a>> {
        let mut found = EntriesByBlock::with_room(leaf);
        // The key of the item before, and the entry of it that is promising if the key comes again.
        let mut before: Option<(&[u8], Option<usize>)> = None;
        for offset in leaf.first_entry()..=leaf.item_count() {
            let item = self.leaf_tuple(leaf, block, offset)?;
            let guess = favourite(&item).map(|place| found.entries.len() + place);
            found.add(&item, offset, change::is_dead(leaf, offset));
            if let Some((key, last)) = before
                && key == item.key
            {
                [last, guess].into_iter().flatten().for_each(|entry| found.promise(entry));
            }
            before = Some((item.key, guess));
        }
        found.assert_state();
        Ok(found)
    }
}

impl<'a> EntriesByBlock<'a> {
    fn with_room(leaf: &'a Page) -> Self {
        // No leaf has more TIDs than fit between its ends.
        let most = leaf.stored_bytes() / TID_SIZE + 1;
        Self {
            leaf,
            entries: Vec::with_capacity(most),
            blocks: Vec::new(),
            slots: vec![NONE; 2 * most.next_power_of_two()],
            latest: 0,
        }
    }

    /// Asserts what holds between two items.
    fn assert_state(&self) {
        debug_assert!(self.slots.len().is_power_of_two(), "a hash is cut by a mask");
        debug_assert!(self.slots.len() >= 2 * self.entries.len(), "half of the slots stay empty");
        debug_assert!(self.blocks.len() <= self.entries.len(), "an entry leads to each block");
        debug_assert!(
            self.latest < self.blocks.len() || self.blocks.is_empty(),
            "the last lookup found a block"
        );
    }

    /// Returns the LSN of the leaf's last logged change.
    pub(crate) fn lsn(&self) -> Lsn {
        self.leaf.lsn()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds the entries of an item.
    fn add(&mut self, item: &LeafTuple<'_>, offset: u16, known_dead: bool) {
        self.entries.reserve(item.tids.len());
        for (place, tid) in (0u8..).zip(item.tids.iter()) {
            let on = self.block_number(tid.block);
            debug_assert!(self.entries.len() < usize::from(NONE), "the number ends no chain");
            let number = self.entries.len() as u16;
            let block = &mut self.blocks[on];
            block.entries += 1;
            block.known_dead += u16::from(known_dead);
            let next = std::mem::replace(&mut block.last, number);
            let at = EntryPlace { offset, place };
            self.entries.push(Entry { at, offset: tid.offset, promising: false, next });
        }
    }

    /// Returns the number of a block in `blocks`; appends the block if it is new.
    #[inline]
    fn block_number(&mut self, block: BlockNumber) -> usize {
        // Mostly neighbours lie on the same block.
        if let Some(same) = self.blocks.get(self.latest)
            && same.block == block
        {
            return self.latest;
        }
        debug_assert!(self.blocks.len() < self.slots.len(), "the search for a slot ends");
        let mask = self.slots.len() - 1;
        // Fibonacci hashing: neighbours go far apart.
        let mut slot = (block.0.wrapping_mul(0x9E37_79B1) >> 12) as usize & mask;
        loop {
            let number = self.slots[slot];
            match self.blocks.get(usize::from(number)) {
                Some(there) if there.block == block => {
                    self.latest = usize::from(number);
                    return self.latest;
                }
                Some(_) => slot = (slot + 1) & mask,
                None => break,
            }
        }
        self.latest = self.blocks.len();
        self.slots[slot] = self.latest as u16;
        self.blocks.push(HeapBlock { block, entries: 0, promising: 0, known_dead: 0, last: NONE });
        self.latest
    }

    fn promise(&mut self, number: usize) {
        debug_assert!(number < self.entries.len(), "only entries that were added are promising");
        let Some(entry) = self.entries.get_mut(number) else { return };
        if std::mem::replace(&mut entry.promising, true) {
            return;
        }
        let tid = LeafTuple::decode(self.leaf.tuple(entry.at.offset))
            .and_then(|item| item.tids.get(usize::from(entry.at.place)));
        if let Some(tid) = tid {
            let on = self.block_number(tid.block);
            let block = &mut self.blocks[on];
            block.promising += 1;
            debug_assert!(block.promising <= block.entries, "each entry promises once");
        }
    }

    fn chain(&self, on: &HeapBlock) -> impl Iterator<Item = &Entry> {
        let entry = |number: u16| self.entries.get(usize::from(number));
        std::iter::successors(entry(on.last), move |before| entry(before.next))
    }

    /// Replaces the contents of `into` by the offsets of the TIDs on a block, in no order.
    pub(crate) fn offsets(&self, on: &HeapBlock, into: &mut Vec<OffsetNumber>) {
        into.clear();
        into.extend(self.chain(on).map(|entry| entry.offset));
        debug_assert_eq!(into.len(), usize::from(on.entries), "all entries are on the chain");
    }

    /// Returns the entries on a block whose offsets `are_wanted`, as candidates for the table,
    /// ascending. No candidate is judged yet.
    pub(crate) fn candidates(
        &self,
        on: &HeapBlock,
        are_wanted: impl Fn(OffsetNumber) -> bool,
    ) -> Vec<DeletionCandidate<'a>> {
        let mut candidates: Vec<DeletionCandidate<'a>> = self
            .chain(on)
            .filter(|entry| are_wanted(entry.offset))
            .filter_map(|entry| {
                let item = LeafTuple::decode(self.leaf.tuple(entry.at.offset))?;
                Some(DeletionCandidate {
                    key: item.key,
                    tid: Tid { block: on.block, offset: entry.offset },
                    known_dead: change::is_dead(self.leaf, entry.at.offset),
                    promising: entry.promising,
                    bytes: freed_by_entry(self.leaf, entry.at.offset, &item),
                    deletable: false,
                    at: entry.at,
                })
            })
            .collect();
        debug_assert!(
            candidates.len() <= usize::from(on.entries),
            "each entry is asked about once"
        );
        candidates.sort_unstable_by_key(|candidate| (candidate.tid.offset, candidate.at));
        candidates
    }
}

/// Returns the bytes that the removal of one entry of an item frees.
fn freed_by_entry(leaf: &Page, offset: u16, item: &LeafTuple<'_>) -> u16 {
    let bytes = if item.is_posting() { TID_SIZE } else { leaf.tuple(offset).len() + LINE_POINTER };
    debug_assert!(bytes <= PAGE_SIZE, "an item of the leaf has these bytes");
    bytes as u16
}

/// Chooses the entry that stands for an item. For a plain item this is its own entry. For a posting
/// list that lies mostly on one heap block, it is an entry there.
fn favourite(item: &LeafTuple<'_>) -> Option<usize> {
    if !item.is_posting() {
        return Some(0);
    }
    let last = item.tids.len() - 1;
    let block = |place: usize| item.tids.get(place).map(|tid| tid.block);
    let middle = block(last / 2);
    if middle == block(0) {
        Some(0)
    } else if middle == block(last) {
        Some(last)
    } else {
        None
    }
}

// Locks of the deterministic scheduler work inside its runs only.
#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::IndexOptions;
    use crate::page::layout::flag;
    use crate::page::tuple::posting_bytes;

    #[test]
    #[should_panic(expected = "half of the slots stay empty")]
    #[cfg(debug_assertions)]
    fn a_table_without_slots_is_noticed() {
        let mut page = Page::zeroed();
        page.init_index(0, flag::LEAF);
        let mut found = EntriesByBlock::with_room(&page);
        let item = posting_bytes(b"k", &[Tid::new(1, 1), Tid::new(1, 2)]);
        found.add(&LeafTuple::decode(&item).unwrap(), 1, false);
        found.assert_state();
    }

    proptest! {
        /// Every entry is on the chain of its block, once, whatever the hash table does.
        #[test]
        fn every_entry_is_found_by_its_block(
            lists in prop::collection::vec(
                (0u8..4, prop::collection::btree_set((0u32..40, 1u16..5), 1..20)), 1..30),
            stride in prop::sample::select(vec![1u32, 3, 1 << 12, 1 << 20]),
        ) {
            let index = crate::tests::index(IndexOptions::default());
            let mut page = Page::zeroed();
            page.init_index(0, flag::LEAF);
            let mut expected = Vec::new();
            for (number, (key, tids)) in lists.iter().enumerate() {
                let tids: Vec<Tid> =
                    tids.iter().map(|&(block, offset)| Tid::new(block * stride, offset)).collect();
                let offset = number as u16 + 1;
                prop_assume!(change::insert(&mut page, offset, &posting_bytes(&[*key], &tids)));
                change::set_dead(&mut page, offset, number % 3 == 0);
                expected.extend((0u8..).zip(&tids).map(|(place, &tid)| {
                    (tid, EntryPlace { offset, place }, number % 3 == 0)
                }));
            }
            let by_block = index.by_block(&page, BlockNumber(1)).unwrap();
            prop_assert_eq!(by_block.len(), expected.len());
            let mut found = Vec::new();
            for on in &by_block.blocks {
                let candidates = by_block.candidates(on, |_| true);
                prop_assert_eq!(candidates.len(), usize::from(on.entries));
                let count = |what: fn(&DeletionCandidate<'_>) -> bool| {
                    candidates.iter().filter(|candidate| what(candidate)).count() as u16
                };
                prop_assert_eq!(count(|candidate| candidate.known_dead), on.known_dead);
                prop_assert_eq!(count(|candidate| candidate.promising), on.promising);
                prop_assert!(candidates.is_sorted_by_key(|candidate| (candidate.tid, candidate.at)));
                let mut offsets = Vec::new();
                by_block.offsets(on, &mut offsets);
                offsets.sort_unstable();
                let tids: Vec<_> = candidates.iter().map(|candidate| candidate.tid.offset).collect();
                prop_assert_eq!(offsets, tids);
                found.extend(candidates.iter().map(|candidate| {
                    (candidate.tid, candidate.at, candidate.known_dead)
                }));
            }
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
