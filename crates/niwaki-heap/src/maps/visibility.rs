//! The visibility map: the only record that every snapshot sees all of a page.
//!
//! Heap pages have no flag for that (docs/internals/design.md, "Visibility map").
//!
//! ```text
//! in memory   one atomic load tells    set and cleared together, heap page latched exclusively:
//! ─────────   (bits.rs)               ┌──────────┐ ┌─────────────┐ ┌────────────┐
//! map pages   two bits a heap page,   │ heap page│ │ map's page  │ │ bits in    │ one record
//! (map_page)  in a fork of their own  │ latched  │►│ latched     │►│ memory     │ names both pages
//!                                     └──────────┘ └─────────────┘ └────────────┘
//! ```
//!
//! - **Set** by passes of vacuum and of readers which find that every snapshot sees everything that
//!   is left. The map's page carries the LSN of the record, so it is not on disk before everything
//!   that it asserts is in the log. The heap page is not changed for this.
//! - **Cleared** in the record of the change itself, which names the map's page only if the bit was
//!   set.
//! - **Latches**: heap pages, then pages of the map, each in the order of their blocks. Nothing is
//!   latched after these.
//! - **Small heaps** have no map ([`crate::MapOptions::blocks_min`]).
//! - **Bounded**: bits for which no memory is left are read from the map's page, which costs a pin.

use std::ops::Range;

use niwaki_env::sync::plain_atomic::Ordering;
use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::page::Page;
use niwaki_storage::{
    BlockNumber, Corruption, Csn, Fork, LoggedPage, Manager, PageId, PageKind, PageLog, PageWrite,
    Record, Xid,
};

use crate::error::{Result, corruption};
use crate::format::change::{RECORD_VERSION, kind};
use crate::format::map_page::{self, BLOCKS_PER_VISIBILITY_PAGE, PageVisibility, SetBits};
use crate::memory::bits::{Kept, VisibilityMap};
use crate::relation::Heap;

/// Divisor of the buffer pool's size: the bits of all heaps may take 1 / `POOL_PART` of it in
/// memory.
const POOL_PART: usize = 64;

/// The most pages for which one record clears the map.
const CLEARED_MAX: usize = 1024;
const _: () = assert!(POOL_PART > 0 && CLEARED_MAX > 0);

/// Changes that a record makes to pages of the map. The pages are latched, but the changes are not
/// made yet. Mostly there are none.
#[derive(Debug, Default)]
pub(crate) struct MapChanges<'e>(Vec<MapChange<'e>>);

#[derive(Debug)]
struct MapChange<'e> {
    page: PageWrite<'e>,
    changes: Vec<SetBits>,
}

impl MapChanges<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'e> Heap<'e> {
    fn map(&self) -> &'e VisibilityMap {
        &self.relation.shared.map
    }

    /// Returns the most bytes that the bits of all heaps may take.
    fn map_memory_max(&self) -> usize {
        if self.map().options.resident {
            self.storage.pool().capacity() * niwaki_storage::page::PAGE_SIZE / POOL_PART
        } else {
            0
        }
    }

    fn map_page_id(&self, number: BlockNumber) -> PageId {
        PageId { file: self.relation.file.id, fork: Fork::Visibility, block: number }
    }

    /// Reads the heap's map, once; before that, the state of all pages is unknown. Every caller
    /// that changes a page or asks about one has called this before, without holding a latch.
    ///
    /// # Errors
    /// Storage's.
    #[inline]
    pub fn open_visibility_map(&self) -> Result<()> {
        // Acquire: pairs with the release after the bits were read.
        if self.map().loaded.load(Ordering::Acquire) { Ok(()) } else { self.load_visibility_map() }
    }

    #[cold]
    fn load_visibility_map(&self) -> Result<()> {
        let map = self.map();
        let _loading = map.loading.lock();
        if map.loaded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let pool = self.storage.pool();
        let pages = pool.blocks(self.relation.file.id, Fork::Visibility)?;
        let blocks = self.blocks()?.min(pages.saturating_mul(BLOCKS_PER_VISIBILITY_PAGE));
        let max = self.map_memory_max();
        map.bits.reach(blocks, max);
        let mut all_visible = 0;
        for number in (0..pages).map(BlockNumber) {
            let first = map_page::first(number);
            let end = first.saturating_add(BLOCKS_PER_VISIBILITY_PAGE).min(blocks);
            let pin = pool.pin(self.map_page_id(number))?;
            let page = pin.read();
            self.expect_map_page(&page, number)?;
            for block in first..end {
                let found = map_page::get(&page, block);
                if found != PageVisibility::Unknown {
                    map.bits.set(block, found, max);
                    all_visible += 1;
                }
            }
        }
        invariant!(V1, all_visible <= blocks, "{all_visible} of {blocks} pages are marked");
        map.all_visible.store(all_visible, Ordering::Relaxed);
        // Background tasks look at pages that a former run left without bits once the table is
        // used.
        self.relation.changes.report();
        map.loaded.store(true, Ordering::Release);
        Ok(())
    }

    fn expect_map_page(&self, page: &Page, number: BlockNumber) -> Result<()> {
        if page.is_new() || page.kind() == PageKind::Visibility {
            return Ok(());
        }
        let detail = "a page of another kind in a visibility map";
        Err(corruption(self.map_page_id(number), None, "V1", detail))
    }

    /// Returns the map's statement about a page. A caller that relies on it, instead of the heap
    /// page, holds the latch of the leaf with the entry, or of the heap page. Nothing is waited
    /// for, unless memory for the map is short.
    #[inline]
    pub fn page_visibility(&self, block: u32) -> PageVisibility {
        match self.map().bits.get(block) {
            Kept::Here(known) => known,
            // A page of the map that cannot be read asserts nothing.
            Kept::OnPage => self.visibility_on_page(block).unwrap_or_default(),
        }
    }

    #[cold]
    pub(crate) fn visibility_on_page(&self, block: u32) -> Result<PageVisibility> {
        let number = map_page::number(block);
        let pool = self.storage.pool();
        if number.0 >= pool.blocks(self.relation.file.id, Fork::Visibility)? {
            return Ok(PageVisibility::Unknown);
        }
        let pin = pool.pin(self.map_page_id(number))?;
        let page = pin.read();
        self.expect_map_page(&page, number)?;
        Ok(map_page::get(&page, block))
    }

    /// Returns the visibility as [`Heap::page_visibility`] does, for a caller that must clear bits
    /// that are set. The caller holds the heap page's exclusive latch.
    #[inline]
    fn visibility_to_change(&self, block: u32) -> Result<PageVisibility> {
        debug_assert!(self.map().loaded.load(Ordering::Relaxed), "nobody has read the map");
        match self.map().bits.get(block) {
            Kept::Here(known) => Ok(known),
            Kept::OnPage => self.visibility_on_page(block),
        }
    }

    /// Returns the map changes for a change of these heap pages (ascending), which are latched
    /// exclusively: afterwards, the map states at most `to` for them. Called before the change
    /// begins. The result goes into the record of the change.
    #[inline]
    pub(crate) fn lower_visibility<const N: usize>(
        &self,
        blocks: [u32; N],
        to: PageVisibility,
    ) -> Result<MapChanges<'e>> {
        debug_assert!(blocks.is_sorted_by(|a, b| a < b), "{blocks:?} are latched in this order");
        debug_assert!(to < PageVisibility::AllFrozen, "no change leaves a page frozen");
        let mut changes = MapChanges::default();
        let mut lower = [false; N];
        for (lower, block) in lower.iter_mut().zip(blocks) {
            *lower = self.visibility_to_change(block)? > to && !seeded_bug!("map-cleared");
        }
        // Only now: a thread that reads a page of the map while it has one latched might wait for
        // itself.
        for (_, block) in lower.into_iter().zip(blocks).filter(|(lower, _)| *lower) {
            self.change_visibility(SetBits { block, to, newest: Csn(0) }, &mut changes)?;
        }
        Ok(changes)
    }

    /// Returns the map changes that state `to` for a heap page, which is latched exclusively. There
    /// are none if the map says so already, or the heap is small.
    pub(crate) fn raise_visibility(
        &self,
        block: u32,
        to: PageVisibility,
        newest: Csn,
    ) -> Result<MapChanges<'e>> {
        debug_assert_ne!(to, PageVisibility::Unknown, "a pass that found nothing raises nothing");
        let mut changes = MapChanges::default();
        if self.visibility_to_change(block)? < to && self.blocks()? >= self.map().options.blocks_min
        {
            self.change_visibility(SetBits { block, to, newest }, &mut changes)?;
        }
        Ok(changes)
    }

    /// Clears the map for these pages, which are about to be cut off. The caller keeps all other
    /// sessions from the heap, so no heap page is latched.
    pub(crate) fn clear_visibility(&self, blocks: Range<u32>) -> Result<()> {
        if seeded_bug!("tail-map-stays") {
            return Ok(());
        }
        let mut said = Vec::new();
        for block in blocks {
            if self.visibility_to_change(block)? > PageVisibility::Unknown {
                said.push(block);
            }
        }
        for some in said.chunks(CLEARED_MAX) {
            let mut changes = MapChanges::default();
            for &block in some {
                let change = SetBits { block, to: PageVisibility::Unknown, newest: Csn(0) };
                self.change_visibility(change, &mut changes)?;
            }
            let _critical = self.storage.begin_change()?;
            self.log(kind::VISIBLE, Xid::INVALID, [], changes)?;
        }
        Ok(())
    }

    #[cold]
    fn change_visibility(&self, change: SetBits, changes: &mut MapChanges<'e>) -> Result<()> {
        let number = map_page::number(change.block);
        if let Some(last) = changes.0.last_mut() {
            let latched = last.page.id().block;
            if latched == number {
                last.changes.push(change);
                return Ok(());
            }
            debug_assert!(latched < number, "pages of the map are latched in block order");
        }
        let (pool, file) = (self.storage.pool(), self.relation.file);
        let pages = pool.blocks(file.id, Fork::Visibility)?;
        if number.0 >= pages {
            pool.extend(file, Fork::Visibility, number.0 + 1 - pages)?;
        }
        let page = pool.pin(self.map_page_id(number))?.into_write();
        self.expect_map_page(&page, number)?;
        changes.0.push(MapChange { page, changes: vec![change] });
        Ok(())
    }

    /// Makes the map's part of a change, and logs it together with the heap's part. The change has
    /// begun, and the heap's part is made already.
    #[inline]
    pub(crate) fn log<const N: usize>(
        &self,
        kind: u8,
        xid: Xid,
        pages: [LoggedPage<'_>; N],
        map: MapChanges<'_>,
    ) -> Result<()> {
        self.log_removing(kind, xid, pages, map, None)
    }

    /// Logs as [`Heap::log`] does, for a change that removes versions which lived in this interval.
    #[inline]
    pub(crate) fn log_removing<const N: usize>(
        &self,
        kind: u8,
        xid: Xid,
        mut pages: [LoggedPage<'_>; N],
        map: MapChanges<'_>,
        removes: Option<(Csn, Csn)>,
    ) -> Result<()> {
        if map.is_empty() {
            self.log_record(kind, xid, &mut pages, removes)
        } else {
            self.log_with_map(kind, xid, pages, map, removes)
        }
    }

    #[cold]
    fn log_with_map<const N: usize>(
        &self,
        kind: u8,
        xid: Xid,
        pages: [LoggedPage<'_>; N],
        map: MapChanges<'_>,
        removes: Option<(Csn, Csn)>,
    ) -> Result<()> {
        let mut map = map.0;
        let mut data = Vec::new();
        for MapChange { page, changes } in &mut map {
            let mode = if page.is_new() { PageLog::Init } else { PageLog::Delta };
            if mode == PageLog::Init {
                page.init(PageKind::Visibility, 0);
            }
            debug_assert!(!changes.is_empty(), "a page of the map is logged without a change");
            debug_assert!(
                changes.is_sorted_by(|a, b| a.block < b.block),
                "a page changes once in a record"
            );
            let mut bytes = Vec::new();
            for change in changes {
                let (before, now) = (map_page::get(page, change.block), change.to);
                let counted = &self.map().all_visible;
                match (before == PageVisibility::Unknown, now == PageVisibility::Unknown) {
                    (true, false) => _ = counted.fetch_add(1, Ordering::Relaxed),
                    (false, true) => _ = counted.fetch_sub(1, Ordering::Relaxed),
                    _ => {}
                }
                change.apply(page);
                change.encode(&mut bytes);
                self.map().bits.set(change.block, change.to, self.map_memory_max());
            }
            data.push((mode, bytes));
        }
        debug_assert_eq!(data.len(), map.len(), "data for each page of the map");
        let data: Vec<(PageLog, [&[u8]; 1])> =
            data.iter().map(|(mode, bytes)| (*mode, [bytes.as_slice()])).collect();
        let of_map = map
            .iter_mut()
            .zip(&data)
            .map(|(change, (mode, bytes))| LoggedPage::new(&mut change.page, *mode, bytes));
        let mut pages: Vec<LoggedPage<'_>> = pages.into_iter().chain(of_map).collect();
        self.log_record(kind, xid, &mut pages, removes)
    }

    /// Logs a change that is already made on the pages.
    #[inline]
    pub(crate) fn log_record(
        &self,
        kind: u8,
        xid: Xid,
        pages: &mut [LoggedPage<'_>],
        removes: Option<(Csn, Csn)>,
    ) -> Result<()> {
        debug_assert!((kind::INSERT..=kind::VISIBLE).contains(&kind), "a record of kind {kind}");
        debug_assert!(!pages.is_empty(), "a record without a page");
        debug_assert!(
            xid.is_normal() || kind >= kind::PRUNE,
            "a transaction makes each change of a row"
        );
        debug_assert!(removes.is_none() || kind == kind::PRUNE, "only a pass removes versions");
        self.storage.log_for(
            self.relation.file.logged,
            Record {
                manager: Manager::Heap,
                kind,
                version: RECORD_VERSION,
                xid,
                body: &[],
                pages,
                removes,
            },
        )?;
        self.relation.changes.report();
        Ok(())
    }

    /// Returns whether the heap, and so its map, was used since it was opened.
    pub fn knows_visibility(&self) -> bool {
        self.map().loaded.load(Ordering::Acquire)
    }

    /// Returns whether the heap is large enough for a map.
    ///
    /// # Errors
    /// Storage's.
    pub fn has_visibility_map(&self) -> Result<bool> {
        self.open_visibility_map()?;
        Ok(self.blocks()? >= self.map().options.blocks_min)
    }

    /// Returns the first page from `from` on that the map does not mark. Pages whose bits are only
    /// on the map's pages are skipped.
    ///
    /// # Errors
    /// Storage's.
    pub fn next_unknown_page(&self, from: u32) -> Result<Option<u32>> {
        self.open_visibility_map()?;
        Ok(self.map().bits.next_unknown(from, self.blocks()?))
    }

    /// Checks that the map's pages are of their own kind, contain only valid bits, and mark no page
    /// that the heap does not have (V1). No other session may write the table.
    ///
    /// # Errors
    /// Storage's: a page cannot be read at all.
    pub fn check_visibility_map(&self, report: &mut Vec<Corruption>) -> Result<()> {
        let pool = self.storage.pool();
        let blocks = self.blocks()?;
        for number in (0..pool.blocks(self.relation.file.id, Fork::Visibility)?).map(BlockNumber) {
            let pin = pool.pin(self.map_page_id(number))?;
            let page = pin.read();
            let mut fault = |detail| {
                let file = format!("base/{}.visible", self.relation.file.id);
                let block = Some(number.0);
                report.push(Corruption { file, block, item: None, invariant: "V1", detail });
            };
            if !page.is_new() && page.kind() != PageKind::Visibility {
                fault(format!("a page of kind {:?} in a visibility map", page.kind()));
                continue;
            }
            let first = map_page::first(number);
            for block in (0..BLOCKS_PER_VISIBILITY_PAGE).filter_map(|at| first.checked_add(at)) {
                let bits = map_page::bits(&page, block);
                if PageVisibility::from_bits(bits).is_none() {
                    fault(format!("heap page {block} has the bits {bits:#b}, which are never set"));
                } else if bits != 0 && block >= blocks {
                    fault(format!("it speaks of heap page {block}, and there are {blocks}"));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of pages that the map marks as visible to all.
    ///
    /// # Errors
    /// Storage's.
    pub fn all_visible_pages(&self) -> Result<u32> {
        self.open_visibility_map()?;
        Ok(self.map().all_visible.load(Ordering::Relaxed))
    }

    /// Returns the bytes of memory that the heap's map takes.
    pub fn visibility_map_bytes(&self) -> usize {
        self.map().bits.bytes()
    }
}
