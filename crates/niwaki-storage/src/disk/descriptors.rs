//! Open segment files: a bounded number has descriptors, and the rest is opened again when needed.
//!
//! ```text
//!            open, make room first                    make room: not used since the last look,
//!   closed ------------------------> open, synced ---------------------------------> closed
//!                                      |      ^                                        ^
//!                                write |      | sync, by a checkpoint                  |
//!                                      v      |                                        |
//!                                   open, unsynced ---- sync, by the closing thread ---+
//! ```
//!
//! A file with unsynced writes is open. The system reports a failed write-back only to descriptors
//! that were open when the failure happened. A descriptor opened later may miss the report, if the
//! system forgot the file's state meanwhile. Linux since 4.13 keeps the state as long as it keeps
//! the inode in memory; older versions do not. So the obligation to sync stays with the descriptor
//! that was written through. It is synced before it is closed, and a failure ends the process like
//! any other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_env::sync::plain_atomic::AtomicU64;
use niwaki_env::sync::{Mutex, RwLock};
use niwaki_env::vfs::{OpenMode, VfsFile, is_out_of_descriptors};
use niwaki_env::{Env, critical, seeded_bug};

/// One segment file of a fork, which may have no descriptor for a while.
pub(crate) struct Segment {
    path: String,
    /// Held shared while the descriptor is used, exclusively while it is opened or closed.
    file: RwLock<Option<Arc<dyn VfsFile>>>,
    /// The file was written since it was last synced; it is open then.
    unsynced: AtomicBool,
    /// The file was used again since the last search for room; the use that opened it does not
    /// count. So a walk over many files does not close the files that are always in use.
    used: AtomicBool,
}

impl Segment {
    /// Makes the segment of a file that has just been opened.
    pub(crate) fn new(path: String, file: Arc<dyn VfsFile>, unsynced: bool) -> Arc<Self> {
        Arc::new(Self {
            path,
            file: RwLock::new(Some(file)),
            unsynced: AtomicBool::new(unsynced),
            used: AtomicBool::new(false),
        })
    }
}

impl Segment {
    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// The segment files that are open.
pub(crate) struct Descriptors {
    env: Env,
    /// The most descriptors; threads that open files at the same moment may exceed this number by
    /// one each.
    limit: usize,
    /// Open segments, oldest first. A segment that no longer exists still counts until the next
    /// search for room.
    ring: Mutex<VecDeque<Weak<Segment>>>,
    /// Number of files synced because they had to be closed.
    pub(crate) synced_to_close: AtomicU64,
}

impl Descriptors {
    pub(crate) fn new(env: Env, limit: usize) -> Self {
        Self {
            env,
            limit: limit.max(1),
            ring: Mutex::new(VecDeque::new()),
            synced_to_close: AtomicU64::new(0),
        }
    }

    /// Opens a file that has no [`Segment`] yet. The caller makes the segment and enters it.
    pub(crate) fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        self.make_room();
        self.open_or_close(path, mode)
    }

    /// Opens a file; while the process has no descriptor left, closes other files to free one.
    fn open_or_close(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        // Ends: each round closes a file, and other threads open few files meanwhile.
        loop {
            match self.env.vfs.open(path, mode) {
                Err(error) if is_out_of_descriptors(&error) && self.close_one() => {}
                result => return result,
            }
        }
    }

    /// Closes all files that no thread uses right now. A file that is used later is opened again.
    pub(crate) fn close_all(&self) {
        // Ends: each round closes a file, and the caller keeps other threads from opening many.
        while self.close_one() {}
    }

    /// Closes the oldest file that no thread uses right now; false when there is none.
    fn close_one(&self) -> bool {
        let tries = self.ring.lock().len();
        for _ in 0..tries {
            let Some(next) = self.ring.lock().pop_front() else { return false };
            let Some(segment) = next.upgrade() else { continue };
            if self.close(&segment) {
                return true;
            }
            self.enter(&segment);
        }
        false
    }

    /// Adds an open segment to the ring.
    pub(crate) fn enter(&self, segment: &Arc<Segment>) {
        self.ring.lock().push_back(Arc::downgrade(segment));
    }

    /// Does `work` on the file, opening the file if it is closed.
    pub(crate) fn with<T>(
        &self,
        segment: &Arc<Segment>,
        work: impl FnOnce(&Arc<dyn VfsFile>) -> io::Result<T>,
    ) -> io::Result<T> {
        let shared = segment.file.read();
        if let Some(file) = &*shared {
            segment.used.store(true, Ordering::Relaxed);
            return work(file);
        }
        drop(shared);
        self.make_room();
        let mut alone = segment.file.write();
        let file = if let Some(file) = &*alone {
            Arc::clone(file)
        } else {
            let file = self.open_or_close(&segment.path, OpenMode::Existing)?;
            *alone = Some(Arc::clone(&file));
            self.enter(segment);
            file
        };
        // Still under the exclusive lock, so that no thread closes the file before its use.
        work(&file)
    }

    /// Does `work` that writes, like [`Descriptors::with`], and marks the file as unsynced.
    pub(crate) fn write<T>(
        &self,
        segment: &Arc<Segment>,
        work: impl FnOnce(&Arc<dyn VfsFile>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.with(segment, |file| {
            let result = work(file);
            // The mark is set after the write, so that a sync that clears it covers the write. It
            // is set under the lock, so that the file is not closed without the mark. A failed
            // write may have written a part.
            segment.unsynced.store(true, Ordering::Release);
            result
        })
    }

    /// Returns whether a file with unsynced writes is still at its path; files without such writes
    /// do not matter.
    pub(crate) fn is_in_place(&self, segment: &Segment) -> io::Result<bool> {
        let shared = segment.file.read();
        match &*shared {
            Some(file) if segment.unsynced.load(Ordering::Acquire) => {
                self.env.vfs.is_at(file.as_ref(), &segment.path)
            }
            _ => Ok(true),
        }
    }

    /// Makes the file's writes durable; false when there were none. A failure ends the process.
    pub(crate) fn sync(&self, segment: &Segment) -> bool {
        let shared = segment.file.read();
        // AcqRel: the writes that set the mark come before the sync.
        if !segment.unsynced.swap(false, Ordering::AcqRel) {
            return false;
        }
        let file = shared.as_ref().expect("a file with unsynced writes is open");
        self.sync_file(segment, file.as_ref());
        true
    }

    fn sync_file(&self, segment: &Segment, file: &dyn VfsFile) {
        // The mark is already cleared: after a panic here, no thread would sync the writes.
        let section = critical::enter();
        let synced = file.sync_data();
        drop(section);
        if let Err(e) = synced
            && !seeded_bug!("ignored_file_sync")
        {
            self.env.abort(&format!("could not sync {}: {e}", segment.path));
        }
    }

    /// Closes files until one more may be opened: first those not used for a round, and of these
    /// first those that need no sync. Files in use right now stay open.
    fn make_room(&self) {
        debug_assert!(self.limit > 0, "no file can be open");
        let tries = 3 * self.limit;
        for turn in 0..tries {
            let next = {
                let mut ring = self.ring.lock();
                if ring.len() < self.limit {
                    return;
                }
                ring.pop_front()
            };
            let Some(segment) = next.as_ref().and_then(Weak::upgrade) else { continue };
            let used = segment.used.swap(false, Ordering::Relaxed);
            // Two rounds spare unsynced files; the third does not.
            let spared = used
                || (turn < 2 * self.limit && segment.unsynced.load(Ordering::Acquire))
                || !self.close(&segment);
            if spared {
                self.enter(&segment);
            }
        }
    }

    /// Closes a file unless a thread uses it.
    fn close(&self, segment: &Segment) -> bool {
        let Some(mut alone) = segment.file.try_write() else { return false };
        let Some(file) = alone.as_ref() else { return true };
        if segment.unsynced.swap(false, Ordering::AcqRel) {
            self.sync_file(segment, file.as_ref());
            self.synced_to_close.fetch_add(1, Ordering::Relaxed);
        }
        *alone = None;
        true
    }
}
