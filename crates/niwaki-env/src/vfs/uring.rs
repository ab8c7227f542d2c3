//! Reads by Linux's io_uring.
//!
//! The kernel and the process share two queues: of what is to be done and of what is done. Several reads are begun by
//! one system call, and an end that is there already is found without any.
//!
//! What is not in the system's memory is read while nobody waits: the file systems that people use wait for the device
//! without a thread, the others get one of the kernel's. A read may end with fewer bytes than wanted, or with an
//! error that is none of the file's, for instance when the thread that began it has ended meanwhile.

use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use super::{ReadDone, ReadRing, VfsFile};

/// Most reads at a time. The kernel's queue of ends has twice as many places, so it never overflows.
const READS_MAX: u32 = 256;
/// How often the kernel may say that it lacks memory right now.
const TRIES_MAX: u32 = 100_000;

/// Where bytes go, as the kernel reads it (`struct iovec`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Target {
    start: *mut u8,
    bytes: usize,
}

/// What a read needs until it has ended.
struct UnderWay {
    /// Its descriptor stays open.
    _file: Arc<dyn VfsFile>,
    /// Stay where they are: the kernel may look at them until the end, if it is an old one.
    _targets: Box<[Target]>,
}

// SAFETY: the pointers are the kernel's to use; this process never follows them.
unsafe impl Send for UnderWay {}

/// A ring of the kernel's.
pub(super) struct UringReads {
    ring: IoUring,
    /// By token. Held while a read is added: one thread at a time.
    reads: Mutex<Box<[Option<UnderWay>]>>,
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
        let ring = Self { ring, reads: Mutex::new(reads), taking: Mutex::new(()) };
        ring.try_out()?;
        Ok(ring)
    }

    /// What filters system calls may permit to make a ring and not to use it.
    fn try_out(&self) -> io::Result<()> {
        self.push(&opcode::Nop::new().build());
        self.enter(1)?;
        match self.take() {
            Some(_) => Ok(()),
            None => Err(io::Error::new(ErrorKind::Unsupported, "io_uring does nothing")),
        }
    }

    /// The caller holds `reads`, or has the ring alone.
    fn push(&self, entry: &io_uring::squeue::Entry) {
        // SAFETY: no other queue of submissions exists now, see above.
        let mut queue = unsafe { self.ring.submission_shared() };
        // SAFETY: what the entry points to stays until the end is taken: `UnderWay`, and the promise of `add`.
        let pushed = unsafe { queue.push(entry) };
        // As many places as tokens; entries leave the queue before they end.
        pushed.expect("a place for each read");
    }

    /// Takes an end out of the queue.
    fn take(&self) -> Option<io_uring::cqueue::Entry> {
        let _alone = self.taking.lock();
        // SAFETY: no other queue of completions exists while the lock is held.
        let mut queue = unsafe { self.ring.completion_shared() };
        queue.next()
    }

    /// Lets the kernel begin what was added, and waits until there are `ends`.
    fn enter(&self, ends: usize) -> io::Result<usize> {
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
}

impl ReadRing for UringReads {
    fn capacity(&self) -> usize {
        self.reads.lock().len()
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
        let mut reads = self.reads.lock();
        assert!(reads[token].is_none(), "two reads have one token");
        reads[token] = Some(UnderWay { _file: file, _targets: targets });
        self.push(&entry);
    }

    fn submit(&self) -> io::Result<()> {
        // Ends: nothing is left, or each turn begins something. What others added meanwhile is begun by them.
        while self.enter(0)? > 0 {}
        Ok(())
    }

    fn complete(&self, wait: bool) -> io::Result<Option<ReadDone>> {
        // Ends with an end: something is under way, as the caller said.
        loop {
            if let Some(end) = self.take() {
                let token = end.user_data() as usize;
                self.reads.lock()[token] = None;
                let result = usize::try_from(end.result())
                    .map_err(|_| io::Error::from_raw_os_error(-end.result()));
                return Ok(Some(ReadDone { token, result }));
            }
            if !wait {
                return Ok(None);
            }
            self.enter(1)?;
        }
    }
}
