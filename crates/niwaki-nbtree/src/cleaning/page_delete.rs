//! Page deletion: an empty leaf leaves the tree in two steps.
//!
//! ```text
//!   parent   [.. | a -> A | e -> E | k -> K | ..]   [.. | a -> A | e -> K | ..]   as before
//!
//!   leaves     A <-> E <-> K                         A <-> E <-> K                A <-> K
//!                    empty                                 HALF_DEAD              E: DELETED
//!              before                               1. parent leads past E   2. siblings do, too
//! ```
//!
//! **Half-dead**, one record: the parent's downlink to the leaf now leads to the next child, whose
//! own pivot goes. So the next page takes over the range of keys. A reader that comes to a
//! half-dead page by an older link moves right. If the leaf is its parent's only child, the parent
//! goes as well, and so on up. Then the *branch* over the leaf becomes half-dead in the same
//! record, and the downlink to its topmost page is changed.
//!
//! **Unlinked**, one record for each page: left and right sibling are linked to each other, and the
//! page is DELETED. Nothing leads to the page any more, and it is free (see `recycle.rs`). Each
//! half-dead page can be unlinked by itself. If this step fails (a crash, no room on disk), the
//! next pass of vacuum does it.
//!
//! These pages are left alone:
//! - The last page of a level, and so the B-tree root.
//! - The last child of a parent that has others, until these have gone. Taking over its range would
//!   change the parent's own bound.
//! - A page whose split is not complete, or that has no downlink yet.
//!
//! Source: docs/internals/design.md, "Empty and sparse pages"; Lanin and Shasha 1986.

use niwaki_env::seeded_bug;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::{LoggedPage, MAX_RECORD_PAGES};
use niwaki_storage::{BlockNumber, Xid};

use crate::error::Result;
use crate::memory::stats::count;
use crate::page::layout::{IndexPage, NO_BLOCK};
use crate::page::search::{Target, downlink_item};
use crate::page::tuple::PivotTuple;
use crate::page::{change, wal};
use crate::tree::descend::Descent;
use crate::tree::index::{Index, Path};

/// The most pages of a branch: with the parent they must fit one record.
const BRANCH_MAX: usize = MAX_RECORD_PAGES - 1;
/// The number of tries to unlink a page; after them the page is left to the next pass of vacuum.
/// Each try fails because another thread changed the page's left sibling.
const UNLINK_TRIES: u32 = 32;
const _: () = assert!(BRANCH_MAX >= 2);

impl Index {
    /// Deletes a leaf if it is empty and may go. Then does the same with its right sibling, if that
    /// is empty too: the last child of a parent may go only when its siblings have gone. The caller
    /// has the leaf latched. Returns the number of unlinked pages, including inner pages that had
    /// no other leaf.
    ///
    /// # Errors
    /// Storage's. Pages that were half-dead by then stay half-dead until the next pass of vacuum.
    pub(crate) fn delete_page<'a>(&'a self, mut leaf: PageWrite<'a>) -> Result<u32> {
        let mut unlinked = 0;
        // Ends: each round but the last takes a page out of the tree.
        loop {
            let right = self.link(leaf.next());
            let branch = self.make_half_dead(leaf)?;
            if branch.is_empty() {
                return Ok(unlinked);
            }
            for block in branch {
                unlinked += u32::from(self.unlink(block)?);
            }
            match self.follow_to_write(right, 0)? {
                Some(right) if right.entry_count() == 0 => leaf = right,
                _ => return Ok(unlinked),
            }
        }
    }

    /// Makes the first step. Returns the pages that are half-dead now; none if the leaf may not go.
    pub(crate) fn make_half_dead(&self, leaf: PageWrite<'_>) -> Result<Vec<BlockNumber>> {
        if leaf.entry_count() > 0 || !may_go(&leaf) {
            return Ok(Vec::new());
        }
        let separator = self.high_key_copy(&leaf, leaf.id().block)?;
        // The high key belongs to the leaf's range, and so to the range of every page above the
        // leaf.
        let target = separator.target();
        let mut branch = vec![leaf];
        let (mut parent, item) = loop {
            let (child, level) = match branch.last() {
                Some(top) if branch.len() < BRANCH_MAX => (top.id().block, top.level() + 1),
                _ => return Ok(Vec::new()),
            };
            let Some(parent) = self.write_above(level, &target)? else { return Ok(Vec::new()) };
            let item = downlink_item(&*parent, &target).unwrap_or(0);
            if PivotTuple::decode(parent.tuple(item)).is_none_or(|it| it.downlink != child) {
                // The left sibling's split is not complete: this page has no downlink.
                return Ok(Vec::new());
            }
            if item < parent.item_count() {
                break (parent, item);
            }
            if parent.entry_count() > 1 || !may_go(&parent) {
                return Ok(Vec::new());
            }
            branch.push(parent);
        };
        debug_assert!(item >= parent.first_entry(), "the high key is no downlink");
        debug_assert!(branch.len() <= BRANCH_MAX, "the branch fits one record");
        debug_assert!(branch.iter().all(|page| may_go(page)), "each page may leave the tree");
        debug_assert!(
            branch.is_sorted_by(|below, above| below.level() + 1 == above.level()),
            "the branch goes up level by level"
        );
        let critical = self.storage.begin_change()?;
        let merged = change::merge_downlinks(&mut parent, item);
        assert!(merged, "there is a downlink behind this one");
        for page in &mut branch {
            change::make_half_dead(page);
            page.bump_version();
        }
        let offset = item.to_le_bytes();
        let delta: &[&[u8]] = &[&offset];
        let mut pages = vec![LoggedPage::delta(&mut parent, delta)];
        pages.extend(branch.iter_mut().map(|page| LoggedPage::delta(page, &[])));
        self.log(wal::kind::HALF_DEAD, Xid::INVALID, &mut pages, None);
        drop(pages);
        drop(critical);
        // Topmost page first: links into the branch must go first.
        Ok(branch.iter().rev().map(|page| page.id().block).collect())
    }

    /// Latches for writing the page of `level` above pages that the caller has latched. `None`
    /// where there is no such page, or where it is half-dead or its split is incomplete: then the
    /// change can wait.
    pub(crate) fn write_above(
        &self,
        level: u16,
        target: &Target<'_>,
    ) -> Result<Option<PageWrite<'_>>> {
        debug_assert!(level > 0, "no page is below the leaves");
        match self.root()? {
            Some((_, root_level)) if root_level >= level => {}
            _ => return Ok(None),
        }
        let Descent::At(link) = self.descend(target, level, true, &mut Path::new())? else {
            return Ok(None);
        };
        let Some(page) = self.write_from(link, level, target)? else { return Ok(None) };
        Ok((!page.is_half_dead() && !page.is_incomplete()).then_some(page))
    }

    /// Makes the second step: takes a half-dead page of any level out from between its siblings.
    /// False if the page is not half-dead any more, or if its neighbours kept changing.
    pub(crate) fn unlink(&self, block: BlockNumber) -> Result<bool> {
        for _ in 0..UNLINK_TRIES {
            let left = {
                let page = self.pin(block)?.into_read();
                if !page.is_half_dead() {
                    return Ok(false);
                }
                (page.prev() != NO_BLOCK).then(|| (self.link(page.prev()), page.level()))
            };
            let left = match left {
                None => None,
                Some((link, level)) => {
                    let Some(left) = self.follow_to_write(link, level)? else { continue };
                    // A split puts pages in between: the page's left link will soon lead to them.
                    if left.next() != block && !seeded_bug!("unlink_trusts_left_link") {
                        continue;
                    }
                    Some(left)
                }
            };
            let page = self.pin(block)?.into_write();
            if !page.is_half_dead() {
                return Ok(false);
            }
            let here = page.prev() == left.as_ref().map_or(NO_BLOCK, |left| left.id().block);
            if here || seeded_bug!("unlink_trusts_left_link") {
                self.unlink_latched(left, page)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn unlink_latched(
        &self,
        mut left: Option<PageWrite<'_>>,
        mut page: PageWrite<'_>,
    ) -> Result<()> {
        debug_assert!(page.is_half_dead(), "the parent leads past the page");
        let (block, next) = (page.id().block, page.next());
        let prev = page.prev();
        self.expect_level(&page, block, page.level())?;
        let mut right = self.write(next, page.level())?;
        if right.prev() != block {
            let detail = format!("left link to {} instead of {block}", right.prev());
            return Err(self.damaged(next, None, "B2", detail));
        }
        let critical = self.storage.begin_change()?;
        right.set_prev(prev);
        change::make_deleted(&mut page);
        page.bump_version();
        let (prev_bytes, next_bytes) = (prev.0.to_le_bytes(), next.0.to_le_bytes());
        let (prev_data, next_data): (&[&[u8]], &[&[u8]]) = (&[&prev_bytes], &[&next_bytes]);
        let mut pages =
            vec![LoggedPage::delta(&mut page, &[]), LoggedPage::delta(&mut right, prev_data)];
        let kind = match &mut left {
            Some(left) => {
                left.set_next(next);
                pages.push(LoggedPage::delta(left, next_data));
                wal::kind::UNLINK_BETWEEN
            }
            None => wal::kind::UNLINK,
        };
        self.log(kind, Xid::INVALID, &mut pages, None);
        drop(pages);
        drop(critical);
        // The page's latch is still held: no thread can reuse the page before this point.
        self.recycling.add_free(block);
        count(&self.counters.deleted_pages, 1);
        Ok(())
    }
}

/// Decides whether a page, empty or with a single child, may leave the tree, as far as the page
/// itself shows.
pub(crate) fn may_go(page: &niwaki_storage::Page) -> bool {
    !page.is_rightmost() && !page.is_incomplete() && !page.is_half_dead()
}
