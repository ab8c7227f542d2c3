//! The memory of all frames: one allocation of aligned pages.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::page::{PAGE_SIZE, Page};

/// Frames do not straddle pages of memory, so that reading one in touches two of them and not three.
const ALIGNMENT: usize = 4096;

/// `count` pages of memory. It knows nothing of who may touch which page when: that is the
/// business of the frame states and latches, and the contract of the two accessors.
pub(crate) struct Arena {
    memory: NonNull<Page>,
    count: usize,
}

// SAFETY: the arena is plain memory; every access to it goes through `page` and `page_mut`, whose
// callers promise the exclusion that makes it sound from any thread.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(count: usize) -> Self {
        assert!(count > 0, "a pool has at least one frame");
        let layout = Self::layout(count);
        // SAFETY: the layout is not of size zero, since `count > 0`.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory.cast::<Page>()) else { handle_alloc_error(layout) };
        Self { memory, count }
    }

    fn layout(count: usize) -> Layout {
        let bytes = count.checked_mul(PAGE_SIZE).expect("pool size fits the address space");
        Layout::from_size_align(bytes, ALIGNMENT).expect("page alignment is valid")
    }

    fn place(&self, index: usize) -> *mut Page {
        assert!(index < self.count);
        // SAFETY: `index < count`, so the result stays inside the allocation.
        unsafe { self.memory.as_ptr().add(index) }
    }

    /// The page of a frame, to read.
    ///
    /// # Safety
    /// For `'a`, nobody may write this page: the caller holds the frame's latch (shared or
    /// exclusive) on a pinned frame that is valid, or owns the frame alone (claimed or loading).
    #[inline]
    pub(crate) unsafe fn page<'a>(&self, index: usize) -> &'a Page {
        // SAFETY: the memory is initialised (zeroed at allocation), aligned, and by the caller's
        // promise not written during `'a`.
        unsafe { &*self.place(index) }
    }

    /// The page of a frame, to change.
    ///
    /// # Safety
    /// For `'a`, nobody else may touch this page: the caller holds the frame's latch exclusively on
    /// a pinned frame that is valid, or owns the frame alone (claimed or loading).
    #[inline]
    pub(crate) unsafe fn page_mut<'a>(&self, index: usize) -> &'a mut Page {
        // SAFETY: as above, and by the caller's promise there is no other reference.
        unsafe { &mut *self.place(index) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout, and never freed elsewhere.
        unsafe { dealloc(self.memory.as_ptr().cast(), Self::layout(self.count)) }
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
            assert_eq!(std::ptr::from_ref(page) as usize % ALIGNMENT, 0);
            page.0.fill(index as u8 + 1);
        }
        for index in 0..3 {
            // SAFETY: as above; no reference to change it is left.
            let page = unsafe { arena.page(index) };
            assert!(page.0.iter().all(|&b| b == index as u8 + 1));
        }
    }
}
