//! The memory of all frames: one anonymous mapping.
//!
//! The system provides memory pages when they are first touched, so a large pool costs only the
//! part that is used. The mapping asks for huge pages: a lookup in an index touches a dozen cache
//! lines anywhere in the pool. With small pages each of them also needs a walk through page tables.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{self, NonNull};

use niwaki_env::memory::Held;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::page::{PAGE_SIZE, Page, prefetch};

/// `count` pages of memory. The arena does not track which thread may touch which page. The frame
/// states and latches do, and the contract of the two accessors.
pub(crate) struct Arena {
    memory: NonNull<Page>,
    count: usize,
    _held: Held,
}

// SAFETY: the arena is plain memory. Every access goes through `page` and `page_mut`. Their callers
// guarantee the exclusion that makes the access sound from any thread.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(count: usize) -> Self {
        assert!(count > 0, "a pool has at least one frame");
        let layout = Layout::array::<Page>(count).expect("pool size fits the address space");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses, is no other owner's memory.
        let mapped =
            unsafe { mmap_anonymous(ptr::null_mut(), layout.size(), access, MapFlags::PRIVATE) };
        let memory = mapped.ok().and_then(|memory| NonNull::new(memory.cast::<Page>()));
        let Some(memory) = memory else { handle_alloc_error(layout) };
        debug_assert_eq!(layout.size(), count * PAGE_SIZE, "pages lie without gaps");
        debug_assert!(memory.is_aligned(), "the system's memory begins with a whole page");
        let arena = Self { memory, count, _held: Held::shared(layout.size()) };
        arena.ask_for_huge_pages();
        arena
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn ask_for_huge_pages(&self) {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the whole mapping, whose contents the advice does not change.
        let advised =
            unsafe { madvise(self.memory.as_ptr().cast(), self.bytes(), Advice::LinuxHugepage) };
        // A system without huge pages refuses, and small pages are enough.
        let _ = advised;
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn ask_for_huge_pages(&self) {}

    fn bytes(&self) -> usize {
        self.count * PAGE_SIZE
    }

    fn place(&self, index: usize) -> *mut Page {
        assert!(index < self.count);
        // SAFETY: `index < count`, so the result stays inside the allocation.
        unsafe { self.memory.as_ptr().add(index) }
    }

    /// Prefetches the first and the last cache line of a page: its header and its special area,
    /// which every reader reads first. Needs no guarantee, because nothing is read.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        if index < self.count {
            let page = self.memory.as_ptr().wrapping_add(index).cast::<u8>();
            prefetch(page);
            prefetch(page.wrapping_add(PAGE_SIZE - 1));
        }
    }

    /// Returns the page of a frame, to read.
    ///
    /// # Safety No thread may write this page during `'a`. The caller holds the frame's latch
    /// (shared or exclusive) on a pinned, valid frame, or owns the frame alone (claimed or
    /// loading).
    #[inline]
    pub(crate) unsafe fn page<'a>(&self, index: usize) -> &'a Page {
        // SAFETY: the memory is initialised (zeroed at allocation), aligned, and by the caller's
        // promise not written during `'a`.
        unsafe { &*self.place(index) }
    }

    /// Returns the page of a frame, to change.
    ///
    /// # Safety No other thread may touch this page during `'a`. The caller holds the frame's latch
    /// exclusively on a pinned, valid frame, or owns the frame alone (claimed or loading).
    #[inline]
    pub(crate) unsafe fn page_mut<'a>(&self, index: usize) -> &'a mut Page {
        // SAFETY: as above, and by the caller's promise there is no other reference.
        unsafe { &mut *self.place(index) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and never unmapped elsewhere.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes()) };
        debug_assert!(unmapped.is_ok(), "a mapping that was made can be given back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_apart_and_zero() {
        let arena = Arena::new(3);
        for index in 0..3 {
            // SAFETY: the arena belongs to this test alone.
            let page = unsafe { arena.page_mut(index) };
            assert!(page.0.iter().all(|&b| b == 0));
            assert_eq!(ptr::from_ref(page) as usize % 4096, 0);
            page.0.fill(index as u8 + 1);
        }
        for index in 0..3 {
            // SAFETY: as above; no reference to change it is left.
            let page = unsafe { arena.page(index) };
            assert!(page.0.iter().all(|&b| b == index as u8 + 1));
        }
    }
}
