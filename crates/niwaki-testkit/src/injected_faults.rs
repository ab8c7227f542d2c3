//! Faults in the world of a simulated process: its disk, its memory, its files.

use std::io;
use std::sync::Arc;

use niwaki_env::rng::SeededRng;
use niwaki_env::vfs::{
    DirectoryLock, Fault, FaultKind, FaultyVfs, OpenMode, Operation, ReadRing, Vfs, VfsFile,
};
use niwaki_env::{Env, memory};

/// Number of powers of two. One of them bounds the number of the next refused request for memory.
const QUESTION_POWERS: u64 = 11;

/// A kind of fault beside the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Reads, writes and growth of relation files fail.
    Disk,
    /// As `Disk`, and also a sync, or a write of the log, fails. That ends the process.
    End,
    /// Questions for memory are refused.
    Memory,
    /// Relation files are removed, or lose their ends.
    Files,
}

impl Trouble {
    /// Returns the SQLSTATEs that report the trouble. Once a lost file was to be cut, nothing can
    /// be written any more.
    pub(crate) fn gives(self) -> &'static [&'static str] {
        match self {
            Self::Disk | Self::End => &["53100", "58030"],
            Self::Memory => &["53200"],
            Self::Files => &["58P01", "58030", "XX001", "55000"],
        }
    }

    /// Makes a fault come soon, or mends the present one.
    pub(crate) fn comes(self, disk: &FaultyVfs, rng: &SeededRng) {
        match self {
            Self::End if rng.chance(1, 4) => end_next(disk, rng),
            Self::Disk | Self::End => fail_next(disk, rng),
            Self::Memory => {
                memory::fail_at(Some(rng.below(1 << rng.below(QUESTION_POWERS))));
            }
            Self::Files if rng.chance(1, 4) => lose_file(disk, rng),
            Self::Files => {}
        }
    }
}

/// Lets an operation on the files of relations fail soon, or heals the disk.
fn fail_next(disk: &FaultyVfs, rng: &SeededRng) {
    use niwaki_env::vfs::FaultKind::{InputOutputError, ShortWrite, StorageFull};
    use niwaki_env::vfs::Operation::{Allocate, Create, Read, Write};
    const FAULTS: [(FaultKind, Operation); 7] = [
        (InputOutputError, Read),
        (InputOutputError, Write),
        (StorageFull, Write),
        (ShortWrite, Write),
        (StorageFull, Allocate),
        (StorageFull, Create),
        (InputOutputError, Create),
    ];
    if rng.chance(1, 3) {
        disk.heal();
        return;
    }
    let (kind, operation) = FAULTS[usize::try_from(rng.below(7)).expect("small")];
    let path_contains = "base/".to_owned();
    let (after, sticky) = (rng.below(12), rng.chance(1, 3));
    disk.inject(Fault { kind, operation, path_contains, after, sticky });
}

/// Lets a sync of any file, or a write of the log, fail soon. Both end the process, unless the
/// write made a new segment of the log ready.
fn end_next(disk: &FaultyVfs, rng: &SeededRng) {
    use niwaki_env::vfs::FaultKind::{
        InputOutputError, ShortWriteOfSectors, StorageFull, SyncFailsAfterWriting, SyncLosesBytes,
    };
    use niwaki_env::vfs::Operation::{SyncData, Write};
    const FAULTS: [(FaultKind, Operation, &str); 6] = [
        (SyncLosesBytes, SyncData, ""),
        (SyncLosesBytes, SyncData, "base/"),
        (SyncFailsAfterWriting, SyncData, ""),
        (InputOutputError, Write, "wal/"),
        (StorageFull, Write, "wal/"),
        (ShortWriteOfSectors, Write, "wal/"),
    ];
    let (kind, operation, path) = FAULTS[usize::try_from(rng.below(6)).expect("small")];
    let (path_contains, after) = (path.to_owned(), rng.below(8));
    disk.inject(Fault { kind, operation, path_contains, after, sticky: false });
}

/// Removes a relation's file or truncates it, as another program may do.
fn lose_file(disk: &FaultyVfs, rng: &SeededRng) {
    let names = disk.list("base").expect("the folder is there");
    let name = &names[usize::try_from(rng.below(names.len() as u64)).expect("small")];
    let path = format!("base/{name}");
    let lost = match rng.chance(1, 2) {
        true => disk.remove(&path),
        false => disk
            .open(&path, OpenMode::Existing)
            .and_then(|file| file.set_len(rng.below(file.len()? + 1))),
    };
    if let Err(error) = lost {
        // The engine removes files, too.
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}: {error}");
    }
}

/// A machine whose process may have few files open: each is closed now and then, and synced first.
#[derive(Debug)]
struct FewFiles(FaultyVfs);

impl Vfs for FewFiles {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        self.0.open(path, mode)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }
    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.0.create_dir(dir)
    }
    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.0.lock_exclusive(path)
    }
    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.0.lock_shared(path)
    }
    fn read_ring(&self) -> io::Result<Arc<dyn ReadRing>> {
        self.0.read_ring()
    }
    fn open_files_limit(&self) -> Option<u64> {
        // The database then works with the least number of open files that it can.
        Some(0)
    }
}

/// Returns a machine with this disk. On every other machine the process may have few files open.
pub(crate) fn machine(disk: &FaultyVfs, seed: u64) -> Env {
    let vfs: Arc<dyn Vfs> = match seed.is_multiple_of(2) {
        true => Arc::new(FewFiles(disk.clone())),
        false => Arc::new(disk.clone()),
    };
    Env::simulated(vfs, seed)
}
