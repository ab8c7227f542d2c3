//! A simulated ring, which does a read when a caller asks for its end.

use std::fmt;
use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Operation, ReadDone, ReadRing, RingError, VfsFile};
use crate::clock::{Clock, ManualClock};
use crate::rng::{Rng, SeededRng};

/// The greatest number of reads at a time: few, so that simulations meet a full ring.
const READS_MAX: usize = 8;

/// Simulated reads. Their order of ends is independent of their order of begins. On a device with
/// latency, they end in the order in which the device finishes them.
#[derive(Debug)]
pub struct DeferredReads {
    order: SeededRng,
    device: Option<Device>,
    faults: Faults,
    reads: Mutex<Reads>,
}

/// The fault injector. The ring calls it at each of its own calls ([`Operation::RingSubmit`],
/// [`Operation::RingWait`]), and at the end of each read ([`Operation::RingEnd`]).
type Fails = Box<dyn Fn(Operation) -> io::Result<()> + Send + Sync>;

/// The faults of a ring; by default none.
struct Faults(Option<Fails>);

impl Faults {
    fn meet(&self, operation: Operation) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |fails| fails(operation))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faults").field(&self.0.is_some()).finish()
    }
}

/// A device that takes `latency` for a read and does `width` reads at a time.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) clock: Arc<ManualClock>,
    pub(super) latency: Duration,
    pub(super) width: usize,
    /// True while the latency of the current read has passed already.
    pub(super) timed: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Reads {
    added: Vec<Read>,
    under_way: Vec<Read>,
    /// True if the ring begins no further read.
    broken: bool,
}

#[derive(Debug)]
struct Read {
    token: usize,
    file: Arc<dyn VfsFile>,
    targets: Vec<(*mut u8, usize)>,
    offset: u64,
    /// Time at which the read ends.
    end: Duration,
}

// SAFETY: only one thread follows the pointers, the one that has taken the read out of the list.
unsafe impl Send for Read {}

impl DeferredReads {
    /// Creates a ring without a device: a read ends when a caller asks for it.
    pub(super) fn new() -> Self {
        Self {
            order: SeededRng::new(1),
            device: None,
            faults: Faults(None),
            reads: Mutex::default(),
        }
    }

    /// Creates a ring as [`DeferredReads::new`] does, whose faults `fails` injects. A call that
    /// fails begins nothing, and breaks the ring. If a wait fails after that, the ring is lost.
    pub(super) fn failing(
        fails: impl Fn(Operation) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { faults: Faults(Some(Box::new(fails))), ..Self::new() }
    }

    pub(super) fn on(device: Device) -> Self {
        Self { device: Some(device), ..Self::new() }
    }

    /// Begins the added reads, unless the call fails.
    fn begin(&self, call: Operation) -> Result<(), RingError> {
        let mut reads = self.reads.lock();
        if reads.broken {
            return Err(RingError::Broken(broken()));
        }
        if let Err(error) = self.faults.meet(call) {
            reads.broken = true;
            return Err(RingError::Broken(error));
        }
        for mut read in std::mem::take(&mut reads.added) {
            read.end = self.device.as_ref().map_or(read.end, |d| d.end_of(&reads.under_way));
            read.file.being_read(read.range(), false);
            reads.under_way.push(read);
        }
        Ok(())
    }

    /// Returns an added read that a broken ring does not begin any more.
    fn give_back(&self) -> Option<Read> {
        let mut reads = self.reads.lock();
        if reads.broken { reads.added.pop() } else { None }
    }

    /// Begins the added reads before a wait; if the ring is broken, only checks whether it is lost.
    fn wait(&self) -> Result<(), RingError> {
        if self.reads.lock().broken {
            return self.faults.meet(Operation::RingWait).map_err(RingError::Lost);
        }
        self.begin(Operation::RingWait)
    }

    /// Takes out a read that has ended by now. With `wait` the clock moves to the next end.
    fn take(&self, wait: bool) -> Option<Read> {
        let mut reads = self.reads.lock();
        let count = reads.under_way.len();
        if count == 0 {
            return None;
        }
        let Some(device) = &self.device else {
            let at = (self.order.next_u64() % count as u64) as usize;
            return Some(reads.under_way.swap_remove(at));
        };
        let at = (0..count).min_by_key(|&at| reads.under_way[at].end)?;
        let left = reads.under_way[at].end.saturating_sub(device.clock.monotonic());
        if left > Duration::ZERO {
            if !wait {
                return None;
            }
            device.clock.advance(left);
        }
        Some(reads.under_way.swap_remove(at))
    }
}

impl Device {
    /// Lets one synchronous read wait for the device.
    pub(super) fn wait(&self) {
        // Relaxed: one thread uses a device.
        if !self.timed.load(Ordering::Relaxed) {
            self.clock.advance(self.latency);
        }
    }

    fn set_timed(&self, timed: bool) {
        self.timed.store(timed, Ordering::Relaxed);
    }

    /// Returns the end of a read that begins now, beside others.
    fn end_of(&self, under_way: &[Read]) -> Duration {
        let mut ends: Vec<_> = under_way.iter().map(|read| read.end).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let now = self.clock.monotonic();
        // A place becomes free when only `width - 1` reads with later ends are left.
        let begins = ends.get(self.width - 1).map_or(now, |&end| end.max(now));
        begins + self.latency
    }
}

impl Read {
    fn range(&self) -> Range<u64> {
        let bytes: usize = self.targets.iter().map(|&(_, bytes)| bytes).sum();
        self.offset..self.offset + bytes as u64
    }

    fn finish(&self) -> io::Result<usize> {
        let mut slices: Vec<_> = self
            .targets
            .iter()
            .map(|&(start, bytes)| {
                // SAFETY: the caller of `add` promised that the memory is allocated, and that no
                // other code uses it.
                IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(start, bytes) })
            })
            .collect();
        self.file.read_vectored_at(&mut slices, self.offset)
    }
}

impl ReadRing for DeferredReads {
    fn capacity(&self) -> usize {
        self.device.as_ref().map_or(READS_MAX, |_| 32 * READS_MAX)
    }

    unsafe fn add(
        &self,
        token: usize,
        file: Arc<dyn VfsFile>,
        bufs: &mut [IoSliceMut<'_>],
        offset: u64,
    ) {
        let targets = bufs.iter_mut().map(|buf| (buf.as_mut_ptr(), buf.len())).collect();
        let mut reads = self.reads.lock();
        let mut others = reads.added.iter().chain(&reads.under_way);
        assert!(others.all(|other| other.token != token), "two reads have one token");
        reads.added.push(Read { token, file, targets, offset, end: Duration::ZERO });
    }

    fn submit(&self) -> Result<(), RingError> {
        crate::sync::yield_point();
        self.begin(Operation::RingSubmit)
    }

    fn complete(&self, wait: bool) -> Result<Option<ReadDone>, RingError> {
        crate::sync::yield_point();
        if let Some(read) = self.give_back() {
            return Ok(Some(ReadDone { token: read.token, result: Err(broken()) }));
        }
        if wait {
            self.wait()?;
        }
        let Some(read) = self.take(wait) else {
            assert!(!wait, "a wait for nothing");
            return Ok(None);
        };
        self.device.iter().for_each(|device| device.set_timed(true));
        let result = read.finish();
        read.file.being_read(read.range(), true);
        self.device.iter().for_each(|device| device.set_timed(false));
        // The bytes read by then are in the buffers, even if the result is an error.
        let result = self.faults.meet(Operation::RingEnd).and(result);
        Ok(Some(ReadDone { token: read.token, result }))
    }
}

/// Returns the error of reads that a ring has not begun.
fn broken() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, "the ring does not work any more")
}
