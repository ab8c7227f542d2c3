//! Reads that are done when somebody asks for their end: a ring for files that no system reads by itself.

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

/// Most reads at a time: few, so that simulations meet a full ring.
const READS_MAX: usize = 8;

/// Simulated reads. They end in an order that has nothing to do with that in which they began; on a device that takes
/// its time, in the order in which it gets them done.
#[derive(Debug)]
pub struct DeferredReads {
    order: SeededRng,
    device: Option<Device>,
    faults: Faults,
    reads: Mutex<Reads>,
}

/// What fails: asked at each call of the ring's ([`Operation::RingSubmit`], [`Operation::RingWait`]), and at the end of each
/// read ([`Operation::RingEnd`]).
type Fails = Box<dyn Fn(Operation) -> io::Result<()> + Send + Sync>;

/// By default nothing.
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

/// Takes `latency` for a read, of which it does `width` at a time.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) clock: Arc<ManualClock>,
    pub(super) latency: Duration,
    pub(super) width: usize,
    /// The time of what is read now has passed already.
    pub(super) timed: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Reads {
    added: Vec<Read>,
    under_way: Vec<Read>,
    /// It begins nothing any more.
    broken: bool,
}

#[derive(Debug)]
struct Read {
    token: usize,
    file: Arc<dyn VfsFile>,
    targets: Vec<(*mut u8, usize)>,
    offset: u64,
    /// When it ends.
    end: Duration,
}

// SAFETY: the pointers are followed by one thread, the one that has taken the read out of the list.
unsafe impl Send for Read {}

impl DeferredReads {
    /// Without a device: a read ends when it is asked for.
    pub(super) fn new() -> Self {
        Self {
            order: SeededRng::new(1),
            device: None,
            faults: Faults(None),
            reads: Mutex::default(),
        }
    }

    /// As [`DeferredReads::new`]; `fails` says what goes wrong. A call that fails begins nothing, and breaks the ring; if
    /// nothing can be waited for then either, it is lost.
    pub(super) fn failing(
        fails: impl Fn(Operation) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { faults: Faults(Some(Box::new(fails))), ..Self::new() }
    }

    pub(super) fn on(device: Device) -> Self {
        Self { device: Some(device), ..Self::new() }
    }

    /// Begins what was added, unless the call fails.
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

    /// Gives back a read that is not begun any more.
    fn give_back(&self) -> Option<Read> {
        let mut reads = self.reads.lock();
        if reads.broken { reads.added.pop() } else { None }
    }

    /// Lets the time come when something ends.
    fn wait(&self) -> Result<(), RingError> {
        if self.reads.lock().broken {
            return self.faults.meet(Operation::RingWait).map_err(RingError::Lost);
        }
        self.begin(Operation::RingWait)
    }

    /// Takes a read out that has ended by now; with `wait` the time comes.
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
    /// Who reads waits for it.
    pub(super) fn wait(&self) {
        // Relaxed: a device is used by one thread.
        if !self.timed.load(Ordering::Relaxed) {
            self.clock.advance(self.latency);
        }
    }

    fn set_timed(&self, timed: bool) {
        self.timed.store(timed, Ordering::Relaxed);
    }

    /// When a read ends that begins now, beside others.
    fn end_of(&self, under_way: &[Read]) -> Duration {
        let mut ends: Vec<_> = under_way.iter().map(|read| read.end).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let now = self.clock.monotonic();
        // The place becomes free with the read that has so many later ones beside it.
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
                // SAFETY: who added the read promised that the memory is there and nobody else's.
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
        // What was read by then lies in the buffers, whatever is said of it.
        let result = self.faults.meet(Operation::RingEnd).and(result);
        Ok(Some(ReadDone { token: read.token, result }))
    }
}

/// What is said of reads that a ring has not begun.
fn broken() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, "the ring does not work any more")
}
