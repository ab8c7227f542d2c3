//! The free space map (`freespace.rs`) of a heap: loading, saving, and the room of single pages.

use niwaki_env::sync::plain_atomic::{AtomicU8, Ordering};
use niwaki_storage::page::{HEADER_SIZE, PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, Fork, LoggedPage, PageId, PageKind, PageWrite, Xid};

use crate::error::Result;
use crate::format::page::{self, has_room};
use crate::memory::freespace::{NEARLY_FULL, TARGETS, UNKNOWN, units};
use crate::relation::Heap;

/// Number of heap pages that one page of the map describes.
pub const PAGES_PER_MAP_PAGE: usize = PAGE_SIZE - HEADER_SIZE;
/// Bytes that must stay free on a page to which a row moves. New versions of the rows of that page
/// need this room, and so do line pointers of old versions that indexes still name.
pub(crate) const ROOM_FOR_UPDATES: usize = PAGE_SIZE / 20;
const _: () = assert!(ROOM_FOR_UPDATES < NEARLY_FULL);

impl Heap<'_> {
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
        debug_assert!(reserve <= PAGE_SIZE, "{reserve} bytes stay free on each page");
        if page.is_new() {
            return true;
        }
        if page.kind() != PageKind::Heap {
            return false;
        }
        let reserve = if page.item_count() == 0 { 0 } else { reserve };
        has_room(page, len) && page.free_bytes() >= len + reserve
    }

    /// Returns the room of a page that insertions may use.
    pub(crate) fn room_left(&self, page: &Page) -> usize {
        if page.is_new() {
            // The first row of a page needs no reserve, and a page of zeros has no bounds yet.
            return PAGE_SIZE;
        }
        if page.kind() != PageKind::Heap || !has_room(page, 1) {
            return 0;
        }
        let room = page.free_for_item().saturating_sub(self.relation.reserve());
        debug_assert!(room <= page.free_bytes(), "insertions get {room} bytes that are not free");
        room
    }

    /// Notes that a row of this page was deleted, or moved to another page.
    pub(crate) fn expect_room(&self, block: u32) -> Result<()> {
        self.load_map()?;
        self.relation.shared.space.expect_room(block);
        Ok(())
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
            debug_assert_eq!(page.raw().len(), PAGES_PER_MAP_PAGE, "pages of a page of the map");
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
}
