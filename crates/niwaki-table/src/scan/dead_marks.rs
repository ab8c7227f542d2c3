//! LP_DEAD marks on index entries whose rows are dead to all snapshots.
//!
//! A leaf that holds only such entries is emptied.

use niwaki_nbtree::{EntryPlace, LeafRead};
use niwaki_storage::Error as StorageError;

use crate::entry::dead_entries::DeadEntries;
use crate::error::Result;
use crate::relation::table::Table;

impl Table {
    /// Marks entries of a leaf LP_DEAD, if the leaf is unchanged since it was read. When the last
    /// entry gets its mark, also empties the leaf, so that pages a queue leaves behind are used
    /// again. Waits for no transaction. Sorts `places`.
    ///
    /// # Errors
    /// Storage's errors, except a full disk: statements that must write report that one.
    pub(crate) fn mark_dead(
        &self,
        index: usize,
        leaf: LeafRead,
        places: &mut [EntryPlace],
    ) -> Result<()> {
        debug_assert!(!places.is_empty(), "no entry of the leaf is dead");
        let handle = &self.indexes[index].handle;
        if !handle.mark_dead_places(leaf, places).whole_leaf {
            return Ok(());
        }
        match handle.empty_dead_leaf(leaf, &DeadEntries::new(self, index)) {
            Err(niwaki_nbtree::Error::Storage(StorageError::DiskFull { .. })) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}
