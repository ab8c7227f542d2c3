//! Reads by Linux's `io_uring`.
//!
//! The kernel and the process share two queues: of requests, and of completions. One system call
//! begins several reads, and a completion that is there already is found without a call.
//!
//! Bytes that are not in the system's cache are read asynchronously. The common file systems wait
//! for the device without a thread; the others get a thread of the kernel. A read may end with
//! fewer bytes than wanted, or with an error that is not the file's. That happens, for instance,
//! when the thread that began the read has ended meanwhile.
//!
//! When the system call fails for good, no thread makes it again. The kernel takes entries in their
//! order, and only during the call. So it never takes the entries that it has not taken by then,
//! and their buffers are free. Taken entries end without a call: the queue of completions is
//! memory, and has room for all of them.
//!
//! The ring looks for their completions there. If one does not come within a time in which any disk
//! answers, the moment when the kernel writes to its buffers is unknown. Closing the ring does not
//! tell either, as closing does not wait.

use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use super::{ReadDone, ReadRing, RingError, VfsFile};

/// The greatest number of reads at a time. The kernel's queue of completions has twice as many
/// places, so it never overflows.
const READS_MAX: u32 = 256;
/// Attempts of a call for which the kernel lacks memory at the moment.
const TRIES_MAX: u32 = 100_000;
/// Interval, and greatest number in a row, of looks for a completion at a broken ring: one minute
/// in all.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const LOOKS_MAX: u32 = 60_000;

/// A buffer, as the kernel reads its address (`struct iovec`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Target {
    start: *mut u8,
    bytes: usize,
}

/// Data that a read needs until it has ended.
struct UnderWay {
    /// The read's place among all that were added.
    number: u64,
    /// Keeps the descriptor open.
    _file: Arc<dyn VfsFile>,
    /// The targets stay in place: an old kernel may read them until the end.
    _targets: Box<[Target]>,
}

// SAFETY: only the kernel uses the pointers; this process never follows them.
unsafe impl Send for UnderWay {}

/// The reads that were added, and their progress.
struct State {
    /// Reads by token.
    reads: Box<[Option<UnderWay>]>,
    /// Number of added entries, and number of entries that the kernel has taken: the first ones.
    added: u64,
    taken: u64,
    /// Threads that are in the kernel, which may be taking entries.
    entering: usize,
    /// True if no thread enters the kernel again.
    broken: bool,
}

/// A ring of the kernel.
pub(super) struct UringReads {
    ring: IoUring,
    /// Held while a read is added: one thread at a time.
    state: Mutex<State>,
    /// Held while an end is taken out: one thread at a time.
    taking: Mutex<()>,
}

impl std::fmt::Debug for UringReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringReads").finish_non_exhaustive()
    }
}

impl UringReads {
    /// Creates a ring, and checks that it works.
    pub(super) fn new() -> io::Result<Self> {
        // A child process gets no copy of the queues.
        let ring = IoUring::builder().dontfork().setup_clamp().build(READS_MAX)?;
        let capacity = ring.params().sq_entries().min(READS_MAX) as usize;
        let reads = (0..capacity).map(|_| None).collect();
        let state = State { reads, added: 0, taken: 0, entering: 0, broken: false };
        let ring = Self { ring, state: Mutex::new(state), taking: Mutex::new(()) };
        ring.try_out()?;
        Ok(ring)
    }

    /// Tries the ring: filters of system calls may permit making a ring but not using it.
    fn try_out(&self) -> io::Result<()> {
        self.push(&mut self.state.lock(), &opcode::Nop::new().build());
        match self.enter(1) {
            Ok(_) => {}
            Err(RingError::Broken(error) | RingError::Lost(error)) => return Err(error),
        }
        match self.take() {
            Some(_) => Ok(()),
            None => Err(io::Error::new(ErrorKind::Unsupported, "io_uring does nothing")),
        }
    }

    fn push(&self, state: &mut State, entry: &io_uring::squeue::Entry) {
        // SAFETY: no other queue of submissions exists now: the caller has locked the state.
        let mut queue = unsafe { self.ring.submission_shared() };
        // SAFETY: the memory behind the entry stays until the end is taken: `UnderWay`, and the
        // promise of `add`.
        let pushed = unsafe { queue.push(entry) };
        // The queue has as many places as there are tokens, and entries leave the queue before they
        // end.
        pushed.expect("a place for each read");
        state.added += 1;
    }

    /// Takes a completion out of the queue.
    fn take(&self) -> Option<io_uring::cqueue::Entry> {
        let _alone = self.taking.lock();
        // SAFETY: no other queue of completions exists while the lock is held.
        let mut queue = unsafe { self.ring.completion_shared() };
        queue.next()
    }

    /// Lets the kernel begin the added reads, and waits until there are `ends` completions. Returns
    /// the number of reads it began; `None` if the ring was broken before.
    fn enter(&self, ends: usize) -> Result<Option<usize>, RingError> {
        {
            let mut state = self.state.lock();
            if state.broken {
                return Ok(None);
            }
            state.entering += 1;
        }
        let entered = self.call(ends);
        let mut state = self.state.lock();
        state.entering -= 1;
        match entered {
            Ok(begun) => {
                state.taken += begun as u64;
                Ok(Some(begun))
            }
            // A call that takes an entry returns their number instead of an error.
            Err(error) => {
                state.broken = true;
                Err(RingError::Broken(error))
            }
        }
    }

    fn call(&self, ends: usize) -> io::Result<usize> {
        for _ in 0..TRIES_MAX {
            match self.ring.submit_and_wait(ends) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ResourceBusy) =>
                {
                    std::thread::yield_now();
                }
                other => return other,
            }
        }
        Err(io::Error::new(ErrorKind::OutOfMemory, "io_uring begins nothing"))
    }

    /// Returns a read that the kernel has not taken, and never will.
    fn give_back(&self) -> Option<ReadDone> {
        let mut state = self.state.lock();
        if !state.broken || state.entering > 0 {
            return None;
        }
        let taken = state.taken;
        let is_free = |read: &UnderWay| read.number >= taken;
        let token = state.reads.iter().position(|read| read.as_ref().is_some_and(is_free))?;
        state.reads[token] = None;
        Some(ReadDone { token, result: Err(broken()) })
    }
}

/// Returns the error of reads that a ring has not begun.
fn broken() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, "io_uring does not work any more")
}

impl ReadRing for UringReads {
    fn capacity(&self) -> usize {
        self.state.lock().reads.len()
    }

    unsafe fn add(
        &self,
        token: usize,
        file: Arc<dyn VfsFile>,
        bufs: &mut [IoSliceMut<'_>],
        offset: u64,
    ) {
        let targets: Box<[Target]> = bufs
            .iter_mut()
            .map(|buf| Target { start: buf.as_mut_ptr(), bytes: buf.len() })
            .collect();
        let descriptor = file.descriptor().expect("files of the system have a descriptor");
        let descriptor = types::Fd(descriptor.as_raw_fd());
        let count = u32::try_from(targets.len()).expect("a read of few buffers");
        let entry = opcode::Readv::new(descriptor, targets.as_ptr().cast(), count)
            .offset(offset)
            .build()
            .user_data(token as u64);
        let mut state = self.state.lock();
        assert!(state.reads[token].is_none(), "two reads have one token");
        let number = if state.broken { u64::MAX } else { state.added };
        state.reads[token] = Some(UnderWay { number, _file: file, _targets: targets });
        if !state.broken {
            self.push(&mut state, &entry);
        }
    }

    fn submit(&self) -> Result<(), RingError> {
        // Ends: no read is left, or each turn begins a read. Threads that added reads meanwhile
        // begin them.
        loop {
            match self.enter(0)? {
                Some(0) => return Ok(()),
                Some(_) => {}
                None => return Err(RingError::Broken(broken())),
            }
        }
    }

    fn complete(&self, wait: bool) -> Result<Option<ReadDone>, RingError> {
        let mut looks = 0;
        // Ends: with a completion (a read is under way, as the caller said), or after `LOOKS_MAX`
        // looks.
        loop {
            if let Some(end) = self.take() {
                let token = end.user_data() as usize;
                self.state.lock().reads[token] = None;
                let result = usize::try_from(end.result())
                    .map_err(|_| io::Error::from_raw_os_error(-end.result()));
                return Ok(Some(ReadDone { token, result }));
            }
            if let Some(done) = self.give_back() {
                return Ok(Some(done));
            }
            if !wait {
                return Ok(None);
            }
            if self.enter(1)?.is_some() {
                continue;
            }
            if looks == LOOKS_MAX {
                let what = "reads that the system has begun do not end";
                return Err(RingError::Lost(io::Error::new(ErrorKind::TimedOut, what)));
            }
            looks += 1;
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{OpenMode, OsVfs, Vfs};

    /// Behaves as if a call had failed: reads that the kernel has taken end, and the others are
    /// returned untouched.
    #[test]
    fn a_ring_that_breaks_ends_what_it_has_begun() {
        // Without io_uring there is nothing to test.
        let Ok(ring) = UringReads::new() else { return };
        let folder = std::env::temp_dir().join(format!("niwaki-uring-{}", std::process::id()));
        let vfs = OsVfs::new(&folder);
        vfs.create_dir("").unwrap();
        let file = vfs.open("a", OpenMode::CreateNew).unwrap();
        file.write_at(b"12345678", 0).unwrap();
        let mut buffers = [[0_u8; 4]; 4];
        let mut add = |token: usize| {
            let mut slices = [IoSliceMut::new(&mut buffers[token])];
            // SAFETY: the buffers live beyond the last `complete`, which takes the last end.
            unsafe { ring.add(token, Arc::clone(&file), &mut slices, 2) };
        };
        add(0);
        add(1);
        ring.submit().unwrap();
        add(2);
        ring.state.lock().broken = true;
        add(3);
        assert!(matches!(ring.submit(), Err(RingError::Broken(_))));
        let mut ends: Vec<_> = (0..4)
            .map(|_| {
                let done = ring.complete(true).unwrap().unwrap();
                (done.token, done.result.ok())
            })
            .collect();
        ends.sort_unstable();
        assert_eq!(ends, [(0, Some(4)), (1, Some(4)), (2, None), (3, None)]);
        assert!(ring.complete(false).unwrap().is_none());
        assert_eq!(buffers, [*b"3456", *b"3456", [0; 4], [0; 4]]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
