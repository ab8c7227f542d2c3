//! Temporary files: written and read by one operation, never synced, gone when it ends.
//!
//! They stand in a folder of their own. A crash leaves them behind; [`crate::Engine::remove_temporary_files`]
//! empties the folder when the database is opened.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_env::vfs::{OpenMode, VfsFile};
use niwaki_storage::Error;

/// The folder, below the data directory.
const DIR: &str = "tmp";

/// Makes temporary files; one per engine.
#[derive(Debug, Default)]
pub(crate) struct TempFiles {
    next: AtomicU64,
    /// Bytes written to all of them.
    written: AtomicU64,
}

/// A temporary file, removed with this handle.
#[derive(Debug)]
pub(crate) struct TempFile {
    env: Env,
    path: String,
    file: Arc<dyn VfsFile>,
    len: u64,
    files: Arc<TempFiles>,
}

fn failed(action: &str, path: &str, error: std::io::Error) -> Error {
    Error::io(format!("could not {action} temporary file {path}"), error)
}

impl TempFiles {
    pub(crate) fn create(self: &Arc<Self>, env: &Env) -> Result<TempFile, Error> {
        // Relaxed: only the number's uniqueness matters.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = format!("{DIR}/sort.{number}");
        env.vfs.create_dir(DIR).map_err(|e| failed("create the folder of", &path, e))?;
        let file =
            env.vfs.open(&path, OpenMode::CreateNew).map_err(|e| failed("create", &path, e))?;
        Ok(TempFile { env: env.clone(), path, file, len: 0, files: Arc::clone(self) })
    }

    /// Bytes written to temporary files since the database was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Removes what a crash left behind. Nobody uses temporary files yet.
    pub(crate) fn remove_all(env: &Env) -> Result<(), Error> {
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

impl TempFile {
    /// Appends bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_at(bytes, self.len).map_err(|e| failed("write to", &self.path, e))?;
        self.len += bytes.len() as u64;
        self.files.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes that it holds.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Reads bytes that were written, `buffer.len()` of them from `offset`.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let mut done = 0;
        // Ends: every turn reads something, or fails.
        while done < buffer.len() {
            let read = self
                .file
                .read_at(&mut buffer[done..], offset + done as u64)
                .map_err(|e| failed("read", &self.path, e))?;
            if read == 0 {
                let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                return Err(failed("read", &self.path, short));
            }
            done += read;
        }
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // What cannot be removed now goes at the next start.
        let _ = self.env.vfs.remove(&self.path);
    }
}
