//! The page that a row goes to: one with room, known or found, or a new one.
//!
//! The free space map proposes pages (`freespace.rs`). Pages on the way are pruned where that may
//! make room.

use niwaki_storage::page::{PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, Csn, Fork, PageKind, PageWrite, Xid};
use niwaki_txn::XidStatus;

use crate::error::{Error, Result};
use crate::format::header::{TUPLE_HEADER_SIZE, flags};
use crate::format::page;
use crate::maps::room::ROOM_FOR_UPDATES;
use crate::memory::freespace::LOOKS;
use crate::relation::Heap;

/// The most blocks by which a heap grows at once.
const EXTEND_MAX: u32 = 64;
/// The least bytes of rolled-back rows on a full page for which a pass over the page is worth its
/// cost.
const ROLLED_BACK_MIN: usize = PAGE_SIZE / 8;
const _: () = assert!(EXTEND_MAX > 0 && EXTEND_MAX < BlockNumber::INVALID.0);

impl<'e> Heap<'e> {
    /// Returns a latched page with room for a tuple of `len` bytes. `xid` is in the range of the
    /// page's ids. The caller must initialise a page that is still new.
    pub(crate) fn page_for_insert(
        &self,
        session: usize,
        len: usize,
        xid: Xid,
    ) -> Result<PageWrite<'e>> {
        debug_assert!(
            (TUPLE_HEADER_SIZE..=page::MAX_TUPLE_SIZE).contains(&len),
            "no page takes a tuple of {len} bytes"
        );
        debug_assert!(xid.is_normal(), "{xid} inserts no row");
        self.load_map()?;
        self.open_visibility_map()?;
        let space = &self.relation.shared.space;
        let own = space.target(session);
        if let Some(block) = own.or_else(|| space.any_target()) {
            let pin = self.pin(block)?;
            // Use the page of another session only if it is not latched. Otherwise this session
            // gets its own.
            let fine = own.is_some() || pin.try_write().is_some();
            if fine {
                let mut page = pin.into_write();
                let takes = |page: &Page| self.takes_insert(page, len);
                if takes(&page)
                    || (own.is_some() && self.takes_after_rollbacks(&mut page, true, takes)?)
                {
                    self.bring_in_range(&mut page, xid)?;
                    debug_assert!(page.is_new() || page::has_room(&page, len), "no room: {page:?}");
                    return Ok(page);
                }
                if own.is_some() {
                    self.note_room(&page);
                    space.set_target(session, None);
                }
            }
        }
        // Ends: each round takes a page out of the map, or a new one that is empty.
        loop {
            let block = self.new_target(session, len)?;
            let mut page = self.pin_write(block)?;
            // Free line pointers are used before new ones are added.
            let fine = self.takes_insert(&page, len) && self.known_free(&page).is_empty();
            if fine || self.takes_pruned(&mut page, len)? {
                self.bring_in_range(&mut page, xid)?;
                debug_assert!(page.is_new() || page::has_room(&page, len), "no room: {page:?}");
                return Ok(page);
            }
            self.note_room(&page);
            space.set_target(session, None);
        }
    }

    /// Returns whether a page takes a row once a pass has removed what can go.
    fn takes_pruned(&self, page: &mut PageWrite<'_>, len: usize) -> Result<bool> {
        if !page.is_new() && page.kind() == PageKind::Heap {
            self.prune_if_useful(page, None)?;
        }
        Ok(self.takes_insert(page, len))
    }

    /// Returns whether a full page `takes` a row once a pass has removed its rolled-back rows. Only
    /// this check finds such rows: they leave no hint on their page, and readers may never pass
    /// them. `left` means that the session leaves the page. Then the page is noted with each of its
    /// inserters that is still running.
    pub(crate) fn takes_after_rollbacks(
        &self,
        page: &mut PageWrite<'_>,
        left: bool,
        takes: impl Fn(&Page) -> bool,
    ) -> Result<bool> {
        // In a heap of pieces (TOAST chunks), all pieces of a value go together, found by the first
        // of them (`pieces.rs`).
        if page.is_new() || page.kind() != PageKind::Heap || self.relation.pieces {
            return Ok(false);
        }
        let base = page::base(page);
        // Most pages have few inserters.
        let (mut last, mut status, mut bytes) = (0, XidStatus::Committed(Csn(1)), 0);
        for tuple in (1..=page.item_count()).filter_map(|offset| page::tuple(page, offset)) {
            if tuple.has(flags::XMIN_ALL_VISIBLE) {
                continue;
            }
            if last != tuple.xmin() {
                last = tuple.xmin();
                let xmin = page::xmin(base, tuple);
                status = self.txns.status(xmin);
                if left && status == XidStatus::InProgress {
                    self.relation.shared.space.note_uncommitted(xmin, page.id().block.0);
                }
            }
            if status == XidStatus::Aborted {
                bytes += TUPLE_HEADER_SIZE + tuple.data().len();
            }
        }
        if bytes < ROLLED_BACK_MIN {
            return Ok(false);
        }
        let free = self.known_free(page);
        self.prune_and_settle(page, &self.txns.horizon(), &free)?;
        Ok(takes(page))
    }

    /// Marks pages as unknown whose filling transactions were rolled back since.
    fn expect_room_of_rollbacks(&self) {
        let space = &self.relation.shared.space;
        for pages in space.uncommitted.take_rolled_back(|xid| self.txns.status(xid)) {
            pages.for_each(|block| space.expect_room(block));
        }
    }

    /// Takes another page for this session, from the map or by growing the heap.
    pub(crate) fn new_target(&self, session: usize, len: usize) -> Result<u32> {
        self.load_map()?;
        self.expect_room_of_rollbacks();
        let space = &self.relation.shared.space;
        if let Some(block) = self.look_for_room(len, space.take_owed())? {
            space.set_target(session, Some(block));
            return Ok(block);
        }
        if let Some(block) = self.take_known(len)? {
            space.set_target(session, Some(block));
            return Ok(block);
        }
        // While this session looks at pages, another session may make room.
        let found = match self.look_for_room(len, LOOKS)? {
            None => self.take_known(len)?,
            found => found,
        };
        if let Some(block) = found {
            space.set_target(session, Some(block));
            return Ok(block);
        }
        let blocks = self.blocks()?;
        if blocks >= BlockNumber::INVALID.0 - EXTEND_MAX {
            return Err(Error::TooManyBlocks { file: self.relation.file.id.0, blocks });
        }
        // A small heap stays small; a large one seldom asks the system for pages.
        let count = (blocks / 16).clamp(1, EXTEND_MAX);
        let grown = self.storage.pool().extend(self.relation.file, Fork::Main, count)?;
        debug_assert!(grown.first.0 >= blocks, "a page that was there is new");
        debug_assert!(grown.count > 0, "the heap has grown by no page");
        space.owe(grown.count);
        let first = grown.first.0;
        for block in first + 1..first.saturating_add(grown.count) {
            space.record(block, PAGE_SIZE);
        }
        space.set_target(session, Some(first));
        Ok(first)
    }

    /// Takes a page with room for `len` bytes out of the map.
    fn take_known(&self, len: usize) -> Result<Option<u32>> {
        // The map may still contain blocks that were cut off.
        let blocks = self.blocks()?;
        Ok(self.relation.shared.space.take(len).filter(|block| *block < blocks))
    }

    /// Looks at unknown pages, `looks` at most, until one takes `len` bytes. Prunes the pages on
    /// the way.
    fn look_for_room(&self, len: usize, looks: u32) -> Result<Option<u32>> {
        let space = &self.relation.shared.space;
        for _ in 0..looks {
            let unknown = space.next_unknown();
            let another_round = || space.look_again(self.txns.horizon().oldest());
            let Some(block) =
                unknown.or_else(|| another_round().then(|| space.next_unknown()).flatten())
            else {
                return Ok(None);
            };
            if block >= self.blocks()? {
                return Ok(None);
            }
            let pin = self.pin(block)?;
            // The session that has latched the page knows its room.
            let Some(mut page) = pin.try_write() else { continue };
            let takes = |page: &Page| self.takes_insert(page, len);
            if takes(&page)
                || self.takes_pruned(&mut page, len)?
                || self.takes_after_rollbacks(&mut page, true, takes)?
            {
                return Ok(Some(block));
            }
            self.note_room(&page);
        }
        Ok(None)
    }

    /// Returns a page other than `not` for a cross-page update; the caller itself looks at the
    /// page's room.
    pub(crate) fn target_for_move(
        &self,
        session: usize,
        len: usize,
        not: u32,
        tried: Option<u32>,
    ) -> Result<u32> {
        let space = &self.relation.shared.space;
        match space.target(session) {
            Some(block) if block != not && tried.is_none() => Ok(block),
            _ => loop {
                // Ends: the map gives each page once until its room is noted again.
                let block = self.new_target(session, len + ROOM_FOR_UPDATES)?;
                if block != not {
                    return Ok(block);
                }
            },
        }
    }
}
