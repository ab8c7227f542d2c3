//! An open data directory, with its pool, files, log and control file.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::SIMULATED;
use niwaki_env::critical::CriticalSection;
use niwaki_env::hash::HashSet;
use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use niwaki_env::sync::{Mutex, RwLock, RwLockReadGuard};
use niwaki_env::vfs::DirectoryLock;

use super::counters::CheckpointCounters;
use super::failures::Failures;
use crate::buffer::pool::BufferPool;
use crate::disk::control::{Control, ControlFile};
use crate::disk::files::Files;
use crate::error::Result;
use crate::ids::{BlockNumber, FIRST_FILE, FORKS, Fork, Lsn, RelFile, RelFileId, Xid};
use crate::stream::method::{IoMethod, MethodInUse};
use crate::wal::insert::Wal;
use crate::wal::record::{LoggedPage, Manager, PageLog, Record};

/// Kinds of the records of [`Manager::Storage`].
pub(crate) mod kind {
    /// Redo position u64, next file u64, time i64.
    pub(crate) const CHECKPOINT: u8 = 1;
    /// File u64, logged u8.
    pub(crate) const CREATE_FILE: u8 = 2;
    /// File u64.
    pub(crate) const DROP_FILE: u8 = 3;
    /// File u64, fork u8, blocks u32.
    pub(crate) const TRUNCATE: u8 = 4;
    /// Images of pages; no body.
    pub(crate) const IMAGES: u8 = 5;
}

/// Options for opening a data directory. Options marked "at creation" are fixed then, and ignored
/// later.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// Frames of the pool, 8 KiB each.
    pub shared_buffers: usize,
    /// Bytes of a segment file of the log, header included; a multiple of 4096, at creation.
    pub wal_segment_bytes: u64,
    /// Bytes of the log held in memory; two buffers of this size exist.
    pub wal_buffers: usize,
    /// Log an image of every page at its first change after a checkpoint began.
    pub full_page_writes: bool,
    /// Bytes of log after which a checkpoint begins.
    pub max_wal_bytes: u64,
    /// Time after which a checkpoint begins.
    pub checkpoint_timeout: Duration,
    /// Part of the time until the next checkpoint over which a checkpoint spreads its writing. The
    /// time is [`StorageOptions::checkpoint_timeout`], or the log until the next checkpoint. 0
    /// means as fast as possible; at most 1.
    pub checkpoint_completion_target: f64,
    /// Time between two searches of the background writer for dirty pages that will soon be
    /// evicted.
    pub bgwriter_delay: Duration,
    /// The most pages that the background writer writes in one round; 0 turns it off.
    pub bgwriter_lru_maxpages: usize,
    /// Look-ahead of the background writer, in multiples of the frames needed lately.
    pub bgwriter_lru_multiplier: f64,
    /// The method by which streams read ahead.
    pub io_method: IoMethod,
    /// Threads of [`IoMethod::Worker`].
    pub io_workers: usize,
    /// The most segment files of relations that are open at once.
    pub open_files_max: usize,
    /// Verify page checksums on every read. They are always written.
    pub checksums: bool,
    /// Pages of a segment file of a relation, at creation.
    pub segment_blocks: u32,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            shared_buffers: 16384,
            wal_segment_bytes: 16 << 20,
            wal_buffers: 4 << 20,
            full_page_writes: true,
            max_wal_bytes: 1 << 30,
            checkpoint_timeout: Duration::from_mins(5),
            checkpoint_completion_target: 0.9,
            bgwriter_delay: Duration::from_millis(200),
            bgwriter_lru_maxpages: 100,
            bgwriter_lru_multiplier: 2.0,
            io_method: IoMethod::default(),
            io_workers: 3,
            open_files_max: 1000,
            checksums: true,
            segment_blocks: 131_072,
        }
    }
}

impl StorageOptions {
    /// Returns options that are as small as possible, so that tests reach the limits.
    pub fn tiny() -> Self {
        Self {
            shared_buffers: 32,
            wal_segment_bytes: 64 << 10,
            wal_buffers: 64 << 10,
            max_wal_bytes: 256 << 10,
            segment_blocks: 16,
            open_files_max: 8,
            ..Self::default()
        }
    }
}

/// A listener for an event.
pub(crate) type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// An open data directory.
pub struct Storage {
    pub(crate) env: Env,
    pub(crate) options: StorageOptions,
    pub(crate) files: Arc<Files>,
    pub(crate) pool: BufferPool,
    pub(crate) wal: Arc<Wal>,
    pub(crate) control: Mutex<ControlFile>,
    pub(crate) next_file: AtomicU64,
    /// The directory was not shut down cleanly before.
    pub(crate) was_killed: bool,
    /// Keeps a checkpoint from fixing its redo position during a change of files.
    ///
    /// Shared from before the record that decides about a file, which may be a commit record, until
    /// the file is changed. Exclusive while a checkpoint fixes its redo position. Otherwise a
    /// record before that position could be half done when the checkpoint ends, and recovery would
    /// not replay it.
    pub(crate) file_changes: RwLock<()>,
    /// Held during a checkpoint, so that only one runs at a time.
    pub(crate) checkpointing: Mutex<()>,
    /// Number of threads that want the running checkpoint to hurry.
    pub(crate) hurry: AtomicU32,
    pub(crate) checkpoint_counters: CheckpointCounters,
    pub(crate) background: niwaki_env::sync::Signal,
    /// Dropped files, in simulations: no change of them may be logged any more (W4).
    pub(crate) dropped: Mutex<HashSet<RelFileId>>,
    pub(crate) failures: Failures,
    pub(crate) io_method: MethodInUse,
    /// Called when the lock is lost.
    pub(crate) when_lost: Mutex<Option<Listener>>,
    /// While this lock is held, no other process opens the directory. A complete shutdown gives the
    /// lock back. Otherwise dropping this struct does, which drops this field last.
    pub(crate) lock: Mutex<Option<Box<dyn DirectoryLock>>>,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Storage {
    /// Returns whether the directory was not shut down cleanly before it was opened. Data that is
    /// not logged and only written at a clean shutdown is then out of date.
    #[inline]
    pub fn was_killed(&self) -> bool {
        self.was_killed
    }

    /// Returns the buffer pool.
    #[inline]
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Returns the write-ahead log.
    #[inline]
    pub fn wal(&self) -> &Wal {
        &self.wal
    }

    /// Returns the environment: files, clock and other system services.
    #[inline]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns the options the storage was opened with.
    pub fn options(&self) -> &StorageOptions {
        &self.options
    }

    /// Returns the method by which streams read ahead now. After the system's ring has failed, this
    /// is [`IoMethod::Sync`].
    pub fn io_method(&self) -> MethodInUse {
        match self.pool.ring_failure() {
            Some(why) => MethodInUse { method: IoMethod::Sync, refused: Some(why) },
            None => self.io_method.clone(),
        }
    }

    /// Registers `tell`, which is called once, with the reason, when the system's ring fails; at
    /// once, if the ring has failed already.
    pub fn when_ring_fails(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        self.pool.when_ring_fails(tell);
    }

    /// Returns the current contents of the control file.
    pub fn control(&self) -> Control {
        self.control.lock().current
    }

    /// Begins a change: makes sure that the log has room for it on disk, and enters a critical
    /// section. Call it with the latches held, before the first changed byte; keep the guard until
    /// [`Storage::log`] has returned. A panic in between ends the process.
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`], while nothing is changed yet.
    #[inline]
    pub fn begin_change(&self) -> Result<CriticalSection> {
        self.wal.ensure_room()?;
        Ok(niwaki_env::critical::enter())
    }

    /// Appends a record, stamps its pages and marks them dirty. This is the only way to change a
    /// page of a logged relation. The pages already hold the change, and the caller holds their
    /// latches. Returns the record's LSN; the record is durable when [`Wal::flushed`] reaches this
    /// LSN.
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`], only for a record without pages, which is then not inserted. A
    /// record with pages is always inserted, even if only in memory, and all writing ends then.
    /// [`Storage::begin_change`] notices a full disk in time.
    ///
    /// # Panics
    /// If the record names more than [`crate::record::MAX_RECORD_PAGES`] pages, or a page's data is
    /// longer than 65,535 bytes.
    pub fn log(&self, record: Record<'_, '_>) -> Result<Lsn> {
        debug_assert!(record.version > 0, "versions of records begin with 1");
        // Marks the pages before the insertion: a checkpoint whose redo position comes after the
        // record must find the page dirty.
        for page in record.pages.iter() {
            page.target.mark_dirty();
            if SIMULATED && !seeded_bug!("logs-behind-a-drop") {
                let id = page.target.id();
                assert!(!self.dropped.lock().contains(&id.file), "W4: a change of {id}, dropped");
            }
        }
        let lsn = self.wal.insert(&record)?;
        for page in record.pages.iter_mut() {
            niwaki_env::invariant!(
                W1,
                page.target.page.lsn() < lsn,
                "{} has LSN {}, behind the record at {lsn}",
                page.target.id(),
                page.target.page.lsn()
            );
            page.target.page.set_lsn(lsn);
            page.target.settle();
        }
        Ok(lsn)
    }

    /// Logs like [`Storage::log`] when `logged`. Otherwise only marks the pages dirty, and returns
    /// LSN 0.
    ///
    /// # Errors
    /// As [`Storage::log`].
    pub fn log_for(&self, logged: bool, record: Record<'_, '_>) -> Result<Lsn> {
        if logged {
            return self.log(record);
        }
        for page in record.pages.iter_mut() {
            page.target.mark_dirty();
            page.target.settle();
        }
        Ok(Lsn(0))
    }

    /// Logs images of these pages and nothing else (bulk loads). The caller gives each page as
    /// [`crate::record::LoggedPage::image`].
    ///
    /// # Errors
    /// As [`Storage::log`].
    pub fn log_images(&self, xid: Xid, pages: &mut [LoggedPage<'_>]) -> Result<Lsn> {
        debug_assert!(
            pages.iter().all(|page| page.mode == PageLog::ForceImage),
            "redo of images knows no other change of a page"
        );
        self.log(Record {
            manager: Manager::Storage,
            kind: kind::IMAGES,
            version: 1,
            xid,
            body: &[],
            pages,
            removes: None,
        })
    }

    /// Returns the next number for a relation's files. No number is given twice, not even after a
    /// crash once a file was created with it.
    pub fn allocate_file(&self) -> RelFileId {
        RelFileId(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number that the next relation file gets: all existing files have lower ones.
    pub fn next_file_number(&self) -> RelFileId {
        RelFileId(self.next_file.load(Ordering::Relaxed))
    }

    fn log_plain(&self, kind: u8, xid: Xid, body: &[&[u8]]) -> Result<Lsn> {
        self.log(Record {
            manager: Manager::Storage,
            kind,
            version: 1,
            xid,
            body,
            pages: &mut [],
            removes: None,
        })
    }

    /// Creates the empty main fork of a relation, and logs the creation.
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`], [`crate::Error::Io`].
    pub fn create_file(&self, file: RelFile, xid: Xid) -> Result<()> {
        let _doing = self.file_changes.read();
        self.next_file.fetch_max(file.id.0 + 1, Ordering::Relaxed);
        self.log_plain(
            kind::CREATE_FILE,
            xid,
            &[&file.id.0.to_le_bytes(), &[u8::from(file.logged)]],
        )?;
        self.files.create(file.id, file.logged, xid)
    }

    /// Returns whether the relation's main fork exists on disk.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn file_exists(&self, file: RelFileId) -> Result<bool> {
        self.files.exists(file)
    }

    /// Returns whether the directory is new: its catalog was not marked as filled, and no file
    /// exists with a number from [`FIRST_FILE`] on.
    pub fn is_new(&self) -> bool {
        !self.control().filled && self.next_file.load(Ordering::Relaxed) <= FIRST_FILE.0
    }

    /// Marks the first catalog as filled, durably: from here on the directory never counts as new.
    ///
    /// # Errors
    /// The control file cannot be written; opening the directory fails then.
    pub fn set_filled(&self) -> Result<()> {
        let mut control = self.control.lock();
        if !control.current.filled {
            let next = Control { filled: true, ..control.current };
            control.replace(next)?;
        }
        Ok(())
    }

    /// Returns the relation files that should exist, ascending, with the creator of each.
    pub fn known_files(&self) -> Vec<(RelFile, Xid)> {
        let known = self.files.all_known().into_iter();
        known.map(|(id, entry)| (RelFile { id, logged: entry.logged }, entry.creator)).collect()
    }

    /// Returns whether all bytes of a file are zero: nothing was ever written to it.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn is_blank(&self, file: RelFileId) -> Result<bool> {
        self.files.is_blank(file)
    }

    /// Moves the files of a relation out of the way, and returns their new paths. The catalog does
    /// not name the files, no thread uses them, and no record behind the redo position names them.
    /// The move is durable. The table of files drops the relation with the next checkpoint.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn move_aside(&self, file: RelFileId) -> Result<Vec<String>> {
        for fork in FORKS {
            self.pool.forget(file, fork, BlockNumber(0));
        }
        self.files.move_aside(file)
    }

    /// Returns the numbers of all relations that have files, ascending.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn list_files(&self) -> Result<Vec<RelFileId>> {
        self.files.list()
    }

    /// Removes all files of a relation that is no longer in use: after the commit that dropped it,
    /// or the abort of its creator. The relation's pages in the pool are discarded without a write.
    /// In redo use [`crate::recovery::Redo::drop_file`].
    ///
    /// # Errors
    /// [`crate::Error::Io`]; files that could not be removed are orphans.
    pub fn drop_file(&self, file: RelFile) -> Result<()> {
        self.change_files().drop_file(file)
    }

    /// Keeps checkpoints from fixing a redo position until the result is dropped. Callers that log
    /// the removal of files hold the result from before that record until the files are gone.
    /// Otherwise a record before the redo position would not be replayed, and the files would stay.
    pub fn change_files(&self) -> FileChanges<'_> {
        FileChanges { storage: self, _no_redo_position: self.file_changes.read() }
    }

    pub(crate) fn remove_file(&self, file: RelFileId) -> Result<()> {
        for fork in FORKS {
            self.pool.forget(file, fork, BlockNumber(0));
        }
        self.files.remove(file)
    }

    /// Truncates a fork to its first `blocks` pages. The caller keeps all other threads from the
    /// pages that are cut off. For a logged relation the truncation is logged, and durable before
    /// the first byte is cut.
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`] before anything has changed. After a later failure all writing
    /// ends: pages are discarded already, and recovery repeats the truncation.
    pub fn truncate_fork(&self, file: RelFile, fork: Fork, blocks: u32) -> Result<()> {
        if blocks >= self.pool.blocks(file.id, fork)? {
            return Ok(());
        }
        let _doing = self.file_changes.read();
        if file.logged {
            let lsn = self.log_plain(
                kind::TRUNCATE,
                Xid::INVALID,
                &[&file.id.0.to_le_bytes(), &[fork as u8], &blocks.to_le_bytes()],
            )?;
            if !seeded_bug!("cut_before_log") {
                self.wal.flush(lsn)?;
            }
        }
        self.wal.segments.gate.pass()?;
        let cut = self.truncate_files(file.id, fork, blocks);
        // After a failed cut, a checkpoint would let the next start find the file with its old end.
        cut.inspect_err(|error| self.wal.segments.gate.close(error.clone()))
    }

    pub(crate) fn truncate_files(&self, file: RelFileId, fork: Fork, blocks: u32) -> Result<()> {
        self.pool.forget(file, fork, BlockNumber(blocks));
        let open = self.files.fork(file, fork)?;
        self.files.set_blocks(&open, blocks)
    }

    /// Empties all forks of an unlogged relation, after a crash.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn reset_unlogged(&self, file: RelFileId) -> Result<()> {
        for fork in FORKS {
            self.pool.forget(file, fork, BlockNumber(0));
        }
        self.files.create(file, false, Xid::INVALID)
    }
}

/// Changes of files that belong to one record; see [`Storage::change_files`].
pub struct FileChanges<'s> {
    storage: &'s Storage,
    _no_redo_position: RwLockReadGuard<'s, ()>,
}

impl fmt::Debug for FileChanges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileChanges").finish_non_exhaustive()
    }
}

impl FileChanges<'_> {
    /// Removes a file like [`Storage::drop_file`].
    ///
    /// # Errors
    /// As [`Storage::drop_file`].
    pub fn drop_file(&self, file: RelFile) -> Result<()> {
        let (storage, number) = (self.storage, file.id.0.to_le_bytes());
        let lsn = storage.log_plain(kind::DROP_FILE, Xid::INVALID, &[&number])?;
        if SIMULATED {
            storage.dropped.lock().insert(file.id);
        }
        // Redo of earlier records of this file must know that the file may be gone.
        storage.wal.flush(lsn)?;
        storage.remove_file(file.id)
    }
}
