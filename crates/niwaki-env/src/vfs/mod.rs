//! The file system interface: files of one data directory.
//!
//! Paths are relative to the directory, use `/`, and are created only below existing folders.
//! Durability is explicit, as on a real disk. [`VfsFile::sync_data`] makes bytes durable, and
//! [`Vfs::sync_dir`] of their folder makes names durable (`docs/internals/format.md`; reliability:
//! crash-image model).

mod content;
mod deferred;
mod device;
mod disk;
mod faulty;
#[cfg(test)]
mod faulty_tests;
mod image;
mod memory;
mod os;
mod overlay;
mod ring;
#[cfg(test)]
mod tests;
#[cfg(all(target_os = "linux", not(miri)))]
mod uring;

pub use deferred::DeferredReads;
pub use device::SlowVfs;
pub use faulty::{
    Fault, FaultKind, FaultyVfs, History, Operation, Replay, WriteObserver, is_crash,
};
pub use image::{CrashImage, CrashOptions};
pub use memory::MemoryVfs;
pub use os::{OsVfs, is_out_of_descriptors, raise_open_files_limit};
pub use overlay::OverlayVfs;
pub use ring::{ReadDone, ReadRing, RingError};

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Behaviour of [`Vfs::open`] for an absent or present file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist.
    Existing,
    /// The file is created when absent, kept when present.
    CreateIfAbsent,
    /// The file must not exist.
    CreateNew,
    /// The file must exist, and cannot be written through the returned handle.
    ReadOnly,
}

/// A file system below one root folder.
pub trait Vfs: Send + Sync + Debug {
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` or `AlreadyExists` by `mode`; any error of the system.
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>>;
    /// Does the same as [`Vfs::open`] for a file that a commit or a checkpoint needs. It may use a
    /// descriptor of a small reserve when the process has no other left
    /// ([`is_out_of_descriptors`]). So may [`Vfs::sync_dir`] and [`Vfs::list`].
    ///
    /// # Errors
    /// The errors of [`Vfs::open`].
    fn open_reserved(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        self.open(path, mode)
    }
    /// Removes a file. The removal is durable after [`Vfs::sync_dir`].
    ///
    /// # Errors
    /// `NotFound`, or any error of the system.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Renames a file, replacing `to` when present. The renaming is durable after [`Vfs::sync_dir`]
    /// of both folders.
    ///
    /// # Errors
    /// Any error of the system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Returns whether a file or folder of this name exists.
    ///
    /// # Errors
    /// Any error of the system other than `NotFound`.
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// Returns whether `path` still names an open file: it was not removed, moved or replaced.
    ///
    /// # Errors
    /// Any error of the system other than `NotFound`.
    fn is_at(&self, file: &dyn VfsFile, path: &str) -> io::Result<bool> {
        let _ = file;
        self.exists(path)
    }
    /// Returns the names (without folder) of the files directly in `dir`, sorted. `""` is the root.
    ///
    /// # Errors
    /// `NotFound`, or any error of the system.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Creates a folder and its parents, mode 0700; an existing one is kept.
    ///
    /// # Errors
    /// Any error of the system.
    fn create_dir(&self, dir: &str) -> io::Result<()>;
    /// Makes creations, removals and renames in `dir` durable.
    ///
    /// # Errors
    /// Any error of the system. The caller must treat it like a failed fsync: end the process.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Takes the exclusive lock of the directory, by a lock file that holds the process id. The
    /// lock ends when the returned guard is dropped, and with the process.
    ///
    /// # Errors
    /// `WouldBlock`, with the holder's process id in the message, when another holder has the lock.
    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>>;
    /// Takes the shared lock of the directory, which excludes [`Vfs::lock_exclusive`]. Creates and
    /// writes nothing. Without a lock file only the folder itself is locked.
    ///
    /// # Errors
    /// `WouldBlock`, with the holder's process id in the message, when another holder has the
    /// exclusive lock.
    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>>;
    /// Makes sure that other users cannot read the root folder. `empty` says that the folder holds
    /// nothing yet: then its mode changes to 0700.
    ///
    /// # Errors
    /// `PermissionDenied` when other users may read the folder; any error of the system.
    fn keep_private(&self, empty: bool) -> io::Result<()> {
        let _ = empty;
        Ok(())
    }
    /// Returns the names of all files and folders directly in the root, sorted.
    ///
    /// # Errors
    /// Any error of the system.
    fn list_root(&self) -> io::Result<Vec<String>> {
        self.list("")
    }
    /// Returns the greatest number of descriptors that the process may have open, sockets included;
    /// `None` without a limit.
    fn open_files_limit(&self) -> Option<u64> {
        None
    }
    /// Returns a ring for asynchronous reads of these files. If the system cannot read
    /// asynchronously, the ring reads when a caller asks for the end of a read.
    ///
    /// # Errors
    /// The system has no such ring, or refuses it to this process.
    fn read_ring(&self) -> io::Result<Arc<dyn ReadRing>> {
        Ok(Arc::new(DeferredReads::new()))
    }
}

/// The lock of a directory; dropping it releases the lock.
pub trait DirectoryLock: Send + Sync {
    /// Returns whether the lock file is still the locked one. Removing or replacing it may let
    /// another process into the directory.
    ///
    /// # Errors
    /// Any error of the system other than `NotFound`.
    fn is_held(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// An open file. All methods may be called from several threads at once.
pub trait VfsFile: Send + Sync + Debug {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// Any error of the system; interrupted calls are repeated inside.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Does the same as [`VfsFile::read_at`] into several buffers, one after the other.
    ///
    /// # Errors
    /// Any error of the system; some buffers may be filled then.
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        for buf in bufs {
            let got = self.read_at(buf, offset + done as u64)?;
            done += got;
            if got < buf.len() {
                break;
            }
        }
        Ok(done)
    }
    /// Does the same as [`VfsFile::read_vectored_at`], but only as far as the system's cache has
    /// the bytes. Returns the number of bytes, or 0 if the system cannot tell.
    ///
    /// # Errors
    /// Any error of the system.
    fn read_cached_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let _ = (bufs, offset);
        Ok(0)
    }
    /// Notes that a simulated ring reads these bytes from now on or, with `ends`, no longer. For
    /// files that check for writes during a read.
    fn being_read(&self, bytes: Range<u64>, ends: bool) {
        let _ = (bytes, ends);
    }
    /// Returns the system's descriptor, if the file has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Writes all of `buf` at `offset`, growing the file with zeros as needed.
    ///
    /// # Errors
    /// Any error of the system (`StorageFull` when the disk is full); part may be written then.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the bytes and the length of the file durable.
    ///
    /// # Errors
    /// Any error of the system. It is never retried: the process must end (design, invariant W2).
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts or grows (with zeros) the file.
    ///
    /// # Errors
    /// Any error of the system.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Any error of the system.
    fn len(&self) -> io::Result<u64>;
    /// Returns whether the file has no byte.
    ///
    /// # Errors
    /// Any error of the system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reserves disk space for `len` bytes from `offset`, growing the length; new bytes read zero.
    ///
    /// # Errors
    /// `StorageFull` when there is no room; then nothing changed.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;
}

/// Checks that a path stays below the root: relative, no `.` or `..`, no empty component.
///
/// # Errors
/// `InvalidInput` naming the path.
fn check_path(path: &str) -> io::Result<()> {
    let fine = !path.is_empty()
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        && !path.contains('\0');
    if fine {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("path {path:?} does not stay below the data directory"),
    ))
}

/// Returns the folder of a path; `""` for a path in the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn error(kind: io::ErrorKind, path: &str, what: &str) -> io::Error {
    io::Error::new(kind, format!("{path}: {what}"))
}
