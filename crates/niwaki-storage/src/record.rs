//! The vocabulary of the write-ahead log: who owns a record, what it says, and what redo gets.

use crate::buffer::{LogTarget, PageWrite};
use crate::error::Result;
use crate::foresight::Foresight;
use crate::ids::{Csn, Lsn, PageId, Xid};
use crate::recovery::Redo;
use crate::storage::Storage;
use crate::wal::encode;

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
    /// The manager of this header byte.
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

/// Most pages one record may name.
pub const MAX_RECORD_PAGES: usize = 16;

/// How a page's change is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLog {
    /// The `data` says what changed; an image of the whole page takes its place at the first change
    /// after a checkpoint began.
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
    /// A page logged in `mode`; `data` are the pieces of what redo needs for it (at most 64 KiB).
    pub fn new(guard: &'p mut PageWrite<'_>, mode: PageLog, data: &'p [&'p [u8]]) -> Self {
        Self { target: guard.log_target(), mode, data }
    }

    /// [`PageLog::Delta`].
    pub fn delta(guard: &'p mut PageWrite<'_>, data: &'p [&'p [u8]]) -> Self {
        Self::new(guard, PageLog::Delta, data)
    }

    /// [`PageLog::ForceImage`].
    pub fn image(guard: &'p mut PageWrite<'_>) -> Self {
        Self::new(guard, PageLog::ForceImage, &[])
    }

    /// [`PageLog::Init`].
    pub fn init(guard: &'p mut PageWrite<'_>, data: &'p [&'p [u8]]) -> Self {
        Self::new(guard, PageLog::Init, data)
    }
}

/// A record to append; see [`Storage::log`].
#[derive(Debug)]
pub struct Record<'a, 'p> {
    /// Whose redo reads it.
    pub manager: Manager,
    /// What happened, in the manager's own numbering.
    pub kind: u8,
    /// Layout version of this kind, from 1.
    pub version: u8,
    /// Transaction that did it; [`Xid::INVALID`] when none did.
    pub xid: Xid,
    /// Pieces of the record's own data.
    pub body: &'a [&'a [u8]],
    /// Changed pages, at most [`MAX_RECORD_PAGES`].
    pub pages: &'a mut [LoggedPage<'p>],
    /// Commit interval of the versions or entries that it removes, for standbys.
    pub removes: Option<(Csn, Csn)>,
}

/// Bytes in the log of a record whose pages have so many bytes of data each, if it has no page image
/// and no data of its own, and its pages are of one file whose number 32 bits can tell; padding included.
pub fn record_bytes(pages: &[usize], removes: Option<(Csn, Csn)>) -> usize {
    let (_, interval) = encode::removes_form(removes);
    let named: usize = pages.iter().map(|data| encode::BLOCK_HEADER_SIZE + data).sum();
    let file = if pages.is_empty() { 0 } else { encode::SHORT_FILE_SIZE };
    encode::padded(encode::RECORD_HEADER_SIZE + interval + file + named)
}

/// A record as read back from the log.
#[derive(Debug)]
pub struct DecodedRecord<'a> {
    /// Position of its first byte.
    pub start: Lsn,
    /// Its LSN: position just behind it.
    pub lsn: Lsn,
    /// Owner.
    pub manager: Manager,
    /// What happened.
    pub kind: u8,
    /// Layout version of this kind.
    pub version: u8,
    /// Transaction that did it.
    pub xid: Xid,
    /// Commit interval of what it removes.
    pub removes: Option<(Csn, Csn)>,
    /// Changed pages, in the order in which they were given.
    pub pages: Vec<DecodedPage<'a>>,
    /// The record's own data.
    pub body: &'a [u8],
}

/// A changed page as read back from the log.
#[derive(Debug)]
pub struct DecodedPage<'a> {
    /// Which page.
    pub id: PageId,
    /// Whether redo starts from a zero page.
    pub init: bool,
    /// The page after the change, without its hole.
    pub image: Option<DecodedImage<'a>>,
    /// What redo needs; empty when there is an image.
    pub data: &'a [u8],
}

/// A page image without the hole between line pointers and tuples.
#[derive(Clone, Copy, Debug)]
pub struct DecodedImage<'a> {
    /// Where the hole begins.
    pub hole_offset: u16,
    /// Bytes of the hole.
    pub hole_bytes: u16,
    /// What lies around the hole.
    pub bytes: &'a [u8],
}

/// What one layer knows about its records. Storage calls it in recovery.
pub trait ResourceManager: Send + Sync {
    /// Whose records these are.
    fn manager(&self) -> Manager;

    /// Tells what becomes of files and of the transactions that create them. Recovery calls it for
    /// records that name no page, in the order of the log, before it redoes anything.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] when the record cannot be understood; recovery stops.
    fn foresee(&self, record: &DecodedRecord<'_>, foresight: &mut Foresight) -> Result<()> {
        let _ = (record, foresight);
        Ok(())
    }

    /// Repeats the record's change where it is not on the page yet.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] when the record or a page cannot be understood; recovery stops.
    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> Result<()>;

    /// Called once when all records are replayed and the log can be written again. Unless the
    /// directory was shut down cleanly, a checkpoint follows, and what is logged here is behind its
    /// redo position, as in [`CheckpointParticipant::checkpoint`]. `clean`: it was shut down cleanly,
    /// and nothing was logged behind the checkpoint of that.
    ///
    /// # Errors
    /// Whatever keeps the database from being opened.
    fn finish_recovery(&self, storage: &Storage, clean: bool) -> Result<()> {
        let _ = (storage, clean);
        Ok(())
    }

    /// The record in words, for people who look at the log.
    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        format!("{:?} kind {}", record.manager, record.kind)
    }
}

/// Who must write something down in every checkpoint.
pub trait CheckpointParticipant: Send + Sync {
    /// Logs what recovery cannot find before `redo`, the position at which it would begin. Runs
    /// after the redo position is fixed and before the checkpoint record is written.
    ///
    /// # Errors
    /// Gives up this checkpoint; the previous one stays valid.
    fn checkpoint(&self, storage: &Storage, redo: Lsn) -> Result<()>;
}
