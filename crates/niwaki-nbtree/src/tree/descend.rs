//! Descends from the B-tree root to the page where a key belongs.
//!
//! The algorithm is Lehman and Yao's: one page at a time on the way down. Between the read of a
//! downlink and the read of its page, that page may split. Then the key lies beyond the page's high
//! key, and the search moves right. Inner pages are read without a latch ([`Index::inner_step`]).

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::{PageRead, PageWrite};
use niwaki_storage::page::{PAGE_SIZE, Page};

use crate::error::{Error, Result};
use crate::memory::recycle::Link;
use crate::page::layout::{
    FLAGS_AT, IndexPage, LEVEL_AT, META_BLOCK, NO_BLOCK, SPECIAL_SIZE, flag,
};
use crate::page::search::{Keys, Target, downlink_item, is_beyond, lies_beyond};
use crate::page::tuple::PivotTuple;
use crate::tree::index::{Index, MOVES_MAX, Path};

/// The most descents in a row that end at a deleted page. Each such descent lost a race of
/// microseconds against a deletion; only links in a damaged file lose that often.
pub(crate) const RESTARTS_MAX: u32 = 1000;

// A glance reads level and flags with one look.
const _: () = assert!(FLAGS_AT == LEVEL_AT + size_of::<u16>());

/// The result of reading one inner page.
enum InnerStep {
    /// The child to go to.
    Down(Link),
    /// The target lies in the right sibling or beyond.
    Right(Link),
    /// The page's split was never finished. Only callers that would finish it get this answer.
    Incomplete,
    /// The page was deleted since the link to it was read.
    Gone,
}

/// The end of a descent.
pub(crate) enum Descent {
    /// The page of the wanted level to look at; it may have split since.
    At(Link),
    /// An inner page with an unfinished split, and its level.
    Incomplete(Link, u16),
    /// The index has no pages.
    Empty,
}

impl Index {
    /// Descends to `level`, and notes the pages in `path`. With `stop_at_incomplete`, the descent
    /// stops at unfinished splits.
    #[inline]
    pub(crate) fn descend(
        &self,
        target: &Target<'_>,
        level: u16,
        stop_at_incomplete: bool,
        path: &mut Path,
    ) -> Result<Descent> {
        for _ in 0..RESTARTS_MAX {
            if let Some(descent) = self.descend_once(target, level, stop_at_incomplete, path)? {
                return Ok(descent);
            }
        }
        Err(self.dead_links(META_BLOCK))
    }

    /// Descends once. `None`: a page on the way was deleted since the link to it was read.
    #[inline]
    fn descend_once(
        &self,
        target: &Target<'_>,
        level: u16,
        stop_at_incomplete: bool,
        path: &mut Path,
    ) -> Result<Option<Descent>> {
        // The epoch is read before the metapage.
        let start = self.link(META_BLOCK);
        let Some((root, mut here)) = self.root()? else { return Ok(Some(Descent::Empty)) };
        let mut link = Link { block: root, ..start };
        if here < level {
            return Err(self.damaged(root, None, "B2", format!("no level {level}")));
        }
        let mut moves = 0;
        while here > level {
            match self.inner_step(link, here, target, stop_at_incomplete)? {
                InnerStep::Down(child) => {
                    path.note(here, link);
                    link = child;
                    here -= 1;
                }
                InnerStep::Right(right) => {
                    self.count_move(&mut moves, link.block)?;
                    link = right;
                }
                InnerStep::Incomplete => return Ok(Some(Descent::Incomplete(link, here))),
                InnerStep::Gone => return Ok(None),
            }
        }
        debug_assert_eq!(here, level, "the descent ends at the wanted level");
        Ok(Some(Descent::At(link)))
    }

    /// Returns a link to the leaf where `target` belongs, if the page of level 1 in `path` leads to
    /// that leaf. `target` is not below the target for which the path was made. A page's range
    /// never loses its lower end, so `target` lies in the range of that page or to its right.
    /// `None`: `target` lies to the right, or the page is gone.
    pub(crate) fn child_of_last(&self, target: &Target<'_>, path: &Path) -> Result<Option<Link>> {
        let Some(parent) = path.at(1) else { return Ok(None) };
        Ok(match self.inner_step(parent, 1, target, false)? {
            InnerStep::Down(leaf) => Some(leaf),
            InnerStep::Right(_) | InnerStep::Incomplete | InnerStep::Gone => None,
        })
    }

    /// Returns the error for links that led to deleted pages again and again, as only links in a
    /// damaged file do.
    #[cold]
    pub(crate) fn dead_links(&self, block: BlockNumber) -> Error {
        self.damaged(block, None, "B2", "links lead to deleted pages")
    }

    /// Latches for reading the page that a link leads to. `None` if the page was deleted since the
    /// link was read, or is another page by now: then the caller must look its place up again by
    /// key.
    ///
    /// The function does not wait for the latch with an old link. The page may be in use again
    /// elsewhere in the tree. Then the caller itself may have it latched, or another thread that
    /// waits for a page that the caller has latched.
    #[inline]
    pub(crate) fn follow(&self, link: Link, level: u16) -> Result<Option<PageRead<'_>>> {
        if self.is_old(link) {
            return Ok(None);
        }
        let latched = self.pin(link.block)?.into_read_unless(|| self.is_old(link));
        let Some(page) = latched else { return Ok(None) };
        if !self.is_current(link) || page.is_deleted() {
            return Ok(None);
        }
        self.expect_level(&page, link.block, level)?;
        Ok(Some(page))
    }

    /// Follows a link as [`Index::follow`], but latches for writing.
    pub(crate) fn follow_to_write(&self, link: Link, level: u16) -> Result<Option<PageWrite<'_>>> {
        if self.is_old(link) {
            return Ok(None);
        }
        let latched = self.pin(link.block)?.into_write_unless(|| self.is_old(link));
        let Some(page) = latched else { return Ok(None) };
        self.expect_current(page, link, level)
    }

    /// Decides whether a link is already known to be old, before its page is latched.
    #[inline]
    fn is_old(&self, link: Link) -> bool {
        !self.is_current(link) && !seeded_bug!("old_links_are_waited_for")
    }

    /// Returns a page latched for writing, if it still is the page that the link meant.
    pub(crate) fn expect_current<'a>(
        &self,
        page: PageWrite<'a>,
        link: Link,
        level: u16,
    ) -> Result<Option<PageWrite<'a>>> {
        if !self.is_current(link) || page.is_deleted() {
            return Ok(None);
        }
        self.expect_level(&page, link.block, level)?;
        Ok(Some(page))
    }

    /// Reads one inner page: optimistically if that succeeds, else under its shared
    /// latch. The answer is a copy of everything that it needs of the page.
    #[inline]
    fn inner_step(
        &self,
        link: Link,
        level: u16,
        target: &Target<'_>,
        stop_at_incomplete: bool,
    ) -> Result<InnerStep> {
        debug_assert!(level > 0, "inner pages lie above the leaves");
        match self.optimistic_step(link, level, target, stop_at_incomplete) {
            Some(step) => Ok(step),
            None => self.latched_step(link, level, target, stop_at_incomplete),
        }
    }

    /// Reads an inner page without pin, latch or any write to shared memory. `None`: there is no
    /// copy to read, the page is being changed, or it is not the expected page, which the latched
    /// read will show. One try is enough: a thread that changes a page drops its copy, so a second
    /// try would meet the writer's latch too.
    #[inline]
    fn optimistic_step(
        &self,
        link: Link,
        level: u16,
        target: &Target<'_>,
        stop_at_incomplete: bool,
    ) -> Option<InnerStep> {
        let page = self.storage.pool().read_optimistically(self.page_id(link.block))?;
        let special = page.u64_at(PAGE_SIZE - SPECIAL_SIZE + LEVEL_AT);
        let flags = (special >> 16) as u16;
        let unusual = flag::DELETED | if stop_at_incomplete { flag::INCOMPLETE_SPLIT } else { 0 };
        if special as u16 != level || flags & unusual != 0 {
            return None;
        }
        let (block, right) = if lies_beyond(&page, target) {
            (page.right(), true)
        } else {
            let at = usize::from(page.item_id(downlink_item(&page, target)?).offset());
            (BlockNumber(page.u64_at(at) as u32), false)
        };
        // The page's links have the same epoch as the link to the page, so they allow the same
        // conclusions.
        if block == META_BLOCK || !page.holds() || !self.is_current(link) {
            return None;
        }
        let next = Link { block, ..link };
        Some(if right { InnerStep::Right(next) } else { InnerStep::Down(next) })
    }

    fn latched_step(
        &self,
        link: Link,
        level: u16,
        target: &Target<'_>,
        stop_at_incomplete: bool,
    ) -> Result<InnerStep> {
        let Some(page) = self.follow(link, level)? else { return Ok(InnerStep::Gone) };
        page.publish();
        if stop_at_incomplete && page.is_incomplete() {
            return Ok(InnerStep::Incomplete);
        }
        if is_beyond(&page, target) {
            invariant!(B2, page.next() != NO_BLOCK, "nothing lies beyond the rightmost page");
            return Ok(InnerStep::Right(self.link(page.next())));
        }
        Ok(InnerStep::Down(self.link(self.child(&page, link.block, target)?)))
    }

    /// Returns the downlink of an inner page that leads to `target`.
    fn child(&self, page: &Page, block: BlockNumber, target: &Target<'_>) -> Result<BlockNumber> {
        let item = downlink_item(page, target);
        match item.and_then(|item| PivotTuple::decode(page.tuple(item))) {
            Some(pivot) if pivot.downlink != META_BLOCK => Ok(pivot.downlink),
            _ => Err(self.damaged(block, item, "B2", "no downlink")),
        }
    }

    /// Returns the leaf where `target` belongs, latched for reading; `None` when the index has no
    /// pages.
    #[inline]
    pub(crate) fn read_leaf(&self, target: &Target<'_>) -> Result<Option<PageRead<'_>>> {
        for _ in 0..RESTARTS_MAX {
            let Descent::At(mut link) = self.descend(target, 0, false, &mut Path::new())? else {
                return Ok(None);
            };
            let mut moves = 0;
            while let Some(page) = self.follow(link, 0)? {
                debug_assert!(page.is_leaf(), "level 0 holds the leaves");
                if !is_beyond(&page, target) {
                    return Ok(Some(page));
                }
                invariant!(B2, page.next() != NO_BLOCK, "nothing lies beyond the rightmost leaf");
                self.count_move(&mut moves, link.block)?;
                link = self.link(page.next());
            }
        }
        Err(self.dead_links(META_BLOCK))
    }

    /// Latches for writing the page of `level` where `target` belongs, starting at `link`. Leaves
    /// unfinished splits alone. `None`: a page on the way was deleted.
    pub(crate) fn write_from(
        &self,
        mut link: Link,
        level: u16,
        target: &Target<'_>,
    ) -> Result<Option<PageWrite<'_>>> {
        let mut moves = 0;
        loop {
            let Some(page) = self.follow_to_write(link, level)? else { return Ok(None) };
            debug_assert_eq!(page.level(), level, "sibling links stay on a level");
            if !is_beyond(&page, target) {
                return Ok(Some(page));
            }
            invariant!(B2, page.next() != NO_BLOCK, "nothing lies beyond the rightmost page");
            self.count_move(&mut moves, link.block)?;
            link = self.link(page.next());
        }
    }

    /// Counts a step to the right of `block`, and fails when there are too many.
    #[inline]
    pub(crate) fn count_move(&self, moves: &mut u32, block: BlockNumber) -> Result<()> {
        *moves += 1;
        if *moves > MOVES_MAX {
            return Err(self.damaged(block, None, "B2", "right links do not come to an end"));
        }
        Ok(())
    }
}
