#![doc = include_str!("../README.md")]

mod background;
pub mod buffer;
mod check;
mod checkpoint;
pub mod compare;
mod control;
mod copy;
mod error;
mod failures;
mod file_table;
mod files;
mod foresight;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod ids;
mod known_files;
mod lock;
mod open_files;
pub mod page;
pub mod record;
pub mod recovery;
mod storage;
mod stream;
pub mod wal;

pub use background::{Background, BackgroundWriter};
pub use buffer::{
    BufferPool, Extension, FileStatistics, Glance, PageRead, PageWrite, Pin, ReadStatistics,
};
pub use check::StorageReport;
pub use checkpoint::{CheckpointKind, CheckpointSummary, WriteStatistics};
pub use control::{Control, FORMAT_VERSION};
pub use error::{Corruption, Error, Result};
pub use failures::BackgroundTask;
pub use file_table::TablePlace;
pub use foresight::Foresight;
pub use ids::{BlockNumber, Csn, Fork, Lsn, OffsetNumber, PageId, RelFile, RelFileId, Tid, Xid};
pub use lock::WriteGate;
pub use page::{ItemId, ItemState, Mixed, Page, PageKind};
pub use record::{
    CheckpointParticipant, DecodedPage, DecodedRecord, LoggedPage, Manager, PageLog, Record,
    ResourceManager,
};
pub use recovery::{RecoverySummary, Redo, RedoPage};
pub use storage::{FIRST_FILE, FileChanges, Storage, StorageOptions};
pub use stream::{BlocksAhead, IoMethod, MethodInUse, ReadAhead, ReadStream, Readers};
pub use wal::{LogEnd, Wal, WalStatistics};
