//! Temporary files: scratch space of one operation, never synced, removed when the operation ends.
//!
//! They stand in a folder of their own. A crash leaves them behind;
//! [`crate::Engine::remove_temporary_files`] empties the folder when the database is opened. A
//! session's [`TempQuota`] holds the number of bytes it uses and may use.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_env::vfs::{OpenMode, VfsFile};
use niwaki_storage::{Corruption, Error as StorageError, WriteGate};

use crate::error::{Error, Result};

/// The folder, below the data directory.
const DIR: &str = "tmp";
/// The value of `TempQuota::limit` that means no limit.
const UNLIMITED: u64 = u64::MAX;

/// Makes temporary files; one per engine.
#[derive(Debug, Default)]
pub struct TempFiles {
    next: AtomicU64,
    /// Open files by their numbers. Their handles may outlive the database.
    open: Mutex<HashMap<u64, Arc<dyn VfsFile>>>,
    /// Bytes written to all of them.
    written: AtomicU64,
    /// Number of files made.
    made: AtomicU64,
    /// Closed when the data directory may no longer be written: another process may then have files
    /// of the same names.
    gate: WriteGate,
}

/// Totals over the temporary files of many sessions, closed sessions included.
#[derive(Debug, Default)]
pub struct TempCounts {
    made: AtomicU64,
    written: AtomicU64,
}

impl TempCounts {
    /// Returns the number of files made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes written to the files.
    pub fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// The quota of one session's temporary files: the bytes they hold together, and the limit.
#[derive(Debug)]
pub struct TempQuota {
    limit: AtomicU64,
    used: AtomicU64,
    counts: Arc<TempCounts>,
}

impl Default for TempQuota {
    fn default() -> Self {
        Self::counted_by(Arc::default())
    }
}

impl TempQuota {
    /// Makes a quota without a limit. `counts` counts each file, and the bytes written.
    pub fn counted_by(counts: Arc<TempCounts>) -> Self {
        Self { limit: AtomicU64::new(UNLIMITED), used: AtomicU64::new(0), counts }
    }

    /// Limits the bytes that the files hold at once; `None` removes the limit.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.limit.store(bytes.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    /// Returns the bytes that the session's temporary files hold now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Adds `bytes` to the used ones, unless that exceeds the limit.
    fn take(&self, bytes: u64) -> Result<()> {
        // Relaxed: these are numbers of one session, which has few threads.
        let limit = self.limit.load(Ordering::Relaxed);
        if self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > limit {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::TempFileLimit { kilobytes: limit / 1024 });
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        let used = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(bytes <= used, "{bytes} bytes are given back, and {used} were taken");
    }
}

/// The place for one operation's temporary files.
#[derive(Clone, Debug)]
pub struct TempSpace {
    env: Env,
    files: Arc<TempFiles>,
    quota: Arc<TempQuota>,
    /// The beginning of the files' names.
    prefix: &'static str,
}

/// A temporary file, removed with this handle.
#[derive(Debug)]
pub struct TempFile {
    space: TempSpace,
    path: String,
    number: u64,
    len: u64,
}

fn failed(action: &str, path: &str, error: std::io::Error) -> StorageError {
    StorageError::io(format!("could not {action} temporary file {path}"), error)
}

impl TempFiles {
    /// Makes the registry, without files. None is made, written or removed once the directory's
    /// `gate` is closed.
    pub(crate) fn new(gate: WriteGate) -> Self {
        Self { gate, ..Self::default() }
    }

    /// Returns the bytes written to temporary files since the database was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns the number of temporary files made since the database was opened.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Closes all files for good, because the database is closed. Their handles fail from now on.
    pub(crate) fn close_all(&self) {
        self.open.lock().clear();
    }

    /// Removes the files that a crash left behind. No temporary file is in use yet.
    pub(crate) fn remove_all(env: &Env) -> Result<(), StorageError> {
        if !env.vfs.exists(DIR).map_err(|e| failed("look for", DIR, e))? {
            return Ok(());
        }
        for name in env.vfs.list(DIR).map_err(|e| failed("list", DIR, e))? {
            let path = format!("{DIR}/{name}");
            env.vfs.remove(&path).map_err(|e| failed("remove", &path, e))?;
        }
        Ok(())
    }
}

impl TempSpace {
    /// Makes a place for files `tmp/<prefix>.N`, within a session's quota.
    pub fn new(
        env: Env,
        files: Arc<TempFiles>,
        quota: Arc<TempQuota>,
        prefix: &'static str,
    ) -> Self {
        Self { env, files, quota, prefix }
    }

    /// Returns the quota that limits the files.
    pub fn quota(&self) -> &TempQuota {
        &self.quota
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// The file system's errors; the write gate's reason when the directory may no longer be
    /// written.
    pub fn create(&self) -> Result<TempFile> {
        self.files.gate.pass()?;
        // Relaxed: only the number's uniqueness matters.
        let number = self.files.next.fetch_add(1, Ordering::Relaxed);
        let path = format!("{DIR}/{}.{number}", self.prefix);
        let vfs = &self.env.vfs;
        vfs.create_dir(DIR).map_err(|e| failed("create the folder of", &path, e))?;
        let file = vfs.open(&path, OpenMode::CreateNew).map_err(|e| failed("create", &path, e))?;
        let before = self.files.open.lock().insert(number, file);
        debug_assert!(before.is_none(), "two open temporary files have the number {number}");
        self.files.made.fetch_add(1, Ordering::Relaxed);
        self.quota.counts.made.fetch_add(1, Ordering::Relaxed);
        Ok(TempFile { space: self.clone(), path, number, len: 0 })
    }
}

impl TempFile {
    fn file(&self) -> Result<Arc<dyn VfsFile>> {
        let file = self.space.files.open.lock().get(&self.number).cloned();
        let closed = || StorageError::Refused("the database is closed".to_owned()).into();
        file.ok_or_else(closed)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The file system's errors; [`Error::TempFileLimit`]; the write gate's reason when the
    /// directory may no longer be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.space.files.gate.pass()?;
        let file = self.file()?;
        let more = bytes.len() as u64;
        self.space.quota.take(more)?;
        if let Err(error) = file.write_at(bytes, self.len) {
            self.space.quota.give_back(more);
            return Err(failed("write to", &self.path, error).into());
        }
        self.len += more;
        self.space.files.written.fetch_add(more, Ordering::Relaxed);
        self.space.quota.counts.written.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the error for bytes that are not those that were written (XX001).
    #[cold]
    pub(crate) fn damaged(&self, invariant: &'static str, detail: String) -> Error {
        let (file, block, item) = (self.path.clone(), None, None);
        let corruption = Corruption { file, block, item, invariant, detail };
        StorageError::Corruption(Box::new(corruption)).into()
    }

    /// Returns the number of bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true when the file holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads `buffer.len()` bytes from `offset`.
    ///
    /// # Errors
    /// The file system's errors, also if the file has fewer bytes.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let file = self.file()?;
        let mut done = 0;
        // Ends: every turn reads something, or fails.
        while done < buffer.len() {
            let read = file
                .read_at(&mut buffer[done..], offset + done as u64)
                .map_err(|e| failed("read", &self.path, e))?;
            debug_assert!(read <= buffer.len() - done, "a read gives no more than was asked for");
            if read == 0 {
                let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                return Err(failed("read", &self.path, short).into());
            }
            done += read;
        }
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.space.quota.give_back(self.len);
        let file = self.space.files.open.lock().remove(&self.number);
        drop(file);
        // A file that is not removed now is removed at the next start.
        if !self.space.files.gate.is_closed() {
            let _ = self.space.env.vfs.remove(&self.path);
        }
    }
}
