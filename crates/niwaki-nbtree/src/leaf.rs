//! The entries of a leaf, plain ones and those inside posting lists alike.
//!
//! ```text
//! item      2: plain      3: posting list                     4: plain
//!           (a, 7)        (b, 3) (b, 5) (b, 9)                (b, 12)
//! entry     2.0           3.0    3.1    3.2                   4.0
//! ```
//!
//! Everything that looks at entries goes through here: an entry is a key, a payload and one TID, and
//! its address on the page is the item's offset and the TID's place in the item.

use niwaki_storage::Tid;
use niwaki_storage::page::Page;

use crate::batch::EntryPlace;
use crate::change;
use crate::error::Result;
use crate::index::Index;
use crate::page::{IndexPage, LINE_POINTER};
use crate::search::{Target, lower_bound};
use crate::table::DeletionCandidate;
use crate::tuple::{LeafTuple, TID_SIZE};

/// Where an entry would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Before the item at this offset, and behind all entries of the one before.
    Before(u16),
    /// Between two TIDs of the posting list at this offset.
    Inside(u16),
}

/// Where an entry is, or where it would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is there.
    There(EntryPlace),
    /// It is not there.
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
        let first = leaf.first_entry();
        let offset = lower_bound(leaf, first, &target);
        if offset <= leaf.item_count() && target.order_of(leaf.tuple(offset)).is_eq() {
            return Ok(Found::There(EntryPlace { offset, place: 0 }));
        }
        if offset == first {
            return Ok(Found::NotThere(Gap::Before(offset)));
        }
        // An item is found by its first TID; the one before may be a list that reaches beyond.
        let before = self.leaf_tuple(leaf, block, offset - 1)?;
        if !before.is_posting() || before.key != key || before.tids.last() < tid {
            return Ok(Found::NotThere(Gap::Before(offset)));
        }
        match before.tids.search(tid) {
            Ok(place) => Ok(Found::There(EntryPlace { offset: offset - 1, place: place as u8 })),
            Err(place) if (1..before.tids.len()).contains(&place) => {
                Ok(Found::NotThere(Gap::Inside(offset - 1)))
            }
            Err(_) => Err(self.damaged(block, Some(offset - 1), "B3", "TIDs out of order")),
        }
    }

    /// Every entry of a leaf, as the table is asked about it, in key order. None is judged yet.
    ///
    /// Entries with equal keys are promising. Of a posting list at most one is: where most of the list
    /// lies on one heap block, an entry there, so that lists, which say little about what died, do not
    /// outweigh plain duplicates, which were inserted since.
    pub(crate) fn candidates<'a>(
        &self,
        leaf: &'a Page,
        block: niwaki_storage::BlockNumber,
    ) -> Result<Vec<DeletionCandidate<'a>>> {
        let mut candidates: Vec<DeletionCandidate<'a>> =
            Vec::with_capacity(usize::from(leaf.entry_count()));
        // The key of the item before, and which of its entries is promising if the key comes again.
        let mut before: Option<(&[u8], Option<usize>)> = None;
        for offset in leaf.first_entry()..=leaf.item_count() {
            let item = self.leaf_tuple(leaf, block, offset)?;
            let known_dead = change::is_dead(leaf, offset);
            let bytes =
                if item.is_posting() { TID_SIZE } else { leaf.tuple(offset).len() + LINE_POINTER };
            let guess = favourite(&item).map(|place| candidates.len() + place);
            candidates.extend((0u8..).zip(item.tids.iter()).map(|(place, tid)| {
                DeletionCandidate {
                    key: item.key,
                    tid,
                    known_dead,
                    promising: false,
                    bytes: bytes as u16,
                    deletable: false,
                    at: EntryPlace { offset, place },
                }
            }));
            if let Some((key, last)) = before
                && key == item.key
            {
                for promising in [last, guess].into_iter().flatten() {
                    candidates[promising].promising = true;
                }
            }
            before = Some((item.key, guess));
        }
        Ok(candidates)
    }
}

/// Which entry of an item stands for it: a plain item's own; of a posting list that lies mostly on one
/// heap block one of those there.
fn favourite(item: &LeafTuple<'_>) -> Option<usize> {
    if !item.is_posting() {
        return Some(0);
    }
    let last = item.tids.len() - 1;
    let block = |place: usize| item.tids.get(place).map(|tid| tid.block);
    let middle = block(last / 2);
    if middle == block(0) {
        Some(0)
    } else if middle == block(last) {
        Some(last)
    } else {
        None
    }
}
