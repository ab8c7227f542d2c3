//! Merges: a sparse leaf gives all its entries to its right sibling, and leaves the tree.
//!
//! ```text
//!   parent   [.. | a -> A | e -> E | k -> K | ..]   [.. | a -> A | e -> K | ..]   as before
//!
//!   leaves     A <-> E <-> K                         A <-> E <-> K                A <-> K
//!                   e f   k m                                   e f k m           E: DELETED
//!              before                               1. HALF_DEAD, and empty       2. unlinked
//! ```
//!
//! Nine of ten entries of each leaf may go without any leaf being left empty. So a deletion that
//! leaves a leaf sparse also looks at its right sibling. If both together fit well on one page,
//! they become one page. The first step is the first step of page deletion
//! (`page_delete.rs`), with the move of the entries in the same record. The second step is the
//! same.
//!
//! A reader that comes by an older link sees a deleted empty page, since readers pass half-dead
//! pages to the right. It also sees a leaf that shifted (`shift.rs`), since entries come to a page
//! that the reader may have read. The merge informs passes and backward scans as a shift does
//! ([`Recycling::entries_shift`]).
//!
//! A merge leaves alone the pages that page deletion leaves alone. An only child stays too, since
//! its entries would go to a page of another parent. The rightmost leaf takes no entries over:
//! insertions come to it without a descent.
//!
//! Source: docs/internals/design.md, "Empty and sparse pages"; Lanin and Shasha 1986.
//!
//! [`Recycling::entries_shift`]: crate::memory::recycle::Recycling::entries_shift

use niwaki_env::seeded_bug;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{Page, Xid};

use crate::cleaning::page_delete::may_go;
use crate::error::Result;
use crate::memory::density::PARTS;
use crate::memory::stats::count;
use crate::page::entry::EntryPlace;
use crate::page::layout::{IndexPage, LINE_POINTER, USABLE_BYTES};
use crate::page::search::downlink_item;
use crate::page::tuple::{PivotTuple, tids_on};
use crate::page::{change, wal};
use crate::tree::index::Index;

/// A leaf is sparse with `SPARSE_PARTS` parts full, or fewer.
const SPARSE_PARTS: usize = 12;
/// Two leaves fit well on one page with `MERGED_PARTS` parts full, or fewer. A quarter of the page
/// is free then. So as many entries must come before the page is split, and as many go before its
/// halves are merged again.
const MERGED_PARTS: usize = 24;
// Two sparse leaves fit well on one page.
const _: () = assert!(2 * SPARSE_PARTS <= MERGED_PARTS);
const _: () = assert!(MERGED_PARTS < PARTS);

/// The result of merging a leaf with its right sibling.
pub(crate) struct Merged {
    /// Entries that the right sibling had before.
    pub(crate) entries_before: u64,
    /// Pages that were unlinked: none if the leaf stays half-dead until the next pass of vacuum.
    pub(crate) unlinked: u32,
}

impl Index {
    /// Merges a leaf that has entries with its right sibling, if the leaf is sparse and both fit
    /// well on one page. The caller has the leaf latched.
    ///
    /// A deletion calls this when the leaf has become emptier by a part ([`Index::parts_full`]). So
    /// a sparse leaf beside a full one looks there once per part of deleted entries.
    ///
    /// # Errors
    /// Storage's. The leaf may be half-dead then until the next pass of vacuum.
    pub(crate) fn merge_sparse<'a>(&'a self, leaf: PageWrite<'a>) -> Result<Option<Merged>> {
        if !self.is_sparse(&leaf) {
            return Ok(None);
        }
        // The first look takes a shared latch only. The leaf's latch keeps the sibling from being
        // deleted.
        if !self.takes_all(&*self.read(leaf.next(), 0)?, &leaf, MERGED_PARTS) {
            return Ok(None);
        }
        debug_assert!(!leaf.is_rightmost(), "a leaf that may go has a right sibling");
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

    /// Decides whether a leaf may be merged with its right sibling, as far as the leaf itself
    /// shows.
    pub(crate) fn is_sparse(&self, leaf: &Page) -> bool {
        self.parts_full(leaf) <= SPARSE_PARTS && may_go(leaf)
    }

    /// Returns the number of full parts of a leaf's room; a part that is begun counts.
    pub(crate) fn parts_full(&self, leaf: &Page) -> usize {
        let bytes = USABLE_BYTES.saturating_sub(leaf.room());
        self.parts(bytes, leaf.entry_count().into())
    }

    /// Decides whether a leaf may be sparse once these entries are gone. Mostly the answer is no,
    /// which one look at the line pointers shows.
    pub(crate) fn may_become_sparse(&self, leaf: &Page, gone: &[EntryPlace]) -> bool {
        // For an entry of a posting list, the whole list is an upper limit.
        let item = |entry: &EntryPlace| leaf.tuple(entry.offset).len() + LINE_POINTER;
        let free = leaf.room() + gone.iter().map(item).sum::<usize>();
        let entries = usize::from(leaf.entry_count()).saturating_sub(gone.len());
        self.parts(USABLE_BYTES.saturating_sub(free), entries) <= SPARSE_PARTS
    }

    fn parts(&self, bytes: usize, entries: usize) -> usize {
        let by_entries = (entries * PARTS).div_ceil(self.items_max());
        (bytes * PARTS).div_ceil(USABLE_BYTES).max(by_entries)
    }

    /// Decides whether `right`, the right sibling of a leaf, can take over all entries of the leaf.
    /// At most `parts` parts of it may be full then.
    pub(crate) fn takes_all(&self, right: &Page, leaf: &Page, parts: usize) -> bool {
        if right.is_half_dead() || right.is_rightmost() {
            return false;
        }
        let bytes = [leaf, right].map(|page| USABLE_BYTES.saturating_sub(page.room()));
        let entries = [leaf, right].map(|page| usize::from(page.entry_count()));
        self.parts(bytes.iter().sum(), entries.iter().sum()) <= parts
    }

    /// Makes the first step of a merge: the leaf is half-dead then, and has no entries. False where
    /// the leaf may not go.
    pub(crate) fn give_all_right<'a>(
        &'a self,
        mut leaf: PageWrite<'a>,
        mut right: PageWrite<'a>,
    ) -> Result<bool> {
        debug_assert!(leaf.entry_count() > 0, "an empty leaf has nothing to give");
        debug_assert!(may_go(&leaf), "the leaf leaves the tree");
        debug_assert!(!right.is_half_dead(), "a half-dead page takes no entries over");
        let separator = self.high_key_copy(&leaf, leaf.id().block)?;
        // The high key belongs to the leaf's range.
        let target = separator.target();
        let Some(mut parent) = self.write_above(1, &target)? else { return Ok(false) };
        let item = downlink_item(&*parent, &target).unwrap_or(0);
        let leads_to = |item, block| {
            PivotTuple::decode(parent.tuple(item)).is_some_and(|pivot| pivot.downlink == block)
        };
        if !leads_to(item, leaf.id().block) || !leads_to(item + 1, right.id().block) {
            // The leaf is the last child, or a split of it or of its left sibling is not complete.
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
            // Marks go along, but are not logged, as marking is not.
            if change::is_dead(&leaf, old) {
                change::set_dead(&mut right_after, offset, true);
            }
        }
        debug_assert_eq!(
            right_after.entry_count(),
            right.entry_count() + leaf.entry_count(),
            "no entry is lost on the way"
        );
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
        // The leaves have other entries now, so another pass may find dead versions.
        self.failures.forget(leaf.id().block);
        self.failures.forget(right.id().block);
        count(&self.counters.merged_leaves, 1);
        Ok(true)
    }
}
