//! The position of a scan, as a place in the order of entries.

use niwaki_storage::{Page, Tid};

use crate::page::layout::IndexPage;
use crate::page::search::Target;
use crate::page::tuple::{LeafTuple, sort_key, tid_number};
use crate::scan::key_range::Direction;

/// The end of the read part of a scan's range, in the scan's direction. (key, TID) is unique, so
/// the scan can go on from here whatever happened to the pages. It reads no entry twice and leaves
/// none out.
#[derive(Debug, Default)]
pub(crate) struct ScanPosition {
    known: bool,
    key: Vec<u8>,
    /// The TID as [`crate::page::tuple::tid_number`] encodes it.
    tid: u64,
}

impl ScanPosition {
    /// Forgets the position: the scan begins anew.
    pub(crate) fn forget(&mut self) {
        self.known = false;
    }

    /// Decides whether the scan has passed anything.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Notes the end of this leaf, before the scan goes on to a sibling. A half-dead leaf changes
    /// nothing: its high key bounds the range that its right sibling has now. Returns whether the
    /// scan has come further.
    #[inline]
    pub(crate) fn note(&mut self, leaf: &Page, direction: Direction) -> bool {
        let bound = match direction {
            Direction::Forward if !leaf.is_half_dead() => leaf.high_key(),
            Direction::Backward if leaf.entry_count() > 0 => Some(leaf.tuple(leaf.first_entry())),
            _ => None,
        };
        let Some(bound) = bound else { return false };
        let (key, tid) = sort_key(bound);
        // After a backward scan looked its place up again, the leaf may begin behind the part that
        // was read: the entries in between are gone. The scan never goes back for entries that come
        // there now.
        let (here, before) = ((key, tid), (self.key.as_slice(), self.tid));
        let further = match direction {
            Direction::Forward => here > before,
            Direction::Backward => here < before,
        };
        if self.known && !further {
            return false;
        }
        self.known = true;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.tid = tid;
        true
    }

    /// Decides whether a leaf begins with entries that lie behind a forward scan. Then the leaf
    /// that the scan came from was deleted since, this leaf took over its range, and those entries
    /// were inserted afterwards.
    #[inline]
    pub(crate) fn covers_begin_of(&self, leaf: &Page) -> bool {
        self.known && leaf.entry_count() > 0 && {
            let (key, tid) = sort_key(leaf.tuple(leaf.first_entry()));
            (key, tid) <= (&*self.key, self.tid)
        }
    }

    /// Returns the first place that was not read, in this direction.
    pub(crate) fn place(&self, direction: Direction) -> Target<'_> {
        debug_assert!(self.known, "the scan has passed nothing yet");
        match direction {
            Direction::Forward => Target::numbered(&self.key, self.tid + 1),
            Direction::Backward => Target::numbered(&self.key, self.tid),
        }
    }

    /// Decides whether the item at `offset` is a posting list that the scan has read only in part.
    /// Its entries came together on one page since the scan read the part.
    pub(crate) fn splits(&self, leaf: &Page, offset: u16, direction: Direction) -> bool {
        debug_assert!(self.known, "the scan has passed nothing yet");
        LeafTuple::decode(leaf.tuple(offset)).is_some_and(|item| {
            item.is_posting()
                && item.key == self.key
                && item.tids.iter().any(|tid| self.is_ahead(tid, direction))
                && item.tids.iter().any(|tid| !self.is_ahead(tid, direction))
        })
    }

    /// Decides whether an entry with the last key and this TID is yet to be read.
    pub(crate) fn is_ahead(&self, tid: Tid, direction: Direction) -> bool {
        debug_assert!(self.known, "the scan has passed nothing yet");
        match direction {
            Direction::Forward => tid_number(tid) > self.tid,
            Direction::Backward => tid_number(tid) < self.tid,
        }
    }
}
