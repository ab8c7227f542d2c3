//! Probes for chains that are dead to every snapshot; indexes ask before they mark or delete
//! entries.

use niwaki_env::invariant;
use niwaki_storage::buffer::PageRead;
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{BlockNumber, Csn, Lsn, Mixed, OffsetNumber, Tid, Xid};
use niwaki_txn::{Horizon, XidStatus};

use crate::error::Result;
use crate::format::header::flags;
use crate::format::page::{self, Chain};
use crate::format::rows::{RowRef, row_ref};
use crate::relation::Heap;

/// The answer for a chain: `None` if some version is not dead to all snapshots. Otherwise the union
/// of the versions' lifetimes, if any snapshot could ever have seen one of them.
pub type DeadVersions = Option<Option<(Csn, Csn)>>;

/// The state of a chain's versions for all snapshots, present and future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadness {
    /// Some snapshot sees one of the versions, or will. Or the line pointer is UNUSED, which proves
    /// nothing.
    Alive,
    /// The first version that is not dead waits for the end of this transaction, which inserted or
    /// ended it.
    Pending(Xid),
    /// No snapshot sees any of the versions.
    Dead {
        /// Union of the versions' lifetimes, if any snapshot could ever have seen one.
        lifetime: Option<(Csn, Csn)>,
        /// True if the commits that justify the answer are flushed, so that a mark, which is not
        /// logged, may rely on it (rule `dead-marks`). A logged deletion need not wait for the
        /// flush, because its record follows the records of these commits.
        durable: bool,
    },
}

/// One latched page, to ask about its chains.
#[derive(Debug)]
pub struct DeadProbe<'h> {
    heap: Heap<'h>,
    page: PageRead<'h>,
    block: BlockNumber,
    flushed: Lsn,
}

impl<'e> Heap<'e> {
    /// Latches a page to ask about its chains. The caller must not wait for anything until the
    /// probe is dropped.
    ///
    /// # Errors
    /// Storage's.
    pub fn probe_dead(&self, block: u32) -> Result<DeadProbe<'e>> {
        let page = self.pin(block)?.into_read();
        let (block, flushed) = (BlockNumber(block), self.storage.wal().flushed());
        Ok(DeadProbe { heap: *self, page, block, flushed })
    }

    /// Latches a page as [`Heap::probe_dead`] does, if the page is in memory.
    pub fn probe_resident(&self, block: u32) -> Option<DeadProbe<'e>> {
        let page = self.storage.pool().pin_if_resident(self.page_id(block))?.into_read();
        let (block, flushed) = (BlockNumber(block), self.storage.wal().flushed());
        Some(DeadProbe { heap: *self, page, block, flushed })
    }

    /// Prefetches a page that the caller will soon ask about.
    #[inline]
    pub fn prefetch(&self, block: u32) {
        self.storage.pool().prefetch(self.page_id(block));
    }

    /// Returns whether no snapshot sees or will see a version of the chain at `root`, and the
    /// commits that justify this are flushed. Then an index may mark its entries dead
    /// (rule `dead-marks`). An UNUSED line pointer proves nothing.
    ///
    /// # Errors
    /// Storage's.
    pub fn is_dead(&self, root: Tid, horizon: &Horizon) -> Result<bool> {
        Ok(self.dead_versions(root, horizon, |_| true)?.is_some())
    }

    /// Asks as [`Heap::is_dead`] does, for the versions of the chain for which `matches` returns
    /// true.
    ///
    /// # Errors
    /// Storage's.
    pub fn dead_versions(
        &self,
        root: Tid,
        horizon: &Horizon,
        matches: impl FnMut(RowRef<'_>) -> bool,
    ) -> Result<DeadVersions> {
        let probe = self.probe_dead(root.block.0)?;
        Ok(match probe.deadness(root, horizon, matches) {
            Deadness::Dead { lifetime, durable: true } => Some(lifetime),
            Deadness::Dead { durable: false, .. } | Deadness::Alive | Deadness::Pending(_) => None,
        })
    }

    /// Takes an optimistic look at a block. Returns the number of these chains that were pruned
    /// away, and whether the page's hint says that more may be pruned. Returns `None` if the block
    /// is not in memory.
    pub fn pruned_roots(&self, block: u32, roots: &[OffsetNumber]) -> Option<(usize, bool)> {
        let pin = self.storage.pool().pin_if_resident(self.page_id(block))?;
        if roots.is_empty() {
            return Some((0, false));
        }
        let page = pin.read();
        let is_dead = |root: &&OffsetNumber| page.item_id(**root).state() == ItemState::Dead;
        Some((roots.iter().filter(is_dead).count(), page::prune_xid(&page) != 0))
    }

    /// Keeps only the chains of a block that are likely to be dead to all snapshots. Such a chain
    /// was pruned away, or its last version is removable. The inserter of a last version without
    /// xmax is not looked up: if it aborted, the version counts once it was pruned. No chain is
    /// kept if the block is not in memory. `waits` gets each transaction that must end before
    /// another chain can be dead.
    pub fn keep_removable(
        &self,
        block: u32,
        roots: &mut Vec<OffsetNumber>,
        horizon: &Horizon,
        mut waits: impl FnMut(Xid),
    ) {
        match self.storage.pool().pin_if_resident(self.page_id(block)) {
            Some(pin) => {
                let page = pin.read();
                roots.retain(|root| self.is_likely_removable(&page, *root, horizon, &mut waits));
            }
            None => roots.clear(),
        }
    }

    /// Returns whether the last version of one of these chains has ended, and an open snapshot
    /// keeps it. Returns false if the block is not in memory.
    pub fn retains_some(&self, block: u32, roots: &[OffsetNumber], horizon: &Horizon) -> bool {
        let Some(pin) = self.storage.pool().pin_if_resident(self.page_id(block)) else {
            return false;
        };
        let page = pin.read();
        let base = page::base(&page);
        roots.iter().any(|root| {
            let last = Chain::new(&page, root.0).last().filter(|(_, last)| last.has_deleter());
            last.is_some_and(|(_, last)| {
                let begin = self.txns.status(page::xmin(base, last));
                match (begin, self.txns.status(page::xmax(base, last))) {
                    (XidStatus::Committed(begin), XidStatus::Committed(end)) => {
                        !horizon.removable(begin, end)
                    }
                    _ => false,
                }
            })
        })
    }

    fn is_likely_removable(
        &self,
        page: &Page,
        root: OffsetNumber,
        horizon: &Horizon,
        waits: &mut impl FnMut(Xid),
    ) -> bool {
        match page.item_id(root).state() {
            ItemState::Dead => true,
            ItemState::Unused => false,
            ItemState::Normal | ItemState::Redirect => {
                let mut chain = Chain::new(page, root.0);
                let Some((_, first)) = chain.next() else { return false };
                let last = chain.last().map_or(first, |(_, last)| last);
                if !last.has_deleter() {
                    return false;
                }
                let base = page::base(page);
                let xmax = page::xmax(base, last);
                let begin = self.txns.status(page::xmin(base, last));
                match (begin, self.txns.status(xmax)) {
                    (XidStatus::Aborted, _) => true,
                    (XidStatus::Committed(begin), XidStatus::Committed(end)) => {
                        horizon.removable(begin, end)
                    }
                    (_, XidStatus::InProgress) => {
                        waits(xmax);
                        false
                    }
                    _ => false,
                }
            }
        }
    }

    /// Reads a block into memory, if it is not there.
    ///
    /// # Errors
    /// Storage's.
    pub fn read_in(&self, block: u32) -> Result<()> {
        self.pin(block).map(drop)
    }
}

impl DeadProbe<'_> {
    /// Returns whether the root is mixed: an index may have several entries for it, or get another.
    pub fn is_mixed(&self, root: Tid) -> bool {
        debug_assert_eq!(root.block, self.block, "the latched page is another one");
        self.page.item_id(root.offset).mixed() != Mixed::No
    }

    /// Returns whether the line pointer is free: then no entry may name it (X4).
    pub fn is_unused(&self, root: Tid) -> bool {
        debug_assert_eq!(root.block, self.block, "the latched page is another one");
        self.page.item_id(root.offset).state() == ItemState::Unused
    }

    /// Returns the versions of the chain at `root`, whatever their state. Some versions of the root
    /// may be missing: versions of an aborted update may lie outside the chain.
    pub fn versions(&self, root: Tid) -> impl Iterator<Item = RowRef<'_>> {
        debug_assert_eq!(root.block, self.block, "the latched page is another one");
        let page = &*self.page;
        let versions = Chain::new(page, root.offset.0).filter(|(_, tuple)| !tuple.has(flags::STUB));
        versions.map(move |(_, tuple)| row_ref(page, root, tuple))
    }

    /// Returns the commit since which no new snapshot sees any version of the chain at `root`, on
    /// this page, for which `matches` returns true. This is the end of the last such version; an
    /// older snapshot may see them. Returns `None` when some version has not ended, or its end is
    /// still uncertain.
    pub fn expired_since(
        &self,
        root: Tid,
        mut matches: impl FnMut(RowRef<'_>) -> bool,
    ) -> Option<Csn> {
        debug_assert_eq!(root.block, self.block, "the latched page is another one");
        let (heap, page) = (&self.heap, &*self.page);
        let base = page::base(page);
        let mut since = None;
        for (_, tuple) in Chain::new(page, root.offset.0) {
            if tuple.has(flags::STUB) || !matches(row_ref(page, root, tuple)) {
                continue;
            }
            match heap.txns.status(page::xmin(base, tuple)) {
                XidStatus::Aborted => continue,
                XidStatus::InProgress => return None,
                XidStatus::Committed(_) if !tuple.has_deleter() => return None,
                XidStatus::Committed(_) => {}
            }
            match heap.txns.status(page::xmax(base, tuple)) {
                XidStatus::Aborted | XidStatus::InProgress => return None,
                XidStatus::Committed(end) => since = since.max(Some(end)),
            }
        }
        since
    }

    /// Judges the versions of the chain at `root`, on this page, for which `matches` returns true.
    /// A deletion of index entries with one key asks about the versions with this key.
    pub fn deadness(
        &self,
        root: Tid,
        horizon: &Horizon,
        mut matches: impl FnMut(RowRef<'_>) -> bool,
    ) -> Deadness {
        debug_assert_eq!(root.block, self.block, "the latched page is another one");
        let (heap, page) = (&self.heap, &*self.page);
        // Removed versions are gone together with their xmax. Their commits were published before
        // the pass, so they are flushed in two cases. Either all commits published now are flushed,
        // or the pass itself is: its record follows their records, and the page's last change
        // follows that record.
        let unflushed = heap.txns.published().0 > self.flushed.0 && page.lsn() > self.flushed;
        let id = page.item_id(root.offset);
        let removed = match id.state() {
            ItemState::Unused => return Deadness::Alive,
            ItemState::Dead => true,
            ItemState::Normal | ItemState::Redirect => id.mixed() != Mixed::No,
        };
        let logged = heap.relation.file.logged;
        let mut durable = !(removed && logged && unflushed);
        if id.state() == ItemState::Dead {
            return Deadness::Dead { lifetime: None, durable };
        }
        let base = page::base(page);
        let mut lifetime = None;
        let mut found = false;
        for (_, tuple) in Chain::new(page, root.offset.0) {
            found = true;
            if tuple.has(flags::STUB) {
                // The stub's version is gone, and a crash may still lose the commit that ended it.
                durable &= !(logged && unflushed);
                continue;
            }
            if !matches(row_ref(page, root, tuple)) {
                continue;
            }
            let xmin = page::xmin(base, tuple);
            let begin = match heap.txns.status(xmin) {
                XidStatus::Aborted => continue,
                XidStatus::InProgress => return Deadness::Pending(xmin),
                XidStatus::Committed(csn) => csn,
            };
            if !tuple.has_deleter() {
                return Deadness::Alive;
            }
            let xmax = page::xmax(base, tuple);
            let end = match heap.txns.status(xmax) {
                XidStatus::Aborted => return Deadness::Alive,
                XidStatus::InProgress => return Deadness::Pending(xmax),
                XidStatus::Committed(csn) => csn,
            };
            if !horizon.removable(begin, end) {
                return Deadness::Alive;
            }
            invariant!(G1, end <= horizon.current(), "a new snapshot may see before {end}");
            durable &= end.0.max(begin.0) <= self.flushed.0;
            let (from, to) = lifetime.unwrap_or((begin, end));
            lifetime = Some((from.min(begin), to.max(end)));
        }
        if found { Deadness::Dead { lifetime, durable } } else { Deadness::Alive }
    }
}
