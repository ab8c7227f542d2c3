//! The matches of one leaf, copied out under its latch.

use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::{BlockNumber, Tid};

use crate::page::entry::{BatchEntry, EntryPlace};
use crate::page::layout::NO_BLOCK;
use crate::page::tuple::LeafTuple;
use crate::scan::key_range::Direction;

/// Version of a leaf's contents. It changes whenever the leaf changes, and no value ever comes back
/// (rule `leaf-version`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeafVersion(pub(crate) u64);

/// A leaf, identified by its block and its version at the time of the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRead {
    pub(crate) block: BlockNumber,
    pub(crate) version: LeafVersion,
}

impl LeafRead {
    /// Returns the leaf's block.
    #[inline]
    pub fn block(self) -> BlockNumber {
        self.block
    }
}

/// The first items of a leaf, up to an offset, at the time of the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafPrefix {
    leaf: LeafRead,
    /// Offset of the first item behind the prefix.
    end: u16,
}

impl LeafPrefix {
    /// Returns the leaf.
    #[inline]
    pub fn leaf(self) -> LeafRead {
        self.leaf
    }

    /// Returns the offset of the first item behind the prefix.
    #[inline]
    pub fn end(self) -> u16 {
        self.end
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tid: Tid,
    start: u32,
    key_len: u16,
    payload_len: u16,
    /// Place of the entry on the leaf.
    at: EntryPlace,
}

/// The entries of one leaf that a scan asked for, in the scan's order. The scan reuses the batch
/// from leaf to leaf.
#[derive(Debug, Default)]
pub struct LeafBatch {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    block: Option<BlockNumber>,
    version: LeafVersion,
    /// The batch has all entries before this item, except entries that are marked LP_DEAD or that
    /// the scan's caller leaves out.
    prefix_end: Option<u16>,
}

impl LeafBatch {
    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Decides whether the batch has no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns entry number `position`, counted from 0; `None` past the end.
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

    /// Iterates over the entries in the scan's order.
    pub fn iter(&self) -> impl Iterator<Item = BatchEntry<'_>> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// Returns the leaf that the entries came from; `None` before the scan read the first leaf.
    pub fn block(&self) -> Option<BlockNumber> {
        self.block
    }

    /// Returns the leaf's version at the time of the read.
    pub fn version(&self) -> LeafVersion {
        self.version
    }

    /// Forgets the entries, but keeps the memory.
    pub(crate) fn reset(&mut self, block: BlockNumber, version: LeafVersion) {
        self.slots.clear();
        self.bytes.clear();
        self.block = Some(block);
        self.version = version;
        self.prefix_end = None;
    }

    /// Notes that the batch has all entries of the leaf before this item ([`LeafBatch::prefix`]).
    pub(crate) fn has_all_before(&mut self, end: u16) {
        debug_assert!(
            self.slots.last().is_none_or(|last| last.at.offset < end),
            "the batch has no entry behind the prefix"
        );
        self.prefix_end = Some(end);
    }

    /// Appends the entries of an item in the scan's direction. The entries of a posting list share
    /// the bytes of their key. A page's worth of bytes always fits the 32-bit start.
    #[inline]
    pub(crate) fn push(&mut self, item: &LeafTuple<'_>, offset: u16, direction: Direction) {
        debug_assert!(offset > 0, "offset numbers begin at 1");
        debug_assert!(self.comes_before(offset, direction), "items come in the scan's direction");
        debug_assert!(self.bytes.len() <= PAGE_SIZE, "all entries are of one leaf");
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

    /// Decides whether the entries so far come before those of this item.
    fn comes_before(&self, offset: u16, direction: Direction) -> bool {
        self.slots.last().is_none_or(|last| match direction {
            Direction::Forward => last.at.offset < offset,
            Direction::Backward => last.at.offset > offset,
        })
    }

    /// Drops entries from number `position` on, except the entries that `keep` accepts.
    pub(crate) fn retain_from(&mut self, position: usize, keep: impl Fn(Tid) -> bool) {
        debug_assert!(position <= self.slots.len(), "the entries before this one stay");
        let mut number = 0;
        self.slots.retain(|slot| {
            number += 1;
            number <= position || keep(slot.tid)
        });
    }

    /// Returns the leaf that the entries came from, to mark entries on it later. `None` before the
    /// scan read the first leaf.
    pub fn leaf(&self) -> Option<LeafRead> {
        let block = self.block.filter(|&block| block != NO_BLOCK)?;
        Some(LeafRead { block, version: self.version })
    }

    /// Returns the items before entry number `count`, if the entries before it cover the start of
    /// the leaf. Other entries there may only be entries that are marked LP_DEAD or that the scan's
    /// caller leaves out.
    pub fn prefix(&self, count: usize) -> Option<LeafPrefix> {
        let end = self.prefix_end?;
        // A posting list that is only half before entry `count` counts as behind the prefix.
        let end = self.slots.get(count).map_or(end, |slot| slot.at.offset);
        debug_assert!(Some(end) <= self.prefix_end, "fewer entries cover a shorter prefix");
        Some(LeafPrefix { leaf: self.leaf()?, end })
    }

    /// Returns the place of entry number `position` on the leaf.
    #[inline]
    pub fn place(&self, position: usize) -> Option<EntryPlace> {
        self.slots.get(position).map(|slot| slot.at)
    }
}
