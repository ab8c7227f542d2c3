//! What becomes of files later in the log, told by the first reading, before redo.
//!
//! Nobody reads what a record did to a file that a later record drops. Nor does anybody read a file
//! whose creator has no commit in the log. Redo passes over such records, so it needs no room for
//! them: a disk that an index build has filled still lets the directory open.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::ids::{Lsn, RelFileId, Xid};
use crate::storage::FIRST_FILE;

/// Stands behind every record: the creator of the file never commits.
pub(crate) const NEVER_COMMITTED: Lsn = Lsn(u64::MAX);

/// What the log says so far of a transaction that created a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Creator {
    /// It ended before the redo position: the table of files has its file, and no record names it.
    Ended,
    /// It was open at the redo position or began behind it, and no record commits it.
    Open,
    /// A record commits it.
    Committed,
}

/// Which files nobody reads after recovery. Records are told in the order of the log.
#[derive(Debug, Default)]
pub struct Foresight {
    /// The last record that drops a file.
    dropped: BTreeMap<RelFileId, Lsn>,
    /// The creator of each file that was not dropped.
    creators: HashMap<RelFileId, Xid>,
    transactions: HashMap<Xid, Creator>,
}

impl Foresight {
    /// Begins with the files that there were at the redo position, and who created each.
    pub(crate) fn new(known: impl Iterator<Item = (RelFileId, Xid)>) -> Self {
        let mut foresight = Self::default();
        for (file, creator) in known {
            foresight.note_creator(file, creator, Creator::Ended);
        }
        foresight
    }

    /// Files with a fixed role stay: the start that follows an attempt to make them uses what is there.
    fn note_creator(&mut self, file: RelFileId, creator: Xid, state: Creator) {
        if file >= FIRST_FILE {
            self.creators.insert(file, creator);
            self.transactions.entry(creator).or_insert(state);
        }
    }

    /// A record of `creator` creates the file.
    pub(crate) fn created(&mut self, file: RelFileId, creator: Xid) {
        self.note_creator(file, creator, Creator::Open);
        // It may have created another file before the redo position.
        if self.transactions.get(&creator) == Some(&Creator::Ended) {
            self.transactions.insert(creator, Creator::Open);
        }
    }

    /// The record that ends at `at` drops the file.
    pub fn dropped(&mut self, file: RelFileId, at: Lsn) {
        self.dropped.insert(file, at);
        self.creators.remove(&file);
    }

    /// A record commits the transaction or subtransaction.
    pub fn committed(&mut self, xid: Xid) {
        if let Some(state) = self.transactions.get_mut(&xid) {
            *state = Creator::Committed;
        }
    }

    /// A checkpoint says which transactions it found running. A commit beside the checkpoint may have
    /// its record in front of this one.
    pub fn found_running(&mut self, is_running: impl Fn(Xid) -> bool) {
        for (xid, state) in &mut self.transactions {
            if *state == Creator::Ended && is_running(*xid) {
                *state = Creator::Open;
            }
        }
    }

    /// For each file that goes, the position before which its records need no redo. Where no manager
    /// reads commits (`commits_are_read`), nothing tells that a creator failed.
    pub(crate) fn ends(self, commits_are_read: bool) -> BTreeMap<RelFileId, Lsn> {
        let mut ends = self.dropped;
        for (file, creator) in self.creators {
            let is_open = self.transactions.get(&creator) == Some(&Creator::Open);
            if is_open && creator.is_normal() && commits_are_read {
                ends.insert(file, NEVER_COMMITTED);
            }
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [RelFileId; 3] = [RelFileId(16), RelFileId(17), RelFileId(18)];
    const CREATOR: Xid = Xid(7);
    const OTHER: Xid = Xid(8);

    fn ends(foresight: Foresight) -> Vec<(RelFileId, Lsn)> {
        foresight.ends(true).into_iter().collect()
    }

    fn of_the_table() -> Foresight {
        Foresight::new(FILES.into_iter().zip([CREATOR, OTHER, Xid::INVALID]))
    }

    #[test]
    fn a_file_goes_unless_its_creator_commits() {
        let mut foresight = Foresight::default();
        foresight.created(FILES[0], CREATOR);
        foresight.created(FILES[1], OTHER);
        foresight.created(FILES[2], Xid::INVALID);
        foresight.committed(OTHER);
        assert_eq!(ends(foresight), [(FILES[0], NEVER_COMMITTED)]);
    }

    #[test]
    fn without_a_manager_of_commits_every_file_stays() {
        let mut foresight = Foresight::default();
        foresight.created(FILES[0], CREATOR);
        assert!(foresight.ends(false).is_empty());
    }

    /// The creator of a file of the table ended before the redo position, if no checkpoint found it
    /// running; if one did, its commit counts on either side of what the checkpoint says.
    #[test]
    fn a_file_of_the_table_goes_if_its_creator_was_running() {
        assert_eq!(ends(of_the_table()), []);
        let is_running = |xid: Xid| xid == CREATOR;
        let mut foresight = of_the_table();
        foresight.found_running(is_running);
        assert_eq!(ends(foresight), [(FILES[0], NEVER_COMMITTED)]);
        for is_first in [true, false] {
            let mut foresight = of_the_table();
            if is_first {
                foresight.committed(CREATOR);
            }
            foresight.found_running(is_running);
            foresight.committed(CREATOR);
            assert_eq!(ends(foresight), []);
        }
        // It creates another one behind the redo position.
        let mut foresight = Foresight::new([(FILES[0], CREATOR)].into_iter());
        foresight.created(FILES[1], CREATOR);
        let both = [(FILES[0], NEVER_COMMITTED), (FILES[1], NEVER_COMMITTED)];
        assert_eq!(ends(foresight), both);
    }

    /// A number is given again if the log lost the record of its first use.
    #[test]
    fn records_up_to_the_last_drop_go_and_a_file_created_behind_it_stays() {
        let mut foresight = of_the_table();
        foresight.dropped(FILES[0], Lsn(100));
        foresight.dropped(FILES[0], Lsn(200));
        foresight.created(FILES[0], OTHER);
        foresight.committed(OTHER);
        assert_eq!(ends(foresight), [(FILES[0], Lsn(200))]);
    }

    #[test]
    fn a_file_with_a_fixed_role_stays() {
        let mut foresight = Foresight::default();
        foresight.created(RelFileId(2), CREATOR);
        assert_eq!(ends(foresight), []);
    }
}
