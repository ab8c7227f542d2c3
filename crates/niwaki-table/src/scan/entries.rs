//! Index entries of one leaf after the other, on their way to rows.

use niwaki_env::seeded_bug;
use niwaki_heap::{Deadness, Heap, PageVisibility, UnmixCount};
use niwaki_nbtree::{LeafBatch, LeafRead, RangeSource, Scan};
use niwaki_storage::{BlockNumber, Csn, Tid};
use niwaki_txn::{Horizon, View};
use niwaki_types::{ColumnMask, Datum};

use crate::entry::recheck::{Entry, Seen};
use crate::error::Result;
use crate::relation::table::Table;
use crate::relation::table_index::TableIndex;

/// A scan of an index that knows how far to trust its entries after the leaf's latch is released.
#[derive(Debug, Default)]
pub(crate) struct EntryScan {
    /// The owner starts this scan and asks for its direction. This type only reads on.
    pub(crate) leaves: Scan,
    /// The heap's unmix counter when the leaf was read.
    noted: UnmixCount,
    /// True when the entry holds everything the scan needs of a row. The scan then skips the heap
    /// for all-visible pages.
    pub(crate) covered: bool,
    /// The time since which the left-out prefix of the last leaf is expired.
    left_out: Csn,
    /// For a covered scan: one bit per entry of the leaf, set if its page was all-visible when the
    /// leaf was read. Sixty-four bits a word.
    seen_by_all: Vec<u64>,
}

impl EntryScan {
    /// Reads on to the next leaf with wanted entries; returns false at the end. With a `snapshot`,
    /// expired prefixes (`expired_prefix.rs`) are left out.
    #[inline]
    pub(crate) fn next<R: RangeSource>(
        &mut self,
        table: &Table,
        index: usize,
        ranges: Option<&mut R>,
        snapshot: Option<Csn>,
    ) -> Result<bool> {
        let Self { leaves, noted, covered, left_out, seen_by_all } = self;
        let TableIndex { handle, expired, .. } = &table.indexes[index];
        let heap = table.heap();
        if *covered {
            heap.open_visibility_map()?;
        }
        let under_latch = |batch: &LeafBatch| {
            // Rule `unmix-counter`.
            *noted = heap.unmix_count();
            if *covered {
                look_at_map(&heap, batch, seen_by_all);
            }
        };
        let before = |leaf: LeafRead| {
            let Some(snapshot) = snapshot else { return 0 };
            let (end, since) = expired.before(leaf, snapshot);
            *left_out = since;
            end
        };
        Ok(leaves.next_leaving_out(handle, ranges, before, under_latch)?)
    }

    /// Returns the entries of the leaf read last.
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

/// The state of an entry that gives no row to one snapshot, as others see it.
enum Verdict {
    /// No snapshot finds a row by the entry.
    Dead,
    /// No snapshot from this one on finds a row by the entry.
    Expired(Csn),
    /// Some snapshots will find a row.
    Alive,
}

/// Notes which entries lead to all-visible pages. While the leaf's latch is held, an entry leads to
/// the row it was made for. Later its line pointer may belong to another row
/// (docs/internals/design.md, "Visibility map").
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
    /// Returns the number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// Returns the entry at `position`, with its payload.
    #[inline]
    fn get(&self, position: usize) -> Option<(Entry<'s>, &'s [u8])> {
        let entry = self.batch.get(position)?;
        let seen = Seen::At(self.noted);
        Some((Entry { index: self.index, key: entry.key, root: entry.tid, seen }, entry.payload))
    }

    /// Reads the row of the entry at `position`, if the view sees the row. Otherwise notes the
    /// entry in `unseen`.
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

    /// Reads a row as [`Entries::read`] does, but takes the values from the entry where they are
    /// valid. Counts the heap fetches in `fetches`.
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

    /// Returns true when all snapshots saw the row of the entry at `position` at the time the leaf
    /// was read.
    #[inline]
    fn is_seen_by_all(&self, position: usize, root: Tid) -> bool {
        if seeded_bug!("map-under-latch") {
            let said = self.table.heap().page_visibility(root.block.0);
            return said >= PageVisibility::AllVisible;
        }
        self.seen_by_all.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 != 0)
    }

    /// Marks the entries in `unseen` that give no row to any snapshot, if the leaf is unchanged.
    /// Leaves `unseen` empty.
    #[inline]
    pub(crate) fn mark(&self, unseen: &mut Vec<usize>) -> Result<()> {
        if unseen.is_empty() { Ok(()) } else { self.mark_unseen(unseen) }
    }

    /// Marks dead entries, and notes an expired prefix. Called once per leaf, because the horizon
    /// costs more than an entry.
    fn mark_unseen(&self, unseen: &mut Vec<usize>) -> Result<()> {
        debug_assert!(unseen.is_sorted_by(|a, b| a < b), "an entry of a leaf was read twice");
        debug_assert!(
            unseen.last().is_none_or(|last| *last < self.len()),
            "an entry of another leaf is noted",
        );
        let horizon = self.table.engine.transactions().horizon();
        let mut dead = Vec::new();
        // The number of leading entries that are all dead or expired, whether some are expired, and
        // since when.
        let (mut ended, mut some_expired, mut since) = (0, false, self.left_out);
        for position in unseen.drain(..) {
            let Some((entry, _)) = self.get(position) else { continue };
            let expired = match self.verdict(entry, &horizon)? {
                Verdict::Dead => {
                    dead.extend(self.batch.place(position));
                    None
                }
                Verdict::Expired(since) => Some(since),
                Verdict::Alive => continue,
            };
            if position == ended {
                ended += 1;
                some_expired |= expired.is_some();
                since = since.max(expired.unwrap_or(since));
            }
        }
        debug_assert!(ended <= self.len(), "{ended} of {} entries have ended", self.len());
        debug_assert!(!some_expired || ended > 0, "an entry that ended is not counted");
        debug_assert!(since >= self.left_out, "a longer prefix is expired since an earlier time");
        if some_expired && let Some(prefix) = self.batch.prefix(ended) {
            self.table.indexes[self.index].expired.note(prefix, since);
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
                // Dead to all, but not to be marked yet.
                Deadness::Dead { lifetime: Some((_, end)), durable: false } => {
                    Verdict::Expired(end)
                }
                Deadness::Dead { lifetime: None, durable: false } | Deadness::Pending(_) => {
                    Verdict::Alive
                }
                Deadness::Alive => probe
                    .expired_since(entry.root, has_key)
                    .map_or(Verdict::Alive, Verdict::Expired),
            })
        })
    }
}
