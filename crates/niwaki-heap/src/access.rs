//! Pruning by readers: who walks past versions that nobody sees any more takes them away.
//!
//! ```text
//! under the shared latch   rows are copied out, versions not seen are counted
//!   none, or few on a page with room ───────────────► done: nothing shared was written
//!   a version removable, by one horizon?  no ────────► done
//! latch given back         exclusive latch, if that needs no waiting ─► one pass, by that horizon
//! ```
//!
//! A reader walks a chain under one latch hold and keeps nothing of the page afterwards, so neither it
//! nor another reader can be in the middle of what is removed (rule 9b.5).
//!
//! An index-only scan that comes to a page for want of a bit in the visibility map has a reason of its own for a pass:
//! the next scan need not come ([`Heap::show_to_all`]).

use niwaki_env::SIMULATED;
use niwaki_storage::page::{ItemState, PAGE_SIZE, Page};
use niwaki_storage::{Csn, Lsn, Mixed, OffsetNumber, PageKind, Pin};
use niwaki_txn::{Horizon, XidStatus};

use crate::error::Result;
use crate::header::{Tuple, absolute, flags};
use crate::page::{self, Chain};
use crate::prune::PruneOptions;
use crate::relation::Heap;
use crate::visibility::PageVisibility;

/// A page with less room than this runs short of it: the next update may not fit.
const ROOM_MIN: usize = PAGE_SIZE / 10;
/// Versions that a reader walks past before it minds on a page with room: walking past them costs each
/// reader about as much as one pass costs.
const PASSED_MAX: u16 = 16;
/// So many removable versions on a page that has become quiet are worth a pass.
const LOOKED_FOR_MIN: usize = if SIMULATED { 1 } else { 16 };
/// Room from which a page whose rows went is offered to insertions. Less is left to updates of the rows
/// that stay.
const ROOM_OFFERED: usize = PAGE_SIZE / 2;

/// What a look at a page came to ([`Heap::look_after`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// There was a pass over it.
    Passed,
    /// Somebody changed it a moment ago.
    Busy,
    /// Nothing is to be done now.
    Nothing,
    /// The page is not in the pool, or was never used.
    Absent,
}

impl Heap<'_> {
    /// Whether `passed` versions that a reader did not see are reason enough to look closer.
    #[inline]
    fn minds(&self, page: &Page, passed: u16) -> bool {
        passed >= PASSED_MAX || page.free_bytes() < ROOM_MIN.max(self.relation.reserve())
    }

    /// After a walk along the chain at `root` past `passed` versions: the horizon by which a pass would
    /// shorten it.
    pub(crate) fn chain_to_prune(&self, page: &Page, root: u16, passed: u16) -> Option<Horizon> {
        if !self.minds(page, passed) {
            return None;
        }
        let horizon = self.txns.horizon();
        self.chain_has_gone(page, root, &horizon).then_some(horizon)
    }

    /// After a scan of the page past `passed` versions: the horizon by which a pass would remove some.
    pub(crate) fn page_to_prune(&self, page: &Page, passed: u16) -> Option<Horizon> {
        if !self.minds(page, passed) {
            return None;
        }
        let horizon = self.txns.horizon();
        let base = page::base(page);
        let mut versions = (1..=page.item_count()).filter_map(|offset| page::tuple(page, offset));
        versions.any(|tuple| self.is_gone(base, tuple, None, &horizon).0).then_some(horizon)
    }

    /// Whether a pass by this horizon takes something out of the chain. Each version's inserter is whoever
    /// ended the one before: one look-up a version.
    fn chain_has_gone(&self, page: &Page, root: u16, horizon: &Horizon) -> bool {
        let base = page::base(page);
        let mut inserted = None;
        Chain::new(page, root).any(|(_, tuple)| {
            let gone;
            (gone, inserted) = self.is_gone(base, tuple, inserted, horizon);
            gone
        })
    }

    /// The verdict that a pass by this horizon gives, and what became of whoever ended the version, if that was
    /// asked. `inserted`: what became of its inserter, if that is known.
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

    /// For a scan that had to come to this page because the visibility map does not say that all see it: sees to it that
    /// the map does from now on, if that takes no waiting. Whether it does now. `horizon` was taken a short while ago.
    ///
    /// # Errors
    /// Storage's.
    pub fn show_to_all(&self, block: u32, horizon: &Horizon) -> Result<bool> {
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

    /// One look at a page by who has time: a pass over it if something may go, or all may see what is left. Only at pages
    /// in the pool, which nobody has changed since the log ended at `quiet`.
    pub fn look_after(&self, block: u32, quiet: Lsn, horizon: &Horizon) -> Look {
        let Some(pin) = self.storage.pool().pin_if_resident(self.page_id(block)) else {
            return Look::Absent;
        };
        {
            let page = pin.read();
            if page.kind() != PageKind::Heap {
                return Look::Absent;
            }
            if page.lsn() > quiet {
                return Look::Busy;
            }
            let hint = page::prune_xid(&page);
            let ended = || self.txns.status(absolute(page::base(&page), hint));
            let goes = hint != 0
                && (matches!(ended(), XidStatus::Committed(end) if end <= horizon.oldest())
                    || self.many_are_gone(&page, horizon));
            if !goes && !self.may_be_seen_by_all(&page, block, horizon) {
                return Look::Nothing;
            }
        }
        self.prune_on_access(&pin, horizon);
        Look::Passed
    }

    /// Whether a pass removes enough to be worth it, also of what an old snapshot is too old to see.
    fn many_are_gone(&self, page: &Page, horizon: &Horizon) -> bool {
        let base = page::base(page);
        let versions = (1..=page.item_count()).filter_map(|offset| page::tuple(page, offset));
        versions
            .filter(|tuple| self.is_gone(base, *tuple, None, horizon).0)
            .nth(LOOKED_FOR_MIN - 1)
            .is_some()
    }

    /// [`Heap::look_after`] in a heap without a map, which does not say where nothing is to be done: [`Look::Nothing`] where
    /// something will go later, `None` where it is all done.
    pub fn look_after_unmapped(&self, block: u32, quiet: Lsn, horizon: &Horizon) -> Option<Look> {
        let Some(pin) = self.storage.pool().pin_if_resident(self.page_id(block)) else {
            return Some(Look::Absent);
        };
        {
            let page = pin.read();
            if page.kind() != PageKind::Heap {
                return None;
            }
            if page.lsn() > quiet {
                return Some(Look::Busy);
            }
            let base = page::base(&page);
            let mut waits = false;
            let goes = (1..=page.item_count()).any(|offset| {
                let id = page.item_id(OffsetNumber(offset));
                let dead = id.state() == ItemState::Dead;
                if (dead || id.mixed() != Mixed::No) && self.settles(block, offset, dead) {
                    return true;
                }
                let Some(tuple) = page::tuple(&page, offset) else { return false };
                waits |= self.may_go_later(base, tuple);
                self.is_gone(base, tuple, None, horizon).0
            });
            if !goes {
                return waits.then_some(Look::Nothing);
            }
        }
        self.prune_on_access(&pin, horizon);
        Some(Look::Passed)
    }

    /// Whether a version may be removable later although nobody changes its page any more.
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

    /// Whether a pass by this horizon probably leaves only what all see.
    fn may_be_seen_by_all(&self, page: &Page, block: u32, horizon: &Horizon) -> bool {
        let base = page::base(page);
        let is_heap = page.kind() == PageKind::Heap;
        is_heap
            && (1..=page.item_count()).all(|offset| {
                let id = page.item_id(OffsetNumber(offset));
                let dead = id.state() == ItemState::Dead;
                if (dead || id.mixed() != Mixed::No) && !self.settles(block, offset, dead) {
                    return false;
                }
                let Some(tuple) = page::tuple(page, offset) else { return true };
                if tuple.has(flags::STUB) {
                    return false;
                }
                let inserted = match tuple.has(flags::XMIN_ALL_VISIBLE) || tuple.xmin() == 1 {
                    true => XidStatus::Committed(Csn(1)),
                    false => self.txns.status(page::xmin(base, tuple)),
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

    /// One pass by a reader, if the page can be latched without waiting. `pin` is not latched.
    #[cold]
    pub(crate) fn prune_on_access(&self, pin: &Pin<'_>, horizon: &Horizon) {
        let room = {
            // The reader has its rows; that the log is full is for those to say who must write.
            let Ok(()) = self.open_visibility_map() else { return };
            // A report that comes right behind the end of an old snapshot finds what this one kept on each page.
            if self.sees_to_enough() {
                return;
            }
            let Some(mut page) = pin.try_write() else { return };
            let free = self.known_free(&page);
            let options =
                PruneOptions { free: &free, settle: true, map: true, ..PruneOptions::default() };
            let Ok(pruned) = self.prune(&mut page, horizon, options) else { return };
            self.relation.shared.space.count_reader_pass();
            // Line pointers too are room: a page that had no other left reads as full.
            (pruned.chains + pruned.freed > 0).then(|| self.room_left(&page))
        };
        if let Some(room) = room.filter(|&room| room >= ROOM_OFFERED) {
            self.offer(pin.id().block.0, room);
        }
    }
}
