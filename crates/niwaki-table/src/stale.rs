//! Entries that an index could do without, counted in one walk over it.
//!
//! An entry of a mixed root is **stale** when no version of its chain has its key: it came from a key that the row had
//! once, and the gardener or vacuum has yet to take it away. One whose root has no version at all is **dead**.
//! Entries marked LP_DEAD are passed over, as every scan does: they go when their leaf runs full.
//!
//! Each entry costs a visit of its row's heap page. No latch is held from one entry to the next, nobody is kept from
//! anything, and so the numbers are of no one moment: an entry of a row that is being updated may be counted
//! as stale a moment before its version would have been there, never an entry of a table that stands still.

use niwaki_env::hash::HashMap;
use niwaki_heap::UnmixCount;
use niwaki_nbtree::{Direction, KeyRange, OneRange, Scan};
use niwaki_storage::Tid;

use crate::error::{Error, Result};
use crate::recheck::{Entry, Seen};
use crate::table::Table;

/// What a walk has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleEntries {
    /// Entries visited.
    pub entries: u64,
    /// Of those, how many have a key that no version of their chain has.
    pub stale: u64,
    /// Of those visited, how many name a root without any version.
    pub dead: u64,
    /// Stale entries by root; roots without any are not in it. Bounded by the mixed roots of the table.
    pub by_root: HashMap<Tid, u64>,
}

/// A walk over one index that looks for entries it could do without.
#[derive(Debug)]
pub struct StaleScan<'t> {
    table: &'t Table,
    index: usize,
    leaves: Scan,
    found: StaleEntries,
}

/// What an entry is to its chain.
enum Use {
    Needed,
    Stale,
    Dead,
}

impl Table {
    /// Begins a walk over an index; reads nothing yet.
    pub fn stale_scan(&self, index: usize) -> StaleScan<'_> {
        let mut leaves = Scan::default();
        leaves.start(&self.indexes[index].handle, &KeyRange::ALL, Direction::Forward);
        StaleScan { table: self, index, leaves, found: StaleEntries::default() }
    }
}

impl StaleScan<'_> {
    /// Goes on by one leaf; false at the end. Expressions that fail on a version of the past leave its
    /// entries uncounted as stale.
    ///
    /// # Errors
    /// Storage's.
    pub fn next_leaf(&mut self) -> Result<bool> {
        let Self { table, index, leaves, found } = self;
        let handle = &table.indexes[*index].handle;
        let mut noted = UnmixCount::default();
        // Under the leaf's latch (rule 9b.2).
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
        Ok(true)
    }

    /// What it found.
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
