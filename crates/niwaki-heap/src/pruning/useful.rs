//! The question whether a pass over a full page would free anything.
//!
//! ```text
//! no prune hint, no known free line pointer ──────────────────► no pass
//! known free line pointer ────────────────────────────────────► a pass
//! the last answer of this writer still holds (`unprunable.rs`) ► no pass
//! every snapshot sees the end of the transaction in the hint ──► a pass
//! a walk: the first version that aborted, or may go ───────────► a pass
//!         none ── the hint and the retained versions are noted ► no pass
//! ```
//!
//! A walk costs a third of a pass. A bulk update needs room on the same page for each row. All
//! that it finds there are versions that it ended itself, and these stay until it commits.

use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{PageKind, PageWrite};
use niwaki_txn::{Horizon, XidStatus};

use crate::error::Result;
use crate::format::header::{absolute, flags};
use crate::format::page;
use crate::memory::counters::{Pruned, count};
use crate::memory::retained::RetainedOnPage;
use crate::memory::unprunable::RoomSeeker;
use crate::pruning::prune::{NOTHING, PruneOptions, States, Verdict, is_followed};
use crate::relation::Heap;

/// Findings of a walk over a page from which nothing goes.
#[derive(Debug)]
struct Staying {
    /// The prune hint that a pass would leave.
    prune_xid: u32,
    /// Versions that stay only because of open snapshots.
    left: RetainedOnPage,
    /// Nothing goes before a transaction commits or the page changes, as long as the writer runs.
    lasts: bool,
}

impl Heap<'_> {
    /// Prunes a latched page that runs short of room, if a pass would free something. Returns false
    /// if the page was not judged, because it has no prune hint and no line pointer that is known
    /// to be free. Otherwise no pass finds rolled-back rows there now.
    pub(crate) fn prune_if_useful(
        &self,
        page: &mut PageWrite<'_>,
        seeker: Option<RoomSeeker>,
    ) -> Result<bool> {
        debug_assert_eq!(page.kind(), PageKind::Heap, "a pass over a page of another kind");
        let free = self.known_free(page);
        if page::prune_xid(page) == 0 && free.is_empty() {
            self.clear_settled(page)?;
            return Ok(false);
        }
        if free.is_empty() && self.is_known_unprunable(page, seeker) {
            self.clear_settled(page)?;
            return Ok(true);
        }
        let horizon = self.txns.horizon();
        if free.is_empty()
            && self.may_stay(page, &horizon)
            && !self.frees_something(page, seeker, &horizon)
        {
            self.clear_settled(page)?;
            return Ok(true);
        }
        let pruned = self.prune_and_settle(page, &horizon, &free)?;
        let Pruned { removed, freed, chains, .. } = pruned;
        count(&self.relation.counters.fruitless, usize::from(removed + freed + chains == 0));
        Ok(true)
    }

    /// Returns whether some snapshot may see a version that the transaction in the prune hint
    /// ended. That end is the oldest on the page. If none sees it, a pass nearly always frees
    /// something, and no walk comes first.
    fn may_stay(&self, page: &Page, horizon: &Horizon) -> bool {
        match self.txns.status(absolute(page::base(page), page::prune_xid(page))) {
            XidStatus::InProgress => true,
            XidStatus::Committed(end) => end > horizon.oldest(),
            // The next oldest end is not known.
            XidStatus::Aborted => true,
        }
    }

    /// Returns whether the writer's last walk, or its last one but for own changes, shows that
    /// nothing goes from the page.
    fn is_known_unprunable(&self, page: &PageWrite<'_>, seeker: Option<RoomSeeker>) -> bool {
        let place = (page.id().block, page.lsn());
        let current = self.txns.published();
        seeker
            .is_some_and(|seeker| self.relation.shared.unprunable.is_known(seeker, place, current))
    }

    /// Returns whether a pass by this horizon would free something on the page, or forget an end
    /// that did not happen. If not, does what such a pass does all the same: it brings the prune
    /// hint up to date, and notes the versions that snapshots keep.
    fn frees_something(
        &self,
        page: &mut PageWrite<'_>,
        seeker: Option<RoomSeeker>,
        horizon: &Horizon,
    ) -> bool {
        let Some(Staying { prune_xid, left, lasts }) = self.staying(page, seeker, horizon) else {
            return true;
        };
        debug_assert!(
            !lasts || !self.plan_frees(page, horizon),
            "a pass over block {} was left out, and would free something",
            page.id().block
        );
        debug_assert!(
            prune_xid != 0 || left.total().versions == 0,
            "a version that ended gives a hint"
        );
        debug_assert!(
            !lasts || left.total().versions == 0,
            "a version may go with a snapshot, which no commit tells"
        );
        self.relation.shared.retained.note(page.id().block, left);
        if page::prune_xid(page) != prune_xid {
            page::set_prune_xid(page, prune_xid);
            page.mark_hint();
        }
        if let Some(seeker) = seeker.filter(|_| lasts) {
            let place = (page.id().block, page.lsn());
            self.relation.shared.unprunable.note(seeker, place, horizon.current());
        }
        false
    }

    /// Walks over the page. Returns `None` at the first version that a pass would remove, or whose
    /// end it would forget.
    fn staying(
        &self,
        page: &Page,
        seeker: Option<RoomSeeker>,
        horizon: &Horizon,
    ) -> Option<Staying> {
        let base = page::base(page);
        let mut states = States::new(self.txns, base);
        // The LSN of a page that is not logged does not show its changes.
        let lasts = self.relation.file.logged;
        let mut staying = Staying { prune_xid: 0, left: RetainedOnPage::default(), lasts };
        for (id, offset) in page.item_ids().zip(1..) {
            if id.state() != ItemState::Normal {
                continue;
            }
            let Some(tuple) = page::tuple_at(page, id) else { continue };
            let mut version = NOTHING;
            self.judge_version(&mut version, &mut states, horizon, (offset, tuple), Some(&[]));
            // No snapshot sees a stub, but a follower may come to it.
            if tuple.has(flags::STUB) && is_followed(page, offset, version.begin, horizon) {
                // Its followers' snapshots may end at any time.
                staying.lasts = false;
                continue;
            }
            if !version.is_kept() || version.xmax_aborted {
                return None;
            }
            if let Verdict::Retained(first, last) = version.verdict {
                staying.left.add((first, last), tuple.data().len());
                staying.lasts = false;
            }
            // Another transaction may abort, and no commit tells of that.
            let own = |seeker: RoomSeeker| page::xmin(base, tuple) == seeker.xid;
            staying.lasts &= version.begin.is_some() || seeker.is_some_and(own);
            debug_assert!(
                version.end == 0 || !tuple.has(flags::XMAX_LOCK_ONLY),
                "a lock at {offset} ends no version"
            );
            if version.end != 0 {
                let hint = staying.prune_xid;
                staying.prune_xid = if hint == 0 { version.end } else { hint.min(version.end) };
            }
        }
        Some(staying)
    }

    /// Returns whether a pass by this horizon frees something, by its plan.
    fn plan_frees(&self, page: &PageWrite<'_>, horizon: &Horizon) -> bool {
        let options = PruneOptions { key_pieces: Some(&[]), ..PruneOptions::default() };
        self.plan(page, page.id().block, horizon, options).frees_something()
    }
}
