//! The real file system.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::{Errno, preadv};

use crate::sync::Mutex;

use super::{DirectoryLock, OpenMode, ReadRing, Vfs, VfsFile, check_path, parent};

/// Zeros written at a time where the file system cannot reserve space.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Files below a folder of the machine. Files are created with mode 0600, folders with 0700; every
/// descriptor is closed on exec.
///
/// A few descriptors are kept in reserve while the directory is locked. So a process that has used
/// up all others can still sync a folder and open the log or the control file.
///
/// The folder is the one that its path named when this value was made. A later change of the
/// working directory has no effect here.
#[derive(Debug)]
pub struct OsVfs {
    root: PathBuf,
    reserve: Arc<Mutex<Vec<File>>>,
}

/// Descriptors in reserve: a checkpoint opens two at a time, a commit one, and some more may be
/// opened beside them.
const RESERVE: usize = 8;

impl OsVfs {
    /// Creates the file system below `root`. Nothing is touched yet; `create_dir("")` makes the
    /// folder itself.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root: PathBuf = root.into();
        // An empty path is the working directory. Without one, `full` refuses the path.
        let named = if root.as_os_str().is_empty() { Path::new(".") } else { &root };
        let root = std::path::absolute(named).unwrap_or(root);
        Self { root, reserve: Arc::default() }
    }

    /// Returns the root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Calls `open`, with a descriptor of the reserve if the process has no other.
    fn with_reserve<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        // Ends: each turn takes one descriptor from the reserve.
        loop {
            match open() {
                Err(error) if lacks_descriptor(&error) => {
                    let Some(kept) = self.reserve.lock().pop() else { return Err(error) };
                    drop(kept);
                }
                result => return result,
            }
        }
    }

    /// Fills the reserve as far as the system permits.
    fn fill_reserve(&self) {
        let mut reserve = self.reserve.lock();
        while reserve.len() < RESERVE {
            let Ok(file) = File::open("/dev/null") else { return };
            reserve.push(file);
        }
    }

    fn open_file(&self, path: &str, mode: OpenMode, is_reserved: bool) -> io::Result<File> {
        let full = self.full(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::ReadOnly).mode(0o600);
        match mode {
            OpenMode::Existing | OpenMode::ReadOnly => {}
            OpenMode::CreateIfAbsent => {
                options.create(true).truncate(false);
            }
            OpenMode::CreateNew => {
                options.create_new(true);
            }
        }
        let opened = if is_reserved {
            self.with_reserve(|| options.open(&full))
        } else {
            options.open(&full)
        };
        opened.map_err(|error| with_path(&full, &error))
    }

    /// Locks the lock file. The lock belongs to the open file, so any end of the process ends it. A
    /// second lock through another open file of the same process is refused as well.
    fn lock_file(&self, mut file: &File, path: &str, how: FlockOperation) -> io::Result<()> {
        let full = self.full(path)?;
        match rustix::fs::flock(file, how) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(with_path(&full, &error.into())),
        }
        let (folder, lock) = (self.full(parent(path))?, full.display());
        let folder = folder.display();
        // Readers do not write their process ids.
        if rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_ok() {
            let what = format!(
                "data directory \"{folder}\" is in use by a process that reads it (lock file \"{lock}\")"
            );
            return Err(io::Error::new(ErrorKind::WouldBlock, what));
        }
        let mut holder = String::new();
        // The holder may be about to write its process id.
        let read = file.read_to_string(&mut holder).is_ok();
        let holder = holder.trim();
        let holder = if read && !holder.is_empty() { holder } else { "unknown" };
        let what = format!(
            "data directory \"{folder}\" is in use by process {holder} (lock file \"{lock}\")"
        );
        Err(io::Error::new(ErrorKind::WouldBlock, what))
    }

    /// Locks the folder itself, too: so removing the lock file does not let another process in.
    fn lock_folder(&self, dir: &str, how: FlockOperation) -> io::Result<File> {
        let full = self.full(dir)?;
        let folder = File::open(&full).map_err(|error| with_path(&full, &error))?;
        match rustix::fs::flock(&folder, how) {
            Err(Errno::WOULDBLOCK) => Err(io::Error::new(
                ErrorKind::WouldBlock,
                format!(
                    "data directory \"{}\" is in use by another process, whose lock file was removed",
                    full.display()
                ),
            )),
            // Some file systems lock no folders; there the lock file alone counts.
            _ => Ok(folder),
        }
    }

    fn full(&self, path: &str) -> io::Result<PathBuf> {
        if !self.root.is_absolute() {
            let root = self.root.display();
            let message =
                format!("{root}: the path is relative, and there is no working directory");
            return Err(io::Error::new(ErrorKind::NotFound, message));
        }
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        check_path(path)?;
        Ok(self.root.join(path))
    }
}

/// Returns the text of a lock file.
fn lock_text() -> String {
    format!("{}\n", std::process::id())
}

/// Adds the file's name to an error, which the system leaves out.
fn named(path: &Path, result: io::Result<()>) -> io::Result<()> {
    result.map_err(|error| with_path(path, &error))
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    let message = format!("{}: {error}", path.display());
    if lacks_descriptor(error) {
        return io::Error::other(OutOfDescriptors(message));
    }
    io::Error::new(error.kind(), message)
}

/// The process, or the system, has no descriptor left.
#[derive(Debug)]
struct OutOfDescriptors(String);

impl fmt::Display for OutOfDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OutOfDescriptors {}

/// Returns whether a file could not be opened because too many are open: then closing another one
/// helps.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OutOfDescriptors>())
}

/// Returns the same for an error of the system without a file's name.
fn lacks_descriptor(error: &io::Error) -> bool {
    let lacks =
        |errno| errno == Errno::MFILE.raw_os_error() || errno == Errno::NFILE.raw_os_error();
    error.raw_os_error().is_some_and(lacks)
}

/// Raises the process's limit of open files to the system's maximum. The usual limit of 1,024
/// leaves little for relations beside the sockets of many sessions. For programs; a library leaves
/// the limits of its process alone. Returns the limit, `None` when there is none.
pub fn raise_open_files_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // The old limit works as well, but not as far.
        Err(_) => limit.current,
    }
}

impl Vfs for OsVfs {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let file = self.open_file(path, mode, false)?;
        Ok(Arc::new(OsFile { file }))
    }

    fn open_reserved(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let file = self.open_file(path, mode, true)?;
        // The reserve is filled again when other descriptors have been closed.
        self.fill_reserve();
        Ok(Arc::new(OsFile { file }))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let full = self.full(path)?;
        named(&full, std::fs::remove_file(&full))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.full(from)?, self.full(to)?);
        named(&from, std::fs::rename(&from, &to))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.full(path)?.try_exists()
    }

    fn is_at(&self, file: &dyn VfsFile, path: &str) -> io::Result<bool> {
        let Some(open) = file.descriptor() else { return self.exists(path) };
        let full = self.full(path)?;
        let there = match std::fs::metadata(&full) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(with_path(&full, &error)),
        };
        let open = rustix::fs::fstat(open)?;
        Ok((there.dev(), there.ino()) == (open.st_dev, open.st_ino))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let full = self.full(dir)?;
        let mut names = Vec::new();
        let entries = self.with_reserve(|| std::fs::read_dir(&full));
        for entry in entries.map_err(|error| with_path(&full, &error))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                continue;
            }
            // A name that is not UTF-8 does not belong to a database.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let full = self.full(dir)?;
        // The root's name, and the names of the folders above it, are made durable here: no other
        // code can.
        let missing: Vec<_> = self.root.ancestors().take_while(|above| !above.exists()).collect();
        named(&full, DirBuilder::new().recursive(true).mode(0o700).create(&full))?;
        missing.iter().filter_map(|folder| folder.parent()).try_for_each(|parent| {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            match File::open(parent) {
                Ok(folder) => named(parent, folder.sync_all()),
                // A folder that may be passed but not read cannot be synced.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                Err(error) => Err(with_path(parent, &error)),
            }
        })
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let full = self.full(dir)?;
        let synced = self.with_reserve(|| File::open(&full)).and_then(|folder| folder.sync_all());
        self.fill_reserve();
        named(&full, synced)
    }

    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        let full = self.full(path)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&full)
            .map_err(|error| with_path(&full, &error))?;
        self.lock_file(&file, path, FlockOperation::NonBlockingLockExclusive)?;
        let folder = self.lock_folder(parent(path), FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        file.write_all(lock_text().as_bytes())?;
        self.fill_reserve();
        let reserve = Arc::clone(&self.reserve);
        Ok(Box::new(OsLock { file, path: full, reserve, _folder: folder }))
    }

    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        let how = FlockOperation::NonBlockingLockShared;
        let full = self.full(path)?;
        let file = match File::open(&full) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(with_path(&full, &error)),
        };
        if let Some(file) = &file {
            self.lock_file(file, path, how)?;
        }
        let folder = self.lock_folder(parent(path), how)?;
        Ok(Box::new(SharedOsLock { _file: file, _folder: folder }))
    }

    fn keep_private(&self, empty: bool) -> io::Result<()> {
        let mode = std::fs::metadata(&self.root).map_err(|e| with_path(&self.root, &e))?.mode();
        if mode & 0o077 == 0 {
            return Ok(());
        }
        if empty {
            let private = std::fs::Permissions::from_mode(0o700);
            return named(&self.root, std::fs::set_permissions(&self.root, private));
        }
        let root = self.root.display();
        Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "data directory \"{root}\" has permissions {:04o}, so that others may read it; they \
                 should be 0700 (chmod 700 {root})",
                mode & 0o7777
            ),
        ))
    }

    fn list_root(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.root).map_err(|e| with_path(&self.root, &e))?;
        let name = |entry: io::Result<std::fs::DirEntry>| {
            Ok::<_, io::Error>(entry?.file_name().to_string_lossy().into_owned())
        };
        let mut names = entries.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn open_files_limit(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn read_ring(&self) -> io::Result<Arc<dyn ReadRing>> {
        Ok(Arc::new(super::uring::UringReads::new()?))
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn read_ring(&self) -> io::Result<Arc<dyn ReadRing>> {
        Err(io::Error::new(ErrorKind::Unsupported, "this system has no io_uring"))
    }
}

/// The locked lock file, and its folder.
struct OsLock {
    file: File,
    path: PathBuf,
    /// Freed with the lock.
    reserve: Arc<Mutex<Vec<File>>>,
    _folder: File,
}

impl Drop for OsLock {
    fn drop(&mut self) {
        self.reserve.lock().clear();
    }
}

/// The lock file and its folder, locked together with other readers.
struct SharedOsLock {
    _file: Option<File>,
    _folder: File,
}

impl DirectoryLock for SharedOsLock {}

impl DirectoryLock for OsLock {
    fn is_held(&self) -> io::Result<bool> {
        let mut there = match File::open(&self.path) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(with_path(&self.path, &error)),
        };
        let mut text = String::new();
        // A file that is not text was written by another program.
        let text = there.read_to_string(&mut text).map(|_| text).unwrap_or_default();
        let (mine, there) = (self.file.metadata()?, there.metadata()?);
        let same = (mine.dev(), mine.ino()) == (there.dev(), there.ino());
        Ok(same && text == lock_text())
    }
}

#[derive(Debug)]
struct OsFile {
    file: File,
}

impl VfsFile for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_vectored_at(&self, mut bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        // Ends: each turn reads at least one wanted byte, or was interrupted.
        while !bufs.is_empty() {
            match preadv(&self.file, bufs, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => {
                    done += count;
                    IoSliceMut::advance_slices(&mut bufs, count);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        use rustix::io::{ReadWriteFlags, preadv2};
        match preadv2(&self.file, bufs, offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => Ok(count),
            // The call would have to wait, or the file system does not tell.
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                Ok(0)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        // fdatasync writes the length too when it changed: a file's bytes need it to be read back.
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, len) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.write_zeros(offset, len),
            Err(error) => Err(error.into()),
        }
    }
}

impl OsFile {
    /// Reserves space by writing zeros, for file systems without `fallocate`. Existing bytes are
    /// kept.
    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.checked_add(len).ok_or(ErrorKind::FileTooLarge)?;
        let before = self.len()?;
        let mut at = before.max(offset);
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS.len());
            if let Err(error) = self.file.write_all_at(&ZEROS[..count], at) {
                // "No room" must leave nothing changed.
                self.file.set_len(before)?;
                return Err(error);
            }
            at += count as u64;
        }
        Ok(())
    }
}
