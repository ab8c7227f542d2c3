//! Range scans in both directions, a leaf at a time.
//!
//! A scan holds no latch and no pin between leaves. A forward scan follows the right link that the
//! leaf had when it was read: entries that a split moves out of the leaf afterwards were read
//! before. A backward scan follows the left link, if the page there still leads back. Where a link
//! has grown old, since pages were divided or deleted, the scan looks its place up again by its
//! position ([`ScanPosition`]). A backward scan does so too when entries went over to right
//! siblings meanwhile (`shift.rs`): they may have gone from the next leaf to the leaf that the scan
//! has read. A forward scan begins behind the place that it has reached.

use niwaki_env::seeded_bug;
use niwaki_storage::buffer::PageRead;
use niwaki_storage::{BlockNumber, Page};

use crate::error::{Error, Result};
use crate::memory::recycle::Link;
use crate::memory::stats::count_roughly;
use crate::page::change;
use crate::page::layout::{IndexPage, NO_BLOCK};
use crate::page::search::{is_beyond, lower_bound, lower_bound_near};
use crate::scan::batch::{LeafBatch, LeafRead, LeafVersion};
use crate::scan::key_range::{Direction, KeyRange};
use crate::scan::position::ScanPosition;
use crate::scan::range_source::{Kind, OneRange, Place, RangeSource, RangeStep};
use crate::tree::descend::RESTARTS_MAX;
use crate::tree::index::Index;

/// The number of leaves after which a scan checks whether it goes round in a ring.
const LEAVES_PER_LOOK: u32 = 256;

/// The place where a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The start of the first of several ranges: the scan must ask for it.
    Ask,
    /// The first leaf of the range.
    Start,
    /// Forward: this leaf.
    Leaf(Link),
    /// The place of [`ScanPosition`]: the page that a link led to is gone.
    Resume,
    /// Backward: the left sibling of `from`. `left` was that sibling when `from` was read, after
    /// `shifts` shifts.
    LeftOf {
        from: BlockNumber,
        left: Link,
        shifts: u64,
    },
    Done,
}

impl Next {
    /// Returns the step to the page left of `leaf`, which the caller has latched, for a backward
    /// scan.
    fn left_of(index: &Index, leaf: &PageRead<'_>) -> Self {
        let (from, left) = (leaf.id().block, index.link(leaf.prev()));
        debug_assert_ne!(left.block, NO_BLOCK, "the leftmost leaf ends a backward scan");
        Self::LeftOf { from, left, shifts: index.recycling.shifts() }
    }
}

/// A scan of one range, or of several. Create it once and start it again and again: it keeps its
/// memory.
#[derive(Debug)]
pub struct Scan {
    range: Place,
    /// True if the entries from here on belong to no range yet: the next one decides where to go
    /// on.
    seeking: bool,
    direction: Direction,
    /// True if the scan's one range has one key, or one prefix of keys.
    equality: bool,
    /// True if the scan looks up one key with all its columns.
    lookup: bool,
    /// Backward: true if no entry of the range is left of the first leaf.
    begins_here: bool,
    next: Next,
    /// The number of leaves read since the last descent.
    leaves: u32,
    position: ScanPosition,
    /// The number of dead links since the scan last came further.
    lost: u32,
    /// A posting list of this leaf that the scan has read in part before.
    half_read: Option<u16>,
    /// The offset before which the items of this leaf are left out.
    left_out: u16,
    batch: LeafBatch,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            range: Place::default(),
            seeking: false,
            direction: Direction::Forward,
            equality: false,
            lookup: false,
            begins_here: false,
            next: Next::Done,
            leaves: 0,
            position: ScanPosition::default(),
            lost: 0,
            half_read: None,
            left_out: 0,
            batch: LeafBatch::default(),
        }
    }
}

impl Scan {
    /// Starts a scan of `range`; reads nothing yet. The bounds are copied.
    pub fn start(&mut self, index: &Index, range: &KeyRange<'_>, direction: Direction) {
        self.range.set_lower(range.lower);
        self.range.set_upper(range.upper);
        self.begin(index, direction, Next::Start);
        self.equality = range.lower == range.upper && self.range.lower.kind == Kind::Included;
    }

    /// Starts a scan of the entries of one key, which has all key columns in it; reads nothing yet.
    /// As [`Scan::start`] with [`KeyRange::equal`], but counted as a lookup.
    pub fn look_up(&mut self, index: &Index, key: &[u8], direction: Direction) {
        self.start(index, &KeyRange::equal(key), direction);
        self.lookup = true;
        count_roughly(&index.counters.reads().lookups, 1);
    }

    /// Starts a scan of several ranges, which the caller gives to [`Scan::next_with`]; reads
    /// nothing yet.
    pub fn start_ranges(&mut self, index: &Index, direction: Direction) {
        self.begin(index, direction, Next::Ask);
    }

    fn begin(&mut self, index: &Index, direction: Direction, next: Next) {
        self.seeking = false;
        self.equality = false;
        self.lookup = false;
        self.begins_here = false;
        self.direction = direction;
        self.next = next;
        self.leaves = 0;
        self.batch.reset(NO_BLOCK, LeafVersion::default());
        count_roughly(&index.counters.reads().scans, 1);
    }

    /// Returns the direction of the scan.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the entries that the last [`Scan::next`] found.
    #[inline]
    pub fn batch(&self) -> &LeafBatch {
        &self.batch
    }

    /// Reads on to the next leaf that has entries of the range not marked LP_DEAD, and copies them
    /// into the batch. Returns false at the end of the range, with an empty batch. Entries come in
    /// order, each at most once. An entry inserted or deleted while the scan goes on may be missed
    /// or found.
    ///
    /// # Errors
    /// Storage's.
    #[inline]
    pub fn next(&mut self, index: &Index) -> Result<bool> {
        self.next_with(index, None::<&mut OneRange>, |_| {})
    }

    /// Reads on as [`Scan::next`], for a scan of several ranges (`ranges`, the same each time).
    /// Calls `under_latch` with the filled batch while the leaf's shared latch is held. The
    /// callback reads values that must be read at that moment, like the table's unmix counter
    /// (rule `unmix-counter`) or visibility map bits. It must not latch anything.
    ///
    /// # Errors
    /// Storage's; the errors of `ranges`.
    pub fn next_with<R: RangeSource>(
        &mut self,
        index: &Index,
        ranges: Option<&mut R>,
        under_latch: impl FnMut(&LeafBatch),
    ) -> Result<bool> {
        self.next_leaving_out(index, ranges, |_| 0, under_latch)
    }

    /// Reads on as [`Scan::next_with`], but leaves out the items of each leaf before the offset
    /// that `left_out` returns. `left_out` is also called under the leaf's latch.
    ///
    /// # Errors
    /// As [`Scan::next_with`].
    pub fn next_leaving_out<R: RangeSource>(
        &mut self,
        index: &Index,
        mut ranges: Option<&mut R>,
        mut left_out: impl FnMut(LeafRead) -> u16,
        mut under_latch: impl FnMut(&LeafBatch),
    ) -> Result<bool> {
        // Ends: every round reads another leaf. The leaves between descents are counted, and every
        // descent leads further on.
        loop {
            if self.next == Next::Ask {
                self.next = Next::Done;
                if let Some(ranges) = ranges.as_deref_mut()
                    && self.ask(ranges, None).is_some_and(|more| more)
                {
                    self.next = Next::Start;
                }
            }
            debug_assert!(self.next != Next::Ask, "the first range is known, or there is none");
            let leaf = match self.next {
                Next::Ask => None,
                Next::Start => self.first_leaf(index)?,
                Next::Resume => self.resume(index)?,
                Next::Leaf(link) => match index.follow(link, 0)? {
                    None => {
                        self.lost(index, link)?;
                        continue;
                    }
                    found => found,
                },
                Next::LeftOf { from, left, shifts } => match index.left_of(from, left, shifts)? {
                    LeftOf::Lost => {
                        self.lost(index, left)?;
                        continue;
                    }
                    LeftOf::Shifted => {
                        // This is not counted: each time an insertion has made progress.
                        self.next = Next::Resume;
                        continue;
                    }
                    LeftOf::Leaf(leaf) => Some(leaf),
                },
                Next::Done => None,
            };
            if matches!(self.next, Next::Leaf(_) | Next::LeftOf { .. }) {
                self.lost = 0;
            }
            let Some(leaf) = leaf else {
                self.next = Next::Done;
                self.batch.reset(NO_BLOCK, LeafVersion::default());
                return Ok(false);
            };
            let block = leaf.id().block;
            let version = LeafVersion(leaf.version());
            self.batch.reset(block, version);
            self.half_read = None;
            self.left_out = left_out(LeafRead { block, version });
            let ranges = ranges.as_deref_mut();
            match self.direction {
                Direction::Forward => self.read_forward(index, &leaf, block, ranges)?,
                Direction::Backward => self.read_backward(index, &leaf, block, ranges)?,
            }
            if matches!(self.next, Next::Leaf(_) | Next::LeftOf { .. })
                && self.position.note(&leaf, self.direction)
            {
                // Even where every link grows old before it is followed, the scan comes to its end.
                self.lost = 0;
            }
            debug_assert!(self.next != Next::Ask, "the leaf showed where to go on");
            debug_assert!(
                self.half_read.is_none() || self.position.is_known(),
                "only a scan that was resumed has read a part of a list"
            );
            self.count_visit(index);
            self.count_leaf(index, block)?;
            if !self.batch.is_empty() {
                under_latch(&self.batch);
                drop(leaf);
                count_roughly(&index.counters.reads().entries_read, self.batch.len() as u64);
                return Ok(true);
            }
        }
    }

    /// Counts a leaf that was read, for the statistics.
    #[inline]
    fn count_visit(&self, index: &Index) {
        let reads = index.counters.reads();
        count_roughly(&reads.leaf_visits, 1);
        if self.lookup {
            count_roughly(&reads.lookup_leaf_pages, 1);
        }
    }

    /// Counts the leaf just read. No scan of a sound index reads a page twice. So a scan that has
    /// read more leaves than there are pages goes round in a ring.
    #[inline]
    fn count_leaf(&mut self, index: &Index, block: BlockNumber) -> Result<()> {
        self.leaves = self.leaves.saturating_add(1);
        if self.leaves.is_multiple_of(LEAVES_PER_LOOK) && self.leaves > index.blocks()? {
            return Err(index.damaged(block, None, "B2", "sibling links do not come to an end"));
        }
        Ok(())
    }

    /// Handles a link whose page was deleted, or is not the neighbour any more.
    #[cold]
    fn lost(&mut self, index: &Index, link: Link) -> Result<()> {
        self.next = Next::Resume;
        self.lost += 1;
        if self.lost > RESTARTS_MAX {
            return Err(index.dead_links(link.block));
        }
        Ok(())
    }

    /// Returns the leaf where the scan goes on, looked up again by its position.
    #[cold]
    fn resume<'a>(&mut self, index: &'a Index) -> Result<Option<PageRead<'a>>> {
        if !self.position.is_known() {
            self.next = Next::Start;
            return self.first_leaf(index);
        }
        self.leaves = 0;
        index.read_leaf(&self.position.place(self.direction))
    }

    fn first_leaf<'a>(&mut self, index: &'a Index) -> Result<Option<PageRead<'a>>> {
        self.leaves = 0;
        self.position.forget();
        if self.direction == Direction::Forward {
            return index.read_leaf(&self.range.lower.begin());
        }
        let end = self.range.upper.end();
        if self.equality {
            // A leaf does not show whether a range that begins with its first entry goes on to the
            // left. One key's range does not if the leaf was found from the range's begin. Mostly
            // that is also the leaf where the range ends.
            let Some(leaf) = index.read_leaf(&self.range.lower.begin())? else { return Ok(None) };
            self.begins_here = leaf.high_key().is_none_or(|key| end.order_of(key).is_ge());
            if self.begins_here {
                return Ok(Some(leaf));
            }
            self.count_visit(index);
        }
        index.read_leaf(&end)
    }

    /// Asks where to go on; false at the end of the scan, `None` where `found` is no key.
    fn ask<R: RangeSource>(&mut self, ranges: &mut R, found: Option<&[u8]>) -> Option<bool> {
        let step = ranges.next(found, &mut self.range)?;
        self.seeking = step == RangeStep::Seek;
        Some(step != RangeStep::End)
    }

    /// Returns the first item of the leaf that was not read, or not to its end. For forward scans.
    fn first_ahead(&mut self, leaf: &Page, first: u16) -> u16 {
        debug_assert_eq!(self.direction, Direction::Forward, "the items behind are not read yet");
        let from = lower_bound(leaf, first, &self.position.place(self.direction));
        if from > first && self.position.splits(leaf, from - 1, self.direction) {
            self.half_read = Some(from - 1);
            return from - 1;
        }
        from
    }

    /// Returns, for backward scans, the offset behind the last item of the leaf that was not read,
    /// or not to its beginning.
    fn end_ahead(&mut self, leaf: &Page, first: u16) -> u16 {
        debug_assert_eq!(self.direction, Direction::Backward, "the items before are not read yet");
        let stop = lower_bound(leaf, first, &self.position.place(self.direction));
        if stop > first && self.position.splits(leaf, stop - 1, self.direction) {
            self.half_read = Some(stop - 1);
        }
        stop
    }

    fn read_forward<R: RangeSource>(
        &mut self,
        index: &Index,
        leaf: &PageRead<'_>,
        block: BlockNumber,
        mut ranges: Option<&mut R>,
    ) -> Result<()> {
        if leaf.is_half_dead() {
            // The high key of a half-dead page bounds nothing any more.
            self.next = Next::Leaf(index.link(leaf.next()));
            return Ok(());
        }
        let first = leaf.first_entry();
        let mut from = match self.next {
            Next::Start => lower_bound(leaf, first, &self.range.lower.begin()),
            Next::Resume => self.first_ahead(leaf, first),
            _ if self.position.covers_begin_of(leaf)
                && !seeded_bug!("scan_reads_what_it_passed") =>
            {
                self.first_ahead(leaf, first)
            }
            _ => first,
        };
        // Ends: each range leads further to the right (`RangeSource`).
        loop {
            if !self.seeking {
                let end = self.range.upper.end();
                let stop = match self.range.upper.kind {
                    Kind::Unbounded => leaf.item_count() + 1,
                    _ => lower_bound_near(leaf, from, &end),
                };
                for offset in from.max(self.left_out)..stop {
                    let position = (self.half_read == Some(offset)).then_some(&self.position);
                    copy(&mut self.batch, index, leaf, offset, self.direction, position)?;
                }
                if from <= first.max(self.left_out) && self.half_read.is_none() && ranges.is_none()
                {
                    self.batch.has_all_before(stop);
                }
                let reached_end = stop <= leaf.item_count()
                    || leaf.high_key().is_none_or(|key| end.order_of(key).is_ge());
                if !reached_end {
                    self.next = Next::Leaf(index.link(leaf.next()));
                    return Ok(());
                }
                from = stop;
            }
            self.next = Next::Done;
            let Some(ranges) = ranges.as_deref_mut() else { return Ok(()) };
            let found = match from <= leaf.item_count() {
                true => Some(index.leaf_tuple(leaf, block, from)?.key),
                // The wanted key may be further on; the range that ended here is known.
                false if self.seeking => {
                    if !leaf.is_rightmost() {
                        self.next = Next::Leaf(index.link(leaf.next()));
                    }
                    return Ok(());
                }
                false => None,
            };
            match self.ask(ranges, found) {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => return Err(not_a_key(index, block, from)),
            }
            let begin = self.range.lower.begin();
            if is_beyond(leaf, &begin) {
                self.next = Next::Start;
                return Ok(());
            }
            from = lower_bound_near(leaf, from, &begin);
        }
    }

    fn read_backward<R: RangeSource>(
        &mut self,
        index: &Index,
        leaf: &PageRead<'_>,
        block: BlockNumber,
        mut ranges: Option<&mut R>,
    ) -> Result<()> {
        let first = leaf.first_entry();
        let left = leaf.prev();
        let mut stop = match self.next {
            Next::Start => lower_bound(leaf, first, &self.range.upper.end()),
            Next::Resume => self.end_ahead(leaf, first),
            _ => leaf.item_count() + 1,
        };
        // Ends: each range leads further to the left (`RangeSource`).
        loop {
            if !self.seeking {
                let from = match self.range.lower.kind {
                    Kind::Unbounded => first,
                    _ => lower_bound(leaf, first, &self.range.lower.begin()),
                };
                for offset in (from.max(self.left_out)..stop).rev() {
                    let position = (self.half_read == Some(offset)).then_some(&self.position);
                    copy(&mut self.batch, index, leaf, offset, self.direction, position)?;
                }
                if from == first && left != NO_BLOCK && !self.begins_here {
                    self.next = Next::left_of(index, leaf);
                    return Ok(());
                }
                stop = stop.min(from);
            }
            self.next = Next::Done;
            let Some(ranges) = ranges.as_deref_mut() else { return Ok(()) };
            let found = match stop > first {
                true => Some(index.leaf_tuple(leaf, block, stop - 1)?.key),
                false if self.seeking => {
                    if left != NO_BLOCK {
                        self.next = Next::left_of(index, leaf);
                    }
                    return Ok(());
                }
                false => None,
            };
            match self.ask(ranges, found) {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => return Err(not_a_key(index, block, stop - 1)),
            }
            let end = lower_bound(leaf, first, &self.range.upper.end());
            if end == first {
                // No entry here is in the range, but entries to the left may be.
                if left != NO_BLOCK {
                    self.next = Next::Start;
                }
                return Ok(());
            }
            stop = stop.min(end);
        }
    }
}

#[cold]
fn not_a_key(index: &Index, block: BlockNumber, offset: u16) -> Error {
    index.damaged(block, Some(offset), "format", "not a key of the index's columns")
}

/// Copies the entries of an item into the batch unless the item is marked LP_DEAD. For a list that
/// was read in part (`position`), copies the rest.
#[inline]
fn copy(
    batch: &mut LeafBatch,
    index: &Index,
    leaf: &PageRead<'_>,
    offset: u16,
    direction: Direction,
    position: Option<&ScanPosition>,
) -> Result<()> {
    if change::is_dead(leaf, offset) {
        return Ok(());
    }
    let item = index.leaf_tuple(leaf, leaf.id().block, offset)?;
    let before = batch.len();
    batch.push(&item, offset, direction);
    if let Some(position) = position {
        batch.retain_from(before, |tid| position.is_ahead(tid, direction));
    }
    debug_assert!(batch.len() >= before, "entries of earlier items stay");
    Ok(())
}

/// The result of a backward scan's step by a left link.
enum LeftOf<'a> {
    Leaf(PageRead<'a>),
    /// The page, or `from`, was split or deleted since.
    Lost,
    /// It is the page, but entries may have gone over from it to `from` since `from` was read.
    Shifted,
}

impl Index {
    /// Returns the leaf left of `from`, if the page of `left` still is that leaf, with the entries
    /// that it had when `from` was read. `shifts` is the number of shifts at that time.
    fn left_of(&self, from: BlockNumber, left: Link, shifts: u64) -> Result<LeftOf<'_>> {
        let trusts = seeded_bug!("backward_scan_trusts_left_link");
        Ok(match self.follow(left, 0)? {
            Some(page) if page.next() != from && !trusts => LeftOf::Lost,
            Some(_) if self.recycling.shifts() != shifts => LeftOf::Shifted,
            Some(page) => LeftOf::Leaf(page),
            None => LeftOf::Lost,
        })
    }
}
