//! Inserts an entry: unique check, suppression of duplicates, room on the leaf.
//!
//! A full leaf is first freed of removable entries ([`Index::make_room`]). It is split only if its
//! right sibling has no room for some of its entries ([`Index::prepare_shift`]).

use niwaki_env::sync::atomic::Ordering;
use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{BlockNumber, OffsetNumber, Xid};

use crate::error::{Error, Result};
use crate::insert::outcome::EntryOutcome;
use crate::insert::unique_check::Checked;
use crate::memory::options::VersionHint;
use crate::memory::recycle::Link;
use crate::memory::stats::count;
use crate::page::entry::NewEntry;
use crate::page::layout::{IndexPage, LINE_POINTER, NO_BLOCK};
use crate::page::posting_lists::list_tids;
use crate::page::search::{Target, is_beyond};
use crate::page::tuple::{ENTRY_MAX, TID_SIZE, TUPLE_HEADER, put_leaf, tid_bytes};
use crate::page::{change, wal};
use crate::room::make_room::Duplicates;
use crate::room::shift::NewTuple;
use crate::room::visits::{Deletion, READ_INS_MAX};
use crate::table::{DeletionOracle, UniqueCheck};
use crate::tree::descend::{Descent, RESTARTS_MAX};
use crate::tree::index::{Index, Path};
use crate::tree::locate::{Found, Gap};

/// Bytes of the offset and an entry for which no memory is allocated; most entries are shorter.
const SHORT: usize = 128;

/// The result of the way to a leaf.
enum Reached<'a> {
    Leaf(PageWrite<'a>),
    /// An unfinished split was in the way and is finished, or a page was deleted: start again.
    Again,
    /// The wait for the leaf's latch was given up.
    GivenUp,
}

/// The result of an attempt.
enum Attempt {
    Done(EntryOutcome),
    /// An unfinished split was in the way and is finished now, or a page on the way was deleted.
    Again,
    /// The leaf is full, and a pass over it would read these heap blocks from disk. They are read
    /// in first, without the leaf's latch.
    ReadIn(Vec<BlockNumber>),
}

impl Index {
    /// Inserts an entry. With `unique`, the index first asks the table about every entry that has
    /// the same key. At a full leaf it asks `deletion`, if given, which entries may go before it
    /// splits the leaf. No latch is held on return.
    ///
    /// # Errors
    /// [`Error::RowTooLarge`]; storage's, and the errors of the table's answers. Nothing was
    /// inserted then, with one exception. After an error during the update of a parent the entry is
    /// in place, and the next insertion finishes the split.
    pub fn insert(
        &self,
        entry: &NewEntry<'_>,
        unique: Option<&dyn UniqueCheck>,
        deletion: Option<&dyn DeletionOracle>,
    ) -> Result<EntryOutcome> {
        let size = TUPLE_HEADER + entry.key.len() + entry.payload.len();
        if size > ENTRY_MAX {
            return Err(Error::RowTooLarge { size, max: ENTRY_MAX, index: self.name.to_string() });
        }
        invariant!(X4, entry.tid.offset != OffsetNumber::INVALID, "{} is no TID", entry.tid);
        // The log wants the offset in front of the tuple; both go into one buffer.
        let (mut short, mut long) = ([0; SHORT], Vec::new());
        let record = if let Some(record) = short.get_mut(..wal::OFFSET_SIZE + size) {
            record
        } else {
            long.resize(wal::OFFSET_SIZE + size, 0);
            &mut long[..]
        };
        put_leaf(&mut record[wal::OFFSET_SIZE..], entry.key, entry.payload, entry.tid);
        if let Some(outcome) = self.insert_rightmost(entry, unique, record)? {
            return Ok(outcome);
        }
        let mut deletion = deletion.map(|oracle| Deletion { oracle, read_ins: READ_INS_MAX });
        // Every round but the last finishes a split, loses a race against the deletion of a page,
        // or reads in heap blocks, which is limited.
        for _ in 0..RESTARTS_MAX {
            match self.attempt(entry, unique, deletion.as_ref(), record)? {
                Attempt::Done(outcome) => return Ok(outcome),
                Attempt::Again => {}
                Attempt::ReadIn(blocks) => {
                    let Some(deletion) = &mut deletion else { continue };
                    debug_assert!(deletion.read_ins > 0, "no further read was allowed");
                    deletion.read_ins -= 1;
                    for block in blocks {
                        deletion.oracle.read_in(block)?;
                    }
                }
            }
        }
        Err(self.dead_links(NO_BLOCK))
    }

    /// Goes straight to the rightmost leaf, if the entry belongs there and fits, and no other
    /// thread has the leaf latched. Never splits: only a thread that came past a page's left
    /// sibling may split the page. That thread knows that the page's own downlink is in the parent.
    fn insert_rightmost(
        &self,
        entry: &NewEntry<'_>,
        unique: Option<&dyn UniqueCheck>,
        record: &mut [u8],
    ) -> Result<Option<EntryOutcome>> {
        // Relaxed: the value is verified under the latch.
        let block = BlockNumber(self.rightmost.load(Ordering::Relaxed));
        if block == NO_BLOCK {
            return Ok(None);
        }
        let pin = self.pin(block)?;
        let Some(mut leaf) = pin.try_write() else { return Ok(None) };
        // At least one entry must be before the place: then the place is on no page further left.
        // With a unique check the place is the first entry that can have the key.
        let target = Target::entry(entry.key, entry.tid);
        let first = if unique.is_some() { Target::before(entry.key) } else { target };
        let fine = leaf.verify(self.page_id(block), Some(0)).is_ok()
            && leaf.is_rightmost()
            && self.fits(&leaf, record.len() - wal::OFFSET_SIZE)
            && leaf.entry_count() > 0;
        let behind = fine && first.order_of(leaf.tuple(1)).is_lt();
        if !behind {
            // Where keys do not ascend, this leaf is nearly always the wrong one, and all
            // insertions contend for its latch. The next entry that goes to the right end names the
            // leaf again.
            self.rightmost.store(NO_BLOCK.0, Ordering::Relaxed);
            return Ok(None);
        }
        debug_assert_eq!(leaf.first_entry(), 1, "the rightmost leaf has no high key");
        count(&self.counters.fast_path_inserts, 1);
        if let Some(check) = unique
            && let Checked::Ended(outcome) = self.check_unique(&mut leaf, entry, check)?
        {
            return Ok(Some(outcome));
        }
        match self.find_new(&leaf, entry)? {
            Found::There(at) => self.suppress(leaf, at.offset, entry.xid).map(Some),
            Found::NotThere(gap) => {
                self.note_version(&leaf, entry);
                self.add(&mut leaf, gap, record, entry.xid)?;
                Ok(Some(EntryOutcome::Inserted))
            }
        }
    }

    /// Makes one attempt: one descent and all that follows.
    fn attempt(
        &self,
        entry: &NewEntry<'_>,
        unique: Option<&dyn UniqueCheck>,
        deletion: Option<&Deletion<'_>>,
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
        let gives_up = || deletion.is_some_and(|deletion| deletion.oracle.gives_up());
        let mut leaf = match self.write_leaf(link, &first, &path, gives_up)? {
            Reached::Leaf(leaf) => leaf,
            Reached::Again => return Ok(Attempt::Again),
            Reached::GivenUp => return Ok(Attempt::Done(EntryOutcome::GivenUp)),
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
        self.insert_on_leaf(leaf, entry, duplicates, deletion, record, &path)
    }

    /// Latches for writing the leaf where `target` belongs, starting at `link`.
    fn write_leaf(
        &self,
        mut link: Link,
        target: &Target<'_>,
        path: &Path,
        gives_up: impl Fn() -> bool,
    ) -> Result<Reached<'_>> {
        let mut moves = 0;
        loop {
            let Some(leaf) = self.pin(link.block)?.into_write_unless(&gives_up) else {
                return Ok(Reached::GivenUp);
            };
            let Some(leaf) = self.expect_current(leaf, link, 0)? else {
                return Ok(Reached::Again);
            };
            if leaf.is_incomplete() {
                drop(leaf);
                self.finish_split(link, 0, path)?;
                return Ok(Reached::Again);
            }
            if !is_beyond(&leaf, target) || seeded_bug!("insert_without_move_right") {
                return Ok(Reached::Leaf(leaf));
            }
            self.count_move(&mut moves, link.block)?;
            link = self.link(leaf.next());
        }
    }

    /// Moves right to the leaf where `target` belongs. Latches each leaf before it unlatches the
    /// one on its left. So another unique check of the same key stays behind this one, and cannot
    /// pass before the entry is in place. `None`: an unfinished split was in the way and is
    /// finished now; start again.
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

    /// Puts the entry on the leaf where it belongs, and makes room if needed.
    fn insert_on_leaf<'a>(
        &'a self,
        mut leaf: PageWrite<'a>,
        entry: &NewEntry<'_>,
        duplicates: Duplicates,
        deletion: Option<&Deletion<'_>>,
        record: &mut [u8],
        path: &Path,
    ) -> Result<Attempt> {
        debug_assert!(leaf.is_leaf(), "entries lie on leaves");
        invariant!(
            B1,
            !is_beyond(&leaf, &Target::entry(entry.key, entry.tid))
                || seeded_bug!("insert_without_move_right"),
            "the entry lies beyond the leaf's high key"
        );
        let mut gap = match self.find_new(&leaf, entry)? {
            Found::There(at) => {
                return self.suppress(leaf, at.offset, entry.xid).map(Attempt::Done);
            }
            Found::NotThere(gap) => gap,
        };
        self.note_version(&leaf, entry);
        if duplicates == Duplicates::Allowed
            && let Some(list) = self.list_for(&leaf, gap, entry)?
        {
            self.grow_list(&mut leaf, list, entry)?;
            return Ok(Attempt::Done(EntryOutcome::Inserted));
        }
        let tuple_bytes = record.len() - wal::OFFSET_SIZE;
        if !self.takes(&leaf, gap, tuple_bytes) {
            if let Some(blocks) =
                self.make_room(&mut leaf, entry, duplicates, deletion, tuple_bytes)?
            {
                return Ok(Attempt::ReadIn(blocks));
            }
            gap = self.gap(&leaf, entry)?;
            // Before, the leaf had no room even for a TID, or the list was full. A list may have
            // room now.
            if duplicates == Duplicates::Allowed
                && let Some(list) = self.list_for(&leaf, gap, entry)?
            {
                self.grow_list(&mut leaf, list, entry)?;
                return Ok(Attempt::Done(EntryOutcome::Inserted));
            }
        }
        let tuple = &record[wal::OFFSET_SIZE..];
        if !self.fits(&leaf, tuple_bytes)
            && let Some(shift) =
                self.prepare_shift(&leaf, NewTuple { gap, tuple }, path, entry.xid)?
        {
            leaf = self.shift(leaf, shift, entry.xid)?;
            gap = self.gap(&leaf, entry)?;
        }
        if self.fits(&leaf, tuple_bytes) {
            if leaf.is_rightmost() {
                self.rightmost.store(leaf.id().block.0, Ordering::Relaxed);
            }
            self.add(&mut leaf, gap, record, entry.xid)?;
            return Ok(Attempt::Done(EntryOutcome::Inserted));
        }
        if entry.logically_unchanged || duplicates == Duplicates::Versions {
            self.note_version_split(&leaf, deletion.map(|deletion| deletion.oracle))?;
        }
        let tuple = &record[wal::OFFSET_SIZE..];
        let (left, right) = self.split(leaf, gap, tuple, None, entry.xid)?;
        count(&self.counters.inserts, 1);
        self.insert_parent(left, right, path, entry.xid)?;
        Ok(Attempt::Done(EntryOutcome::Inserted))
    }

    fn note_version(&self, leaf: &PageWrite<'_>, entry: &NewEntry<'_>) {
        if entry.logically_unchanged && self.options().version_hint == VersionHint::Page {
            self.version_leaves.note(leaf.id().block);
        }
    }

    /// Finds the place of a new entry on this leaf.
    pub(crate) fn find_new(&self, leaf: &PageWrite<'_>, entry: &NewEntry<'_>) -> Result<Found> {
        let block = leaf.id().block;
        match self.find_entry(leaf, block, entry.key, entry.tid)? {
            Found::NotThere(Gap::Inside(offset)) if !entry.payload.is_empty() => {
                let detail = "a posting list in an index whose entries have a payload";
                Err(self.damaged(block, Some(offset), "B3", detail))
            }
            Found::There(at) if seeded_bug!("no-duplicates") => {
                Ok(Found::NotThere(Gap::Before(at.offset)))
            }
            found => Ok(found),
        }
    }

    /// Finds the gap for an entry that is known to be absent.
    fn gap(&self, leaf: &PageWrite<'_>, entry: &NewEntry<'_>) -> Result<Gap> {
        match self.find_new(leaf, entry)? {
            Found::NotThere(gap) => Ok(gap),
            Found::There(at) => {
                let block = leaf.id().block;
                Err(self.damaged(block, Some(at.offset), "X2", "it was not there"))
            }
        }
    }

    /// Decides whether an entry can be put there at once. A marked posting list would lose its
    /// mark, and with it the knowledge that all its entries may go: it is better to remove these
    /// first.
    fn takes(&self, leaf: &PageWrite<'_>, gap: Gap, tuple_bytes: usize) -> bool {
        let loses_mark = matches!(gap, Gap::Inside(offset) if change::is_dead(leaf, offset));
        self.fits(leaf, tuple_bytes) && !loses_mark
    }

    /// Finds the posting list that takes in another version of a row, instead of an entry of its
    /// own. The version then costs six bytes rather than twenty and more, and passes over a leaf
    /// full of versions are rarer in proportion. Other entries stay separate, so that a scan can
    /// mark each when it dies. Entries of a unique index also stay separate: its checks mark them.
    fn list_for(
        &self,
        leaf: &PageWrite<'_>,
        gap: Gap,
        entry: &NewEntry<'_>,
    ) -> Result<Option<u16>> {
        if !entry.logically_unchanged || !entry.payload.is_empty() || leaf.room() < TID_SIZE {
            return Ok(None);
        }
        let options = self.options();
        if !options.deduplicate_items {
            return Ok(None);
        }
        let near = match gap {
            Gap::Inside(offset) => offset..=offset,
            Gap::Before(offset) => offset.saturating_sub(1)..=offset,
        };
        for offset in near {
            if !(leaf.first_entry()..=leaf.item_count()).contains(&offset) {
                continue;
            }
            let item = self.leaf_tuple(leaf, leaf.id().block, offset)?;
            let takes = item.is_posting()
                && item.key == entry.key
                && item.tids.len() < list_tids(entry.key.len(), self.tids_max())
                && !change::is_dead(leaf, offset);
            if takes {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    fn grow_list(&self, leaf: &mut PageWrite<'_>, offset: u16, entry: &NewEntry<'_>) -> Result<()> {
        debug_assert!(entry.payload.is_empty(), "a list has no payload");
        debug_assert!(!change::is_dead(leaf, offset), "a marked list takes in no TID");
        let tid = tid_bytes(entry.tid);
        let critical = self.storage.begin_change()?;
        let grown = change::grow_list(leaf, offset, &tid);
        assert!(grown, "the list was measured before");
        leaf.bump_version();
        let delta: &[&[u8]] = &[&offset.to_le_bytes(), &tid];
        self.log(wal::kind::GROW_LIST, entry.xid, &mut [LoggedPage::delta(leaf, delta)], None);
        drop(critical);
        count(&self.counters.inserts, 1);
        count(&self.counters.lists_grown, 1);
        Ok(())
    }

    /// Puts the tuple in `record`, behind the space for its offset, on the leaf, where it fits.
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
        debug_assert!(offset >= leaf.first_entry(), "no entry comes before the high key");
        debug_assert!(leaf.room() >= tuple.len() + LINE_POINTER, "the entry fits the leaf");
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

    /// Suppresses the insertion of an entry that exists (X2). Clears its mark, logged. The leaf's
    /// version moves either way, so that no scan marks the entry on the basis of an earlier read
    /// (rule `leaf-version`).
    fn suppress(&self, mut leaf: PageWrite<'_>, offset: u16, xid: Xid) -> Result<EntryOutcome> {
        debug_assert!(offset >= leaf.first_entry(), "the high key is no entry");
        debug_assert!(offset <= leaf.item_count(), "the entry is on the leaf");
        if !seeded_bug!("suppression-bumps") {
            leaf.bump_version();
        }
        if change::is_dead(&leaf, offset) && !seeded_bug!("revive") {
            let critical = self.storage.begin_change()?;
            let cleared = change::set_dead(&mut leaf, offset, false);
            assert!(cleared, "the entry was just found");
            let delta: &[&[u8]] = &[&offset.to_le_bytes()];
            let pages = &mut [LoggedPage::delta(&mut leaf, delta)];
            self.log(wal::kind::CLEAR_DEAD, xid, pages, None);
            drop(critical);
        }
        count(&self.counters.suppressed_duplicates, 1);
        Ok(EntryOutcome::AlreadyThere)
    }
}
