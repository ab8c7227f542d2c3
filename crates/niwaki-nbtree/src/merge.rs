//! Merges: a sparse leaf gives all its entries to its right sibling, and leaves the tree.
//!
//! ```text
//!   parent   [.. | a -> A | e -> E | k -> K | ..]        [.. | a -> A | e -> K | ..]        as before
//!
//!   leaves     A <-> E <-> K                              A <-> E <-> K                     A <-> K
//!                   e f   k m                                        e f k m               E: DELETED
//!              before                                    1. HALF_DEAD, and empty            2. unlinked
//! ```
//!
//! Nine of ten entries of each leaf may go without any leaf being left empty. So where a deletion leaves a leaf
//! sparse, its right sibling is looked at, and if both together fit well on one page they become one: the first step
//! of the deletion of an empty page (`page_delete.rs`), in one record with the going over of the entries; the second
//! is the same. To whoever comes by an older link it is as if an empty page had been deleted, since half-dead pages
//! are passed by to the right, and as if a leaf had shifted (`shift.rs`), since entries come to a page that may
//! have been read; those whom shifts concern are told the same ([`Recycling::entries_shift`]).
//!
//! Left alone is what page deletion leaves alone, an only child too, since its entries would go to a page of another
//! parent; and the rightmost leaf takes nothing over, to which insertions come without a descent.
//!
//! Source: design section 6; Lanin and Shasha 1986.
//!
//! [`Recycling::entries_shift`]: crate::recycle::Recycling::entries_shift

use niwaki_env::seeded_bug;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{Page, Xid};

use crate::batch::EntryPlace;
use crate::bottom_up::tids_on;
use crate::change;
use crate::error::Result;
use crate::index::Index;
use crate::page::{IndexPage, LINE_POINTER, USABLE_BYTES};
use crate::page_delete::may_go;
use crate::search::downlink_item;
use crate::stats::count;
use crate::tuple::PivotTuple;
use crate::wal;

/// Parts of a page's room in which is counted how full a leaf is.
pub(crate) const PARTS: usize = 32;
/// A leaf is sparse with so many parts full, or fewer.
const SPARSE_PARTS: usize = 12;
/// Two leaves fit well on one page with so many parts full. A quarter of it is free then: as many entries must come
/// before it is split, and as many go before its halves are merged again.
const MERGED_PARTS: usize = 24;

/// A leaf was merged with its right sibling.
pub(crate) struct Merged {
    /// Entries that the right sibling had before.
    pub(crate) entries_before: u64,
    /// Pages that were unlinked: none if the leaf stays half-dead until the next pass of vacuum.
    pub(crate) unlinked: u32,
}

impl Index {
    /// Merges a leaf that has entries with its right sibling, if it is sparse and both fit well on one page. The
    /// caller has the leaf latched.
    ///
    /// A deletion asks for it when the leaf has become emptier by a part ([`Index::parts_full`]), so that a sparse
    /// leaf beside a full one looks there once in so many deletions.
    ///
    /// # Errors
    /// Storage's. The leaf may be half-dead then until the next pass of vacuum.
    pub(crate) fn merge_sparse<'a>(&'a self, leaf: PageWrite<'a>) -> Result<Option<Merged>> {
        if !self.is_sparse(&leaf) {
            return Ok(None);
        }
        // A look, which keeps nobody waiting. The leaf's latch keeps the sibling from being deleted.
        if !self.takes_all(&*self.read(leaf.next(), 0)?, &leaf, MERGED_PARTS) {
            return Ok(None);
        }
        let right = self.write(leaf.next(), 0)?;
        if !self.takes_all(&right, &leaf, MERGED_PARTS) {
            return Ok(None);
        }
        let block = leaf.id().block;
        let entries_before = tids_on(&right) as u64;
        if !self.give_all_right(leaf, right)? {
            return Ok(None);
        }
        let unlinked = u32::from(self.unlink(block)?);
        Ok(Some(Merged { entries_before, unlinked }))
    }

    /// Whether a leaf may be merged with its right sibling as far as it can tell.
    pub(crate) fn is_sparse(&self, leaf: &Page) -> bool {
        self.parts_full(leaf) <= SPARSE_PARTS && may_go(leaf)
    }

    /// How many parts of a leaf's room are full, those begun included.
    pub(crate) fn parts_full(&self, leaf: &Page) -> usize {
        let bytes = USABLE_BYTES.saturating_sub(leaf.room());
        self.parts(bytes, leaf.entry_count().into())
    }

    /// Whether a leaf may be sparse once these entries are gone. Mostly not, which one look at its line pointers tells.
    pub(crate) fn may_become_sparse(&self, leaf: &Page, gone: &[EntryPlace]) -> bool {
        // Of a posting list goes as much at most.
        let item = |entry: &EntryPlace| leaf.tuple(entry.offset).len() + LINE_POINTER;
        let free = leaf.room() + gone.iter().map(item).sum::<usize>();
        let entries = usize::from(leaf.entry_count()).saturating_sub(gone.len());
        self.parts(USABLE_BYTES.saturating_sub(free), entries) <= SPARSE_PARTS
    }

    fn parts(&self, bytes: usize, entries: usize) -> usize {
        let by_entries = (entries * PARTS).div_ceil(self.items_max());
        (bytes * PARTS).div_ceil(USABLE_BYTES).max(by_entries)
    }

    /// Whether `right`, the right sibling of a leaf, takes over all its entries: so many parts of it are full then at most.
    pub(crate) fn takes_all(&self, right: &Page, leaf: &Page, parts: usize) -> bool {
        if right.is_half_dead() || right.is_rightmost() {
            return false;
        }
        let bytes = [leaf, right].map(|page| USABLE_BYTES.saturating_sub(page.room()));
        let entries = [leaf, right].map(|page| usize::from(page.entry_count()));
        self.parts(bytes.iter().sum(), entries.iter().sum()) <= parts
    }

    /// The first step: the leaf is half-dead then, and has no entries. False where it may not go.
    pub(crate) fn give_all_right<'a>(
        &'a self,
        mut leaf: PageWrite<'a>,
        mut right: PageWrite<'a>,
    ) -> Result<bool> {
        let separator = self.high_key_copy(&leaf, leaf.id().block)?;
        // The high key belongs to the leaf's range.
        let target = separator.target();
        let Some(mut parent) = self.write_above(1, &target)? else { return Ok(false) };
        let item = downlink_item(&*parent, &target).unwrap_or(0);
        let leads_to = |item, block| {
            PivotTuple::decode(parent.tuple(item)).is_some_and(|pivot| pivot.downlink == block)
        };
        if !leads_to(item, leaf.id().block) || !leads_to(item + 1, right.id().block) {
            // It is the last child, or a split of it or of its left sibling is not complete.
            return Ok(false);
        }
        let given = change::given_right(&leaf, 0);
        let mut right_after = Page::clone(&right);
        if !change::take_from_left(&mut right_after, &given) {
            return Ok(false);
        }
        for (offset, old) in
            (right_after.first_entry()..).zip(leaf.first_entry()..=leaf.item_count())
        {
            // Marks go along; that is not logged, as marking is not.
            if change::is_dead(&leaf, old) {
                change::set_dead(&mut right_after, offset, true);
            }
        }
        if seeded_bug!("merge_lets_go") {
            let into = right.id().block;
            drop(right);
            right = self.write(into, 0)?;
        }
        let critical = self.storage.begin_change()?;
        right.0.copy_from_slice(&right_after.0);
        change::make_half_dead(&mut leaf);
        let merged = change::merge_downlinks(&mut parent, item);
        assert!(merged, "both downlinks were just read");
        if !seeded_bug!("merge_keeps_versions") {
            leaf.bump_version();
            right.bump_version();
        }
        let (given, offset) = ([&given[..]], item.to_le_bytes());
        let offset = [&offset[..]];
        let pages = &mut [
            LoggedPage::delta(&mut leaf, &[]),
            LoggedPage::delta(&mut right, &given),
            LoggedPage::delta(&mut parent, &offset),
        ];
        self.log(wal::kind::MERGE, Xid::INVALID, pages, None);
        drop(critical);
        if !seeded_bug!("merge_tells_nobody") {
            self.recycling.entries_shift(leaf.id().block, right.id().block);
        }
        // With other entries, another pass may find something.
        self.failures.forget(leaf.id().block);
        self.failures.forget(right.id().block);
        count(&self.counters.merged_leaves, 1);
        Ok(true)
    }
}
