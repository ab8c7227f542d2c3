//! Marks entries LP_DEAD that scans found to be dead to every snapshot.

use niwaki_env::seeded_bug;

use crate::memory::stats::count;
use crate::page::change;
use crate::page::entry::EntryPlace;
use crate::page::layout::{IndexPage, NO_BLOCK};
use crate::page::tuple::LeafTuple;
use crate::scan::batch::{LeafBatch, LeafRead, LeafVersion};
use crate::tree::index::Index;

/// The result of marking entries of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Entries that were marked, and were not before.
    pub entries: usize,
    /// True if every entry of the leaf is marked now: the caller may empty the leaf
    /// ([`Index::empty_dead_leaf`]). For each version of a leaf, at most one caller gets true.
    pub whole_leaf: bool,
}

impl Index {
    /// Marks entries of a batch LP_DEAD, given by position, as [`Index::mark_dead_places`] does.
    pub fn mark_dead(&self, batch: &LeafBatch, positions: &[usize]) -> Marked {
        let Some(leaf) = batch.leaf() else { return Marked::default() };
        let mut places: Vec<EntryPlace> =
            positions.iter().filter_map(|&position| batch.place(position)).collect();
        self.mark_dead_places(leaf, &mut places)
    }

    /// Marks entries LP_DEAD, but only if the leaf is unchanged since they were read
    /// (rule `dead-marks`), and no other thread has it latched. The mark is a hint: it does not
    /// make the page dirty, and is never logged. The caller knows that no snapshot, present or
    /// future, finds a version through these entries. The caller also knows that the commits which
    /// justify this are flushed. The entries of a posting list share one mark, so they are marked
    /// only if all of them are given. Sorts `places`.
    ///
    /// Never reads a page in, so cannot fail: a leaf that has left the pool counts as changed.
    pub fn mark_dead_places(&self, read: LeafRead, places: &mut [EntryPlace]) -> Marked {
        let mut marked = Marked::default();
        if places.is_empty() {
            return marked;
        }
        debug_assert_ne!(read.block, NO_BLOCK, "the places were read from a leaf");
        let Some(pin) = self.pin_if_resident(read.block) else { return marked };
        let Some(mut leaf) = pin.try_write() else { return marked };
        let unchanged = LeafVersion(leaf.version()) == read.version;
        if !unchanged && !seeded_bug!("kill-unchanged") {
            return marked;
        }
        places.sort_unstable();
        for item in places.chunk_by(|a, b| a.offset == b.offset) {
            let offset = item[0].offset;
            let given = item.chunk_by(|a, b| a == b).count();
            let all = LeafTuple::decode(leaf.tuple(offset)).map(|item| item.tids.len());
            // Another scan may have marked the item since it was read.
            if all == Some(given)
                && !change::is_dead(&leaf, offset)
                && change::set_dead(&mut leaf, offset, true)
            {
                marked.entries += given;
            }
        }
        marked.whole_leaf = marked.entries > 0
            && (leaf.first_entry()..=leaf.item_count()).all(|item| change::is_dead(&leaf, item));
        debug_assert!(marked.entries <= places.len(), "only the given entries are marked");
        leaf.mark_hint();
        count(&self.counters.marked_dead, marked.entries as u64);
        marked
    }
}
