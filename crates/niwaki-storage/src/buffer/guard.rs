//! Pins and page guards: the only way to the bytes of a page.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::{RwLockReadGuard, RwLockWriteGuard, thread};

use super::pool::BufferPool;
use crate::frames::frame::{COPIED, Frame};
use crate::frames::log_target::LogTarget;
use crate::ids::{Lsn, PageId};
use crate::page::Page;
use crate::wal::record::{LoggedPage, PageLog};

/// Time after which a wait that can be given up asks whether to give up.
const LATCH_PATIENCE: Duration = Duration::from_millis(10);

/// Keeps a page in its frame. Cheap to clone; gives no right to read or write the page.
pub struct Pin<'p> {
    pool: &'p BufferPool,
    frame: &'p Frame,
    index: u32,
}

impl<'p> Pin<'p> {
    /// Takes over a pin that is already counted.
    #[inline]
    pub(super) fn new(pool: &'p BufferPool, frame: &'p Frame, index: u32) -> Self {
        debug_assert!(
            std::ptr::eq(frame, &raw const pool.frames[index as usize]),
            "a pin of frame {index} names another frame"
        );
        Self { pool, frame, index }
    }

    /// Returns the page's name.
    #[inline]
    pub fn id(&self) -> PageId {
        self.frame.tag().id()
    }

    /// Takes the shared latch, waiting for it.
    #[inline]
    pub fn read(&self) -> PageRead<'_> {
        self.shared(self.frame.latch.read(), None)
    }

    /// Takes the exclusive latch, waiting for it.
    #[inline]
    pub fn write(&self) -> PageWrite<'_> {
        self.exclusive(self.frame.latch.write(), None)
    }

    /// Takes the shared latch if that needs no waiting.
    #[inline]
    pub fn try_read(&self) -> Option<PageRead<'_>> {
        self.frame.latch.try_read().map(|latch| self.shared(latch, None))
    }

    /// Takes the exclusive latch if that needs no waiting.
    #[inline]
    pub fn try_write(&self) -> Option<PageWrite<'_>> {
        self.frame.latch.try_write().map(|latch| self.exclusive(latch, None))
    }

    /// Takes the shared latch; the guard keeps the pin, so it can leave the caller's scope.
    #[inline]
    pub fn into_read(self) -> PageRead<'p> {
        let (pool, frame, index) = (self.pool, self.frame, self.index);
        let latch = frame.latch.read();
        // SAFETY: the frame is pinned (by `self`, which the guard keeps) and latched in shared mode
        // for as long as the guard lives.
        let page = unsafe { pool.page(index) };
        PageRead { page, latch, frame, index, pool, pin: Some(self) }
    }

    /// Takes the shared latch like [`Pin::into_read`], with a wait that can be given up. During the
    /// wait it calls `give_up` every now and then, and returns `None` once that returns true.
    #[inline]
    pub fn into_read_unless(self, mut give_up: impl FnMut() -> bool) -> Option<PageRead<'p>> {
        let (pool, frame, index) = (self.pool, self.frame, self.index);
        // Ends: with the wait.
        let latch = loop {
            match frame.latch.try_read_for(LATCH_PATIENCE) {
                Some(latch) => break latch,
                None if give_up() => return None,
                None => {}
            }
        };
        // SAFETY: the frame is pinned (by `self`, which the guard keeps) and latched in shared mode
        // for as long as the guard lives.
        let page = unsafe { pool.page(index) };
        Some(PageRead { page, latch, frame, index, pool, pin: Some(self) })
    }

    /// Takes the exclusive latch; the guard keeps the pin, so it can leave the caller's scope.
    #[inline]
    pub fn into_write(self) -> PageWrite<'p> {
        let (pool, frame, index) = (self.pool, self.frame, self.index);
        let latch = frame.latch.write();
        pool.before_change(frame);
        // SAFETY: the frame is pinned (by `self`, which the guard keeps) and latched exclusively
        // for as long as the guard lives.
        let page = unsafe { pool.page_mut(index) };
        PageWrite { page, changed: Changed::default(), latch, frame, index, pool, pin: Some(self) }
    }

    /// Takes the exclusive latch like [`Pin::into_write`], with a wait that can be given up. During
    /// the wait it calls `give_up` every now and then, and returns `None` once that returns true.
    #[inline]
    pub fn into_write_unless(self, mut give_up: impl FnMut() -> bool) -> Option<PageWrite<'p>> {
        let (pool, frame, index) = (self.pool, self.frame, self.index);
        // Ends: with the wait.
        let latch = loop {
            match frame.latch.try_write_for(LATCH_PATIENCE) {
                Some(latch) => break latch,
                None if give_up() => return None,
                None => {}
            }
        };
        pool.before_change(frame);
        // SAFETY: the frame is pinned (by `self`, which the guard keeps) and latched exclusively
        // for as long as the guard lives.
        let page = unsafe { pool.page_mut(index) };
        let changed = Changed::default();
        Some(PageWrite { page, changed, latch, frame, index, pool, pin: Some(self) })
    }

    fn shared<'a>(&'a self, latch: RwLockReadGuard<'a, ()>, pin: Option<Pin<'a>>) -> PageRead<'a> {
        // SAFETY: `self` outlives the guard and keeps the frame pinned; the guard holds the shared
        // latch.
        let page = unsafe { self.pool.page(self.index) };
        PageRead { page, latch, frame: self.frame, index: self.index, pool: self.pool, pin }
    }

    fn exclusive<'a>(
        &'a self,
        latch: RwLockWriteGuard<'a, ()>,
        pin: Option<Pin<'a>>,
    ) -> PageWrite<'a> {
        self.pool.before_change(self.frame);
        // SAFETY: `self` outlives the guard and keeps the frame pinned; the guard holds the
        // exclusive latch.
        let page = unsafe { self.pool.page_mut(self.index) };
        PageWrite {
            page,
            changed: Changed::default(),
            latch,
            frame: self.frame,
            index: self.index,
            pool: self.pool,
            pin,
        }
    }
}

impl Clone for Pin<'_> {
    fn clone(&self) -> Self {
        self.frame.pin_again();
        Self { pool: self.pool, frame: self.frame, index: self.index }
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frame.unpin();
    }
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({})", self.id())
    }
}

/// A page under its shared latch.
pub struct PageRead<'p> {
    page: &'p Page,
    // Dropped in this order: first the latch, then the pin.
    latch: RwLockReadGuard<'p, ()>,
    frame: &'p Frame,
    index: u32,
    pool: &'p BufferPool,
    pin: Option<Pin<'p>>,
}

impl<'p> PageRead<'p> {
    /// Returns the page's name.
    #[inline]
    pub fn id(&self) -> PageId {
        self.frame.tag().id()
    }

    /// Returns the page's version. The version changes with [`PageWrite::bump_version`] and when
    /// the page is read in anew, and never returns to an earlier value (rule `leaf-version`).
    #[inline]
    pub fn version(&self) -> u64 {
        let version = self.frame.version.load(Ordering::Relaxed);
        debug_assert!(version > 0, "a page in the pool has a version");
        version
    }

    /// Makes a copy of the page for [`BufferPool::read_optimistically`], unless there is no place
    /// for one now. For pages that are read much more often than changed: the next change drops the
    /// copy.
    #[cold]
    pub fn publish(&self) {
        if self.pool.copies.make(self.frame.tag(), self.page) {
            self.frame.state.fetch_or(COPIED, Ordering::Relaxed);
        }
    }

    /// Gives the latch back and keeps the page pinned.
    pub fn unlatch(self) -> Pin<'p> {
        let Self { latch, frame, index, pool, pin, .. } = self;
        let pin = pin.unwrap_or_else(|| {
            frame.pin_again();
            Pin::new(pool, frame, index)
        });
        drop(latch);
        pin
    }
}

impl Deref for PageRead<'_> {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        self.page
    }
}

impl fmt::Debug for PageRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRead({} {:?})", self.id(), self.page)
    }
}

/// Records whether a page was touched without being logged, marked dirty or declared a hint.
#[derive(Default)]
struct Changed {
    touched: bool,
    /// The record is already in the log: the change is its redo.
    in_redo: bool,
}

impl Drop for Changed {
    #[inline]
    fn drop(&mut self) {
        if self.touched && !self.in_redo {
            unlogged_change();
        }
    }
}

/// Reports a guard that was dropped after a change that was neither logged nor marked.
#[cold]
fn unlogged_change() {
    if thread::panicking() {
        niwaki_env::critical::left_by_panic();
    } else {
        debug_assert!(false, "a page was changed, and the change neither logged nor marked");
    }
}

/// A page under its exclusive latch.
///
/// The code that changes the page declares the change before it drops the guard. It logs a record
/// ([`crate::Storage::log`]), or calls [`PageWrite::mark_dirty`] (pages that are not logged) or
/// [`PageWrite::mark_hint`]. Debug builds panic otherwise.
pub struct PageWrite<'p> {
    page: &'p mut Page,
    changed: Changed,
    // Dropped in this order: first the latch, then the pin.
    latch: RwLockWriteGuard<'p, ()>,
    frame: &'p Frame,
    index: u32,
    pool: &'p BufferPool,
    pin: Option<Pin<'p>>,
}

impl<'p> PageWrite<'p> {
    /// Returns the page's name.
    #[inline]
    pub fn id(&self) -> PageId {
        self.frame.tag().id()
    }

    /// Returns the page's version; see [`PageRead::version`].
    #[inline]
    pub fn version(&self) -> u64 {
        let version = self.frame.version.load(Ordering::Relaxed);
        debug_assert!(version > 0, "a page in the pool has a version");
        version
    }

    /// Gives the page a new version that no page had before, so that facts which readers remember
    /// of the page become outdated.
    #[inline]
    pub fn bump_version(&mut self) {
        // Relaxed: versions are read and moved under the latch.
        self.frame.version.store(self.pool.next_version(), Ordering::Relaxed);
    }

    /// Declares the change a hint: it may be lost, and does not make the page dirty.
    #[inline]
    pub fn mark_hint(&mut self) {
        self.changed.touched = false;
    }

    /// Marks the page dirty although no log record describes the change: for free space maps and
    /// relations that are not logged.
    pub fn mark_dirty(&mut self) {
        self.frame.mark_dirty();
        self.changed.touched = false;
    }

    /// Gives the latch back and keeps the page pinned.
    pub fn unlatch(self) -> Pin<'p> {
        let Self { changed, latch, frame, index, pool, pin, .. } = self;
        drop(changed);
        let pin = pin.unwrap_or_else(|| {
            frame.pin_again();
            Pin::new(pool, frame, index)
        });
        drop(latch);
        pin
    }

    /// Prepares the page for the change of the record with this LSN (redo).
    pub(crate) fn stamp_in_redo(&mut self, lsn: Lsn) {
        niwaki_env::invariant!(W3, lsn > Lsn(0), "{} is not changed by a record", self.id());
        self.page.set_lsn(lsn);
        self.frame.mark_dirty();
        self.changed.in_redo = true;
    }

    #[inline]
    pub(crate) fn log_target(&mut self) -> LogTarget<'_> {
        LogTarget { page: self.page, changed: &mut self.changed.touched, frame: self.frame }
    }
}

impl Deref for PageWrite<'_> {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        self.page
    }
}

impl DerefMut for PageWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Page {
        self.changed.touched = true;
        self.page
    }
}

impl fmt::Debug for PageWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageWrite({} {:?})", self.id(), self.page)
    }
}

impl<'p> LoggedPage<'p> {
    /// Describes a page logged in `mode`. `data` are pieces that redo needs for the page, at most
    /// 64 KiB together.
    pub fn new(guard: &'p mut PageWrite<'_>, mode: PageLog, data: &'p [&'p [u8]]) -> Self {
        debug_assert!(
            u16::try_from(data.iter().map(|piece| piece.len()).sum::<usize>()).is_ok(),
            "a page's data is longer than a record can say"
        );
        debug_assert!(mode != PageLog::ForceImage || data.is_empty(), "an image and data");
        Self { target: guard.log_target(), mode, data }
    }

    /// Describes a page logged as [`PageLog::Delta`].
    pub fn delta(guard: &'p mut PageWrite<'_>, data: &'p [&'p [u8]]) -> Self {
        Self::new(guard, PageLog::Delta, data)
    }

    /// Describes a page logged as [`PageLog::ForceImage`].
    pub fn image(guard: &'p mut PageWrite<'_>) -> Self {
        Self::new(guard, PageLog::ForceImage, &[])
    }

    /// Describes a page logged as [`PageLog::Init`].
    pub fn init(guard: &'p mut PageWrite<'_>, data: &'p [&'p [u8]]) -> Self {
        Self::new(guard, PageLog::Init, data)
    }
}
