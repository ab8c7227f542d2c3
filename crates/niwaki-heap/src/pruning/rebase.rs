//! The xid base of a page, to which its 32-bit transaction ids are relative.

use niwaki_storage::{LoggedPage, PageWrite, Xid};

use crate::error::{Error, Result};
use crate::format::change::kind;
use crate::format::header::{absolute, relative};
use crate::format::page;
use crate::pruning::prune::PruneOptions;
use crate::relation::Heap;

impl Heap<'_> {
    /// Ensures that `xid` can be written on this page; moves the page's xid base if necessary.
    #[inline]
    pub(crate) fn bring_in_range(&self, page: &mut PageWrite<'_>, xid: Xid) -> Result<()> {
        if page.is_new() || relative(page::base(page), xid).is_some() {
            return Ok(());
        }
        self.rebase(page, xid)?;
        debug_assert!(
            relative(page::base(page), xid).is_some(),
            "{xid} cannot be written on {}",
            page.id()
        );
        Ok(())
    }

    /// Moves the xid base of a latched page so that `xid` can be written on it. Freezes versions
    /// that every snapshot sees, then computes the base from the oldest id that is left.
    #[cold]
    pub(crate) fn rebase(&self, page: &mut PageWrite<'_>, xid: Xid) -> Result<()> {
        debug_assert!(xid.is_normal(), "{xid} is the same relative to every base");
        let horizon = self.txns.horizon();
        let options = PruneOptions { freeze_before: Xid(u64::MAX), ..PruneOptions::default() };
        self.prune(page, &horizon, options)?;
        let base = page::base(page);
        let tuples: Vec<(u16, Xid, Xid)> = (1..=page.item_count())
            .filter_map(|offset| {
                let tuple = page::tuple(page, offset)?;
                Some((offset, absolute(base, tuple.xmin()), absolute(base, tuple.xmax())))
            })
            .collect();
        let ids = tuples.iter().flat_map(|&(_, xmin, xmax)| [xmin, xmax]);
        let ids: Vec<Xid> = ids.chain([xid]).filter(|id| id.is_normal()).collect();
        let oldest = ids.iter().min().copied().unwrap_or(xid);
        let newest = ids.iter().max().copied().unwrap_or(xid);
        // Half of the spare range is for ids before the oldest one on the page now.
        let room = u64::from(u32::MAX) - (newest.0 - oldest.0).min(u64::from(u32::MAX));
        let new_base = oldest.0.saturating_sub((room / 2).max(Xid::FIRST_NORMAL.0));
        let fits = |id: Xid| !id.is_normal() || relative(new_base, id).is_some();
        if !ids.iter().all(|&id| fits(id)) {
            return Err(Error::XidRange { page: page.id() });
        }
        debug_assert!(new_base < oldest.0, "the oldest id, {oldest}, is older than its base");
        debug_assert!(relative(new_base, xid).is_some(), "{xid} has no relative form");
        let _critical = self.storage.begin_change()?;
        for (offset, xmin, xmax) in tuples {
            let new = |id| relative(new_base, id).unwrap_or(0).to_le_bytes();
            if let Some(header) = page::header_mut(page, offset) {
                header[0..4].copy_from_slice(&new(xmin));
                header[4..8].copy_from_slice(&new(xmax));
            }
        }
        page::set_base(page, new_base);
        page::set_prune_xid(page, 1);
        self.log_record(kind::REBASE, Xid::INVALID, &mut [LoggedPage::image(page)], None)
    }
}
