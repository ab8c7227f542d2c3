//! Superfluous index entries, counted in one walk over an index.
//!
//! An entry of a mixed root (a root with several keys) is **stale** when no version of its chain
//! has its key. The row once had that key, and the gardener or vacuum has yet to remove the entry.
//! An entry whose root has no version at all is **dead**. Entries marked LP_DEAD are skipped, as in
//! every scan: they go when their leaf runs full.
//!
//! Each entry costs a visit to its row's heap page. No latch is held from one entry to the next,
//! and no other session is blocked, so the numbers are of no one moment. An entry of a row under
//! update may be counted as stale a moment before its version appears. In a table that stands still
//! this never happens.

use niwaki_env::hash::HashMap;
use niwaki_heap::UnmixCount;
use niwaki_nbtree::{Direction, KeyRange, OneRange, Scan};
use niwaki_storage::Tid;

use crate::entry::recheck::{Entry, Seen};
use crate::error::{Error, Result};
use crate::relation::table::Table;

/// Counts of a walk so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleEntries {
    /// Entries visited.
    pub entries: u64,
    /// Visited entries with a key that no version of their chain has.
    pub stale: u64,
    /// Visited entries that name a root without any version.
    pub dead: u64,
    /// Stale entries by root, for roots that have some. Bounded by the mixed roots of the table.
    pub by_root: HashMap<Tid, u64>,
}

/// A walk over one index that counts superfluous entries.
#[derive(Debug)]
pub struct StaleScan<'t> {
    table: &'t Table,
    index: usize,
    leaves: Scan,
    found: StaleEntries,
}

/// The relation of an entry to its chain.
enum Use {
    Needed,
    Stale,
    Dead,
}

impl Table {
    /// Begins a walk over an index. Reads nothing yet.
    pub fn stale_scan(&self, index: usize) -> StaleScan<'_> {
        let mut leaves = Scan::default();
        leaves.start(&self.indexes[index].handle, &KeyRange::ALL, Direction::Forward);
        StaleScan { table: self, index, leaves, found: StaleEntries::default() }
    }
}

impl StaleScan<'_> {
    /// Goes on by one leaf; returns false at the end. Entries whose expression fails on an old
    /// version are not counted as stale.
    ///
    /// # Errors
    /// Storage's.
    pub fn next_leaf(&mut self) -> Result<bool> {
        let Self { table, index, leaves, found } = self;
        let handle = &table.indexes[*index].handle;
        let mut noted = UnmixCount::default();
        // Under the leaf's latch (rule `unmix-counter`).
        if !leaves
            .next_with(handle, None::<&mut OneRange>, |_| noted = table.heap().unmix_count())?
        {
            return Ok(false);
        }
        for entry in leaves.batch().iter() {
            let seen = Seen::At(noted);
            let entry = Entry { index: *index, key: entry.key, root: entry.tid, seen };
            found.entries += 1;
            match table.use_of(entry)? {
                Use::Needed => {}
                Use::Stale => {
                    found.stale += 1;
                    *found.by_root.entry(entry.root).or_default() += 1;
                }
                Use::Dead => found.dead += 1,
            }
        }
        debug_assert!(found.stale + found.dead <= found.entries, "an entry was counted twice");
        debug_assert!(found.by_root.len() as u64 <= found.stale, "a root without a stale entry");
        Ok(true)
    }

    /// Returns the counts.
    pub fn found(self) -> StaleEntries {
        self.found
    }
}

impl Table {
    fn use_of(&self, entry: Entry<'_>) -> Result<Use> {
        let asked = self.decide(entry, |has_key| {
            let probe = self.heap().probe_dead(entry.root.block.0)?;
            let mut versions = 0;
            let needed = probe.versions(entry.root).any(|version| {
                versions += 1;
                has_key(version)
            });
            Ok(match (needed, versions) {
                (true, _) => Use::Needed,
                (false, 0) => Use::Dead,
                (false, _) => Use::Stale,
            })
        });
        match asked {
            Err(Error::Expression(_)) => Ok(Use::Needed),
            other => other,
        }
    }
}
