//! Builds an index from entries in order: every page is written once, from left to right.
//!
//! One page per level is open. When the next entry does not belong on the open page any more, the
//! page gets its high key and is written. The downlink of its successor goes to the open page of
//! the level above. Levels come into being as they are needed. At the end the open pages are closed
//! from the leaves up, and the topmost page is the B-tree root. The metapage is written last: until
//! then the index is empty.

use niwaki_env::invariant;
use niwaki_storage::page::Page;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{BlockNumber, Tid, Xid};

use crate::error::{Error, Result};
use crate::page::change::Rebuild;
use crate::page::layout::{
    IndexPage, LINE_POINTER, META_BLOCK, Meta, NO_BLOCK, USABLE_BYTES, flag,
};
use crate::page::posting_lists::new_list_tids;
use crate::page::separator::separator;
use crate::page::tuple::{
    ENTRY_MAX, LeafTuple, PIVOT_MAX, POSTING_TIDS_MAX, PivotTuple, TID_SIZE, TUPLE_HEADER,
    item_size, pivot_size, push_leaf, push_pivot, push_posting, read_tid, sort_key, tid_bytes,
};
use crate::page::wal;
use crate::tree::index::Index;

/// Fill factor of inner pages, in percent. Inner pages are few, and grow by one pivot for each
/// split below.
const INNER_FILLFACTOR: usize = 90;
const _: () = assert!(INNER_FILLFACTOR <= 100);
// Two entries fit a leaf beside its high key, however large they are.
const _: () = assert!(2 * (ENTRY_MAX + LINE_POINTER) + PIVOT_MAX + LINE_POINTER <= USABLE_BYTES);

/// The key and TID of a pivot between two neighbours.
type Cut = (Vec<u8>, Option<Tid>);

/// The open page of one level.
struct Level {
    block: BlockNumber,
    prev: BlockNumber,
    /// The tuples one after the other. Each starts where the tuple before it ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Level {
    fn new(block: BlockNumber, prev: BlockNumber) -> Self {
        Self { block, prev, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Asserts what holds between two changes of the page.
    fn assert_state(&self) {
        let end = self.ends.last().copied().unwrap_or(0);
        debug_assert_eq!(end, self.bytes.len(), "the last tuple ends where the bytes end");
        debug_assert!(self.used() <= USABLE_BYTES, "the tuples fit the page");
        debug_assert_ne!(self.block, META_BLOCK, "the metapage is written at the end");
        debug_assert_ne!(self.prev, self.block, "no page is its own sibling");
    }

    fn tuples(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    fn last(&self) -> Option<&[u8]> {
        let (end, before) = self.ends.split_last()?;
        Some(&self.bytes[before.last().copied().unwrap_or(0)..*end])
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let last = self.last()?.to_vec();
        self.ends.pop();
        self.bytes.truncate(self.bytes.len() - last.len());
        self.assert_state();
        Some(last)
    }

    /// Returns the used bytes of the page, line pointers included.
    fn used(&self) -> usize {
        self.bytes.len() + self.ends.len() * LINE_POINTER
    }
}

/// The credit of a new index is one for every `CREDIT_PART` entries, as if these had been deleted.
/// Where keys change, entries of new versions come before the first old ones go, and find the pages
/// filled evenly. Finding room on all pages takes some shifts for each page.
const CREDIT_PART: u64 = 4;

/// The entries that will become the next item: one entry, or several with one key.
#[derive(Default)]
struct Pending {
    key: Vec<u8>,
    payload: Vec<u8>,
    /// Empty before the first entry.
    tids: Vec<[u8; TID_SIZE]>,
}

impl Pending {
    fn last(&self) -> Option<(&[u8], Tid)> {
        self.tids.last().map(|tid| (&self.key[..], read_tid(tid, 0)))
    }

    fn push_item(&self, out: &mut Vec<u8>) {
        debug_assert!(
            self.tids.len() == 1 || self.payload.is_empty(),
            "entries with a payload are no list"
        );
        match &self.tids[..] {
            [tid] => push_leaf(out, &self.key, &self.payload, read_tid(tid, 0)),
            tids => push_posting(out, &self.key, tids),
        }
    }
}

/// A builder that takes the entries of a new index in order; see [`Index::builder`].
pub struct IndexBuilder<'a> {
    index: &'a Index,
    xid: Xid,
    levels: Vec<Level>,
    pending: Pending,
    entries: u64,
    /// The root that [`Index::create`] made; the first page built takes its place.
    unused_root: Option<BlockNumber>,
}

impl std::fmt::Debug for IndexBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexBuilder")
            .field("index", self.index)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Index {
    /// Begins to build the index from entries in order. The file has no blocks, or only the pages
    /// that [`Index::create`] made. No other thread uses the index before [`IndexBuilder::finish`].
    /// A builder that is dropped leaves an index whose file must be removed, as the abort of the
    /// creating transaction does.
    ///
    /// # Errors
    /// Storage's; [`niwaki_storage::Error::Refused`] when the index is not empty.
    pub fn builder(&self, xid: Xid) -> Result<IndexBuilder<'_>> {
        self.create(xid)?;
        let meta = match self.read_meta()? {
            Some(meta)
                if meta.level == 0 && self.read(meta.root, meta.level)?.entry_count() == 0 =>
            {
                meta
            }
            _ => {
                let message = format!("index \"{}\" is not empty", self.name);
                return Err(niwaki_storage::Error::Refused(message).into());
            }
        };
        Ok(IndexBuilder {
            index: self,
            xid,
            levels: Vec::new(),
            pending: Pending::default(),
            entries: 0,
            unused_root: Some(meta.root),
        })
    }
}

impl IndexBuilder<'_> {
    /// Adds the next entry. Returns whether its key equals the key of the entry before. The caller
    /// judges that if the index is unique.
    ///
    /// # Errors
    /// [`Error::RowTooLarge`]; [`Error::NotSorted`] if the entry is not greater than the one before
    /// in (key, TID); storage's.
    pub fn add(&mut self, key: &[u8], payload: &[u8], tid: Tid) -> Result<bool> {
        let size = TUPLE_HEADER + key.len() + payload.len();
        if size > ENTRY_MAX {
            let index = self.index.name.to_string();
            return Err(Error::RowTooLarge { size, max: ENTRY_MAX, index });
        }
        let before = self.pending.last();
        if before.is_some_and(|before| before >= (key, tid)) {
            return Err(Error::NotSorted { index: self.index.name.to_string() });
        }
        let equal = before.is_some_and(|before| before.0 == key);
        if !(equal && payload.is_empty() && self.pending_takes_another()) {
            self.flush_pending()?;
            self.pending.key.clear();
            self.pending.key.extend_from_slice(key);
            self.pending.payload.clear();
            self.pending.payload.extend_from_slice(payload);
            self.pending.tids.clear();
        }
        debug_assert_eq!(self.pending.key, key, "the pending item has the entry's key");
        self.pending.tids.push(tid_bytes(tid));
        invariant!(B3, self.pending.tids.len() <= POSTING_TIDS_MAX, "the list becomes too long");
        self.entries += 1;
        Ok(equal)
    }

    /// Decides whether the pending item may become a longer list. A list that just fits the open
    /// page may not grow: to fill pages exactly, a run of one key is cut where the page ends.
    fn pending_takes_another(&self) -> bool {
        let (key_len, tids) = (self.pending.key.len(), self.pending.tids.len());
        debug_assert!(tids > 0, "there is a pending item");
        let options = self.index.options();
        if !options.deduplicate_items
            || !self.pending.payload.is_empty()
            || tids >= new_list_tids(key_len, self.index.tids_max())
        {
            return false;
        }
        let Some(open) = self.levels.first() else { return true };
        let fill = fill_bytes(0, options.fillfactor);
        let high_key = pivot_size(key_len, true) + LINE_POINTER;
        let ends = |tids| open.used() + item_size(key_len, tids) + LINE_POINTER + high_key;
        !(ends(tids) <= fill && ends(tids + 1) > fill)
    }

    /// Puts the pending item on the open leaf.
    fn flush_pending(&mut self) -> Result<()> {
        if self.pending.tids.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let (key, first) = (&pending.key[..], read_tid(&pending.tids[0], 0));
        let before = self.levels.first().and_then(Level::last).and_then(LeafTuple::decode);
        let cut = before.map(|before| {
            let truncate = self.index.options().suffix_truncation;
            let cut = separator((before.key, before.tids.last()), (key, first), truncate);
            (cut.key.to_vec(), cut.tid)
        });
        let mut tuple = Vec::new();
        pending.push_item(&mut tuple);
        self.push(0, &tuple, cut)?;
        self.pending = pending;
        Ok(())
    }

    /// Writes the open pages, then the metapage, and returns the number of entries.
    ///
    /// # Errors
    /// Storage's.
    pub fn finish(mut self) -> Result<u64> {
        self.flush_pending()?;
        let mut level = 0;
        // The level above may come into being while this one is closed.
        while level < self.levels.len() {
            self.write_page(level, None)?;
            level += 1;
        }
        debug_assert_eq!(self.levels.is_empty(), self.entries == 0, "each entry is on a page");
        if let Some(top) = self.levels.last() {
            invariant!(B2, top.prev == NO_BLOCK, "the B-tree root has a left sibling");
            let meta = Meta::new(top.block, (self.levels.len() - 1) as u16);
            self.write_meta(meta)?;
        }
        self.index.earn(self.entries / CREDIT_PART);
        Ok(self.entries)
    }

    /// Allocates a page to be written later. No other thread uses the index, so the page needs no
    /// more protection.
    fn new_page(&self) -> Result<BlockNumber> {
        let new = self.index.allocate()?;
        let block = new.block;
        new.written();
        Ok(block)
    }

    /// Puts a tuple on the open page of `level`. Closes the page first if the tuple does not belong
    /// there any more. `cut` is the pivot between the tuple and the one before it.
    fn push(&mut self, level: usize, tuple: &[u8], cut: Option<Cut>) -> Result<()> {
        if self.levels.len() == level {
            let block = match self.unused_root.take() {
                Some(block) => block,
                None => self.new_page()?,
            };
            self.levels.push(Level::new(block, NO_BLOCK));
        }
        debug_assert!(level < self.levels.len(), "levels come into being one by one");
        debug_assert!(
            cut.is_some() || self.levels[level].ends.is_empty(),
            "only the first tuple of a level has none before it"
        );
        let key_len = sort_key(tuple).0.len();
        let Some(cut) = cut.filter(|_| self.is_full(level, tuple.len(), key_len)) else {
            self.append(level, tuple);
            return Ok(());
        };
        let (left, carried, cut) = self.close(level, cut);
        debug_assert!(!self.levels[level].ends.is_empty(), "a tuple stays on the closed page");
        let right = self.new_page()?;
        let mut high_key = Vec::new();
        push_pivot(&mut high_key, NO_BLOCK, &cut.0, cut.1);
        self.write_page(level, Some((&high_key, right)))?;
        self.levels[level] = Level::new(right, left);
        if self.levels.len() == level + 1 {
            let mut first = Vec::new();
            push_pivot(&mut first, left, b"", None);
            self.push(level + 1, &first, None)?;
        }
        let mut downlink = Vec::new();
        push_pivot(&mut downlink, right, &cut.0, cut.1);
        self.push(level + 1, &downlink, Some(cut))?;
        carried.iter().for_each(|pivot| self.append(level, pivot));
        self.append(level, tuple);
        Ok(())
    }

    /// Decides the high key of a level's open page. Normally it is `cut`, the bound of the next
    /// tuple. An inner page may be so full that `cut`, which was not known before, does not fit.
    /// Then the last pivot of the page is carried over to the next page, and its bound, which
    /// fitted, is the high key. Returns the page's block, the pivot carried over and the high key.
    fn close(&mut self, level: usize, cut: Cut) -> (BlockNumber, Option<Vec<u8>>, Cut) {
        let open = &mut self.levels[level];
        let high_key = pivot_size(cut.0.len(), cut.1.is_some()) + LINE_POINTER;
        if open.used() + high_key <= USABLE_BYTES {
            return (open.block, None, cut);
        }
        debug_assert!(level > 0, "a leaf keeps room for its high key");
        let carried = open.pop();
        debug_assert!(carried.is_some(), "a page without room has pivots");
        let cut = match carried.as_deref().and_then(PivotTuple::decode) {
            Some(pivot) => (pivot.key.to_vec(), pivot.tid),
            None => cut,
        };
        (open.block, carried, cut)
    }

    fn append(&mut self, level: usize, tuple: &[u8]) {
        let open = &mut self.levels[level];
        match PivotTuple::decode(tuple) {
            // The first pivot of an inner page is minus infinity.
            Some(pivot) if open.ends.is_empty() => {
                push_pivot(&mut open.bytes, pivot.downlink, b"", None);
            }
            _ => open.bytes.extend_from_slice(tuple),
        }
        open.ends.push(open.bytes.len());
        open.assert_state();
    }

    /// Decides whether a tuple of `tuple_bytes` bytes, key included, goes to the next page. Reasons
    /// are that the page would pass the fillfactor, or that the tuple, or the high key of a leaf
    /// behind it, would not fit.
    fn is_full(&self, level: usize, tuple_bytes: usize, key_len: usize) -> bool {
        let open = &self.levels[level];
        let used = open.used() + tuple_bytes + LINE_POINTER;
        // A leaf's high key is at most a byte or a TID longer than the key before it.
        let high_key = if level == 0 { pivot_size(key_len, true) + LINE_POINTER } else { 0 };
        let fill = fill_bytes(level, self.index.options().fillfactor);
        open.ends.len() >= self.index.items_max()
            || (open.ends.len() >= 2 && used + high_key > fill)
            || used + high_key > USABLE_BYTES
    }

    /// Writes the open page of a level: with high key and right sibling, or as the last of its
    /// level.
    fn write_page(&self, level: usize, right: Option<(&[u8], BlockNumber)>) -> Result<()> {
        let open = &self.levels[level];
        let mut page = self.index.pin(open.block)?.into_write();
        let critical = self.index.storage.begin_change()?;
        let fine = fill(&mut page, open, level as u16, right);
        assert!(fine, "an open page never takes more than fits");
        page.bump_version();
        self.index.log(wal::kind::PAGES, self.xid, &mut [LoggedPage::image(&mut page)], None);
        drop(critical);
        Ok(())
    }

    fn write_meta(&self, meta: Meta) -> Result<()> {
        let mut page = self.index.pin(META_BLOCK)?.into_write();
        let bytes = meta.encode();
        let critical = self.index.storage.begin_change()?;
        let stored = Meta::overwrite(&bytes, &mut page);
        assert!(stored, "the metapage was read before");
        let delta: &[&[u8]] = &[&bytes];
        let pages = &mut [LoggedPage::delta(&mut page, delta)];
        self.index.log(wal::kind::META, self.xid, pages, None);
        drop(critical);
        Ok(())
    }
}

/// Returns the bytes to which pages of a level are filled.
fn fill_bytes(level: usize, fillfactor: u8) -> usize {
    let percent =
        if level == 0 { usize::from(fillfactor.clamp(10, 100)) } else { INNER_FILLFACTOR };
    USABLE_BYTES * percent / 100
}

fn fill(page: &mut Page, open: &Level, level: u16, right: Option<(&[u8], BlockNumber)>) -> bool {
    open.assert_state();
    debug_assert!(
        right.is_none_or(|(_, next)| next != NO_BLOCK && next != open.block),
        "a page with a high key has a right sibling"
    );
    let flags = if level == 0 { flag::LEAF } else { 0 };
    let mut writer = Rebuild::new(page, level, flags);
    writer.page.set_prev(open.prev);
    if let Some((high_key, next)) = right {
        writer.page.set_next(next);
        writer.push(high_key);
    }
    open.tuples().for_each(|tuple| writer.push(tuple));
    let items = open.ends.len() + usize::from(right.is_some());
    debug_assert_eq!(usize::from(writer.page.item_count()), items, "all tuples are on the page");
    writer.fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "the last tuple ends where the bytes end")
    )]
    fn bytes_behind_the_last_tuple_are_noticed() {
        let mut open = Level::new(BlockNumber(1), NO_BLOCK);
        open.bytes.push(0);
        open.assert_state();
    }
}
