//! The vocabulary of the write-ahead log: a record's owner and its contents.

use crate::frames::log_target::LogTarget;
use crate::ids::{Csn, Lsn, PageId, Xid};

/// Owner of a record type (byte in the record header). Numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Manager {
    /// Checkpoints, file creation and removal, full-page images.
    Storage = 0,
    /// Commit, abort, transaction status.
    Transaction = 1,
    /// Heap tuples and pages.
    Heap = 2,
    /// nbtree.
    Nbtree = 3,
    /// Sequences.
    Sequence = 4,
    /// Visibility and free space maps.
    Map = 5,
}

impl Manager {
    /// Returns the manager of this header byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Storage,
            1 => Self::Transaction,
            2 => Self::Heap,
            3 => Self::Nbtree,
            4 => Self::Sequence,
            5 => Self::Map,
            _ => return None,
        })
    }
}

/// The most pages one record may name.
pub const MAX_RECORD_PAGES: usize = 16;

/// The form in which a record holds a page's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLog {
    /// The `data` describes the change. An image of the whole page replaces the data at the first
    /// change after a checkpoint began.
    Delta,
    /// Always an image of the whole page, as it is after the change; `data` is left out.
    ForceImage,
    /// Redo starts from a zero page; no image is ever needed.
    Init,
}

/// A page that a record changes. The page already holds the change, and its latch is held.
#[derive(Debug)]
pub struct LoggedPage<'p> {
    pub(crate) target: LogTarget<'p>,
    pub(crate) mode: PageLog,
    pub(crate) data: &'p [&'p [u8]],
}

/// A record to append; see [`crate::Storage::log`].
#[derive(Debug)]
pub struct Record<'a, 'p> {
    /// The manager whose redo reads the record.
    pub manager: Manager,
    /// The kind of event, in the manager's own numbering.
    pub kind: u8,
    /// Layout version of this kind, from 1.
    pub version: u8,
    /// The transaction that made the change; [`Xid::INVALID`] when none did.
    pub xid: Xid,
    /// Pieces of the record's own data.
    pub body: &'a [&'a [u8]],
    /// Changed pages, at most [`MAX_RECORD_PAGES`].
    pub pages: &'a mut [LoggedPage<'p>],
    /// Commit interval of the versions or entries that the record removes, for standbys.
    pub removes: Option<(Csn, Csn)>,
}

/// A record as read back from the log.
#[derive(Debug)]
pub struct DecodedRecord<'a> {
    /// Position of the record's first byte.
    pub start: Lsn,
    /// LSN of the record: the position just behind it.
    pub lsn: Lsn,
    /// Owner.
    pub manager: Manager,
    /// The kind of event, in the manager's own numbering.
    pub kind: u8,
    /// Layout version of this kind.
    pub version: u8,
    /// The transaction that made the change.
    pub xid: Xid,
    /// Commit interval of the versions or entries that the record removes.
    pub removes: Option<(Csn, Csn)>,
    /// Changed pages, in the order in which they were given.
    pub pages: Vec<DecodedPage<'a>>,
    /// The record's own data.
    pub body: &'a [u8],
}

/// A changed page as read back from the log.
#[derive(Debug)]
pub struct DecodedPage<'a> {
    /// The page's name.
    pub id: PageId,
    /// Redo starts from a zero page.
    pub init: bool,
    /// The page after the change, without its hole.
    pub image: Option<DecodedImage<'a>>,
    /// The data that redo needs; empty when there is an image.
    pub data: &'a [u8],
}

/// A page image without the hole between line pointers and tuples.
#[derive(Clone, Copy, Debug)]
pub struct DecodedImage<'a> {
    /// Start of the hole, as a byte of the page.
    pub hole_offset: u16,
    /// Bytes of the hole.
    pub hole_bytes: u16,
    /// The bytes before and after the hole.
    pub bytes: &'a [u8],
}
