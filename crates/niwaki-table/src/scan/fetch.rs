//! Reads of single rows: by address, and through a unique index.

use niwaki_heap::VersionRow;
use niwaki_nbtree::{Direction, OneRange};
use niwaki_storage::Tid;
use niwaki_txn::{Snapshot, Transaction, View};
use niwaki_types::{ColumnMask, Datum};

use crate::entry::recheck::{Entry, Seen};
use crate::error::Result;
use crate::relation::count::count;
use crate::relation::plain_key::HasKey;
use crate::relation::table::Table;
use crate::scan::entries::EntryScan;
use crate::values::resolve::Reading;

/// Reusable state of index lookups; one per session or statement.
#[derive(Debug, Default)]
pub struct Lookup {
    scan: EntryScan,
    unseen: Vec<usize>,
}

/// The result of an entry's recheck under the heap's latch.
enum Recheck {
    Passed(Reading),
    Failed,
    /// Undecided until expressions, or compressed or out-of-line values, are evaluated on this
    /// copy.
    OnCopy(VersionRow),
}

impl Table {
    /// Writes the `needed` columns of the row at `root` into `out` (as wide as the table), from the
    /// version that the snapshot sees. Returns false when the snapshot sees none.
    ///
    /// # Errors
    /// Storage's; [`crate::Error::Type`] (XX001) when the row is damaged.
    #[inline]
    pub fn fetch(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        root: Tid,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<bool> {
        let view = tx.view(snapshot);
        let read =
            self.heap().fetch(&view, root, |row| self.deform_under_latch(row, needed, out))?;
        match read.transpose()? {
            None => Ok(false),
            Some(reading) => self.finish(reading, needed, out).map(|()| true),
        }
    }

    /// Finds the current root of a row version that the snapshot sees. The row had its root at
    /// `root` for this transaction or an open snapshot, and may have moved since
    /// ([`niwaki_heap::Heap::root_seen`]).
    ///
    /// # Errors
    /// Storage's, and corruption.
    pub fn root_seen(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        root: Tid,
    ) -> Result<Option<Tid>> {
        Ok(self.heap().root_seen(&tx.view(snapshot), root)?)
    }

    /// Reads the row that the snapshot sees and whose whole key in `index`, a unique one, is `key`
    /// (encoded). Writes its `needed` columns into `out` and returns its address.
    ///
    /// # Errors
    /// As [`Table::fetch`].
    #[expect(clippy::too_many_arguments, reason = "a point read has this many sides")]
    pub fn fetch_unique(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        needed: &ColumnMask,
        out: &mut [Datum],
        lookup: &mut Lookup,
    ) -> Result<Option<Tid>> {
        count(&self.counters.index_scans, 1);
        let view = tx.view(snapshot);
        let handle = &self.indexes[index].handle;
        lookup.scan.leaves.look_up(handle, key, Direction::Forward);
        // Ends: when the entries of the key are exhausted.
        while lookup.scan.next(self, index, None::<&mut OneRange>, None)? {
            lookup.unseen.clear();
            let entries = lookup.scan.entries(self, index);
            for position in 0..entries.len() {
                let found = entries.read(&view, position, needed, out, &mut lookup.unseen)?;
                if let Some(root) = found {
                    entries.mark(&mut lookup.unseen)?;
                    count(&self.counters.index_rows, 1);
                    return Ok(Some(root));
                }
            }
            entries.mark(&mut lookup.unseen)?;
        }
        Ok(None)
    }

    /// Reads the version that the view sees through an entry, if it has the entry's key.
    #[inline]
    pub(crate) fn fetch_through(
        &self,
        view: &View<'_>,
        entry: Entry<'_>,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<bool> {
        // An expression may run on a copy (rule `bytes-under-latch`).
        debug_assert!(
            entry.seen != Seen::Now,
            "the leaf of the entry at {} is latched",
            entry.root
        );
        let read =
            self.heap().fetch(view, entry.root, |row| match self.recheck(entry, row, None) {
                HasKey::Yes => self.deform_under_latch(row, needed, out).map(Recheck::Passed),
                HasKey::No => Ok(Recheck::Failed),
                HasKey::Unknown => Ok(Recheck::OnCopy(row.into())),
            })?;
        match read.transpose()? {
            None | Some(Recheck::Failed) => Ok(false),
            Some(Recheck::Passed(reading)) => self.finish(reading, needed, out).map(|()| true),
            // The version that the snapshot sees does not change, so the latch is not needed again.
            Some(Recheck::OnCopy(copy)) => {
                if self.copied_key(entry.index, &copy)?.as_deref() != Some(entry.key) {
                    return Ok(false);
                }
                self.deform_parts(copy.natts, copy.has_nulls, &copy.bytes, needed, out)?;
                Ok(true)
            }
        }
    }
}
