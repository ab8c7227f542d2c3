//! Resident memory of the process, which is more than the account says.
//!
//! An allocator keeps freed memory, pages have holes, growth holds two copies for a moment, and
//! stacks are on no account. So this module also asks the system, but only if an estimate would
//! refuse a request. The estimate is the last reading plus everything allocated since. It may be
//! too small by memory that was mapped before the reading and touched since, such as shared
//! buffers.

use std::sync::{Mutex, OnceLock};

use super::Ordering::Relaxed;
use crate::sync::plain_atomic::AtomicUsize;

/// Bytes that must be taken or freed between two calls that make the allocator give memory back:
/// such a call costs system calls.
const PURGE_BYTES: usize = 4 << 20;

/// All bytes that were ever taken, reported in lots.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// The last reading, less the bytes taken until then. One number, so that the two belong together
/// even if two threads read at the same time.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// All bytes that were ever taken or freed, reported in lots, and their number when the allocator
/// gave back last.
static MOVED: AtomicUsize = AtomicUsize::new(0);
static PURGED_AT: AtomicUsize = AtomicUsize::new(0);
static PURGE: OnceLock<fn()> = OnceLock::new();
/// Held while the allocator gives memory back.
static PURGING: Mutex<()> = Mutex::new(());

/// Sets the function that makes the program's allocator return unused memory to the system. The
/// first function stays.
pub fn set_purge(purge: fn()) {
    // A function that is set already does the same.
    let _ = PURGE.set(purge);
}

/// Returns unused memory to the system, if enough bytes moved since the last time, and reads the
/// resident memory. For an idle thread: an allocator purges only when a thread calls it.
pub fn purge() {
    // Otherwise another thread is giving memory back.
    if let Ok(_purging) = PURGING.try_lock()
        && much_has_moved()
    {
        give_back();
    }
    look();
}

/// Does the same as [`purge`], but waits for another thread that is giving back. Returns the
/// resident bytes.
pub(super) fn purged() -> usize {
    let purging = PURGING.lock();
    if much_has_moved() {
        give_back();
    }
    drop(purging);
    look()
}

/// Gives back the memory that this thread has freed. An allocator keeps some of it for the thread,
/// and no other thread can reach it.
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

/// Counts `bytes` that a thread has taken, or freed if negative.
pub(super) fn moved(bytes: isize) {
    MOVED.fetch_add(bytes.unsigned_abs(), Relaxed);
    if bytes > 0 {
        TAKEN.fetch_add(bytes.unsigned_abs(), Relaxed);
    }
}

/// Returns an estimate of the resident bytes. It is too low only by mappings that were touched
/// since the last reading.
pub(super) fn estimate() -> usize {
    BASE.load(Relaxed).wrapping_add(TAKEN.load(Relaxed))
}

/// Reads the resident bytes; 0 if the system does not tell.
pub(super) fn look() -> usize {
    let taken = TAKEN.load(Relaxed);
    let seen = of_process().unwrap_or(0);
    BASE.store(seen.wrapping_sub(taken), Relaxed);
    seen
}

/// Returns the resident anonymous memory of the process, in bytes. Pages of files do not count: the
/// system takes them back on demand. `None` if the system does not tell.
#[cfg(target_os = "linux")]
pub fn of_process() -> Option<usize> {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    // The file stays open for ever: it is read when the process may have no descriptor left.
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    let file = STATM.get_or_init(|| File::open("/proc/self/statm").ok()).as_ref()?;
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0).ok()?;
    let mut pages = std::str::from_utf8(text.get(..length)?).ok()?.split(' ').skip(1);
    let mut next = || pages.next()?.parse::<usize>().ok();
    let (resident, of_files) = (next()?, next()?);
    resident.checked_sub(of_files)?.checked_mul(rustix::param::page_size())
}

/// Returns `None`: the system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn of_process() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since each reading moves the estimate of all.
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
        // The estimate grows by everything taken, freed or not, until it would refuse a session.
        moved(1 << 40);
        assert!(estimate() >= 1 << 40);
        purge();
        assert!(estimate() < 1 << 40);
    }
}
