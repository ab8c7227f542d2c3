#![doc = include_str!("../README.md")]

// The wings, lowest first. A wing names only itself and the wings before it.
//
// Errors of storage and of the layers above.
mod error;
// Numbers that name things on disk.
pub mod ids;
// The 8 KiB page.
pub mod page;
// The memory of the pool: frames, without the files and the log behind them.
mod frames;
// The files of a data directory, without the log.
mod disk;
// The write-ahead log.
pub mod wal;
// The buffer pool over files and log.
pub mod buffer;
// Streams that read ahead.
mod stream;
// An open data directory: the handle, checkpoints and background threads.
mod directory;
// Opening of a directory, and redo.
pub mod recovery;
// Checks and comparisons of whole directories.
mod diagnostics;
// Fuzz targets of the decoders.
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;

/// The vocabulary of the write-ahead log: a record's owner, its contents, and the input of redo.
pub mod record {
    pub use crate::directory::checkpoint::CheckpointParticipant;
    pub use crate::recovery::manager::ResourceManager;
    pub use crate::wal::insert::record_bytes;
    pub use crate::wal::record::{
        DecodedImage, DecodedPage, DecodedRecord, LoggedPage, MAX_RECORD_PAGES, Manager, PageLog,
        Record,
    };
}

pub use buffer::{
    BufferPool, Extension, FileStatistics, OptimisticRead, PageRead, PageWrite, Pin, ReadStatistics,
};
pub use diagnostics::check::StorageReport;
pub use diagnostics::compare;
pub use directory::background::{Background, BackgroundWriter};
pub use directory::checkpoint::{
    CheckpointKind, CheckpointParticipant, CheckpointSummary, WriteStatistics,
};
pub use directory::failures::BackgroundTask;
pub use directory::io_workers::IoWorkers;
pub use directory::storage::{FileChanges, Storage, StorageOptions};
pub use disk::control::{Control, FORMAT_VERSION};
pub use disk::file_table::TablePlace;
pub use disk::gate::WriteGate;
pub use error::{Corruption, Error, Result};
pub use ids::{
    BlockNumber, Csn, FIRST_FILE, Fork, Lsn, OffsetNumber, PageId, RelFile, RelFileId, Tid, Xid,
};
pub use page::{ItemId, ItemState, Mixed, Page, PageKind};
pub use recovery::analysis::LogAnalysis;
pub use recovery::manager::ResourceManager;
pub use recovery::{RecoverySummary, Redo, RedoPage};
pub use stream::method::{IoMethod, MethodInUse};
pub use stream::read_stream::{BlocksAhead, ReadAhead, ReadStream};
pub use wal::record::{DecodedPage, DecodedRecord, LoggedPage, Manager, PageLog, Record};
pub use wal::{LogEnd, Wal, WalStatistics};
