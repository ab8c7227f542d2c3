//! A simulated file system with crashes, injected faults and a record of all changes.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{BodyChange, Change, Disk, FileId, NameChange};
use super::image::{self, CrashImage, CrashOptions};
use super::memory::{Locks, MemoryVfs};
use super::{
    DeferredReads, DirectoryLock, OpenMode, ReadRing, Vfs, VfsFile, check_path, error, parent,
};
use crate::environment::Crashed;

/// An operation that a program asks of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Creates a file.
    Create,
    /// Removes a file's name.
    Remove,
    /// Renames a file.
    Rename,
    /// Creates a folder.
    CreateDir,
    /// Writes bytes.
    Write,
    /// Sets the length.
    SetLen,
    /// Reserves space.
    Allocate,
    /// Makes a file's bytes durable.
    SyncData,
    /// Makes a folder's names durable.
    SyncDir,
    /// Reads bytes.
    Read,
    /// Asks for a ring for reads.
    Ring,
    /// Makes a ring begin reads.
    RingSubmit,
    /// Makes a ring wait for the end of a read.
    RingWait,
    /// Ends a read of a ring.
    RingEnd,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A sync fails; the bytes are not on disk, yet count as clean: the next sync "succeeds".
    SyncLosesBytes,
    /// A sync fails although the bytes reached the disk.
    SyncFailsAfterWriting,
    /// The operation fails with an input/output error and changes nothing.
    InputOutputError,
    /// No space is left; nothing changes.
    StorageFull,
    /// A write stops half-way, then fails for lack of space.
    ShortWrite,
    /// A write stops half-way, at the end of a sector as on a disk, then fails for lack of space.
    ShortWriteOfSectors,
    /// The operation panics in its caller, and changes nothing.
    Panic,
}

/// A fault, and its condition.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The operation that fails.
    pub operation: Operation,
    /// The fault hits only paths that contain this text; empty for all.
    pub path_contains: String,
    /// Number of matching operations that pass first.
    pub after: u64,
    /// True if the fault hits every matching operation from then on.
    pub sticky: bool,
}

/// A function that receives every write before it happens: path, offset in bytes, bytes. For checks
/// such as "no page before its log".
pub type WriteObserver = Box<dyn Fn(&str, u64, &[u8]) + Send + Sync>;

/// An in-memory file system that knows which bytes are durable, and produces the states that a
/// crash may leave behind. It fails on request, and records every change, so that one run yields
/// the crash images of each of its moments.
///
/// Copies share everything. Every operation is a scheduling point of the deterministic scheduler.
///
/// A buffer must not change during its write; otherwise the write panics. A write to bytes that one
/// of its rings is reading panics, and so does a cut through them.
#[derive(Clone)]
pub struct FaultyVfs {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    observer: Mutex<Option<Arc<WriteObserver>>>,
}

struct State {
    disk: Disk,
    recorded: Option<History>,
    faults: Vec<Fault>,
    counts: BTreeMap<Operation, u64>,
    changes: u64,
    crash_at: Option<u64>,
    crashed: bool,
    locks: Locks,
    /// Byte ranges that rings read now.
    reading: Vec<(FileId, Range<u64>)>,
}

/// The record: every change since [`FaultyVfs::record`], and the disk as it was then.
#[derive(Clone, Debug)]
pub struct History {
    start: Disk,
    changes: Vec<(Operation, Change)>,
}

/// A walk through a [`History`].
#[derive(Debug)]
pub struct Replay<'a> {
    history: &'a History,
    disk: Disk,
    done: usize,
}

impl FaultyVfs {
    /// Creates an empty directory.
    pub fn new() -> Self {
        Self::from_disk(Disk::default())
    }

    /// Creates a directory in which all of `files` is durable, as after a crash.
    pub fn from_memory(files: &MemoryVfs) -> Self {
        Self::from_disk(Disk::with_durable(files.contents(), files.folders()))
    }

    fn from_disk(disk: Disk) -> Self {
        let state = State {
            disk,
            recorded: None,
            faults: Vec::new(),
            counts: BTreeMap::new(),
            changes: 0,
            crash_at: None,
            crashed: false,
            locks: Locks::default(),
            reading: Vec::new(),
        };
        let shared = Shared { state: Mutex::new(state), observer: Mutex::new(None) };
        Self { shared: Arc::new(shared) }
    }

    /// Starts to record changes.
    pub fn record(&self) {
        let mut state = self.shared.state.lock();
        state.recorded = Some(History { start: state.disk.clone(), changes: Vec::new() });
    }

    /// Returns the record so far; recording goes on.
    pub fn history(&self) -> Option<History> {
        self.shared.state.lock().recorded.clone()
    }

    /// Returns the number of changing operations (all but reads). An operation's number is this
    /// count before it.
    pub fn changes(&self) -> u64 {
        self.shared.state.lock().changes
    }

    /// Returns the number of requests of each operation.
    pub fn counts(&self) -> BTreeMap<Operation, u64> {
        self.shared.state.lock().counts.clone()
    }

    /// Crashes at the changing operation of this number, which may or may not reach the disk. Its
    /// caller gets an error, and so does every later operation.
    pub fn crash_at(&self, change: u64) {
        self.shared.state.lock().crash_at = Some(change);
    }

    /// Crashes now.
    pub fn crash(&self) {
        self.shared.state.lock().crashed = true;
    }

    /// Returns whether the crash has happened.
    pub fn crashed(&self) -> bool {
        self.shared.state.lock().crashed
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.state.lock().faults.push(fault);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// Calls `observer` with every write.
    pub fn observe_writes(&self, observer: WriteObserver) {
        *self.shared.observer.lock() = Some(Arc::new(observer));
    }

    /// Returns the machine after the death of the process and its next start. The system's cache is
    /// unchanged, so a program sees every write. Writes that a failed sync lost are there, count as
    /// clean, and go with a later power loss. No lock is held and no fault is set; this copy is
    /// independent of the result.
    pub fn restarted(&self) -> Self {
        Self::from_disk(self.shared.state.lock().disk.clone())
    }

    /// Frees the memory of all files: a process that died is never dropped, and holds them.
    pub fn discard(&self) {
        self.shared.state.lock().disk = Disk::default();
    }

    /// Returns states in which a crash now may leave the disk.
    pub fn crash_images(&self, options: &CrashOptions) -> Vec<CrashImage> {
        let disk = self.shared.state.lock().disk.clone();
        image::images(&disk, options).collect()
    }

    /// Returns the files as programs see them now.
    pub fn current(&self) -> MemoryVfs {
        let state = self.shared.state.lock();
        let names = &state.disk.names;
        let bodies = &state.disk.bodies;
        let files = names.files.iter();
        let files = files.map(|(path, id)| (path.clone(), bodies[id].current.clone())).collect();
        MemoryVfs::from_parts(files, names.folders.clone())
    }
}

impl Default for FaultyVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FaultyVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyVfs after {} changes", self.changes())
    }
}

impl History {
    /// Returns the number of recorded changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether there is no recorded change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns a walk from the beginning.
    pub fn replay(&self) -> Replay<'_> {
        Replay { history: self, disk: self.start.clone(), done: 0 }
    }
}

impl Replay<'_> {
    /// Returns the number of replayed changes.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Returns the last `count` changes in words, oldest first, for the report of a failure.
    pub fn recent(&self, count: usize) -> Vec<String> {
        let first = self.done.saturating_sub(count);
        let changes = self.history.changes[first..self.done].iter().enumerate();
        changes
            .map(|(index, (_, change))| format!("{}: {}", first + index, self.describe(change)))
            .collect()
    }

    fn describe(&self, change: &Change) -> String {
        let name = |file: &FileId| {
            let found = self.disk.names.files.iter().find(|(_, id)| *id == file);
            found.map_or_else(|| format!("(removed file {file})"), |(path, _)| path.clone())
        };
        match change {
            Change::Name(NameChange::Create { path, .. }) => format!("create {path}"),
            Change::Name(NameChange::Remove { path, .. }) => format!("remove {path}"),
            Change::Name(NameChange::Rename { from, to, .. }) => format!("rename {from} to {to}"),
            Change::Name(NameChange::CreateDir { path }) => format!("create folder {path}"),
            Change::Body(file, BodyChange::Write { offset, bytes }) => {
                format!("write {} bytes at {offset} of {}", bytes.len(), name(file))
            }
            Change::Body(file, BodyChange::SetLen { len }) => {
                format!("set length of {} to {len}", name(file))
            }
            Change::Body(file, BodyChange::Allocate { end }) => {
                format!("allocate {} up to {end}", name(file))
            }
            Change::SyncData(file) => format!("sync {}", name(file)),
            Change::SyncDir(dir) => format!("sync folder {dir:?}"),
            Change::Forget(file) => format!("failed sync of {}", name(file)),
        }
    }

    /// Replays one change, and returns its operation; `None` at the end.
    pub fn step(&mut self) -> Option<Operation> {
        let (operation, change) = self.history.changes.get(self.done)?;
        self.disk.apply(change);
        self.done += 1;
        Some(*operation)
    }

    /// Returns states in which a crash at this moment may leave the disk.
    pub fn images(&self, options: &CrashOptions) -> impl Iterator<Item = CrashImage> {
        image::images(&self.disk, options)
    }
}

/// Returns whether an error says that the simulated machine has crashed.
pub fn is_crash(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Crashed>())
}

fn crash_error() -> io::Error {
    io::Error::other(Crashed { reason: "the simulated machine crashed".to_owned() })
}

impl State {
    /// Counts an operation, and returns the fault that hits it, if any.
    fn begin(&mut self, operation: Operation, path: &str) -> io::Result<Option<FaultKind>> {
        if self.crashed {
            return Err(crash_error());
        }
        *self.counts.entry(operation).or_default() += 1;
        let mut happens = None;
        self.faults.retain_mut(|fault| {
            let matches = fault.operation == operation && path.contains(&fault.path_contains);
            if happens.is_some() || !matches {
                return true;
            }
            if fault.after > 0 {
                fault.after -= 1;
                return true;
            }
            happens = Some(fault.kind);
            fault.sticky
        });
        match happens {
            Some(FaultKind::InputOutputError) => {
                Err(error(ErrorKind::Other, path, "input/output error (injected)"))
            }
            Some(FaultKind::StorageFull) => {
                Err(error(ErrorKind::StorageFull, path, "no space left on device (injected)"))
            }
            Some(FaultKind::Panic) => panic!("{operation:?} of {path} panics (injected)"),
            other => Ok(other),
        }
    }

    /// Does the same as [`State::begin`] for an open file, which may have been renamed since it was
    /// opened.
    fn begin_file(
        &mut self,
        operation: Operation,
        file: &FaultyFile,
    ) -> io::Result<Option<FaultKind>> {
        if self.faults.is_empty() {
            return self.begin(operation, &file.path);
        }
        let name = self.disk.names.files.iter().find(|(_, id)| **id == file.id);
        let name = name.map_or_else(|| file.path.clone(), |(name, _)| name.clone());
        self.begin(operation, &name)
    }

    /// Checks that no ring reads the changed bytes: the read would get neither the old bytes nor
    /// the new ones.
    fn assert_unread(&self, file: &FaultyFile, changed: &Range<u64>) {
        let meets = |read: &Range<u64>| read.start < changed.end && changed.start < read.end;
        let read = self.reading.iter().find(|(id, read)| *id == file.id && meets(read));
        assert!(read.is_none(), "{}: {changed:?} changes while {read:?} is read", file.path);
    }

    /// Makes a change. At the chosen moment the machine crashes instead.
    fn change(&mut self, operation: Operation, change: Change) -> io::Result<()> {
        let number = self.changes;
        self.changes += 1;
        if self.crash_at == Some(number) {
            // The change may be among the survivors. A sync that did not return promised nothing,
            // and its effect is one of the images without it.
            self.crashed = true;
            if matches!(change, Change::Name(_) | Change::Body(..)) {
                self.disk.apply(&change);
            }
            return Err(crash_error());
        }
        self.disk.apply(&change);
        if let Some(recorded) = &mut self.recorded {
            recorded.changes.push((operation, change));
        }
        Ok(())
    }

    fn check_folder(&self, path: &str) -> io::Result<()> {
        let folder = parent(path);
        if folder.is_empty() || self.disk.names.folders.contains(folder) {
            return Ok(());
        }
        Err(error(ErrorKind::NotFound, path, "its folder does not exist"))
    }
}

impl Vfs for FaultyVfs {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        crate::sync::yield_point();
        check_path(path)?;
        let mut state = self.shared.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        if state.disk.names.folders.contains(path) {
            return Err(error(ErrorKind::IsADirectory, path, "is a folder"));
        }
        let id = match (state.disk.names.files.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(error(ErrorKind::AlreadyExists, path, "file exists"));
            }
            (Some(id), _) => *id,
            (None, OpenMode::Existing | OpenMode::ReadOnly) => {
                return Err(error(ErrorKind::NotFound, path, "no such file"));
            }
            (None, _) => {
                state.check_folder(path)?;
                state.begin(Operation::Create, path)?;
                let file = state.disk.new_file();
                let change = NameChange::Create { path: path.to_owned(), file };
                state.change(Operation::Create, Change::Name(change))?;
                file
            }
        };
        drop(state);
        Ok(Arc::new(FaultyFile { shared: Arc::clone(&self.shared), id, path: path.to_owned() }))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        crate::sync::yield_point();
        let mut state = self.shared.state.lock();
        state.begin(Operation::Remove, path)?;
        let Some(file) = state.disk.names.files.get(path).copied() else {
            return Err(error(ErrorKind::NotFound, path, "no such file"));
        };
        let change = NameChange::Remove { path: path.to_owned(), file };
        state.change(Operation::Remove, Change::Name(change))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        crate::sync::yield_point();
        check_path(to)?;
        let mut state = self.shared.state.lock();
        state.begin(Operation::Rename, from)?;
        state.check_folder(to)?;
        if state.disk.names.folders.contains(to) {
            return Err(error(ErrorKind::IsADirectory, to, "is a folder"));
        }
        let Some(file) = state.disk.names.files.get(from).copied() else {
            return Err(error(ErrorKind::NotFound, from, "no such file"));
        };
        let change = NameChange::Rename { from: from.to_owned(), to: to.to_owned(), file };
        state.change(Operation::Rename, Change::Name(change))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        let state = self.shared.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        let names = &state.disk.names;
        Ok(path.is_empty() || names.files.contains_key(path) || names.folders.contains(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = self.shared.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        let names = &state.disk.names;
        if !dir.is_empty() && !names.folders.contains(dir) {
            return Err(error(ErrorKind::NotFound, dir, "no such folder"));
        }
        let inside = names.files.keys().filter(|path| parent(path) == dir);
        Ok(inside.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()).collect())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        crate::sync::yield_point();
        if dir.is_empty() {
            return Ok(());
        }
        check_path(dir)?;
        let mut state = self.shared.state.lock();
        let ends = dir.match_indices('/').map(|(at, _)| at).chain([dir.len()]);
        for folder in ends.map(|end| &dir[..end]) {
            if state.disk.names.files.contains_key(folder) {
                return Err(error(ErrorKind::NotADirectory, folder, "is a file"));
            }
            if !state.disk.names.folders.contains(folder) {
                state.begin(Operation::CreateDir, folder)?;
                let change = NameChange::CreateDir { path: folder.to_owned() };
                state.change(Operation::CreateDir, Change::Name(change))?;
            }
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        crate::sync::yield_point();
        let mut state = self.shared.state.lock();
        let fault = state.begin(Operation::SyncDir, dir)?;
        if !dir.is_empty() && !state.disk.names.folders.contains(dir) {
            return Err(error(ErrorKind::NotFound, dir, "no such folder"));
        }
        if fault.is_some() {
            return Err(error(ErrorKind::Other, dir, "input/output error (injected)"));
        }
        state.change(Operation::SyncDir, Change::SyncDir(dir.to_owned()))
    }

    fn lock_exclusive(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.lock(path, true)
    }

    fn lock_shared(&self, path: &str) -> io::Result<Box<dyn DirectoryLock>> {
        self.lock(path, false)
    }

    fn read_ring(&self) -> io::Result<Arc<dyn ReadRing>> {
        self.shared.state.lock().begin(Operation::Ring, "")?;
        let shared = Arc::clone(&self.shared);
        let fails = move |operation| {
            let mut state = shared.state.lock();
            // After a crash the reads fail, each for itself.
            if state.crashed { Ok(()) } else { state.begin(operation, "").map(|_| ()) }
        };
        Ok(Arc::new(DeferredReads::failing(fails)))
    }
}

impl FaultyVfs {
    fn lock(&self, path: &str, alone: bool) -> io::Result<Box<dyn DirectoryLock>> {
        let mut state = self.shared.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        state.locks.take(path, alone)?;
        Ok(Box::new(FaultyLock { shared: Arc::clone(&self.shared), path: path.to_owned() }))
    }
}

struct FaultyLock {
    shared: Arc<Shared>,
    path: String,
}

impl DirectoryLock for FaultyLock {}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        self.shared.state.lock().locks.give_back(&self.path);
    }
}

struct FaultyFile {
    shared: Arc<Shared>,
    id: FileId,
    path: String,
}

impl fmt::Debug for FaultyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyFile {}", self.path)
    }
}

impl VfsFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        crate::sync::yield_point();
        let mut state = self.shared.state.lock();
        state.begin_file(Operation::Read, self)?;
        Ok(state.disk.bodies[&self.id].current.read_at(buf, offset))
    }

    fn being_read(&self, bytes: Range<u64>, ends: bool) {
        let reading = &mut self.shared.state.lock().reading;
        let this = (self.id, bytes);
        if !ends {
            reading.push(this);
        } else if let Some(at) = reading.iter().position(|other| *other == this) {
            reading.swap_remove(at);
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let observer = self.shared.observer.lock().clone();
        if let Some(observer) = observer {
            observer(&self.path, offset, buf);
        }
        // The device reads the buffer at any moment between the call and its return.
        let bytes: Arc<[u8]> = Arc::from(buf);
        crate::sync::yield_point();
        assert!(bytes[..] == *buf, "{}: buffer changed while it was written", self.path);
        let mut state = self.shared.state.lock();
        state.assert_unread(self, &(offset..offset + buf.len() as u64));
        let fault = state.begin_file(Operation::Write, self)?;
        if let Some(kind @ (FaultKind::ShortWrite | FaultKind::ShortWriteOfSectors)) = fault {
            let half = bytes.len() as u64 / 2;
            let written = match kind {
                FaultKind::ShortWrite => half,
                _ => ((offset + half) / image::SECTOR_BYTES * image::SECTOR_BYTES)
                    .saturating_sub(offset),
            };
            let bytes = Arc::from(&bytes[..written as usize]);
            let half = Change::Body(self.id, BodyChange::Write { offset, bytes });
            state.change(Operation::Write, half)?;
            let what = "no space left on device after part of the write (injected)";
            return Err(error(ErrorKind::StorageFull, &self.path, what));
        }
        let change = BodyChange::Write { offset, bytes };
        state.change(Operation::Write, Change::Body(self.id, change))
    }

    fn sync_data(&self) -> io::Result<()> {
        crate::sync::yield_point();
        let mut state = self.shared.state.lock();
        let change = match state.begin_file(Operation::SyncData, self)? {
            None => return state.change(Operation::SyncData, Change::SyncData(self.id)),
            Some(FaultKind::SyncFailsAfterWriting) => Change::SyncData(self.id),
            Some(_) => Change::Forget(self.id),
        };
        state.change(Operation::SyncData, change)?;
        Err(error(ErrorKind::Other, &self.path, "input/output error (injected)"))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        crate::sync::yield_point();
        let mut state = self.shared.state.lock();
        state.assert_unread(self, &(len..u64::MAX));
        state.begin_file(Operation::SetLen, self)?;
        state.change(Operation::SetLen, Change::Body(self.id, BodyChange::SetLen { len }))
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.shared.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        Ok(state.disk.bodies[&self.id].current.len())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        crate::sync::yield_point();
        let end = offset.checked_add(len).ok_or(ErrorKind::FileTooLarge)?;
        let mut state = self.shared.state.lock();
        state.begin_file(Operation::Allocate, self)?;
        state.change(Operation::Allocate, Change::Body(self.id, BodyChange::Allocate { end }))
    }
}
