//! The gardener removes index entries whose versions pruning removed (docs/internals/design.md,
//! "Gardener").
//!
//! ```text
//!  pruning (under the page's latch)
//!  a version of a mixed root goes ──┐    its keys, index by index: does a version that stays in
//!  a root loses its last version  ──┴─►  the chain have the key?  yes ─► done       (observer.rs)
//!                                        no ─► a suspect of that index              (suspects.rs)
//!                                           once a batch has gathered, the next writers of the
//!                                           table, leaf by leaf, under the leaf's exclusive latch:
//!                                        no new version at the root?  ─► the entry goes, logged
//!                                        no version has the key now?  ─► the same
//! ```
//! A suspect is a stale-entry candidate. Stored bytes do not tell a key that an expression makes.
//! Pruning then copies the version, and writers evaluate the key with no latch held. Another
//! version, with a key not evaluated yet, may have come by the time the leaf is latched. Then the
//! entry is left alone: the gardener evaluates the key with no latch held, and visits the leaf
//! again (rule `bytes-under-latch`).
//!
//! An update on its page that changes one key of six leaves one entry behind, in one index. When
//! its old version is pruned, five keys are found in the chain again, and the sixth is suspected. A
//! deleted row leaves one entry in each index. So an index whose keys change keeps its size without
//! any pass over it.
//!
//! X1: the gardener deletes no needed entry, because the second look decides, under the exclusive
//! latch of the leaf (rule `one-hold`). A writer that gives the root a version with the key again
//! writes the version first, and comes to the leaf afterwards. Either the look finds the version,
//! or the entry is inserted anew behind the deletion. The root may belong to another row by now.
//! Then the look examines that row's versions, which is as good.
//!
//! Pruning itself may have seen that no version keeps the key. If no version has come to the root
//! since (root change counter, niwaki-heap's `root_changes.rs`), the second look would find
//! nothing, and is spared. This is the usual case.
//!
//! Writers do this work, a batch at a time: they hold the table's lock and know its indexes. The
//! work cannot outrun them, as each takes more suspects than it adds. Rounds in the background
//! (`rounds.rs`) handle what the last writers leave.
//!
//! A root is settled once its record (the clean-up ledger of chain roots) covers all its removed
//! versions, each handled in every index. The next pass over its page then clears `mixed`, or frees
//! the line pointer of a removed row. This is rule `complete-record`; the argument is in
//! niwaki-heap's `cleanup_ledger.rs`. A missed entry (a full queue, a crash, an expression that
//! fails by now) stays for vacuum, which visits all entries.
//!
//! An interrupt ends a statement that is cleaning up: its batch waits for the next writer. An
//! interrupt ends a long expression, too. The expression does not report that, since the clean-up
//! skips expressions that fail.

use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_env::{seeded_bug, sometimes};
use niwaki_heap::{DeadProbe, Deadness, KeyObserver, RemovedVersion, VersionRow};
use niwaki_nbtree::{EntryDecision, RemovedInterval};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::{Tid, Xid};
use niwaki_txn::{Error as TxnError, Horizon, SessionControl};
use niwaki_types::{ColumnMask, Datum, TypeError, work};

use crate::entry::row_key::KeyMemo;
use crate::entry::unique::storage;
use crate::error::{Error, Result};
use crate::relation::count::count;
use crate::relation::plain_key::HasKey;
use crate::relation::suspects::{Found, Taken};
use crate::relation::table::Table;

/// The number of removed versions that must wait before a write handles them, and the most that one
/// write takes. An update leaves about one. Simulations use 1.
const BATCH: usize = if SIMULATED { 1 } else { 16 };
/// The most reported entries that one call takes, and the most removed versions in a background
/// call.
const BATCH_MAX: usize = 64;

/// The most turns over one batch of suspects: each turn may meet new versions with unknown keys.
const TURNS_MAX: u32 = 4;

const _: () = assert!(BATCH <= BATCH_MAX);
// The first turn looks at pages in memory only.
const _: () = assert!(TURNS_MAX >= 2);

/// A suspect under examination.
#[derive(Clone, Copy, Debug)]
struct Suspected<'s> {
    key: &'s [u8],
    found: Found,
    /// The judgement from before its leaf was latched, for indexes with computed keys.
    first: Option<Judged>,
}

/// The relation of an entry to the versions of its chain.
#[derive(Clone, Copy, Debug)]
enum Judged {
    /// A version with this key exists that a snapshot may see, or that a transaction in progress
    /// made.
    Needed,
    /// No version has the key. Carries the lifetime of the versions that had it, if any snapshot
    /// could have seen one.
    Stale(RemovedInterval),
    /// No version is known to have the key, but the keys of some are unknown.
    Unknown,
}

/// Returns a check that ends an expression when the session is interrupted. The interrupt stays
/// pending for the statement.
fn ends_early(session: &Arc<SessionControl>) -> work::Asker {
    let session = Arc::clone(session);
    Arc::new(move || {
        if session.is_interrupted() {
            Err(TypeError::new("57014", "canceling statement due to user request"))
        } else {
            Ok(())
        }
    })
}

impl Table {
    /// Removes entries of pruned versions once a batch of them waits, and chunks of large values
    /// that no snapshot sees any more. Called after a change of the table, with no latch held. The
    /// caller's lock on the table excludes DDL.
    ///
    /// # Errors
    /// Storage's; interrupts of `session`.
    #[inline]
    pub(crate) fn clean_up(&self, session: &Arc<SessionControl>) -> Result<()> {
        self.heap().observe(&self.observer);
        if self.is_due() {
            self.clean_up_now(session)?;
        }
        // Runs after the entries: their keys may be made of values whose chunks are removed here.
        self.clean_up_values(session)
    }

    /// Returns true when a batch of removed versions or of entries waits.
    #[inline]
    fn is_due(&self) -> bool {
        let heap = self.heap();
        heap.removed_waiting() + heap.entries_reported() >= BATCH
    }

    /// Runs [`Table::clean_up`] after `rows` rows were written at once. One call cleans up behind a
    /// few rows, so a large write may need several calls. The calls end when no batch waits.
    ///
    /// # Errors
    /// As [`Table::clean_up`].
    pub(crate) fn clean_up_after(&self, session: &Arc<SessionControl>, rows: usize) -> Result<()> {
        for _ in 0..rows.div_ceil(BATCH) {
            self.clean_up(session)?;
            if !self.is_due() && !self.values_are_due() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the keys of all waiting removed versions, before chunks go that these versions may
    /// share with others. Returns false when the keys may not be read now, as the indexes change.
    ///
    /// # Errors
    /// As [`Table::clean_up`].
    pub(crate) fn read_removed_keys(&self, session: &Arc<SessionControl>) -> Result<bool> {
        let batches = self.heap().removed_waiting().div_ceil(BATCH);
        for _ in 0..batches {
            // In simulations one call takes more than a batch.
            if self.heap().removed_waiting() == 0 || self.heap().indexes_change() {
                break;
            }
            self.clean_up_now(session)?;
        }
        Ok(!self.heap().indexes_change())
    }

    /// Returns true when the waiting work takes half of its room. Optional producers of such work
    /// then wait.
    pub(crate) fn gardener_is_half_full(&self) -> bool {
        self.heap().removed_is_half_full()
            || self.ready_indexes().any(|(_, index)| index.suspects.is_half_full())
    }

    /// Returns the number of removed versions and of their entries that wait for clean-up.
    pub fn gardener_waiting(&self) -> usize {
        let suspects = self.ready_indexes().map(|(_, index)| index.suspects.waiting());
        self.heap().removed_waiting() + suspects.sum::<usize>()
    }

    /// Forgets the waiting work, as a crash would. The work may be lost at any time: vacuum finds
    /// it again.
    pub fn lose_waiting(&self) {
        self.heap().take_removed(usize::MAX);
        self.indexes.iter().for_each(|index| index.suspects.lose());
    }

    /// Handles all waiting work, however little. Runs in the background when the writers have gone.
    /// Lets other tasks run, by `session`.
    ///
    /// # Errors
    /// As [`Table::clean_up`].
    pub(crate) fn clean_up_all(&self, session: &Arc<SessionControl>) -> Result<()> {
        // Work that comes meanwhile is for the next round.
        let rounds = self.gardener_waiting().div_ceil(BATCH_MAX);
        (0..rounds).try_for_each(|_| self.clean_up_by(session, |_| 0, true))?;
        self.clean_up_all_values(session)
    }

    #[cold]
    fn clean_up_now(&self, session: &Arc<SessionControl>) -> Result<()> {
        self.clean_up_by(session, |index_bytes| index_bytes, SIMULATED)
    }

    /// Handles one batch. `weight` maps the bytes of an index to the size that decides how many of
    /// its suspects are due; with 0 any number is due.
    ///
    /// With `of_all` the batch covers all indexes. Otherwise it goes index by index, until it has
    /// handled twice as many suspects as came. One write is to do little for others, also when an
    /// old snapshot's end leaves much work in each index.
    fn clean_up_by(
        &self,
        session: &Arc<SessionControl>,
        weight: impl Fn(u64) -> u64,
        of_all: bool,
    ) -> Result<()> {
        // Waits for the transaction's end while uncommitted DDL decides which indexes stay.
        if self.heap().indexes_change() {
            return Ok(());
        }
        let asked = || session.check_interrupts().map_err(TxnError::from);
        asked()?;
        let _asking = work::asking(Some(ends_early(session)));
        let mut come = self.heap().take_reported(BATCH_MAX);
        debug_assert!(come <= BATCH_MAX, "{come} reported entries were handed out");
        // Each removed version leaves some entries.
        let most = if of_all { BATCH_MAX } else { BATCH };
        let removed = self.heap().take_removed(most);
        debug_assert!(removed.len() <= most, "{} versions were handed out", removed.len());
        let mut removed = removed.into_iter();
        // Read once, after the versions were taken: TRUNCATE and truncation hold a lock that
        // excludes this code.
        let blocks = self.heap().blocks()?;
        let (mut row, mut key) = (Vec::new(), Vec::new());
        let none = removed.as_slice().is_empty();
        row.resize(if none { 0 } else { self.definition.columns.len() }, Datum::Null);
        while let Some(version) = removed.next() {
            let suspected = if version.root.block.0 < blocks {
                self.suspect(session, &version, &mut row, &mut key)
            } else {
                Ok(Some(0))
            };
            let done = match suspected {
                Ok(None) => {
                    let rest = std::iter::once(version).chain(removed).collect();
                    self.heap().remember_removed(rest);
                    return Ok(asked()?);
                }
                Ok(Some(suspected)) => {
                    come += suspected;
                    asked().map_err(Error::from)
                }
                Err(error) => Err(error),
            };
            if version.has_external {
                self.heap().give_up_pieces(version.row);
            }
            if let Err(error) = done {
                self.heap().remember_removed(removed.collect());
                return Err(error);
            }
        }
        let mut seen = 0;
        let horizon = self.engine.transactions().horizon();
        for at in self.keys.in_turn() {
            asked()?;
            let index = &self.indexes[at];
            debug_assert!(
                index.definition.ready || seeded_bug!("tended-while-dropped"),
                "the turn is at index {at}, which takes no entries",
            );
            let size = u64::from(index.handle.blocks()?) * PAGE_SIZE as u64;
            if let Some(taken) = index.suspects.take(weight(size)) {
                debug_assert!(taken.len() > 0, "no suspects were handed out");
                self.delete_stale(session, at, &taken, &horizon)?;
                seen += taken.len();
                if !of_all && seen >= 2 * come {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Suspects the entries of a removed version whose keys no version on its page shares. `row`
    /// and `key` are scratch space for its values and for one of its keys.
    ///
    /// Returns the number of suspects. `None` means that an interrupt ended an expression: the
    /// version must be handled again, and none of its entries counts as seen.
    fn suspect(
        &self,
        session: &SessionControl,
        removed: &RemovedVersion,
        row: &mut [Datum],
        key: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let RemovedVersion { root, record, was_last, row: ref version, .. } = *removed;
        debug_assert_eq!(row.len(), self.definition.columns.len(), "a place for each column");
        let early = record.filter(|_| seeded_bug!("seen-early"));
        if let Some(record) = early {
            self.heap().note_cleaned(root, record, self.keys.payloads_right());
        }
        let kept = if was_last { ColumnMask::none() } else { self.keys_kept(root, version)? };
        let (mut missed, mut suspected) = (false, 0);
        for (at, index) in self.ready_indexes() {
            if kept.contains(at) {
                continue;
            }
            key.clear();
            match self.key_of_removed(at, root, version, row, key) {
                Ok(Some(true)) => {}
                // The row has no entry in this index.
                Ok(Some(false)) => continue,
                Err(Error::Expression(_)) if session.is_interrupted() => return Ok(None),
                // Chunks of the version's values are gone, or its expression fails by now: vacuum
                // handles the entry.
                Ok(None) | Err(Error::Expression(_)) => {
                    missed = true;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let record = record.filter(|_| early.is_none());
            if let Some(record) = record {
                self.heap().expect_cleanup(root, record);
            }
            // A forgotten suspect stays counted in the record.
            let found = Found { root, record, root_change_count: None };
            let kept = index.suspects.push(key, found, false);
            suspected += 1;
            count(&self.counters.suspects_forgotten, u64::from(!kept));
        }
        if let Some(record) = record.filter(|_| !missed && early.is_none()) {
            self.heap().note_cleaned(root, record, self.keys.payloads_right());
        }
        Ok(Some(suspected))
    }

    /// Appends the key of a removed version. False: its row has no entry. `None`: chunks of its
    /// values are gone. `row` is scratch space for its values.
    fn key_of_removed(
        &self,
        index: usize,
        root: Tid,
        version: &VersionRow,
        row: &mut [Datum],
        key: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        debug_assert!(key.is_empty(), "the key of another index is in the buffer");
        let its = &self.indexes[index];
        debug_assert!(its.definition.ready, "index {index} takes no entries");
        if !its.computed && its.plain_key(&self.definition, version.into(), key)? {
            return Ok(Some(true));
        }
        key.clear();
        if !self.deform_version(root, version, &self.indexes[index].key_mask, row)? {
            return Ok(None);
        }
        self.encode_index_key(index, row, key).map(Some)
    }

    /// Returns the indexes in which a version on the page has the removed version's key. That
    /// version is reported when it goes itself, whatever its state is now.
    fn keys_kept(&self, root: Tid, removed: &VersionRow) -> Result<ColumnMask> {
        // Indexes where this is uncertain are checked at the leaf.
        let (mut kept, mut unsure) = (ColumnMask::none(), ColumnMask::none());
        count(&self.counters.gardener_heap_pages, 1);
        let probe = self.heap().probe_dead(root.block.0)?;
        for version in probe.versions(root) {
            debug_assert_eq!(version.root, root, "a version of another chain");
            self.keys.add_kept(removed.into(), version.into(), &mut kept, &mut unsure)?;
        }
        Ok(kept)
    }

    /// Deletes the existing entries of suspects whose chain has no visible version with the key.
    /// Undecided suspects stay counted in the record of their root (rule `complete-record`).
    fn delete_stale(
        &self,
        session: &SessionControl,
        index: usize,
        taken: &Taken,
        horizon: &Horizon,
    ) -> Result<()> {
        let blocks = self.heap().blocks()?;
        let memo = KeyMemo::default();
        let within = taken.iter().filter(|(_, found)| found.root.block.0 < blocks);
        let mut open: Vec<_> =
            within.map(|(key, found)| Suspected { key, found, first: None }).collect();
        if self.indexes[index].computed || seeded_bug!("one-hold") {
            for suspect in &mut open {
                // The versions present now are mostly those that the visit to the leaf will find.
                suspect.first = Some(self.judge_entry(index, suspect, horizon, &memo)?);
            }
            memo.learn_what_can_be(self, index)?;
        } else {
            // Each suspect lies elsewhere in the heap: the pages are read ahead while the leaves
            // are found.
            let unknown = open.iter().filter(|suspect| !self.is_known(suspect));
            unknown.for_each(|suspect| self.heap().prefetch(suspect.found.root.block.0));
        }
        let right = self.keys.payloads_right();
        for turn in 1.. {
            debug_assert!(turn <= TURNS_MAX, "a batch of suspects takes no end");
            let undecided = self.delete_judged(index, &open, horizon, &memo, turn == 1)?;
            debug_assert!(undecided.len() <= open.len(), "a suspect is undecided twice");
            let undecided_at = |at: usize| undecided.binary_search(&at).is_ok();
            for (_, suspect) in open.iter().enumerate().filter(|&(at, _)| !undecided_at(at)) {
                if let Some(record) = suspect.found.record {
                    self.heap().note_cleaned(suspect.found.root, record, right);
                }
            }
            open = undecided.iter().map(|&at| open[at]).collect();
            for suspect in &open {
                // Reads the page now, so that no session waits at a leaf for a disk.
                self.heap().read_in(suspect.found.root.block.0)?;
            }
            let learned = memo.learn_what_can_be(self, index)?;
            let interrupted = !open.is_empty() && session.is_interrupted();
            // An entry whose expression fails stays for vacuum.
            if open.is_empty() || turn > 1 && !learned && !interrupted {
                break;
            }
            if turn == TURNS_MAX || interrupted {
                self.suspect_again(index, &open);
                break;
            }
        }
        // Roots may have settled, which a pass over their pages can use.
        self.relation.request_maintenance();
        Ok(())
    }

    /// Queues these suspects once more: their roots get versions faster than their keys are
    /// learned, or the session is interrupted.
    fn suspect_again(&self, index: usize, suspects: &[Suspected<'_>]) {
        debug_assert!(!suspects.is_empty(), "no suspect is undecided");
        for suspect in suspects {
            // A forgotten suspect stays counted in the record.
            let kept = self.indexes[index].suspects.push(suspect.key, suspect.found, false);
            count(&self.counters.suspects_forgotten, u64::from(!kept));
        }
    }

    /// Deletes the existing, dead entries among the suspects, in the order of the index. Returns
    /// the positions of the undecided suspects. A suspect is undecided when a version has a key
    /// that is not known yet. With `resident`, also when its heap page is not in memory.
    fn delete_judged(
        &self,
        index: usize,
        suspects: &[Suspected<'_>],
        horizon: &Horizon,
        memo: &KeyMemo,
        resident: bool,
    ) -> Result<Vec<usize>> {
        let entries: Vec<(&[u8], Tid)> =
            suspects.iter().map(|suspect| (suspect.key, suspect.found.root)).collect();
        let mut undecided = Vec::new();
        let mut decide = |at: usize| {
            let suspect = &suspects[at];
            // Simulations look again at some suspects all the same.
            if self.is_known(suspect) && !(SIMULATED && sometimes!(1, 4)) {
                return Ok((EntryDecision::Delete, None));
            }
            let now = match (suspect.first.filter(|_| seeded_bug!("one-hold")), resident) {
                (Some(first), _) => Some(first),
                (None, true) => self.judge_resident(index, suspect, horizon, memo),
                (None, false) => {
                    Some(self.judge_entry(index, suspect, horizon, memo).map_err(storage)?)
                }
            };
            Ok(match now {
                Some(Judged::Stale(lifetime)) => (EntryDecision::Delete, lifetime),
                Some(Judged::Needed) => (EntryDecision::Keep, None),
                Some(Judged::Unknown) if seeded_bug!("unknown-seen") => (EntryDecision::Keep, None),
                Some(Judged::Unknown) | None => {
                    undecided.push(at);
                    (EntryDecision::Keep, None)
                }
            })
        };
        let handle = &self.indexes[index].handle;
        let deleted = handle.delete_listed(&entries, Xid::INVALID, &mut decide)?;
        count(&self.counters.gardener_deleted, deleted);
        debug_assert!(deleted <= suspects.len() as u64, "{deleted} entries of fewer suspects went");
        // Undecided positions come leaf by leaf, in the order of the list.
        debug_assert!(undecided.is_sorted_by(|a, b| a < b), "a suspect was judged twice");
        debug_assert!(
            undecided.last().is_none_or(|last| *last < suspects.len()),
            "a suspect that is not in the list is undecided",
        );
        Ok(undecided)
    }

    /// Returns true when the finding of the removing pass still holds: no version in the chain has
    /// the key.
    fn is_known(&self, suspect: &Suspected<'_>) -> bool {
        let Found { root, root_change_count, .. } = suspect.found;
        root_change_count.is_some_and(|root_change_count| {
            root_change_count == self.heap().root_change_count(root)
        })
    }

    /// Judges an entry by the versions of its chain. Under the leaf's latch the judgement holds
    /// until the latch is released. Without the latch, only `Needed` holds, until that version
    /// goes, which is reported.
    fn judge_entry(
        &self,
        index: usize,
        suspect: &Suspected<'_>,
        horizon: &Horizon,
        memo: &KeyMemo,
    ) -> niwaki_heap::Result<Judged> {
        count(&self.counters.gardener_heap_pages, 1);
        let probe = self.heap().probe_dead(suspect.found.root.block.0)?;
        Ok(self.judge_on(&probe, index, suspect, horizon, memo))
    }

    /// Judges as [`Table::judge_entry`], if the page of the entry's chain is in memory.
    fn judge_resident(
        &self,
        index: usize,
        suspect: &Suspected<'_>,
        horizon: &Horizon,
        memo: &KeyMemo,
    ) -> Option<Judged> {
        // Simulations treat some pages in memory as absent.
        if SIMULATED && sometimes!(1, 8) {
            return None;
        }
        let probe = self.heap().probe_resident(suspect.found.root.block.0)?;
        count(&self.counters.gardener_heap_pages, 1);
        Some(self.judge_on(&probe, index, suspect, horizon, memo))
    }

    fn judge_on(
        &self,
        probe: &DeadProbe<'_>,
        index: usize,
        suspect: &Suspected<'_>,
        horizon: &Horizon,
        memo: &KeyMemo,
    ) -> Judged {
        let mut unknown = false;
        let judged = probe.deadness(suspect.found.root, horizon, |row| {
            let has = memo.has_key(self, index, row, suspect.key);
            unknown |= has == HasKey::Unknown;
            has == HasKey::Yes
        });
        match judged {
            Deadness::Alive | Deadness::Pending(_) => Judged::Needed,
            Deadness::Dead { .. } if unknown => Judged::Unknown,
            Deadness::Dead { lifetime, .. } => Judged::Stale(lifetime),
        }
    }
}
