//! The entries of a leaf, plain ones and those inside posting lists alike.
//!
//! ```text
//! item      2: plain      3: posting list                     4: plain
//!           (a, 7)        (b, 3) (b, 5) (b, 9)                (b, 12)
//! entry     2.0           3.0    3.1    3.2                   4.0
//! ```
//!
//! All code that looks at entries uses this module. An entry is a key, a payload and one TID. Its
//! address on the page is the item's offset and the TID's place in the item.

use niwaki_storage::Tid;
use niwaki_storage::page::Page;

use crate::error::Result;
use crate::page::entry::EntryPlace;
use crate::page::layout::IndexPage;
use crate::page::search::{Target, is_at, lower_bound};
use crate::page::tuple::{LeafTuple, POSTING_TIDS_MAX};
use crate::tree::index::Index;

/// The place where an entry would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Before the item at this offset, and behind all entries of the one before.
    Before(u16),
    /// Between two TIDs of the posting list at this offset.
    Inside(u16),
}

/// The place where an entry is, or where it would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The entry exists.
    There(EntryPlace),
    /// The entry does not exist.
    NotThere(Gap),
}

impl Index {
    /// Decodes an item of a leaf.
    #[inline]
    pub(crate) fn leaf_tuple<'a>(
        &self,
        leaf: &'a Page,
        block: niwaki_storage::BlockNumber,
        offset: u16,
    ) -> Result<LeafTuple<'a>> {
        match LeafTuple::decode(leaf.tuple(offset)) {
            Some(tuple) => Ok(tuple),
            None => Err(self.damaged(block, Some(offset), "format", "not a leaf entry")),
        }
    }

    /// Looks for the entry (key, TID) on the leaf where it belongs.
    #[inline]
    pub(crate) fn find_entry(
        &self,
        leaf: &Page,
        block: niwaki_storage::BlockNumber,
        key: &[u8],
        tid: Tid,
    ) -> Result<Found> {
        let target = Target::entry(key, tid);
        let offset = lower_bound(leaf, leaf.first_entry(), &target);
        self.entry_at(leaf, block, &target, (key, tid), offset)
    }

    /// Does the same as [`Index::find_entry`], given the entry as a target, and its lower bound on
    /// the leaf.
    #[inline]
    pub(crate) fn entry_at(
        &self,
        leaf: &Page,
        block: niwaki_storage::BlockNumber,
        target: &Target<'_>,
        (key, tid): (&[u8], Tid),
        offset: u16,
    ) -> Result<Found> {
        debug_assert!(offset >= leaf.first_entry(), "the high key is no entry");
        if offset <= leaf.item_count() && is_at(leaf, offset, target) {
            return Ok(Found::There(EntryPlace { offset, place: 0 }));
        }
        if offset == leaf.first_entry() {
            return Ok(Found::NotThere(Gap::Before(offset)));
        }
        // A search finds an item by its first TID; the item before may be a list that reaches
        // beyond.
        let before = self.leaf_tuple(leaf, block, offset - 1)?;
        if !before.is_posting() || before.key != key || before.tids.last() < tid {
            return Ok(Found::NotThere(Gap::Before(offset)));
        }
        match before.tids.search(tid) {
            Ok(place) => {
                debug_assert!(place < POSTING_TIDS_MAX, "the place fits a byte");
                Ok(Found::There(EntryPlace { offset: offset - 1, place: place as u8 }))
            }
            Err(place) if (1..before.tids.len()).contains(&place) => {
                Ok(Found::NotThere(Gap::Inside(offset - 1)))
            }
            Err(_) => Err(self.damaged(block, Some(offset - 1), "B3", "TIDs out of order")),
        }
    }
}
