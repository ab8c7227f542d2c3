//! The fate of files later in the log, collected by the first reading, before redo.
//!
//! Changes to a page that a later record cuts off are never read after recovery. The same holds for
//! a file that a later record drops, and for a file whose creator has no commit in the log. So redo
//! needs no room for them: a disk that an index build has filled still lets the directory open.

use std::collections::BTreeMap;

use niwaki_env::hash::HashMap;

use crate::ids::{FIRST_FILE, Fork, Lsn, PageId, RelFileId, Xid};

/// A position behind every record: the creator of the file never commits.
const NEVER_COMMITTED: Lsn = Lsn(u64::MAX);

/// The state of a transaction that created a file, as far as the log was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Creator {
    /// The transaction ended before the redo position: the table of files has its file, and no
    /// record names it.
    Ended,
    /// The transaction was open at the redo position or began behind it, and no record commits it.
    Open,
    /// A record commits the transaction.
    Committed,
}

/// Truncations of one fork in the order of the log, with the number of blocks that stay. A
/// truncation counts only until a later one leaves fewer blocks, so the block numbers ascend.
type Truncations = Vec<(Lsn, u32)>;

/// Finds the files that are not read after recovery. The caller reports records in the order of the
/// log.
#[derive(Debug, Default)]
pub struct LogAnalysis {
    truncations: HashMap<(RelFileId, Fork), Truncations>,
    /// The last record that drops a file.
    dropped: BTreeMap<RelFileId, Lsn>,
    /// The creator of each file that was not dropped.
    creators: HashMap<RelFileId, Xid>,
    transactions: HashMap<Xid, Creator>,
}

impl LogAnalysis {
    /// Begins with the files that existed at the redo position, and the creator of each.
    pub(crate) fn new(known: impl Iterator<Item = (RelFileId, Xid)>) -> Self {
        let mut analysis = Self::default();
        for (file, creator) in known {
            analysis.note_creator(file, creator, Creator::Ended);
        }
        analysis
    }

    /// Notes the creator of a file. Files with a fixed role are left out, because their creator
    /// uses the file that an earlier attempt left.
    fn note_creator(&mut self, file: RelFileId, creator: Xid, state: Creator) {
        if file >= FIRST_FILE {
            self.creators.insert(file, creator);
            self.transactions.entry(creator).or_insert(state);
        }
    }

    /// Notes a record of `creator` that creates the file.
    pub(crate) fn created(&mut self, file: RelFileId, creator: Xid) {
        self.note_creator(file, creator, Creator::Open);
        // The creator may have created another file before the redo position.
        if self.transactions.get(&creator) == Some(&Creator::Ended) {
            self.transactions.insert(creator, Creator::Open);
        }
    }

    /// Notes a truncation of the fork to `blocks`, in the record that ends at `at`.
    pub(crate) fn truncated(&mut self, file: RelFileId, fork: Fork, blocks: u32, at: Lsn) {
        let truncations = self.truncations.entry((file, fork)).or_default();
        truncations.retain(|(_, stay)| *stay < blocks);
        debug_assert!(
            truncations.last().is_none_or(|(before, _)| *before < at),
            "{at} is out of order"
        );
        debug_assert!(truncations.is_sorted_by_key(|(_, stay)| *stay), "cuts that no longer count");
        truncations.push((at, blocks));
    }

    /// Notes that the record that ends at `at` drops the file.
    pub fn dropped(&mut self, file: RelFileId, at: Lsn) {
        let before = self.dropped.insert(file, at);
        debug_assert!(before.is_none_or(|before| before <= at), "{at} is out of order");
        self.creators.remove(&file);
    }

    /// Notes a record that commits the transaction or subtransaction.
    pub fn committed(&mut self, xid: Xid) {
        if let Some(state) = self.transactions.get_mut(&xid) {
            *state = Creator::Committed;
        }
    }

    /// Notes the transactions that a checkpoint found running. Such a transaction may have its
    /// commit record before this one, if it committed beside the checkpoint.
    pub fn found_running(&mut self, is_running: impl Fn(Xid) -> bool) {
        for (xid, state) in &mut self.transactions {
            if *state == Creator::Ended && is_running(*xid) {
                *state = Creator::Open;
            }
        }
    }

    /// Returns the files and pages that disappear, once the whole log has been read. Without a
    /// manager that reads commits (`commits_are_read` is false), no creator counts as failed.
    pub(crate) fn removals(self, commits_are_read: bool) -> Removals {
        let mut files = self.dropped;
        for (file, creator) in self.creators {
            let is_open = self.transactions.get(&creator) == Some(&Creator::Open);
            if is_open && creator.is_normal() && commits_are_read {
                files.insert(file, NEVER_COMMITTED);
            }
        }
        Removals { files, truncations: self.truncations }
    }
}

/// Files and pages that disappear, with the position of the record that removes them.
#[derive(Debug)]
pub(crate) struct Removals {
    files: BTreeMap<RelFileId, Lsn>,
    truncations: HashMap<(RelFileId, Fork), Truncations>,
}

impl Removals {
    /// Returns whether the file disappears behind the record that ends at `at`.
    pub(crate) fn has_file(&self, file: RelFileId, at: Lsn) -> bool {
        self.files.get(&file).is_some_and(|end| at < *end)
    }

    /// Returns whether a truncation behind the record that ends at `at` removes the page.
    pub(crate) fn is_truncated(&self, id: PageId, at: Lsn) -> bool {
        self.truncations.get(&(id.file, id.fork)).is_some_and(|truncations| {
            let next = truncations.partition_point(|(cut, _)| *cut <= at);
            truncations.get(next).is_some_and(|(_, stay)| *stay <= id.block.0)
        })
    }

    /// Returns whether the creator of the file never commits.
    pub(crate) fn is_uncommitted(&self, file: RelFileId) -> bool {
        self.files.get(&file) == Some(&NEVER_COMMITTED)
    }

    /// Returns the files whose creators never commit.
    pub(crate) fn uncommitted(&self) -> impl Iterator<Item = RelFileId> {
        let uncommitted = self.files.iter().filter(|(_, end)| **end == NEVER_COMMITTED);
        uncommitted.map(|(file, _)| *file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BlockNumber;

    const FILES: [RelFileId; 3] = [RelFileId(16), RelFileId(17), RelFileId(18)];
    const CREATOR: Xid = Xid(7);
    const OTHER: Xid = Xid(8);

    fn removals(analysis: LogAnalysis) -> Vec<(RelFileId, Lsn)> {
        analysis.removals(true).files.into_iter().collect()
    }

    fn of_the_table() -> LogAnalysis {
        LogAnalysis::new(FILES.into_iter().zip([CREATOR, OTHER, Xid::INVALID]))
    }

    #[test]
    fn a_file_goes_unless_its_creator_commits() {
        let mut analysis = LogAnalysis::default();
        analysis.created(FILES[0], CREATOR);
        analysis.created(FILES[1], OTHER);
        analysis.created(FILES[2], Xid::INVALID);
        analysis.committed(OTHER);
        assert_eq!(removals(analysis), [(FILES[0], NEVER_COMMITTED)]);
    }

    #[test]
    fn without_a_manager_of_commits_every_file_stays() {
        let mut analysis = LogAnalysis::default();
        analysis.created(FILES[0], CREATOR);
        assert!(analysis.removals(false).files.is_empty());
    }

    /// The creator of a file in the table ended before the redo position, if no checkpoint found it
    /// running. If a checkpoint did, a commit counts both before and after the checkpoint's record.
    #[test]
    fn a_file_of_the_table_goes_if_its_creator_was_running() {
        assert_eq!(removals(of_the_table()), []);
        let is_running = |xid: Xid| xid == CREATOR;
        let mut analysis = of_the_table();
        analysis.found_running(is_running);
        assert_eq!(removals(analysis), [(FILES[0], NEVER_COMMITTED)]);
        for is_first in [true, false] {
            let mut analysis = of_the_table();
            if is_first {
                analysis.committed(CREATOR);
            }
            analysis.found_running(is_running);
            analysis.committed(CREATOR);
            assert_eq!(removals(analysis), []);
        }
        // The creator makes another file behind the redo position.
        let mut analysis = LogAnalysis::new([(FILES[0], CREATOR)].into_iter());
        analysis.created(FILES[1], CREATOR);
        let both = [(FILES[0], NEVER_COMMITTED), (FILES[1], NEVER_COMMITTED)];
        assert_eq!(removals(analysis), both);
    }

    /// A file number is given again if the log lost the record of its first use.
    #[test]
    fn records_up_to_the_last_drop_go_and_a_file_created_behind_it_stays() {
        let mut analysis = of_the_table();
        analysis.dropped(FILES[0], Lsn(100));
        analysis.dropped(FILES[0], Lsn(200));
        analysis.created(FILES[0], OTHER);
        analysis.committed(OTHER);
        assert_eq!(removals(analysis), [(FILES[0], Lsn(200))]);
    }

    #[test]
    fn a_page_goes_by_the_next_cut_that_leaves_fewer_blocks() {
        let mut analysis = LogAnalysis::default();
        for (at, blocks) in [(100, 8), (200, 2), (300, 4)] {
            analysis.truncated(FILES[0], Fork::Main, blocks, Lsn(at));
        }
        let removals = analysis.removals(true);
        let goes = |fork, block, at| {
            let id = PageId { file: FILES[0], fork, block: BlockNumber(block) };
            removals.is_truncated(id, Lsn(at))
        };
        for (at, stay) in [(50, 2), (100, 2), (199, 2), (200, 4), (299, 4)] {
            assert!(goes(Fork::Main, stay, at) && !goes(Fork::Main, stay - 1, at), "{at}");
        }
        assert!(!goes(Fork::Main, 100, 300) && !goes(Fork::Visibility, 100, 50));
    }

    #[test]
    fn a_file_with_a_fixed_role_stays() {
        let mut analysis = LogAnalysis::default();
        analysis.created(RelFileId(2), CREATOR);
        assert_eq!(removals(analysis), []);
    }
}
