//! Reading: finds the version that a snapshot sees.

use niwaki_env::invariant;
use niwaki_storage::page::Page;
use niwaki_storage::{Fork, OffsetNumber, PageKind, Tid};
use niwaki_txn::{Horizon, View, XidStatus};

use crate::error::Result;
use crate::format::header::{Tuple, flags};
use crate::format::map_page::PageVisibility;
use crate::format::page::{self, Chain};
use crate::format::rows::{PageRows, RowRef, row_ref};
use crate::relation::Heap;
use crate::row::outcome::RowTarget;

/// Returns whether `view` sees this version.
#[inline]
pub(crate) fn sees(view: &View<'_>, base: u64, tuple: Tuple<'_>) -> bool {
    let f = tuple.flags();
    if f & (flags::STUB | flags::XMIN_ABORTED) != 0 {
        return false;
    }
    // Only versions that every snapshot sees have the hint. A frozen xmin needs no look-up either.
    let inserted = f & flags::XMIN_ALL_VISIBLE != 0
        || tuple.xmin() == 1
        || view.sees_insert(page::xmin(base, tuple), tuple.cid());
    if !inserted {
        return false;
    }
    if tuple.xmax() == 0 || f & (flags::XMAX_LOCK_ONLY | flags::XMAX_ABORTED) != 0 {
        return true;
    }
    !view.sees_delete(page::xmax(base, tuple), tuple.cid())
}

/// Returns the version of the chain at `root` that `view` sees.
#[inline]
fn visible<'p>(page: &'p Page, root: u16, view: &View<'_>) -> Option<(u16, Tuple<'p>)> {
    walk(page, root, view).0
}

/// Returns the version of a page that `target` means: the version that an earlier attempt locked,
/// or the one that the snapshot sees.
pub(crate) fn targeted<'p>(
    view: &View<'_>,
    page: &'p Page,
    target: RowTarget,
) -> Option<(u16, Tuple<'p>)> {
    debug_assert!(
        target.version.is_none_or(|version| version.block == target.root.block),
        "{target:?}: a chain lies on one page"
    );
    let locked = target.version.and_then(|version| {
        let tuple = page::tuple(page, version.offset.0)?;
        let mine = view.is_mine(page::xmax(page::base(page), tuple));
        let root = tuple.root() == target.root.offset.0;
        (mine && root && version.block == target.root.block).then_some((version.offset.0, tuple))
    });
    locked.or_else(|| visible(page, target.root.offset.0, view))
}

/// Walks the chain as [`visible`] does, and counts the versions passed on the way.
#[inline]
fn walk<'p>(page: &'p Page, root: u16, view: &View<'_>) -> (Option<(u16, Tuple<'p>)>, u16) {
    let base = page::base(page);
    let mut passed = 0;
    for (offset, tuple) in Chain::new(page, root) {
        if sees(view, base, tuple) {
            return (Some((offset, tuple)), passed);
        }
        passed += 1;
    }
    (None, passed)
}

/// Returns the number of versions of a page that `view` sees.
fn visible_rows(page: &Page, view: &View<'_>) -> usize {
    let base = page::base(page);
    let tuples = (1..=page.item_count()).filter_map(|offset| page::tuple(page, offset));
    tuples.filter(|tuple| sees(view, base, *tuple)).count()
}

impl Heap<'_> {
    /// Returns whether the heap has the block of this TID: TIDs that do not come from an index may
    /// not exist.
    ///
    /// # Errors
    /// Storage's.
    pub fn has_block(&self, tid: Tid) -> Result<bool> {
        Ok(tid.block.0 < self.storage.pool().blocks(self.relation.file.id, Fork::Main)?)
    }

    /// Calls `read` with the version of the row at `root` that `view` sees, under the page's shared
    /// latch. `read` must not wait, or call this heap. Returns `None` when no version is seen.
    /// Afterwards, a pass removes versions that no snapshot sees, if the walk met some on a page
    /// short of room.
    /// # Errors
    /// Storage's.
    #[inline]
    pub fn fetch<R>(
        &self,
        view: &View<'_>,
        root: Tid,
        read: impl FnOnce(RowRef<'_>) -> R,
    ) -> Result<Option<R>> {
        let pin = self.pin(root.block.0)?;
        let page = pin.read();
        if page.kind() != PageKind::Heap {
            return Ok(None);
        }
        let (found, passed) = walk(&page, root.offset.0, view);
        let found = found.map(|(_, tuple)| read(row_ref(&page, root, tuple)));
        if passed > 0
            && let Some(horizon) = self.chain_to_prune(&page, root.offset.0, passed)
        {
            drop(page);
            self.prune_on_access(&pin, &horizon);
        }
        Ok(found)
    }

    /// Copies every row of a block that `view` sees into `out`, and discards the former contents of
    /// `out`. Takes one latch hold. `horizon`, taken when the scan began, allows hints to be set.
    /// Versions that no snapshot sees go, as in [`Heap::fetch`].
    ///
    /// # Errors
    /// Storage's.
    pub fn scan_page(
        &self,
        view: &View<'_>,
        block: u32,
        horizon: Option<&Horizon>,
        out: &mut PageRows,
    ) -> Result<()> {
        out.clear();
        self.open_visibility_map()?;
        let pin = self.pin(block)?;
        let (hints, removable) = {
            let page = pin.read();
            if page.kind() != PageKind::Heap {
                return Ok(());
            }
            let base = page::base(&page);
            // The page is latched, so no writer changes it meanwhile.
            let all = self.page_visibility(block) >= PageVisibility::AllVisible;
            if all && out.is_counting() {
                // V1: each tuple is a row that every snapshot sees.
                let rows = page.item_ids().filter(|id| id.is_normal()).count();
                invariant!(
                    V1,
                    rows == visible_rows(&page, view),
                    "the map says {:?} of page {block}",
                    self.page_visibility(block)
                );
                out.count(rows);
                return Ok(());
            }
            let mut unhinted = false;
            let mut passed = 0;
            for offset in 1..=page.item_count() {
                let Some(tuple) = page::tuple(&page, offset) else { continue };
                // Hints matter once the bit is cleared. The first row shows whether the page has
                // them.
                if !all || out.is_empty() {
                    let plain = tuple.xmin() == 1 || tuple.has(flags::XMIN_ALL_VISIBLE);
                    unhinted |= !plain && !tuple.has(flags::XMIN_ABORTED);
                }
                if !all && !sees(view, base, tuple) {
                    passed += 1;
                    continue;
                }
                let root = if tuple.has(flags::HEAP_ONLY) { tuple.root() } else { offset };
                let root = Tid { block: pin.id().block, offset: OffsetNumber(root) };
                out.push(row_ref(&page, root, tuple));
            }
            debug_assert!(
                usize::from(passed) + out.len() <= usize::from(page.item_count()),
                "more rows than line pointers on page {block}"
            );
            let removable = if passed > 0 { self.page_to_prune(&page, passed) } else { None };
            (unhinted, removable)
        };
        if let Some(horizon) = removable {
            self.prune_on_access(&pin, &horizon);
        }
        if let (true, Some(horizon)) = (hints, horizon) {
            self.set_hints(&pin, horizon);
        }
        Ok(())
    }

    /// Copies the visible version of each of these rows to `out`, and discards the former contents
    /// of `out`. All rows are in one block; `roots` are the offsets of their roots. Roots without a
    /// visible version go to `unseen`. Takes one latch hold.
    ///
    /// # Errors
    /// Storage's.
    pub fn fetch_page(
        &self,
        view: &View<'_>,
        block: u32,
        roots: impl Iterator<Item = u16>,
        out: &mut PageRows,
        unseen: &mut Vec<u16>,
    ) -> Result<()> {
        out.clear();
        let pin = self.pin(block)?;
        let page = pin.read();
        if page.kind() != PageKind::Heap {
            return Ok(());
        }
        for offset in roots {
            let root = Tid { block: pin.id().block, offset: OffsetNumber(offset) };
            match visible(&page, offset, view) {
                Some((_, tuple)) => out.push(row_ref(&page, root, tuple)),
                None => unseen.push(offset),
            }
        }
        Ok(())
    }

    /// Sets hints on a page, unless another session has latched it: hints are not worth a wait.
    fn set_hints(&self, pin: &niwaki_storage::Pin<'_>, horizon: &Horizon) {
        let Some(mut page) = pin.try_write() else { return };
        let base = page::base(&page);
        let flushed = self.storage.wal().flushed();
        let mut found = Vec::new();
        // Most tuples of a page have the same inserter as the one before.
        let mut last = (0, 0);
        for offset in 1..=page.item_count() {
            let Some(tuple) = page::tuple(&page, offset) else { continue };
            let xmin = tuple.xmin();
            if xmin == 1 || tuple.has(flags::XMIN_ALL_VISIBLE | flags::XMIN_ABORTED) {
                continue;
            }
            if last.0 != xmin {
                let hint = match self.txns.status(page::xmin(base, tuple)) {
                    XidStatus::Aborted => flags::XMIN_ABORTED,
                    XidStatus::Committed(csn) if csn <= horizon.oldest() && csn.0 <= flushed.0 => {
                        flags::XMIN_ALL_VISIBLE
                    }
                    XidStatus::InProgress | XidStatus::Committed(_) => 0,
                };
                debug_assert_eq!(hint & !flags::HINTS, 0, "what is no hint is logged");
                last = (xmin, hint);
            }
            if last.1 != 0 {
                found.push((offset, tuple.flags() | last.1));
            }
        }
        if found.is_empty() {
            return;
        }
        for (offset, flags) in found {
            if let Some(header) = page::header_mut(&mut page, offset) {
                header[20..22].copy_from_slice(&flags.to_le_bytes());
            }
        }
        page.mark_hint();
    }
}
