//! Range scans in both directions, a leaf at a time.
//!
//! A scan holds no latch and no pin between leaves. Forward it goes by the right link that the leaf
//! had when it was read: whatever a split moves out of the leaf afterwards was read before. Backward
//! it goes by the left link, and then right until it finds the page whose right link leads to the leaf
//! it came from: pages that splits put in between come first.

use niwaki_env::seeded_bug;
use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::PageRead;

use crate::batch::{LeafBatch, LeafVersion};
use crate::change;
use crate::error::Result;
use crate::index::Index;
use crate::page::{IndexPage, NO_BLOCK};
use crate::range::{Direction, KeyBound, KeyRange};
use crate::search::{Target, lower_bound, lower_bound_near};
use crate::stats::{count, count_roughly};

/// After how many leaves a scan looks whether it goes round in a ring.
const LEAVES_PER_LOOK: u32 = 256;

/// A bound that the scan owns; its bytes are in the scan's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unbounded,
    Included,
    Excluded,
}

#[derive(Debug)]
struct OwnedBound {
    kind: Kind,
    bytes: Vec<u8>,
}

impl OwnedBound {
    const NONE: Self = Self { kind: Kind::Unbounded, bytes: Vec::new() };

    fn set(&mut self, bound: KeyBound<'_>) {
        let (kind, bytes): (_, &[u8]) = match bound {
            KeyBound::Unbounded => (Kind::Unbounded, &[]),
            KeyBound::Included(bytes) => (Kind::Included, bytes),
            KeyBound::Excluded(bytes) => (Kind::Excluded, bytes),
        };
        self.kind = kind;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// The place before the first entry inside this lower bound.
    #[inline]
    fn begin(&self) -> Target<'_> {
        match self.kind {
            Kind::Unbounded | Kind::Included => Target::before(&self.bytes),
            Kind::Excluded => Target::after(&self.bytes),
        }
    }

    /// The place behind the last entry inside this upper bound.
    #[inline]
    fn end(&self) -> Target<'_> {
        match self.kind {
            Kind::Unbounded | Kind::Included => Target::after(&self.bytes),
            Kind::Excluded => Target::up_to(&self.bytes),
        }
    }
}

/// Where a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// At the first leaf of the range.
    Start,
    /// Forward: at this leaf.
    Leaf(BlockNumber),
    /// Backward: at the left sibling of `from`, which was `left` when `from` was read.
    LeftOf {
        from: BlockNumber,
        left: BlockNumber,
    },
    Done,
}

/// A scan of a range. Create it once and start it again and again: it keeps its memory.
#[derive(Debug)]
pub struct Scan {
    lower: OwnedBound,
    upper: OwnedBound,
    direction: Direction,
    next: Next,
    /// Leaves read since the start.
    leaves: u32,
    batch: LeafBatch,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            lower: OwnedBound::NONE,
            upper: OwnedBound::NONE,
            direction: Direction::Forward,
            next: Next::Done,
            leaves: 0,
            batch: LeafBatch::default(),
        }
    }
}

impl Scan {
    /// Makes it a scan of `range`; reads nothing yet. The bounds are copied.
    pub fn start(&mut self, index: &Index, range: &KeyRange<'_>, direction: Direction) {
        self.lower.set(range.lower);
        self.upper.set(range.upper);
        self.direction = direction;
        self.next = Next::Start;
        self.leaves = 0;
        self.batch.reset(NO_BLOCK, LeafVersion::default());
        count_roughly(&index.counters.scans, 1);
    }

    /// The entries that the last [`Scan::next`] found.
    #[inline]
    pub fn batch(&self) -> &LeafBatch {
        &self.batch
    }

    /// Reads on to the next leaf that has entries of the range not marked LP_DEAD, and copies them
    /// into the batch. False at the end of the range, with an empty batch. Entries come in order,
    /// each at most once; one inserted or deleted while the scan goes on may be missed or found.
    ///
    /// # Errors
    /// Storage's.
    #[inline]
    pub fn next(&mut self, index: &Index) -> Result<bool> {
        self.next_with(index, |_| {})
    }

    /// [`Scan::next`], calling `under_latch` with the filled batch while the leaf's shared latch is
    /// held: for what must be read at the same moment, like the table's unmix counter (rule 9b.2) or
    /// visibility map bits. It must not latch anything.
    ///
    /// # Errors
    /// Storage's.
    pub fn next_with(
        &mut self,
        index: &Index,
        mut under_latch: impl FnMut(&LeafBatch),
    ) -> Result<bool> {
        // Ends: every turn reads another leaf, and they are counted.
        loop {
            let leaf = match self.next {
                Next::Start => self.first_leaf(index)?,
                Next::Leaf(block) => Some(index.read(block, 0)?),
                Next::LeftOf { from, left } => index.left_of(from, left)?,
                Next::Done => None,
            };
            let Some(leaf) = leaf else {
                self.next = Next::Done;
                self.batch.reset(NO_BLOCK, LeafVersion::default());
                return Ok(false);
            };
            let block = leaf.id().block;
            self.batch.reset(block, LeafVersion(leaf.version()));
            match self.direction {
                Direction::Forward => self.read_forward(index, &leaf, block)?,
                Direction::Backward => self.read_backward(index, &leaf, block)?,
            }
            count_roughly(&index.counters.leaf_visits, 1);
            self.count_leaf(index, block)?;
            if !self.batch.is_empty() {
                under_latch(&self.batch);
                drop(leaf);
                count_roughly(&index.counters.entries_read, self.batch.len() as u64);
                return Ok(true);
            }
        }
    }

    /// Counts the leaf just read. No scan of a sound index reads a page twice, so one that has read
    /// more leaves than there are pages goes round in a ring.
    #[inline]
    fn count_leaf(&mut self, index: &Index, block: BlockNumber) -> Result<()> {
        self.leaves = self.leaves.saturating_add(1);
        if self.leaves.is_multiple_of(LEAVES_PER_LOOK) && self.leaves > index.blocks()? {
            return Err(index.damaged(block, None, "B2", "sibling links do not come to an end"));
        }
        Ok(())
    }

    fn first_leaf<'a>(&self, index: &'a Index) -> Result<Option<PageRead<'a>>> {
        match self.direction {
            Direction::Forward => index.read_leaf(&self.lower.begin()),
            Direction::Backward => index.read_leaf(&self.upper.end()),
        }
    }

    fn read_forward(
        &mut self,
        index: &Index,
        leaf: &PageRead<'_>,
        block: BlockNumber,
    ) -> Result<()> {
        let first = leaf.first_entry();
        let from = match self.next {
            Next::Start => lower_bound(leaf, first, &self.lower.begin()),
            _ => first,
        };
        let end = self.upper.end();
        let stop = match self.upper.kind {
            Kind::Unbounded => leaf.item_count() + 1,
            _ => lower_bound_near(leaf, from, &end),
        };
        for offset in from..stop {
            copy(&mut self.batch, index, leaf, block, offset)?;
        }
        let reached_end = stop <= leaf.item_count()
            || leaf.high_key().is_none_or(|key| end.order_of(key).is_ge());
        self.next = if reached_end { Next::Done } else { Next::Leaf(leaf.next()) };
        Ok(())
    }

    fn read_backward(
        &mut self,
        index: &Index,
        leaf: &PageRead<'_>,
        block: BlockNumber,
    ) -> Result<()> {
        let first = leaf.first_entry();
        let stop = match self.next {
            Next::Start => lower_bound(leaf, first, &self.upper.end()),
            _ => leaf.item_count() + 1,
        };
        let from = match self.lower.kind {
            Kind::Unbounded => first,
            _ => lower_bound(leaf, first, &self.lower.begin()),
        };
        for offset in (from..stop).rev() {
            copy(&mut self.batch, index, leaf, block, offset)?;
        }
        let left = leaf.prev();
        let reached_end = from > first || left == NO_BLOCK;
        self.next = if reached_end { Next::Done } else { Next::LeftOf { from: block, left } };
        Ok(())
    }
}

/// Copies an entry into the batch unless it is marked LP_DEAD.
#[inline]
fn copy(
    batch: &mut LeafBatch,
    index: &Index,
    leaf: &PageRead<'_>,
    block: BlockNumber,
    offset: u16,
) -> Result<()> {
    if !change::is_dead(leaf, offset) {
        let entry = index.leaf_tuple(leaf, block, offset)?;
        batch.push(entry.key, entry.payload, entry.tid, offset);
    }
    Ok(())
}

impl Index {
    /// The leaf left of `from`: `left` was it when `from` was read, and may have been split since.
    fn left_of(&self, from: BlockNumber, left: BlockNumber) -> Result<Option<PageRead<'_>>> {
        let mut block = left;
        let mut moves = 0;
        loop {
            let page = self.read(block, 0)?;
            if page.next() == from || seeded_bug!("backward_scan_trusts_left_link") {
                return Ok(Some(page));
            }
            if page.is_rightmost() {
                let detail = format!("links right of {left} do not lead to {from}");
                return Err(self.damaged(block, None, "B2", detail));
            }
            self.count_move(&mut moves, block)?;
            block = page.next();
        }
    }

    /// Marks entries of a batch LP_DEAD, given by ascending or descending position. Only if the leaf
    /// still is as it was when the batch was read (rule 9b.13), and nobody else is at it: the mark is
    /// a hint, it does not make the page dirty, and is never logged. The caller knows that no
    /// snapshot, present or future, finds a version through these entries, and that the commits which
    /// justify this are flushed. Returns how many were marked.
    ///
    /// # Errors
    /// Storage's.
    pub fn mark_dead(&self, batch: &LeafBatch, positions: &[usize]) -> Result<usize> {
        let Some(block) = batch.block().filter(|&block| block != NO_BLOCK) else { return Ok(0) };
        if positions.is_empty() {
            return Ok(0);
        }
        let pin = self.pin(block)?;
        let Some(mut leaf) = pin.try_write() else { return Ok(0) };
        if LeafVersion(leaf.version()) != batch.version() {
            return Ok(0);
        }
        let mut marked = 0;
        for offset in positions.iter().filter_map(|&position| batch.offset(position)) {
            marked += usize::from(change::set_dead(&mut leaf, offset, true));
        }
        leaf.mark_hint();
        count(&self.counters.marked_dead, marked as u64);
        Ok(marked)
    }
}
