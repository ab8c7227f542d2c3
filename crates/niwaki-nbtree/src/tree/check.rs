//! Finds damage in an index: violations of B1, B2, B3, X2 and the format.
//!
//! The check walks level by level from the B-tree root, along the right links. It compares each
//! page with its neighbours and with the downlinks of the level above. No other thread may write to
//! the index meanwhile.

use std::collections::BTreeSet;

use niwaki_storage::page::{Page, PageKind};
use niwaki_storage::{BlockNumber, BlocksAhead, Corruption, Fork, OffsetNumber, ReadAhead};

use crate::error::{Error, Result};
use crate::page::change::is_dead;
use crate::page::entry::BatchEntry;
use crate::page::layout::{IndexPage, META_BLOCK, Meta, NO_BLOCK, damage, flag, read_u16};
use crate::page::tuple::{
    ENTRY_MAX, INFO_AT, LeafTuple, POSTING_MAX, PivotTuple, TID_SIZE, info, sort_key, tid_number,
};
use crate::tree::index::Index;

/// The findings of a check, with counts of pages and entries.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Everything that is wrong; the same damage may show in several places.
    pub corruptions: Vec<Corruption>,
    /// Levels of the tree; 0 when the index has no pages.
    pub levels: u16,
    /// Leaf pages.
    pub leaf_pages: u32,
    /// Inner pages.
    pub inner_pages: u32,
    /// Pages of the file that are not in use: never used, or deleted.
    pub unused_pages: u32,
    /// Unused pages that the index does not know of. Only the next pass of vacuum brings them back
    /// to use.
    pub leaked_pages: u32,
    /// Pages whose deletion the next pass of vacuum will finish.
    pub half_dead_pages: u32,
    /// Pages whose split the next insertion will finish.
    pub incomplete_splits: u32,
    /// Entries, including entries marked LP_DEAD; each TID of a posting list is one.
    pub entries: u64,
    /// Posting lists.
    pub posting_lists: u64,
    /// Entries marked LP_DEAD.
    pub dead_entries: u64,
    /// Bytes of leaf pages that store nothing.
    pub leaf_free_bytes: u64,
}

/// A bound: key and TID of a pivot; `None` is minus infinity.
type Bound = Option<(Vec<u8>, u64)>;

/// A page as the level above describes it.
struct Child {
    block: BlockNumber,
    low: Bound,
}

/// The state of a check.
struct Checker<'a> {
    index: &'a Index,
    report: CheckReport,
    visited: BTreeSet<BlockNumber>,
}

/// The most findings that a report keeps; a page of garbage would give thousands.
const CORRUPTIONS_MAX: usize = 1000;

impl Index {
    /// Examines every page, and passes every entry to `each`, in order where the index is in order.
    ///
    /// # Errors
    /// Storage's, except damage, which goes into the report.
    pub fn check(&self, each: &mut dyn FnMut(BatchEntry<'_>)) -> Result<CheckReport> {
        let mut checker =
            Checker { index: self, report: CheckReport::default(), visited: BTreeSet::new() };
        if self.blocks()? > 0 {
            checker.run(each)?;
        }
        Ok(checker.report)
    }
}

impl Checker<'_> {
    fn run(&mut self, each: &mut dyn FnMut(BatchEntry<'_>)) -> Result<()> {
        let Some(page) = self.page(META_BLOCK)? else { return Ok(()) };
        if page.is_new() {
            // The index is empty. Pages with contents would have lost their metapage.
            return self.unvisited();
        }
        self.visited.insert(META_BLOCK);
        let meta = match Meta::read(&page, self.index.page_id(META_BLOCK)) {
            Ok(meta) => meta,
            Err(corruption) => {
                self.add(*corruption);
                return Ok(());
            }
        };
        self.report.levels = meta.level + 1;
        let mut children = vec![Child { block: meta.root, low: None }];
        for level in (0..=meta.level).rev() {
            children = self.level(level, &children, each)?;
            if children.is_empty() {
                break;
            }
        }
        self.unvisited()
    }

    /// Returns a copy of the page, or `None` when the page cannot be read: then the damage is in
    /// the report.
    fn page(&mut self, block: BlockNumber) -> Result<Option<Box<Page>>> {
        let page = match self.index.pin(block) {
            Ok(pin) => Box::new(pin.read().clone()),
            Err(Error::Storage(niwaki_storage::Error::Corruption(corruption))) => {
                self.add(*corruption);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if let Err(corruption) = page.check_deep(self.index.page_id(block)) {
            self.add(corruption);
            return Ok(None);
        }
        Ok(Some(page))
    }

    fn add(&mut self, corruption: Corruption) {
        if self.report.corruptions.len() < CORRUPTIONS_MAX {
            self.report.corruptions.push(corruption);
        }
        debug_assert!(!self.report.corruptions.is_empty(), "a finding was reported");
        debug_assert!(self.report.corruptions.len() <= CORRUPTIONS_MAX, "the report is bounded");
    }

    fn wrong(
        &mut self,
        block: BlockNumber,
        item: Option<u16>,
        invariant: &'static str,
        detail: impl Into<String>,
    ) {
        self.add(*damage(self.index.page_id(block), item, invariant, detail));
    }

    /// Checks one level from its leftmost page. `expected` are the children that the level above
    /// names, in order. Returns the children that this level names.
    fn level(
        &mut self,
        level: u16,
        expected: &[Child],
        each: &mut dyn FnMut(BatchEntry<'_>),
    ) -> Result<Vec<Child>> {
        let mut below = Vec::new();
        let (pool, file) = (self.index.storage.pool(), self.index.file.id);
        // The level above names the next pages, wherever in the file they are.
        let named = expected.iter().map(|child| child.block.0);
        let mut ahead = BlocksAhead::new(pool, file, Fork::Main, ReadAhead::default(), named);
        let mut expected = expected.iter().peekable();
        let first = expected.peek().map_or(NO_BLOCK, |child| child.block);
        let mut block = self.leftmost(level, first)?;
        let mut prev = NO_BLOCK;
        let mut low: Bound = None;
        let mut last: Bound = None;
        let mut incomplete = false;
        while block != NO_BLOCK {
            if !self.visited.insert(block) {
                self.wrong(block, None, "B2", format!("page {prev} leads to a page seen before"));
                break;
            }
            if expected.peek().is_some_and(|child| child.block == block) {
                ahead.next();
            }
            let Some(page) = self.page(block)? else { break };
            if let Err(corruption) = page.verify(self.index.page_id(block), Some(level)) {
                self.add(*corruption);
                break;
            }
            self.links(block, &page, prev);
            if page.is_half_dead() {
                if incomplete {
                    self.wrong(block, None, "B2", "half-dead without ever having had a downlink");
                }
                self.half_dead(block, &page);
                prev = block;
                block = page.next();
                continue;
            }
            match expected.next_if(|child| child.block == block) {
                Some(child) => {
                    if incomplete {
                        let detail =
                            format!("page {prev} is marked incomplete, but has its parent");
                        self.wrong(block, None, "B1", detail);
                    }
                    if child.low != low {
                        self.wrong(
                            block,
                            None,
                            "B1",
                            "the parent's pivot is not the left high key",
                        );
                    }
                }
                None if incomplete => {}
                None => self.wrong(block, None, "B2", "no downlink leads to this page"),
            }
            let high = self.entries(level, block, &page, &low, &mut last, &mut below, each);
            incomplete = page.is_incomplete();
            self.report.incomplete_splits += u32::from(incomplete);
            low = high;
            prev = block;
            block = page.next();
        }
        if incomplete {
            self.wrong(prev, None, "B2", "marked incomplete, without right half");
        }
        for child in expected {
            self.wrong(
                child.block,
                None,
                "B2",
                "downlink to a page that sibling links do not reach",
            );
        }
        Ok(below)
    }

    /// Returns the first page of a level. Half-dead pages may lie left of the first page that has a
    /// downlink.
    fn leftmost(&mut self, level: u16, mut block: BlockNumber) -> Result<BlockNumber> {
        let mut seen = BTreeSet::new();
        while block != NO_BLOCK && seen.insert(block) {
            let Some(page) = self.page(block)? else { break };
            let Some(left) = Some(page.prev()).filter(|&left| left != NO_BLOCK) else { break };
            let Some(neighbour) = self.page(left)? else { break };
            let fits = neighbour.verify(self.index.page_id(left), Some(level)).is_ok()
                && neighbour.is_half_dead()
                && neighbour.next() == block;
            if !fits {
                break;
            }
            block = left;
        }
        Ok(block)
    }

    /// Checks that a half-dead page is empty, and not the last of its level: it gave its range to
    /// the page on its right.
    fn half_dead(&mut self, block: BlockNumber, page: &Page) {
        self.report.half_dead_pages += 1;
        if page.entry_count() > 0 || page.is_rightmost() || page.is_incomplete() {
            self.wrong(block, None, "B2", "half-dead, and not empty, the last, or half a split");
        }
        self.high_key(block, page);
    }

    fn links(&mut self, block: BlockNumber, page: &Page, prev: BlockNumber) {
        if page.prev() != prev {
            let detail = format!("left link to {} instead of {prev}", page.prev());
            self.wrong(block, None, "B2", detail);
        }
        if page.reserved() != 0 || page.index_flags() & !flag::ALL != 0 || page.flags() != 0 {
            self.wrong(block, None, "format", "unknown flags or reserved bytes");
        }
    }

    /// Checks the items of a page, collects its downlinks, and returns its high key.
    #[expect(clippy::too_many_arguments, reason = "the state of one walk along a level")]
    fn entries(
        &mut self,
        level: u16,
        block: BlockNumber,
        page: &Page,
        low: &Bound,
        last: &mut Bound,
        below: &mut Vec<Child>,
        each: &mut dyn FnMut(BatchEntry<'_>),
    ) -> Bound {
        let high = self.high_key(block, page);
        if level == 0 {
            self.report.leaf_pages += 1;
            self.report.leaf_free_bytes += page.room() as u64;
        } else {
            self.report.inner_pages += 1;
            if page.entry_count() == 0 {
                self.wrong(block, None, "B2", "an inner page without downlinks");
            }
        }
        for offset in page.first_entry()..=page.item_count() {
            let tuple = page.tuple(offset);
            let first = offset == page.first_entry();
            if level == 0 {
                self.leaf_entry(block, page, offset, each);
            } else {
                self.downlink(block, tuple, offset, first, low, below);
            }
            if level > 0 && first {
                continue;
            }
            let (key, tid) = sort_key(tuple);
            let here = Some((key.to_vec(), tid));
            if here == *last {
                self.wrong(block, Some(offset), "X2", "equal to the entry before");
            } else if here < *last {
                self.wrong(block, Some(offset), "B1", "smaller than the entry before");
            }
            if low.is_some() && here <= *low {
                self.wrong(block, Some(offset), "B1", "not above the page's lower bound");
            }
            if high.is_some() && here > high {
                self.wrong(block, Some(offset), "B1", "above the page's high key");
            }
            // The next entry and the high key must be above the last TID of a list.
            let here = match LeafTuple::decode(tuple) {
                Some(list) if level == 0 && list.is_posting() => {
                    let end = Some((key.to_vec(), tid_number(list.tids.last())));
                    if high.is_some() && end > high {
                        self.wrong(block, Some(offset), "B1", "the list ends above the high key");
                    }
                    end.max(here)
                }
                _ => here,
            };
            *last = here.max(last.take());
        }
        if high.is_some() && low.is_some() && high <= *low {
            self.wrong(block, Some(1), "B1", "the high key is not above the left sibling's");
        }
        high
    }

    fn high_key(&mut self, block: BlockNumber, page: &Page) -> Bound {
        if page.is_rightmost() {
            return None;
        }
        let id = page.item_id(OffsetNumber(1));
        match page.high_key().and_then(PivotTuple::decode) {
            Some(pivot)
                if pivot.downlink == NO_BLOCK && !pivot.is_minus_infinity() && id.is_normal() =>
            {
                Some((pivot.key.to_vec(), pivot.tid.map_or(0, tid_number)))
            }
            _ => {
                self.wrong(block, Some(1), "B1", "not a high key");
                None
            }
        }
    }

    fn leaf_entry(
        &mut self,
        block: BlockNumber,
        page: &Page,
        offset: u16,
        each: &mut dyn FnMut(BatchEntry<'_>),
    ) {
        let tuple = page.tuple(offset);
        if tuple.len() > ENTRY_MAX {
            self.wrong(block, Some(offset), "format", format!("{} bytes", tuple.len()));
        }
        let Some(item) = LeafTuple::decode(tuple) else {
            return if is_posting(tuple) {
                self.wrong(block, Some(offset), "B3", "a posting list of wrong size");
            } else {
                self.wrong(block, Some(offset), "format", "not a leaf entry");
            };
        };
        if item.tids.iter().any(|tid| tid.offset.0 == 0) {
            let detail = format!("impossible TID in {:?}", item.tids);
            self.wrong(block, Some(offset), "format", detail);
        }
        if item.is_posting() {
            self.report.posting_lists += 1;
            if !item.tids.ascend() {
                self.wrong(block, Some(offset), "B3", format!("out of order: {:?}", item.tids));
            }
            if tuple.len() > POSTING_MAX {
                let detail = format!("a posting list of {} bytes", tuple.len());
                self.wrong(block, Some(offset), "B3", detail);
            }
        }
        let entries = item.tids.len() as u64;
        self.report.entries += entries;
        if is_dead(page, offset) {
            self.report.dead_entries += entries;
        }
        for tid in item.tids.iter() {
            each(BatchEntry { key: item.key, payload: item.payload, tid });
        }
    }

    fn downlink(
        &mut self,
        block: BlockNumber,
        tuple: &[u8],
        offset: u16,
        first: bool,
        low: &Bound,
        below: &mut Vec<Child>,
    ) {
        let Some(pivot) = PivotTuple::decode(tuple).filter(|_| tuple.len() <= ENTRY_MAX + TID_SIZE)
        else {
            return self.wrong(block, Some(offset), "format", "not a pivot");
        };
        if first != pivot.is_minus_infinity() {
            self.wrong(block, Some(offset), "B1", "only the first pivot is minus infinity");
        }
        let bound = if first {
            low.clone()
        } else {
            Some((pivot.key.to_vec(), pivot.tid.map_or(0, tid_number)))
        };
        below.push(Child { block: pivot.downlink, low: bound });
    }

    /// Decides whether a page is deleted. Reports a deleted page that still has contents.
    fn is_deleted(&mut self, block: BlockNumber, page: &Page) -> bool {
        if page.kind() != PageKind::Nbtree || !page.is_deleted() {
            return false;
        }
        let leaf = if page.level() == 0 { flag::LEAF } else { 0 };
        let links = [page.prev(), page.next()];
        if page.item_count() > 0
            || links != [NO_BLOCK; 2]
            || page.index_flags() != flag::DELETED | leaf
        {
            self.wrong(block, None, "B2", "deleted, and not empty");
        }
        true
    }

    /// Checks that every page that the walk did not reach is unused, and that no page in use is
    /// listed as free.
    fn unvisited(&mut self) -> Result<()> {
        for block in (0..self.index.blocks()?).map(BlockNumber) {
            if self.visited.contains(&block) {
                if self.index.recycling.is_free(block) {
                    self.wrong(block, None, "B2", "a page in use is listed as free");
                }
                continue;
            }
            let Some(page) = self.page(block)? else { continue };
            if page.is_new() || self.is_deleted(block, &page) {
                self.report.unused_pages += 1;
                self.report.leaked_pages += u32::from(!self.index.recycling.is_free(block));
            } else {
                self.wrong(block, None, "B2", "a page that nothing leads to");
            }
        }
        Ok(())
    }
}

fn is_posting(tuple: &[u8]) -> bool {
    read_u16(tuple, INFO_AT) & info::POSTING != 0
}
