//! The vocabulary of the write-ahead log: a record's owner, its contents, and the input of redo.

use super::encode;
use crate::buffer::guard::{LogTarget, PageWrite};
use crate::directory::storage::Storage;
use crate::error::Result;
use crate::ids::{Csn, Lsn, PageId, Xid};
use crate::recovery::foresight::Foresight;
use crate::recovery::open::Redo;

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

impl<'p> LoggedPage<'p> {
    /// Describes a page logged in `mode`. `data` are pieces that redo needs for the page, at most
    /// 64 KiB together.
    pub fn new(guard: &'p mut PageWrite<'_>, mode: PageLog, data: &'p [&'p [u8]]) -> Self {
        Self { target: guard.log_target(), mode, data }
    }

    /// Describes a page logged as [`PageLog::Delta`].
    pub fn delta(guard: &'p mut PageWrite<'_>, data: &'p [&'p [u8]]) -> Self {
        Self::new(guard, PageLog::Delta, data)
    }

    /// Describes a page logged as [`PageLog::ForceImage`].
    pub fn image(guard: &'p mut PageWrite<'_>) -> Self {
        Self::new(guard, PageLog::ForceImage, &[])
    }

    /// Describes a page logged as [`PageLog::Init`].
    pub fn init(guard: &'p mut PageWrite<'_>, data: &'p [&'p [u8]]) -> Self {
        Self::new(guard, PageLog::Init, data)
    }
}

/// A record to append; see [`Storage::log`].
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

/// Returns the bytes that a record takes in the log, padding included. `pages` holds the bytes of
/// data of each page. The record has no page image and no data of its own, and its pages are of one
/// file, whose number fits 32 bits.
pub fn record_bytes(pages: &[usize], removes: Option<(Csn, Csn)>) -> usize {
    let (_, interval) = encode::removes_form(removes);
    let named: usize = pages.iter().map(|data| encode::BLOCK_HEADER_SIZE + data).sum();
    let file = if pages.is_empty() { 0 } else { encode::SHORT_FILE_SIZE };
    encode::padded(encode::RECORD_HEADER_SIZE + interval + file + named)
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

/// The functions of one layer that recovery calls for the records of that layer.
pub trait ResourceManager: Send + Sync {
    /// Returns the owner of the records that this manager understands.
    fn manager(&self) -> Manager;

    /// Reports the fate of files, and of the transactions that create them, to `foresight`.
    /// Recovery calls this for records that name no page, in the order of the log, before it redoes
    /// anything.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] when the record cannot be understood; recovery stops.
    fn foresee(&self, record: &DecodedRecord<'_>, foresight: &mut Foresight) -> Result<()> {
        let _ = (record, foresight);
        Ok(())
    }

    /// Repeats the record's change on pages that do not have it yet.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] when the record or a page cannot be understood; recovery stops.
    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> Result<()>;

    /// Finishes recovery; called once, when all records are replayed and the log can be written
    /// again.
    ///
    /// Unless the directory was shut down cleanly, a checkpoint follows. Records that are logged
    /// here are then behind its redo position, as in [`CheckpointParticipant::checkpoint`]. `clean`
    /// means that the directory was shut down cleanly, and that no record follows the checkpoint of
    /// that shutdown.
    ///
    /// # Errors
    /// Every error that keeps the database from being opened.
    fn finish_recovery(&self, storage: &Storage, clean: bool) -> Result<()> {
        let _ = (storage, clean);
        Ok(())
    }

    /// Describes the record in words, for readers of the log.
    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        format!("{:?} kind {}", record.manager, record.kind)
    }
}

/// A layer that must write something in every checkpoint.
pub trait CheckpointParticipant: Send + Sync {
    /// Logs facts that recovery needs and cannot get from earlier records. Recovery would begin at
    /// `redo`, and reads no record before it. Runs after the redo position is fixed and before the
    /// checkpoint record is written.
    ///
    /// # Errors
    /// Gives up this checkpoint; the previous one stays valid.
    fn checkpoint(&self, storage: &Storage, redo: Lsn) -> Result<()>;
}
