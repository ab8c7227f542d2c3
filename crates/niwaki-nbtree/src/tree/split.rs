//! Splits: a full page is divided in two.
//!
//! A split is two changes. The first, one log record, makes the right page, links it, and marks the
//! left one `INCOMPLETE_SPLIT`. Every key can be found from then on, through the right link. The
//! second gives the parent its downlink and clears the mark. The thread that makes the first change
//! goes on to the second with both halves latched. If the second change fails to happen (a crash,
//! no room on disk), the next inserter that meets the mark makes it.

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::Page;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{BlockNumber, Tid, Xid};

use crate::error::Result;
use crate::memory::recycle::Link;
use crate::memory::stats::count;
use crate::page::change::{self, Rebuild, SplitLeft};
use crate::page::layout::{IndexPage, LINE_POINTER, META_BLOCK, Meta, NO_BLOCK, flag};
use crate::page::search::{Target, is_beyond, lower_bound};
use crate::page::separator::{OwnedSeparator, separator};
use crate::page::tuple::{LeafTuple, PivotTuple, push_pivot, sort_key};
use crate::page::wal;
use crate::tree::allocate::NewPage;
use crate::tree::descend::{Descent, RESTARTS_MAX};
use crate::tree::index::{Index, Path};
use crate::tree::locate::Gap;
use crate::tree::split_point::{self, SplitItem, SplitKind, SplitPage, SplitPoint};

/// A page to be split with the new tuple in place, without copying anything.
struct PageWithNew<'a> {
    page: &'a Page,
    /// The position of the new tuple, counted from the first entry.
    new_at: usize,
    new_tuple: &'a [u8],
}

impl<'a> PageWithNew<'a> {
    fn len(&self) -> usize {
        usize::from(self.page.entry_count()) + 1
    }

    fn offset(&self, position: usize) -> Option<u16> {
        debug_assert!(position < self.len(), "the page has no such item");
        let old = match position.cmp(&self.new_at) {
            std::cmp::Ordering::Less => position,
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => position - 1,
        };
        Some(self.page.first_entry() + old as u16)
    }

    fn tuple(&self, position: usize) -> &'a [u8] {
        match self.offset(position) {
            Some(offset) => self.page.tuple(offset),
            None => self.new_tuple,
        }
    }

    fn item(&self, position: usize) -> SplitItem<'a> {
        split_item(self.tuple(position))
    }
}

/// Returns a tuple in the form that the choice of a split point uses.
pub(crate) fn split_item(tuple: &[u8]) -> SplitItem<'_> {
    let (key, tid) = sort_key(tuple);
    let tid = Tid::new((tid >> 16) as u32, tid as u16);
    let last_tid = match LeafTuple::decode(tuple) {
        Some(item) => item.tids.last(),
        None => tid,
    };
    SplitItem { key, tid, last_tid, bytes: tuple.len() + LINE_POINTER }
}

impl Index {
    /// Divides `left`, on which `tuple` does not fit, and puts the tuple into the half where it
    /// belongs. `child` is for inner pages: the child whose split `tuple` completes. Its mark is
    /// cleared in the same record. Returns both halves, latched; the parent has no downlink to the
    /// right half yet.
    pub(crate) fn split<'a>(
        &'a self,
        mut left: PageWrite<'a>,
        gap: Gap,
        tuple: &[u8],
        child: Option<&mut PageWrite<'_>>,
        xid: Xid,
    ) -> Result<(PageWrite<'a>, PageWrite<'a>)> {
        let block = left.id().block;
        let leaf = left.is_leaf();
        debug_assert_eq!(leaf, child.is_none(), "a pivot completes the split of a child");
        // An entry may fall inside a posting list. Then the list takes it in, and the page is
        // divided with the entry that the list gives up.
        let (swapped, offset) = match gap {
            Gap::Before(offset) => (None, offset),
            Gap::Inside(offset) => (Some(self.swapped(&left, offset, tuple)?), offset + 1),
        };
        let (page, new_item) = match &swapped {
            Some((page, given_up)) => (page, &given_up[..]),
            None => (&*left, tuple),
        };
        debug_assert!(offset >= left.first_entry(), "no entry comes before the high key");
        let new_at = usize::from(offset - left.first_entry());
        let whole = PageWithNew { page, new_at, new_tuple: new_item };
        debug_assert!(new_at < whole.len(), "the new item is one of the items");
        let SplitPoint { first_right, kind } = self.choose_split(&whole, block)?;
        debug_assert!(first_right > 0, "an item stays on the left");
        debug_assert!(first_right < whole.len(), "an item goes to the right");
        let mut high_key = Vec::new();
        self.push_high_key(&mut high_key, &whole, first_right, leaf);

        let new = self.allocate()?;
        let right_block = new.block;
        let goes_left = new_at < first_right;
        let delta = SplitLeft {
            kept: (first_right - usize::from(goes_left)) as u16,
            new_at: goes_left.then_some(new_at as u16),
            // The list is the item before the new one. It stays left if the new item goes left, or
            // is the first item on the right.
            into_list: swapped.is_some() && new_at <= first_right,
            right: right_block,
            high_key: &high_key,
            new_tuple: tuple,
        };
        // Both halves are made aside: a damaged page must be noticed while nothing has changed.
        let mut left_half = left.clone();
        let mut right_half = Page::zeroed();
        let latched = if fill_right(&mut right_half, &whole, first_right, block)
            && delta.apply(&mut left_half)
        {
            self.latch_right(&left, &new)
        } else {
            Err(self.damaged(block, None, "format", "the page cannot be divided"))
        };
        // Left to right: the new page, which no other thread knows, then the old right sibling.
        let (mut right, mut sibling) = latched?;
        invariant!(B2, left_half.next() == right_block, "the left half leads past the right one");
        invariant!(B2, right_half.prev() == block, "the right half does not lead back");
        invariant!(B2, right_half.next() == left.next(), "the right half does not lead on");
        debug_assert!(left_half.is_incomplete(), "the parent has no downlink to the right half");
        debug_assert!(!right_half.is_incomplete(), "a right half is complete");
        debug_assert_eq!(left_half.level(), right_half.level(), "halves are siblings");
        debug_assert_eq!(sibling.is_some(), !left.is_rightmost(), "the sibling's link changes");
        let critical = self.storage.begin_change()?;
        left.0.copy_from_slice(&left_half.0);
        right.0.copy_from_slice(&right_half.0);
        if leaf {
            left.bump_version();
            right.bump_version();
        }
        if let Some(sibling) = &mut sibling {
            sibling.set_prev(right_block);
        }
        self.log_split(&mut left, &mut right, &mut sibling, child, &delta, xid);
        drop(critical);
        if leaf {
            self.recycling.entries_move(block, right_block);
        }
        new.written();
        self.count_split(leaf, kind);
        Ok((left, right))
    }

    /// Returns the page after the posting list at `offset` took in the TID of `tuple`, and the item
    /// that the list gives up.
    fn swapped(&self, left: &PageWrite<'_>, offset: u16, tuple: &[u8]) -> Result<(Page, Vec<u8>)> {
        let mut page = Page::clone(left);
        let tid = tuple.first_chunk();
        match tid.and_then(|tid| change::swap_inside(&mut page, offset, tid)) {
            Some(given_up) => Ok((page, given_up)),
            None => Err(self.damaged(left.id().block, Some(offset), "B3", "no such posting list")),
        }
    }

    /// Latches the pages right of a page that is split: the new page, and the right sibling until
    /// now.
    fn latch_right<'a>(
        &'a self,
        left: &Page,
        right: &NewPage<'a>,
    ) -> Result<(PageWrite<'a>, Option<PageWrite<'a>>)> {
        if left.next() == right.block {
            // Who waits for the sibling under the new page's latch would wait for itself.
            let detail =
                format!("right link of its left neighbour to the free page {}", right.block);
            return Err(self.damaged(right.block, None, "B2", detail));
        }
        let new = self.use_page(right)?;
        if left.is_rightmost() {
            return Ok((new, None));
        }
        Ok((new, Some(self.write(left.next(), left.level())?)))
    }

    fn choose_split(&self, whole: &PageWithNew<'_>, block: BlockNumber) -> Result<SplitPoint> {
        let items: Vec<SplitItem<'_>> = (0..whole.len()).map(|at| whole.item(at)).collect();
        match split_point::choose(&self.split_page(whole.page, &items, whole.new_at)) {
            Some(point) => Ok(point),
            None => {
                Err(self.damaged(block, None, "B1", "the page cannot be split within its limits"))
            }
        }
    }

    /// Returns the input of the choice of a split point. `items` are the page's entries with the
    /// new one, number `new_at`.
    pub(crate) fn split_page<'a>(
        &self,
        page: &'a Page,
        items: &'a [SplitItem<'a>],
        new_at: usize,
    ) -> SplitPage<'a> {
        let options = self.options();
        SplitPage {
            items,
            new_at,
            leaf: page.is_leaf(),
            high_key: page.high_key().map(|high_key| sort_key(high_key).0),
            high_key_bytes: page.high_key().map_or(0, |key| key.len() + LINE_POINTER),
            fillfactor: options.fillfactor,
            strategy: options.split_strategy,
            truncate: options.suffix_truncation,
            items_max: self.items_max(),
        }
    }

    fn count_split(&self, leaf: bool, kind: SplitKind) {
        let counters = &self.counters;
        if !leaf {
            return count(&counters.inner_splits, 1);
        }
        count(&counters.leaf_splits, 1);
        let kind = match kind {
            SplitKind::RightEnd => &counters.right_end_splits,
            SplitKind::AfterNew => &counters.after_new_splits,
            SplitKind::Halves => &counters.halved_splits,
            SplitKind::ManyDuplicates => &counters.many_duplicates_splits,
            SplitKind::SingleValue => &counters.single_value_splits,
        };
        count(kind, 1);
    }

    /// Appends the pivot between the halves, as the left half's high key.
    fn push_high_key(
        &self,
        out: &mut Vec<u8>,
        whole: &PageWithNew<'_>,
        first_right: usize,
        leaf: bool,
    ) {
        let right = whole.item(first_right);
        if !leaf {
            let tid = Some(right.tid).filter(|&tid| tid != Tid::MIN);
            return push_pivot(out, NO_BLOCK, right.key, tid);
        }
        let left = whole.item(first_right - 1);
        let cut = separator(
            (left.key, left.last_tid),
            (right.key, right.tid),
            self.options().suffix_truncation,
        );
        push_pivot(out, NO_BLOCK, cut.key, cut.tid);
    }

    fn log_split(
        &self,
        left: &mut PageWrite<'_>,
        right: &mut PageWrite<'_>,
        sibling: &mut Option<PageWrite<'_>>,
        child: Option<&mut PageWrite<'_>>,
        delta: &SplitLeft<'_>,
        xid: Xid,
    ) {
        let prev = delta.right.0.to_le_bytes();
        let (bytes, prev): (&[&[u8]], &[&[u8]]) = (&[&delta.encode()], &[&prev]);
        let kind = wal::split_kind(sibling.is_some(), child.is_some());
        let mut pages = Vec::with_capacity(4);
        pages.push(LoggedPage::delta(left, bytes));
        pages.push(LoggedPage::image(right));
        if let Some(sibling) = sibling {
            pages.push(LoggedPage::delta(sibling, prev));
        }
        if let Some(child) = child {
            change::clear_incomplete(child);
            pages.push(LoggedPage::delta(child, &[]));
        }
        self.log(kind, xid, &mut pages, None);
    }

    /// Gives the parent of `left` the downlink to `right`, splitting the parent if need be, and
    /// clears the mark of `left`.
    pub(crate) fn insert_parent(
        &self,
        mut left: PageWrite<'_>,
        right: PageWrite<'_>,
        path: &Path,
        xid: Xid,
    ) -> Result<()> {
        let left_block = left.id().block;
        debug_assert!(left.is_incomplete(), "the downlink to the right half is missing");
        let level = left.level() + 1;
        let separator = self.high_key_copy(&left, left_block)?;
        let target = separator.target();
        if self.read_meta()?.is_some_and(|meta| meta.root == left_block) {
            return self.new_root(&mut left, &right, &separator, xid);
        }
        let mut parent = self.write_parent(level, &target, path)?;
        let offset = lower_bound(&parent, parent.first_entry() + 1, &target);
        debug_assert!(offset > parent.first_entry(), "the left half's downlink comes first");
        let before = PivotTuple::decode(parent.tuple(offset - 1)).map(|pivot| pivot.downlink);
        if before != Some(left_block) {
            let detail = format!("{before:?} stands where the downlink to {left_block} should");
            return Err(self.damaged(parent.id().block, Some(offset - 1), "B1", detail));
        }
        let right_block = right.id().block;
        invariant!(B2, left.next() == right_block, "the halves are no neighbours");
        // From here on no thread can split the right half and miss its downlink: a split needs the
        // parent.
        drop(right);
        let mut record = Vec::with_capacity(wal::OFFSET_SIZE + left.tuple(1).len());
        record.extend_from_slice(&offset.to_le_bytes());
        push_pivot(&mut record, right_block, &separator.key, separator.tid);
        let tuple = &record[wal::OFFSET_SIZE..];
        if !self.fits(&parent, tuple.len()) {
            let (parent, new) =
                self.split(parent, Gap::Before(offset), tuple, Some(&mut left), xid)?;
            drop(left);
            return self.insert_parent(parent, new, path, xid);
        }
        let critical = self.storage.begin_change()?;
        let placed = change::insert(&mut parent, offset, tuple);
        assert!(placed, "the pivot was measured before");
        change::clear_incomplete(&mut left);
        let delta: &[&[u8]] = &[&record];
        let pages = &mut [LoggedPage::delta(&mut parent, delta), LoggedPage::delta(&mut left, &[])];
        self.log(wal::kind::INSERT_INNER, xid, pages, None);
        drop(critical);
        Ok(())
    }

    pub(crate) fn high_key_copy(&self, page: &Page, block: BlockNumber) -> Result<OwnedSeparator> {
        match page.high_key().and_then(PivotTuple::decode) {
            Some(pivot) => Ok(OwnedSeparator { key: pivot.key.to_vec(), tid: pivot.tid }),
            None => Err(self.damaged(block, Some(1), "B1", "no high key")),
        }
    }

    /// Latches for writing the page of `level` that `target` belongs to. Finishes unfinished splits
    /// of that level on the way: their downlinks must be there before this one.
    pub(crate) fn write_parent(
        &self,
        level: u16,
        target: &Target<'_>,
        path: &Path,
    ) -> Result<PageWrite<'_>> {
        debug_assert!(level > 0, "no leaf is a parent");
        let mut remembered = path.at(level);
        // Ends: every round finishes a split, moves right, or lost a race against a deletion. Moves
        // and lost races are counted.
        let (mut moves, mut restarts) = (0, 0);
        loop {
            let mut link = match remembered.take() {
                Some(link) => link,
                None => self.find_level(level, target)?,
            };
            while let Some(page) = self.follow_to_write(link, level)? {
                if page.is_incomplete() {
                    drop(page);
                    self.finish_split(link, level, path)?;
                } else if is_beyond(&page, target) {
                    self.count_move(&mut moves, link.block)?;
                    link = self.link(page.next());
                } else {
                    return Ok(page);
                }
            }
            restarts += 1;
            if restarts > RESTARTS_MAX {
                return Err(self.dead_links(link.block));
            }
        }
    }

    /// Finds the page of `level` that `target` belongs to, from the root. The tree grew since the
    /// descent, or the page of the descent was deleted.
    fn find_level(&self, level: u16, target: &Target<'_>) -> Result<Link> {
        match self.descend(target, level, false, &mut Path::new())? {
            Descent::At(link) | Descent::Incomplete(link, _) => Ok(link),
            Descent::Empty => Err(self.damaged(META_BLOCK, None, "B2", "the file lost its pages")),
        }
    }

    /// Makes a root above `left`, which was the root until now, and `right`.
    fn new_root(
        &self,
        left: &mut PageWrite<'_>,
        right: &PageWrite<'_>,
        separator: &OwnedSeparator,
        xid: Xid,
    ) -> Result<()> {
        let (left_block, right_block) = (left.id().block, right.id().block);
        invariant!(B2, left.next() == right_block, "the halves are no neighbours");
        let level = left.level() + 1;
        let new = self.allocate()?;
        let block = new.block;
        debug_assert_ne!(block, left_block, "the root gets a page of its own");
        let mut root = self.use_page(&new)?;
        let mut meta_page = self.pin(META_BLOCK)?.into_write();
        let critical = self.storage.begin_change()?;
        let mut writer = Rebuild::new(&mut root, level, 0);
        let mut tuple = Vec::new();
        push_pivot(&mut tuple, left_block, b"", None);
        writer.push(&tuple);
        tuple.clear();
        push_pivot(&mut tuple, right_block, &separator.key, separator.tid);
        writer.push(&tuple);
        assert!(writer.fits, "two pivots fit an empty page");
        debug_assert_eq!(root.entry_count(), 2, "the root leads to both halves");
        let meta = Meta::new(block, level).encode();
        let stored = Meta::overwrite(&meta, &mut meta_page);
        assert!(stored, "the metapage was read before");
        change::clear_incomplete(left);
        let delta: &[&[u8]] = &[&meta];
        let pages = &mut [
            LoggedPage::image(&mut root),
            LoggedPage::delta(left, &[]),
            LoggedPage::delta(&mut meta_page, delta),
        ];
        self.log(wal::kind::NEW_ROOT, xid, pages, None);
        drop(critical);
        new.written();
        count(&self.counters.root_splits, 1);
        Ok(())
    }

    /// Finishes the split of a page whose parent has no downlink to its right half. Does nothing if
    /// another thread did it. The caller may hold latches of pages on lower levels, but none on
    /// this level.
    #[cold]
    pub(crate) fn finish_split(&self, link: Link, level: u16, path: &Path) -> Result<()> {
        let block = link.block;
        let left = match self.follow_to_write(link, level)? {
            Some(left) if left.is_incomplete() => left,
            _ => return Ok(()),
        };
        if left.is_rightmost() {
            return Err(self.damaged(block, None, "B2", "an incomplete split without right half"));
        }
        let right = self.write(left.next(), level)?;
        count(&self.counters.finished_splits, 1);
        self.insert_parent(left, right, path, Xid::INVALID)
    }
}

/// Fills the new right page. The first pivot of an inner page becomes minus infinity.
fn fill_right(
    right: &mut Page,
    whole: &PageWithNew<'_>,
    first_right: usize,
    left: BlockNumber,
) -> bool {
    let old = whole.page;
    debug_assert!(first_right > 0, "an item stays on the left");
    debug_assert!(first_right < whole.len(), "an item goes to the right");
    // A right half is complete: the page from which it was split carries the mark.
    let flags = old.index_flags() & !flag::INCOMPLETE_SPLIT;
    let mut writer = Rebuild::new(right, old.level(), flags);
    writer.page.set_prev(left);
    writer.page.set_next(old.next());
    if let Some(high_key) = old.high_key()
        && !seeded_bug!("split_forgets_high_key")
    {
        writer.push(high_key);
    }
    for position in first_right..whole.len() {
        match whole.offset(position) {
            _ if position == first_right && !old.is_leaf() => {
                let Some(pivot) = PivotTuple::decode(whole.tuple(position)) else { return false };
                let mut first = Vec::new();
                push_pivot(&mut first, pivot.downlink, b"", None);
                writer.push(&first);
            }
            Some(offset) => writer.push_from(old, offset),
            None => writer.push(whole.new_tuple),
        }
    }
    writer.fits
}
