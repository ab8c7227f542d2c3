//! Index scans: rows of some keys of an index, in its order.

use niwaki_nbtree::{BatchEntry, Direction, KeyRange, LeafBatch, OneRange};
use niwaki_storage::{BlockNumber, Csn, Tid};
use niwaki_txn::{Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum, TypeError};

use crate::error::{Error, Result};
use crate::relation::count::count;
use crate::relation::table::Table;
use crate::relation::table_index::TableIndex;
use crate::scan::entries::EntryScan;
use crate::scan::scan_keys::{KeyWalk, ScanKeys, WalkState};

/// A scan over some keys of an index, in its order. Holds no latch and no pin between calls.
#[derive(Debug)]
pub struct IndexScan {
    index: usize,
    scan: EntryScan,
    keys: ScanKeys,
    /// Set when the keys make several ranges.
    walk: Option<WalkState>,
    /// Next entry of the scan's batch.
    position: usize,
    unseen: Vec<usize>,
    heap_fetches: u64,
    shows: PagesToShow,
}

/// Heap pages that an index-only scan had to visit. It tries to have them set all-visible for the
/// next scan.
#[derive(Debug, Default)]
struct PagesToShow {
    /// Pages of the current leaf's entries.
    blocks: Vec<BlockNumber>,
    /// Recent failed tries less successful ones.
    in_vain: u32,
}

/// The least heap fetches of a scan that tries to set pages all-visible.
const FETCHES_MIN: u64 = 16;
/// The surplus of failed tries at which a scan stops trying: its pages are being changed, or an old
/// snapshot is open.
const IN_VAIN_MAX: u32 = 64;

impl Table {
    /// Begins a scan of the entries of `index` that `range` covers; the bounds are encoded keys, or
    /// the encodings of leading columns.
    pub fn index_scan(
        &self,
        index: usize,
        range: &KeyRange<'_>,
        direction: Direction,
    ) -> IndexScan {
        count(&self.counters.index_scans, 1);
        let mut scan = EntryScan::default();
        scan.leaves.start(&self.indexes[index].handle, range, direction);
        IndexScan::new(index, scan, ScanKeys::ALL, None)
    }

    /// Begins a scan of the entries of `index` with these keys. It is one scan, however many ranges
    /// they make. Entries come in the order of the index, each once, and no leaf is read twice.
    pub fn index_scan_keys(&self, index: usize, keys: ScanKeys, direction: Direction) -> IndexScan {
        count(&self.counters.index_scans, 1);
        let TableIndex { handle, order, .. } = &self.indexes[index];
        keys.assert_state(order.len());
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        let mut scan = EntryScan::default();
        let mut walk = None;
        match keys.one_range(&mut lower, &mut upper) {
            _ if keys.is_empty() => {}
            Some(_) if keys.is_one_key(order.len()) => {
                scan.leaves.look_up(handle, &lower, direction);
            }
            Some(range) => scan.leaves.start(handle, &range, direction),
            None => {
                scan.leaves.start_ranges(handle, direction);
                walk = Some(WalkState::default());
            }
        }
        IndexScan::new(index, scan, keys, walk)
    }

    /// Begins a scan as [`Table::index_scan_keys`] does, for an index that covers the columns the
    /// scan needs ([`Table::covers`]). Rows are read from the entries. The heap decides about their
    /// visibility where the visibility map does not.
    pub fn index_only_scan(&self, index: usize, keys: ScanKeys, direction: Direction) -> IndexScan {
        let mut scan = self.index_scan_keys(index, keys, direction);
        scan.scan.covered = true;
        scan
    }
}

impl IndexScan {
    fn new(index: usize, scan: EntryScan, keys: ScanKeys, walk: Option<WalkState>) -> Self {
        debug_assert!(walk.is_none() || keys.bounding > 0, "one range needs no walk");
        debug_assert!(!scan.covered, "a scan is index-only from the start on");
        Self {
            index,
            scan,
            keys,
            walk,
            position: 0,
            unseen: Vec::new(),
            heap_fetches: 0,
            shows: PagesToShow::default(),
        }
    }

    /// Returns the number of rows that an index-only scan had to look up in the heap.
    pub fn heap_fetches(&self) -> u64 {
        self.heap_fetches
    }

    /// Returns the entries of the leaf read last.
    pub(crate) fn batch(&self) -> &LeafBatch {
        self.scan.leaves.batch()
    }

    /// Returns an entry of that leaf, if it has a wanted key.
    pub(crate) fn wanted(&self, table: &Table, position: usize) -> Result<Option<BatchEntry<'_>>> {
        let Some(entry) = self.scan.leaves.batch().get(position) else { return Ok(None) };
        let order = &table.indexes[self.index].order;
        let wanted = self.keys.compares(entry.key, order).ok_or_else(damaged_key)?;
        Ok(wanted.then_some(entry))
    }

    /// Writes the `needed` columns of the next row that the snapshot sees into `out` (as wide as
    /// the table). Returns the row's address; `None` at the end. Each row comes once.
    ///
    /// # Errors
    /// Storage's; the session's interrupts; [`crate::Error::Type`] (XX001) when a row or a key is
    /// damaged.
    pub fn next(
        &mut self,
        table: &Table,
        tx: &Transaction,
        snapshot: &Snapshot,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<Option<Tid>> {
        let view = tx.view(snapshot);
        debug_assert!(self.position <= self.batch().len(), "the position is behind its leaf");
        debug_assert!(self.scan.covered || self.heap_fetches == 0, "each row is in the heap");
        // Ends: when the keys are exhausted.
        loop {
            while self.position < self.scan.leaves.batch().len() {
                let position = self.position;
                self.position += 1;
                if self.wanted(table, position)?.is_none() {
                    continue;
                }
                let entries = self.scan.entries(table, self.index);
                let unseen = &mut self.unseen;
                let found = if self.scan.covered {
                    let before = self.heap_fetches;
                    let fetches = &mut self.heap_fetches;
                    let found =
                        entries.read_covered(&view, position, needed, out, unseen, fetches)?;
                    if self.heap_fetches > before
                        && let Some(root) = found
                        && self.shows.blocks.last() != Some(&root.block)
                    {
                        self.shows.blocks.push(root.block);
                    }
                    found
                } else {
                    entries.read(&view, position, needed, out, unseen)?
                };
                if let Some(root) = found {
                    count(&table.counters.index_rows, 1);
                    return Ok(Some(root));
                }
            }
            let entries = self.scan.entries(table, self.index);
            entries.mark(&mut self.unseen)?;
            debug_assert!(self.unseen.is_empty(), "an entry of the leaf was not judged");
            if !self.shows.blocks.is_empty() {
                self.set_all_visible(table)?;
            }
            self.position = 0;
            tx.session().check_interrupts().map_err(|why| Error::Transaction(why.into()))?;
            if !self.next_leaf(table, Some(snapshot.csn()))? {
                return Ok(None);
            }
        }
    }

    /// Tries to set the all-visible bits of the pages that the leaf's entries led to.
    #[cold]
    fn set_all_visible(&mut self, table: &Table) -> Result<()> {
        debug_assert!(self.scan.covered, "only an index-only scan asks for bits of the map");
        debug_assert!(self.heap_fetches > 0, "pages were visited for no row");
        let PagesToShow { blocks, in_vain } = &mut self.shows;
        if self.heap_fetches >= FETCHES_MIN && *in_vain < IN_VAIN_MAX {
            blocks.sort_unstable();
            blocks.dedup();
            let horizon = table.engine.transactions().horizon();
            for block in blocks.iter() {
                *in_vain = if table.heap().set_all_visible(block.0, &horizon)? {
                    in_vain.saturating_sub(1)
                } else {
                    *in_vain + 1
                };
            }
        }
        blocks.clear();
        Ok(())
    }

    /// Marks the entries found dead on the current leaf. For callers that may not come back: a scan
    /// that takes the first row of a queue never gets to the end of the leaf.
    ///
    /// # Errors
    /// As [`IndexScan::next`].
    pub fn pause(&mut self, table: &Table) -> Result<()> {
        let entries = self.scan.entries(table, self.index);
        // The entries stay noted: a posting list is marked as a whole, once all of it was read.
        entries.mark(&mut self.unseen.clone())
    }

    /// Reads on to the next leaf with entries in the bounding ranges; returns false at the end.
    /// With a `snapshot`, expired prefixes are left out.
    pub(crate) fn next_leaf(&mut self, table: &Table, snapshot: Option<Csn>) -> Result<bool> {
        let Some(state) = &mut self.walk else {
            return self.scan.next(table, self.index, None::<&mut OneRange>, snapshot);
        };
        let order = &table.indexes[self.index].order;
        let direction = self.scan.leaves.direction();
        let mut walk = KeyWalk { keys: &self.keys, order, direction, state };
        self.scan.next(table, self.index, Some(&mut walk), snapshot)
    }
}

#[cold]
fn damaged_key() -> Error {
    Error::Type(TypeError::corrupt("an index entry's key is not one of its columns"))
}
