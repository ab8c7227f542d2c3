//! Versions that snapshots hold: the sums of what passes noted, and an exact visit of pages.

use niwaki_storage::PageKind;
use niwaki_txn::{RegisteredSnapshots, XidStatus};

use crate::error::Result;
use crate::format::header::{TUPLE_HEADER_SIZE, flags};
use crate::format::page;
use crate::memory::retained::Retained;
use crate::relation::Heap;

/// Results of a visit of pages, by the positions of [`RegisteredSnapshots::snapshots`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRetention {
    /// Versions that each snapshot alone keeps: they would go if it ended.
    pub alone: Vec<Retained>,
    /// Versions that each snapshot keeps together with others: they would stay for the others.
    pub shared: Vec<Retained>,
    /// Versions that no snapshot needs: the next pass removes them.
    pub nobody: Retained,
}

impl SnapshotRetention {
    /// Returns an empty result for these snapshots.
    pub fn of(holders: &RegisteredSnapshots) -> Self {
        let none = vec![Retained::default(); holders.snapshots().len()];
        Self { alone: none.clone(), shared: none, nobody: Retained::default() }
    }
}

impl Heap<'_> {
    /// Adds, for each of [`RegisteredSnapshots::snapshots`], the versions that it alone keeps, as
    /// far as passes have met them.
    ///
    /// # Panics
    /// If `alone` is not as long as there are snapshots.
    pub fn add_noted_retention(&self, holders: &RegisteredSnapshots, alone: &mut [Retained]) {
        assert_eq!(alone.len(), holders.snapshots().len());
        self.relation.shared.retained.add_alone(holders, alone);
    }

    /// Returns the versions that [`RegisteredSnapshots::snapshots`] keep, each alone or several
    /// together, as far as passes have met them. No page is read for this.
    pub fn noted_retention(&self, holders: &RegisteredSnapshots) -> Retained {
        self.relation.shared.retained.kept(holders)
    }

    /// Adds the versions that the snapshots keep on a page, under one hold of its shared latch.
    ///
    /// # Errors
    /// Storage's.
    ///
    /// # Panics
    /// If `holds` was made for other snapshots.
    pub fn add_snapshot_retention(
        &self,
        block: u32,
        holders: &RegisteredSnapshots,
        holds: &mut SnapshotRetention,
    ) -> Result<()> {
        assert_eq!(holds.alone.len(), holders.snapshots().len());
        debug_assert_eq!(holds.shared.len(), holds.alone.len(), "two sums for each snapshot");
        let pin = self.pin(block)?;
        let page = pin.read();
        if page.kind() != PageKind::Heap {
            return Ok(());
        }
        let base = page::base(&page);
        for tuple in (1..=page.item_count()).filter_map(|offset| page::tuple(&page, offset)) {
            if tuple.has(flags::STUB) {
                continue;
            }
            let bytes = (tuple.data().len() + TUPLE_HEADER_SIZE) as u64;
            let retained = Retained { versions: 1, bytes };
            let begin = match self.txns.status(page::xmin(base, tuple)) {
                XidStatus::Aborted => {
                    holds.nobody.add(retained);
                    continue;
                }
                XidStatus::InProgress => continue,
                XidStatus::Committed(begin) => begin,
            };
            if !tuple.has_deleter() {
                continue;
            }
            let XidStatus::Committed(end) = self.txns.status(page::xmax(base, tuple)) else {
                continue;
            };
            let Some(keepers) = holders.keeping(begin, end) else { continue };
            debug_assert!(keepers.end <= holders.snapshots().len(), "{keepers:?}");
            match keepers.len() {
                0 => holds.nobody.add(retained),
                1 => holds.alone[keepers.start].add(retained),
                _ => keepers.for_each(|keeper| holds.shared[keeper].add(retained)),
            }
        }
        Ok(())
    }
}
