#![doc = include_str!("../README.md")]

pub use mimalloc::MiMalloc as Allocator;

unsafe extern "C" {
    /// Frees unused memory of the library that `mimalloc` links.
    safe fn mi_collect(force: bool);
}

/// Gives the system the memory that this thread, and threads that have ended, have freed. Of other
/// threads, gives memory freed in whole pages.
pub fn purge() {
    mi_collect(true);
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    #[test]
    fn what_is_in_use_stays() {
        let layout = Layout::from_size_align(8 << 20, 16).expect("a layout");
        // SAFETY: the layout has a size, and the bytes written and read are inside.
        let (first, last) = unsafe {
            let memory = super::Allocator.alloc_zeroed(layout);
            assert!(!memory.is_null());
            memory.write(7);
            super::purge();
            let seen = (memory.read(), memory.add(layout.size() - 1).read());
            super::Allocator.dealloc(memory, layout);
            seen
        };
        super::purge();
        assert_eq!((first, last), (7, 0));
    }
}
