//! The buffer pool: its state, the beginnings and ends of reads, and the growth of files.

use std::fmt;
use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use niwaki_env::sync::{Condvar, Mutex, thread};
use niwaki_env::vfs::ReadRing;

use super::read_state::ReadQueue;
use super::write_counters::WriteCounters;
use crate::disk::files::{Files, ForkFile};
use crate::error::{Corruption, Error, Result};
use crate::frames::arena::Arena;
use crate::frames::frame::{
    COPIED, DIRTY, Frame, LOADING, PIN_MASK, PIN_ONE, Tag, USED, VALID, WRITING, assert_state,
};
use crate::frames::frequency::Frequencies;
use crate::frames::optimistic::{OptimisticRead, PageCopies};
use crate::frames::table::PageTable;
use crate::ids::{BASE, BlockNumber, Fork, Lsn, PageId, RelFile, RelFileId, fork_file_name};
use crate::page::Page;
use crate::wal::insert::Wal;

/// The most pages by which a file grows at once on behalf of waiting threads.
const EXTENSION_MAX: u32 = 64;
const IO_WAITS: usize = 64;

const _: () = assert!(EXTENSION_MAX > 1);
const _: () = assert!(IO_WAITS > 0);

/// A place where threads wait for a read or write of some frame.
#[derive(Default)]
pub(super) struct IoWait {
    lock: Mutex<()>,
    done: Condvar,
}

/// Pages by which a file grew; see [`BufferPool::extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The first new page.
    pub first: BlockNumber,
    /// Number of new pages; at least as many as were asked for.
    pub count: u32,
}

/// The buffer pool, bounded by its number of frames.
pub struct BufferPool {
    pub(super) frames: Box<[Frame]>,
    pub(super) arena: Arena,
    pub(super) table: PageTable,
    pub(super) copies: PageCopies,
    pub(super) hand: AtomicU32,
    pub(super) frequencies: Frequencies,
    versions: AtomicU64,
    io: Box<[IoWait]>,
    pub(super) files: Arc<Files>,
    pub(super) wal: Arc<Wal>,
    pub(crate) writes: WriteCounters,
    /// Runs that are read ahead of their use.
    pub(crate) reads: ReadQueue,
    /// The newest page that recovery saw on disk.
    newest: Mutex<Option<(PageId, Lsn)>>,
    checksums: bool,
}

impl BufferPool {
    /// Makes an empty pool. `ring` is the system's ring, if the system is to read ahead for
    /// streams.
    pub(crate) fn new(
        frames: usize,
        files: Arc<Files>,
        wal: Arc<Wal>,
        checksums: bool,
        ring: Option<Arc<dyn ReadRing>>,
    ) -> Self {
        let frames = frames.clamp(1, u32::MAX as usize / 8);
        Self {
            frames: (0..frames).map(|_| Frame::new()).collect(),
            arena: Arena::new(frames),
            table: PageTable::new(frames),
            copies: PageCopies::new(frames),
            hand: AtomicU32::new(0),
            frequencies: Frequencies::new(frames),
            versions: AtomicU64::new(1),
            io: (0..IO_WAITS).map(|_| IoWait::default()).collect(),
            files,
            wal,
            writes: WriteCounters::default(),
            reads: ReadQueue::new(frames, ring),
            newest: Mutex::new(None),
            checksums,
        }
    }

    /// Returns the number of frames.
    pub fn capacity(&self) -> usize {
        self.frames.len()
    }

    #[inline]
    pub(super) fn next_version(&self) -> u64 {
        let before = self.versions.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before > 0, "versions came back to 0");
        before + 1
    }

    /// # Safety
    /// As for [`Arena::page`].
    #[inline]
    pub(super) unsafe fn page<'a>(&self, index: u32) -> &'a Page {
        // SAFETY: promised by the caller.
        unsafe { self.arena.page(index as usize) }
    }

    /// # Safety
    /// As for [`Arena::page_mut`].
    #[inline]
    pub(super) unsafe fn page_mut<'a>(&self, index: u32) -> &'a mut Page {
        // SAFETY: promised by the caller.
        unsafe { self.arena.page_mut(index as usize) }
    }

    /// Returns an optimistic read of a page, without a pin or a latch, if the page has a
    /// copy ([`PageRead::publish`](super::PageRead::publish)). Writes to no shared memory.
    #[inline]
    pub fn read_optimistically(&self, id: PageId) -> Option<OptimisticRead<'_>> {
        self.copies.read_optimistically(Tag::of(id))
    }

    /// Prefetches a page that is in the pool, for a caller that reads the page soon. Changes
    /// nothing and guarantees nothing.
    #[inline]
    pub fn prefetch(&self, id: PageId) {
        if let Some(index) = self.table.guess(&self.frames, Tag::of(id)) {
            self.arena.prefetch(index as usize);
        }
    }

    /// Puts a CLAIMED frame into the table as LOADING. When the page is there already, gives the
    /// frame back and returns false.
    pub(super) fn begin_load(&self, tag: Tag, index: u32) -> bool {
        let _partition = self.table.lock(tag);
        if self.table.find(&self.frames, tag).is_some() {
            self.abandon_claim(index);
            return false;
        }
        let frame = &self.frames[index as usize];
        frame.set_tag(tag);
        frame.state.store(LOADING | USED | PIN_ONE, Ordering::Release);
        self.frequencies.count(tag);
        self.table.link(&self.frames, tag, index);
        true
    }

    /// Waits until a frame is no longer LOADING this page, and returns the frame's state. Helps
    /// with the read where this thread can.
    pub(super) fn wait_until_loaded(&self, index: u32, tag: Tag) -> u64 {
        let frame = &self.frames[index as usize];
        // Ends: with the read. The reading thread notifies under the lock when the read is over,
        // and when it leaves the read to others.
        loop {
            self.help_reading(tag);
            let wait = &self.io[index as usize % IO_WAITS];
            let mut guard = wait.lock.lock();
            // Acquire: pairs with the release in `end_io`.
            let state = frame.state.load(Ordering::Acquire);
            if state & LOADING == 0 || frame.tag() != tag {
                return state;
            }
            if !self.can_help(tag) {
                wait.done.wait(&mut guard);
            }
        }
    }

    /// Wakes the threads that wait for a frame, so that they look again.
    pub(super) fn wake_waiters(&self, index: u32) {
        let wait = &self.io[index as usize % IO_WAITS];
        drop(wait.lock.lock());
        wait.done.notify_all();
    }

    /// Waits until none of the flags is set on a pinned frame, and returns its state.
    pub(super) fn wait_while(&self, index: u32, flags: u64) -> u64 {
        let frame = &self.frames[index as usize];
        // Acquire: pairs with the release in `end_io`.
        let state = frame.state.load(Ordering::Acquire);
        if state & flags == 0 {
            return state;
        }
        let wait = &self.io[index as usize % IO_WAITS];
        let mut guard = wait.lock.lock();
        // Ends: with the read or write that holds the flag, whose thread notifies under this lock.
        loop {
            let state = frame.state.load(Ordering::Acquire);
            if state & flags == 0 {
                return state;
            }
            wait.done.wait(&mut guard);
        }
    }

    /// Sets and clears flags of a frame whose read or write is over, and wakes the waiting threads.
    pub(super) fn end_io(&self, index: u32, set: u64, clear: u64) {
        let frame = &self.frames[index as usize];
        let mut state = frame.state.load(Ordering::Relaxed);
        // Ends: each failed exchange means that another thread's succeeded.
        while let Err(now) = frame.state.compare_exchange_weak(
            state,
            (state | set) & !clear,
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            state = now;
        }
        debug_assert!(state & clear == clear, "frame {index} was not under I/O: {state:#x}");
        debug_assert!(state & PIN_MASK > 0, "frame {index} has no pin: {state:#x}");
        self.wake_waiters(index);
    }

    /// Ends the read of a LOADING frame, whether the page was read or not. The pin of the thread
    /// that set LOADING stays.
    pub(super) fn end_load(&self, tag: Tag, index: u32, read: bool) {
        let frame = &self.frames[index as usize];
        if read {
            frame.version.store(self.next_version(), Ordering::Relaxed);
            frame.hits.store(0, Ordering::Relaxed);
            frame.dirtied.store(0, Ordering::Relaxed);
            let copied = if self.copies.has(tag) { COPIED } else { 0 };
            self.end_io(index, VALID | copied, LOADING);
        } else {
            let partition = self.table.lock(tag);
            self.table.unlink(&self.frames, tag, index);
            drop(partition);
            // The frame is not valid and not in the table: it is free as soon as the waiting
            // threads have unpinned it.
            self.end_io(index, 0, LOADING);
        }
    }

    /// Accepts or refuses a page that was read.
    pub(super) fn accept(&self, id: PageId, page: &mut Page, rewrite: bool) -> Result<()> {
        match self.verify(id, page) {
            Ok(()) => Ok(()),
            // Maps may forget their contents. Besides, the free space map is not logged, so a crash
            // may tear its pages.
            Err(_) if rewrite || id.fork != Fork::Main => {
                page.0.fill(0);
                Ok(())
            }
            Err(damage) => Err(Error::Corruption(Box::new(damage))),
        }
    }

    /// Checks that a page that was read is the one that was written.
    fn verify(&self, id: PageId, page: &mut Page) -> std::result::Result<(), Corruption> {
        let damage = |invariant, detail| Corruption {
            file: format!("{BASE}/{}", fork_file_name(id.file, id.fork)),
            block: Some(id.block.0),
            item: None,
            invariant,
            detail,
        };
        if page.is_new() {
            page.check_structure(id)?;
            // A page that was never written may be new: its file grew before its first record was
            // durable.
            if self.files.was_written(id) {
                let detail = "the page was written, and reads as zeros".into();
                return Err(damage("F1", detail));
            }
            return Ok(());
        }
        if self.checksums {
            let computed = page.compute_checksum(id);
            if computed != page.checksum() {
                let detail = format!("page has {:08x}, computed {computed:08x}", page.checksum());
                return Err(damage("checksum", detail));
            }
        }
        let end = self.wal.end_for_checks();
        if end == Lsn(u64::MAX) {
            self.note_newest(id, page.lsn());
        }
        if page.lsn() > end {
            let detail = format!("page LSN {} lies behind the end of the log, {end}", page.lsn());
            return Err(damage("W1", detail));
        }
        page.check_structure(id)
    }

    /// Notes the LSN of a page that recovery saw on disk.
    pub(crate) fn note_newest(&self, id: PageId, lsn: Lsn) {
        let mut newest = self.newest.lock();
        if newest.is_none_or(|(_, other)| other < lsn) {
            *newest = Some((id, lsn));
        }
    }

    /// Returns the newest page that recovery saw on disk, with its LSN there.
    pub(crate) fn newest_read(&self) -> Option<(PageId, Lsn)> {
        *self.newest.lock()
    }

    /// Returns the length of a fork in pages; 0 when the fork does not exist.
    ///
    /// # Errors
    /// [`Error::Io`] when the files cannot be opened.
    pub fn blocks(&self, file: RelFileId, fork: Fork) -> Result<u32> {
        self.files.blocks(file, fork)
    }

    /// Grows a fork by at least `count` pages of zeros, in one step; by more, up to 64, when
    /// several threads want to grow it. The caller hands the new pages out: no other thread looks
    /// for them. The space is reserved on disk.
    ///
    /// # Errors
    /// [`Error::DiskFull`], and nothing changed; [`Error::Io`].
    pub fn extend(&self, file: RelFile, fork: Fork, count: u32) -> Result<Extension> {
        let open = self.files.fork(file.id, fork)?;
        let waiting = open.extend_waiters.fetch_add(1, Ordering::Relaxed);
        let growing = open.extend_lock.lock();
        let waited = open.extend_waiters.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(waited > 0, "this thread did not wait");
        let wanted = count.max(1);
        // The threads that wait now will probably use the surplus pages.
        let count = wanted.saturating_mul(waiting + 1).min(wanted.max(EXTENSION_MAX));
        debug_assert!(count >= wanted, "{count} pages instead of {wanted}");
        let grown = match self.files.grow(&open, count) {
            Err(Error::DiskFull { .. }) if count > wanted => {
                self.files.grow(&open, wanted).map(|first| (first, wanted))
            }
            other => other.map(|first| (first, count)),
        };
        drop(growing);
        grown.map(|(first, count)| {
            debug_assert!(first.0.checked_add(count).is_some(), "{count} pages from {first} on");
            Extension { first, count }
        })
    }

    /// Grows a fork until it has at least `blocks` pages (redo).
    pub(crate) fn extend_to(&self, file: RelFileId, fork: Fork, blocks: u32) -> Result<()> {
        let open = self.files.fork(file, fork)?;
        let _growing = open.extend_lock.lock();
        let now = open.blocks();
        if blocks > now {
            self.files.grow(&open, blocks - now)?;
        }
        Ok(())
    }

    /// Discards the pages of a fork from `first` on, dirty or not. The caller has made sure, by an
    /// exclusive lock on the table, that no other thread uses them. Only writers of dirty pages may
    /// hold a pin, and this call waits for them.
    pub(crate) fn forget(&self, file: RelFileId, fork: Fork, first: BlockNumber) {
        self.copies.forget(file, fork, first);
        for index in 0..self.frames.len() as u32 {
            let frame = &self.frames[index as usize];
            // This check needs no lock: the pages are no longer read, so no other frame can come to
            // hold one of them.
            let tag = frame.tag();
            let id = tag.id();
            if id.file != file || id.fork != fork || id.block < first {
                continue;
            }
            // Ends: pins on these pages belong to writers, which end.
            while !self.try_forget(tag, index) {
                match frame.state.load(Ordering::Relaxed) {
                    state if state & LOADING != 0 => self.wait_until_loaded(index, tag),
                    state if state & WRITING != 0 => self.wait_while(index, WRITING),
                    _ => {
                        thread::yield_now();
                        0
                    }
                };
            }
        }
    }

    /// Removes the page from the table; false when another thread has the page pinned.
    fn try_forget(&self, tag: Tag, index: u32) -> bool {
        let frame = &self.frames[index as usize];
        let _partition = self.table.lock(tag);
        if frame.tag() != tag || self.table.find(&self.frames, tag) != Some(index) {
            return true;
        }
        let state = frame.state.load(Ordering::Acquire);
        if state & (PIN_MASK | LOADING | WRITING) != 0 {
            return false;
        }
        let taken =
            frame.state.compare_exchange(state, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if taken {
            assert_state(state);
            debug_assert!(state & VALID != 0, "frame {index} is in the table: {state:#x}");
            debug_assert!(state & !(VALID | DIRTY | COPIED) < VALID, "in use: {state:#x}");
            self.table.unlink(&self.frames, tag, index);
        }
        taken
    }

    /// Drops the page's copy after the caller has latched the page exclusively: no copy may be
    /// believed from now on.
    #[inline]
    pub(super) fn before_change(&self, frame: &Frame) {
        // Relaxed: COPIED is set and cleared under the latch.
        let state = frame.state.load(Ordering::Relaxed);
        debug_assert!(state & PIN_MASK > 0, "a page without a pin is changed: {state:#x}");
        debug_assert!(state & VALID != 0, "a frame without a page is changed: {state:#x}");
        debug_assert!(state & LOADING == 0, "a page is changed before it is read: {state:#x}");
        if state & COPIED != 0 && !niwaki_env::seeded_bug!("copy_outlives_change") {
            self.copies.drop_copy(frame.tag());
            frame.state.fetch_and(!COPIED, Ordering::Relaxed);
        }
    }

    /// Returns the fork's file, for counting and writing.
    pub(super) fn fork_of(&self, id: PageId) -> Result<Arc<ForkFile>> {
        self.files.fork(id.file, id.fork)
    }

    /// Returns the position up to which the log is durable.
    pub fn flushed(&self) -> Lsn {
        self.wal.flushed()
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("frames", &self.frames.len()).finish_non_exhaustive()
    }
}
