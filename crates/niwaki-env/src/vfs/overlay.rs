//! A read-only directory with all changes in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::memory::Locks;
use super::{DirectoryLock, OpenMode, Vfs, VfsFile, check_path, error, parent};

/// Unit of changed bytes: memory holds a whole chunk once one of its bytes was written.
const CHUNK: usize = 4096;

/// The files of another file system with changes on top. Only this value sees the changes, which
/// end with it. Below, nothing is created, written or removed, and no lock excludes readers.
///
/// A shared lock ([`Vfs::lock_shared`]) keeps writers away from the files below.
#[derive(Debug)]
pub struct OverlayVfs {
    below: Arc<dyn Vfs>,
    tree: Mutex<Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    /// Files that were opened or created here, and `None` for removed files. For all other names
    /// the files below count.
    files: BTreeMap<String, Option<Arc<Changed>>>,
    folders: BTreeSet<String>,
    locks: Arc<Mutex<Locks>>,
}

/// A file with its changes.
#[derive(Debug)]
struct Changed {
    /// The file's path below, if there is one.
    below: Option<String>,
    bytes: RwLock<Bytes>,
}

#[derive(Debug, Default)]
struct Bytes {
    len: u64,
    /// End of the bytes below. A byte in no chunk is read from below if it is in front of this end,
    /// and is zero behind it.
    below_len: u64,
    /// Chunks by number; `None` for a chunk of zeros.
    chunks: BTreeMap<u64, Option<Box<[u8]>>>,
}

#[derive(Debug)]
struct OverlayFile {
    changed: Arc<Changed>,
    /// The file below, open as long as this one.
    below: Option<Arc<dyn VfsFile>>,
}

impl OverlayVfs {
    /// Creates an overlay on the files of `below`, which stay as they are.
    pub fn new(below: Arc<dyn Vfs>) -> Self {
        Self { below, tree: Mutex::default() }
    }

    /// Returns the file of this name, if there is one.
    fn find(&self, tree: &mut Tree, path: &str) -> io::Result<Option<OverlayFile>> {
        let open = |path: &str| self.below.open(path, OpenMode::ReadOnly);
        match tree.files.get(path) {
            Some(None) => Ok(None),
            Some(Some(changed)) => {
                let below = changed.below.as_deref().map(open).transpose()?;
                Ok(Some(OverlayFile { changed: Arc::clone(changed), below }))
            }
            None => {
                let below = match open(path) {
                    Ok(file) => file,
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error),
                };
                let len = below.len()?;
                let bytes = Bytes { len, below_len: len, chunks: BTreeMap::new() };
                let changed =
                    Arc::new(Changed { below: Some(path.to_owned()), bytes: RwLock::new(bytes) });
                tree.files.insert(path.to_owned(), Some(Arc::clone(&changed)));
                Ok(Some(OverlayFile { changed, below: Some(below) }))
            }
        }
    }

    fn is_folder(&self, tree: &Tree, path: &str) -> io::Result<bool> {
        Ok(path.is_empty() || tree.folders.contains(path) || self.below.exists(path)?)
    }

    fn check_folder(&self, tree: &Tree, path: &str) -> io::Result<()> {
        if self.is_folder(tree, parent(path))? {
            return Ok(());
        }
        Err(error(ErrorKind::NotFound, path, "its folder does not exist"))
    }
}

impl Vfs for OverlayVfs {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        check_path(path)?;
        let mut tree = self.tree.lock();
        match (self.find(&mut tree, path)?, mode) {
            (Some(_), OpenMode::CreateNew) => {
                Err(error(ErrorKind::AlreadyExists, path, "file exists"))
            }
            (Some(file), _) => Ok(Arc::new(file)),
            (None, OpenMode::Existing | OpenMode::ReadOnly) => {
                Err(error(ErrorKind::NotFound, path, "no such file"))
            }
            (None, _) => {
                self.check_folder(&tree, path)?;
                let changed = Arc::new(Changed { below: None, bytes: RwLock::default() });
                tree.files.insert(path.to_owned(), Some(Arc::clone(&changed)));
                Ok(Arc::new(OverlayFile { changed, below: None }))
            }
        }
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut tree = self.tree.lock();
        if self.find(&mut tree, path)?.is_none() {
            return Err(error(ErrorKind::NotFound, path, "no such file"));
        }
        tree.files.insert(path.to_owned(), None);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_path(to)?;
        let mut tree = self.tree.lock();
        self.check_folder(&tree, to)?;
        let Some(file) = self.find(&mut tree, from)? else {
            return Err(error(ErrorKind::NotFound, from, "no such file"));
        };
        tree.files.insert(from.to_owned(), None);
        tree.files.insert(to.to_owned(), Some(file.changed));
        Ok(())
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        let tree = self.tree.lock();
        match tree.files.get(path) {
            Some(file) => Ok(file.is_some()),
            None => self.is_folder(&tree, path),
        }
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let tree = self.tree.lock();
        let mut names: BTreeSet<String> = match self.below.list(dir) {
            Ok(names) => names.into_iter().collect(),
            Err(error) if error.kind() == ErrorKind::NotFound && tree.folders.contains(dir) => {
                BTreeSet::new()
            }
            Err(error) => return Err(error),
        };
        for (path, file) in tree.files.iter().filter(|(path, _)| parent(path) == dir) {
            let name = path.rsplit('/').next().unwrap_or(path);
            match file {
                Some(_) => names.insert(name.to_owned()),
                None => names.remove(name),
            };
        }
        Ok(names.into_iter().collect())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        if dir.is_empty() {
            return Ok(());
        }
        check_path(dir)?;
        let mut tree = self.tree.lock();
        let ends = dir.match_indices('/').map(|(at, _)| at).chain([dir.len()]);
        tree.folders.extend(ends.map(|end| dir[..end].to_owned()));
        Ok(())
    }

    fn sync_dir(&self, _dir: &str) -> io::Result<()> {
        Ok(())
    }

    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.lock(path, true)
    }

    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.lock(path, false)
    }

    fn open_files_limit(&self) -> Option<u64> {
        self.below.open_files_limit()
    }
}

impl OverlayVfs {
    fn lock(&self, path: &str, alone: bool) -> io::Result<Box<dyn DirectoryLock>> {
        let below = self.below.lock_shared(path)?;
        let locks = Arc::clone(&self.tree.lock().locks);
        locks.lock().take(path, alone)?;
        Ok(Box::new(Lock { locks, path: path.to_owned(), below: Some(below) }))
    }
}

/// A lock that is held here, alone or shared, and always shared below.
struct Lock {
    locks: Arc<Mutex<Locks>>,
    path: String,
    below: Option<Box<dyn DirectoryLock>>,
}

impl DirectoryLock for Lock {
    fn is_held(&self) -> io::Result<bool> {
        self.below.as_ref().map_or(Ok(true), |below| below.is_held())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.locks.lock().give_back(&self.path);
        drop(self.below.take());
    }
}

/// Returns the parts of chunks that make up `len` bytes from `offset`: number, place in the chunk,
/// place in the whole, bytes.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let inside = usize::try_from(at % CHUNK as u64).unwrap_or(0);
        let count = (CHUNK - inside).min(len - done);
        let part = (at / CHUNK as u64, inside, done, count);
        done += count;
        (count > 0).then_some(part)
    })
}

impl OverlayFile {
    /// Reads bytes that no chunk has.
    fn read_below(&self, bytes: &Bytes, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let there = bytes.below_len.saturating_sub(offset);
        let count = usize::try_from(there).unwrap_or(usize::MAX).min(buf.len());
        let (read, zero) = buf.split_at_mut(count);
        zero.fill(0);
        let got = match &self.below {
            Some(below) if count > 0 => below.read_at(read, offset)?,
            _ => 0,
        };
        if got < count {
            let path = self.changed.below.as_deref().unwrap_or_default();
            return Err(error(ErrorKind::UnexpectedEof, path, "somebody cut the file meanwhile"));
        }
        Ok(())
    }

    fn read(&self, bytes: &Bytes, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        for (number, inside, at, count) in parts(offset, buf.len()) {
            let part = &mut buf[at..at + count];
            match bytes.chunks.get(&number) {
                Some(Some(chunk)) => part.copy_from_slice(&chunk[inside..inside + count]),
                Some(None) => part.fill(0),
                None => self.read_below(bytes, offset + at as u64, part)?,
            }
        }
        Ok(())
    }
}

impl VfsFile for OverlayFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.changed.bytes.read();
        let there = usize::try_from(bytes.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = there.min(buf.len());
        self.read(&bytes, offset, &mut buf[..count])?;
        Ok(count)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).ok_or(ErrorKind::FileTooLarge)?;
        // As on a real system, nothing at all grows no file.
        if buf.is_empty() {
            return Ok(());
        }
        let mut bytes = self.changed.bytes.write();
        for (number, inside, at, count) in parts(offset, buf.len()) {
            let part = &buf[at..at + count];
            if count == CHUNK && part.iter().all(|&byte| byte == 0) {
                bytes.chunks.insert(number, None);
                continue;
            }
            let mut chunk = vec![0; CHUNK].into_boxed_slice();
            if count < CHUNK {
                self.read(&bytes, number * CHUNK as u64, &mut chunk)?;
            }
            chunk[inside..inside + count].copy_from_slice(part);
            bytes.chunks.insert(number, Some(chunk));
        }
        bytes.len = bytes.len.max(end);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.changed.bytes.write();
        bytes.below_len = bytes.below_len.min(len);
        bytes.len = len;
        // Growing the file again must show zeros.
        let (last, inside) = (len / CHUNK as u64, usize::try_from(len % CHUNK as u64).unwrap_or(0));
        let cut = bytes.chunks.split_off(&last).remove(&last);
        // A chunk of zeros stays, too: without it the bytes in front of the cut are those below.
        if let Some(mut chunk) = cut
            && inside > 0
        {
            if let Some(chunk) = &mut chunk {
                chunk[inside..].fill(0);
            }
            bytes.chunks.insert(last, chunk);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.changed.bytes.read().len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.checked_add(len).ok_or(ErrorKind::FileTooLarge)?;
        if len > 0 {
            let mut bytes = self.changed.bytes.write();
            bytes.len = bytes.len.max(end);
        }
        Ok(())
    }
}
