//! Recycling: deleted pages are used again at once, and outdated links to them are detected.
//!
//! No thread registers, and no thread waits for another. Instead, a thread that follows a link
//! detects that the link is too old. The index counts the pages that it has put to use again (its
//! *epoch*). A reader of a link notes the epoch first. The reader latches the page that the link
//! leads to, or reads it optimistically, then compares the epoch again:
//!
//! ```text
//!   reader                                   thread that uses page P again
//!   e := epoch            (acquire)          P is DELETED: no page that is not deleted links to it
//!   link to P, from a page in use            latch P exclusively
//!   latch P, or read a copy                  epoch += 1                 (release)
//!   epoch = e?  P is what the link meant     give P its new contents, unlatch
//! ```
//!
//! If P got its new contents before the reader saw it, the reader sees the new epoch too. The
//! latch, or the copy's sequence number, orders them. If the new epoch came before the reader noted
//! it, so did the end of the last link to P. Then the reader could not read that link. No thread
//! follows links out of deleted pages.
//!
//! A thread that finds a deleted page or another epoch looks the place up again by its key. (key,
//! TID) is unique, so no entry is returned twice or left out. So a scan at rest, an old snapshot or
//! a lagging standby holds no page back.

use std::collections::BTreeSet;

use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_storage::BlockNumber;

use crate::page::layout::META_BLOCK;

/// The most free pages that are remembered; the next pass of vacuum finds the others.
const FREE_MAX: usize = 1 << 16;
/// The size of a pass's list of pages to visit again from which on sparse pages are no longer
/// added.
const REVISITS_MAX: usize = 1 << 16;
/// The page of the first root. Until its first use it waits for the first insertion.
pub(crate) const FIRST_ROOT: BlockNumber = BlockNumber(META_BLOCK.0 + 1);

/// A page number, with the epoch in which it was read from a page in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) block: BlockNumber,
    pub(crate) epoch: u64,
}

/// The free pages of an index, and its epoch.
pub(crate) struct Recycling {
    /// The number of pages put to use again since the index was opened.
    epoch: AtomicU64,
    /// The number of times that entries went over to a right sibling (shifts), which left links do
    /// not show.
    shifts: AtomicU64,
    pub(crate) pages: Mutex<Pages>,
}

/// The pages of an index that are not in use, and the passes over its file.
#[derive(Default)]
pub(crate) struct Pages {
    /// Pages that were deleted or never used.
    pub(crate) free: BTreeSet<BlockNumber>,
    /// Pages that were handed out and not written yet.
    pub(crate) taken: BTreeSet<BlockNumber>,
    /// The number of threads that currently let the file grow; each will then say what becomes of
    /// its new pages.
    pub(crate) growing: u32,
    /// Passes in physical order that are under way.
    passes: Vec<PassState>,
    passes_begun: u64,
}

/// The progress of a pass in physical order.
struct PassState {
    number: u64,
    /// The first page that the pass has not reached.
    next: BlockNumber,
    /// The page that the pass visits now.
    visiting: Option<BlockNumber>,
    /// Pages to visit again: pages behind the pass to which entries moved that it had not met, and
    /// sparse pages.
    to_revisit: BTreeSet<BlockNumber>,
}

impl PassState {
    /// Asserts what holds between two pages of the pass.
    fn assert_state(&self) {
        debug_assert!(self.next > META_BLOCK, "the pass begins behind the metapage");
        debug_assert!(
            self.visiting.is_none_or(|block| block < self.next),
            "the pass has reached the page that it visits"
        );
        debug_assert!(
            self.to_revisit.last().is_none_or(|&block| block < self.next),
            "pages that the pass comes back to lie behind it"
        );
    }

    fn may_not_have_met(&self, block: BlockNumber) -> bool {
        block >= self.next || self.visiting == Some(block) || self.to_revisit.contains(&block)
    }
}

impl Pages {
    /// Hands out a free page.
    pub(crate) fn take(&mut self) -> Option<BlockNumber> {
        let block = self.free.pop_first()?;
        debug_assert_ne!(block, META_BLOCK, "the metapage is never free");
        self.taken.insert(block);
        Some(block)
    }

    fn add_free(&mut self, block: BlockNumber) {
        debug_assert_ne!(block, META_BLOCK, "the metapage is never free");
        if self.free.len() < FREE_MAX && !self.taken.contains(&block) {
            self.free.insert(block);
        }
    }
}

impl Recycling {
    pub(crate) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            shifts: AtomicU64::new(0),
            pages: Mutex::new(Pages::default()),
        }
    }

    /// Remembers a deleted page. The caller has the page latched. Does nothing if the page is
    /// known, or being put to use.
    pub(crate) fn add_free(&self, block: BlockNumber) {
        self.pages.lock().add_free(block);
    }

    /// Remembers a page that was never used, after a crash or a failed insertion. The caller is a
    /// pass that has the page latched. Does nothing if another thread is about to use the page.
    pub(crate) fn add_unused(&self, block: BlockNumber) {
        let mut pages = self.pages.lock();
        // A page by which the file has just grown looks the same.
        let awaited = block == FIRST_ROOT || pages.growing > 0;
        if !awaited || seeded_bug!("awaited_page_is_unused") {
            pages.add_free(block);
        }
    }

    /// Decides whether a page is known to be free.
    pub(crate) fn is_free(&self, block: BlockNumber) -> bool {
        self.pages.lock().free.contains(&block)
    }

    /// Returns the number of pages known to be free.
    pub(crate) fn free_count(&self) -> usize {
        self.pages.lock().free.len()
    }

    /// Notes that entries move from the page `from` to the page `to`; both are latched. A pass in
    /// physical order that has visited `to`, but not `from`, must come back.
    ///
    /// A pass announces its next page before it latches that page. If the pass was at `to` before
    /// the caller latched that page, the caller sees this here. If not, the pass will see the
    /// entries.
    pub(crate) fn entries_move(&self, from: BlockNumber, to: BlockNumber) {
        debug_assert_ne!(from, to, "entries move to another page");
        debug_assert_ne!(from, META_BLOCK, "the metapage has no entries");
        debug_assert_ne!(to, META_BLOCK, "the metapage takes no entries");
        let mut pages = self.pages.lock();
        for pass in &mut pages.passes {
            if to < pass.next && pass.may_not_have_met(from) && !seeded_bug!("pass_forgets_moved") {
                pass.to_revisit.insert(to);
                pass.assert_state();
            }
        }
    }

    /// Notes that entries go over from `from` to its right sibling `to`; both are latched. As
    /// [`Self::entries_move`]. In addition, a backward scan that has read `to` and is on the way to
    /// `from` must not expect the entries there.
    pub(crate) fn entries_shift(&self, from: BlockNumber, to: BlockNumber) {
        if !seeded_bug!("pass_forgets_shifted") {
            self.entries_move(from, to);
        }
        if !seeded_bug!("shift_leaves_left_links") {
            // Relaxed, here and in `shifts`: the latches order the counter. A thread that latched
            // `to` before this reads the old number. A thread that latches `from` after this reads
            // the new number.
            self.shifts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of times that entries went over to a right sibling. The caller has a page
    /// latched: the number includes the shifts of that page before the latch, and none after.
    pub(crate) fn shifts(&self) -> u64 {
        self.shifts.load(Ordering::Relaxed)
    }

    /// Begins a pass over the pages in physical order, without the metapage.
    pub(crate) fn begin_pass(&self) -> Pass<'_> {
        let mut pages = self.pages.lock();
        pages.passes_begun += 1;
        let number = pages.passes_begun;
        pages.passes.push(PassState {
            number,
            next: BlockNumber(META_BLOCK.0 + 1),
            visiting: None,
            to_revisit: BTreeSet::new(),
        });
        Pass { recycling: self, number }
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire: pairs with the release in `advance`. An epoch that counts a page implies that
        // all links to that page had gone.
        self.epoch.load(Ordering::Acquire)
    }

    /// Counts a page that is about to get new contents; no link to the page is left.
    pub(crate) fn advance(&self) {
        // Release: a thread that sees this epoch sees that the links had gone. A thread that sees
        // the new contents, written after this, sees this epoch.
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// A pass in physical order, under way until it is dropped.
pub(crate) struct Pass<'a> {
    recycling: &'a Recycling,
    number: u64,
}

impl Pass<'_> {
    /// Returns the page to visit now, in a file of `blocks` pages; the visit of the page before is
    /// over. `None` when the pass has met every entry that existed at its beginning.
    pub(crate) fn next(&self, blocks: u32) -> Option<BlockNumber> {
        let mut pages = self.recycling.pages.lock();
        let pass = pages.passes.iter_mut().find(|pass| pass.number == self.number)?;
        pass.visiting = if pass.next.0 < blocks {
            let block = pass.next;
            pass.next = BlockNumber(block.0 + 1);
            Some(block)
        } else {
            pass.to_revisit.pop_first()
        };
        pass.assert_state();
        pass.visiting
    }
}

impl Pass<'_> {
    /// Puts the current page on the list of pages to visit again, if the pass has not reached
    /// `sibling` yet. Returns whether the pass will come back.
    pub(crate) fn visit_again(&self, sibling: BlockNumber) -> bool {
        let mut pages = self.recycling.pages.lock();
        let pass = pages.passes.iter_mut().find(|pass| pass.number == self.number);
        let Some(pass) = pass.filter(|pass| sibling >= pass.next) else { return false };
        debug_assert!(pass.visiting.is_some_and(|block| block != sibling), "they are neighbours");
        let full = pass.to_revisit.len() >= REVISITS_MAX;
        pass.visiting.is_some_and(|block| !full && pass.to_revisit.insert(block))
    }

    /// Decides whether the pass has met all entries of this page, and so will not come back unless
    /// other entries move there.
    pub(crate) fn has_met(&self, block: BlockNumber) -> bool {
        let pages = self.recycling.pages.lock();
        let pass = pages.passes.iter().find(|pass| pass.number == self.number);
        pass.is_some_and(|pass| !pass.may_not_have_met(block))
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.recycling.pages.lock().passes.retain(|pass| pass.number != self.number);
    }
}

#[cfg(all(test, feature = "loom", not(feature = "shuttle")))]
mod model {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use loom::thread;
    use niwaki_env::bugs;

    use super::*;

    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn check(bug: Option<&'static str>) -> bool {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        bugs::plant(bug);
        let passed = catch_unwind(AssertUnwindSafe(|| loom::model(an_old_link_is_not_believed)));
        bugs::plant(None);
        passed.is_ok()
    }

    const OLD: u64 = 1;
    const NEW: u64 = 2;

    /// A link, and the page that it leads to. A latch or a copy's sequence number would order them
    /// in the index; here acquire and release do, and nothing more.
    struct World {
        recycling: Recycling,
        link: AtomicU64,
        page: AtomicU64,
    }

    /// Unlinks the page and uses it again, while a reader follows the link.
    fn an_old_link_is_not_believed() {
        let world = Arc::new(World {
            recycling: Recycling::new(),
            link: AtomicU64::new(1),
            page: AtomicU64::new(OLD),
        });
        let user = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.link.store(0, Ordering::Release);
                if !seeded_bug!("epoch_after_contents") {
                    world.recycling.advance();
                }
                world.page.store(NEW, Ordering::Release);
                if seeded_bug!("epoch_after_contents") {
                    world.recycling.advance();
                }
            })
        };
        let late = seeded_bug!("epoch_read_after_link");
        let early_epoch = world.recycling.epoch();
        let linked = world.link.load(Ordering::Acquire) == 1;
        let epoch = if late { world.recycling.epoch() } else { early_epoch };
        let contents = world.page.load(Ordering::Acquire);
        if linked && world.recycling.epoch() == epoch {
            assert_eq!(contents, OLD, "the link led to another page");
        }
        user.join().expect("the user ends");
    }

    #[test]
    fn a_link_of_this_epoch_leads_to_its_page() {
        assert!(check(None));
    }

    #[test]
    fn an_epoch_that_comes_too_late_is_found() {
        assert!(!check(Some("epoch_after_contents")));
        assert!(!check(Some("epoch_read_after_link")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "the pass has reached the page"))]
    fn a_pass_ahead_of_itself_is_noticed() {
        let visiting = Some(BlockNumber(3));
        let to_revisit = BTreeSet::new();
        PassState { number: 1, next: BlockNumber(3), visiting, to_revisit }.assert_state();
    }
}
