//! What becomes of files later in the log, told by the first reading, before redo.
//!
//! Nobody reads what a record did to a page that a later record cuts off, or to a file that a later
//! record drops. Nor does anybody read a file whose creator has no commit in the log. So redo needs
//! no room for them: a disk that an index build has filled still lets the directory open.

use std::collections::BTreeMap;

use niwaki_env::hash::HashMap;

use crate::ids::{Fork, Lsn, PageId, RelFileId, Xid};
use crate::storage::FIRST_FILE;

/// Stands behind every record: the creator of the file never commits.
const NEVER_COMMITTED: Lsn = Lsn(u64::MAX);

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

/// Cuts of one fork in the order of the log, and how many blocks stay. A cut counts only until a
/// later one leaves fewer, so the blocks ascend.
type Cuts = Vec<(Lsn, u32)>;

/// Which files nobody reads after recovery. Records are told in the order of the log.
#[derive(Debug, Default)]
pub struct Foresight {
    cuts: HashMap<(RelFileId, Fork), Cuts>,
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

    /// Files with a fixed role stay: who makes them uses what an earlier attempt left.
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

    /// The record that ends at `at` cuts the fork to `blocks`.
    pub(crate) fn cut(&mut self, file: RelFileId, fork: Fork, blocks: u32, at: Lsn) {
        let cuts = self.cuts.entry((file, fork)).or_default();
        cuts.retain(|(_, stay)| *stay < blocks);
        cuts.push((at, blocks));
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

    /// A checkpoint says which transactions it found running. A commit beside the checkpoint may
    /// have its record in front of this one.
    pub fn found_running(&mut self, is_running: impl Fn(Xid) -> bool) {
        for (xid, state) in &mut self.transactions {
            if *state == Creator::Ended && is_running(*xid) {
                *state = Creator::Open;
            }
        }
    }

    /// What goes, when the log has been read. Where no manager reads commits (`commits_are_read`),
    /// nothing tells that a creator failed.
    pub(crate) fn ends(self, commits_are_read: bool) -> Ends {
        let mut files = self.dropped;
        for (file, creator) in self.creators {
            let is_open = self.transactions.get(&creator) == Some(&Creator::Open);
            if is_open && creator.is_normal() && commits_are_read {
                files.insert(file, NEVER_COMMITTED);
            }
        }
        Ends { files, cuts: self.cuts }
    }
}

/// What goes, and behind which record.
#[derive(Debug)]
pub(crate) struct Ends {
    files: BTreeMap<RelFileId, Lsn>,
    cuts: HashMap<(RelFileId, Fork), Cuts>,
}

impl Ends {
    /// Whether the file goes behind the record that ends at `at`.
    pub(crate) fn has_file(&self, file: RelFileId, at: Lsn) -> bool {
        self.files.get(&file).is_some_and(|end| at < *end)
    }

    /// Whether a cut behind the record that ends at `at` takes the page.
    pub(crate) fn cut_off(&self, id: PageId, at: Lsn) -> bool {
        self.cuts.get(&(id.file, id.fork)).is_some_and(|cuts| {
            let next = cuts.partition_point(|(cut, _)| *cut <= at);
            cuts.get(next).is_some_and(|(_, stay)| *stay <= id.block.0)
        })
    }

    /// Whether the creator of the file never commits.
    pub(crate) fn is_in_vain(&self, file: RelFileId) -> bool {
        self.files.get(&file) == Some(&NEVER_COMMITTED)
    }

    /// Files whose creators never commit.
    pub(crate) fn in_vain(&self) -> impl Iterator<Item = RelFileId> {
        let in_vain = self.files.iter().filter(|(_, end)| **end == NEVER_COMMITTED);
        in_vain.map(|(file, _)| *file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BlockNumber;

    const FILES: [RelFileId; 3] = [RelFileId(16), RelFileId(17), RelFileId(18)];
    const CREATOR: Xid = Xid(7);
    const OTHER: Xid = Xid(8);

    fn ends(foresight: Foresight) -> Vec<(RelFileId, Lsn)> {
        foresight.ends(true).files.into_iter().collect()
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
        assert!(foresight.ends(false).files.is_empty());
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
    fn a_page_goes_by_the_next_cut_that_leaves_fewer_blocks() {
        let mut foresight = Foresight::default();
        for (at, blocks) in [(100, 8), (200, 2), (300, 4)] {
            foresight.cut(FILES[0], Fork::Main, blocks, Lsn(at));
        }
        let ends = foresight.ends(true);
        let goes = |fork, block, at| {
            let id = PageId { file: FILES[0], fork, block: BlockNumber(block) };
            ends.cut_off(id, Lsn(at))
        };
        for (at, stay) in [(50, 2), (100, 2), (199, 2), (200, 4), (299, 4)] {
            assert!(goes(Fork::Main, stay, at) && !goes(Fork::Main, stay - 1, at), "{at}");
        }
        assert!(!goes(Fork::Main, 100, 300) && !goes(Fork::Visibility, 100, 50));
    }

    #[test]
    fn a_file_with_a_fixed_role_stays() {
        let mut foresight = Foresight::default();
        foresight.created(RelFileId(2), CREATOR);
        assert_eq!(ends(foresight), []);
    }
}
