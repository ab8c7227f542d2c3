//! Statistics of a heap's chains, collected page by page.

use niwaki_storage::page::{ItemState, PAGE_SIZE};
use niwaki_storage::{Mixed, OffsetNumber, PageKind};

use crate::diagnostics::distribution::Distribution;
use crate::error::Result;
use crate::format::header::flags;
use crate::format::page::{self, SPECIAL_SIZE};
use crate::relation::Heap;

/// Statistics of the pages visited so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainStats {
    /// Number of pages.
    pub pages: u64,
    /// Versions per root that has any. Versions of aborted updates count until a pass removes them.
    pub versions: Distribution,
    /// Mixed roots with a version.
    pub mixed: u64,
    /// Roots that are only a stub: their rows live on other pages.
    pub stubs: u64,
    /// Line pointers that wait for the removal of their index entries.
    pub dead: u64,
    /// Bytes between line pointers and tuples, of all pages together.
    pub free_bytes: u64,
}

impl Heap<'_> {
    /// Adds the statistics of a page, under one hold of its shared latch.
    ///
    /// # Errors
    /// Storage's.
    pub fn add_chain_stats(&self, block: u32, stats: &mut ChainStats) -> Result<()> {
        let pin = self.pin(block)?;
        let page = pin.read();
        stats.pages += 1;
        if page.kind() != PageKind::Heap {
            // The page was added to the file, and is not used yet.
            let empty = PAGE_SIZE - niwaki_storage::page::HEADER_SIZE - SPECIAL_SIZE;
            stats.free_bytes += empty as u64;
            return Ok(());
        }
        stats.free_bytes += page.free_bytes() as u64;
        let mut versions = vec![0u16; usize::from(page.item_count()) + 1];
        for tuple in (1..=page.item_count()).filter_map(|offset| page::tuple(&page, offset)) {
            let place = versions.get_mut(usize::from(tuple.root()));
            match place.filter(|_| !tuple.has(flags::STUB)) {
                Some(count) => *count += 1,
                None => stats.stubs += u64::from(tuple.has(flags::STUB)),
            }
        }
        for offset in 1..=page.item_count() {
            let id = page.item_id(OffsetNumber(offset));
            let count = versions[usize::from(offset)];
            match id.state() {
                ItemState::Dead => stats.dead += 1,
                ItemState::Normal | ItemState::Redirect if count > 0 => {
                    stats.versions.add(u64::from(count), 1);
                    stats.mixed += u64::from(id.mixed() != Mixed::No);
                }
                ItemState::Normal | ItemState::Redirect | ItemState::Unused => {}
            }
        }
        debug_assert!(stats.mixed <= stats.versions.total(), "a mixed root has a version");
        debug_assert!(stats.free_bytes <= stats.pages * PAGE_SIZE as u64, "{stats:?}");
        Ok(())
    }
}
