//! Temporary files: written and read by one operation, never synced, gone when it ends.
//!
//! They stand in a folder of their own. A crash leaves them behind; [`crate::Engine::remove_temporary_files`]
//! empties the folder when the database is opened. What a session may use of them, and has used, is its [`TempQuota`].

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_env::vfs::{OpenMode, VfsFile};
use niwaki_storage::{Error as StorageError, WriteGate};

use crate::error::{Error, Result};

/// The folder, below the data directory.
const DIR: &str = "tmp";
/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// Makes temporary files; one per engine.
#[derive(Debug, Default)]
pub struct TempFiles {
    next: AtomicU64,
    /// Open files by their numbers. Handles of them may outlive the database.
    open: Mutex<HashMap<u64, Arc<dyn VfsFile>>>,
    /// Bytes written to all of them.
    written: AtomicU64,
    /// How many were made.
    made: AtomicU64,
    /// Another process may have files of these names when it is closed.
    gate: WriteGate,
}

/// What sessions made of temporary files, those that are gone included.
#[derive(Debug, Default)]
pub struct TempCounts {
    made: AtomicU64,
    written: AtomicU64,
}

impl TempCounts {
    /// How many were made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Bytes written to them.
    pub fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// Temporary files of one session: how many bytes they may hold together, and do.
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
    /// Without a limit; `counts` hears of each file, and of what is written.
    pub fn counted_by(counts: Arc<TempCounts>) -> Self {
        Self { limit: AtomicU64::new(UNLIMITED), used: AtomicU64::new(0), counts }
    }

    /// From now on at most so many bytes at once; `None` for any number.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.limit.store(bytes.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    /// Bytes of the session's temporary files now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes` more.
    fn take(&self, bytes: u64) -> Result<()> {
        // Relaxed: these are numbers of one session, whose threads are few.
        let limit = self.limit.load(Ordering::Relaxed);
        if self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > limit {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::TempFileLimit { kilobytes: limit / 1024 });
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Where an operation puts its temporary files.
#[derive(Clone, Debug)]
pub struct TempSpace {
    env: Env,
    files: Arc<TempFiles>,
    quota: Arc<TempQuota>,
    /// What the files' names begin with.
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
    /// None yet; none is made, written or removed when the directory's `gate` is closed.
    pub(crate) fn new(gate: WriteGate) -> Self {
        Self { gate, ..Self::default() }
    }

    /// Bytes written to temporary files since the database was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Temporary files made since the database was opened.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Closes all files, for good: the database is closed. Handles of them fail from now on.
    pub(crate) fn close_all(&self) {
        self.open.lock().clear();
    }

    /// Removes what a crash left behind. Nobody uses temporary files yet.
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
    /// Files `tmp/<prefix>.N`, within a session's quota.
    pub fn new(
        env: Env,
        files: Arc<TempFiles>,
        quota: Arc<TempQuota>,
        prefix: &'static str,
    ) -> Self {
        Self { env, files, quota, prefix }
    }

    /// What the files count against.
    pub fn quota(&self) -> &TempQuota {
        &self.quota
    }

    /// A new, empty file.
    ///
    /// # Errors
    /// The file system's; why nothing is written any more.
    pub fn create(&self) -> Result<TempFile> {
        self.files.gate.pass()?;
        // Relaxed: only the number's uniqueness matters.
        let number = self.files.next.fetch_add(1, Ordering::Relaxed);
        let path = format!("{DIR}/{}.{number}", self.prefix);
        let vfs = &self.env.vfs;
        vfs.create_dir(DIR).map_err(|e| failed("create the folder of", &path, e))?;
        let file = vfs.open(&path, OpenMode::CreateNew).map_err(|e| failed("create", &path, e))?;
        self.files.open.lock().insert(number, file);
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
    /// The file system's; [`Error::TempFileLimit`]; why nothing is written any more.
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

    /// Bytes that it holds.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads bytes that were written, `buffer.len()` of them from `offset`.
    ///
    /// # Errors
    /// The file system's, also if there are fewer.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let file = self.file()?;
        let mut done = 0;
        // Ends: every turn reads something, or fails.
        while done < buffer.len() {
            let read = file
                .read_at(&mut buffer[done..], offset + done as u64)
                .map_err(|e| failed("read", &self.path, e))?;
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
        // What is not removed now goes at the next start.
        if !self.space.files.gate.is_closed() {
            let _ = self.space.env.vfs.remove(&self.path);
        }
    }
}
