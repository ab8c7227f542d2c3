//! The write-ahead log.
//!
//! The log is one stream of bytes, cut into segment files. An LSN counts the bytes of the stream,
//! without the segments' headers. Records are appended to a buffer in memory under one short lock.
//! One thread at a time takes the buffer away, writes it and syncs it for all waiting threads.
//!
//! The order: what a record says (`record`), its bytes (`encode`), segment files (`segment`), the
//! search for a wrong bit (`bit_flip`), reading (`read`), and then the log of an open directory:
//! the state of flushes (`leader`), insertions (`insert`) and flushes (`flush`).

pub(crate) mod bit_flip;
pub(crate) mod encode;
pub(crate) mod flush;
pub(crate) mod insert;
pub(crate) mod leader;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod segment;

pub use encode::{
    BLOCK_HEADER_SIZE, FILE_SIZE, IMAGE_HEADER_SIZE, RECORD_HEADER_SIZE, REMOVES_SIZE,
    SHORT_FILE_SIZE, SHORT_REMOVES_SIZE,
};
pub use insert::{Wal, WalStatistics};
pub use read::{LogEnd, ReadEnd, WalReader};
pub use segment::{SEGMENT_HEADER_SIZE, SegmentHeader};

#[cfg(all(test, not(feature = "loom")))]
mod tests;
