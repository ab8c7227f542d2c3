//! A compact set of TIDs that a vacuum remembers between the heap and the indexes.
//!
//! ```text
//! blocks   (17, at 0)   (18, at 4)      (90, at 9)          8 bytes each, ascending
//! bytes    1 | 2,0 |    2 | 3,0 | 9,0 | 128+6 | bitmap |    a list of offsets, or a shorter bitmap
//! ```

use niwaki_storage::{BlockNumber, OffsetNumber, Tid};

use crate::format::page::MAX_ITEMS;

/// The least first byte of a bitmap: the excess is the number of bytes that follow. A smaller first
/// byte is the number of offsets of two bytes that follow.
const BITMAP: u8 = 128;
/// Bytes of the longest bitmap: enough for the line pointers of any page.
const BITMAP_MAX: usize = 127;
const _: () = assert!(BITMAP as usize + BITMAP_MAX == u8::MAX as usize);
const _: () = assert!(MAX_ITEMS as usize / 8 < BITMAP_MAX);

/// The place of a block's offsets in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    block: u32,
    at: u32,
}

/// A set of TIDs, filled block by block in ascending order. A block with one TID takes about 11
/// bytes. A block with many takes 9 bytes, and a bit for each line pointer.
/// docs/internals/design.md, "Vacuum".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TidStore {
    blocks: Vec<Place>,
    bytes: Vec<u8>,
    count: u64,
}

impl TidStore {
    /// Adds TIDs of a block that comes after all others; `offsets` ascend from at least 1.
    ///
    /// # Panics
    /// If the block does not come after the others: a search would miss blocks that are out of
    /// order.
    pub fn add(&mut self, block: u32, offsets: &[u16]) {
        let Some(&last) = offsets.last() else { return };
        assert!(self.blocks.last().is_none_or(|place| place.block < block), "blocks ascend");
        debug_assert_ne!(offsets[0], 0, "line pointers are numbered from 1");
        debug_assert!(offsets.is_sorted_by(|a, b| a < b), "offsets ascend, each once");
        let bitmap = usize::from(last) / 8 + 1;
        grow(&mut self.blocks, 1);
        // The limit is never reached: the store is full long before.
        let at = u32::try_from(self.bytes.len()).expect("a store of less than 4 GiB");
        self.blocks.push(Place { block, at });
        self.count += offsets.len() as u64;
        debug_assert!(self.blocks.len() as u64 <= self.count, "a block without a TID");
        if 2 * offsets.len() <= bitmap || bitmap > BITMAP_MAX {
            grow(&mut self.bytes, 1 + 2 * offsets.len());
            // Every page gets a bitmap or a short list: no page has too many line pointers for
            // both.
            self.bytes.push(u8::try_from(offsets.len()).expect("fewer than a bitmap has bits"));
            self.bytes.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
            return;
        }
        grow(&mut self.bytes, 1 + bitmap);
        self.bytes.push(BITMAP + bitmap as u8);
        let begin = self.bytes.len();
        self.bytes.resize(begin + bitmap, 0);
        for &offset in offsets {
            self.bytes[begin + usize::from(offset) / 8] |= 1 << (offset % 8);
        }
        debug_assert!(self.contains(Tid::new(block, offsets[0])), "the first one is in the set");
        debug_assert!(self.contains(Tid::new(block, last)), "the last one is in the set");
    }

    /// Returns whether the TID is in the set.
    #[inline]
    pub fn contains(&self, tid: Tid) -> bool {
        let block = tid.block.0;
        // Most index entries lead to unchanged rows, often outside of the range of changed blocks.
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return false;
        };
        debug_assert!(first.block <= last.block, "blocks ascend");
        if block < first.block || block > last.block {
            return false;
        }
        match self.blocks.binary_search_by_key(&block, |place| place.block) {
            Ok(number) => self.has(self.blocks[number], tid.offset.0),
            Err(_) => false,
        }
    }

    fn has(&self, place: Place, offset: u16) -> bool {
        match self.stored(place) {
            Stored::List(list) => list.chunks_exact(2).any(|two| two == offset.to_le_bytes()),
            Stored::Bitmap(bits) => {
                let byte = bits.get(usize::from(offset) / 8);
                byte.is_some_and(|byte| byte & (1 << (offset % 8)) != 0)
            }
        }
    }

    fn stored(&self, place: Place) -> Stored<'_> {
        let at = place.at as usize;
        debug_assert!(at < self.bytes.len(), "block {} is stored behind the end", place.block);
        let head = self.bytes[at];
        match head.checked_sub(BITMAP) {
            Some(length) => Stored::Bitmap(&self.bytes[at + 1..][..usize::from(length)]),
            None => Stored::List(&self.bytes[at + 1..][..2 * usize::from(head)]),
        }
    }

    /// Returns the number of TIDs.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of memory that the set takes.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Place>() + self.bytes.capacity()
    }

    /// Returns the blocks, ascending, each with its offsets, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, Vec<u16>)> + '_ {
        self.blocks.iter().map(|&place| {
            let offsets: Vec<u16> = match self.stored(place) {
                Stored::List(list) => {
                    list.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect()
                }
                Stored::Bitmap(bits) => {
                    let bit =
                        |offset: &u16| bits[usize::from(offset / 8)] & (1 << (offset % 8)) != 0;
                    (0..bits.len() as u16 * 8).filter(bit).collect()
                }
            };
            debug_assert!(!offsets.is_empty(), "block {} without a TID", place.block);
            debug_assert!(offsets.is_sorted_by(|a, b| a < b), "offsets ascend, each once");
            (place.block, offsets)
        })
    }

    /// Returns all TIDs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Tid> + '_ {
        let tid = |block, offset| Tid { block: BlockNumber(block), offset: OffsetNumber(offset) };
        self.blocks().flat_map(move |(block, offsets)| {
            offsets.into_iter().map(move |offset| tid(block, offset))
        })
    }
}

enum Stored<'a> {
    List(&'a [u8]),
    Bitmap(&'a [u8]),
}

/// Grows the list by an eighth instead of doubling it, so that a store takes hardly more memory
/// than its TIDs need.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.len() + more > list.capacity() {
        list.reserve_exact(more.max(list.len() / 8).max(16));
    }
    debug_assert!(list.len() + more <= list.capacity(), "the list would grow twice");
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A store holds the TIDs that were added and nothing else, and returns them in order.
        #[test]
        fn a_store_is_a_set(
            blocks in prop::collection::btree_map(
                prop_oneof![0u32..40, any::<u32>()],
                prop::collection::btree_set(prop_oneof![1u16..20, 1u16..=600], 0..80), 0..30),
            asked in prop::collection::vec((prop_oneof![0u32..40, any::<u32>()], 0u16..=700), 0..60),
        ) {
            let mut store = TidStore::default();
            for (&block, offsets) in &blocks {
                store.add(block, &offsets.iter().copied().collect::<Vec<u16>>());
            }
            let blocks: BTreeMap<u32, BTreeSet<u16>> =
                blocks.into_iter().filter(|(_, offsets)| !offsets.is_empty()).collect();
            let expected: Vec<Tid> = blocks
                .iter()
                .flat_map(|(&block, offsets)| offsets.iter().map(move |&offset| Tid::new(block, offset)))
                .collect();
            prop_assert_eq!(store.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(store.len(), expected.len() as u64);
            prop_assert_eq!(store.blocks.len(), blocks.len());
            prop_assert_eq!(store.is_empty(), expected.is_empty());
            for tid in expected {
                prop_assert!(store.contains(tid));
            }
            for (block, offset) in asked {
                let there = blocks.get(&block).is_some_and(|offsets| offsets.contains(&offset));
                prop_assert_eq!(store.contains(Tid::new(block, offset)), there);
            }
        }
    }

    #[test]
    fn it_takes_few_bytes() {
        let filled = |offsets: &[u16]| {
            let mut store = TidStore::default();
            (0..10_000).for_each(|block| store.add(block, offsets));
            store.memory_bytes() / 10_000
        };
        assert!(filled(&[7]) <= 12);
        let many: Vec<u16> = (1..=226).step_by(2).collect();
        assert!(filled(&many) <= 42, "a bit for each line pointer");
    }

    #[test]
    #[should_panic(expected = "blocks ascend")]
    fn blocks_out_of_order_are_refused() {
        let mut store = TidStore::default();
        store.add(5, &[1]);
        store.add(5, &[2]);
    }
}
