//! The matches of one leaf, copied out under its latch.

use niwaki_storage::{BlockNumber, Tid};

use crate::page::NO_BLOCK;
use crate::range::Direction;
use crate::tuple::LeafTuple;

/// Version of a leaf's contents; changes whenever the leaf does, and never comes back (rule 9b.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeafVersion(pub(crate) u64);

/// A leaf as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRead {
    pub(crate) block: BlockNumber,
    pub(crate) version: LeafVersion,
}

impl LeafRead {
    /// Which leaf.
    #[inline]
    pub fn block(self) -> BlockNumber {
        self.block
    }
}

/// The items that a leaf, as it was when it was read, begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafPrefix {
    leaf: LeafRead,
    /// Offset of the first item behind them.
    end: u16,
}

impl LeafPrefix {
    /// The leaf.
    #[inline]
    pub fn leaf(self) -> LeafRead {
        self.leaf
    }

    /// Offset of the first item behind them.
    #[inline]
    pub fn end(self) -> u16 {
        self.end
    }
}

/// Where an entry is on its leaf, ordered as the entries are. Outside of the leaf's latch it means something together with a [`LeafRead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryPlace {
    /// Offset number of the item.
    pub(crate) offset: u16,
    /// Place of the TID in the item, from 0.
    pub(crate) place: u8,
}

/// One entry of a [`LeafBatch`].
#[derive(Clone, Copy, Debug)]
pub struct BatchEntry<'a> {
    /// Key bytes, as inserted.
    pub key: &'a [u8],
    /// INCLUDE payload, as inserted; may be stale while the root is `mixed` (design section 5).
    pub payload: &'a [u8],
    /// Root of the chain.
    pub tid: Tid,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tid: Tid,
    start: u32,
    key_len: u16,
    payload_len: u16,
    /// Where it was on the leaf.
    at: EntryPlace,
}

/// The entries of one leaf that a scan asked for, in the scan's order. Reused from leaf to leaf.
#[derive(Debug, Default)]
pub struct LeafBatch {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    block: Option<BlockNumber>,
    version: LeafVersion,
    /// The batch has all entries before this item, but those that are marked LP_DEAD or that the scan was told to leave out.
    prefix_end: Option<u16>,
}

impl LeafBatch {
    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Entry number `position`, from 0; `None` past the end.
    #[inline]
    pub fn get(&self, position: usize) -> Option<BatchEntry<'_>> {
        let slot = self.slots.get(position)?;
        let start = slot.start as usize;
        let key_end = start + usize::from(slot.key_len);
        Some(BatchEntry {
            key: &self.bytes[start..key_end],
            payload: &self.bytes[key_end..key_end + usize::from(slot.payload_len)],
            tid: slot.tid,
        })
    }

    /// The entries in the scan's order.
    pub fn iter(&self) -> impl Iterator<Item = BatchEntry<'_>> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// Leaf that they came from; `None` before the first leaf was read.
    pub fn block(&self) -> Option<BlockNumber> {
        self.block
    }

    /// The leaf's version at that moment.
    pub fn version(&self) -> LeafVersion {
        self.version
    }

    /// Forgets the entries, keeps the memory.
    pub(crate) fn reset(&mut self, block: BlockNumber, version: LeafVersion) {
        self.slots.clear();
        self.bytes.clear();
        self.block = Some(block);
        self.version = version;
        self.prefix_end = None;
    }

    /// Notes that it has all entries of the leaf before this item ([`LeafBatch::prefix`]).
    pub(crate) fn has_all_before(&mut self, end: u16) {
        self.prefix_end = Some(end);
    }

    /// Appends the entries of an item in the scan's direction; those of a posting list share the bytes
    /// of their key. A page's worth of bytes always fits the 32-bit start.
    #[inline]
    pub(crate) fn push(&mut self, item: &LeafTuple<'_>, offset: u16, direction: Direction) {
        let start = self.bytes.len() as u32;
        let (key_len, payload_len) = (item.key.len() as u16, item.payload.len() as u16);
        self.bytes.extend_from_slice(item.key);
        self.bytes.extend_from_slice(item.payload);
        let slot = |(place, tid)| {
            let at = EntryPlace { offset, place };
            Slot { tid, start, key_len, payload_len, at }
        };
        if !item.is_posting() {
            self.slots.push(slot((0, item.tids.first())));
            return;
        }
        let first = self.slots.len();
        self.slots.extend((0u8..).zip(item.tids.iter()).map(slot));
        if direction == Direction::Backward {
            self.slots[first..].reverse();
        }
    }

    /// Drops those of the entries from number `position` on that are not to be kept.
    pub(crate) fn retain_from(&mut self, position: usize, keep: impl Fn(Tid) -> bool) {
        let mut number = 0;
        self.slots.retain(|slot| {
            number += 1;
            number <= position || keep(slot.tid)
        });
    }

    /// The leaf that they came from, to mark entries on it later; `None` before the first was read.
    pub fn leaf(&self) -> Option<LeafRead> {
        let block = self.block.filter(|&block| block != NO_BLOCK)?;
        Some(LeafRead { block, version: self.version })
    }

    /// The items that are before entry number `count`, if the entries before it are all that the leaf begins with: beside them there were only some that are
    /// marked LP_DEAD, and those that the scan was told to leave out.
    pub fn prefix(&self, count: usize) -> Option<LeafPrefix> {
        let end = self.prefix_end?;
        // Of a posting list that is half among them the item is behind them.
        let end = self.slots.get(count).map_or(end, |slot| slot.at.offset);
        Some(LeafPrefix { leaf: self.leaf()?, end })
    }

    /// Where entry number `position` was on the leaf.
    #[inline]
    pub fn place(&self, position: usize) -> Option<EntryPlace> {
        self.slots.get(position).map(|slot| slot.at)
    }
}
