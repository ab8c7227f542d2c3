//! The free space map: about how much room each page has.
//!
//! The map has one byte for each page, in units of 32 bytes, and is resident while the heap is
//! open. It is a hint: an inserter that goes to a page looks again. Vacuum and a clean stop write
//! the map to its own fork, from which it is loaded.
//!
//! After a crash the fork is old. Pages with much room according to the fork are tried; every other
//! page is **unknown**. Before an inserter uses a page by which the heap has grown, it looks at
//! [`LOOKS`] unknown pages, each once. The heap grows by many pages at once. The looks for these
//! pages are owed until the pages are used, so that no inserter waits for all of them. So a crash
//! costs at most one reading of the heap, spread over the insertions that follow. Forgotten room
//! lets the heap grow by 1 / [`LOOKS`] at most.
//!
//! A nearly full page becomes unknown again when a row on it is deleted, or moves away. The row's
//! room comes back once no snapshot sees the row. An inserter that needs room finds it there even
//! if no reader visits the page. A page whose versions cannot go yet stays unknown. Inserters look
//! at it again, in rounds, when the oldest snapshot has changed.
//!
//! Rolled-back rows leave no hint on their page. So the session that filled a page looks at it
//! before it goes to another one. If an inserter of the page is still running at that time, the
//! page is noted with that transaction (`filled.rs`). The page becomes unknown again once the
//! transaction is rolled back.
//!
//! A page that an inserter has taken reads as full until the inserter gives it back, so that
//! concurrent inserters work on different pages.

use niwaki_env::sync::RwLock;
use niwaki_env::sync::plain_atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use niwaki_storage::page::{HEADER_SIZE, PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, Csn, Fork, LoggedPage, PageId, PageKind, PageWrite, Xid};
use niwaki_txn::XidStatus;

use crate::error::{Error, Result};
use crate::format::header::{TUPLE_HEADER_SIZE, flags};
use crate::format::page::{self, has_room};
use crate::memory::filled::Filled;
use crate::relation::Heap;

/// Bytes of room that one unit of the map stands for. One byte per page then covers a whole page.
const UNIT: usize = 32;
/// Number of heap pages that one page of the map describes.
pub const PAGES_PER_MAP_PAGE: usize = PAGE_SIZE - HEADER_SIZE;
/// Number of groups of sessions; each group inserts into a page of its own.
const TARGETS: usize = 8;
/// Bytes that must stay free on a page to which a row moves. New versions of the rows of that page
/// need this room, and so do line pointers of old versions that indexes still name.
const ROOM_FOR_UPDATES: usize = PAGE_SIZE / 20;
/// The most blocks by which a heap grows at once.
const EXTEND_MAX: u32 = 64;
/// Map value of a page to look at. One unit of real room is recorded as 0, because it is too small
/// to use.
const UNKNOWN: u8 = 1;
/// The most bytes of room on a page that counts as nearly full. A page with more room is offered as
/// it is, whatever goes from it later. It takes any row whose large values are out of line.
const NEARLY_FULL: usize = PAGE_SIZE / 4;
/// The least bytes of rolled-back rows on a full page for which a pass over the page is worth its
/// cost.
const ROLLED_BACK_MIN: usize = PAGE_SIZE / 8;
/// Number of unknown pages to look at for each page by which the heap grows.
const LOOKS: u32 = 16;

/// The known room of one heap's pages.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    loaded: AtomicBool,
    map: RwLock<Vec<AtomicU8>>,
    /// Upper bound of the map's entries, as far as known.
    largest: AtomicU8,
    /// The page where the next search begins.
    cursor: AtomicU32,
    /// The page into which each group of sessions inserts, plus one; 0 for none.
    targets: [AtomicU32; TARGETS],
    /// The page where the search for unknown pages continues.
    looked: AtomicU32,
    /// Looks owed for pages by which the heap has grown, and which no session uses yet.
    owed: AtomicU32,
    /// The oldest snapshot at the time when the last round of looking began.
    round: AtomicU64,
    /// The number of passes that readers made.
    reader_passes: AtomicU32,
    /// Pages filled by transactions that may still be rolled back.
    filled: Filled,
}

impl Default for FreeSpace {
    fn default() -> Self {
        Self {
            loaded: AtomicBool::new(false),
            map: RwLock::new(Vec::new()),
            largest: AtomicU8::new(0),
            cursor: AtomicU32::new(0),
            targets: std::array::from_fn(|_| AtomicU32::new(0)),
            looked: AtomicU32::new(0),
            owed: AtomicU32::new(0),
            round: AtomicU64::new(0),
            reader_passes: AtomicU32::new(0),
            filled: Filled::default(),
        }
    }
}

fn units(free_bytes: usize) -> u8 {
    let units = u8::try_from(free_bytes / UNIT).unwrap_or(u8::MAX);
    if units == UNKNOWN { 0 } else { units }
}

/// Returns the units that guarantee `bytes`; the largest value stands for an empty page.
fn units_needed(bytes: usize) -> u8 {
    u8::try_from(bytes.div_ceil(UNIT)).unwrap_or(u8::MAX)
}

impl FreeSpace {
    /// Records the room of a page.
    pub(crate) fn record(&self, block: u32, free_bytes: usize) {
        let value = units(free_bytes);
        let at = block as usize;
        let map = self.map.read();
        if let Some(entry) = map.get(at) {
            // Relaxed, here and below: a map of hints orders nothing.
            entry.store(value, Ordering::Relaxed);
        } else {
            drop(map);
            let mut map = self.map.write();
            if map.len() <= at {
                map.resize_with(at + 1, || AtomicU8::new(0));
            }
            map[at].store(value, Ordering::Relaxed);
        }
        self.largest.fetch_max(value, Ordering::Relaxed);
    }

    /// Finds a page with at least `bytes` of room, and marks it as full in the map.
    fn take(&self, bytes: usize) -> Option<u32> {
        let needed = units_needed(bytes);
        if self.largest.load(Ordering::Relaxed) < needed {
            return None;
        }
        let map = self.map.read();
        let from = self.cursor.load(Ordering::Relaxed) as usize % map.len().max(1);
        for at in (from..map.len()).chain(0..from) {
            let value = map[at].load(Ordering::Relaxed);
            if value >= needed
                && map[at].compare_exchange(value, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                self.cursor.store(at as u32 + 1, Ordering::Relaxed);
                return Some(at as u32);
            }
        }
        // The search may miss a page that was recorded meanwhile, until another page is recorded:
        // the map is a hint.
        self.largest.fetch_min(needed.saturating_sub(1), Ordering::Relaxed);
        None
    }

    fn target(&self, slot: usize) -> Option<u32> {
        self.targets[slot % TARGETS].load(Ordering::Relaxed).checked_sub(1)
    }

    fn set_target(&self, slot: usize, block: Option<u32>) {
        let value = block.map_or(0, |block| block.saturating_add(1));
        self.targets[slot % TARGETS].store(value, Ordering::Relaxed);
    }

    /// Returns a page into which some session inserts.
    fn any_target(&self) -> Option<u32> {
        (0..TARGETS).find_map(|slot| self.target(slot))
    }

    /// Marks a page as unknown, because it gets room back sooner or later, unless more than
    /// [`NEARLY_FULL`] bytes are free anyway.
    fn expect_room(&self, block: u32) {
        let map = self.map.read();
        let Some(entry) = map.get(block as usize) else { return };
        let order = Ordering::Relaxed;
        let value = entry.load(order);
        if value != UNKNOWN
            && (value > units(NEARLY_FULL)
                || entry.compare_exchange(value, UNKNOWN, order, order).is_err())
        {
            return;
        }
        // Most rows are deleted on pages that the search has not reached yet.
        if self.looked.load(order) > block {
            self.looked.fetch_min(block, order);
        }
    }

    /// Notes a full page with rows of a transaction that is running.
    fn note_filled(&self, xid: Xid, block: u32) {
        // Pages for which the note has no room become unknown, whatever the outcome of their
        // transactions.
        if let Some(pages) = self.filled.note(xid, block) {
            pages.for_each(|block| self.expect_room(block));
        }
    }

    /// Returns whether a page is unknown.
    fn is_unknown(&self, block: u32) -> bool {
        self.map.read().get(block as usize).is_some_and(|it| it.load(Ordering::Relaxed) == UNKNOWN)
    }

    /// Begins another round of looking at unknown pages, if it may find more than the last one.
    /// Returns whether it did.
    fn look_again(&self, oldest: Csn) -> bool {
        let again = self.round.swap(oldest.0, Ordering::Relaxed) != oldest.0;
        if again {
            self.looked.store(0, Ordering::Relaxed);
        }
        again
    }

    /// Returns the next unknown page; a round returns each page once.
    fn next_unknown(&self) -> Option<u32> {
        let map = self.map.read();
        // Ends at the end of the map, where it stays.
        loop {
            let block = self.looked.load(Ordering::Relaxed);
            let entry = map.get(block as usize)?;
            let next = self.looked.compare_exchange(
                block,
                block + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if next.is_ok() && entry.load(Ordering::Relaxed) == UNKNOWN {
                return Some(block);
            }
        }
    }

    /// Adds the looks that are owed after the heap has grown by `pages` pages; one page is used at
    /// once.
    fn owe(&self, pages: u32) {
        let looks = pages.saturating_sub(1) * LOOKS;
        let add = |owed: u32| Some(owed.saturating_add(looks));
        // The update always succeeds.
        let _ = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes the looks that are owed for one page, and returns their number.
    fn take_owed(&self) -> u32 {
        let less = |owed: u32| (owed > 0).then(|| owed.saturating_sub(LOOKS));
        let before = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.map_or(0, |owed| owed.min(LOOKS))
    }

    pub(crate) fn count_reader_pass(&self) {
        self.reader_passes.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets all pages but the first `blocks`, because the heap was cut: no session inserts into
    /// others any more. The caller keeps all other sessions from the heap.
    pub(crate) fn cut(&self, blocks: u32) {
        self.map.write().truncate(blocks as usize);
        for slot in 0..TARGETS {
            if self.target(slot).is_some_and(|block| block >= blocks) {
                self.set_target(slot, None);
            }
        }
    }
}

impl<'e> Heap<'e> {
    /// Returns whether an insertion of `len` bytes, header included, may go to this page.
    pub(crate) fn takes_insert(&self, page: &Page, len: usize) -> bool {
        self.takes(page, len, self.relation.reserve())
    }

    /// Returns whether a row of `len` bytes that leaves its page may go to this one. The row will
    /// be updated again here, so some room must remain: otherwise the row would soon have to leave
    /// this page too.
    pub(crate) fn takes_moved(&self, page: &Page, len: usize) -> bool {
        self.takes(page, len, self.relation.reserve_of_moved().max(ROOM_FOR_UPDATES))
    }

    /// Returns whether `len` bytes fit on a page beside a reserve; the first row of a page needs no
    /// reserve.
    fn takes(&self, page: &Page, len: usize, reserve: usize) -> bool {
        if page.is_new() {
            return true;
        }
        if page.kind() != PageKind::Heap {
            return false;
        }
        let reserve = if page.item_count() == 0 { 0 } else { reserve };
        has_room(page, len) && page.free_bytes() >= len + reserve
    }

    /// Returns a latched page with room for a tuple of `len` bytes. `xid` is in the range of the
    /// page's ids. The caller must initialise a page that is still new.
    pub(crate) fn page_for_insert(
        &self,
        session: usize,
        len: usize,
        xid: Xid,
    ) -> Result<PageWrite<'e>> {
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
                return Ok(page);
            }
            self.note_room(&page);
            space.set_target(session, None);
        }
    }

    /// Returns whether a page takes a row once a pass has removed what can go.
    fn takes_pruned(&self, page: &mut PageWrite<'_>, len: usize) -> Result<bool> {
        if !page.is_new() && page.kind() == PageKind::Heap {
            self.prune_if_useful(page)?;
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
        // of them (`alone.rs`).
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
                    self.relation.shared.space.note_filled(xmin, page.id().block.0);
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
        for pages in space.filled.take_rolled_back(|xid| self.txns.status(xid)) {
            pages.for_each(|block| space.expect_room(block));
        }
    }

    /// Returns the room of a page that insertions may use.
    pub(crate) fn room_left(&self, page: &Page) -> usize {
        if !page.is_new() && (page.kind() != PageKind::Heap || !has_room(page, 1)) {
            return 0;
        }
        page.free_for_item().saturating_sub(self.relation.reserve())
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

    /// Notes that a row of this page was deleted, or moved to another page.
    pub(crate) fn expect_room(&self, block: u32) -> Result<()> {
        self.load_map()?;
        self.relation.shared.space.expect_room(block);
        Ok(())
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

    /// Reads the map from its fork, once, before anything is recorded in it.
    pub(crate) fn load_map(&self) -> Result<()> {
        let space = &self.relation.shared.space;
        if space.loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let (pool, file) = (self.storage.pool(), self.relation.file.id);
        let killed = self.storage.was_killed();
        let much = units(NEARLY_FULL);
        let mut units = vec![UNKNOWN; self.blocks()? as usize];
        for number in 0..pool.blocks(file, Fork::FreeSpace)? {
            let id = PageId { file, fork: Fork::FreeSpace, block: BlockNumber(number) };
            // A damaged page of the map is ignored, because nothing depends on it.
            let Ok(pin) = pool.pin(id) else { continue };
            let page = pin.read();
            if page.kind() != PageKind::FreeSpace {
                continue;
            }
            let first = number as usize * PAGES_PER_MAP_PAGE;
            for (known, &saved) in units.iter_mut().skip(first).zip(page.raw()) {
                // A page that was nearly full may have lost rows since.
                if !killed || saved > much {
                    *known = saved;
                }
            }
        }
        // The last page is tried first: a load may have stopped there, or its room may not have
        // been used yet.
        if let (Some(last), true) = (units.last_mut(), killed) {
            *last = u8::MAX;
        }
        let mut map = space.map.write();
        if !space.loaded.load(Ordering::Relaxed) {
            let largest = units.iter().copied().max().unwrap_or(0);
            space.largest.fetch_max(largest, Ordering::Relaxed);
            *map = units.into_iter().map(AtomicU8::new).collect();
            // Release: a thread that sees `loaded` sees the entries (they are hints all the same).
            space.loaded.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Writes the map to its fork, if the fork may be out of date. Vacuum calls this at its end,
    /// and the database when it closes.
    ///
    /// # Errors
    /// Storage's.
    pub fn save_free_space(&self) -> Result<()> {
        let (pool, file) = (self.storage.pool(), self.relation.file);
        let space = &self.relation.shared.space;
        // Pages that a crash made doubtful are unknown from now on, even if the heap was not used.
        if self.storage.was_killed() {
            self.load_map()?;
        }
        if !space.loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut bytes: Vec<u8> = {
            let map = space.map.read();
            map.iter().map(|entry| entry.load(Ordering::Relaxed)).collect()
        };
        // For pages into which sessions insert, the real room is saved.
        for block in (0..TARGETS).filter_map(|slot| space.target(slot)) {
            if block >= self.blocks()? {
                continue;
            }
            let room = units(self.room_left(&self.pin(block)?.read()));
            let at = block as usize;
            bytes.resize(bytes.len().max(at + 1), 0);
            bytes[at] = bytes[at].max(room);
        }
        for (number, chunk) in (0u32..).zip(bytes.chunks(PAGES_PER_MAP_PAGE)) {
            if pool.blocks(file.id, Fork::FreeSpace)? <= number {
                pool.extend(file, Fork::FreeSpace, 1)?;
            }
            let id = PageId { file: file.id, fork: Fork::FreeSpace, block: BlockNumber(number) };
            let mut page = pool.pin(id)?.into_write();
            // Entries behind the end must be 0. In a heap that was cut, they would describe pages
            // that come later.
            let ends = |raw: &[u8]| raw[chunk.len()..].iter().all(|&unit| unit == 0);
            let same = page.raw().starts_with(chunk) && ends(page.raw());
            if page.kind() == PageKind::FreeSpace && same {
                continue;
            }
            let _critical = self.storage.begin_change()?;
            page.init(PageKind::FreeSpace, 0);
            page.raw_mut()[..chunk.len()].copy_from_slice(chunk);
            if file.logged {
                self.storage.log_images(Xid::INVALID, &mut [LoggedPage::image(&mut page)])?;
            } else {
                page.mark_dirty();
            }
        }
        Ok(())
    }

    /// Records the room of a page for insertions. The map is loaded.
    pub(crate) fn note_room(&self, page: &PageWrite<'_>) {
        let space = &self.relation.shared.space;
        let (block, room) = (page.id().block.0, self.room_left(page));
        // The page has little room now, but will lose some row. It stays unknown until the next
        // round of looking.
        let later = room <= NEARLY_FULL && !page.is_new() && page::prune_xid(page) != 0;
        if !(later && space.is_unknown(block)) {
            space.record(block, room);
        }
    }

    /// Records the room of a page that lost rows, unless the map cannot be read or a session
    /// inserts into the page.
    pub(crate) fn offer(&self, block: u32, room: usize) {
        let space = &self.relation.shared.space;
        let held = (0..TARGETS).any(|slot| space.target(slot) == Some(block));
        if !held && self.load_map().is_ok() {
            space.record(block, room);
        }
    }

    /// Returns the number of passes that readers made since the heap was opened.
    pub fn reader_passes(&self) -> u32 {
        self.relation.shared.space.reader_passes.load(Ordering::Relaxed)
    }

    /// Ensures that `xid` can be written on this page; moves the page's xid base if necessary.
    #[inline]
    pub(crate) fn bring_in_range(&self, page: &mut PageWrite<'_>, xid: Xid) -> Result<()> {
        if page.is_new() || crate::format::header::relative(page::base(page), xid).is_some() {
            return Ok(());
        }
        self.rebase(page, xid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_owed_page_by_page() {
        let space = FreeSpace::default();
        assert_eq!(space.take_owed(), 0);
        space.owe(1);
        assert_eq!(space.take_owed(), 0, "the one page is used, and was paid for");
        space.owe(4);
        assert_eq!([(); 4].map(|()| space.take_owed()), [LOOKS, LOOKS, LOOKS, 0]);
    }
}
