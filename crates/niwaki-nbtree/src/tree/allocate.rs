//! Hands out pages for new use, and tells whether links to pages are current (`recycle.rs`).

use std::cell::Cell;

use niwaki_env::seeded_bug;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::PageKind;
use niwaki_storage::{BlockNumber, Fork};

use crate::error::Result;
use crate::memory::recycle::{FIRST_ROOT, Link, Pages};
use crate::memory::stats::count;
use crate::page::layout::{IndexPage, META_BLOCK, NO_BLOCK};
use crate::tree::index::Index;

/// A page handed out to be written; free again if it is not written.
pub(crate) struct NewPage<'a> {
    index: &'a Index,
    pub(crate) block: BlockNumber,
    in_use: Cell<bool>,
}

impl NewPage<'_> {
    /// Notes that the page has its contents; its latch is still held.
    pub(crate) fn written(self) {
        self.in_use.set(true);
    }
}

impl Drop for NewPage<'_> {
    fn drop(&mut self) {
        let mut pages = self.index.recycling.pages.lock();
        pages.taken.remove(&self.block);
        if !self.in_use.get() {
            pages.free.insert(self.block);
        }
    }
}

impl Index {
    /// Returns a link to `block`. The caller reads the block number from a page in use that it has
    /// latched. Or the caller reads it optimistically, later than this call.
    #[inline]
    pub(crate) fn link(&self, block: BlockNumber) -> Link {
        Link { block, epoch: self.recycling.epoch() }
    }

    /// Decides whether a link is current: the page that it led to is the page that the caller has
    /// latched by it, or has just read optimistically.
    #[inline]
    pub(crate) fn is_current(&self, link: Link) -> bool {
        self.recycling.epoch() == link.epoch || seeded_bug!("links_never_grow_old")
    }

    /// Returns a page for a split, a new root or a build. Takes deleted pages before the file
    /// grows.
    pub(crate) fn allocate(&self) -> Result<NewPage<'_>> {
        let block = self.recycling.pages.lock().take();
        let block = match block {
            Some(block) => block,
            None => self.grow(1, |pages, grown| {
                let first = grown.next().unwrap_or(NO_BLOCK);
                pages.taken.insert(first);
                pages.free.extend(grown);
                first
            })?,
        };
        Ok(NewPage { index: self, block, in_use: Cell::new(false) })
    }

    /// Lets the file grow by `count` pages or more. `share` says what becomes of these pages before
    /// a pass of vacuum may find them unused.
    fn grow<T>(
        &self,
        count: u32,
        share: impl FnOnce(&mut Pages, &mut dyn Iterator<Item = BlockNumber>) -> T,
    ) -> Result<T> {
        self.recycling.pages.lock().growing += 1;
        let grown = self.storage.pool().extend(self.file, Fork::Main, count);
        let mut pages = self.recycling.pages.lock();
        debug_assert!(pages.growing > 0, "this thread is counted until now");
        pages.growing -= 1;
        let grown = grown?;
        debug_assert!(grown.count >= count, "the file grew by fewer pages than asked for");
        debug_assert!(count > 0, "a file grows by a page at least");
        let end = grown.first.0 + grown.count;
        Ok(share(&mut pages, &mut (grown.first.0..end).map(BlockNumber)))
    }

    /// Makes room for metapage and first root in a file that has none. Pages beyond these two are
    /// free.
    pub(crate) fn grow_first_pages(&self) -> Result<()> {
        self.grow(FIRST_ROOT.0 + 1, |pages, grown| {
            pages.free.extend(grown.filter(|&block| block > FIRST_ROOT));
        })
    }

    /// Latches a page that was handed out. From here on no link read before leads to it.
    pub(crate) fn use_page(&self, new: &NewPage<'_>) -> Result<PageWrite<'_>> {
        let page = self.pin(new.block)?.into_write();
        if page.is_new() {
            return Ok(page);
        }
        if page.kind() != PageKind::Nbtree || !page.is_deleted() || new.block == META_BLOCK {
            // The page is not handed out again.
            new.in_use.set(true);
            return Err(self.damaged(new.block, None, "B2", "a page in use was taken for free"));
        }
        self.recycling.advance();
        count(&self.counters.recycled_pages, 1);
        Ok(page)
    }
}
