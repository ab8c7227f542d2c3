//! A vacuum pass over an index, which removes the entries of given chain roots.
//!
//! ```text
//! root is               entry                      what happens to it
//! DEAD                  any                        it goes
//! mixed, has versions   no version has its key     it goes
//!                       a version has its key      it stays, with that version's payload
//! ```
//!
//! The decision is made under one exclusive hold of the leaf's latch (rule `one-hold`). Any
//! remaining version keeps entries with its key, removable or not: versions that go were pruned
//! before, and the log has their interval.
//!
//! Some heap blocks are not in memory, and some keys come from expressions. Their blocks are read
//! in and their keys evaluated after the leaf's release (rule `bytes-under-latch`). Then the page
//! is visited again.

use std::collections::BTreeSet;

use niwaki_env::{invariant, seeded_bug};
use niwaki_heap::{DeadProbe, VacuumRoots};
use niwaki_nbtree::{BatchEntry, EntryDecision, EntryVisitor, NextVisit, VacuumSummary};
use niwaki_storage::{BlockNumber, ReadAhead, Tid};

use crate::entry::row_key::KeyMemo;
use crate::error::{Error, Result};
use crate::relation::plain_key::HasKey;
use crate::relation::table::Table;

/// The most visits to a page. Entries still undecided then are left for another vacuum.
const VISITS_MAX: u32 = 8;
/// The visit from which on heap blocks are read in under the leaf's latch: they were evicted again.
const INSISTS: u32 = 2;

const _: () = assert!(INSISTS < VISITS_MAX);

impl Table {
    /// Visits every entry of an index for `roots`. Adds to `unclean` the mixed roots that may still
    /// have a wrong entry: these must stay `mixed`. `rest` is called between pages, as
    /// [`EntryVisitor::between_pages`] is.
    ///
    /// # Errors
    /// Storage's, and the errors of `rest`; completed deletions stay.
    pub fn vacuum_index(
        &self,
        index: usize,
        roots: &VacuumRoots,
        unclean: &mut BTreeSet<Tid>,
        read_ahead: ReadAhead,
        rest: &mut dyn FnMut(u64, bool) -> Result<()>,
    ) -> Result<VacuumSummary> {
        let mut visitor = IndexVacuum {
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
        debug_assert!(self.indexes[index].definition.ready, "index {index} takes no entries");
        let done = self.index(index).vacuum(&mut visitor);
        match visitor.failure {
            Some(error) => Err(error),
            None => Ok(done?),
        }
    }
}

struct IndexVacuum<'t> {
    table: &'t Table,
    index: usize,
    roots: &'t VacuumRoots,
    unclean: &'t mut BTreeSet<Tid>,
    read_ahead: ReadAhead,
    rest: &'t mut dyn FnMut(u64, bool) -> Result<()>,
    memo: KeyMemo,
    /// Roots of entries of this page that are not judged yet.
    undecided: Vec<Tid>,
    /// Heap blocks that these roots need.
    absent: BTreeSet<BlockNumber>,
    /// The number of visits to this page.
    visits: u32,
    payload: Vec<u8>,
    failure: Option<Error>,
}

impl EntryVisitor for IndexVacuum<'_> {
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
                self.absent.insert(root.block);
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
        invariant!(X4, !probe.is_unused(root), "{root} was freed while it was remembered");
        self.judge(&probe, entry).unwrap_or_else(|| {
            self.undecided.push(root);
            EntryDecision::Keep
        })
    }

    fn payload(&self) -> &[u8] {
        &self.payload
    }

    fn did_not_fit(&mut self, root: Tid) {
        debug_assert!(self.roots.mixed.contains(root), "{root} has one payload, and was rewritten");
        self.unclean.insert(root);
    }

    fn read_ahead(&self) -> ReadAhead {
        self.read_ahead
    }

    fn between_pages(&mut self, reads: u64, changed: bool) -> niwaki_storage::Result<NextVisit> {
        self.assert_state();
        let next = self.prepare_next_visit(reads, changed);
        debug_assert!(next.is_err() || self.undecided.is_empty(), "an entry is judged by no visit");
        debug_assert!(next.is_err() || self.absent.is_empty(), "a block is read in for no entry");
        next.map_err(|error| {
            self.failure.get_or_insert(error);
            niwaki_storage::Error::Refused("the cleaning of an index ended".to_owned())
        })
    }
}

impl IndexVacuum<'_> {
    /// Asserts what holds between two pages: blocks are read in for roots that are not judged yet.
    fn assert_state(&self) {
        debug_assert!(self.visits < VISITS_MAX, "a page was visited {} times", self.visits);
        debug_assert!(self.absent.len() <= self.undecided.len(), "a block that no root needs");
        debug_assert!(
            self.undecided.iter().all(|root| self.roots.mixed.contains(*root)),
            "an entry of a root that is not mixed waits for another visit",
        );
    }

    /// Decides about the entry of a mixed root, under the latches of its leaf and of the root's
    /// page. Returns `None` when the decision needs an expression, or a compressed or out-of-line
    /// value, that the memo does not know.
    fn judge(&mut self, probe: &DeadProbe<'_>, entry: BatchEntry<'_>) -> Option<EntryDecision> {
        let (mut its, mut unknown) = (None, false);
        for version in probe.versions(entry.tid) {
            debug_assert_eq!(version.root, entry.tid, "a version of another chain");
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
            // If several versions have the key, and the root is still *cleaning* after all entries
            // were visited, they have one payload. Otherwise the root stays mixed, and no scan
            // reads payloads.
            Some(version) => {
                self.payload.clear();
                // Stored values are decoded and put together again, without evaluation.
                let known = if self.table.indexes[self.index].definition.include.is_empty() {
                    Ok(true)
                } else {
                    self.memo.payload(self.table, self.index, version, &mut self.payload)
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

    /// Prepares the next visit. No latch is held.
    fn prepare_next_visit(&mut self, reads: u64, changed: bool) -> Result<NextVisit> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        (self.rest)(reads, changed)?;
        self.visits += 1;
        if !self.undecided.is_empty() && self.visits < VISITS_MAX {
            for block in std::mem::take(&mut self.absent) {
                self.table.heap().read_in(block.0)?;
            }
            // An expression that fails on an old version does not stop the vacuum.
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
