//! Inserting rows.

use niwaki_storage::{LoggedPage, OffsetNumber, PageLog, PageWrite, Tid};
use niwaki_txn::Transaction;

use crate::error::{Error, Result};
use crate::format::change::{PlaceRow, kind};
use crate::format::header::TUPLE_HEADER_SIZE;
use crate::format::map_page::PageVisibility;
use crate::format::page::{self, MAX_TUPLE_SIZE, has_room, next_offset};
use crate::relation::Heap;
use crate::row::outcome::NewRow;

/// The most bytes of one multi-insert record: the data of a page in a log record may not be longer.
const MULTI_RECORD_MAX: usize = 60_000;
// The last row of a record has 7 bytes in front of its values.
const _: () = assert!(MULTI_RECORD_MAX + 7 <= u16::MAX as usize);
// Each record has a row.
const _: () = assert!(MAX_TUPLE_SIZE < MULTI_RECORD_MAX);

/// Options of an insertion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsertOptions {
    /// True to mark the rows as committed before all transactions (COPY FREEZE). Allowed only for a
    /// table that this transaction created or emptied, and that no other transaction can see.
    pub frozen: bool,
}

/// Returns the bytes of the row with its header.
pub(crate) fn tuple_size(row: &NewRow<'_>) -> Result<usize> {
    let size = TUPLE_HEADER_SIZE + row.bytes.len();
    if size > MAX_TUPLE_SIZE {
        return Err(Error::RowTooBig { size, max: MAX_TUPLE_SIZE });
    }
    debug_assert!(u16::try_from(size).is_ok(), "a record has the length in two bytes");
    Ok(size)
}

/// Returns the session's number, to spread sessions over pages.
#[inline]
pub(crate) fn session_slot(transaction: &Transaction) -> usize {
    transaction.session().backend().unsigned_abs() as usize
}

pub(crate) fn place<'a>(row: &NewRow<'a>, offset: u16, frozen: bool) -> PlaceRow<'a> {
    debug_assert_ne!(offset, 0, "line pointers are numbered from 1");
    debug_assert!(
        TUPLE_HEADER_SIZE + row.bytes.len() <= MAX_TUPLE_SIZE,
        "no page has room for {} bytes",
        row.bytes.len()
    );
    PlaceRow {
        offset,
        natts: row.natts,
        has_nulls: row.has_nulls,
        has_external: row.has_external,
        frozen,
        data: row.bytes,
    }
}

/// Returns how a page's change is logged: from zero when the page is new.
pub(crate) fn page_log(new: bool) -> PageLog {
    if new { PageLog::Init } else { PageLog::Delta }
}

impl Heap<'_> {
    /// Inserts a row and returns its TID, which is the root of its chain.
    ///
    /// # Errors
    /// [`Error::RowTooBig`]; storage's; a read-only transaction's.
    pub fn insert(
        &self,
        transaction: &Transaction,
        row: NewRow<'_>,
        options: InsertOptions,
    ) -> Result<Tid> {
        let len = tuple_size(&row)?;
        let xid = transaction.write_xid()?;
        let mut page = self.page_for_insert(session_slot(transaction), len, xid)?;
        let new = page.is_new();
        let map = self.lower_visibility([page.id().block.0], PageVisibility::Unknown)?;
        let _critical = self.storage.begin_change()?;
        if new {
            page::init(&mut page, page::initial_base(xid));
        }
        let place = place(&row, next_offset(&page), options.frozen);
        let tid = Tid { block: page.id().block, offset: OffsetNumber(place.offset) };
        self.note_root_change(tid);
        let placed = place.apply(&mut page, xid, transaction.insert_cid().raw);
        assert!(placed, "a page chosen for a row takes it");
        let head = place.head();
        let data: [&[u8]; 2] = [&head, place.data];
        self.log(kind::INSERT, xid, [LoggedPage::new(&mut page, page_log(new), &data)], map)?;
        Ok(tid)
    }

    /// Inserts rows (COPY), with one log record for all rows that go to the same page. Appends
    /// their TIDs to `tids`, in the order of the rows.
    ///
    /// # Errors
    /// As [`Heap::insert`]; the rows of the pages before the failing one are inserted.
    pub fn insert_many(
        &self,
        transaction: &Transaction,
        rows: &[NewRow<'_>],
        options: InsertOptions,
        tids: &mut Vec<Tid>,
    ) -> Result<()> {
        for row in rows {
            tuple_size(row)?;
        }
        let xid = transaction.write_xid()?;
        let before = tids.len();
        let mut rest = rows;
        let mut record = Vec::new();
        while let Some(first) = rest.first() {
            let len = tuple_size(first)?;
            let mut page = self.page_for_insert(session_slot(transaction), len, xid)?;
            let new = page.is_new();
            record.clear();
            let map = self.lower_visibility([page.id().block.0], PageVisibility::Unknown)?;
            let _critical = self.storage.begin_change()?;
            if new {
                page::init(&mut page, page::initial_base(xid));
            }
            let mut done = 0;
            for row in rest {
                let len = TUPLE_HEADER_SIZE + row.bytes.len();
                let fits = done == 0 || self.takes_more(&page, len);
                if !fits || record.len() + row.bytes.len() > MULTI_RECORD_MAX {
                    break;
                }
                let place = place(row, next_offset(&page), options.frozen);
                let tid = Tid { block: page.id().block, offset: OffsetNumber(place.offset) };
                self.note_root_change(tid);
                let placed = place.apply(&mut page, xid, transaction.insert_cid().raw);
                assert!(placed, "a page chosen for a row takes it");
                record.extend_from_slice(&place.head());
                record.extend_from_slice(&(row.bytes.len() as u16).to_le_bytes());
                record.extend_from_slice(row.bytes);
                tids.push(tid);
                done += 1;
            }
            debug_assert_ne!(done, 0, "the page was chosen for its first row");
            debug_assert!(u16::try_from(record.len()).is_ok(), "{} bytes", record.len());
            let data: [&[u8]; 1] = [&record];
            let logged = LoggedPage::new(&mut page, page_log(new), &data);
            self.log(kind::MULTI_INSERT, xid, [logged], map)?;
            rest = &rest[done..];
        }
        debug_assert_eq!(tids.len() - before, rows.len(), "a TID for each row");
        Ok(())
    }

    /// Returns whether a page that already got a row takes another one.
    fn takes_more(&self, page: &PageWrite<'_>, len: usize) -> bool {
        has_room(page, len) && page.free_bytes() >= len + self.relation.reserve()
    }
}
