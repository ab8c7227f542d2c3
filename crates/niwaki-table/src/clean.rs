//! Cleaning: what a pass over an index does with the entries of roots that vacuum is about.
//!
//! ```text
//! root is                      entry                               what happens to it
//! DEAD                         any                                 it goes
//! mixed, has versions          its key is no version's             it goes
//!                              its key is a version's              it stays, with that version's payload
//! ```
//!
//! It is decided under one exclusive hold of the leaf (rule 9b.10). A version that is there keeps entries with
//! its key, removable or not: what goes was pruned before, and the log has its interval. Heap blocks that are
//! not in memory, and keys that only expressions tell, are read in and evaluated when the leaf was let
//! go (rule 9b.16); then the page is visited again.

use std::collections::BTreeSet;

use niwaki_env::seeded_bug;
use niwaki_heap::{DeadProbe, VacuumRoots};
use niwaki_nbtree::{BatchEntry, EntryDecision, EntryVisitor, NextVisit, VacuumSummary};
use niwaki_storage::{ReadAhead, Tid};

use crate::error::{Error, Result};
use crate::row_key::{HasKey, KeyMemo};
use crate::table::Table;

/// How often a page is visited again before what is still undecided on it is left for another vacuum.
const VISITS_MAX: u32 = 8;
/// From this visit on heap blocks are read in under the leaf's latch: they were evicted again.
const INSISTS: u32 = 2;

impl Table {
    /// Visits every entry of an index for `roots`. Adds to `unclean` those of the mixed ones of which it may
    /// have left an entry that is not right: `mixed` must stay with them. `rest` is called between
    /// pages, as [`EntryVisitor::between_pages`] is.
    ///
    /// # Errors
    /// Storage's, and that of `rest`; what was deleted until then stays deleted.
    pub fn clean_index(
        &self,
        index: usize,
        roots: &VacuumRoots,
        unclean: &mut BTreeSet<Tid>,
        read_ahead: ReadAhead,
        rest: &mut dyn FnMut(u64, bool) -> Result<()>,
    ) -> Result<VacuumSummary> {
        let mut cleaner = Cleaner {
            table: self,
            index,
            roots,
            unclean,
            read_ahead,
            rest,
            memo: KeyMemo::default(),
            undecided: Vec::new(),
            absent: BTreeSet::new(),
            visits: 0,
            payload: Vec::new(),
            failure: None,
        };
        let done = self.index(index).vacuum(&mut cleaner);
        match cleaner.failure {
            Some(error) => Err(error),
            None => Ok(done?),
        }
    }
}

struct Cleaner<'t> {
    table: &'t Table,
    index: usize,
    roots: &'t VacuumRoots,
    unclean: &'t mut BTreeSet<Tid>,
    read_ahead: ReadAhead,
    rest: &'t mut dyn FnMut(u64, bool) -> Result<()>,
    memo: KeyMemo,
    /// Roots of entries of this page that could not be judged yet.
    undecided: Vec<Tid>,
    /// Heap blocks that these need.
    absent: BTreeSet<u32>,
    /// How often this page was visited.
    visits: u32,
    payload: Vec<u8>,
    failure: Option<Error>,
}

impl EntryVisitor for Cleaner<'_> {
    fn decide(&mut self, entry: BatchEntry<'_>) -> EntryDecision {
        let root = entry.tid;
        if self.roots.dead.contains(root) {
            return EntryDecision::Delete;
        }
        if !self.roots.mixed.contains(root) || self.failure.is_some() {
            return EntryDecision::Keep;
        }
        let heap = self.table.heap();
        let probe = match heap.probe_resident(root.block.0) {
            Some(probe) => probe,
            None if self.visits < INSISTS => {
                self.undecided.push(root);
                self.absent.insert(root.block.0);
                return EntryDecision::Keep;
            }
            None => match heap.probe_dead(root.block.0) {
                Ok(probe) => probe,
                Err(error) => {
                    self.failure = Some(error.into());
                    return EntryDecision::Keep;
                }
            },
        };
        debug_assert!(!probe.is_unused(root), "X4: {root} was freed while it was remembered");
        self.judge(&probe, entry).unwrap_or_else(|| {
            self.undecided.push(root);
            EntryDecision::Keep
        })
    }

    fn payload(&self) -> &[u8] {
        &self.payload
    }

    fn did_not_fit(&mut self, root: Tid) {
        self.unclean.insert(root);
    }

    fn read_ahead(&self) -> ReadAhead {
        self.read_ahead
    }

    fn between_pages(&mut self, reads: u64, changed: bool) -> niwaki_storage::Result<NextVisit> {
        let next = self.prepare_next_visit(reads, changed);
        next.map_err(|error| {
            self.failure.get_or_insert(error);
            niwaki_storage::Error::Refused("the cleaning of an index ended".to_owned())
        })
    }
}

impl Cleaner<'_> {
    /// What becomes of the entry of a mixed root, under the latches of its leaf and of the root's page. `None`:
    /// only an expression can tell, or a value that does not stand there as it is, and the memo does not know it.
    fn judge(&mut self, probe: &DeadProbe<'_>, entry: BatchEntry<'_>) -> Option<EntryDecision> {
        let (mut its, mut unknown) = (None, false);
        for version in probe.versions(entry.tid) {
            match self.memo.has_key(self.table, self.index, version, entry.key) {
                HasKey::Yes => its = Some(version),
                HasKey::No => {}
                HasKey::Unknown => unknown = true,
            }
        }
        match its {
            None if unknown => None,
            None => Some(EntryDecision::Delete),
            Some(_) if seeded_bug!("payload-rewritten") => Some(EntryDecision::Keep),
            // If there are several, and the root is *cleaning* still when all entries were visited, they
            // have one payload; else it stays mixed, and nobody reads payloads.
            Some(version) => {
                self.payload.clear();
                // Stored values are decoded and put together again: nothing is evaluated.
                let known = match self.table.indexes[self.index].definition.include.is_empty() {
                    true => Ok(true),
                    false => self.memo.payload(self.table, self.index, version, &mut self.payload),
                };
                match known {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(_) => {
                        self.unclean.insert(entry.tid);
                        return Some(EntryDecision::Keep);
                    }
                }
                let right = self.payload == entry.payload;
                Some(if right { EntryDecision::Keep } else { EntryDecision::Rewrite })
            }
        }
    }

    /// No latch is held.
    fn prepare_next_visit(&mut self, reads: u64, changed: bool) -> Result<NextVisit> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        (self.rest)(reads, changed)?;
        self.visits += 1;
        if !self.undecided.is_empty() && self.visits < VISITS_MAX {
            for block in std::mem::take(&mut self.absent) {
                self.table.heap().read_in(block)?;
            }
            // An expression that fails on a version of the past is no reason not to vacuum.
            if self.memo.learn(self.table, self.index).is_ok() {
                self.undecided.clear();
                return Ok(NextVisit::SamePage);
            }
        }
        self.unclean.extend(self.undecided.drain(..));
        self.absent.clear();
        self.memo = KeyMemo::default();
        self.visits = 0;
        Ok(NextVisit::NextPage)
    }
}
