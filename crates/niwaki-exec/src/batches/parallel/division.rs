//! Divides the blocks of a table among threads.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use niwaki_parse::error::SqlError;

/// The number of blocks that a thread takes at once. The number falls with the blocks that are
/// left, so that all threads end at the same time.
const BLOCKS_AT_ONCE: RangeInclusive<u32> = 16..=256;

/// Blocks of a table that threads divide among themselves.
#[derive(Debug)]
pub(crate) struct Division {
    threads: u32,
    next: AtomicU32,
    end: AtomicU32,
    shared: Arc<Shared>,
}

/// The state that all divided tables of the threads share.
#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    failed: Arc<AtomicBool>,
    error: Mutex<Option<SqlError>>,
}

impl Division {
    /// Makes a division without blocks.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads: u32::try_from(threads.max(1)).unwrap_or(u32::MAX),
            next: AtomicU32::new(0),
            end: AtomicU32::new(0),
            shared: Arc::default(),
        }
    }

    /// Makes the division of another table for the same threads. Stopping one of the two divisions
    /// stops both.
    pub(crate) fn another(&self) -> Self {
        let (next, end) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { threads: self.threads, next, end, shared: Arc::clone(&self.shared) }
    }

    /// Sets the number of the table's blocks. The caller does this before it starts threads.
    pub(crate) fn begin(&self, blocks: u32) {
        // Relaxed, here and below: threads begin after this store, and each block is taken once,
        // whatever the order.
        self.end.store(blocks, Ordering::Relaxed);
    }

    /// Takes the next blocks. Returns `None` if all blocks were taken, or while the division is
    /// stopped.
    pub(crate) fn take(&self) -> Option<Range<u32>> {
        if self.shared.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let end = self.end.load(Ordering::Relaxed);
        let mut begin = self.next.load(Ordering::Relaxed);
        loop {
            let left = end.saturating_sub(begin);
            if left == 0 {
                return None;
            }
            let part = left / self.threads.saturating_mul(8);
            let count = part.clamp(*BLOCKS_AT_ONCE.start(), *BLOCKS_AT_ONCE.end()).min(left);
            let (relaxed, after) = (Ordering::Relaxed, begin + count);
            if seeded_bug!("blocks_taken_twice") {
                self.next.store(after, relaxed);
                return Some(begin..after);
            }
            match self.next.compare_exchange_weak(begin, after, relaxed, relaxed) {
                Ok(_) => return Some(begin..after),
                Err(now) => begin = now,
            }
        }
    }

    /// Stops the division: threads take no more blocks.
    pub(crate) fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
    }

    /// Lets threads take blocks again.
    pub(crate) fn go_on(&self) {
        self.shared.stopped.store(false, Ordering::Relaxed);
    }

    /// Notes that a thread has failed, so that the other threads end as soon as they can. The error
    /// of the first failing thread counts.
    pub(super) fn fail(&self, error: SqlError) {
        let mut first = self.shared.error.lock();
        if first.is_none() {
            *first = Some(error);
        }
        drop(first);
        self.shared.failed.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Returns the flag that is true once some thread has failed.
    pub(super) fn failed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.failed)
    }

    /// Takes the error of the first thread that failed.
    pub(super) fn take_error(&self) -> Option<SqlError> {
        self.shared.error.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_taken_once() {
        for (threads, blocks) in [(1, 0), (1, 1), (2, 15), (3, 5_000), (8, 100_000)] {
            let division = Division::new(threads);
            division.begin(blocks);
            let mut taken: Vec<Range<u32>> = std::thread::scope(|scope| {
                let take = || std::iter::from_fn(|| division.take()).collect::<Vec<_>>();
                let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
                handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
            });
            taken.sort_by_key(|range| range.start);
            let mut end = 0;
            for range in taken {
                assert_eq!(range.start, end);
                end = range.end;
            }
            assert_eq!(end, blocks);
        }
    }

    #[test]
    fn one_that_is_stopped_goes_on_where_it_was() {
        let division = Division::new(2);
        division.begin(100);
        assert_eq!(division.take(), Some(0..16));
        division.stop();
        assert_eq!(division.take(), None);
        division.go_on();
        assert_eq!(division.take(), Some(16..32));
    }
}
