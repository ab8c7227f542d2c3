//! Relation files: forks cut into segments, with their lengths and their need for a sync.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use niwaki_env::sync::plain_atomic::AtomicU64;
use niwaki_env::sync::{Mutex, RwLock};
use niwaki_env::vfs::{OpenMode, VfsFile};
use niwaki_env::{Env, critical, invariant, seeded_bug};

use super::descriptors::{Descriptors, Segment};
use super::file_table::{KnownFile, Runs, too_short};
use super::gate::WriteGate;
use crate::error::{Corruption, Error, Result};
use crate::ids::{BASE, BlockNumber, FORKS, Fork, Lsn, PageId, RelFileId, Xid, fork_file_name};
use crate::page::{KIND_AT, LSN_AT, PAGE_SIZE, Page, PageKind};

/// Counters of one fork since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct ForkCounters {
    pub(crate) hits: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) dirtied: AtomicU64,
    pub(crate) written: AtomicU64,
}

/// One fork of one relation.
pub(crate) struct ForkFile {
    file: RelFileId,
    fork: Fork,
    segments: RwLock<Vec<Arc<Segment>>>,
    /// Length when the fork was opened, `None` without a file. Redo may have made the fork longer
    /// since, but does not bring back lost pages.
    pub(crate) found: Mutex<Option<u32>>,
    /// Length in pages; grows under `extend_lock`.
    blocks: AtomicU32,
    /// Pages from here on were not written since the fork grew over them. They are zero, and need
    /// not be read.
    written_blocks: AtomicU32,
    /// Blocks of a main fork that hold a page on disk, and so must not read as zeros.
    pub(crate) written: Mutex<Runs>,
    /// Held while the fork grows.
    pub(crate) extend_lock: Mutex<()>,
    /// Number of threads that wait to grow the fork; it decides how much the fork grows at once.
    pub(crate) extend_waiters: AtomicU32,
    pub(crate) counters: ForkCounters,
}

/// Open relation files.
pub(crate) struct Files {
    env: Env,
    /// Pages of a segment file.
    segment_blocks: u32,
    pub(crate) forks: RwLock<HashMap<(RelFileId, Fork), Arc<ForkFile>>>,
    /// The relation files that should exist. Where the main fork is open, the fork's own fields are
    /// newer.
    pub(crate) known: Mutex<HashMap<RelFileId, KnownFile>>,
    open: Descriptors,
    gate: WriteGate,
    /// A file was created or removed since the folder was last synced.
    folder_changed: AtomicBool,
    /// A killed process may have left writes that are only in the system's memory.
    unsynced_when_opened: bool,
    /// Records are being replayed. Pages that a later record cuts off may still exist, and pages
    /// that an earlier record cut off may be missing already.
    pub(crate) recovering: AtomicBool,
}

impl Files {
    /// Begins without open files. With `after_crash`, redo skips pages that a killed process wrote,
    /// so the next checkpoint must sync them although this process did not touch them. The folder's
    /// names are durable.
    pub(crate) fn new(
        env: Env,
        segment_blocks: u32,
        after_crash: bool,
        open_files_max: usize,
        known: HashMap<RelFileId, KnownFile>,
        gate: WriteGate,
    ) -> Self {
        assert!(segment_blocks > 0);
        Self {
            open: Descriptors::new(env.clone(), open_files_max),
            env,
            segment_blocks,
            forks: RwLock::new(HashMap::default()),
            known: Mutex::new(known),
            gate,
            folder_changed: AtomicBool::new(false),
            unsynced_when_opened: after_crash,
            recovering: AtomicBool::new(true),
        }
    }

    fn path(file: RelFileId, fork: Fork, segment: usize) -> String {
        let name = fork_file_name(file, fork);
        if segment == 0 { format!("{BASE}/{name}") } else { format!("{BASE}/{name}.{segment}") }
    }

    /// Returns the fork, and opens it if needed; a fork that does not exist on disk has no pages.
    pub(crate) fn fork(&self, file: RelFileId, fork: Fork) -> Result<Arc<ForkFile>> {
        if let Some(open) = self.forks.read().get(&(file, fork)) {
            return Ok(Arc::clone(open));
        }
        let mut forks = self.forks.write();
        if let Some(open) = forks.get(&(file, fork)) {
            return Ok(Arc::clone(open));
        }
        let opened = Arc::new(self.open_fork(file, fork)?);
        forks.insert((file, fork), Arc::clone(&opened));
        Ok(opened)
    }

    /// Returns the length of a fork in pages.
    #[inline]
    pub(crate) fn blocks(&self, file: RelFileId, fork: Fork) -> Result<u32> {
        if let Some(open) = self.forks.read().get(&(file, fork)) {
            return Ok(open.blocks());
        }
        Ok(self.fork(file, fork)?.blocks())
    }

    fn open_fork(&self, file: RelFileId, fork: Fork) -> Result<ForkFile> {
        let mut segments = Vec::new();
        let mut blocks = 0u64;
        loop {
            let path = Self::path(file, fork, segments.len());
            let opened = match self.open.open(&path, OpenMode::Existing) {
                Ok(opened) => opened,
                Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                Err(e) => return Err(Error::io(format!("could not open {path}"), e)),
            };
            let len = opened
                .len()
                .map_err(|e| Error::io(format!("could not read the length of {path}"), e))?;
            let pages = (len / PAGE_SIZE as u64).min(u64::from(self.segment_blocks));
            blocks = segments.len() as u64 * u64::from(self.segment_blocks) + pages;
            let segment = Segment::new(path, opened, self.unsynced_when_opened);
            self.open.enter(&segment);
            segments.push(segment);
            // Files behind a segment that is not full were cut off before.
            if pages < u64::from(self.segment_blocks) {
                break;
            }
        }
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX - 1);
        let found = (!segments.is_empty()).then_some(blocks);
        let expected = self.expected(file, fork);
        if !self.recovering.load(Ordering::Acquire) {
            if let Some(known) = expected.as_ref().filter(|known| known.is_more_than(found)) {
                return Err(too_short(file, known, found));
            }
            self.check_leftover_segments(file, fork, segments.len())?;
        }
        Ok(ForkFile {
            file,
            fork,
            segments: RwLock::new(segments),
            found: Mutex::new(found),
            blocks: AtomicU32::new(blocks),
            written_blocks: AtomicU32::new(blocks),
            written: Mutex::new(expected.map(|known| known.written).unwrap_or_default()),
            extend_lock: Mutex::new(()),
            extend_waiters: AtomicU32::new(0),
            counters: ForkCounters::default(),
        })
    }

    /// Judges segment files behind a segment that is not full. Redo has removed files that the log
    /// cut off, when redo repeated the record. A crash may also leave files of an unfinished
    /// growth: these hold no logged page. Any other file proves that the segment in front lost its
    /// end.
    ///
    /// # Errors
    /// [`Error::Corruption`]; no file is removed then.
    fn check_leftover_segments(&self, file: RelFileId, fork: Fork, from: usize) -> Result<()> {
        if from == 0 {
            return Ok(());
        }
        // Ends: with the first segment that does not exist.
        for number in from.. {
            let path = Self::path(file, fork, number);
            match self.env.vfs.open(&path, OpenMode::Existing) {
                Ok(leftover) if has_no_logged_page(leftover.as_ref(), &path)? => {}
                Ok(_) => return Err(short_segment(&Self::path(file, fork, from - 1), &path)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                Err(e) => return Err(Error::io(format!("could not open {path}"), e)),
            }
        }
        Ok(())
    }

    /// Removes segment files behind the fork's end that a crash brought back after they were cut
    /// off. Only redo of the truncation's record does this; outside of recovery nothing happens.
    fn remove_leftover_segments(&self, file: RelFileId, fork: Fork, from: usize) -> Result<()> {
        if from == 0 || !self.recovering.load(Ordering::Acquire) {
            return Ok(());
        }
        // Ends: with the first segment that does not exist.
        for number in from.. {
            let path = Self::path(file, fork, number);
            match self.env.vfs.remove(&path) {
                Ok(()) => self.folder_changed.store(true, Ordering::Release),
                Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                Err(e) => return Err(Error::io(format!("could not remove {path}"), e)),
            }
        }
        Ok(())
    }

    /// Checks the forks that redo opened, after redo: from here on no segment follows one that is
    /// not full.
    ///
    /// # Errors
    /// [`Error::Corruption`] for a segment that follows one that is not full.
    pub(crate) fn check_open_forks(&self) -> Result<()> {
        for fork in self.open_forks() {
            self.check_leftover_segments(fork.file, fork.fork, fork.segment_count())?;
        }
        Ok(())
    }

    /// Returns whether the main fork was created. A fork that was created and is not on disk is an
    /// error.
    pub(crate) fn exists(&self, file: RelFileId) -> Result<bool> {
        let created = self.known.lock().contains_key(&file);
        Ok(created && self.fork(file, Fork::Main)?.segment_count() > 0)
    }

    /// Makes the main fork exist and be empty, and the other forks not exist. Files with this
    /// number on disk are leftovers from before a crash.
    pub(crate) fn create(&self, file: RelFileId, logged: bool, creator: Xid) -> Result<()> {
        self.remove(file)?;
        let fork = self.fork(file, Fork::Main)?;
        self.segment(&fork, 0)?;
        *fork.found.lock() = Some(0);
        if !seeded_bug!("file_not_known") {
            let before = self.known.lock().insert(file, KnownFile::new(logged, creator));
            invariant!(F1, before.is_none(), "file {file} was created twice");
        }
        Ok(())
    }

    /// Returns the segment file, and creates it, with the ones before it, when absent.
    fn segment(&self, fork: &ForkFile, number: usize) -> Result<Arc<Segment>> {
        if let Some(segment) = fork.segments.read().get(number) {
            return Ok(Arc::clone(segment));
        }
        let mut segments = fork.segments.write();
        while segments.len() <= number {
            let path = Self::path(fork.file, fork.fork, segments.len());
            let file = self
                .open
                .open(&path, OpenMode::CreateIfAbsent)
                .map_err(|e| Error::io(format!("could not create {path}"), e))?;
            self.empty_leftover(&path, file.as_ref())?;
            self.folder_changed.store(true, Ordering::Release);
            let segment = Segment::new(path, file, true);
            self.open.enter(&segment);
            segments.push(segment);
        }
        debug_assert!(number < segments.len(), "segment {number} was not made");
        Ok(Arc::clone(&segments[number]))
    }

    /// Empties a file that exists where one is created: a leftover from before a crash. Its old
    /// pages must not come back under the new ones in the next crash, so the change is synced at
    /// once.
    fn empty_leftover(&self, path: &str, file: &dyn VfsFile) -> Result<()> {
        let failed = |e| Error::io(format!("could not empty {path}"), e);
        if file.is_empty().map_err(failed)? {
            return Ok(());
        }
        file.set_len(0).map_err(failed)?;
        if let Err(e) = file.sync_data() {
            self.env.abort(&format!("could not sync {path}: {e}"));
        }
        Ok(())
    }

    /// Returns the bytes of a full segment file.
    fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_blocks) * PAGE_SIZE as u64
    }

    /// Returns the number of the segment file of a page, and the page's offset in the file.
    fn place(&self, BlockNumber(block): BlockNumber) -> (usize, u64) {
        let segment = (block / self.segment_blocks) as usize;
        (segment, u64::from(block % self.segment_blocks) * PAGE_SIZE as u64)
    }

    /// Reads a page below the fork's length.
    pub(crate) fn read(&self, fork: &ForkFile, id: PageId, page: &mut Page) -> Result<()> {
        debug_assert_eq!(fork.name(), (id.file, id.fork), "a page of another fork is read");
        if id.block.0 >= fork.blocks() {
            return Err(missing_page(id, fork.blocks()));
        }
        // Acquire: pairs with the release in `write`.
        if id.block.0 >= fork.written_blocks.load(Ordering::Acquire) {
            page.0.fill(0);
            return Ok(());
        }
        let (number, offset) = self.place(id.block);
        let segment = fork.segments.read().get(number).cloned();
        let Some(segment) = segment else { return Err(missing_page(id, fork.blocks())) };
        let got = self
            .open
            .with(&segment, |file| file.read_at(&mut page.0, offset))
            .map_err(|e| Error::io(format!("could not read {id}"), e))?;
        if got < PAGE_SIZE {
            return Err(missing_page(id, fork.blocks()));
        }
        fork.counters.reads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of written pages from `block` on that are consecutive in one file.
    pub(crate) fn readable_from(&self, fork: &ForkFile, BlockNumber(block): BlockNumber) -> u32 {
        // Acquire: pairs with the release in `write`.
        let written = fork.written_blocks.load(Ordering::Acquire).min(fork.blocks());
        let segment_end = (block / self.segment_blocks + 1).saturating_mul(self.segment_blocks);
        let count = written.min(segment_end).saturating_sub(block);
        debug_assert!(
            count <= self.segment_blocks - block % self.segment_blocks,
            "{count} pages from {block} on are not in one segment"
        );
        count
    }

    /// Reads consecutive pages ([`Files::readable_from`]), and returns the number of complete ones.
    /// With `cached`, reads only pages that the system has in memory.
    pub(crate) fn read_run(
        &self,
        fork: &ForkFile,
        first: PageId,
        pages: &mut [IoSliceMut<'_>],
        cached: bool,
    ) -> Result<usize> {
        debug_assert_eq!(fork.name(), (first.file, first.fork), "pages of another fork are read");
        debug_assert!(!pages.is_empty(), "a read of no page");
        let (number, offset) = self.place(first.block);
        debug_assert!(
            offset + (pages.len() * PAGE_SIZE) as u64 <= self.segment_bytes(),
            "{} pages from {first} on are not in one segment",
            pages.len()
        );
        let segment = fork.segments.read().get(number).cloned();
        let Some(segment) = segment else { return Err(missing_page(first, fork.blocks())) };
        let read = self.open.with(&segment, |file| {
            if cached {
                file.read_cached_at(pages, offset)
            } else {
                file.read_vectored_at(pages, offset)
            }
        });
        let got = read.map_err(|e| Error::io(format!("could not read {first}"), e))? / PAGE_SIZE;
        debug_assert!(got <= pages.len(), "{got} pages of {}", pages.len());
        fork.counters.reads.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }

    /// Returns the file of consecutive pages, and their offset in it. The file stays open as long
    /// as the caller holds it.
    pub(crate) fn place_of_run(
        &self,
        fork: &ForkFile,
        first: PageId,
    ) -> Result<(Arc<dyn VfsFile>, u64)> {
        debug_assert_eq!(fork.name(), (first.file, first.fork), "pages of another fork are read");
        let (number, offset) = self.place(first.block);
        let segment = fork.segments.read().get(number).cloned();
        let Some(segment) = segment else { return Err(missing_page(first, fork.blocks())) };
        let file = self.open.with(&segment, |file| Ok(Arc::clone(file)));
        let file = file.map_err(|e| Error::io(format!("could not read {first}"), e))?;
        Ok((file, offset))
    }

    /// Returns the environment: files, clock and other system services.
    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    /// Returns whether two blocks are neighbours in one segment file, so that one write can cover
    /// both.
    pub(crate) fn are_neighbours(&self, first: BlockNumber, second: BlockNumber) -> bool {
        first.0.checked_add(1) == Some(second.0) && !second.0.is_multiple_of(self.segment_blocks)
    }

    /// Writes the pages in `bytes`. They begin with `id`, and lie in one segment and below the
    /// fork's length.
    pub(crate) fn write(&self, fork: &ForkFile, id: PageId, bytes: &[u8]) -> Result<()> {
        self.gate.pass()?;
        let (number, offset) = self.place(id.block);
        let count = (bytes.len() / PAGE_SIZE) as u32;
        debug_assert_eq!(fork.name(), (id.file, id.fork), "a page of another fork is written");
        debug_assert!(!bytes.is_empty(), "a write of no page");
        debug_assert!(bytes.len().is_multiple_of(PAGE_SIZE), "{} bytes", bytes.len());
        debug_assert!(
            offset + bytes.len() as u64 <= self.segment_bytes(),
            "{count} pages from {id} on are not in one segment"
        );
        let segment = self.segment(fork, number)?;
        // Release: a thread that reads these pages later must go to the disk.
        fork.written_blocks.fetch_max(id.block.0 + count, Ordering::AcqRel);
        self.open
            .write(&segment, |file| file.write_at(bytes, offset))
            .map_err(|e| Error::io(format!("could not write {id}"), e))?;
        fork.counters.written.fetch_add(u64::from(count), Ordering::Relaxed);
        // After the mark for the sync: a checkpoint that notes the pages also syncs them.
        if fork.fork == Fork::Main {
            fork.note_written(id.block, bytes);
        }
        Ok(())
    }

    /// Grows the fork by `count` zero pages and returns the first. The caller holds `extend_lock`.
    pub(crate) fn grow(&self, fork: &ForkFile, count: u32) -> Result<BlockNumber> {
        debug_assert!(count > 0, "a fork grows by no page");
        self.gate.pass()?;
        let first = fork.blocks();
        let full = || {
            let name = fork_file_name(fork.file, fork.fork);
            Error::DiskFull {
                action: format!("could not extend {BASE}/{name} beyond the largest size"),
            }
        };
        let end = first.checked_add(count).filter(|&end| end < u32::MAX).ok_or_else(full)?;
        let mut block = first;
        while block < end {
            let (number, offset) = self.place(BlockNumber(block));
            let here = (self.segment_blocks - block % self.segment_blocks).min(end - block);
            debug_assert!(here > 0, "no progress at block {block}");
            let segment = self.segment(fork, number)?;
            let bytes = u64::from(here) * PAGE_SIZE as u64;
            self.open.write(&segment, |file| file.allocate(offset, bytes)).map_err(|e| {
                let name = fork_file_name(fork.file, fork.fork);
                Error::io(format!("could not extend {BASE}/{name} by {count} blocks"), e)
            })?;
            block += here;
        }
        debug_assert_eq!(block, end, "pages behind the new end have room");
        // Release: a thread that reads the new length finds the segments.
        fork.blocks.store(end, Ordering::Release);
        Ok(BlockNumber(first))
    }

    /// Truncates the fork to `blocks` pages, or grows it to `blocks` with zero pages.
    pub(crate) fn set_blocks(&self, fork: &ForkFile, blocks: u32) -> Result<()> {
        let _growing = fork.extend_lock.lock();
        let now = fork.blocks();
        if blocks > now {
            return self.grow(fork, blocks - now).map(|_| ());
        }
        fork.blocks.store(blocks, Ordering::Release);
        fork.written_blocks.fetch_min(blocks, Ordering::AcqRel);
        fork.written.lock().truncate(blocks);
        let mut segments = fork.segments.write();
        let (last, bytes) = self.place(BlockNumber(blocks));
        // From the end, so that a crash leaves no gap that looks full.
        while segments.len() > (last + 1).max(1) {
            let number = segments.len() - 1;
            let path = Self::path(fork.file, fork.fork, number);
            self.env
                .vfs
                .remove(&path)
                .map_err(|e| Error::io(format!("could not remove {path}"), e))?;
            self.folder_changed.store(true, Ordering::Release);
            segments.pop();
        }
        invariant!(
            F1,
            segments.len() as u64 * u64::from(self.segment_blocks) >= u64::from(blocks),
            "{} segments have no room for {blocks} blocks",
            segments.len()
        );
        self.remove_leftover_segments(fork.file, fork.fork, segments.len())?;
        if let Some(segment) = segments.get(last) {
            let path = Self::path(fork.file, fork.fork, last);
            self.open
                .write(segment, |file| file.set_len(bytes))
                .map_err(|e| Error::io(format!("could not cut {path}"), e))?;
        }
        Ok(())
    }

    /// Closes the open files, which no thread uses any more.
    pub(crate) fn close_all(&self) {
        self.open.close_all();
    }

    /// Returns the LSN of a page on disk, even of a torn page; `None` where there is no page. Opens
    /// no fork.
    pub(crate) fn lsn_on_disk(&self, id: PageId) -> Result<Option<Lsn>> {
        let (number, offset) = self.place(id.block);
        let failed = |e| Error::io(format!("could not read {id}"), e);
        let path = Self::path(id.file, id.fork, number);
        let file = match self.open.open(&path, OpenMode::Existing) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let mut lsn = [0; 8];
        let got = file.read_at(&mut lsn, offset + LSN_AT as u64).map_err(failed)?;
        Ok((got == lsn.len()).then_some(Lsn(u64::from_le_bytes(lsn))))
    }

    /// Removes all files of a relation. The files may be damaged or missing.
    pub(crate) fn remove(&self, file: RelFileId) -> Result<()> {
        self.gate.pass()?;
        // From here on the relation may be short or gone.
        self.known.lock().remove(&file);
        for fork in FORKS {
            let open = self.forks.read().get(&(file, fork)).cloned();
            let mut segments = open.as_ref().map(|open| open.segments.write());
            if let Some(open) = &open {
                open.blocks.store(0, Ordering::Release);
                open.written_blocks.store(0, Ordering::Release);
                open.written.lock().truncate(0);
            }
            // A file that cannot be unlinked is a leftover: the relation's number is no longer in
            // use.
            let unlinked = self.unlink(file, fork);
            if let Some(segments) = &mut segments {
                segments.clear();
            }
            drop(segments);
            self.forks.write().remove(&(file, fork));
            unlinked?;
        }
        Ok(())
    }

    /// Removes the segment files of a fork, from the end, so that a crash leaves no gap.
    fn unlink(&self, file: RelFileId, fork: Fork) -> Result<()> {
        let mut count = 0;
        // Ends: with the first segment that does not exist.
        loop {
            let path = Self::path(file, fork, count);
            let failed = |e| Error::io(format!("could not look for {path}"), e);
            if !self.env.vfs.exists(&path).map_err(failed)? {
                break;
            }
            count += 1;
        }
        for path in (0..count).rev().map(|number| Self::path(file, fork, number)) {
            match self.env.vfs.remove(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io(format!("could not remove {path}"), e)),
            }
            self.folder_changed.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Writes the last page of each segment file again, after a crash. This also writes the files'
    /// lengths, which may be only in the system's memory. Covers only files that recovery opened: a
    /// file that no record names has not changed since the last checkpoint.
    pub(crate) fn write_lengths_again(&self) -> Result<()> {
        for fork in self.open_forks() {
            let mut end = fork.blocks();
            while let Some(last) = end.checked_sub(1) {
                let id = PageId { file: fork.file, fork: fork.fork, block: BlockNumber(last) };
                let (number, offset) = self.place(id.block);
                let segment = self.segment(&fork, number)?;
                let mut page = Page::zeroed();
                let again = |file: &Arc<dyn VfsFile>| {
                    let got = file.read_at(&mut page.0, offset)?;
                    file.write_at(&page.0[..got], offset)
                };
                self.open
                    .write(&segment, again)
                    .map_err(|e| Error::io(format!("could not write {id} again"), e))?;
                end = last - last % self.segment_blocks;
                debug_assert!(end <= last, "no progress at block {last}");
            }
        }
        Ok(())
    }

    /// Makes all writes so far durable, and returns the number of files synced. A failure ends the
    /// process, because the fate of the bytes is unknown.
    ///
    /// # Errors
    /// A file that was written, or the folder of all files, is missing, so that it cannot be made
    /// durable. No existing data was lost; the next call tries again.
    pub(crate) fn sync(&self) -> Result<u64> {
        let forks: Vec<Arc<ForkFile>> = self.forks.read().values().cloned().collect();
        let mut synced = 0;
        for fork in forks {
            let segments: Vec<Arc<Segment>> = fork.segments.read().clone();
            for segment in &segments {
                self.require_in_place(&fork, segment)?;
                synced += u64::from(self.open.sync(segment));
            }
        }
        // The mark is already cleared: after a panic here, no thread would sync the folder.
        let section = critical::enter();
        let changed = self.folder_changed.swap(false, Ordering::AcqRel);
        let folder_synced = if changed { self.env.vfs.sync_dir(BASE) } else { Ok(()) };
        drop(section);
        if let Err(e) = folder_synced {
            // No sync was tried, so the system has not discarded anything.
            if e.kind() == io::ErrorKind::NotFound {
                self.folder_changed.store(true, Ordering::Release);
                return Err(Error::io(format!("could not open the folder {BASE} to sync it"), e));
            }
            self.env.abort(&format!("could not sync the folder {BASE}: {e}"));
        }
        Ok(synced)
    }

    /// Returns an error (58P01) when another program removed or replaced a file that is to be
    /// synced.
    fn require_in_place(&self, fork: &ForkFile, segment: &Arc<Segment>) -> Result<()> {
        let failed = |e| Error::io(format!("could not find file \"{}\"", segment.path()), e);
        if self.open.is_in_place(segment).map_err(failed)? || seeded_bug!("removed_file_is_synced")
        {
            return Ok(());
        }
        // A thread of this database removes the segment from the list before it releases the lock.
        if !fork.segments.read().iter().any(|other| Arc::ptr_eq(other, segment)) {
            return Ok(());
        }
        Err(failed(io::Error::new(
            io::ErrorKind::NotFound,
            "No such file or directory: it was removed or replaced while it was open",
        )))
    }

    /// Returns the number of files synced because they had to be closed.
    pub(crate) fn synced_to_close(&self) -> u64 {
        self.open.synced_to_close.load(Ordering::Relaxed)
    }

    /// Returns the numbers of all relations with a file on disk, ascending.
    pub(crate) fn list(&self) -> Result<Vec<RelFileId>> {
        let names = self
            .env
            .vfs
            .list(BASE)
            .map_err(|e| Error::io(format!("could not list the folder {BASE}"), e))?;
        let mut ids: Vec<RelFileId> = names
            .iter()
            .filter_map(|name| name.split('.').next()?.parse().ok().map(RelFileId))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Returns all open forks.
    pub(crate) fn open_forks(&self) -> Vec<Arc<ForkFile>> {
        self.forks.read().values().cloned().collect()
    }
}

impl ForkFile {
    /// Notes the pages in `bytes` that are not empty. The first page is block `first`.
    fn note_written(&self, first: BlockNumber, bytes: &[u8]) {
        debug_assert!(self.fork == Fork::Main, "pages of maps may be forgotten");
        debug_assert!(bytes.len().is_multiple_of(PAGE_SIZE), "a part of a page was written");
        let mut written = self.written.lock();
        for (block, page) in (first.0..).zip(bytes.chunks_exact(PAGE_SIZE)) {
            if page[KIND_AT] != PageKind::New as u8 {
                written.add(block, block + 1);
            }
        }
    }

    /// Returns whether the fork, when it was opened, lacked blocks that it is known to have.
    pub(crate) fn lacks_of(&self, known: &KnownFile) -> bool {
        known.is_more_than(*self.found.lock()) && !seeded_bug!("redo_fills_short_files")
    }

    /// Returns the length in pages.
    pub(crate) fn blocks(&self) -> u32 {
        // Acquire: pairs with the release in `grow`.
        self.blocks.load(Ordering::Acquire)
    }

    /// Returns the number of segment files.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.read().len()
    }

    pub(crate) fn name(&self) -> (RelFileId, Fork) {
        (self.file, self.fork)
    }
}

/// Returns whether a segment file has no logged page: every page has LSN 0. Pages of unlogged
/// relations have LSN 0 too; a crash leaves those in any state.
fn has_no_logged_page(file: &dyn VfsFile, path: &str) -> Result<bool> {
    let mut bytes = vec![0; 32 * PAGE_SIZE];
    let mut offset = 0;
    // Ends: with the file.
    loop {
        let got = file
            .read_at(&mut bytes, offset)
            .map_err(|e| Error::io(format!("could not read {path}"), e))?;
        let lsn = |page: &[u8]| page.iter().take(8).any(|&byte| byte != 0);
        if bytes[..got].chunks(PAGE_SIZE).any(lsn) {
            return Ok(false);
        }
        if got == 0 {
            return Ok(true);
        }
        offset += got as u64;
    }
}

/// Makes the error for a segment that is not full, although others follow it.
fn short_segment(path: &str, behind: &str) -> Error {
    Error::Corruption(Box::new(Corruption {
        file: path.to_owned(),
        block: None,
        item: None,
        invariant: "length",
        detail: format!(
            "the file is shorter than a segment, but {behind} goes on behind it, and no log record \
             says that it was cut: its end is lost. Nothing was removed; restore the file from a \
             backup"
        ),
    }))
}

/// Makes the error for a page that should exist and does not.
fn missing_page(id: PageId, blocks: u32) -> Error {
    Error::Corruption(Box::new(Corruption {
        file: format!("{BASE}/{}", fork_file_name(id.file, id.fork)),
        block: Some(id.block.0),
        item: None,
        invariant: "length",
        detail: format!("the file has only {blocks} blocks"),
    }))
}
