//! Which segment files have a descriptor: a bounded number, the rest is opened again when needed.
//!
//! ```text
//!            open, make room first                    make room: not used since the last look,
//!   closed ------------------------> open, synced ---------------------------------> closed
//!                                      |      ^                                        ^
//!                                write |      | sync, by a checkpoint                  |
//!                                      v      |                                        |
//!                                   open, unsynced ----- sync, by whoever closes it ---+
//! ```
//!
//! A file with unsynced writes is open. The system tells a failed write-back to the descriptors that
//! were open when it happened; one opened later may never hear of it, if the system let go of what it
//! knew of the file meanwhile (Linux since 4.13 keeps it as long as it keeps the inode in memory;
//! older ones do not). So the obligation to sync never leaves the descriptor that was written
//! through: it is synced before it is closed, and a failure ends the process like any other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_env::sync::plain_atomic::AtomicU64;
use niwaki_env::sync::{Mutex, RwLock};
use niwaki_env::vfs::{OpenMode, VfsFile, is_out_of_descriptors};
use niwaki_env::{Env, critical, seeded_bug};

/// One segment file of a fork. It may have no descriptor for a while.
pub(crate) struct Segment {
    path: String,
    /// Held shared while the descriptor is used, exclusively while it is opened or closed.
    file: RwLock<Option<Arc<dyn VfsFile>>>,
    /// Written since it was last synced; then it is open.
    unsynced: AtomicBool,
    /// Used since room was last looked for, after the use that it was opened for: a walk over many
    /// files does not close those that are used all the time.
    used: AtomicBool,
}

impl Segment {
    /// A file that has just been opened.
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
    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// The segment files that are open.
pub(crate) struct OpenFiles {
    env: Env,
    /// Most descriptors; threads that open files at the same moment may exceed it by one each.
    limit: usize,
    /// Oldest first. A segment that is gone for good still counts until room is looked for.
    ring: Mutex<VecDeque<Weak<Segment>>>,
    /// Files synced because they had to be closed.
    pub(crate) synced_to_close: AtomicU64,
}

impl OpenFiles {
    pub(crate) fn new(env: Env, limit: usize) -> Self {
        Self {
            env,
            limit: limit.max(1),
            ring: Mutex::new(VecDeque::new()),
            synced_to_close: AtomicU64::new(0),
        }
    }

    /// Opens a file that has no [`Segment`] yet; the caller enters the segment that it makes of it.
    pub(crate) fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        self.make_room();
        self.open_or_close(path, mode)
    }

    /// Opens a file; while the process has no descriptor left, others are closed for it.
    fn open_or_close(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        // Ends: each turn closes a file, and others open few files meanwhile.
        loop {
            match self.env.vfs.open(path, mode) {
                Err(error) if is_out_of_descriptors(&error) && self.close_one() => {}
                result => return result,
            }
        }
    }

    /// Closes all files that nobody uses right now. One that is used later is opened again.
    pub(crate) fn close_all(&self) {
        // Ends: each turn closes a file, and the caller lets nobody open many meanwhile.
        while self.close_one() {}
    }

    /// Closes the oldest file that nobody uses right now; false when there is none.
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

    /// Counts an open segment.
    pub(crate) fn enter(&self, segment: &Arc<Segment>) {
        self.ring.lock().push_back(Arc::downgrade(segment));
    }

    /// Does `work` on the file, opening it if it is closed.
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
        let file = match &*alone {
            Some(file) => Arc::clone(file),
            None => {
                let file = self.open_or_close(&segment.path, OpenMode::Existing)?;
                *alone = Some(Arc::clone(&file));
                self.enter(segment);
                file
            }
        };
        // Still under the exclusive lock, so that nobody closes it before it was used.
        work(&file)
    }

    /// [`OpenFiles::with`] for work that writes: the file must be synced before it counts as durable.
    pub(crate) fn write<T>(
        &self,
        segment: &Arc<Segment>,
        work: impl FnOnce(&Arc<dyn VfsFile>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.with(segment, |file| {
            let result = work(file);
            // After the write, so that a sync that takes the mark away covers it; and still inside,
            // so that the file is not closed without it. A failed write may have written a part.
            segment.unsynced.store(true, Ordering::Release);
            result
        })
    }

    /// Whether a file with unsynced writes is still where it was opened; the others do not matter.
    pub(crate) fn is_there(&self, segment: &Segment) -> io::Result<bool> {
        let shared = segment.file.read();
        match &*shared {
            Some(file) if segment.unsynced.load(Ordering::Acquire) => {
                self.env.vfs.is_at(file.as_ref(), &segment.path)
            }
            _ => Ok(true),
        }
    }

    /// Makes what was written durable; false when nothing was. A failure ends the process.
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
        // Its mark is gone: if this panics, nobody syncs what was written.
        let section = critical::enter();
        let synced = file.sync_data();
        drop(section);
        if let Err(e) = synced
            && !seeded_bug!("ignored_file_sync")
        {
            self.env.abort(&format!("could not sync {}: {e}", segment.path));
        }
    }

    /// Closes files until one more may be opened: those not used for a round first, those that need
    /// no sync before the others. Files in use right now stay open.
    fn make_room(&self) {
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
            // Two rounds spare the unsynced; the third takes whatever there is.
            let spared = used
                || (turn < 2 * self.limit && segment.unsynced.load(Ordering::Acquire))
                || !self.close(&segment);
            if spared {
                self.enter(&segment);
            }
        }
    }

    /// Closes a file unless somebody uses it.
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
