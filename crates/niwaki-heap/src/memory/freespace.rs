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
//! page is noted with that transaction (`uncommitted_pages.rs`). The page becomes unknown again
//! once the transaction is rolled back.
//!
//! A page that an inserter has taken reads as full until the inserter gives it back, so that
//! concurrent inserters work on different pages.

use niwaki_env::sync::RwLock;
use niwaki_env::sync::plain_atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::{Csn, Xid};

use crate::memory::uncommitted_pages::UncommittedPages;

/// Bytes of room that one unit of the map stands for. One byte per page then covers a whole page.
const UNIT: usize = 32;
/// Number of groups of sessions; each group inserts into a page of its own.
pub(crate) const TARGETS: usize = 8;
/// Map value of a page to look at. One unit of real room is recorded as 0, because it is too small
/// to use.
pub(crate) const UNKNOWN: u8 = 1;
/// The most bytes of room on a page that counts as nearly full. A page with more room is offered as
/// it is, whatever goes from it later. It takes any row whose large values are out of line.
pub(crate) const NEARLY_FULL: usize = PAGE_SIZE / 4;
/// Number of unknown pages to look at for each page by which the heap grows.
pub(crate) const LOOKS: u32 = 16;
// A page that was never used has the largest value, so it takes every row.
const _: () = assert!(PAGE_SIZE / UNIT > u8::MAX as usize);
const _: () = assert!(NEARLY_FULL / UNIT < u8::MAX as usize);
const _: () = assert!(NEARLY_FULL / UNIT > UNKNOWN as usize);

/// The known room of one heap's pages.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    pub(crate) loaded: AtomicBool,
    pub(crate) map: RwLock<Vec<AtomicU8>>,
    /// Upper bound of the map's entries, as far as known.
    pub(crate) largest: AtomicU8,
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
    pub(crate) reader_passes: AtomicU32,
    /// Pages filled by transactions that may still be rolled back.
    pub(crate) uncommitted: UncommittedPages,
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
            uncommitted: UncommittedPages::default(),
        }
    }
}

/// Returns the units that `free_bytes` contain; [`UNKNOWN`] is none of them.
pub(crate) fn units(free_bytes: usize) -> u8 {
    let units = u8::try_from(free_bytes / UNIT).unwrap_or(u8::MAX);
    debug_assert!(usize::from(units) * UNIT <= free_bytes, "the map promises what is there");
    if units == UNKNOWN { 0 } else { units }
}

/// Returns the units that guarantee `bytes`; the largest value stands for an empty page.
fn units_needed(bytes: usize) -> u8 {
    let needed = u8::try_from(bytes.div_ceil(UNIT)).unwrap_or(u8::MAX);
    // One unit is never recorded, because its value means that a page is unknown.
    let needed = if needed == UNKNOWN { UNKNOWN + 1 } else { needed };
    debug_assert!(
        needed == u8::MAX || usize::from(needed) * UNIT >= bytes,
        "{needed} units are less than {bytes} bytes"
    );
    needed
}

impl FreeSpace {
    /// Records the room of a page.
    pub(crate) fn record(&self, block: u32, free_bytes: usize) {
        debug_assert!(free_bytes <= PAGE_SIZE, "{free_bytes} bytes are free on one page");
        let value = units(free_bytes);
        debug_assert_ne!(value, UNKNOWN, "known room reads as an unknown page");
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
    pub(crate) fn take(&self, bytes: usize) -> Option<u32> {
        let needed = units_needed(bytes);
        debug_assert_ne!(needed, 0, "a full page would be taken");
        if self.largest.load(Ordering::Relaxed) < needed {
            return None;
        }
        let map = self.map.read();
        let from = self.cursor.load(Ordering::Relaxed) as usize % map.len().max(1);
        debug_assert!(from < map.len() || map.is_empty(), "the search begins in the map");
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

    pub(crate) fn target(&self, slot: usize) -> Option<u32> {
        self.targets[slot % TARGETS].load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn set_target(&self, slot: usize, block: Option<u32>) {
        debug_assert_ne!(block, Some(u32::MAX), "no heap has this block");
        let value = block.map_or(0, |block| block.saturating_add(1));
        self.targets[slot % TARGETS].store(value, Ordering::Relaxed);
    }

    /// Returns a page into which some session inserts.
    pub(crate) fn any_target(&self) -> Option<u32> {
        (0..TARGETS).find_map(|slot| self.target(slot))
    }

    /// Marks a page as unknown, because it gets room back sooner or later, unless more than
    /// [`NEARLY_FULL`] bytes are free anyway.
    pub(crate) fn expect_room(&self, block: u32) {
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
    pub(crate) fn note_uncommitted(&self, xid: Xid, block: u32) {
        // Pages for which the note has no room become unknown, whatever the outcome of their
        // transactions.
        if let Some(pages) = self.uncommitted.note(xid, block) {
            pages.for_each(|block| self.expect_room(block));
        }
    }

    /// Returns whether a page is unknown.
    pub(crate) fn is_unknown(&self, block: u32) -> bool {
        self.map.read().get(block as usize).is_some_and(|it| it.load(Ordering::Relaxed) == UNKNOWN)
    }

    /// Begins another round of looking at unknown pages, if it may find more than the last one.
    /// Returns whether it did.
    pub(crate) fn look_again(&self, oldest: Csn) -> bool {
        let again = self.round.swap(oldest.0, Ordering::Relaxed) != oldest.0;
        if again {
            self.looked.store(0, Ordering::Relaxed);
        }
        again
    }

    /// Returns the next unknown page; a round returns each page once.
    pub(crate) fn next_unknown(&self) -> Option<u32> {
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
    pub(crate) fn owe(&self, pages: u32) {
        debug_assert_ne!(pages, 0, "looks are owed for a heap that has grown");
        let looks = pages.saturating_sub(1) * LOOKS;
        let add = |owed: u32| Some(owed.saturating_add(looks));
        // The update always succeeds.
        let _ = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes the looks that are owed for one page, and returns their number.
    pub(crate) fn take_owed(&self) -> u32 {
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
        debug_assert!(
            self.any_target().is_none_or(|block| block < blocks),
            "a session inserts into a page behind the end, {blocks}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row without columns has 24 bytes, less than a unit. The search for its page took unknown
    /// pages, and marked them as full.
    #[test]
    fn a_small_row_takes_no_unknown_page_for_a_known_one() {
        for bytes in [24, UNIT - 1, UNIT] {
            let space = FreeSpace::default();
            for block in 0..3 {
                space.record(block, 0);
            }
            space.expect_room(1);
            // The bound is as a loaded map sets it.
            space.largest.fetch_max(u8::MAX, Ordering::Relaxed);
            assert_eq!(space.take(bytes), None, "{bytes} bytes");
            assert!(space.is_unknown(1), "the page is still to be looked at");
            space.record(2, 2 * UNIT);
            assert_eq!(space.take(bytes), Some(2), "{bytes} bytes");
        }
    }

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
