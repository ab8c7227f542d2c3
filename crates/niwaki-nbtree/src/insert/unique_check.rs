//! The unique check: does a live row have the new entry's key?
//!
//! The first leaf that can hold the key stays latched exclusively from the check to the insertion.
//! So of two insertions of a key one comes second, and finds the other's entry. The check asks the
//! table about every entry with the key that is not marked. It marks dead entries on the way.
//!
//! Some dead entries may not be marked, since the commits that killed them are not flushed yet
//! (asynchronous commits). The check deletes them once there are several: else each update of a hot
//! row would look at all versions since the last flush.
//!
//! Source: docs/internals/design.md, "Unique checks"; rule `unique-check`.

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::Tid;
use niwaki_storage::buffer::{PageRead, PageWrite};

use crate::error::Result;
use crate::insert::outcome::EntryOutcome;
use crate::memory::stats::count;
use crate::page::change;
use crate::page::entry::{EntryPlace, NewEntry};
use crate::page::layout::{IndexPage, NO_BLOCK};
use crate::page::search::{Target, is_beyond, lower_bound};
use crate::page::tuple::LeafTuple;
use crate::room::make_room::Duplicates;
use crate::room::simple_delete::tids_at;
use crate::table::{RemovedInterval, UniqueCheck, UniqueVerdict, union};
use crate::tree::index::Index;
use crate::tree::locate::Found;

/// The least number of dead entries without a mark that are worth a record to delete them.
const REMOVABLE_MIN: usize = 16;

/// The result of a unique check.
pub(crate) enum Checked {
    /// No entry conflicts.
    Passed(Duplicates),
    Ended(EntryOutcome),
}

impl Index {
    /// Asks the table about every entry with the same key. `leaf` is the first leaf that can hold
    /// one, latched for writing throughout. Its right siblings are read one after the other.
    /// Rule `unique-check`: the check comes before duplicate suppression, under the same latch.
    pub(crate) fn check_unique(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        check: &dyn UniqueCheck,
    ) -> Result<Checked> {
        let block = leaf.id().block;
        let target = Target::before(entry.key);
        let mut duplicates = Duplicates::None;
        let mut removable = Removable::default();
        count(&self.counters.unique_checks, 1);
        if seeded_bug!("unique-before-duplicate")
            && matches!(self.find_new(leaf, entry)?, Found::There(_))
        {
            return Ok(Checked::Passed(Duplicates::Versions));
        }
        for offset in lower_bound(leaf, leaf.first_entry(), &target)..=leaf.item_count() {
            let item = self.leaf_tuple(leaf, block, offset)?;
            if item.key != entry.key {
                self.remove(leaf, &removable, entry, check)?;
                return Ok(Checked::Passed(duplicates));
            }
            duplicates = Duplicates::Versions;
            if change::is_dead(leaf, offset) {
                continue;
            }
            match self.ask(&item, offset, entry, check, &mut removable)? {
                Answer::Ended(outcome) => return Ok(Checked::Ended(outcome)),
                Answer::Alive => {}
                Answer::Dead(entries) => {
                    if change::set_dead(leaf, offset, true) {
                        leaf.mark_hint();
                        count(&self.counters.marked_dead, entries);
                    }
                }
            }
        }
        let checked = self.check_unique_right(leaf, entry, check, duplicates)?;
        if matches!(checked, Checked::Passed(_)) {
            self.remove(leaf, &removable, entry, check)?;
        }
        Ok(checked)
    }

    /// Deletes the entries that the check found dead and could not mark, if they are worth a
    /// record.
    fn remove(
        &self,
        leaf: &mut PageWrite<'_>,
        removable: &Removable,
        entry: &NewEntry<'_>,
        check: &dyn UniqueCheck,
    ) -> Result<()> {
        if removable.places.len() < REMOVABLE_MIN {
            return Ok(());
        }
        debug_assert!(removable.places.is_sorted_by(|a, b| a < b), "each entry was met once");
        let roots = tids_at(leaf, &removable.places);
        self.delete_entries(leaf, &removable.places, entry.xid, removable.removes)?;
        check.deleted(&roots);
        count(&self.counters.unique_deleted_entries, removable.places.len() as u64);
        Ok(())
    }

    /// Checks the right siblings: reads them, and marks nothing. Latches each sibling before it
    /// unlatches the one on its left, so that none is deleted meanwhile.
    fn check_unique_right(
        &self,
        leaf: &PageWrite<'_>,
        entry: &NewEntry<'_>,
        check: &dyn UniqueCheck,
        mut duplicates: Duplicates,
    ) -> Result<Checked> {
        // A sibling can hold the key only if the high key is not above all entries with the key.
        let last = Target::entry(entry.key, Tid::MAX);
        let mut beyond = is_beyond(leaf, &last);
        let mut next = leaf.next();
        let mut moves = 0;
        let mut before = None;
        while beyond {
            invariant!(B2, next != NO_BLOCK, "a key lies beyond the rightmost leaf");
            self.count_move(&mut moves, next)?;
            let first = leaf.id().block;
            if next == first {
                // The leaf is latched all the time: this thread would wait for itself.
                let before = before.as_ref().map_or(first, |page: &PageRead<'_>| page.id().block);
                return Err(self.damaged(
                    before,
                    None,
                    "B2",
                    format!("right link back to {first}"),
                ));
            }
            let page = self.read(next, 0)?;
            drop(before.take());
            for offset in page.first_entry()..=page.item_count() {
                let item = self.leaf_tuple(&page, next, offset)?;
                if item.key != entry.key {
                    return Ok(Checked::Passed(duplicates));
                }
                duplicates = Duplicates::Versions;
                if !change::is_dead(&page, offset)
                    && let Answer::Ended(outcome) =
                        self.ask(&item, offset, entry, check, &mut Removable::default())?
                {
                    return Ok(Checked::Ended(outcome));
                }
            }
            beyond = is_beyond(&page, &last);
            next = page.next();
            before = Some(page);
        }
        Ok(Checked::Passed(duplicates))
    }

    /// Asks the table about every entry of an item that has the new entry's key.
    fn ask(
        &self,
        item: &LeafTuple<'_>,
        offset: u16,
        entry: &NewEntry<'_>,
        check: &dyn UniqueCheck,
        removable: &mut Removable,
    ) -> Result<Answer> {
        debug_assert_eq!(item.key, entry.key, "only entries of the key can conflict");
        let mut dead = 0;
        for (place, tid) in (0u8..).zip(item.tids.iter()) {
            count(&self.counters.unique_entries, 1);
            match check.check(entry.key, tid)? {
                UniqueVerdict::NotConflicting => {}
                UniqueVerdict::Conflict => return Ok(Answer::Ended(EntryOutcome::Conflict(tid))),
                UniqueVerdict::InProgress(xid) => {
                    return Ok(Answer::Ended(EntryOutcome::Wait(xid)));
                }
                UniqueVerdict::Undecided => return Ok(Answer::Ended(EntryOutcome::Undecided)),
                UniqueVerdict::Dead => dead += 1,
                UniqueVerdict::Removable(removes) => {
                    removable.places.push(EntryPlace { offset, place });
                    removable.removes = union(removable.removes, removes);
                }
            }
        }
        Ok(if dead == item.tids.len() as u64 { Answer::Dead(dead) } else { Answer::Alive })
    }
}

/// The table's answer about an item's entries.
enum Answer {
    Ended(EntryOutcome),
    /// The entries do not conflict.
    Alive,
    /// All entries of the item are dead to every snapshot; the value is their number.
    Dead(u64),
}

/// Dead entries that must not be marked, ascending.
#[derive(Debug, Default)]
struct Removable {
    places: Vec<EntryPlace>,
    removes: RemovedInterval,
}
