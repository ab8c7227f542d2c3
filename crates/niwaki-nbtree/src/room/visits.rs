//! Chooses the heap blocks that a deletion pass visits, and their order.
//!
//! Old versions cluster: a row updated again and again leaves its versions on few heap blocks,
//! written one after the other. So blocks are compared by the number of *promising* entries that
//! lie on them. This comparison is rough (in powers of two), so that a chance difference does not
//! outweigh order. The next criteria are the number of all entries, then the place. The
//! *favourable* blocks are the first of the order as far as each lies near the one before. They
//! were written together, died together, and are read together. Example, promising entries by
//! block:
//!
//! ```text
//! block       17  18  19  40  90        order   17  19  18 | 90  40        favourable: 17 19 18
//! promising   14   5  10   1   3        rank    16  16   8 |  4   4
//! ```
//!
//! For a block in memory, a glance (optimistic read) at its line pointers estimates how many of the
//! leaf's entries are dead, even inside posting lists. Such blocks are compared by this number, and
//! blocks without a dead entry are passed over. Otherwise, in an index of few keys, blocks full of
//! rows that never change would come first for their many equal keys. They would end the pass.
//! Blocks whose dead entries an earlier pass has removed would do the same. Reading a row header
//! costs a cache miss. So headers are read only on the few blocks that are chosen, or on all where
//! line pointers show too little.
//!
//! Glances go first to the most promising blocks and to as many of the others. The others differ
//! from pass to pass. Of a thousand entries most lie on a few blocks. One or two lie on each of a
//! hundred more blocks, and these entries die as well. Where these glances show too little they go
//! on, to every block if need be: a glance costs much less than the split of a leaf that has dead
//! entries.
//!
//! Source: thread `bottom-up-deletion`; docs/internals/design.md, "Bottom-up deletion".

use niwaki_env::seeded_bug;
use niwaki_storage::{BlockNumber, OffsetNumber};

use crate::error::Result;
use crate::page::entry::EntryPlace;
use crate::room::by_block::{EntriesByBlock, HeapBlock};
use crate::table::{DeletionCandidate, DeletionOracle, HeapGlance, RemovedInterval};

/// The most heap blocks that one pass of bottom-up deletion visits.
pub(crate) const BOTTOM_UP_BLOCKS_MAX: usize = 6;
/// The farthest distance, in blocks, of a favourable block from the one before it.
const NEAR_BLOCKS: u32 = 3;
/// The number of promising entries up to which all numbers count alike: so few say as much as none.
const PROMISING_MIN: u16 = 4;

/// The number of dead entries, on the blocks to visit, that is enough: the pass does not look for
/// more.
const ENOUGH_ENTRIES: usize = 16;

/// The number of most promising blocks that each pass glances at.
const BEST: usize = 16;
/// The number of glances after which a pass first asks whether it saw enough.
const ROUND: usize = 2 * BEST;
/// The number of glances after which a pass is content with one dead entry on each block that it
/// visits.
const GLANCES_MANY: usize = 3 * ROUND;
const _: () = assert!(BEST <= ROUND);
// The few blocks of a pass are content with fewer entries only after many glances.
const _: () = assert!(BOTTOM_UP_BLOCKS_MAX < ENOUGH_ENTRIES);
const _: () = assert!(PROMISING_MIN.is_power_of_two());

/// The place of a block in an order: the first is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u64);

impl Order {
    /// Orders a block by two numbers of its entries, the more important one first, then by place.
    fn by(first: u16, second: u16, block: BlockNumber) -> Self {
        Self(u64::from(!first) << 48 | u64::from(!second) << 32 | u64::from(block.0))
    }

    /// Orders a block before anything is known about its dead entries.
    fn before(on: &HeapBlock) -> Self {
        let rank = on.promising.max(PROMISING_MIN).next_power_of_two();
        Self::by(rank, on.entries.next_power_of_two(), on.block)
    }
}

/// Returns blocks in the order in which a pass glances at them: the best, then the others. The
/// others begin at a different block in each `turn`.
fn glance_order(blocks: &[HeapBlock], turn: u64) -> Vec<&HeapBlock> {
    let mut ranks: Vec<Order> = blocks.iter().map(Order::before).collect();
    if ranks.len() <= BEST {
        return blocks.iter().collect();
    }
    let (_, worst, _) = ranks.select_nth_unstable(BEST - 1);
    let (mut order, mut others): (Vec<_>, Vec<_>) =
        blocks.iter().partition(|on| Order::before(on) <= *worst);
    if !others.is_empty() {
        // Fibonacci hashing: successive turns begin far apart, and leave no gap for long.
        let part = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let start = (part * others.len() as u64) >> 32;
        others.rotate_left(start as usize);
    }
    order.append(&mut others);
    debug_assert_eq!(order.len(), blocks.len(), "each block has its turn");
    order
}

/// A block that may be visited.
struct Choice<'b> {
    order: Order,
    on: &'b HeapBlock,
    /// The number of its entries that are known to be dead.
    found: usize,
    /// The result of the glance; `None`: the block is not in memory.
    seen: Option<HeapGlance>,
    /// Offsets whose row headers show that their entries are likely removable.
    removable: Option<Vec<OffsetNumber>>,
}

impl<'b> Choice<'b> {
    /// Glances at a block. `None`: no entry can be dead there.
    fn glance(
        on: &'b HeapBlock,
        offsets: &[OffsetNumber],
        oracle: &dyn DeletionOracle,
    ) -> Option<Self> {
        let seen = oracle.glance(on.block, offsets);
        let (found, rank) = match seen {
            Some(HeapGlance { dead: 0, more: false }) => return None,
            Some(HeapGlance { dead, .. }) => (dead, dead as u16),
            None => (0, on.promising.next_power_of_two()),
        };
        let order = Order::by(rank, 0, on.block);
        Some(Self { order, on, found, seen, removable: None })
    }

    fn look_closely(&mut self, by_block: &EntriesByBlock<'_>, oracle: &dyn DeletionOracle) {
        let mut offsets = Vec::new();
        by_block.offsets(self.on, &mut offsets);
        oracle.keep_removable(self.on.block, &mut offsets);
        debug_assert!(offsets.len() <= usize::from(self.on.entries), "the table adds no offset");
        self.order = Order::by(offsets.len() as u16, 0, self.on.block);
        self.found = offsets.len();
        self.removable = Some(offsets);
    }

    fn wants_closer_look(&self) -> bool {
        self.removable.is_none() && self.seen.is_some_and(|glance| glance.more)
    }
}

/// Sorts the choices, and returns the number of entries known to be dead on the blocks to visit.
fn found_on_best(chosen: &mut [Choice<'_>]) -> usize {
    chosen.sort_unstable_by_key(|choice| choice.order);
    chosen.iter().take(BOTTOM_UP_BLOCKS_MAX).map(|choice| choice.found).sum()
}

/// One heap block, with the entries that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Visit<'a> {
    pub(crate) block: BlockNumber,
    /// True if a glance showed which entries may be dead: they are the candidates. Otherwise all
    /// entries are candidates.
    pub(crate) was_seen: bool,
    /// Ascending.
    pub(crate) candidates: Vec<DeletionCandidate<'a>>,
}

impl Visit<'_> {
    /// Asks the table which candidates may go. Returns the interval of the versions that it allowed
    /// to go.
    pub(crate) fn judge(&mut self, oracle: &dyn DeletionOracle) -> Result<RemovedInterval> {
        debug_assert!(!self.candidates.is_empty(), "the table is asked about an entry at least");
        debug_assert!(
            self.candidates.iter().all(|candidate| candidate.tid.block == self.block),
            "all candidates are on the visited block"
        );
        debug_assert!(
            self.candidates.is_sorted_by_key(|candidate| (candidate.tid.offset, candidate.at)),
            "candidates are ascending"
        );
        Ok(oracle.judge(&mut self.candidates)?)
    }

    /// Returns the bytes that the removal of the deletable candidates frees.
    pub(crate) fn freed_bytes(&self) -> usize {
        let gone = self.candidates.iter().filter(|candidate| candidate.deletable);
        gone.map(|candidate| usize::from(candidate.bytes)).sum()
    }
}

/// The visits of a pass, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visits<'a> {
    pub(crate) list: Vec<Visit<'a>>,
    /// The number of favourable visits at the front.
    pub(crate) favourable: usize,
}

impl<'a> Visits<'a> {
    /// Asserts what passes over a leaf rely on.
    fn assert_state(&self) {
        debug_assert!(self.favourable <= self.list.len(), "favourable visits come first");
        debug_assert!(
            self.list.iter().all(|visit| !visit.candidates.is_empty()),
            "a block without a candidate is not visited"
        );
    }

    /// Returns visits to all blocks that `are_wanted`, in physical order.
    pub(crate) fn all(
        by_block: &EntriesByBlock<'a>,
        are_wanted: impl Fn(&HeapBlock) -> bool,
    ) -> Self {
        let mut blocks: Vec<&HeapBlock> =
            by_block.blocks.iter().filter(|on| are_wanted(on)).collect();
        blocks.sort_unstable_by_key(|on| on.block);
        let visit = |on: &HeapBlock| {
            let candidates = by_block.candidates(on, |_| true);
            Visit { block: on.block, was_seen: false, candidates }
        };
        let list: Vec<_> = blocks.into_iter().map(visit).collect();
        let visits = Self { favourable: list.len(), list };
        visits.assert_state();
        visits
    }

    /// Returns visits to the few blocks worth it when no entry is known to be dead.
    pub(crate) fn promising(by_block: &EntriesByBlock<'a>, oracle: &dyn DeletionOracle) -> Self {
        // The LSN has moved since the last pass, by the entries that filled the leaf again. On an
        // index that is not logged turns are the same, and only too few dead entries make glances
        // go on.
        Self::in_turn(by_block, oracle, by_block.lsn().0)
    }

    fn in_turn(by_block: &EntriesByBlock<'a>, oracle: &dyn DeletionOracle, turn: u64) -> Self {
        let order = glance_order(&by_block.blocks, turn);
        let mut offsets = Vec::new();
        let mut chosen: Vec<Choice<'_>> = Vec::new();
        let mut glances = 0;
        for round in order.chunks(ROUND) {
            for on in round {
                by_block.offsets(on, &mut offsets);
                chosen.extend(Choice::glance(on, &offsets, oracle));
            }
            glances += round.len();
            let mut found = found_on_best(&mut chosen);
            if found < ENOUGH_ENTRIES {
                // Most dead versions are not pruned yet: only the rows' headers show them.
                for choice in chosen.iter_mut().filter(|choice| choice.wants_closer_look()) {
                    choice.look_closely(by_block, oracle);
                }
                found = found_on_best(&mut chosen);
            }
            let some = glances >= GLANCES_MANY && found >= BOTTOM_UP_BLOCKS_MAX;
            if found >= ENOUGH_ENTRIES || some {
                break;
            }
        }
        chosen.truncate(BOTTOM_UP_BLOCKS_MAX);
        let mut list: Vec<Visit<'_>> = Vec::with_capacity(chosen.len());
        for mut choice in chosen {
            if choice.seen.is_some() && choice.removable.is_none() {
                choice.look_closely(by_block, oracle);
            }
            let on = choice.on;
            let wanted = |offset| choice.removable.as_ref().is_none_or(|it| it.contains(&offset));
            let candidates = by_block.candidates(on, wanted);
            if !candidates.is_empty() {
                list.push(Visit { block: on.block, was_seen: choice.seen.is_some(), candidates });
            }
        }
        let near = |pair: &&[Visit<'_>]| pair[0].block.0.abs_diff(pair[1].block.0) <= NEAR_BLOCKS;
        let favourable = list.len().min(1 + list.windows(2).take_while(near).count());
        debug_assert!(list.len() <= BOTTOM_UP_BLOCKS_MAX, "few blocks are visited");
        let visits = Self { list, favourable };
        visits.assert_state();
        visits
    }

    /// Returns the places of the entries that the table allowed to go, ascending.
    pub(crate) fn judged_deletable(&self) -> Vec<EntryPlace> {
        let takes_promising = seeded_bug!("deletion_trusts_promises");
        let candidates = self.list.iter().flat_map(|visit| &visit.candidates);
        let mut gone: Vec<EntryPlace> = candidates
            .filter(|candidate| candidate.deletable || (takes_promising && candidate.promising))
            .map(|candidate| candidate.at)
            .collect();
        gone.sort_unstable();
        debug_assert!(gone.is_sorted_by(|a, b| a < b), "each entry goes once");
        gone
    }
}

/// The number of times that an insertion reads in heap blocks: once for simple, once for bottom-up
/// deletion.
pub(crate) const READ_INS_MAX: u8 = 2;

/// The table's part in passes over full leaves, during one insertion.
pub(crate) struct Deletion<'t> {
    pub(crate) oracle: &'t dyn DeletionOracle,
    /// The number of times that heap blocks may still be read in first. Other threads may change
    /// the leaf meanwhile, and evict blocks from the pool. In the end the blocks are read under the
    /// latch.
    pub(crate) read_ins: u8,
}

impl Deletion<'_> {
    /// Returns the blocks that must be read in first; `None`: go on.
    pub(crate) fn absent(&self, visits: &[Visit<'_>]) -> Option<Vec<BlockNumber>> {
        debug_assert!(self.read_ins <= READ_INS_MAX, "blocks are read in a few times at most");
        if self.read_ins == 0 {
            return None;
        }
        let blocks = visits.iter().map(|visit| visit.block);
        let is_absent = |block: &BlockNumber| self.oracle.glance(*block, &[]).is_none();
        let absent: Vec<_> = blocks.filter(is_absent).collect();
        (!absent.is_empty()).then_some(absent)
    }
}

// Locks of the deterministic scheduler work inside its runs only.
#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use niwaki_storage::page::Page;
    use niwaki_storage::{Csn, OffsetNumber, Result, Tid};

    use super::*;
    use crate::IndexOptions;
    use crate::page::change;
    use crate::page::layout::{IndexPage, flag};
    use crate::page::tuple::push_leaf;
    use crate::table::RemovedInterval;

    /// A table that reports for each block a number of dead entries, by line pointers or only by
    /// headers. `None`: the block is not in memory.
    struct Glances(fn(u32) -> Option<usize>, bool, RefCell<Vec<u32>>);

    impl DeletionOracle for Glances {
        fn begin(&self) {}

        fn prospect(&self) -> Option<Csn> {
            None
        }

        fn judge(&self, _: &mut [DeletionCandidate<'_>]) -> Result<RemovedInterval> {
            Ok(None)
        }

        fn gives_up(&self) -> bool {
            false
        }

        fn end(&self, _: bool) {}

        fn glance(&self, block: BlockNumber, _: &[OffsetNumber]) -> Option<HeapGlance> {
            let Self(count, pruned, glanced) = self;
            glanced.borrow_mut().push(block.0);
            let count = count(block.0)?;
            Some(HeapGlance { dead: if *pruned { count } else { 0 }, more: !pruned && count > 0 })
        }

        fn keep_removable(&self, block: BlockNumber, offsets: &mut Vec<OffsetNumber>) {
            offsets.truncate(self.0(block.0).unwrap());
        }

        fn read_in(&self, _: BlockNumber) -> Result<()> {
            Ok(())
        }
    }

    /// Returns a leaf. Each element of `blocks` is a block number, the number of entries whose key
    /// occurs several times there, and the number of others.
    fn leaf(blocks: &[(u32, u16, u16)]) -> Page {
        let mut page = Page::zeroed();
        page.init_index(0, flag::LEAF);
        let mut key = 0u16;
        for &(block, promising, others) in blocks {
            for n in 0..promising + others {
                // All promising entries share one key; a key that only the first entry of a block
                // has would not make it promising.
                key += u16::from(n == 0 || n >= promising);
                let mut tuple = Vec::new();
                push_leaf(&mut tuple, &key.to_be_bytes(), b"", Tid::new(block, n + 1));
                let at = page.item_count() + 1;
                assert!(change::insert(&mut page, at, &tuple));
            }
        }
        page
    }

    /// Returns the blocks that a pass would visit on such a leaf, and the number of favourable
    /// ones.
    fn visits(blocks: &[(u32, u16, u16)], glance: fn(u32) -> Option<usize>) -> (Vec<u32>, usize) {
        let page = leaf(blocks);
        let index = crate::tests::index(IndexOptions::default());
        let by_block = index.by_block(&page, BlockNumber(1)).unwrap();
        let pass = |pruned| {
            let oracle = Glances(glance, pruned, RefCell::default());
            Visits::promising(&by_block, &oracle)
        };
        let visits = pass(true);
        // The result is the same whether line pointers or headers show the dead entries.
        let unpruned = pass(false);
        let blocks = |visits: &Visits<'_>| -> Vec<u32> {
            visits.list.iter().map(|visit| visit.block.0).collect()
        };
        assert_eq!(blocks(&visits), blocks(&unpruned));
        for visit in &visits.list {
            let on = by_block.blocks.iter().find(|on| on.block == visit.block).unwrap();
            let entries = usize::from(on.entries);
            let removable = glance(visit.block.0).map_or(entries, |count| count.min(entries));
            assert_eq!(visit.candidates.len(), removable, "each its own");
        }
        let all = Visits::all(&by_block, |on| on.entries > 1);
        assert!(all.list.is_sorted_by_key(|visit| visit.block));
        assert!(all.list.iter().all(|visit| visit.candidates.len() > 1));
        (blocks(&visits), visits.favourable)
    }

    #[test]
    #[should_panic(expected = "favourable visits come first")]
    #[cfg(debug_assertions)]
    fn more_favourable_visits_than_visits_are_noticed() {
        Visits { list: Vec::new(), favourable: 1 }.assert_state();
    }

    fn order(blocks: &[(u32, u16, u16)]) -> (Vec<u32>, usize) {
        visits(blocks, |_| None)
    }

    #[test]
    fn the_example_of_the_module() {
        let blocks = [(17, 14, 0), (18, 5, 0), (19, 10, 0), (40, 0, 1), (90, 3, 0)];
        assert_eq!(order(&blocks), (vec![17, 19, 18, 90, 40], 3));
    }

    #[test]
    fn place_decides_between_blocks_that_promise_alike() {
        assert_eq!(order(&[(5, 0, 4), (9, 4, 0), (12, 3, 6)]).0, [9, 12, 5]);
        assert_eq!(order(&[(30, 8, 0), (10, 7, 0), (20, 5, 2)]).0, [10, 20, 30]);
    }

    #[test]
    fn few_blocks_are_visited_however_many_there_are() {
        let blocks: Vec<_> = (0..100).map(|block| (block * 2, 0, 1)).collect();
        assert_eq!(order(&blocks), (vec![0, 2, 4, 6, 8, 10], 6));
        let apart: Vec<_> = (0..100).map(|block| (block * 4, 0, 1)).collect();
        assert_eq!(order(&apart).1, 1);
        assert_eq!(order(&[]), (vec![], 0));
    }

    #[test]
    fn blocks_on_which_nothing_can_be_dead_are_passed_over() {
        let blocks: Vec<_> = (0..50).map(|block| (block, 8, 0)).collect();
        let seen = |glance| visits(&blocks, glance).0;
        assert_eq!(seen(|block| Some(block as usize % 2)), [1, 3, 5, 7, 9, 11]);
        assert_eq!(seen(|block| Some(if block == 20 { 5 } else { (block == 3).into() })), [20, 3]);
        assert_eq!(seen(|_| Some(0)), [0; 0]);
        assert_eq!(seen(|block| Some((block >= 44).into())), [44, 45, 46, 47, 48, 49]);
    }

    /// Returns the blocks that a pass over 200 blocks glances at. The first 16 blocks have most
    /// entries.
    fn glanced(turn: u64, glance: fn(u32) -> Option<usize>) -> Vec<u32> {
        let blocks: Vec<_> =
            (0..200).map(|block| (block, if block < 16 { 9 } else { 0 }, 1)).collect();
        let page = leaf(&blocks);
        let index = crate::tests::index(IndexOptions::default());
        let by_block = index.by_block(&page, BlockNumber(1)).unwrap();
        let oracle = Glances(glance, true, RefCell::default());
        Visits::in_turn(&by_block, &oracle, turn);
        oracle.2.into_inner()
    }

    #[test]
    fn the_best_are_glanced_at_always_and_the_others_in_turn() {
        let mut others = BTreeSet::new();
        for turn in 0..40 {
            let seen = glanced(turn, |block| Some(if block < 16 { 9 } else { 0 }));
            assert_eq!(seen.len(), ROUND);
            assert_eq!(seen.iter().filter(|&&block| block < 16).count(), BEST);
            assert_eq!(seen, glanced(turn, |block| Some(if block < 16 { 9 } else { 0 })));
            others.extend(seen.into_iter().filter(|&block| block >= 16));
        }
        assert_eq!(others.len(), 184, "every one had its turn");
    }

    #[test]
    fn glances_go_on_while_they_show_too_little() {
        let at_each_once = |seen: Vec<u32>| {
            assert_eq!(seen.len(), 200);
            assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 200);
        };
        at_each_once(glanced(5, |_| Some(0)));
        at_each_once(glanced(5, |block| Some(usize::from(block % 90 == 80))));
        let many = glanced(5, |block| Some(usize::from(block % 4 == 0)));
        assert_eq!(many.len(), GLANCES_MANY, "one on each block, no more");
    }
}
