//! The clean-up ledger of chain roots: which roots may still have index entries that no pass
//! reported (rule `complete-record`).
//!
//! A chain root that becomes mixed (a root with several keys) gets a record. So does a root that is
//! not mixed when a pass removes its last version. That root is then DEAD, or a stub that leads to
//! another page. While the record lasts, each version of the root that a pass removes counts as
//! *unseen*, until the gardener has cleaned up its entries. So, at any moment:
//!
//! ```text
//!  each entry of the root  has the key of   a version that is on its page, or
//!                                           an unseen one, which waits for the gardener
//! ```
//!
//! This invariant holds when the record begins. A root that is not mixed has entries with the only
//! key of its chain. So when it becomes DEAD, the last version of the chain stands for all. An
//! update writes its version before its entries. An inserter whose version was removed inserts no
//! more entries: it has ended, or rolled back. The gardener deletes an entry, under the leaf's
//! latch, unless a version on the page has the entry's key.
//!
//! So a DEAD root without unseen versions has no entry. A mixed root without unseen versions that
//! has one version has only the entries of that version. The next pass over the page frees the DEAD
//! root, and clears `mixed` of the other. The pass holds the page's latch, under which all of this
//! changes. The root need not become *cleaning* before (rule `mixed-flag`). That state guards what
//! a cleaner saw in the indexes earlier; here nothing is remembered except the count.
//!
//! Where a table reports at once which entries a version leaves behind (`observer.rs`), the record
//! counts these entries instead of the version.
//!
//! A removed version that its record did not count would break the invariant. So all passes go
//! through [`crate::Heap::prune`], which updates the record. Everything that interferes with
//! freeing (vacuum, index builds, dropped indexes) pauses the clearing of `mixed` too. A change of
//! indexes ends all records ([`crate::FreeingPaused`]), unless the change is rolled back. While
//! such a change lasts, versions are removed and counted, and their entries are not cleaned up.
//! After the rollback, cleaners that know the former indexes clean them up.
//!
//! Records are in memory and bounded. A root without a record waits for vacuum, which visits all
//! entries.

use std::num::NonZeroU64;

use niwaki_env::SIMULATED;
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_env::{seeded_bug, sometimes};
use niwaki_storage::{BlockNumber, Tid};

use crate::memory::observer::{Epoch, KeysLeft, Observers};
use crate::memory::record_id::RecordId;

/// Number of parts of the ledger. Each part has its own lock; the block number selects the part.
const PARTS: usize = 16;
/// The most records of a part, 16 bytes each without their map. At this limit the part ends all its
/// records and begins anew.
const RECORDS_MAX: usize = 1 << 15;

#[derive(Debug)]
struct Record {
    offset: u16,
    id: RecordId,
    /// Removed versions, and entries of removed versions, whose clean-up is not reported yet. A
    /// forgotten one stays counted.
    unseen: u32,
    /// Entries of the root may have old payloads, so `mixed` is not cleared
    /// (rule `payload-rewritten`).
    old_payloads: bool,
}

/// The record of each part that began last.
pub(crate) type Begun = [Option<NonZeroU64>; PARTS];

/// The clean-up ledger of one heap.
#[derive(Debug, Default)]
pub(crate) struct CleanupLedger {
    parts: [Mutex<Part>; PARTS],
    pub(crate) observers: Observers,
}

#[derive(Debug, Default)]
struct Part {
    /// The epoch since the last change of the indexes.
    epoch: Epoch,
    blocks: HashMap<BlockNumber, Vec<Record>>,
    /// The number of records of all blocks together.
    count: usize,
    /// The record that began last.
    begun: Option<NonZeroU64>,
}

impl Part {
    /// Asserts that all counted records lie in blocks, and that their number keeps to its limit.
    fn assert_state(&self) {
        debug_assert!(self.count >= self.blocks.len(), "a block has no record");
        debug_assert_eq!(self.count == 0, self.blocks.is_empty(), "records without a block");
        debug_assert!(self.count <= RECORDS_MAX, "{} records", self.count);
        debug_assert!(self.count == 0 || self.begun.is_some(), "a record that never began");
    }

    fn find(&mut self, root: Tid) -> Option<&mut Record> {
        let records = self.blocks.get_mut(&root.block)?;
        records.iter_mut().find(|record| record.offset == root.offset.0)
    }

    fn end(&mut self, block: BlockNumber, offsets: &[u16]) {
        let Some(records) = self.blocks.get_mut(&block) else { return };
        let before = records.len();
        records.retain(|record| !offsets.contains(&record.offset));
        self.count -= before - records.len();
        if records.is_empty() {
            self.blocks.remove(&block);
        }
        self.assert_state();
    }

    fn end_all(&mut self) {
        self.blocks.clear();
        self.count = 0;
        self.assert_state();
    }

    fn begin(&mut self, root: Tid) {
        debug_assert_ne!(root.offset.0, 0, "a root is a line pointer of its page");
        if self.count >= RECORDS_MAX {
            self.end_all();
        }
        let id = self.begun.map_or(NonZeroU64::MIN, |last| last.saturating_add(1));
        debug_assert!(self.begun < Some(id), "a late report would count for this record");
        self.begun = Some(id);
        let record =
            Record { offset: root.offset.0, id: RecordId(id), unseen: 0, old_payloads: false };
        let records = self.blocks.entry(root.block).or_default();
        if let Some(place) = records.iter_mut().find(|record| record.offset == root.offset.0) {
            *place = record;
        } else {
            records.push(record);
            self.count += 1;
        }
        self.assert_state();
    }
}

impl CleanupLedger {
    fn part(&self, block: BlockNumber) -> &Mutex<Part> {
        &self.parts[block.0 as usize % PARTS]
    }

    /// Begins the record of a root that becomes mixed, or of an unmixed root that loses its last
    /// version. The caller holds the page's latch.
    pub(crate) fn begin(&self, root: Tid) {
        // Simulations leave out some records, because roots without a record are rare otherwise.
        if !(SIMULATED && sometimes!(1, 8)) {
            self.part(root.block).lock().begin(root);
        }
    }

    /// Counts a removed version of a root, under its page's latch. Returns the root's record, if it
    /// has one.
    pub(crate) fn removed(&self, root: Tid) -> Option<RecordId> {
        let mut part = self.part(root.block).lock();
        if SIMULATED && sometimes!(1, 16) {
            part.end(root.block, &[root.offset.0]);
        }
        let record = part.find(root)?;
        record.unseen += 1;
        Some(record.id)
    }

    /// Counts the keys of a removed version, instead of the version as [`CleanupLedger::removed`]
    /// does. An observer of this epoch found the keys, and each key awaits clean-up. `begins` means
    /// that the root was not mixed, and loses its last version. Returns `None` if the indexes have
    /// changed, so that the observer does not know them.
    #[expect(clippy::option_option, reason = "the keys are unknown, or they need no record")]
    pub(crate) fn reported(
        &self,
        epoch: Epoch,
        root: Tid,
        begins: bool,
        left: &KeysLeft,
        payloads_right: bool,
    ) -> Option<Option<RecordId>> {
        let mut part = self.part(root.block).lock();
        if part.epoch != epoch && !seeded_bug!("observer-epoch") {
            return None;
        }
        if begins && !(SIMULATED && sometimes!(1, 8)) {
            part.begin(root);
        }
        if SIMULATED && sometimes!(1, 16) {
            part.end(root.block, &[root.offset.0]);
        }
        let Some(record) = part.find(root) else { return Some(None) };
        record.old_payloads |= !payloads_right;
        if seeded_bug!("seen-early") {
            return Some(None);
        }
        record.unseen += left.len() as u32;
        Some(Some(record.id))
    }

    pub(crate) fn expect_cleanup(&self, root: Tid, id: RecordId) {
        let mut part = self.part(root.block).lock();
        if let Some(record) = part.find(root).filter(|record| record.id == id) {
            record.unseen += 1;
        }
    }

    pub(crate) fn note_cleaned(&self, root: Tid, id: RecordId, payloads_right: bool) {
        let mut part = self.part(root.block).lock();
        let own = |record: &&mut Record| record.id == id || seeded_bug!("own-record");
        if let Some(record) = part.find(root).filter(own) {
            debug_assert_ne!(record.unseen, 0, "{root}: what was not counted is cleaned up");
            record.unseen -= 1;
            record.old_payloads |= !payloads_right;
        }
    }

    /// Ends the records of roots that are no longer mixed, or no longer roots.
    pub(crate) fn end(&self, block: BlockNumber, offsets: &[u16]) {
        self.part(block).lock().end(block, offsets);
    }

    /// Ends the records of the heap's pages from `first` on, which are gone. Record ids are never
    /// given again. So a late clean-up report does not count for a row that comes to the same place
    /// later.
    pub(crate) fn end_from(&self, first: BlockNumber) {
        for part in &self.parts {
            let mut part = part.lock();
            part.blocks.retain(|block, _| *block < first);
            part.count = part.blocks.values().map(Vec::len).sum();
            part.assert_state();
        }
    }

    /// Ends the epoch, because the table may get other indexes: answers of the observer are refused
    /// from now on.
    pub(crate) fn end_epoch(&self) {
        let epoch = self.observers.end();
        for part in &self.parts {
            let mut part = part.lock();
            part.epoch = part.epoch.max(epoch);
        }
    }

    /// Ends all records, because the table has other indexes. Returns the number of records that
    /// end.
    pub(crate) fn end_all(&self) -> usize {
        // The order matters. A pass with the former observer finds the end of the epoch in the
        // part, or its record ends.
        let epoch = self.observers.end();
        let mut ended = 0;
        for part in &self.parts {
            let mut part = part.lock();
            ended += part.count;
            part.end_all();
            part.epoch = part.epoch.max(epoch);
        }
        ended
    }

    /// Returns the record of each part that began last.
    pub(crate) fn begun(&self) -> Begun {
        std::array::from_fn(|part| self.parts[part].lock().begun)
    }

    /// Ends the records up to `begun`, because the table got other indexes since then, which later
    /// records know. Returns the number of records that end.
    pub(crate) fn end_until(&self, begun: &Begun) -> usize {
        let mut ended = 0;
        for (part, last) in self.parts.iter().zip(begun) {
            let part = &mut *part.lock();
            for records in part.blocks.values_mut() {
                records.retain(|record| Some(record.id.0) > *last);
            }
            part.blocks.retain(|_, records| !records.is_empty());
            let before = part.count;
            part.count = part.blocks.values().map(Vec::len).sum();
            part.assert_state();
            debug_assert!(part.count <= before, "records began while others ended");
            ended += before - part.count;
        }
        ended
    }

    /// Returns whether this root has a record, and no version of the root is unseen. With
    /// `payloads`, the entries must have no old payload either.
    pub(crate) fn has_settled(&self, block: BlockNumber, offset: u16, payloads: bool) -> bool {
        let part = self.part(block).lock();
        let mut records = part.blocks.get(&block).into_iter().flatten();
        records.any(|record| {
            let right = !payloads || !record.old_payloads;
            record.offset == offset && record.unseen == 0 && right
        })
    }

    /// Returns roots of a block without unseen versions for which `wanted` returns true. Its
    /// arguments are the root's offset, and whether the payloads of its entries are right.
    pub(crate) fn settled(
        &self,
        block: BlockNumber,
        wanted: impl Fn(u16, bool) -> bool,
    ) -> Vec<u16> {
        let part = self.part(block).lock();
        let records = part.blocks.get(&block).into_iter().flatten();
        let settled = records.filter(|record| record.unseen == 0 || seeded_bug!("complete-record"));
        let wanted = settled.filter(|record| wanted(record.offset, !record.old_payloads));
        wanted.map(|record| record.offset).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_is_whose_removed_versions_were_all_seen_to() {
        let ledger = CleanupLedger::default();
        let (root, other) = (Tid::new(3, 1), Tid::new(3, 2));
        assert_eq!(ledger.removed(root), None, "mixed before anybody watched");
        ledger.begin(root);
        ledger.begin(other);
        let first = ledger.removed(root).unwrap();
        let second = ledger.removed(root).unwrap();
        assert_eq!(first, second);
        ledger.note_cleaned(root, first, true);
        let all = |_, _| true;
        let right = |_, right| right;
        assert_eq!(ledger.settled(BlockNumber(3), all), [2]);
        ledger.note_cleaned(root, second, false);
        assert_eq!(ledger.settled(BlockNumber(3), all), [1, 2]);
        assert_eq!(ledger.settled(BlockNumber(3), right), [2]);
        ledger.end(BlockNumber(3), &[2]);
        assert_eq!(ledger.settled(BlockNumber(3), all), [1]);
        assert!(ledger.settled(BlockNumber(3), right).is_empty());
        // The line pointer is used again, and a report for its former record comes late.
        let late = ledger.removed(root).unwrap();
        ledger.begin(root);
        ledger.removed(root).unwrap();
        ledger.note_cleaned(root, late, true);
        assert!(ledger.settled(BlockNumber(3), all).is_empty());
        ledger.end_all();
        assert_eq!(ledger.removed(root), None);
    }

    #[test]
    #[should_panic(expected = "records without a block")]
    #[cfg(debug_assertions)]
    fn records_lie_in_blocks() {
        Part { count: 1, ..Part::default() }.assert_state();
    }

    #[test]
    fn records_from_before_a_build_end() {
        let ledger = CleanupLedger::default();
        let roots = [1, 2, 3].map(|offset| Tid::new(3, offset));
        ledger.begin(roots[0]);
        ledger.begin(roots[1]);
        let begun = ledger.begun();
        ledger.begin(roots[1]);
        ledger.begin(roots[2]);
        assert_eq!(ledger.end_until(&begun), 1);
        assert_eq!(ledger.settled(BlockNumber(3), |_, _| true), [2, 3]);
        assert_eq!(ledger.end_all(), 2);
    }

    #[test]
    fn what_is_too_much_ends() {
        let ledger = CleanupLedger::default();
        let blocks = (RECORDS_MAX * PARTS + 1) as u32;
        (0..blocks).for_each(|block| ledger.begin(Tid::new(block, 1)));
        assert_eq!(ledger.removed(Tid::new(0, 1)), None);
        assert!(ledger.removed(Tid::new(blocks - 1, 1)).is_some());
        let count = |part: &Mutex<Part>| part.lock().count;
        assert_eq!(ledger.parts.iter().map(count).max(), Some(RECORDS_MAX));
    }
}
