//! `mixed`: the flag of a root to which index entries with other keys than its version's may lead
//! (rules 9b.2 and 9b.9). It lives with the root's line pointer.
//!
//! ```text
//!       a change of keys, an index build           begin_cleaning
//!  no ──────────────────────────────────► yes ─────────────────────► cleaning
//!   ▲                                       ◄─────────────────────────  │
//!   │                                          a change of keys          │
//!   └────────────────────────────────────────────────────────────────────┘
//!                  clear_mixed: first the unmix counter, then the flag
//! ```
//!
//! Who cleans visits every entry of the root in every index between `begin_cleaning` and
//! `clear_mixed`, and is the only one to do so in the table (rule 9b.10). *Cleaning* is known in memory
//! only: a page that is written, or evicted, says yes to whoever reads it, and nothing is cleared then.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_storage::page::Page;
use niwaki_storage::{LoggedPage, Mixed, OffsetNumber, Xid};
use niwaki_txn::XidStatus;

use crate::change::{self, kind};
use crate::error::{Result, corruption};
use crate::header::flags;
use crate::page::{self, Chain};
use crate::relation::Heap;

/// How often roots of one heap were cleared of `mixed` since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Unmixes(AtomicU64);

/// State of a heap's unmix counter at some moment (rule 9b.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnmixCount(u64);

impl Heap<'_> {
    /// The unmix counter as it is now. A scan notes it while it holds a leaf's latch: as long as it has
    /// not moved, a root that is not mixed was not mixed then either.
    #[inline]
    pub fn unmix_count(&self) -> UnmixCount {
        // Relaxed: latches order it. Who clears a root deleted its stale entries under the leaf's latch
        // before, so after a scan that found them there noted the count; and who finds the root cleared
        // has the page's latch after it was raised.
        UnmixCount(self.relation.shared.unmixes.0.load(Ordering::Relaxed))
    }

    /// Sets `mixed` on these roots of a block, logged for `xid`.
    ///
    /// # Errors
    /// Storage's.
    pub fn set_mixed(&self, xid: Xid, block: u32, roots: &[u16]) -> Result<()> {
        let mut page = self.pin_write(block)?;
        let _critical = self.storage.begin_change()?;
        if !change::set_mixed(&mut page, roots.iter().copied(), Mixed::Yes) {
            return Err(corruption(
                page.id(),
                None,
                "H1",
                "a root is gone while its table is locked",
            ));
        }
        let data: Vec<u8> = roots.iter().flat_map(|root| root.to_le_bytes()).collect();
        self.log(kind::MIXED, xid, &mut [LoggedPage::delta(&mut page, &[&data])])
    }

    /// Marks those of these roots of a block that are mixed and could be cleared as *cleaning*; returns
    /// which. The caller visits their entries next.
    ///
    /// # Errors
    /// Storage's.
    pub fn begin_cleaning(&self, block: u32, roots: &[u16]) -> Result<Vec<u16>> {
        let mut page = self.pin_write(block)?;
        let mixed = |root: &u16| page.item_id(OffsetNumber(*root)).mixed() != Mixed::No;
        let mut found = roots.to_vec();
        found.retain(|root| mixed(root) && self.is_single(&page, *root));
        let set = change::set_mixed(&mut page, found.iter().copied(), Mixed::Cleaning);
        assert!(set, "a root with a version is there");
        page.mark_hint();
        Ok(found)
    }

    /// Clears `mixed` on those of these roots of a block that are *cleaning* still, and whose chain is
    /// one version, committed and not ended; logged for `xid`. Returns which. The caller has visited
    /// every entry of them in every index since [`Heap::begin_cleaning`]: only the version's own is left
    /// (rule 9b.14).
    ///
    /// # Errors
    /// Storage's.
    pub fn clear_mixed(&self, xid: Xid, block: u32, roots: &[u16]) -> Result<Vec<u16>> {
        let mut page = self.pin_write(block)?;
        let cleaning = |root: &u16| page.item_id(OffsetNumber(*root)).mixed() == Mixed::Cleaning;
        let mut found = roots.to_vec();
        found.retain(|root| cleaning(root) && self.is_single(&page, *root));
        if found.is_empty() {
            return Ok(found);
        }
        let _critical = self.storage.begin_change()?;
        // Before the flag, under the page's latch (rule 9b.2).
        self.relation.shared.unmixes.0.fetch_add(1, Ordering::Relaxed);
        let cleared = change::set_mixed(&mut page, found.iter().copied(), Mixed::No);
        assert!(cleared, "a root with a version is there");
        let data: Vec<u8> = found.iter().flat_map(|root| root.to_le_bytes()).collect();
        self.log(kind::UNMIXED, xid, &mut [LoggedPage::delta(&mut page, &[&data])])?;
        Ok(found)
    }

    /// Whether the root has one version, in its chain or outside, and that is committed and not ended.
    fn is_single(&self, page: &Page, root: u16) -> bool {
        let base = page::base(page);
        let version = |tuple: &crate::header::Tuple<'_>| !tuple.has(flags::STUB);
        let mut chain = Chain::new(page, root).filter(|(_, tuple)| version(tuple));
        let Some((_, only)) = chain.next() else { return false };
        let of_root = (1..=page.item_count()).filter_map(|offset| page::tuple(page, offset));
        let count = of_root.filter(|tuple| version(tuple) && tuple.root() == root).count();
        let committed = only.has(flags::XMIN_ALL_VISIBLE)
            || matches!(self.txns.status(page::xmin(base, only)), XidStatus::Committed(_));
        count == 1 && committed && !only.has_deleter()
    }
}
