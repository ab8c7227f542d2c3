//! A whole data directory in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSliceMut};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::content::Content;
use super::{DirectoryLock, OpenMode, Vfs, VfsFile, check_path, error, parent};

/// Files in memory: for `Database::in_memory()`, and for the state after a crash in tests.
///
/// Handles share one tree; a removed or renamed file stays readable through open handles, as on a
/// real system. The locks inside never belong to the deterministic scheduler. No other file
/// system code runs while one is held, so a thread that holds one is never switched away.
#[derive(Debug, Default)]
pub struct MemoryVfs {
    tree: Arc<Mutex<Tree>>,
}

#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<String, Arc<MemoryFile>>,
    folders: BTreeSet<String>,
    locks: Locks,
}

#[derive(Debug, Default)]
struct MemoryFile {
    content: RwLock<Content>,
}

impl MemoryVfs {
    /// Creates an empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies the files and folders to a directory of their own, in which no lock is held. Cheap:
    /// chunks are shared until written.
    pub fn fork(&self) -> Self {
        Self::from_parts(self.contents(), self.folders())
    }

    /// Returns every file's path and bytes, in path order.
    pub fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        self.contents().into_iter().map(|(path, content)| (path, content.to_vec())).collect()
    }

    pub(super) fn from_parts(files: BTreeMap<String, Content>, folders: BTreeSet<String>) -> Self {
        let files = files
            .into_iter()
            .map(|(path, content)| (path, Arc::new(MemoryFile { content: RwLock::new(content) })))
            .collect();
        Self { tree: Arc::new(Mutex::new(Tree { files, folders, locks: Locks::default() })) }
    }

    pub(super) fn contents(&self) -> BTreeMap<String, Content> {
        let tree = self.tree.lock();
        tree.files.iter().map(|(path, file)| (path.clone(), file.content.read().clone())).collect()
    }

    pub(super) fn folders(&self) -> BTreeSet<String> {
        self.tree.lock().folders.clone()
    }
}

impl Tree {
    fn check_folder(&self, path: &str) -> io::Result<()> {
        let folder = parent(path);
        if folder.is_empty() || self.folders.contains(folder) {
            return Ok(());
        }
        Err(error(ErrorKind::NotFound, path, "its folder does not exist"))
    }
}

impl Vfs for MemoryVfs {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        check_path(path)?;
        let mut tree = self.tree.lock();
        if tree.folders.contains(path) {
            return Err(error(ErrorKind::IsADirectory, path, "is a folder"));
        }
        match (tree.files.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => {
                Err(error(ErrorKind::AlreadyExists, path, "file exists"))
            }
            (Some(file), _) => Ok(Arc::clone(file) as Arc<dyn VfsFile>),
            (None, OpenMode::Existing | OpenMode::ReadOnly) => {
                Err(error(ErrorKind::NotFound, path, "no such file"))
            }
            (None, _) => {
                tree.check_folder(path)?;
                let file = Arc::new(MemoryFile::default());
                tree.files.insert(path.to_owned(), Arc::clone(&file));
                Ok(file)
            }
        }
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        match self.tree.lock().files.remove(path) {
            Some(_) => Ok(()),
            None => Err(error(ErrorKind::NotFound, path, "no such file")),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_path(to)?;
        let mut tree = self.tree.lock();
        tree.check_folder(to)?;
        if tree.folders.contains(to) {
            return Err(error(ErrorKind::IsADirectory, to, "is a folder"));
        }
        let Some(file) = tree.files.remove(from) else {
            return Err(error(ErrorKind::NotFound, from, "no such file"));
        };
        tree.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        let tree = self.tree.lock();
        Ok(path.is_empty() || tree.files.contains_key(path) || tree.folders.contains(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let tree = self.tree.lock();
        if !dir.is_empty() && !tree.folders.contains(dir) {
            return Err(error(ErrorKind::NotFound, dir, "no such folder"));
        }
        let names = tree.files.keys().filter(|path| parent(path) == dir);
        Ok(names.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()).collect())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        if dir.is_empty() {
            return Ok(());
        }
        check_path(dir)?;
        let mut tree = self.tree.lock();
        let ends = dir.match_indices('/').map(|(at, _)| at).chain([dir.len()]);
        for folder in ends.map(|end| &dir[..end]) {
            if tree.files.contains_key(folder) {
                return Err(error(ErrorKind::NotADirectory, folder, "is a file"));
            }
            tree.folders.insert(folder.to_owned());
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        if self.exists(dir)? {
            Ok(())
        } else {
            Err(error(ErrorKind::NotFound, dir, "no such folder"))
        }
    }

    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.lock(path, true)
    }

    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.lock(path, false)
    }
}

impl MemoryVfs {
    fn lock(&self, path: &str, alone: bool) -> io::Result<Box<dyn DirectoryLock>> {
        self.tree.lock().locks.take(path, alone)?;
        Ok(Box::new(MemoryLock { tree: Arc::clone(&self.tree), path: path.to_owned() }))
    }
}

/// Locks of simulated files: each has one exclusive holder, or a number of readers.
#[derive(Debug, Default)]
pub(super) struct Locks(BTreeMap<String, Option<usize>>);

impl Locks {
    /// Takes a lock, alone or with other readers.
    pub(super) fn take(&mut self, path: &str, alone: bool) -> io::Result<()> {
        let next = match (self.0.get(path), alone) {
            (None, true) => None,
            (None, false) => Some(1),
            (Some(Some(readers)), false) => Some(readers + 1),
            _ => {
                let what = format!("locked by process {}", std::process::id());
                return Err(error(ErrorKind::WouldBlock, path, &what));
            }
        };
        self.0.insert(path.to_owned(), next);
        Ok(())
    }

    /// Releases a lock.
    pub(super) fn give_back(&mut self, path: &str) {
        match self.0.get_mut(path) {
            Some(Some(readers)) if *readers > 1 => *readers -= 1,
            _ => _ = self.0.remove(path),
        }
    }
}

struct MemoryLock {
    tree: Arc<Mutex<Tree>>,
    path: String,
}

impl DirectoryLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.tree.lock().locks.give_back(&self.path);
    }
}

impl VfsFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.content.read().read_at(buf, offset))
    }

    fn read_cached_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.read_vectored_at(bufs, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.content.write().write_at(buf, offset);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.content.write().set_len(len);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.read().len())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let Some(end) = offset.checked_add(len) else {
            return Err(io::Error::from(ErrorKind::FileTooLarge));
        };
        let mut content = self.content.write();
        if end > content.len() {
            content.set_len(end);
        }
        Ok(())
    }
}
