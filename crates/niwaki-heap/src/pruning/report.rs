//! Reports of removed versions, for the clean-up of their index entries and out-of-line values.
//!
//! A pass reports to the table's observer (`observer.rs`), or copies the version to a queue
//! (`removed.rs`). The gardener takes from the queues later.

use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_env::invariant;
use niwaki_env::sometimes;
use niwaki_env::sync::plain_atomic::Ordering;
use niwaki_storage::page::Page;
use niwaki_storage::{BlockNumber, Mixed, OffsetNumber, Tid};

use crate::format::header::{NO_LINK, flags};
use crate::format::page::{self, Chain};
use crate::format::rows::{VersionRow, row_ref};
use crate::memory::counters::count;
use crate::memory::observer::{KeyObserver, KeysLeft};
use crate::memory::removed::{EndedRows, RemovedVersion};
use crate::relation::Heap;

impl Heap<'_> {
    /// Makes passes ask this observer from now on. The caller holds a lock on the table that
    /// excludes changes of its indexes, and `observer` knows the current indexes.
    #[inline]
    pub fn observe(&self, observer: &Arc<dyn KeyObserver>) {
        let observers = &self.relation.shared.ledger.observers;
        observers.set(observer, || self.indexes_change());
    }

    /// Returns whether optional passes shall wait, because there is no room for the entries and
    /// versions that they would leave for clean-up.
    pub(crate) fn cleanup_is_behind(&self) -> bool {
        let observers = &self.relation.shared.ledger.observers;
        self.removed_is_half_full()
            || observers.current().is_some_and(|(_, observer)| observer.is_busy())
    }

    /// Reports to the table's observer which index entries the `removed` versions of a page may
    /// leave behind. Counts these entries in the records of their roots.
    ///
    /// Returns copies of the versions that only the gardener can judge later. Candidates are all
    /// removed versions of mixed roots. Of each other root in `ended`, the candidate is the paired
    /// version, the last one of its chain. This version has the keys of all entries of the root,
    /// and the root's record begins with it (`cleanup_ledger.rs`). The last *removed* version would
    /// be wrong. A version of an aborted update has the same root, and may have another key in an
    /// index that was built later.
    ///
    /// Also returns copies of the other removed versions with out-of-line values. The versions are
    /// still on the page, and go before its latch is released.
    pub(crate) fn report_or_copy(
        &self,
        page: &Page,
        block: BlockNumber,
        (removed, ended): (&[u16], &[(u16, u16)]),
        unreported: bool,
    ) -> (Vec<RemovedVersion>, Vec<VersionRow>) {
        let is_mixed = |root| page.item_id(OffsetNumber(root)).mixed() != Mixed::No;
        let of_mixed = removed.iter().filter_map(|&offset| {
            let tuple = page::tuple(page, offset)?;
            let root = if tuple.has(flags::HEAP_ONLY) { tuple.root() } else { offset };
            is_mixed(root).then_some((root, offset, true))
        });
        let of_others = ended.iter().filter(|&&(root, _)| !is_mixed(root));
        let of_others = of_others.map(|&(root, offset)| (root, offset, false));
        let ledger = &self.relation.shared.ledger;
        let observed = if unreported || (SIMULATED && sometimes!(1, 4)) {
            None
        } else {
            ledger.observers.current()
        };
        let (mut copies, mut keyed) = (Vec::new(), Vec::new());
        let (mut reported, mut versions) = (0, 0);
        let (mut left, mut stay) = (KeysLeft::default(), Vec::new());
        for (root, offset, is_mixed) in of_mixed.chain(of_others) {
            let Some(tuple) = page::tuple(page, offset).filter(|it| !it.has(flags::STUB)) else {
                continue;
            };
            invariant!(G1, removed.contains(&offset), "the version at {offset} stays");
            let root = Tid { block, offset: OffsetNumber(root) };
            let row = row_ref(page, root, tuple);
            versions += 1;
            if let Some((epoch, observer)) = &observed {
                left.clear();
                stay.clear();
                // Of the other roots, no version stays.
                if is_mixed {
                    let rest = Chain::new(page, root.offset.0)
                        .filter(|(at, it)| !removed.contains(at) && !it.has(flags::STUB));
                    stay.extend(rest.map(|(_, tuple)| row_ref(page, root, tuple)));
                }
                let next = tuple.link();
                left.moved = stay.is_empty() && next != NO_LINK && next.block != block;
                if observer.keys_left(row, &stay, &mut left)
                    && let Some(record) =
                        ledger.reported(*epoch, root, !is_mixed, &left, observer.payloads_right())
                {
                    observer.suspect(&left, root, record, self.root_change_count(root));
                    reported += left.len();
                    continue;
                }
            }
            // The record counts this version from the start. An empty record would say that no
            // entry is left.
            if !is_mixed {
                ledger.begin(root);
            }
            let record = ledger.removed(root);
            if unreported {
                continue;
            }
            let was_last = ended.iter().any(|&(of, _)| of == root.offset.0);
            let has_external = tuple.has(flags::HAS_EXTERNAL);
            if has_external {
                keyed.push(offset);
            }
            copies.push(RemovedVersion { root, record, was_last, has_external, row: row.into() });
        }
        debug_assert!(copies.len() <= versions, "a version was copied twice");
        debug_assert!(keyed.len() <= copies.len(), "pieces of a version without a copy");
        debug_assert!(!unreported || copies.is_empty(), "the gardener gets what a cleaner visits");
        if !unreported {
            count(&self.relation.counters.reported, versions);
        }
        if reported > 0 {
            self.relation.shared.removed.reported.fetch_add(reported, Ordering::Relaxed);
        }
        let copy = |&offset: &u16| {
            let tuple = page::tuple(page, offset).filter(|tuple| tuple.has(flags::HAS_EXTERNAL))?;
            let (natts, has_nulls) = (tuple.natts(), tuple.has(flags::HAS_NULLS));
            Some(VersionRow { natts, has_nulls, bytes: tuple.data().to_vec() })
        };
        let others = removed.iter().filter(|offset| !keyed.contains(offset));
        (copies, others.filter_map(copy).collect())
    }

    /// Queues versions whose removal has happened and is logged.
    pub(crate) fn queue_removed(&self, indexed: Vec<RemovedVersion>, external: Vec<VersionRow>) {
        self.remember_removed(indexed);
        self.relation.shared.removed.external.push(external);
    }

    /// Takes back versions that were handed out and whose entries are still there: they wait again.
    pub fn remember_removed(&self, versions: Vec<RemovedVersion>) {
        let forgotten = self.relation.shared.removed.indexed.push(versions);
        count(&self.relation.counters.forgotten, forgotten);
    }

    /// Returns the approximate number of removed versions that wait for the gardener.
    #[inline]
    pub fn removed_waiting(&self) -> usize {
        self.relation.shared.removed.indexed.count.load(Ordering::Relaxed)
    }

    /// Returns whether the waiting removed versions take half of their memory.
    pub fn removed_is_half_full(&self) -> bool {
        self.relation.shared.removed.indexed.is_half_full()
    }

    /// Returns the approximate number of entries that the observer got at once, and that
    /// [`Heap::take_reported`] has not taken.
    #[inline]
    pub fn entries_reported(&self) -> usize {
        self.relation.shared.removed.reported.load(Ordering::Relaxed)
    }

    /// Subtracts up to `most` entries, which the caller cleans up, from [`Heap::entries_reported`].
    /// Returns the number subtracted.
    pub fn take_reported(&self, most: usize) -> usize {
        let reported = &self.relation.shared.removed.reported;
        let less = |reported: usize| Some(reported.saturating_sub(most));
        // The result is always `Ok`.
        let before = reported.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.unwrap_or_default().min(most)
    }

    /// Hands out at most `most` waiting versions, oldest first. The caller removes their entries,
    /// then the pieces of their values.
    pub fn take_removed(&self, most: usize) -> Vec<RemovedVersion> {
        self.relation.shared.removed.indexed.take(most)
    }

    /// Allows the pieces of this removed version's values to go, because its keys are not needed
    /// any more.
    pub fn give_up_pieces(&self, version: VersionRow) {
        self.relation.shared.removed.external.push(vec![version]);
    }

    /// Remembers rows of a heap of pieces that will go.
    pub fn note_ended(&self, rows: EndedRows) {
        debug_assert!(!rows.rows.is_empty(), "a list of no rows is queued");
        self.relation.shared.removed.ended.push(vec![rows]);
    }

    /// Returns the approximate number of waiting lists of ended rows.
    #[inline]
    pub fn ended_waiting(&self) -> usize {
        self.relation.shared.removed.ended.count.load(Ordering::Relaxed)
    }

    /// Hands out at most `most` lists of ended rows, oldest first. The caller notes lists again
    /// that cannot go yet.
    pub fn take_ended(&self, most: usize) -> Vec<EndedRows> {
        self.relation.shared.removed.ended.take(most)
    }

    /// Returns the approximate number of removed versions with out-of-line values that wait for the
    /// gardener.
    #[inline]
    pub fn external_waiting(&self) -> usize {
        self.relation.shared.removed.external.count.load(Ordering::Relaxed)
    }

    /// Hands out at most `most` of these versions, oldest first. The caller removes the pieces of
    /// their values.
    pub fn take_external(&self, most: usize) -> Vec<VersionRow> {
        self.relation.shared.removed.external.take(most)
    }
}
