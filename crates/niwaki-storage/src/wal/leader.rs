//! The state of flushes: threads that wait, and the data of the thread that writes.

use std::sync::Arc;

use niwaki_env::sync::Parker;
use niwaki_env::sync::atomic::AtomicU8;
use niwaki_env::vfs::VfsFile;

pub(super) const WAITING: u8 = 0;
pub(super) const SERVED: u8 = 1;
pub(super) const LEADING: u8 = 2;

const _: () = assert!(WAITING != SERVED, "a thread would stop waiting as it begins");
const _: () = assert!(SERVED != LEADING && WAITING != LEADING, "no thread would have the turn");

/// A thread that waits for a flush.
pub(super) struct Sleeper {
    pub(super) parker: Parker,
    pub(super) outcome: AtomicU8,
}

/// The state of flushing: whether a flush is under way, and the threads that wait.
#[derive(Default)]
pub(super) struct FlushState {
    pub(super) active: bool,
    /// Waiting threads with the position that each waits for, oldest first.
    pub(super) queue: Vec<(u64, Arc<Sleeper>)>,
}

/// Data that only the flushing thread uses.
pub(super) struct Leader {
    /// Buffer that replaces the one being written.
    pub(super) spare: Vec<u8>,
    /// Segments written but not synced.
    pub(super) unsynced: Vec<Arc<dyn VfsFile>>,
    /// Everything before this position is written.
    pub(super) written: u64,
    /// Threads to wake; kept for its allocation.
    pub(super) served: Vec<(u64, Arc<Sleeper>)>,
}

impl Leader {
    pub(super) fn new(buffer_bytes: usize) -> Self {
        Self {
            spare: Vec::with_capacity(buffer_bytes),
            unsynced: Vec::new(),
            written: 0,
            served: Vec::new(),
        }
    }
}
