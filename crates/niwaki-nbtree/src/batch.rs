//! The matches of one leaf, copied out under its latch.

use niwaki_storage::{BlockNumber, Tid};

/// Version of a leaf's contents; changes whenever the leaf does, and never comes back (rule 9b.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeafVersion(pub(crate) u64);

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
    /// Offset number on the leaf when it was read.
    offset: u16,
}

/// The entries of one leaf that a scan asked for, in the scan's order. Reused from leaf to leaf.
#[derive(Debug, Default)]
pub struct LeafBatch {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    block: Option<BlockNumber>,
    version: LeafVersion,
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
    }

    /// Appends an entry; a page's worth of bytes always fits the 32-bit start.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], payload: &[u8], tid: Tid, offset: u16) {
        self.slots.push(Slot {
            tid,
            start: self.bytes.len() as u32,
            key_len: key.len() as u16,
            payload_len: payload.len() as u16,
            offset,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
    }

    /// Where entry number `position` was on the leaf.
    #[inline]
    pub(crate) fn offset(&self, position: usize) -> Option<u16> {
        self.slots.get(position).map(|slot| slot.offset)
    }
}
