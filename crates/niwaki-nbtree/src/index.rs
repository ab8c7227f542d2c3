//! The handle of one index: its file, its root, and how its pages are reached.

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::atomic::AtomicU32;
use niwaki_storage::buffer::{PageRead, PageWrite, Pin};
use niwaki_storage::page::Page;
use niwaki_storage::record::{LoggedPage, Manager, Record};
use niwaki_storage::{BlockNumber, Corruption, Fork, PageId, RelFile, Storage, Xid};

use crate::bottom_up::{Failures, Hinted};
use crate::credit::Credit;
use crate::error::Result;
use crate::latch_hold::{LATCH_HOLD_BUCKETS, LatchHold};
use crate::options::{IndexOptions, OptionsCell};
use crate::pack::Packing;
use crate::page::{IndexPage, META_BLOCK, Meta, damage, flag};
use crate::recycle::{FIRST_ROOT, Link, Recycling};
use crate::stats::{Counters, IndexStats};
use crate::table::RemovedInterval;
use crate::wal;

/// Most steps to the right in one search. Each step follows a split that happened since the parent
/// was read; only a damaged file can have so many.
pub(crate) const MOVES_MAX: u32 = 1_000_000;

/// One index. Shared by all sessions; every operation takes `&self`.
///
/// A file without blocks, or with an all-zero metapage, is an empty index: the first insertion makes
/// its first pages. So recovery empties an unlogged index by cutting its file to nothing.
pub struct Index {
    pub(crate) storage: Arc<Storage>,
    pub(crate) file: RelFile,
    pub(crate) name: Box<str>,
    options: OptionsCell,
    /// Whether posting lists may be made at all.
    posting_lists: bool,
    /// The rightmost leaf as last seen by an insertion; 0 when unknown.
    pub(crate) rightmost: AtomicU32,
    pub(crate) recycling: Recycling,
    pub(crate) failures: Failures,
    pub(crate) hinted: Hinted,
    pub(crate) credit: Credit,
    pub(crate) packing: Packing,
    pub(crate) counters: Counters,
    pub(crate) latch_hold: LatchHold,
}

impl Index {
    /// A handle for the index in `file`. Does no I/O; the file may be empty. A file that is written has
    /// one handle: it knows which pages are free, and which links have grown old. `name` is for
    /// messages.
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
            hinted: Hinted::default(),
            credit: Credit::default(),
            packing: Packing::default(),
            counters: Counters::default(),
            latch_hold: LatchHold::default(),
        }
    }

    /// The same index, which never merges equal keys into posting lists, whatever its settings say: for
    /// indexes whose entries have a payload, or in which equal key bytes do not mean the same image
    /// (numeric 1.0 and 1.00).
    #[must_use]
    pub fn without_posting_lists(self) -> Self {
        Self { posting_lists: false, ..self }
    }

    /// Its file.
    pub fn file(&self) -> RelFile {
        self.file
    }

    /// Its name, as messages give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its settings now.
    #[inline]
    pub fn options(&self) -> IndexOptions {
        let mut options = self.options.get();
        options.deduplicate_items &= self.posting_lists;
        options
    }

    /// Changes its settings; operations that run already may still go by the old ones.
    pub fn set_options(&self, options: IndexOptions) {
        self.options.set(options);
    }

    /// What happened since it was opened.
    pub fn stats(&self) -> IndexStats {
        self.counters.read()
    }

    /// How many passes of deletion or deduplication held a full leaf's latch for how long, since it
    /// was opened. Bucket 0: under 1 us; bucket n: from 2^(n-1) to under 2^n us; the last one has the
    /// rest.
    pub fn latch_hold(&self) -> [u64; LATCH_HOLD_BUCKETS] {
        self.latch_hold.read()
    }

    /// Pages of its file.
    ///
    /// # Errors
    /// Storage's.
    pub fn blocks(&self) -> Result<u32> {
        Ok(self.storage.pool().blocks(self.file.id, Fork::Main)?)
    }

    /// How many of them are known to be free: the next splits use them. After a start none are, until the next pass of
    /// vacuum.
    pub fn free_pages(&self) -> usize {
        self.recycling.free_count()
    }

    /// Makes the first pages of an empty index: metapage and an empty root. Does nothing if they are
    /// there. Insertion does it on its own; this is for those who want it done before.
    ///
    /// # Errors
    /// Storage's.
    pub fn create(&self, xid: Xid) -> Result<()> {
        // Ends: every turn lets the file grow. A crash may have left it grown, and nothing in it.
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

    /// Latches for reading a page that cannot be deleted meanwhile (the caller has its left sibling
    /// latched), checking that it is an index page of this level.
    #[inline]
    pub(crate) fn read(&self, block: BlockNumber, level: u16) -> Result<PageRead<'_>> {
        let page = self.pin(block)?.into_read();
        self.expect_level(&page, block, level)?;
        Ok(page)
    }

    /// Latches for writing a page that cannot be deleted meanwhile, checking that it is an index page of
    /// this level.
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

    /// Damage on one of its pages, as an error.
    #[cold]
    pub(crate) fn damaged(
        &self,
        block: BlockNumber,
        item: Option<u16>,
        invariant: &'static str,
        detail: impl Into<String>,
    ) -> crate::Error {
        storage_damage(damage(self.page_id(block), item, invariant, detail))
    }

    /// Reads the metapage; `None` when nobody has made the first pages yet.
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

    /// Root and its level; `None` when the index has no pages.
    #[inline]
    pub(crate) fn root(&self) -> Result<Option<(BlockNumber, u16)>> {
        match self.glance_at_root() {
            Some(root) => Ok(Some(root)),
            None => Ok(self.read_meta()?.map(|meta| (meta.root, meta.level))),
        }
    }

    /// The metapage's answer without a latch. What was published was verified before.
    #[inline]
    fn glance_at_root(&self) -> Option<(BlockNumber, u16)> {
        let page = self.storage.pool().glance(self.page_id(META_BLOCK))?;
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

    /// Adds to the credit that deleted entries are.
    pub(crate) fn earn(&self, entries: u64) {
        // Without its files nothing is paid, and there is nothing to pay.
        self.credit.earn(entries, || self.blocks().map_or(0, u64::from));
    }

    /// Most entries that a page may hold, from the options.
    #[inline]
    pub(crate) fn items_max(&self) -> usize {
        self.options().page_items_max.map_or(usize::MAX, |max| usize::from(max.max(3)))
    }

    /// Whether a tuple of these bytes can be put on the page as it is, or compacted.
    #[inline]
    pub(crate) fn fits(&self, page: &Page, tuple_bytes: usize) -> bool {
        let bytes = tuple_bytes + crate::page::LINE_POINTER;
        // Seldom more than one look: a page is compacted for many entries at once.
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

pub(crate) fn storage_damage(corruption: Box<Corruption>) -> crate::Error {
    crate::Error::Storage(niwaki_storage::Error::Corruption(corruption))
}

/// The pages that a descent went through, by level: where to look first for a parent.
#[derive(Debug)]
pub(crate) struct Path {
    links: [Option<Link>; Path::LEVELS],
}

impl Path {
    /// More levels than any tree has: the smallest inner page that is not the root leads to two.
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

    /// How many pages it names.
    pub(crate) fn pages(&self) -> u64 {
        self.links.iter().flatten().count() as u64
    }
}
