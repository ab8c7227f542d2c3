//! The gardener: takes away index entries whose versions pruning removed (design sections 5 and 8).
//!
//! ```text
//!  pruning (under the page's latch)      the next writers of the table (no latch)
//!  version a of a mixed root goes ────►  its keys, index by index
//!                                        does a version of the chain still have the key?  yes ─► done
//!                                        down to (key, root), exclusive latch of the leaf
//!                                        does a version have it now?  no ─► the entry goes, logged
//! ```
//!
//! An update on its page that changes one key of six leaves one entry behind, in one index. When its old version
//! is pruned, five keys are found in the chain again, and the sixth is looked up: one descent for each entry that
//! went stale. So an index whose keys change keeps its size without any pass over it.
//!
//! Why it deletes no entry that somebody needs (X1): what counts is the second look, under the exclusive latch
//! of the leaf (rule 9b.10). Whoever gives the root a version with the key again writes the version first and
//! comes to the leaf then: either the look finds the version, or the entry is inserted anew behind the
//! deletion. The root may be another row's by now; then the look is at that row's versions, which is as good.
//!
//! It is the writers who do it, each a batch when one has gathered: they hold the table's lock and know its
//! indexes, and what is left behind cannot outrun them. A root that has a record of all its removed versions, each
//! seen to in every index, is settled: the next pass over its page clears `mixed`, or frees the line pointer of a row
//! that is gone (rule 9b.8; the argument is in niwaki-heap's `records.rs`). Where something was missed (a full
//! queue, a crash, an expression that fails by now) it stays for vacuum, which visits all entries.

use niwaki_env::failpoints::SIMULATED;
use niwaki_env::seeded_bug;
use niwaki_heap::{Deadness, RemovedVersion, VersionRow};
use niwaki_nbtree::EntryDecision;
use niwaki_storage::{Tid, Xid};
use niwaki_txn::Horizon;
use niwaki_types::{ColumnMask, Datum, RowView};

use crate::error::{Error, Result};
use crate::recheck::{Entry, Seen};
use crate::row_key::{HasKey, KeyMemo};
use crate::stats::count;
use crate::table::Table;
use crate::unique::storage;

/// So many removed versions are waited for, and so many are seen to at once: an update leaves about one.
const BATCH: usize = if SIMULATED { 1 } else { 16 };
const BATCH_MAX: usize = 64;

impl Table {
    /// Sees to the entries of versions that were pruned, once a batch of them waits, and to the pieces of large values that
    /// nobody sees any more. Called by those who changed
    /// the table, whose lock on it excludes other definitions, with no latch held.
    ///
    /// # Errors
    /// Storage's.
    #[inline]
    pub(crate) fn tend(&self) -> Result<()> {
        if self.heap().removed_waiting() >= BATCH {
            self.tend_now()?;
        }
        // After the entries: their keys may be made of values whose pieces go here.
        self.tend_values()
    }

    #[cold]
    fn tend_now(&self) -> Result<()> {
        let removed = self.heap().take_removed(BATCH_MAX);
        let horizon = self.engine.transactions().horizon();
        let columns = self.indexes.iter().flat_map(|index| index.key_mask.iter());
        let columns: ColumnMask = columns.collect();
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let mut key = Vec::new();
        let mut deleted = 0;
        let payloads_right = self.indexes.iter().all(|index| index.definition.include.is_empty());
        for RemovedVersion { root, record, row: version } in removed {
            if !self.has_block(root)? {
                continue;
            }
            let mut missed = false;
            if let Some(record) = record.filter(|_| seeded_bug!("seen-early")) {
                self.heap().seen_to(root, record, payloads_right);
            }
            let kept = self.keys_kept(root, &version, &columns)?;
            for index in 0..self.indexes.len() {
                // The build sees to what it makes.
                if !self.indexes[index].definition.valid {
                    missed = true;
                    continue;
                }
                if kept.contains(index) {
                    continue;
                }
                // Pieces of its values may be gone before it was seen to; then vacuum is asked.
                let needed = &self.indexes[index].key_mask;
                if !self.deform_past(root, &version, needed, &mut row)? {
                    missed = true;
                    continue;
                }
                key.clear();
                match self.encode_index_key(index, &row, &mut key) {
                    Ok(true) => {}
                    // No entry.
                    Ok(false) => continue,
                    // By now it fails; vacuum sees to it.
                    Err(Error::Expression(_)) => {
                        missed = true;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
                let entry = Entry { index, key: &key, root, seen: Seen::SomeTime };
                missed |= !self.delete_if_stale(entry, &horizon, &mut deleted)?;
            }
            if let Some(record) = record.filter(|_| !missed && !seeded_bug!("seen-early")) {
                self.heap().seen_to(root, record, payloads_right);
            }
        }
        count(&self.counters.gardener_deleted, deleted);
        Ok(())
    }

    /// Indexes of which a version that is on the page has the removed one's key, told by the stored bytes of
    /// their columns alone: most of them, as a rule. When that version goes, it is told in its turn, whatever it
    /// is now.
    fn keys_kept(
        &self,
        root: Tid,
        removed: &VersionRow,
        columns: &ColumnMask,
    ) -> Result<ColumnMask> {
        let mut kept = ColumnMask::none();
        let probe = self.heap().probe_dead(root.block.0)?;
        for version in probe.versions(root) {
            let of_table = &self.definition.columns;
            let (natts, nulls) = (version.natts.into(), version.has_nulls);
            let mut here = RowView::new(of_table, natts, nulls, version.bytes)?;
            let (natts, nulls) = (removed.natts.into(), removed.has_nulls);
            let mut gone = RowView::new(of_table, natts, nulls, &removed.bytes)?;
            let mut changed = ColumnMask::none();
            for column in columns.iter() {
                if here.get_stored(column)? != gone.get_stored(column)? {
                    changed.insert(column);
                }
            }
            let same = |index: &usize| {
                !self.indexes[*index].key_mask.iter().any(|column| changed.contains(column))
            };
            (0..self.indexes.len()).filter(same).for_each(|index| kept.insert(index));
        }
        Ok(kept)
    }

    /// Deletes an entry, if it is there, when no version of its chain that somebody may see has its key. False:
    /// an expression failed that would tell. Adds what it deleted to `deleted`.
    fn delete_if_stale(
        &self,
        entry: Entry<'_>,
        horizon: &Horizon,
        deleted: &mut u64,
    ) -> Result<bool> {
        let memo = KeyMemo::default();
        let mut first = None;
        if self.indexes[entry.index].computed || seeded_bug!("one-hold") {
            // What expressions tell must be known before the leaf is latched. Ends: a turn is repeated only when it
            // met a version that no turn before it met.
            loop {
                first = Some(self.judge_entry(entry, horizon, &memo)?);
                match memo.learn(self, entry.index) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(Error::Expression(_)) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        if first.is_some_and(|first| !matches!(first, Deadness::Dead { .. })) {
            return Ok(true);
        }
        let mut decide = || {
            let now = match first.filter(|_| seeded_bug!("one-hold")) {
                Some(first) => first,
                None => self.judge_entry(entry, horizon, &memo).map_err(storage)?,
            };
            Ok(match now {
                Deadness::Dead { lifetime, .. } => (EntryDecision::Delete, lifetime),
                Deadness::Alive | Deadness::Pending(_) => (EntryDecision::Keep, None),
            })
        };
        let handle = &self.indexes[entry.index].handle;
        let gone = handle.delete_entry(entry.key, entry.root, Xid::INVALID, &mut decide)?;
        *deleted += u64::from(gone);
        Ok(true)
    }

    /// What the versions of the entry's chain with its key mean. One whose key only an expression tells, and the
    /// memo does not know, counts as having it.
    fn judge_entry(
        &self,
        entry: Entry<'_>,
        horizon: &Horizon,
        memo: &KeyMemo,
    ) -> niwaki_heap::Result<Deadness> {
        let probe = self.heap().probe_dead(entry.root.block.0)?;
        Ok(probe.deadness(entry.root, horizon, |row| {
            memo.has_key(self, entry.index, row, entry.key) != HasKey::No
        }))
    }
}
