//! Marks on entries whose rows are dead to everyone; leaves that hold nothing else.

use niwaki_nbtree::{EntryPlace, LeafRead};
use niwaki_storage::Error as StorageError;

use crate::dead_entries::DeadEntries;
use crate::error::Result;
use crate::table::Table;

impl Table {
    /// Marks entries of a leaf LP_DEAD, if it still is as it was when it was read. Who marks the last one
    /// of a leaf empties it, so that what a queue leaves behind is used again. Waits for no transaction.
    /// Sorts `places`.
    ///
    /// # Errors
    /// Storage's, except a full disk: that is for those to say who must write.
    pub(crate) fn mark_dead(
        &self,
        index: usize,
        leaf: LeafRead,
        places: &mut [EntryPlace],
    ) -> Result<()> {
        let handle = &self.indexes[index].handle;
        if !handle.mark_dead_places(leaf, places)?.whole_leaf {
            return Ok(());
        }
        match handle.empty_dead_leaf(leaf, &DeadEntries::new(self, index)) {
            Err(niwaki_nbtree::Error::Storage(StorageError::DiskFull { .. })) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}
