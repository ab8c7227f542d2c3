//! Entries of one leaf after the other, on their way to rows.

use niwaki_env::seeded_bug;
use niwaki_heap::{Deadness, Heap, PageVisibility, UnmixCount};
use niwaki_nbtree::{KeyRanges, LeafBatch, LeafRead, Scan};
use niwaki_storage::{BlockNumber, Csn, Tid};
use niwaki_txn::{Horizon, View};
use niwaki_types::{ColumnMask, Datum};

use crate::error::Result;
use crate::recheck::{Entry, Seen};
use crate::table::{Table, TableIndex};

/// A scan of an index that knows how far its entries may be believed when their leaf's latch is gone.
#[derive(Debug, Default)]
pub(crate) struct EntryScan {
    /// Started and asked for its direction by the owner; read on here only.
    pub(crate) leaves: Scan,
    /// The heap's unmix counter when the leaf was read.
    noted: UnmixCount,
    /// The scan needs nothing of a row but what its entry says: it does without the heap where all see a page.
    pub(crate) covered: bool,
    /// Since when what it left out of the leaf read last is over.
    left_out: Csn,
    /// If it can: which of the leaf's entries led to such pages when it was read. Sixty-four a word.
    seen_by_all: Vec<u64>,
}

impl EntryScan {
    /// Reads on to the next leaf with entries that are wanted; false at the end. For a `snapshot` what is over (`over.rs`) is left out.
    #[inline]
    pub(crate) fn next<R: KeyRanges>(
        &mut self,
        table: &Table,
        index: usize,
        ranges: Option<&mut R>,
        snapshot: Option<Csn>,
    ) -> Result<bool> {
        let Self { leaves, noted, covered, left_out, seen_by_all } = self;
        let TableIndex { handle, over, .. } = &table.indexes[index];
        let heap = table.heap();
        if *covered {
            heap.open_visibility_map()?;
        }
        let under_latch = |batch: &LeafBatch| {
            // Rule 9b.2.
            *noted = heap.unmix_count();
            if *covered {
                look_at_map(&heap, batch, seen_by_all);
            }
        };
        let before = |leaf: LeafRead| {
            let Some(snapshot) = snapshot else { return 0 };
            let (end, since) = over.before(leaf, snapshot);
            *left_out = since;
            end
        };
        Ok(leaves.next_leaving_out(handle, ranges, before, under_latch)?)
    }

    /// The entries of the leaf read last.
    #[inline]
    pub(crate) fn entries<'s>(&'s self, table: &'s Table, index: usize) -> Entries<'s> {
        let Self { noted, left_out, ref seen_by_all, .. } = *self;
        Entries { table, index, batch: self.leaves.batch(), noted, left_out, seen_by_all }
    }
}

/// The entries of one leaf, on their way to rows.
pub(crate) struct Entries<'s> {
    table: &'s Table,
    index: usize,
    batch: &'s LeafBatch,
    noted: UnmixCount,
    left_out: Csn,
    seen_by_all: &'s [u64],
}

/// What an entry that leads one snapshot nowhere is to others.
enum Verdict {
    /// No snapshot finds anything by it.
    Dead,
    /// None from this one on does.
    Over(Csn),
    /// Some will.
    Alive,
}

/// Notes which entries lead to pages that all see all of. While the leaf's latch is held an entry there leads to the row
/// that it was made for; later its line pointer may be another's (design section 7).
fn look_at_map(heap: &Heap<'_>, batch: &LeafBatch, seen_by_all: &mut Vec<u64>) {
    seen_by_all.clear();
    seen_by_all.resize(batch.len().div_ceil(64), 0);
    let mut last = (BlockNumber::INVALID, 0);
    for (position, entry) in batch.iter().enumerate() {
        let block = entry.tid.block;
        if block != last.0 {
            let visible = heap.page_visibility(block.0) >= PageVisibility::AllVisible;
            last = (block, u64::from(visible));
        }
        seen_by_all[position / 64] |= last.1 << (position % 64);
    }
}

impl<'s> Entries<'s> {
    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// The entry at `position`, with its payload.
    #[inline]
    fn get(&self, position: usize) -> Option<(Entry<'s>, &'s [u8])> {
        let entry = self.batch.get(position)?;
        let seen = Seen::At(self.noted);
        Some((Entry { index: self.index, key: entry.key, root: entry.tid, seen }, entry.payload))
    }

    /// Reads the row of the entry at `position`, if the view sees it. Notes in `unseen` an entry
    /// that leads it nowhere.
    #[inline]
    pub(crate) fn read(
        &self,
        view: &View<'_>,
        position: usize,
        needed: &ColumnMask,
        out: &mut [Datum],
        unseen: &mut Vec<usize>,
    ) -> Result<Option<Tid>> {
        let Some((entry, _)) = self.get(position) else { return Ok(None) };
        if self.table.fetch_through(view, entry, needed, out)? {
            return Ok(Some(entry.root));
        }
        unseen.push(position);
        Ok(None)
    }

    /// As [`Entries::read`], taking the values from the entry where they are right there. Counts in
    /// `fetches` the rows that were asked for in the heap.
    #[inline]
    pub(crate) fn read_covered(
        &self,
        view: &View<'_>,
        position: usize,
        needed: &ColumnMask,
        out: &mut [Datum],
        unseen: &mut Vec<usize>,
        fetches: &mut u64,
    ) -> Result<Option<Tid>> {
        let Some((entry, payload)) = self.get(position) else { return Ok(None) };
        if self.is_seen_by_all(position, entry.root) {
            self.table.decode_entry(entry, payload, needed, out)?;
            return Ok(Some(entry.root));
        }
        *fetches += 1;
        if self.table.fetch_covered(view, entry, payload, needed, out)? {
            return Ok(Some(entry.root));
        }
        unseen.push(position);
        Ok(None)
    }

    /// Whether all saw the row of the entry at `position` when the leaf was read.
    #[inline]
    fn is_seen_by_all(&self, position: usize, root: Tid) -> bool {
        if seeded_bug!("map-under-latch") {
            let said = self.table.heap().page_visibility(root.block.0);
            return said >= PageVisibility::AllVisible;
        }
        self.seen_by_all.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 != 0)
    }

    /// Marks, of the entries noted in `unseen`, those that lead nobody anywhere, if the leaf is still as
    /// it was. Leaves `unseen` empty.
    #[inline]
    pub(crate) fn mark(&self, unseen: &mut Vec<usize>) -> Result<()> {
        if unseen.is_empty() { Ok(()) } else { self.mark_unseen(unseen) }
    }

    /// What one snapshot does not see is perhaps dead to all, or over; asked once for a leaf, because the horizon
    /// costs more than an entry.
    fn mark_unseen(&self, unseen: &mut Vec<usize>) -> Result<()> {
        let horizon = self.table.engine.transactions().horizon();
        let mut dead = Vec::new();
        // How many entries, from the first one on, are all dead or over, whether some are over, and since when.
        let (mut ended, mut some_over, mut since) = (0, false, self.left_out);
        for position in unseen.drain(..) {
            let Some((entry, _)) = self.get(position) else { continue };
            let over = match self.verdict(entry, &horizon)? {
                Verdict::Dead => {
                    dead.extend(self.batch.place(position));
                    None
                }
                Verdict::Over(since) => Some(since),
                Verdict::Alive => continue,
            };
            if position == ended {
                ended += 1;
                some_over |= over.is_some();
                since = since.max(over.unwrap_or(since));
            }
        }
        if some_over && let Some(prefix) = self.batch.prefix(ended) {
            self.table.indexes[self.index].over.note(prefix, since);
        }
        match self.batch.leaf() {
            Some(leaf) if !dead.is_empty() => self.table.mark_dead(self.index, leaf, &mut dead),
            _ => Ok(()),
        }
    }

    fn verdict(&self, entry: Entry<'_>, horizon: &Horizon) -> Result<Verdict> {
        let heap = self.table.heap();
        self.table.decide(entry, |has_key| {
            let probe = heap.probe_dead(entry.root.block.0)?;
            Ok(match probe.deadness(entry.root, horizon, &mut *has_key) {
                Deadness::Dead { durable: true, .. } => Verdict::Dead,
                // Dead to all, and it cannot be marked yet.
                Deadness::Dead { lifetime: Some((_, end)), durable: false } => Verdict::Over(end),
                Deadness::Dead { lifetime: None, durable: false } | Deadness::Pending(_) => {
                    Verdict::Alive
                }
                Deadness::Alive => {
                    probe.over_since(entry.root, has_key).map_or(Verdict::Alive, Verdict::Over)
                }
            })
        })
    }
}
