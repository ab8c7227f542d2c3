//! The write-ahead log.
//!
//! The log is one stream of bytes, cut into segment files. An LSN counts the bytes of the stream,
//! without the segments' headers. Records are appended to a buffer in memory under one short lock.
//! One thread at a time takes the buffer away, writes it and syncs it for all waiting threads.

pub(crate) mod encode;
mod flip;
mod flush;
mod insert;
mod read;
mod segment;

pub use encode::{
    BLOCK_HEADER_SIZE, FILE_SIZE, IMAGE_HEADER_SIZE, RECORD_HEADER_SIZE, REMOVES_SIZE,
    SHORT_FILE_SIZE, SHORT_REMOVES_SIZE,
};
pub(crate) use encode::{Cursor, Header, decode};
#[cfg(any(test, feature = "hostile"))]
pub(crate) use encode::{is_intact, seal};
pub(crate) use insert::WalStart;
pub use insert::{Wal, WalStatistics};
pub use read::{LogEnd, ReadEnd, WalReader};
pub use segment::{SEGMENT_HEADER_SIZE, SegmentHeader};
pub(crate) use segment::{Segments, WAL_FOLDER};

#[cfg(all(test, not(feature = "loom")))]
mod tests;
