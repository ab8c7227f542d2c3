//! Reads by Linux's io_uring.
//!
//! The kernel and the process share two queues: of what is to be done and of what is done. Several reads are begun by
//! one system call, and an end that is there already is found without any.
//!
//! What is not in the system's memory is read while nobody waits: the file systems that people use wait for the device
//! without a thread, the others get one of the kernel's. A read may end with fewer bytes than wanted, or with an
//! error that is none of the file's, for instance when the thread that began it has ended meanwhile.
//!
//! When the system call fails for good, nobody makes it again. The kernel takes entries in their order, and only during the
//! call; so those that it has not taken by then it never takes, and their buffers are free. Those that it has taken end
//! without a call: the queue of ends is memory, and has room for all. They are looked for there. If one does not come
//! within a time in which any disk answers, nobody can say when the kernel writes to its buffers: closing the ring does not
//! tell either, as it does not wait.

use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use super::{ReadDone, ReadRing, RingError, VfsFile};

/// Most reads at a time. The kernel's queue of ends has twice as many places, so it never overflows.
const READS_MAX: u32 = 256;
/// How often the kernel may say that it lacks memory right now.
const TRIES_MAX: u32 = 100_000;
/// How often, and how many times in a row, a ring that does not work any more is looked at for an end: for a minute.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const LOOKS_MAX: u32 = 60_000;

/// Where bytes go, as the kernel reads it (`struct iovec`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Target {
    start: *mut u8,
    bytes: usize,
}

/// What a read needs until it has ended.
struct UnderWay {
    /// Its place among all that were added.
    number: u64,
    /// Its descriptor stays open.
    _file: Arc<dyn VfsFile>,
    /// Stay where they are: the kernel may look at them until the end, if it is an old one.
    _targets: Box<[Target]>,
}

// SAFETY: the pointers are the kernel's to use; this process never follows them.
unsafe impl Send for UnderWay {}

/// What was added, and what became of it.
struct State {
    /// By token.
    reads: Box<[Option<UnderWay>]>,
    /// How many were added; and how many entries the kernel has taken, the first ones.
    added: u64,
    taken: u64,
    /// Threads that are in the kernel, which may be taking some.
    entering: usize,
    /// No thread enters it again.
    broken: bool,
}

/// A ring of the kernel's.
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
    /// A ring, once it was seen to work.
    pub(super) fn new() -> io::Result<Self> {
        // Children get no copy of the queues.
        let ring = IoUring::builder().dontfork().setup_clamp().build(READS_MAX)?;
        let capacity = ring.params().sq_entries().min(READS_MAX) as usize;
        let reads = (0..capacity).map(|_| None).collect();
        let state = State { reads, added: 0, taken: 0, entering: 0, broken: false };
        let ring = Self { ring, state: Mutex::new(state), taking: Mutex::new(()) };
        ring.try_out()?;
        Ok(ring)
    }

    /// What filters system calls may permit to make a ring and not to use it.
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
        // SAFETY: what the entry points to stays until the end is taken: `UnderWay`, and the promise of `add`.
        let pushed = unsafe { queue.push(entry) };
        // As many places as tokens; entries leave the queue before they end.
        pushed.expect("a place for each read");
        state.added += 1;
    }

    /// Takes an end out of the queue.
    fn take(&self) -> Option<io_uring::cqueue::Entry> {
        let _alone = self.taking.lock();
        // SAFETY: no other queue of completions exists while the lock is held.
        let mut queue = unsafe { self.ring.completion_shared() };
        queue.next()
    }

    /// Lets the kernel begin what was added, and waits until there are `ends`. Returns how many it began; `None`: the ring
    /// was broken before.
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
            // A call that takes something says so instead.
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

    /// Gives back a read that the kernel has not taken, and never will.
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

/// What is said of reads that a ring has not begun.
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
        // Ends: nothing is left, or each turn begins something. What others added meanwhile is begun by them.
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
        // Ends with an end (something is under way, as the caller said), or after so many looks.
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

    /// As if a call had failed: what the kernel has taken ends, what it has not is given back untouched.
    #[test]
    fn a_ring_that_breaks_ends_what_it_has_begun() {
        // Where there is none there is nothing to see.
        let Ok(ring) = UringReads::new() else { return };
        let folder = std::env::temp_dir().join(format!("niwaki-uring-{}", std::process::id()));
        let vfs = OsVfs::new(&folder);
        vfs.create_dir("").unwrap();
        let file = vfs.open("a", OpenMode::CreateNew).unwrap();
        file.write_at(b"12345678", 0).unwrap();
        let mut buffers = [[0_u8; 4]; 4];
        let mut add = |token: usize| {
            let mut slices = [IoSliceMut::new(&mut buffers[token])];
            // SAFETY: the buffers live beyond the last look, which takes the last end.
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
