//! Prefetching of page bytes into the processor's caches.
//!
//! Reading a page outside the caches takes as long as about two hundred instructions. Several such
//! reads take as long as one if they begin together.

use super::Page;

/// Begins to load the cache line at an address, whatever is there. The address needs no guarantee,
/// because nothing is read.
#[inline]
pub(crate) fn prefetch(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

impl Page {
    /// Begins to load the bytes at `at`, which the caller reads soon.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        prefetch(self.0.as_ptr().wrapping_add(at));
    }
}
