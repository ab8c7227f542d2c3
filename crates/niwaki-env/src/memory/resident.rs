//! What the process really has in memory, which is more than its account says.
//!
//! An allocator keeps what was given back to it, pages have holes, growth holds two copies for a
//! moment, stacks are on no account. So the system is asked, too, but only where an estimate would
//! refuse: what was seen last, and all that was allocated since then. It may be too small by what
//! was mapped before and touched since, such as shared buffers.

use std::sync::{Mutex, OnceLock};

use super::Ordering::Relaxed;
use crate::sync::plain_atomic::AtomicUsize;

/// So much must have moved since the allocator gave back last, in bytes, before it is asked
/// to again: giving back costs calls of the system.
const PURGE_BYTES: usize = 4 << 20;

/// All that was ever taken, in lots.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// What was seen last, less what was taken until then: one number, so that the two belong together
/// if two threads look at the same time.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// All that was ever taken or freed, in lots, and what it was when the allocator gave back last.
static MOVED: AtomicUsize = AtomicUsize::new(0);
static PURGED_AT: AtomicUsize = AtomicUsize::new(0);
static PURGE: OnceLock<fn()> = OnceLock::new();
/// Held while the allocator gives back.
static PURGING: Mutex<()> = Mutex::new(());

/// How the program's allocator is told to give the system what nobody holds. The first one stays.
pub fn set_purge(purge: fn()) {
    // One that is there already does the same.
    let _ = PURGE.set(purge);
}

/// Gives the system what nobody holds, if enough has moved since the last time, and looks how much
/// is in memory. For a thread that has nothing else to do: an allocator purges only when somebody
/// calls it.
pub fn purge() {
    // Otherwise another thread is giving back.
    if let Ok(_purging) = PURGING.try_lock()
        && much_has_moved()
    {
        give_back();
    }
    look();
}

/// As [`purge`], but waits for another thread that is giving back. Returns the bytes in memory.
pub(super) fn purged() -> usize {
    let purging = PURGING.lock();
    if much_has_moved() {
        give_back();
    }
    drop(purging);
    look()
}

/// Gives back what this thread has freed: an allocator keeps some of it for the thread, and nobody
/// else gets at it.
pub(super) fn purge_own() {
    let _purging = PURGING.lock();
    give_back();
}

fn much_has_moved() -> bool {
    MOVED.load(Relaxed).wrapping_sub(PURGED_AT.load(Relaxed)) >= PURGE_BYTES
}

fn give_back() {
    PURGED_AT.store(MOVED.load(Relaxed), Relaxed);
    PURGE.get().inspect(|purge| purge());
}

/// A thread has taken so much, or freed it.
pub(super) fn moved(bytes: isize) {
    MOVED.fetch_add(bytes.unsigned_abs(), Relaxed);
    if bytes > 0 {
        TAKEN.fetch_add(bytes.unsigned_abs(), Relaxed);
    }
}

/// Bytes in memory, or more; less only by mappings that were touched since somebody looked.
pub(super) fn estimate() -> usize {
    BASE.load(Relaxed).wrapping_add(TAKEN.load(Relaxed))
}

/// Bytes in memory; 0 where the system does not tell.
pub(super) fn look() -> usize {
    let taken = TAKEN.load(Relaxed);
    let seen = of_process().unwrap_or(0);
    BASE.store(seen.wrapping_sub(taken), Relaxed);
    seen
}

/// Anonymous memory of the process that is in memory, in bytes. Pages of files are left out: the
/// system takes them back when it wants. `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn of_process() -> Option<usize> {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    // Open for ever: it is asked when there may be no descriptor left.
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    let file = STATM.get_or_init(|| File::open("/proc/self/statm").ok()).as_ref()?;
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0).ok()?;
    let mut pages = std::str::from_utf8(text.get(..length)?).ok()?.split(' ').skip(1);
    let mut next = || pages.next()?.parse::<usize>().ok();
    let (resident, of_files) = (next()?, next()?);
    resident.checked_sub(of_files)?.checked_mul(rustix::param::page_size())
}

/// The system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn of_process() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since each look moves the estimate of all.
    #[test]
    fn what_was_seen_and_what_was_taken_since_is_the_estimate() {
        let before = look();
        moved(100 << 20);
        assert!(estimate() >= before + (100 << 20));
        let held = vec![1_u8; 64 << 20];
        let seen = look();
        if cfg!(target_os = "linux") {
            assert!(before > 0);
            assert!(seen >= before + (48 << 20), "{before} {seen}");
        }
        drop(held);
        // It grew by all that was taken, whatever was freed, until it would have refused somebody.
        moved(1 << 40);
        assert!(estimate() >= 1 << 40);
        purge();
        assert!(estimate() < 1 << 40);
    }
}
