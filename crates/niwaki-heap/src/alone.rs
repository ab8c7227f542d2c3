//! Rows that are read and ended by address alone: the pieces of large values.
//!
//! Nobody looks for such a row. A version of another heap says where it is, and whoever may see that version
//! may read it: visibility was decided there. It is ended by the transaction that ends the last version
//! which says so, and so it lives exactly as long as those do together: `[begin of the first, end of the last)`.
//! Pruning judges it by that life, as any other row. Since no index names it, its line pointer is free at once
//! when it goes ([`crate::HeapRegistry::open_pieces`]).
//!
//! One reader cares for no snapshot: the gardener, who asks removed versions for their keys. Rows
//! that keys are made of are marked when they are inserted. They outlast their life until somebody
//! names them, or vacuum comes that visits all entries.

use niwaki_storage::page::Page;
use niwaki_storage::{PageKind, Tid};
use niwaki_txn::{Horizon, Transaction, XidStatus};

use crate::change::{EndVersion, kind};
use crate::error::Result;
use crate::header::{NO_LINK, Tuple, flags};
use crate::insert::InsertOptions;
use crate::outcome::NewRow;
use crate::page;
use crate::prune::PruneOptions;
use crate::relation::Heap;

/// What the header of a row that keys are made of has for its number of columns; others have 0.
const OF_KEY: u16 = 1;

/// Whether keys are made of this row.
pub(crate) fn is_of_key(tuple: Tuple<'_>) -> bool {
    tuple.natts() == OF_KEY
}

/// The row at an address, if one is there.
fn row_at(page: &Page, tid: Tid) -> Option<Tuple<'_>> {
    if page.kind() != PageKind::Heap {
        return None;
    }
    page::tuple(page, tid.offset.0).filter(|tuple| !tuple.has(flags::HEAP_ONLY | flags::STUB))
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A pass takes it away, or did.
    Gone,
    /// It is ended, but somebody may see it yet, or who ended it is in progress.
    GoesLater,
    /// Nobody ended it, or who did rolled back.
    Stays,
}

impl Heap<'_> {
    /// Inserts a row that is found by its address alone, which it returns. `of_key`: keys are made
    /// of it.
    ///
    /// # Errors
    /// As [`Heap::insert`].
    pub fn insert_alone(
        &self,
        transaction: &Transaction,
        bytes: &[u8],
        of_key: bool,
        options: InsertOptions,
    ) -> Result<Tid> {
        let natts = if of_key { OF_KEY } else { 0 };
        let row = NewRow { natts, has_nulls: false, has_external: false, bytes };
        self.insert(transaction, row, options)
    }

    /// Gives the values of the row at `tid`, whoever sees it, to `read`, under the page's shared latch: `read` must
    /// not wait, nor come back here. `None` when there is no row.
    ///
    /// # Errors
    /// Storage's.
    pub fn read_alone<R>(&self, tid: Tid, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        if !self.has_block(tid)? {
            return Ok(None);
        }
        let pin = self.pin(tid.block.0)?;
        let page = pin.read();
        Ok(row_at(&page, tid).map(|tuple| read(tuple.data())))
    }

    /// Ends the row at `tid`, for `transaction`, if `read` takes its values for those that are meant. `None`, and nothing
    /// done, when there is no such row, or a transaction that did not abort has ended it.
    ///
    /// # Errors
    /// Storage's; a read-only transaction's.
    pub fn end_alone<R>(
        &self,
        transaction: &Transaction,
        tid: Tid,
        read: impl FnOnce(&[u8]) -> Option<R>,
    ) -> Result<Option<R>> {
        if !self.has_block(tid)? {
            return Ok(None);
        }
        let xid = transaction.write_xid()?;
        let mut page = self.pin_write(tid.block.0)?;
        if page.kind() != PageKind::Heap {
            return Ok(None);
        }
        self.bring_in_range(&mut page, xid)?;
        let Some(tuple) = row_at(&page, tid) else { return Ok(None) };
        if tuple.has_deleter()
            && self.txns.status(page::xmax(page::base(&page), tuple)) != XidStatus::Aborted
        {
            return Ok(None);
        }
        let Some(found) = read(tuple.data()) else { return Ok(None) };
        // The command that ends it is never asked for.
        let xmax_flags = flags::KEYS_UPDATED;
        let end = EndVersion { offset: tid.offset.0, link: NO_LINK, xmax_flags, cid: None };
        self.end_version(&mut page, xid, &end, kind::DELETE)?;
        Ok(Some(found))
    }

    /// What becomes of the row at `tid` by this horizon. It is gone, too, where what is there is
    /// not what `is_it` recognizes.
    ///
    /// # Errors
    /// Storage's.
    pub fn fate_alone(
        &self,
        tid: Tid,
        horizon: &Horizon,
        is_it: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Fate> {
        if !self.has_block(tid)? {
            return Ok(Fate::Gone);
        }
        let pin = self.pin(tid.block.0)?;
        let page = pin.read();
        let base = page::base(&page);
        let Some(tuple) = row_at(&page, tid).filter(|tuple| is_it(tuple.data())) else {
            return Ok(Fate::Gone);
        };
        Ok(match self.is_gone(base, tuple, None, horizon) {
            (true, _) => Fate::Gone,
            _ if !tuple.has_deleter() => Fate::Stays,
            _ => match self.txns.status(page::xmax(base, tuple)) {
                XidStatus::Aborted => Fate::Stays,
                XidStatus::InProgress | XidStatus::Committed(_) => Fate::GoesLater,
            },
        })
    }

    /// Prunes a block by this horizon, if that needs no waiting, and offers its room to insertions.
    /// Of the rows that keys are made of only those at `named` go. False: somebody else is there.
    ///
    /// # Errors
    /// Storage's.
    pub fn prune_alone(&self, block: u32, named: &[u16], horizon: &Horizon) -> Result<bool> {
        if block >= self.blocks()? {
            return Ok(true);
        }
        let pin = self.pin(block)?;
        let room = {
            // Whoever is there inserts, or vacuums.
            let Some(mut page) = pin.try_write() else { return Ok(false) };
            if page.kind() != PageKind::Heap {
                return Ok(true);
            }
            let key_pieces = Some(named);
            let options = PruneOptions { settle: true, key_pieces, ..PruneOptions::default() };
            let pruned = self.prune(&mut page, horizon, options)?;
            (pruned.removed > 0).then(|| self.room_left(&page))
        };
        if let Some(room) = room {
            self.offer(block, room);
        }
        Ok(true)
    }
}
