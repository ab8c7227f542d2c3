//! Empties a leaf whose entries are all dead, so that it leaves the tree.
//!
//! A queue table is filled at one end and emptied at the other. No insertion comes to the leaves at
//! the emptied end, so simple deletion does not make room there (`simple_delete.rs`). But scans
//! mark the entries that they find dead, and one scan marks the last entry of such a leaf. That
//! scan then asks the table about all entries, and gives the page back for the next split.
//!
//! A mark is a hint (rule `dead-marks`). An entry goes only if the table allows it now, under the
//! leaf's exclusive latch (rule `one-hold`). The removal is logged with the interval of the removed
//! versions, so that a standby knows which queries still could see them. Entries that the table
//! keeps stay marked; simple deletion or vacuum asks again. Exactly one scan marks the last entry
//! of a leaf version, so a leaf is tried once.
//!
//! The last leaf of the tree is left to simple deletion. It cannot go, and insertions come to it.
//! In a queue that runs empty again and again, each row would cost a record.
//!
//! Source: docs/internals/design.md, "Empty and sparse pages".

use niwaki_env::seeded_bug;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::{BlockNumber, Xid};

use crate::error::Result;
use crate::memory::stats::count;
use crate::page::change;
use crate::page::entry::EntryPlace;
use crate::page::layout::IndexPage;
use crate::room::visits::{Deletion, Visits};
use crate::scan::batch::{LeafRead, LeafVersion};
use crate::table::{DeletionOracle, RemovedInterval, union};
use crate::tree::index::Index;

/// The table's answer about all entries of a leaf.
enum Answer {
    /// These entries may go, ascending.
    Gone(Vec<EntryPlace>, RemovedInterval),
    /// These heap blocks must be read into memory first.
    ReadIn(Vec<BlockNumber>),
}

impl Index {
    /// Removes the entries of a leaf as far as the table allows; all of them are marked LP_DEAD.
    /// Deletes the leaf if it is empty then. Does nothing unless the leaf still is as it was when
    /// it was read. Waits for latches only. Returns the number of removed entries.
    ///
    /// # Errors
    /// The error of `oracle`, and storage's. No entry was removed then, unless the leaf was left
    /// empty and the deletion of its page failed. The next pass of vacuum deletes such a page.
    pub fn empty_dead_leaf(&self, read: LeafRead, oracle: &dyn DeletionOracle) -> Result<usize> {
        let mut deletion = Deletion { oracle, read_ins: 1 };
        // Ends: heap blocks are read in once.
        loop {
            let Some(pin) = self.pin_if_resident(read.block) else { return Ok(0) };
            let mut leaf = pin.into_write();
            // With another version, the block may even be a deleted or an inner page.
            if LeafVersion(leaf.version()) != read.version || leaf.is_rightmost() {
                return Ok(0);
            }
            if !(leaf.first_entry()..=leaf.item_count()).all(|item| change::is_dead(&leaf, item)) {
                return Ok(0);
            }
            let (gone, removes) = match self.ask_about_all(&leaf, &deletion)? {
                Answer::Gone(gone, removes) => (gone, removes),
                Answer::ReadIn(blocks) => {
                    drop(leaf);
                    debug_assert!(deletion.read_ins > 0, "no further read was allowed");
                    deletion.read_ins -= 1;
                    blocks.into_iter().try_for_each(|block| oracle.read_in(block))?;
                    continue;
                }
            };
            count(&self.counters.dead_leaves, 1);
            if gone.is_empty() {
                return Ok(0);
            }
            self.delete_entries(&mut leaf, &gone, Xid::INVALID, removes)?;
            count(&self.counters.dead_leaf_entries, gone.len() as u64);
            if leaf.entry_count() == 0 {
                self.expect_level(&leaf, read.block, 0)?;
                self.delete_page(leaf)?;
            }
            return Ok(gone.len());
        }
    }

    fn ask_about_all(&self, leaf: &PageWrite<'_>, deletion: &Deletion<'_>) -> Result<Answer> {
        let by_block = self.by_block(leaf, leaf.id().block)?;
        let mut visits = Visits::all(&by_block, |_| true);
        if seeded_bug!("marks_are_believed") {
            let all = visits.list.iter_mut().flat_map(|visit| &mut visit.candidates);
            all.for_each(|candidate| candidate.deletable = candidate.known_dead);
            return Ok(Answer::Gone(visits.judged_deletable(), None));
        }
        deletion.oracle.begin();
        if let Some(absent) = deletion.absent(&visits.list) {
            return Ok(Answer::ReadIn(absent));
        }
        let mut removes = None;
        for visit in &mut visits.list {
            debug_assert!(
                visit.candidates.iter().all(|candidate| candidate.known_dead),
                "all entries of the leaf are marked"
            );
            removes = union(removes, visit.judge(deletion.oracle)?);
        }
        Ok(Answer::Gone(visits.judged_deletable(), removes))
    }
}
