//! The gardener: takes away index entries whose versions pruning removed (design sections 5 and 8).
//!
//! ```text
//!  pruning (under the page's latch)
//!  a version of a mixed root goes ──┐    its keys, index by index: does a version that stays in
//!  a root loses its last version  ──┴─►  the chain have the key?  yes ─► done        (observer.rs)
//!                                        a suspect of that index                     (suspects.rs)
//!                                           once there are enough, the next writers of the table,
//!                                           leaf by leaf: down to it, its exclusive latch
//!                                        did a version come to the root since?  no ─► the entry goes, logged
//!                                        does a version have the key now?       no ─► the same
//! ```
//! What stored bytes do not tell (a key that an expression makes) is copied by pruning, and asked by the writers, with no
//! latch held. If a version has come by the time that the leaf is latched, whose key nobody has
//! asked yet, then the entry is not seen to: its key is learned, with no latch held, and the leaf
//! is visited again (rule 9b.16).
//!
//! An update on its page that changes one key of six leaves one entry behind, in one index. When its old version
//! is pruned, five keys are found in the chain again, and the sixth is suspected. A deleted row leaves one in
//! each. So an index whose keys change keeps its size without any pass over it.
//!
//! Why it deletes no entry that somebody needs (X1): what counts is the second look, under the exclusive latch
//! of the leaf (rule 9b.10). Whoever gives the root a version with the key again writes the version first and
//! comes to the leaf then: either the look finds the version, or the entry is inserted anew behind the
//! deletion. The root may be another row's by now; then the look is at that row's versions, which is as good.
//! Where pruning saw itself that no version keeps the key, and none has come to the root since (niwaki-heap's
//! `arrivals.rs`), that look would find nothing, and is spared: mostly so.
//!
//! It is the writers who do it, each a batch when one has gathered: they hold the table's lock and know its
//! indexes, and what is left behind cannot outrun them: each takes more suspects than it adds. What the last of them
//! leave is seen to in the background (`rounds.rs`). A root that has a
//! record of all its removed versions, each seen to in every index, is settled: the next pass over its page clears
//! `mixed`, or frees the line pointer of a row that is gone (rule 9b.8; the argument is in niwaki-heap's
//! `records.rs`). Where something was missed (a full queue, a crash, an expression that fails by now) it stays for
//! vacuum, which visits all entries.
//!
//! A statement that is interrupted while it tends ends: what it has in hand waits for the next
//! writer. An interrupt ends a long expression, too, but is not told there, since expressions that
//! fail are passed over.

use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_env::{seeded_bug, sometimes};
use niwaki_heap::{DeadProbe, Deadness, KeyObserver, RemovedVersion, VersionRow};
use niwaki_nbtree::{EntryDecision, RemovedInterval};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::{Tid, Xid};
use niwaki_txn::{Error as TxnError, Horizon, SessionControl};
use niwaki_types::{ColumnMask, Datum, TypeError, work};

use crate::error::{Error, Result};
use crate::row_key::{HasKey, KeyMemo};
use crate::stats::count;
use crate::suspects::{Found, Taken};
use crate::table::Table;
use crate::unique::storage;

/// So many removed versions are waited for, and so many a write sees to: an update leaves about one.
const BATCH: usize = if SIMULATED { 1 } else { 16 };
/// So many entries of such, and versions by who has time.
const BATCH_MAX: usize = 64;

/// How often a batch of suspects is looked at, where new versions come whose keys are not known.
const TURNS_MAX: u32 = 4;

/// A suspect that is to be looked at.
#[derive(Clone, Copy, Debug)]
struct Suspected<'s> {
    key: &'s [u8],
    found: Found,
    /// What was found of it before its leaf was latched, where keys are computed.
    first: Option<Judged>,
}

/// What an entry is to the versions of its chain.
#[derive(Clone, Copy, Debug)]
enum Judged {
    /// A version has its key that a snapshot may see, or that a transaction in progress made.
    Needed,
    /// None has. When those lived that had, if any snapshot could have seen one.
    Stale(RemovedInterval),
    /// As far as is known none has. Of some it is not known.
    Unknown,
}

/// Ends an expression when the session is interrupted. The interrupt stays, for the statement.
fn ends_early(session: &Arc<SessionControl>) -> work::Asker {
    let session = Arc::clone(session);
    Arc::new(move || match session.is_interrupted() {
        true => Err(TypeError::new("57014", "canceling statement due to user request")),
        false => Ok(()),
    })
}

impl Table {
    /// Sees to the entries of versions that were pruned, once a batch of them waits, and to the pieces of large values that
    /// nobody sees any more. Called by those who changed
    /// the table, whose lock on it excludes other definitions, with no latch held.
    ///
    /// # Errors
    /// Storage's; interrupts of `session`.
    #[inline]
    pub(crate) fn tend(&self, session: &Arc<SessionControl>) -> Result<()> {
        self.heap().observe(&self.observer);
        if self.is_due() {
            self.tend_now(session)?;
        }
        // After the entries, as their keys may be made of values whose pieces go here.
        self.tend_values(session)
    }

    /// Whether a batch of removed versions waits, or of entries.
    #[inline]
    fn is_due(&self) -> bool {
        let heap = self.heap();
        heap.removed_waiting() + heap.entries_told() >= BATCH
    }

    /// [`Table::tend`] after `rows` rows were written at once. One call cleans up behind a few
    /// rows, so many rows may need several calls: as many as find a batch.
    ///
    /// # Errors
    /// As [`Table::tend`].
    pub(crate) fn tend_after(&self, session: &Arc<SessionControl>, rows: usize) -> Result<()> {
        for _ in 0..rows.div_ceil(BATCH) {
            self.tend(session)?;
            if !self.is_due() && !self.values_are_due() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the keys of all removed versions that wait, before pieces go that they may share with
    /// others. False: nobody may read them now, as the indexes change.
    ///
    /// # Errors
    /// As [`Table::tend`].
    pub(crate) fn tend_keys(&self, session: &Arc<SessionControl>) -> Result<bool> {
        let batches = self.heap().removed_waiting().div_ceil(BATCH);
        for _ in 0..batches {
            // In simulations one call takes more than a batch.
            if self.heap().removed_waiting() == 0 || self.heap().indexes_change() {
                break;
            }
            self.tend_now(session)?;
        }
        Ok(!self.heap().indexes_change())
    }

    /// Whether what waits takes half of the room that there is for it: who makes more of it without need waits.
    pub(crate) fn gardener_is_half_full(&self) -> bool {
        self.heap().removed_is_half_full()
            || self.kept_up().any(|(_, index)| index.suspects.is_half_full())
    }

    /// How many removed versions, and entries of such, wait to be seen to.
    pub fn gardener_waiting(&self) -> usize {
        let suspects = self.kept_up().map(|(_, index)| index.suspects.waiting());
        self.heap().removed_waiting() + suspects.sum::<usize>()
    }

    /// Forgets what waits to be seen to, as a crash would: it may be lost at any time, and vacuum finds it again.
    pub fn lose_waiting(&self) {
        self.heap().take_removed(usize::MAX);
        self.indexes.iter().for_each(|index| index.suspects.lose());
    }

    /// Sees to all that waits now, however little it is: for who does it when the writers have gone. Lets others run, by
    /// `session`.
    ///
    /// # Errors
    /// As [`Table::tend`].
    pub(crate) fn tend_all(&self, session: &Arc<SessionControl>) -> Result<()> {
        // What comes meanwhile is for the next round.
        let rounds = self.gardener_waiting().div_ceil(BATCH_MAX);
        (0..rounds).try_for_each(|_| self.tend_by(session, |_| 0, true))?;
        self.tend_all_values(session)
    }

    #[cold]
    fn tend_now(&self, session: &Arc<SessionControl>) -> Result<()> {
        self.tend_by(session, |index_bytes| index_bytes, SIMULATED)
    }

    /// Sees to a batch: of each index to as many suspects as are due if it has so many bytes. Of all indexes, or of one after another until
    /// these were twice what came: what one write does for others is to be little, also where an old snapshot's end leaves much in each.
    fn tend_by(
        &self,
        session: &Arc<SessionControl>,
        weight: impl Fn(u64) -> u64,
        of_all: bool,
    ) -> Result<()> {
        // Those for whose indexes nobody knows yet whether they stay wait for the transaction's
        // end.
        if self.heap().indexes_change() {
            return Ok(());
        }
        let asked = || session.check_interrupts().map_err(TxnError::from);
        asked()?;
        let _asking = work::asking(Some(ends_early(session)));
        let mut come = self.heap().take_told(BATCH_MAX);
        // They leave some entries each.
        let removed = self.heap().take_removed(if of_all { BATCH_MAX } else { BATCH });
        let mut removed = removed.into_iter();
        // Asked once, after they were taken: who empties the table, or cuts it, holds a lock that excludes this.
        let blocks = self.heap().blocks()?;
        let (mut row, mut key) = (Vec::new(), Vec::new());
        let none = removed.as_slice().is_empty();
        row.resize(if none { 0 } else { self.definition.columns.len() }, Datum::Null);
        while let Some(version) = removed.next() {
            let suspected = match version.root.block.0 < blocks {
                true => self.suspect(session, &version, &mut row, &mut key),
                false => Ok(Some(0)),
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
            let size = u64::from(index.handle.blocks()?) * PAGE_SIZE as u64;
            if let Some(taken) = index.suspects.take(weight(size)) {
                self.delete_stale(session, at, &taken, &horizon)?;
                seen += taken.len();
                if !of_all && seen >= 2 * come {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Suspects the entries of a removed version that no version on its page has too. `row`, `key`:
    /// places for its values, and for a key of it. How many; `None`: an interrupt ended an
    /// expression, so the version is to be seen to again, and nothing of it counts as seen.
    fn suspect(
        &self,
        session: &SessionControl,
        removed: &RemovedVersion,
        row: &mut [Datum],
        key: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let RemovedVersion { root, record, was_last, row: ref version, .. } = *removed;
        let early = record.filter(|_| seeded_bug!("seen-early"));
        if let Some(record) = early {
            self.heap().seen_to(root, record, self.keys.payloads_right());
        }
        let kept = match was_last {
            true => ColumnMask::none(),
            false => self.keys_kept(root, version)?,
        };
        let (mut missed, mut suspected) = (false, 0);
        for (at, index) in self.kept_up() {
            if kept.contains(at) {
                continue;
            }
            key.clear();
            match self.key_of_removed(at, root, version, row, key) {
                Ok(Some(true)) => {}
                // No entry.
                Ok(Some(false)) => continue,
                Err(Error::Expression(_)) if session.is_interrupted() => return Ok(None),
                // Pieces of its values are gone before it was seen to, or its expression fails by now: vacuum sees to it.
                Ok(None) | Err(Error::Expression(_)) => {
                    missed = true;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let record = record.filter(|_| early.is_none());
            if let Some(record) = record {
                self.heap().will_see_to(root, record);
            }
            // One that is forgotten stays counted in the record.
            let found = Found { root, record, arrived: None };
            let kept = index.suspects.push(key, found, false);
            suspected += 1;
            count(&self.counters.suspects_forgotten, u64::from(!kept));
        }
        if let Some(record) = record.filter(|_| !missed && early.is_none()) {
            self.heap().seen_to(root, record, self.keys.payloads_right());
        }
        Ok(Some(suspected))
    }

    /// Appends the key of a version that went; false: its row has no entry. `None`: pieces of its values are gone. `row`: a
    /// place for its values.
    fn key_of_removed(
        &self,
        index: usize,
        root: Tid,
        version: &VersionRow,
        row: &mut [Datum],
        key: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let its = &self.indexes[index];
        if !its.computed && its.plain_key(&self.definition, version.into(), key)? {
            return Ok(Some(true));
        }
        key.clear();
        if !self.deform_past(root, version, &self.indexes[index].key_mask, row)? {
            return Ok(None);
        }
        self.encode_index_key(index, row, key).map(Some)
    }

    /// Indexes of which a version that is on the page has the removed one's key. When that version goes, it is told in its
    /// turn, whatever it is now.
    fn keys_kept(&self, root: Tid, removed: &VersionRow) -> Result<ColumnMask> {
        // Of which it is not sure is found out at the leaf.
        let (mut kept, mut unsure) = (ColumnMask::none(), ColumnMask::none());
        count(&self.counters.gardener_heap_pages, 1);
        let probe = self.heap().probe_dead(root.block.0)?;
        for version in probe.versions(root) {
            self.keys.add_kept(removed.into(), version.into(), &mut kept, &mut unsure)?;
        }
        Ok(kept)
    }

    /// Deletes those of the suspects that are there and of whose chains no version that somebody
    /// may see has the key. What cannot be told stays counted in its root's record (rule 9b.8).
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
                // Mostly the versions that are there now are those that the leaf's turn finds.
                suspect.first = Some(self.judge_entry(index, suspect, horizon, &memo)?);
            }
            memo.learn_what_can_be(self, index)?;
        } else {
            // Each lies elsewhere in the heap: they come while the leaves are looked for.
            let unknown = open.iter().filter(|suspect| !self.is_known(suspect));
            unknown.for_each(|suspect| self.heap().bring_near(suspect.found.root.block.0));
        }
        let right = self.keys.payloads_right();
        for turn in 1.. {
            let undecided = self.delete_judged(index, &open, horizon, &memo, turn == 1)?;
            let undecided_at = |at: usize| undecided.binary_search(&at).is_ok();
            for (_, suspect) in open.iter().enumerate().filter(|&(at, _)| !undecided_at(at)) {
                if let Some(record) = suspect.found.record {
                    self.heap().seen_to(suspect.found.root, record, right);
                }
            }
            open = undecided.iter().map(|&at| open[at]).collect();
            for suspect in &open {
                // Nobody shall wait at a leaf for a disk.
                self.heap().read_in(suspect.found.root.block.0)?;
            }
            let learned = memo.learn_what_can_be(self, index)?;
            let interrupted = !open.is_empty() && session.is_interrupted();
            // An expression that fails stays for vacuum.
            if open.is_empty() || turn > 1 && !learned && !interrupted {
                break;
            }
            if turn == TURNS_MAX || interrupted {
                self.suspect_again(index, &open);
                break;
            }
        }
        // Roots may have settled, for whoever looks at their pages.
        self.relation.wants_care();
        Ok(())
    }

    /// Gathers these once more: their roots get versions faster than their keys are learned, or the
    /// session is interrupted.
    fn suspect_again(&self, index: usize, suspects: &[Suspected<'_>]) {
        for suspect in suspects {
            // One that is forgotten stays counted in the record.
            let kept = self.indexes[index].suspects.push(suspect.key, suspect.found, false);
            count(&self.counters.suspects_forgotten, u64::from(!kept));
        }
    }

    /// Deletes those of the suspects, in the order of the index, that are there and dead. Returns
    /// the places of those that could not be decided: a version has a key that is not known yet, or
    /// `resident` is asked for and their heap page is not in memory.
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
            // Simulations look again all the same, at some.
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
        // Leaf by leaf they come in the order of the list.
        debug_assert!(undecided.is_sorted());
        Ok(undecided)
    }

    /// Whether what the pass saw that removed the version still holds: no version in the chain has the key.
    fn is_known(&self, suspect: &Suspected<'_>) -> bool {
        let Found { root, arrived, .. } = suspect.found;
        arrived.is_some_and(|arrived| arrived == self.heap().arrived(root))
    }

    /// What the versions of the entry's chain mean to it. Under its leaf's latch this holds until
    /// that is released; without it, only that some version has the key holds, until that version
    /// goes, which is told.
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

    /// [`Table::judge_entry`], if the page of the entry's chain is in memory.
    fn judge_resident(
        &self,
        index: usize,
        suspect: &Suspected<'_>,
        horizon: &Horizon,
        memo: &KeyMemo,
    ) -> Option<Judged> {
        // Simulations find pages away that are there.
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
