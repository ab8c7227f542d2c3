//! Pruning by readers: a reader that passes versions which no snapshot sees any more removes them.
//!
//! ```text
//! under the shared latch   rows are copied out, versions not seen are counted
//!   none, or few on a page with room ───────────────► done: nothing shared was written
//!   a version removable, by one horizon?  no ────────► done
//! latch given back         exclusive latch, if that needs no waiting ─► one pass, by that horizon
//! ```
//!
//! A reader walks a chain under one latch hold and keeps nothing of the page afterwards. So neither
//! this reader nor another one can be in the middle of a removed chain (rule `follow-again`).
//!
//! An index-only scan visits a page if its bit in the visibility map is not set. The scan then has
//! a reason of its own for a pass: the next scan need not visit the page
//! ([`Heap::set_all_visible`]).

use niwaki_env::SIMULATED;
use niwaki_storage::page::{ItemState, PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, Csn, Fork, Lsn, Mixed, OffsetNumber, PageKind, Pin};
use niwaki_txn::{Horizon, XidStatus};

use crate::error::Result;
use crate::format::header::{Tuple, absolute, flags};
use crate::format::map_page::PageVisibility;
use crate::format::page::{self, Chain};
use crate::pruning::prune::PruneOptions;
use crate::relation::Heap;

/// Bytes of room below which a page runs short of it: the next update may not fit.
const ROOM_MIN: usize = PAGE_SIZE / 10;
/// Number of unseen versions that a reader passes before it prunes a page with room. Passing this
/// number of versions costs each reader about as much as one pass costs.
const PASSED_MAX: u16 = 16;
/// Number of removable versions that make a pass over a quiet page worth its cost.
const LOOKED_FOR_MIN: usize = if SIMULATED { 1 } else { 16 };
/// Bytes of room from which a page that lost rows is offered to insertions. Less room is left to
/// updates of the rows that stay.
const ROOM_OFFERED: usize = PAGE_SIZE / 2;

const _: () = assert!(ROOM_MIN < ROOM_OFFERED && ROOM_OFFERED < PAGE_SIZE);
const _: () = assert!(LOOKED_FOR_MIN > 0 && PASSED_MAX > 0);

/// The result of a look at a page ([`Heap::prune_if_quiet`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageVisit {
    /// A pass was made over the page.
    Passed,
    /// Another session changed the page a moment ago.
    Busy,
    /// The page needs nothing now.
    Nothing,
    /// The page is not in the pool, or was never used.
    Absent,
}

impl Heap<'_> {
    /// Returns whether `passed` versions that a reader did not see are reason enough to look
    /// closer.
    #[inline]
    fn is_worth_a_look(&self, page: &Page, passed: u16) -> bool {
        debug_assert_ne!(passed, 0, "a reader that saw every version writes nothing shared");
        debug_assert!(passed <= page.item_count(), "{passed} versions of one page");
        passed >= PASSED_MAX || page.free_bytes() < ROOM_MIN.max(self.relation.reserve())
    }

    /// Returns the horizon by which a pass would shorten the chain at `root`, after a walk past
    /// `passed` versions.
    pub(crate) fn chain_to_prune(&self, page: &Page, root: u16, passed: u16) -> Option<Horizon> {
        debug_assert_ne!(root, 0, "{passed} versions of a chain without a root");
        if !self.is_worth_a_look(page, passed) {
            return None;
        }
        let horizon = self.txns.horizon();
        self.chain_has_gone(page, root, &horizon).then_some(horizon)
    }

    /// Returns the horizon by which a pass would remove versions, after a scan of the page past
    /// `passed` versions.
    pub(crate) fn page_to_prune(&self, page: &Page, passed: u16) -> Option<Horizon> {
        if !self.is_worth_a_look(page, passed) {
            return None;
        }
        let horizon = self.txns.horizon();
        let base = page::base(page);
        let mut versions = (1..=page.item_count()).filter_map(|offset| page::tuple(page, offset));
        versions.any(|tuple| self.is_gone(base, tuple, None, &horizon).0).then_some(horizon)
    }

    /// Returns whether a pass by this horizon removes a version of the chain. Each version's
    /// inserter is the transaction that ended the version before, so each version costs one
    /// look-up.
    fn chain_has_gone(&self, page: &Page, root: u16, horizon: &Horizon) -> bool {
        let base = page::base(page);
        let mut inserted = None;
        Chain::new(page, root).any(|(_, tuple)| {
            let gone;
            (gone, inserted) = self.is_gone(base, tuple, inserted, horizon);
            gone
        })
    }

    /// Returns the verdict of a pass by this horizon, and the state of the transaction that ended
    /// the version, if it was looked up. `inserted` is the state of the version's inserter, if it
    /// is known.
    pub(crate) fn is_gone(
        &self,
        base: u64,
        tuple: Tuple<'_>,
        inserted: Option<XidStatus>,
        horizon: &Horizon,
    ) -> (bool, Option<XidStatus>) {
        if tuple.has(flags::STUB) {
            return (false, None);
        }
        let begin = if tuple.has(flags::XMIN_ALL_VISIBLE) {
            Csn(1)
        } else {
            match inserted.unwrap_or_else(|| self.txns.status(page::xmin(base, tuple))) {
                XidStatus::Aborted => return (true, None),
                XidStatus::InProgress => return (false, None),
                XidStatus::Committed(begin) => begin,
            }
        };
        if !tuple.has_deleter() {
            return (false, None);
        }
        let ended = self.txns.status(page::xmax(base, tuple));
        let gone = matches!(ended, XidStatus::Committed(end) if horizon.removable(begin, end));
        (gone, Some(ended))
    }

    /// Makes the visibility map say that all snapshots see this page, if that takes no waiting.
    /// Returns whether the map says so now. The caller is a scan that had to visit the page because
    /// the map did not say so. `horizon` was taken a short while ago.
    ///
    /// # Errors
    /// Storage's.
    pub fn set_all_visible(&self, block: u32, horizon: &Horizon) -> Result<bool> {
        if !self.has_visibility_map()? {
            return Ok(false);
        }
        let pin = self.pin(block)?;
        if self.page_visibility(block) == PageVisibility::Unknown
            && self.may_be_seen_by_all(&pin.read(), block, horizon)
        {
            self.prune_on_access(&pin, horizon);
        }
        Ok(self.page_visibility(block) != PageVisibility::Unknown)
    }

    /// Looks at one page on behalf of a background task. Makes a pass over the page if something
    /// may go, or if all snapshots may see everything that is left. Only pages in the pool qualify,
    /// and only if they have not changed since the log ended at `quiet`.
    pub fn prune_if_quiet(&self, block: u32, quiet: Lsn, horizon: &Horizon) -> PageVisit {
        let Some(pin) = self.storage.pool().pin_if_resident(self.page_id(block)) else {
            return PageVisit::Absent;
        };
        {
            let page = pin.read();
            if page.kind() != PageKind::Heap {
                return PageVisit::Absent;
            }
            if page.lsn() > quiet {
                return PageVisit::Busy;
            }
            let hint = page::prune_xid(&page);
            let ended = || self.txns.status(absolute(page::base(&page), hint));
            let goes = hint != 0
                && (matches!(ended(), XidStatus::Committed(end) if end <= horizon.oldest())
                    || self.many_are_gone(&page, horizon));
            if !goes && !self.may_be_seen_by_all(&page, block, horizon) {
                return PageVisit::Nothing;
            }
        }
        self.prune_on_access(&pin, horizon);
        PageVisit::Passed
    }

    /// Returns whether a pass removes enough to be worth its cost, including versions that are too
    /// young for an old snapshot.
    fn many_are_gone(&self, page: &Page, horizon: &Horizon) -> bool {
        let base = page::base(page);
        let versions = (1..=page.item_count()).filter_map(|offset| page::tuple(page, offset));
        versions
            .filter(|tuple| self.is_gone(base, *tuple, None, horizon).0)
            .nth(LOOKED_FOR_MIN - 1)
            .is_some()
    }

    /// Looks at a page as [`Heap::prune_if_quiet`] does, in a heap without a map, where nothing
    /// else records finished pages. Returns [`PageVisit::Nothing`] if something will go later,
    /// `None` if the page is finished.
    pub fn prune_if_quiet_unmapped(
        &self,
        block: u32,
        quiet: Lsn,
        horizon: &Horizon,
    ) -> Option<PageVisit> {
        let Some(pin) = self.storage.pool().pin_if_resident(self.page_id(block)) else {
            return Some(PageVisit::Absent);
        };
        {
            let page = pin.read();
            if page.kind() != PageKind::Heap {
                return None;
            }
            if page.lsn() > quiet {
                return Some(PageVisit::Busy);
            }
            let base = page::base(&page);
            let mut waits = false;
            let goes = (1..=page.item_count()).any(|offset| {
                let id = page.item_id(OffsetNumber(offset));
                let dead = id.state() == ItemState::Dead;
                if (dead || id.mixed() != Mixed::No)
                    && self.settles(BlockNumber(block), offset, dead)
                {
                    return true;
                }
                let Some(tuple) = page::tuple(&page, offset) else { return false };
                waits |= self.may_go_later(base, tuple);
                self.is_gone(base, tuple, None, horizon).0
            });
            if !goes {
                return waits.then_some(PageVisit::Nothing);
            }
        }
        self.prune_on_access(&pin, horizon);
        Some(PageVisit::Passed)
    }

    /// Returns whether a version may become removable later without any further change of its page.
    fn may_go_later(&self, base: u64, tuple: Tuple<'_>) -> bool {
        if tuple.has(flags::STUB) {
            return true;
        }
        let ended = || self.txns.status(page::xmax(base, tuple));
        let inserted = || self.txns.status(page::xmin(base, tuple));
        let old = tuple.has(flags::XMIN_ALL_VISIBLE) || tuple.xmin() == 1;
        (tuple.has_deleter() && ended() != XidStatus::Aborted)
            || (!old && inserted() == XidStatus::InProgress)
    }

    /// Returns whether a pass by this horizon probably leaves only versions that all snapshots see.
    fn may_be_seen_by_all(&self, page: &Page, block: u32, horizon: &Horizon) -> bool {
        let base = page::base(page);
        let is_heap = page.kind() == PageKind::Heap;
        is_heap
            && (1..=page.item_count()).all(|offset| {
                let id = page.item_id(OffsetNumber(offset));
                let dead = id.state() == ItemState::Dead;
                if (dead || id.mixed() != Mixed::No)
                    && !self.settles(BlockNumber(block), offset, dead)
                {
                    return false;
                }
                let Some(tuple) = page::tuple(page, offset) else { return true };
                if tuple.has(flags::STUB) {
                    return false;
                }
                let inserted = if tuple.has(flags::XMIN_ALL_VISIBLE) || tuple.xmin() == 1 {
                    XidStatus::Committed(Csn(1))
                } else {
                    self.txns.status(page::xmin(base, tuple))
                };
                match inserted {
                    XidStatus::Aborted => true,
                    XidStatus::Committed(begin) if begin <= horizon.oldest() => {
                        !tuple.has_deleter()
                            || match self.txns.status(page::xmax(base, tuple)) {
                                XidStatus::Aborted => true,
                                XidStatus::Committed(end) => horizon.removable(begin, end),
                                XidStatus::InProgress => false,
                            }
                    }
                    XidStatus::InProgress | XidStatus::Committed(_) => false,
                }
            })
    }

    /// Makes one pass for a reader, if the page can be latched without waiting. `pin` is not
    /// latched.
    #[cold]
    pub(crate) fn prune_on_access(&self, pin: &Pin<'_>, horizon: &Horizon) {
        debug_assert_eq!(pin.id().file, self.relation.file.id, "a page of another heap");
        debug_assert_eq!(pin.id().fork, Fork::Main, "a page of a map has no versions");
        let room = {
            // The reader has its rows. A full log is an error for sessions that must write, not for
            // this one.
            let Ok(()) = self.open_visibility_map() else { return };
            // Passes stop while the clean-up has no room for more. A report right behind the end of
            // an old snapshot finds on each page versions that the snapshot kept.
            if self.cleanup_is_behind() {
                return;
            }
            let Some(mut page) = pin.try_write() else { return };
            let free = self.known_free(&page);
            let options =
                PruneOptions { free: &free, settle: true, map: true, ..PruneOptions::default() };
            let Ok(pruned) = self.prune(&mut page, horizon, options) else { return };
            self.relation.shared.space.count_reader_pass();
            // Line pointers are room too: a page that has no other room reads as full.
            (pruned.chains + pruned.freed > 0).then(|| self.room_left(&page))
        };
        if let Some(room) = room.filter(|&room| room >= ROOM_OFFERED) {
            self.offer(pin.id().block.0, room);
        }
    }
}
