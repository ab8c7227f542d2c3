//! Insertion: unique check, suppression of duplicates, room on the leaf.
//!
//! A full leaf is split only after what can be freed on it was freed ([`Index::make_room`]).

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{BlockNumber, Tid, Xid};

use crate::change;
use crate::descend::{Descent, RESTARTS_MAX};
use crate::error::{Error, Result};
use crate::index::{Index, Path};
use crate::leaf::{Found, Gap};
use crate::page::{IndexPage, NO_BLOCK};
use crate::recycle::Link;
use crate::search::{Target, is_beyond, lower_bound};
use crate::stats::count;
use crate::table::{DeletionOracle, UniqueCheck, UniqueVerdict};
use crate::tuple::{ENTRY_MAX, LeafTuple, TID_SIZE, TUPLE_HEADER, push_leaf};
use crate::wal;

/// An entry to insert.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// Normalized key bytes.
    pub key: &'a [u8],
    /// INCLUDE payload.
    pub payload: &'a [u8],
    /// Root of the row's chain.
    pub tid: Tid,
    /// Transaction that inserts, for the log.
    pub xid: Xid,
    /// The row moved and its key did not change (design section 5): a reason to look for dead
    /// versions before a split. Reserved: has no effect yet.
    pub logically_unchanged: bool,
}

/// How an insertion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// The entry is there now.
    Inserted,
    /// It was there already (design section 5): nothing was inserted, its LP_DEAD mark, if any, is
    /// gone, and scans that read the leaf before can no longer mark it.
    AlreadyThere,
    /// A live row has this key: the entry at this TID. Nothing was inserted.
    Conflict(Tid),
    /// Whether there is a conflict depends on this transaction: wait for its end, then start again.
    /// Nothing was inserted, and no latch is held.
    Wait(Xid),
    /// The table answered [`UniqueVerdict::Undecided`]: it finds out, then starts again. Nothing was
    /// inserted, and no latch is held.
    Undecided,
}

/// What is known about entries with the new one's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// The index is not unique: nothing is known.
    Allowed,
    /// The index is unique, and the check met none.
    None,
    /// The index is unique, and the check met some: old versions.
    Versions,
}

/// How a unique check ended.
enum Checked {
    /// Nothing is in the way.
    Passed(Duplicates),
    Ended(InsertOutcome),
}

/// What became of an attempt.
enum Attempt {
    Done(InsertOutcome),
    /// An unfinished split was in the way and is finished now, or a page on the way was deleted.
    Again,
}

impl Index {
    /// Inserts an entry. With `unique`, the table is asked about every entry that has the same key
    /// before anything changes; at a full leaf `deletion`, if given, is asked which entries may go
    /// before the leaf is split. No latch is held on return.
    ///
    /// # Errors
    /// [`Error::RowTooLarge`]; storage's, and what the table's answers failed with: then nothing was
    /// inserted, except after an error while a parent was updated, where the entry is in place and
    /// the next insertion finishes the split.
    pub fn insert(
        &self,
        entry: &NewEntry<'_>,
        unique: Option<&dyn UniqueCheck>,
        deletion: Option<&dyn DeletionOracle>,
    ) -> Result<InsertOutcome> {
        let size = TUPLE_HEADER + entry.key.len() + entry.payload.len();
        if size > ENTRY_MAX {
            return Err(Error::RowTooLarge { size, max: ENTRY_MAX, index: self.name.to_string() });
        }
        // The log wants the offset in front of the tuple; both go into one buffer.
        let mut record = Vec::with_capacity(wal::OFFSET_SIZE + size);
        record.extend_from_slice(&[0; wal::OFFSET_SIZE]);
        push_leaf(&mut record, entry.key, entry.payload, entry.tid);
        if let Some(outcome) = self.insert_rightmost(entry, unique, &mut record)? {
            return Ok(outcome);
        }
        // Every turn but the last finishes a split, or loses a race against the deletion of a page.
        for _ in 0..RESTARTS_MAX {
            if let Attempt::Done(outcome) = self.attempt(entry, unique, deletion, &mut record)? {
                return Ok(outcome);
            }
        }
        Err(self.no_way(NO_BLOCK))
    }

    /// Goes straight to the rightmost leaf, if the entry belongs there and fits, and nobody else is
    /// at it. Never splits: a page may only be split by one who came past its left sibling, and so
    /// knows that its own downlink is in the parent.
    fn insert_rightmost(
        &self,
        entry: &NewEntry<'_>,
        unique: Option<&dyn UniqueCheck>,
        record: &mut [u8],
    ) -> Result<Option<InsertOutcome>> {
        // Relaxed: whatever it says is verified under the latch.
        let block = BlockNumber(self.rightmost.load(Ordering::Relaxed));
        if block == NO_BLOCK {
            return Ok(None);
        }
        let pin = self.pin(block)?;
        let Some(mut leaf) = pin.try_write() else { return Ok(None) };
        // At least one entry must be before the place: then it belongs to no page on the left. With
        // a unique check the place is that of the first entry that can have the key.
        let target = Target::entry(entry.key, entry.tid);
        let first = if unique.is_some() { Target::before(entry.key) } else { target };
        let fine = leaf.verify(self.page_id(block), Some(0)).is_ok()
            && leaf.is_rightmost()
            && self.fits(&leaf, record.len() - wal::OFFSET_SIZE)
            && leaf.entry_count() > 0
            && first.order_of(leaf.tuple(1)).is_lt();
        if !fine {
            return Ok(None);
        }
        count(&self.counters.fast_path_inserts, 1);
        if let Some(check) = unique
            && let Checked::Ended(outcome) = self.check_unique(&mut leaf, entry, check)?
        {
            return Ok(Some(outcome));
        }
        match self.find_new(&leaf, entry)? {
            Found::There(at) => self.suppress(leaf, at.offset, entry.xid).map(Some),
            Found::NotThere(gap) => {
                self.add(&mut leaf, gap, record, entry.xid)?;
                Ok(Some(InsertOutcome::Inserted))
            }
        }
    }

    /// One descent and what follows.
    fn attempt(
        &self,
        entry: &NewEntry<'_>,
        unique: Option<&dyn UniqueCheck>,
        deletion: Option<&dyn DeletionOracle>,
        record: &mut [u8],
    ) -> Result<Attempt> {
        let target = Target::entry(entry.key, entry.tid);
        // The unique check begins at the first leaf that can hold the key, whatever the TID.
        let first = if unique.is_some() { Target::before(entry.key) } else { target };
        let mut path = Path::new();
        let link = match self.descend(&first, 0, true, &mut path)? {
            Descent::At(link) => link,
            Descent::Incomplete(link, level) => {
                self.finish_split(link, level, &path)?;
                return Ok(Attempt::Again);
            }
            Descent::Empty => {
                self.create(entry.xid)?;
                return Ok(Attempt::Again);
            }
        };
        let Some(mut leaf) = self.write_leaf(link, &first, &path)? else {
            return Ok(Attempt::Again);
        };
        let mut duplicates = Duplicates::Allowed;
        if let Some(check) = unique {
            duplicates = match self.check_unique(&mut leaf, entry, check)? {
                Checked::Ended(outcome) => return Ok(Attempt::Done(outcome)),
                Checked::Passed(duplicates) => duplicates,
            };
            let Some(reached) = self.move_right_coupled(leaf, &target, &path)? else {
                return Ok(Attempt::Again);
            };
            leaf = reached;
        }
        self.insert_on_leaf(leaf, entry, duplicates, deletion, record, &path).map(Attempt::Done)
    }

    /// Latches for writing the leaf where `target` belongs, starting at `link`. `None`: an
    /// unfinished split was in the way and is finished, or a page was deleted; start again.
    fn write_leaf(
        &self,
        mut link: Link,
        target: &Target<'_>,
        path: &Path,
    ) -> Result<Option<PageWrite<'_>>> {
        let mut moves = 0;
        loop {
            let Some(leaf) = self.follow_to_write(link, 0)? else { return Ok(None) };
            if leaf.is_incomplete() {
                drop(leaf);
                self.finish_split(link, 0, path)?;
                return Ok(None);
            }
            if !is_beyond(&leaf, target) || seeded_bug!("insert_without_move_right") {
                return Ok(Some(leaf));
            }
            self.count_move(&mut moves, link.block)?;
            link = self.link(leaf.next());
        }
    }

    /// Moves right to the leaf where `target` belongs, latching each leaf before the one on its left
    /// is let go: another unique check of the same key is behind us and stays behind us, so it
    /// cannot pass before the entry is in place. `None` as in [`Index::write_leaf`].
    fn move_right_coupled<'a>(
        &'a self,
        mut leaf: PageWrite<'a>,
        target: &Target<'_>,
        path: &Path,
    ) -> Result<Option<PageWrite<'a>>> {
        let mut moves = 0;
        while is_beyond(&leaf, target) {
            let next = leaf.next();
            self.count_move(&mut moves, leaf.id().block)?;
            if seeded_bug!("unique_moves_right_uncoupled") {
                drop(leaf);
                leaf = self.write(next, 0)?;
            } else {
                let right = self.write(next, 0)?;
                leaf = right;
            }
            if leaf.is_incomplete() {
                let link = self.link(next);
                drop(leaf);
                self.finish_split(link, 0, path)?;
                return Ok(None);
            }
        }
        Ok(Some(leaf))
    }

    /// Asks about every entry with the same key. `leaf` is the first that can hold one, latched for
    /// writing throughout; its right siblings are read one after the other. Rule 9b.11: made before
    /// duplicate suppression, under the same latch.
    fn check_unique(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        check: &dyn UniqueCheck,
    ) -> Result<Checked> {
        let block = leaf.id().block;
        let target = Target::before(entry.key);
        let mut duplicates = Duplicates::None;
        count(&self.counters.unique_checks, 1);
        for offset in lower_bound(leaf, leaf.first_entry(), &target)..=leaf.item_count() {
            let item = self.leaf_tuple(leaf, block, offset)?;
            if item.key != entry.key {
                return Ok(Checked::Passed(duplicates));
            }
            duplicates = Duplicates::Versions;
            if change::is_dead(leaf, offset) {
                continue;
            }
            match self.ask(&item, entry, check)? {
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
        self.check_unique_right(leaf, entry, check, duplicates)
    }

    /// The right siblings' part: reads them, and marks nothing. Each is latched before the one on its left
    /// is let go, so that none is deleted under it.
    fn check_unique_right(
        &self,
        leaf: &PageWrite<'_>,
        entry: &NewEntry<'_>,
        check: &dyn UniqueCheck,
        mut duplicates: Duplicates,
    ) -> Result<Checked> {
        // A sibling can hold the key only if the high key is not above all its entries.
        let last = Target::entry(entry.key, Tid::MAX);
        let mut beyond = is_beyond(leaf, &last);
        let mut next = leaf.next();
        let mut moves = 0;
        let mut before = None;
        while beyond {
            self.count_move(&mut moves, next)?;
            let page = self.read(next, 0)?;
            drop(before.take());
            for offset in page.first_entry()..=page.item_count() {
                let item = self.leaf_tuple(&page, next, offset)?;
                if item.key != entry.key {
                    return Ok(Checked::Passed(duplicates));
                }
                duplicates = Duplicates::Versions;
                if !change::is_dead(&page, offset)
                    && let Answer::Ended(outcome) = self.ask(&item, entry, check)?
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

    /// Puts the entry on the leaf where it belongs, making room if needed.
    fn insert_on_leaf(
        &self,
        mut leaf: PageWrite<'_>,
        entry: &NewEntry<'_>,
        duplicates: Duplicates,
        deletion: Option<&dyn DeletionOracle>,
        record: &mut [u8],
        path: &Path,
    ) -> Result<InsertOutcome> {
        let mut gap = match self.find_new(&leaf, entry)? {
            Found::There(at) => return self.suppress(leaf, at.offset, entry.xid),
            Found::NotThere(gap) => gap,
        };
        let tuple_bytes = record.len() - wal::OFFSET_SIZE;
        if !self.takes(&leaf, gap, tuple_bytes) {
            self.make_room(&mut leaf, entry, duplicates, deletion, tuple_bytes)?;
            gap = match self.find_new(&leaf, entry)? {
                Found::NotThere(gap) => gap,
                Found::There(at) => {
                    let block = leaf.id().block;
                    return Err(self.damaged(block, Some(at.offset), "X2", "it was not there"));
                }
            };
        }
        if self.fits(&leaf, tuple_bytes) {
            if leaf.is_rightmost() {
                self.rightmost.store(leaf.id().block.0, Ordering::Relaxed);
            }
            self.add(&mut leaf, gap, record, entry.xid)?;
            return Ok(InsertOutcome::Inserted);
        }
        if entry.logically_unchanged || duplicates == Duplicates::Versions {
            count(&self.counters.version_splits, 1);
        }
        let tuple = &record[wal::OFFSET_SIZE..];
        let (left, right) = self.split(leaf, gap, tuple, None, entry.xid)?;
        count(&self.counters.inserts, 1);
        self.insert_parent(left, right, path, entry.xid)?;
        Ok(InsertOutcome::Inserted)
    }

    /// Where a new entry belongs on this leaf.
    fn find_new(&self, leaf: &PageWrite<'_>, entry: &NewEntry<'_>) -> Result<Found> {
        let block = leaf.id().block;
        match self.find_entry(leaf, block, entry.key, entry.tid)? {
            Found::NotThere(Gap::Inside(offset)) if !entry.payload.is_empty() => {
                let detail = "a posting list in an index whose entries have a payload";
                Err(self.damaged(block, Some(offset), "B3", detail))
            }
            found => Ok(found),
        }
    }

    /// Whether an entry can be put there without more ado. A marked posting list would lose its mark,
    /// and with it the knowledge that all its entries may go: better they go first.
    fn takes(&self, leaf: &PageWrite<'_>, gap: Gap, tuple_bytes: usize) -> bool {
        let loses_mark = matches!(gap, Gap::Inside(offset) if change::is_dead(leaf, offset));
        self.fits(leaf, tuple_bytes) && !loses_mark
    }

    /// What is tried before a leaf is split, in this order: simple deletion, deduplication. Each only
    /// if the one before did not make enough room.
    fn make_room(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        duplicates: Duplicates,
        deletion: Option<&dyn DeletionOracle>,
        tuple_bytes: usize,
    ) -> Result<()> {
        if let Some(deletion) = deletion {
            self.simple_delete(leaf, entry, deletion)?;
        }
        // Equal keys in a unique index are versions, which deletion should find; merging them only
        // buys time. Where the check met none, the page is full of rows.
        let worthwhile = duplicates != Duplicates::None || entry.logically_unchanged;
        if !self.fits(leaf, tuple_bytes) && self.options().deduplicate_items && worthwhile {
            self.deduplicate(leaf, entry, tuple_bytes)?;
        }
        Ok(())
    }

    /// Puts the tuple in `record`, behind the room for its offset, on the leaf, where it fits.
    fn add(&self, leaf: &mut PageWrite<'_>, gap: Gap, record: &mut [u8], xid: Xid) -> Result<()> {
        let (kind, offset) = match gap {
            Gap::Before(offset) => (wal::kind::INSERT_LEAF, offset),
            Gap::Inside(offset) => (wal::kind::INSERT_INSIDE, offset),
        };
        record[..wal::OFFSET_SIZE].copy_from_slice(&offset.to_le_bytes());
        // The list knows the key; the TID comes first in the tuple.
        let inside_end = wal::OFFSET_SIZE + TID_SIZE;
        let data = if kind == wal::kind::INSERT_INSIDE { &record[..inside_end] } else { &*record };
        let tuple = &record[wal::OFFSET_SIZE..];
        let critical = self.storage.begin_change()?;
        let placed = match gap {
            Gap::Before(offset) => change::insert(leaf, offset, tuple),
            Gap::Inside(offset) => {
                tuple.first_chunk().is_some_and(|tid| change::insert_inside(leaf, offset, tid))
            }
        };
        assert!(placed, "the entry was measured before");
        leaf.bump_version();
        self.log(kind, xid, &mut [LoggedPage::delta(leaf, &[data])], None);
        drop(critical);
        count(&self.counters.inserts, 1);
        if kind == wal::kind::INSERT_INSIDE {
            count(&self.counters.posting_splits, 1);
        }
        Ok(())
    }

    /// The entry is there: X2. Its mark goes, logged, and the leaf's version moves either way, so
    /// that nobody marks it on the strength of what was read before (rule 9b.13).
    fn suppress(&self, mut leaf: PageWrite<'_>, offset: u16, xid: Xid) -> Result<InsertOutcome> {
        if !seeded_bug!("suppression_keeps_version") {
            leaf.bump_version();
        }
        if change::is_dead(&leaf, offset) {
            let critical = self.storage.begin_change()?;
            let cleared = change::set_dead(&mut leaf, offset, false);
            assert!(cleared, "the entry was just found");
            let delta: &[&[u8]] = &[&offset.to_le_bytes()];
            let pages = &mut [LoggedPage::delta(&mut leaf, delta)];
            self.log(wal::kind::CLEAR_DEAD, xid, pages, None);
            drop(critical);
        }
        count(&self.counters.suppressed_duplicates, 1);
        Ok(InsertOutcome::AlreadyThere)
    }

    /// Asks about every entry of an item whose key is that of the new entry.
    fn ask(
        &self,
        item: &LeafTuple<'_>,
        entry: &NewEntry<'_>,
        check: &dyn UniqueCheck,
    ) -> Result<Answer> {
        let mut dead = 0;
        for tid in item.tids.iter() {
            count(&self.counters.unique_entries, 1);
            match check.check(entry.key, tid)? {
                UniqueVerdict::NotConflicting => {}
                UniqueVerdict::Conflict => return Ok(Answer::Ended(InsertOutcome::Conflict(tid))),
                UniqueVerdict::InProgress(xid) => {
                    return Ok(Answer::Ended(InsertOutcome::Wait(xid)));
                }
                UniqueVerdict::Undecided => return Ok(Answer::Ended(InsertOutcome::Undecided)),
                UniqueVerdict::Dead => dead += 1,
            }
        }
        Ok(if dead == item.tids.len() as u64 { Answer::Dead(dead) } else { Answer::Alive })
    }
}

/// What the table said about an item's entries.
enum Answer {
    Ended(InsertOutcome),
    /// Not in the way.
    Alive,
    /// All of them, so many, are dead to everyone.
    Dead(u64),
}
