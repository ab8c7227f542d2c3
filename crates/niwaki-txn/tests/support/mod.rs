//! A log without a file.
//!
//! A unit test includes this file by its path. There the crate has another name, so this file takes
//! the crate's items from the module around it.

use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_storage::{Lsn, RelFile, Xid};

use super::{Result, TransactionLog};

/// Gives each record a place of its own; all records are durable at once.
#[derive(Default)]
pub(super) struct CountingLog(AtomicU64);

impl TransactionLog for CountingLog {
    fn append(&self, _: u8, _: Xid, _: &[u8]) -> Result<Lsn> {
        Ok(Lsn(self.0.fetch_add(10, Ordering::AcqRel) + 110))
    }
    fn flush(&self, _: Lsn) -> Result<()> {
        Ok(())
    }
    fn flushed(&self) -> Lsn {
        Lsn(100 + self.0.load(Ordering::Acquire))
    }
    fn drop_file(&self, _: RelFile) {}
}
