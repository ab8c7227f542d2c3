//! Rows that are read and ended by address alone: the pieces of large values (TOAST chunks).
//!
//! No index or scan leads to such a row. A version of another heap holds its address, and every
//! reader that may see that version may read the row: visibility was decided there. The transaction
//! that ends the last version with the address ends the row. So the row lives exactly as long as
//! those versions do together: `[begin of the first, end of the last)`. Pruning judges the row by
//! this lifetime, as any other row. Since no index names the row, its line pointer is free at once
//! when the row goes ([`crate::HeapRegistry::open_pieces`]).
//!
//! One reader uses no snapshot: the gardener, which reads the keys of removed versions. Rows that
//! are pieces of keys are marked when they are inserted. They outlast their lifetime until a caller
//! names them, or until a vacuum that visits all entries.

use niwaki_storage::page::Page;
use niwaki_storage::{PageKind, Tid};
use niwaki_txn::{Horizon, Transaction, XidStatus};

use crate::error::Result;
use crate::format::change::{EndVersion, kind};
use crate::format::header::{NO_LINK, OF_KEY, Tuple, flags};
use crate::format::page;
use crate::pruning::prune::PruneOptions;
use crate::relation::Heap;
use crate::row::insert::InsertOptions;
use crate::row::outcome::NewRow;

/// Returns the row at an address, if there is one.
fn row_at(page: &Page, tid: Tid) -> Option<Tuple<'_>> {
    if page.kind() != PageKind::Heap {
        return None;
    }
    page::tuple(page, tid.offset.0).filter(|tuple| !tuple.has(flags::HEAP_ONLY | flags::STUB))
}

/// The fate of a row, by some horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceFate {
    /// A pass removes the row, or did.
    Gone,
    /// The row has ended, but a snapshot may still see it, or the transaction that ended it is in
    /// progress.
    GoesLater,
    /// No transaction has ended the row, or the one that did was rolled back.
    Stays,
}

impl Heap<'_> {
    /// Inserts a row that is found by its address alone, and returns the address. `of_key` means
    /// that the row is a piece of a key.
    ///
    /// # Errors
    /// As [`Heap::insert`].
    pub fn insert_piece(
        &self,
        transaction: &Transaction,
        bytes: &[u8],
        of_key: bool,
        options: InsertOptions,
    ) -> Result<Tid> {
        debug_assert!(self.relation.pieces, "indexes name the rows of this heap");
        let natts = if of_key { OF_KEY } else { 0 };
        let row = NewRow { natts, has_nulls: false, has_external: false, bytes };
        self.insert(transaction, row, options)
    }

    /// Passes the values of the row at `tid` to `read`, under the page's shared latch, regardless
    /// of visibility. `read` must not wait, or call this heap. Returns `None` when there is no row.
    ///
    /// # Errors
    /// Storage's.
    pub fn read_piece<R>(&self, tid: Tid, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        debug_assert!(self.relation.pieces, "a row of this heap is visible to some snapshots only");
        if !self.has_block(tid)? {
            return Ok(None);
        }
        let pin = self.pin(tid.block.0)?;
        let page = pin.read();
        Ok(row_at(&page, tid).map(|tuple| read(tuple.data())))
    }

    /// Ends the row at `tid` for `transaction`, if `read` accepts its values as the expected ones.
    /// Returns `None`, with nothing done, when there is no such row, or when a transaction that did
    /// not abort has ended it.
    ///
    /// # Errors
    /// Storage's; a read-only transaction's.
    pub fn end_piece<R>(
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
        // No snapshot reads the number of the command that ends the row.
        let xmax_flags = flags::KEYS_UPDATED;
        let end = EndVersion { offset: tid.offset.0, link: NO_LINK, xmax_flags, cid: None };
        self.end_version(&mut page, xid, &end, kind::DELETE)?;
        Ok(Some(found))
    }

    /// Returns the fate of the row at `tid` by this horizon. A row that `is_it` does not recognize
    /// counts as gone.
    ///
    /// # Errors
    /// Storage's.
    pub fn piece_fate(
        &self,
        tid: Tid,
        horizon: &Horizon,
        is_it: impl FnOnce(&[u8]) -> bool,
    ) -> Result<PieceFate> {
        debug_assert!(self.relation.pieces, "the version at {tid} has a chain");
        if !self.has_block(tid)? {
            return Ok(PieceFate::Gone);
        }
        let pin = self.pin(tid.block.0)?;
        let page = pin.read();
        let base = page::base(&page);
        let Some(tuple) = row_at(&page, tid).filter(|tuple| is_it(tuple.data())) else {
            return Ok(PieceFate::Gone);
        };
        Ok(match self.is_gone(base, tuple, None, horizon) {
            (true, _) => PieceFate::Gone,
            _ if !tuple.has_deleter() => PieceFate::Stays,
            _ => match self.txns.status(page::xmax(base, tuple)) {
                XidStatus::Aborted => PieceFate::Stays,
                XidStatus::InProgress | XidStatus::Committed(_) => PieceFate::GoesLater,
            },
        })
    }

    /// Prunes a block by this horizon, if that needs no waiting, and offers its room to insertions.
    /// Of the pieces of keys, only the rows at `named` go. Returns false if another session has
    /// latched the page.
    ///
    /// # Errors
    /// Storage's.
    pub fn prune_pieces(&self, block: u32, named: &[u16], horizon: &Horizon) -> Result<bool> {
        debug_assert!(self.relation.pieces, "indexes name the rows of this heap");
        if block >= self.blocks()? {
            return Ok(true);
        }
        let pin = self.pin(block)?;
        let room = {
            // The session that has latched the page inserts, or vacuums.
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
