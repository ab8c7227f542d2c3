//! Versions that only open snapshots keep in a heap: a pass would remove them otherwise.
//!
//! There are two ways to ask. A visit of every page counts exactly
//! ([`crate::Heap::add_snapshot_retention`]). And each pass notes the versions that it had to leave
//! on its page ([`RetainedVersions`]); their sum is available at any time without reading pages.
//!
//! ```text
//! page 17  kept by snapshots 10 to 10: 2 versions, 180 bytes   still true as long as 10 is open,
//!          kept by snapshots 10 to 30: 1 version,   90 bytes   and of 10 alone after 20 and 30 end
//! ```
//!
//! Why does a note not become false? A pass notes versions that had ended by the pass's commit
//! number. The set of snapshots that keep such a version can only shrink, because a snapshot that
//! is taken later sees the version's end. So the keepers of now are the noted ones that are still
//! open. The version goes only by a pass over its page, which writes the note anew, or together
//! with the heap's files and the notes.
//!
//! Versions that no pass has met are missing: the sum is a lower bound, near the truth where pages
//! run full. The notes are in memory and bounded; notes beyond the limit are left out.

use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_storage::{BlockNumber, Csn};
use niwaki_txn::RegisteredSnapshots;

use crate::format::header::TUPLE_HEADER_SIZE;

/// Number of parts of the notes. Each part has its own lock; the block number selects the part.
const PARTS: usize = 16;
/// The most blocks with a note in a part, about 100 bytes each.
const BLOCKS_MAX: usize = 1 << 13;

/// A number of versions, and the bytes that they take on their pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Number of versions.
    pub versions: u64,
    /// Bytes, with headers and without line pointers.
    pub bytes: u64,
}

impl Retained {
    pub(crate) fn add(&mut self, other: Self) {
        self.versions += other.versions;
        self.bytes += other.bytes;
        let least = self.versions * TUPLE_HEADER_SIZE as u64;
        debug_assert!(self.bytes >= least, "{self:?}: each version has a header");
    }
}

/// Versions that a pass left on a page for the snapshots from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    first: Csn,
    last: Csn,
    retained: Retained,
}

/// Versions that passes left to open snapshots, of one heap.
#[derive(Debug, Default)]
pub(crate) struct RetainedVersions {
    parts: [Mutex<HashMap<BlockNumber, Vec<Note>>>; PARTS],
    /// Number of blocks with a note; a hint.
    blocks: AtomicUsize,
}

/// Versions that one pass left: the oldest and the newest keeper of each version, and its bytes.
#[derive(Debug, Default)]
pub(crate) struct RetainedOnPage(Vec<Note>);

impl RetainedOnPage {
    /// Returns the sum of all versions.
    pub(crate) fn total(&self) -> Retained {
        let mut total = Retained::default();
        self.0.iter().for_each(|note| total.add(note.retained));
        total
    }

    /// Adds a version with `data_bytes` bytes of values that stays for the snapshots from `first`
    /// to `last`.
    pub(crate) fn add(&mut self, (first, last): (Csn, Csn), data_bytes: usize) {
        debug_assert!(first <= last, "the oldest keeper {first} is newer than the newest, {last}");
        let retained = Retained { versions: 1, bytes: (data_bytes + TUPLE_HEADER_SIZE) as u64 };
        match self.0.iter_mut().find(|note| (note.first, note.last) == (first, last)) {
            Some(note) => note.retained.add(retained),
            None => self.0.push(Note { first, last, retained }),
        }
    }
}

impl RetainedVersions {
    /// Notes the versions that a pass left on a page, which is latched for writing, instead of the
    /// former note.
    pub(crate) fn note(&self, block: BlockNumber, left: RetainedOnPage) {
        // Relaxed: the pass that noted this page before held its latch.
        if left.0.is_empty() && self.blocks.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut notes = self.parts[block.0 as usize % PARTS].lock();
        let before = notes.len();
        if left.0.is_empty() {
            notes.remove(&block);
        } else if before < BLOCKS_MAX || notes.contains_key(&block) {
            notes.insert(block, left.0);
        }
        debug_assert!(notes.len() <= BLOCKS_MAX, "{} blocks have notes in a part", notes.len());
        debug_assert!(notes.len().abs_diff(before) <= 1, "a note is of one block");
        if notes.len() > before {
            self.blocks.fetch_add(1, Ordering::Relaxed);
        } else if notes.len() < before {
            let noted = self.blocks.fetch_sub(1, Ordering::Relaxed);
            debug_assert_ne!(noted, 0, "a block that was not counted loses its note");
        }
    }

    /// Forgets the notes of the pages from `first` on, which the heap no longer has.
    pub(crate) fn forget_from(&self, first: BlockNumber) {
        for part in &self.parts {
            let mut notes = part.lock();
            let before = notes.len();
            notes.retain(|block, _| *block < first);
            let gone = before - notes.len();
            let noted = self.blocks.fetch_sub(gone, Ordering::Relaxed);
            debug_assert!(noted >= gone, "{gone} of {noted} blocks with notes are cut off");
        }
    }

    /// Returns the sum of the versions that some open snapshot keeps.
    pub(crate) fn kept(&self, holders: &RegisteredSnapshots) -> Retained {
        let mut kept = Retained::default();
        if self.blocks.load(Ordering::Relaxed) == 0 {
            return kept;
        }
        for part in &self.parts {
            let notes = part.lock();
            let retained = notes.values().flatten();
            retained
                .filter(|note| !holders.between(note.first, note.last).is_empty())
                .for_each(|note| kept.add(note.retained));
        }
        kept
    }

    /// Adds, for each of [`RegisteredSnapshots::snapshots`], the versions that it alone keeps.
    pub(crate) fn add_alone(&self, holders: &RegisteredSnapshots, alone: &mut [Retained]) {
        debug_assert_eq!(alone.len(), holders.snapshots().len(), "a sum for each snapshot");
        if self.blocks.load(Ordering::Relaxed) == 0 {
            return;
        }
        for part in &self.parts {
            for note in part.lock().values().flatten() {
                let keepers = holders.between(note.first, note.last);
                if keepers.len() == 1 {
                    alone[keepers.start].add(note.retained);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(versions: &[(u64, u64)]) -> RetainedOnPage {
        let mut left = RetainedOnPage::default();
        versions.iter().for_each(|&(first, last)| left.add((Csn(first), Csn(last)), 76));
        left
    }

    #[test]
    fn what_a_pass_left_is_written_anew_by_the_next() {
        let retained = RetainedVersions::default();
        retained.note(BlockNumber(3), left(&[]));
        retained.note(BlockNumber(3), left(&[(10, 10), (10, 30), (10, 10)]));
        retained.note(BlockNumber(19), left(&[(10, 10)]));
        assert_eq!(retained.blocks.load(Ordering::Relaxed), 2);
        let notes = retained.parts[3].lock()[&BlockNumber(3)].clone();
        let note = |last, versions| Note {
            first: Csn(10),
            last: Csn(last),
            retained: Retained { versions, bytes: 100 * versions },
        };
        assert_eq!(notes, [note(10, 2), note(30, 1)]);
        retained.note(BlockNumber(3), left(&[(10, 30)]));
        assert_eq!(retained.parts[3].lock()[&BlockNumber(3)], [note(30, 1)]);
        retained.note(BlockNumber(3), left(&[]));
        retained.note(BlockNumber(19), left(&[]));
        assert_eq!(retained.blocks.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_too_much_is_left_out() {
        let retained = RetainedVersions::default();
        let blocks = (BLOCKS_MAX * PARTS + PARTS) as u32;
        (0..blocks).for_each(|block| retained.note(BlockNumber(block), left(&[(10, 10)])));
        assert_eq!(retained.blocks.load(Ordering::Relaxed), BLOCKS_MAX * PARTS);
        retained.note(BlockNumber(0), left(&[(10, 10), (10, 10)]));
        assert_eq!(
            retained.parts[0].lock()[&BlockNumber(0)][0].retained.versions,
            2,
            "one that has a note keeps it"
        );
    }
}
