//! The `mixed` flag: index entries with other keys than its version's may lead to this root
//! (rules `unmix-counter` and `mixed-flag`).
//!
//! The flag of a root with several keys lives in the root's line pointer.
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
//! A cleaner visits every entry of the root in every index between `begin_cleaning` and
//! `clear_mixed`. It is the only cleaner of the table at that time (rule `one-cleaner`). A cleaner
//! reads *cleaning* as *yes* on a root that it did not mark itself. An interrupted cleaner, or a
//! crash, may have left that state. The log contains *yes* for *cleaning*. The state is logged so
//! that a page which is evicted meanwhile comes back as it was.

use niwaki_env::seeded_bug;
use niwaki_env::sync::plain_atomic::Ordering;
use niwaki_storage::page::Page;
use niwaki_storage::{LoggedPage, Mixed, OffsetNumber, PageWrite, Xid};
use niwaki_txn::XidStatus;

use crate::error::{Result, corruption};
use crate::format::change::{self, kind};
use crate::format::header::flags;
use crate::format::map_page::PageVisibility;
use crate::format::page::{self, Chain};
use crate::memory::counters::count;
use crate::memory::unmix_counter::UnmixCount;
use crate::relation::Heap;

impl Heap<'_> {
    /// Returns the current unmix counter. A scan notes it while it holds a leaf's latch. As long as
    /// the counter has not changed, a root that is not mixed was not mixed then either.
    #[inline]
    pub fn unmix_count(&self) -> UnmixCount {
        // Relaxed: latches order the counter. A cleaner deletes the root's stale entries under the
        // leaf's latch before it clears the root. So it clears the root after any scan that found
        // those entries there has noted the count. A scan that finds the root cleared gets the
        // page's latch after the counter was raised.
        UnmixCount(self.relation.shared.unmix_counter.0.load(Ordering::Relaxed))
    }

    /// Sets `mixed` on these roots of a block, and logs it for `xid`.
    ///
    /// # Errors
    /// Storage's.
    pub fn set_mixed(&self, xid: Xid, block: u32, roots: &[u16]) -> Result<()> {
        debug_assert!(!roots.is_empty(), "a record that changes nothing");
        let mut page = self.pin_write(block)?;
        let were_not = |root: &&u16| page.item_id(OffsetNumber(**root)).mixed() == Mixed::No;
        let more = roots.iter().filter(were_not).count();
        let map = self.lower_visibility([block], PageVisibility::Unknown)?;
        let _critical = self.storage.begin_change()?;
        if !change::set_mixed(&mut page, roots.iter().copied(), Mixed::Yes) {
            return Err(corruption(
                page.id(),
                None,
                "H1",
                "a root is gone while its table is locked",
            ));
        }
        count(&self.relation.counters.mixed, more);
        let data: Vec<u8> = roots.iter().flat_map(|root| root.to_le_bytes()).collect();
        self.log(kind::MIXED, xid, [LoggedPage::delta(&mut page, &[&data])], map)
    }

    /// Marks roots of a block as *cleaning*: those that are mixed and could be cleared. Returns the
    /// marked roots. The caller visits their entries next.
    ///
    /// # Errors
    /// Storage's.
    pub fn begin_cleaning(&self, block: u32, roots: &[u16]) -> Result<Vec<u16>> {
        let mut page = self.pin_write(block)?;
        let mixed = |root: &u16| page.item_id(OffsetNumber(*root)).mixed() != Mixed::No;
        let mut found = roots.to_vec();
        found.retain(mixed);
        self.retain_single(&page, &mut found);
        if found.is_empty() {
            return Ok(found);
        }
        let _critical = self.storage.begin_change()?;
        let set = change::set_mixed(&mut page, found.iter().copied(), Mixed::Cleaning);
        assert!(set, "a root with a version is there");
        self.log_roots(kind::MIXED, &mut page, &found)?;
        Ok(found)
    }

    /// Clears `mixed` on roots of a block that are still *cleaning*, and whose chain is one
    /// version, committed and not ended. Returns the cleared roots. Since its
    /// [`Heap::begin_cleaning`], the caller has visited all their entries in every index, so only
    /// the version's own entries are left (rule `payload-rewritten`).
    ///
    /// # Errors
    /// Storage's.
    pub fn clear_mixed(&self, block: u32, roots: &[u16]) -> Result<Vec<u16>> {
        let mut page = self.pin_write(block)?;
        let cleaning = |root: &u16| {
            let mixed = page.item_id(OffsetNumber(*root)).mixed();
            mixed == Mixed::Cleaning || (seeded_bug!("cleaning") && mixed == Mixed::Yes)
        };
        let mut found = roots.to_vec();
        found.retain(cleaning);
        self.retain_single(&page, &mut found);
        self.unmix(&mut page, &found)?;
        count(&self.relation.counters.cleaned, found.len());
        Ok(found)
    }

    /// Clears `mixed` on these roots of a latched page, which must exist.
    pub(crate) fn unmix(&self, page: &mut PageWrite<'_>, roots: &[u16]) -> Result<()> {
        if roots.is_empty() {
            return Ok(());
        }
        let _critical = self.storage.begin_change()?;
        self.count_unmixed(page, roots);
        let cleared = change::set_mixed(page, roots.iter().copied(), Mixed::No);
        assert!(cleared, "a root with a version is there");
        self.log_roots(kind::UNMIXED, page, roots)
    }

    /// Raises the unmix counter before roots lose the flag, under the page's latch
    /// (rule `unmix-counter`). Also ends the records of these roots.
    pub(crate) fn count_unmixed(&self, page: &PageWrite<'_>, roots: &[u16]) {
        debug_assert!(
            roots.iter().all(|root| page.item_id(OffsetNumber(*root)).mixed() != Mixed::No),
            "a root of {roots:?} lost its flag before the unmix counter rose"
        );
        if !roots.is_empty() {
            self.relation.shared.unmix_counter.0.fetch_add(1, Ordering::Relaxed);
            self.relation.shared.ledger.end(page.id().block, roots);
        }
    }

    fn log_roots(&self, kind: u8, page: &mut PageWrite<'_>, roots: &[u16]) -> Result<()> {
        debug_assert!(!roots.is_empty(), "a record that changes nothing");
        let data: Vec<u8> = roots.iter().flat_map(|root| root.to_le_bytes()).collect();
        self.log_record(kind, Xid::INVALID, &mut [LoggedPage::delta(page, &[&data])], None)
    }

    /// Keeps only roots with one version, committed and not ended. Versions outside the chain count
    /// too (rule `complete-record`).
    pub(crate) fn retain_single(&self, page: &Page, roots: &mut Vec<u16>) {
        if roots.is_empty() {
            return;
        }
        // Hardly any page has more line pointers than fit here.
        let (mut short, mut long) = ([0u16; 256], Vec::new());
        let end = usize::from(page.item_count()) + 1;
        let versions = if let Some(versions) = short.get_mut(..end) {
            versions
        } else {
            long.resize(end, 0u16);
            &mut long[..]
        };
        let normal = page.item_ids().filter(|id| id.is_normal());
        for tuple in normal.filter_map(|id| page::tuple_at(page, id)) {
            let counted = !tuple.has(flags::STUB);
            if let Some(count) = versions.get_mut(usize::from(tuple.root())) {
                *count += u16::from(counted);
            }
        }
        let base = page::base(page);
        roots.retain(|&root| {
            let mut chain = Chain::new(page, root).filter(|(_, tuple)| !tuple.has(flags::STUB));
            let Some((_, only)) = chain.next() else { return false };
            let committed = only.has(flags::XMIN_ALL_VISIBLE)
                || matches!(self.txns.status(page::xmin(base, only)), XidStatus::Committed(_));
            let count = versions.get(usize::from(root)).copied();
            count == Some(1) && committed && !only.has_deleter()
        });
    }
}
