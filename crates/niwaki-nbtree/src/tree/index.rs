//! The handle of one index, through which every operation reaches the index's pages.

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::atomic::AtomicU32;
use niwaki_storage::buffer::{PageRead, PageWrite, Pin};
use niwaki_storage::page::Page;
use niwaki_storage::record::{LoggedPage, Manager, Record};
use niwaki_storage::{BlockNumber, Corruption, Fork, PageId, RelFile, Storage, Xid};

use crate::error::{Error, Result};
use crate::memory::credit::Credit;
use crate::memory::density::Packing;
use crate::memory::failures::{Failures, VersionLeaves};
use crate::memory::latch_hold::{LATCH_HOLD_BUCKETS, LatchHold};
use crate::memory::options::{IndexOptions, OptionsCell};
use crate::memory::recycle::{FIRST_ROOT, Link, Recycling};
use crate::memory::stats::{Counters, IndexStats};
use crate::page::layout::{IndexPage, LINE_POINTER, META_BLOCK, Meta, damage, flag};
use crate::page::tuple::TUPLE_HEADER;
use crate::page::wal;
use crate::table::RemovedInterval;

/// The most steps to the right in one search, in pages. Each step follows a split that happened
/// since the search read the parent. Only a damaged file can need a million steps.
pub(crate) const MOVES_MAX: u32 = 1_000_000;

/// One B-tree index. All sessions share the handle; every operation takes `&self`.
///
/// A file without blocks, or with an all-zero metapage, is an empty index: the first insertion
/// makes its first pages. So recovery empties an unlogged index by truncating its file to zero
/// blocks.
pub struct Index {
    pub(crate) storage: Arc<Storage>,
    pub(crate) file: RelFile,
    pub(crate) name: Box<str>,
    options: OptionsCell,
    /// True if the index may make posting lists at all.
    posting_lists: bool,
    /// The rightmost leaf as last seen by an insertion; 0 when unknown.
    pub(crate) rightmost: AtomicU32,
    pub(crate) recycling: Recycling,
    pub(crate) failures: Failures,
    pub(crate) version_leaves: VersionLeaves,
    pub(crate) credit: Credit,
    pub(crate) packing: Packing,
    pub(crate) counters: Counters,
    pub(crate) latch_hold: LatchHold,
}

impl Index {
    /// Returns a handle for the index in `file`. Does no I/O; the file may be empty. A file that is
    /// written has one handle, since the handle knows the free pages and the outdated links. `name`
    /// is for messages.
    pub fn new(storage: Arc<Storage>, file: RelFile, name: &str, options: IndexOptions) -> Self {
        Self {
            storage,
            file,
            name: name.into(),
            options: OptionsCell::new(options),
            posting_lists: true,
            rightmost: AtomicU32::new(0),
            recycling: Recycling::new(),
            failures: Failures::default(),
            version_leaves: VersionLeaves::default(),
            credit: Credit::default(),
            packing: Packing::default(),
            counters: Counters::default(),
            latch_hold: LatchHold::default(),
        }
    }

    /// Returns the same index, which now never merges equal keys into posting lists, whatever its
    /// settings say. This is for indexes whose entries have a payload. It is also for indexes in
    /// which equal key bytes do not mean the same image (numeric 1.0 and 1.00).
    #[must_use]
    pub fn without_posting_lists(self) -> Self {
        Self { posting_lists: false, ..self }
    }

    /// Returns the file of the index.
    pub fn file(&self) -> RelFile {
        self.file
    }

    /// Returns the name of the index, as messages give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the current settings.
    #[inline]
    pub fn options(&self) -> IndexOptions {
        let mut options = self.options.get();
        options.deduplicate_items &= self.posting_lists;
        options
    }

    /// Changes the settings. Operations that run already may still use the old ones.
    pub fn set_options(&self, options: IndexOptions) {
        self.options.set(options);
    }

    /// Returns the counters of this index since it was opened.
    pub fn stats(&self) -> IndexStats {
        self.counters.read()
    }

    /// Returns a histogram since the index was opened: how long passes of deletion or deduplication
    /// held the latch of a full leaf. Bucket 0 counts passes under 1 us. Bucket n counts passes
    /// from 2^(n-1) to under 2^n us. The last bucket has the rest.
    pub fn latch_hold(&self) -> [u64; LATCH_HOLD_BUCKETS] {
        self.latch_hold.read()
    }

    /// Returns the number of pages of the index's file.
    ///
    /// # Errors
    /// Storage's.
    pub fn blocks(&self) -> Result<u32> {
        Ok(self.storage.pool().blocks(self.file.id, Fork::Main)?)
    }

    /// Returns the number of pages of the file that are known to be free. The next splits use them.
    /// After a start no page is known to be free until the next pass of vacuum.
    pub fn free_pages(&self) -> usize {
        self.recycling.free_count()
    }

    /// Makes the first pages of an empty index: metapage and an empty root. Does nothing if the
    /// pages exist. Insertion does this by itself; callers that need the pages earlier call this
    /// function.
    ///
    /// # Errors
    /// Storage's.
    pub fn create(&self, xid: Xid) -> Result<()> {
        // Ends: every round lets the file grow. A crash may have left the file grown and its pages
        // empty.
        while self.blocks()? <= FIRST_ROOT.0 {
            self.grow_first_pages()?;
        }
        let mut meta = self.pin(META_BLOCK)?.into_write();
        if !meta.is_new() {
            return Ok(());
        }
        let mut root = self.pin(FIRST_ROOT)?.into_write();
        if !root.is_new() {
            return Err(self.damaged(META_BLOCK, None, "B2", "the metapage is lost"));
        }
        let critical = self.storage.begin_change()?;
        root.init_index(0, flag::LEAF);
        Meta::new(FIRST_ROOT, 0).write_new(&mut meta);
        let pages = &mut [LoggedPage::image(&mut meta), LoggedPage::image(&mut root)];
        self.log(wal::kind::PAGES, xid, pages, None);
        drop(critical);
        Ok(())
    }

    pub(crate) fn page_id(&self, block: BlockNumber) -> PageId {
        PageId { file: self.file.id, fork: Fork::Main, block }
    }

    #[inline]
    pub(crate) fn pin(&self, block: BlockNumber) -> Result<Pin<'_>> {
        Ok(self.storage.pool().pin(self.page_id(block))?)
    }

    /// Pins a page if it is in the pool, for callers that use the page only unchanged. A page that
    /// is read in again has another version (rule `leaf-version`).
    pub(crate) fn pin_if_resident(&self, block: BlockNumber) -> Option<Pin<'_>> {
        self.storage.pool().pin_if_resident(self.page_id(block))
    }

    /// Latches a page for reading, and checks that it is an index page of this level. The page
    /// cannot be deleted meanwhile: the caller has its left sibling latched.
    #[inline]
    pub(crate) fn read(&self, block: BlockNumber, level: u16) -> Result<PageRead<'_>> {
        let page = self.pin(block)?.into_read();
        self.expect_level(&page, block, level)?;
        Ok(page)
    }

    /// Latches a page for writing, and checks that it is an index page of this level. The page
    /// cannot be deleted meanwhile.
    #[inline]
    pub(crate) fn write(&self, block: BlockNumber, level: u16) -> Result<PageWrite<'_>> {
        let page = self.pin(block)?.into_write();
        self.expect_level(&page, block, level)?;
        Ok(page)
    }

    #[inline]
    pub(crate) fn expect_level(&self, page: &Page, block: BlockNumber, level: u16) -> Result<()> {
        page.verify(self.page_id(block), Some(level)).map_err(storage_damage)
    }

    /// Returns an error that reports damage on a page of the index.
    #[cold]
    pub(crate) fn damaged(
        &self,
        block: BlockNumber,
        item: Option<u16>,
        invariant: &'static str,
        detail: impl Into<String>,
    ) -> Error {
        storage_damage(damage(self.page_id(block), item, invariant, detail))
    }

    /// Reads the metapage. Returns `None` when the first pages do not exist yet.
    pub(crate) fn read_meta(&self) -> Result<Option<Meta>> {
        if self.blocks()? == 0 {
            return Ok(None);
        }
        let page = self.pin(META_BLOCK)?.into_read();
        if page.is_new() {
            return Ok(None);
        }
        let meta = Meta::read(&page, self.page_id(META_BLOCK)).map_err(storage_damage)?;
        page.publish();
        Ok(Some(meta))
    }

    /// Returns the B-tree root and its level; `None` when the index has no pages.
    #[inline]
    pub(crate) fn root(&self) -> Result<Option<(BlockNumber, u16)>> {
        match self.optimistic_root() {
            Some(root) => Ok(Some(root)),
            None => Ok(self.read_meta()?.map(|meta| (meta.root, meta.level))),
        }
    }

    /// Reads the root from the metapage without a latch (optimistic read). Published contents were
    /// verified before they were published.
    #[inline]
    fn optimistic_root(&self) -> Option<(BlockNumber, u16)> {
        let page = self.storage.pool().read_optimistically(self.page_id(META_BLOCK))?;
        let at = usize::from(page.item_id(1).offset());
        let root = BlockNumber(page.u64_at(at + Meta::ROOT_AT) as u32);
        let level = page.u64_at(at + Meta::LEVEL_AT) as u16;
        page.holds().then_some((root, level))
    }

    /// Writes a change of pages to the log. Called inside a critical section, after the change, so
    /// it cannot fail: a full disk was noticed when the section began.
    #[inline]
    pub(crate) fn log(
        &self,
        kind: u8,
        xid: Xid,
        pages: &mut [LoggedPage<'_>],
        removes: RemovedInterval,
    ) {
        debug_assert!(
            wal::takes_pages(kind, pages.len()),
            "redo refuses a record of kind {kind} with {} pages",
            pages.len()
        );
        debug_assert!(
            removes.is_none() || kind == wal::kind::DELETE,
            "only a record of deleted entries removes versions"
        );
        let record = Record {
            manager: Manager::Nbtree,
            kind,
            version: wal::VERSION,
            xid,
            body: &[],
            pages,
            removes,
        };
        if let Err(error) = self.storage.log_for(self.file.logged, record) {
            panic!("W1: pages were changed and could not be logged: {error}");
        }
    }

    /// Adds to the credit that deleted entries earn.
    pub(crate) fn earn(&self, entries: u64) {
        // A failure to read the file's size earns nothing: without the file there is nothing to pay
        // for.
        self.credit.earn(entries, || self.blocks().map_or(0, u64::from));
    }

    /// Returns the most items that a page may hold, from the options.
    #[inline]
    pub(crate) fn items_max(&self) -> usize {
        self.options().page_items_max.map_or(usize::MAX, |max| usize::from(max.max(3)))
    }

    /// Returns the most TIDs of a posting list, whatever its key.
    pub(crate) fn tids_max(&self) -> u16 {
        self.options().page_items_max.map_or(u16::MAX, |max| max.max(3))
    }

    /// Decides whether a tuple of `tuple_bytes` fits the page as it is, or after compaction.
    #[inline]
    pub(crate) fn fits(&self, page: &Page, tuple_bytes: usize) -> bool {
        debug_assert!(tuple_bytes >= TUPLE_HEADER, "a tuple of {tuple_bytes} bytes has no header");
        let bytes = tuple_bytes + LINE_POINTER;
        // Mostly one of the two looks is enough: a page is compacted for many entries at once.
        (bytes <= page.free_bytes() || bytes <= page.room())
            && usize::from(page.entry_count()) < self.items_max()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name)
            .field("file", &self.file)
            .field("options", &self.options())
            .finish_non_exhaustive()
    }
}

pub(crate) fn storage_damage(corruption: Box<Corruption>) -> Error {
    Error::Storage(niwaki_storage::Error::Corruption(corruption))
}

/// The pages of one descent, by level: the first places to look for a parent.
#[derive(Debug)]
pub(crate) struct Path {
    links: [Option<Link>; Path::LEVELS],
}

impl Path {
    /// More levels than any tree has: the smallest inner page that is not the root has two
    /// children.
    const LEVELS: usize = 32;

    #[inline]
    pub(crate) fn new() -> Self {
        Self { links: [None; Self::LEVELS] }
    }

    #[inline]
    pub(crate) fn note(&mut self, level: u16, link: Link) {
        if let Some(place) = self.links.get_mut(usize::from(level)) {
            *place = Some(link);
        }
    }

    #[inline]
    pub(crate) fn at(&self, level: u16) -> Option<Link> {
        self.links.get(usize::from(level)).copied().flatten()
    }

    /// Returns the number of pages that the path names.
    pub(crate) fn pages(&self) -> u64 {
        self.links.iter().flatten().count() as u64
    }
}
