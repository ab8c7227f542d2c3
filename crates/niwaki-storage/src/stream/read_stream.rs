//! Streams of pages: blocks that are named ahead, read in runs, and given back in their order.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;

use niwaki_env::sync::plain_atomic::Ordering;

use super::access_strategy::AccessStrategy;
use super::distance::Distance;
use crate::buffer::pool::BufferPool;
use crate::buffer::read_state::{RUN_MAX, ReadRun};
use crate::ids::{BlockNumber, Fork, PageId, RelFileId};

/// Divisor of the pool's frames: a stream looks ahead by at most this part of the pool.
const SHARE: u32 = 16;
const _: () = assert!(SHARE > 1);

/// The limits of a reader's look-ahead; PostgreSQL's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// Reads under way besides the one that is consumed (`effective_io_concurrency`,
    /// `maintenance_io_concurrency`), 0 to 1000.
    pub concurrency: u32,
    /// Pages of a read (`io_combine_limit`), 1 to 32.
    pub combine: u32,
    /// Pages of the pool that a pass brings in before it reuses the frames of its first ones
    /// (`vacuum_buffer_usage_limit`); 0 for any number.
    pub ring: u32,
}

impl Default for ReadAhead {
    fn default() -> Self {
        Self { concurrency: 16, combine: 16, ring: 0 }
    }
}

impl ReadAhead {
    /// Reads each page alone, when it is needed.
    pub const NONE: Self = Self { concurrency: 0, combine: 1, ring: 0 };
}

/// The state of a page that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// No read was begun: the page is in the pool, or cannot be read ahead.
    NotBegun,
    /// The page waits for its neighbours.
    Pending,
    /// The page was read.
    Read,
    /// Other threads or the system read the page.
    UnderWay,
}

/// Looks ahead of a reader of one fork. The reader names blocks, and gets them back in the same
/// order when they are in the pool or being read in.
///
/// The reader pins the pages itself. Between calls the stream holds only the pins of reads under
/// way, so a reader may stop at any point for any time. A page that was evicted meanwhile is read
/// again.
///
/// A stream looks ahead by a sixteenth of the pool at most. Reads under way pin a quarter of the
/// pool at most, of all streams together. A stream with a ring looks ahead by half of the ring.
/// Blocks that are named and blocks that were given back share the ring's frames.
/// docs/internals/design.md, "Read streams".
pub struct ReadStream {
    file: RelFileId,
    fork: Fork,
    distance: Distance,
    ahead: VecDeque<(BlockNumber, Named)>,
    /// Number of blocks at the end of `ahead` that wait for neighbours; they are consecutive.
    pending: u32,
    /// Runs were left to others, and `submit_waiting` is still to be called for them.
    left: bool,
    ended: bool,
    /// Pages read since the last call of `take_reads`.
    reads: u64,
    strategy: AccessStrategy,
}

impl fmt::Debug for ReadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadStream")
            .field("distance", &self.distance)
            .field("ahead", &self.ahead.len())
            .finish_non_exhaustive()
    }
}

impl ReadStream {
    /// Makes a stream over one fork.
    pub fn new(pool: &BufferPool, file: RelFileId, fork: Fork, options: ReadAhead) -> Self {
        let strategy = AccessStrategy::new(options.ring, pool.capacity() as u32);
        let share = (pool.capacity() as u32 / SHARE).min(strategy.share());
        let combine = options.combine.min(RUN_MAX as u32);
        let distance = Distance::new(combine, options.concurrency, share);
        Self {
            strategy,
            file,
            fork,
            distance,
            ahead: VecDeque::new(),
            pending: 0,
            left: false,
            ended: false,
            reads: 0,
        }
    }

    fn page(&self, block: BlockNumber) -> PageId {
        PageId { file: self.file, fork: self.fork, block }
    }

    /// Returns the number of pages that the stream has read, or begun to, since the last call.
    /// Vacuum counts these pages for its delay.
    pub fn take_reads(&mut self) -> u64 {
        std::mem::take(&mut self.reads)
    }

    /// Returns the next block, in the pool or being read in as far as possible. Returns `None` when
    /// `name` has no block left. `name` returns the blocks in order, and is called ahead of their
    /// use.
    ///
    /// # Errors
    /// Errors of `name` alone: the error of a page that cannot be read is met by the thread that
    /// pins the page.
    #[inline]
    pub fn next<E>(
        &mut self,
        pool: &BufferPool,
        name: &mut dyn FnMut() -> Result<Option<u32>, E>,
    ) -> Result<Option<u32>, E> {
        if self.ahead.is_empty() && self.distance.pages() == 1 && !self.ended {
            // There is no need to look ahead as long as pages are in the pool.
            let Some(block) = name()? else {
                self.ended = true;
                return Ok(None);
            };
            if pool.is_resident(self.page(BlockNumber(block))) {
                return Ok(Some(block));
            }
            self.enter(pool, BlockNumber(block));
        }
        self.next_ahead(pool, name)
    }

    /// Checks that the blocks which wait for neighbours are the last ones of `ahead`.
    fn assert_state(&self) {
        debug_assert!(self.pending as usize <= self.ahead.len(), "{} blocks wait", self.pending);
        let is_pending = |named: Option<&(BlockNumber, Named)>| {
            named.is_some_and(|(_, named)| *named == Named::Pending)
        };
        debug_assert_eq!(is_pending(self.ahead.back()), self.pending > 0, "the last block");
        let before = self.ahead.len() - self.pending as usize;
        debug_assert!(
            before == 0 || !is_pending(self.ahead.get(before - 1)),
            "the block before the waiting ones waits too"
        );
    }

    fn next_ahead<E>(
        &mut self,
        pool: &BufferPool,
        name: &mut dyn FnMut() -> Result<Option<u32>, E>,
    ) -> Result<Option<u32>, E> {
        let named = self.look_ahead(pool, name);
        if std::mem::take(&mut self.left) {
            // For all runs at once, and even if `name` failed meanwhile.
            pool.submit_waiting();
        }
        named?;
        let Some((block, what)) = self.ahead.pop_front() else {
            debug_assert!(self.ended, "the stream stops before its last block");
            return Ok(None);
        };
        debug_assert!(what != Named::Pending, "block {block} is needed, and its read not begun");
        self.judge(pool, block, what);
        if matches!(what, Named::Read | Named::UnderWay) {
            self.strategy.give(block);
        }
        self.distance.give();
        Ok(Some(block.0))
    }

    /// Names blocks up to the distance.
    fn look_ahead<E>(
        &mut self,
        pool: &BufferPool,
        name: &mut dyn FnMut() -> Result<Option<u32>, E>,
    ) -> Result<(), E> {
        while !self.ended && self.ahead.len() < self.distance.pages() as usize {
            match name()? {
                Some(block) => self.enter(pool, BlockNumber(block)),
                None => self.ended = true,
            }
        }
        if self.pending as usize == self.ahead.len() || self.ended {
            // The first block is needed now, or no neighbour will come.
            self.read_pending(pool);
        }
        Ok(())
    }

    /// Adjusts the distance by the state of a page that is needed now.
    fn judge(&mut self, pool: &BufferPool, block: BlockNumber, what: Named) {
        let id = self.page(block);
        let is_loading = || pool.is_loading(id);
        match what {
            Named::NotBegun | Named::Pending => {}
            _ if !pool.is_resident(id) => self.distance.was_lost(),
            Named::UnderWay if is_loading() => {
                // The read may have ended without a thread that took its completion.
                pool.reap_completed();
                if is_loading() {
                    pool.reads.counters.waits.fetch_add(1, Ordering::Relaxed);
                    self.distance.was_late();
                } else {
                    self.distance.was_in_time();
                }
            }
            Named::UnderWay => self.distance.was_in_time(),
            Named::Read => {}
        }
    }

    /// Adds a block that was named.
    fn enter(&mut self, pool: &BufferPool, block: BlockNumber) {
        self.assert_state();
        debug_assert!(!self.ended, "block {block} was named behind the last one");
        self.distance.name();
        if pool.is_resident(self.page(block)) {
            self.read_pending(pool);
            self.distance.was_resident();
            self.ahead.push_back((block, Named::NotBegun));
            return;
        }
        let last = self.ahead.back().and_then(|(last, _)| last.0.checked_add(1));
        let follows = last == Some(block.0);
        if self.pending > 0 && !follows {
            self.read_pending(pool);
        }
        self.ahead.push_back((block, Named::Pending));
        self.pending += 1;
        if self.pending >= self.distance.combine() {
            self.read_pending(pool);
        }
    }

    /// Begins to read the blocks that wait for neighbours.
    fn read_pending(&mut self, pool: &BufferPool) {
        self.assert_state();
        let count = std::mem::take(&mut self.pending);
        let mut at = self.ahead.len() - count as usize;
        while at < self.ahead.len() {
            let block = self.ahead[at].0;
            let left = (self.ahead.len() - at) as u32;
            let named = self.ahead.len() as u32;
            let first = self.page(block);
            let reuse = &mut || self.strategy.oldest(named);
            let (done, run) = pool.begin_run(first, left, reuse);
            debug_assert!(done > 0, "no progress at block {block}");
            debug_assert!(done <= left, "{done} of {left} blocks from {block} on");
            let what = run.map_or(Named::NotBegun, |run| self.read(pool, run, at == 0));
            self.ahead.range_mut(at..at + done as usize).for_each(|(_, named)| *named = what);
            at += done as usize;
        }
        self.assert_state();
    }

    /// Reads a run, or leaves it to others. With `now`, reads at once, because the run's first page
    /// is needed.
    fn read(&mut self, pool: &BufferPool, run: ReadRun, now: bool) -> Named {
        let counters = &pool.reads.counters;
        counters.run(run.len(), self.distance.pages());
        self.reads += run.len() as u64;
        let Some(rest) = pool.fill_cached(run) else {
            counters.cached.fetch_add(1, Ordering::Relaxed);
            self.distance.was_cached();
            return Named::Read;
        };
        if now {
            counters.waits.fetch_add(1, Ordering::Relaxed);
            if pool.reads.has_takers() {
                self.distance.was_late();
            } else {
                // No other thread would read meanwhile.
                self.distance.was_cached();
            }
            pool.finish_run(&rest);
            return Named::Read;
        }
        match pool.leave_run(rest) {
            None => {
                self.left = true;
                Named::UnderWay
            }
            Some(rest) => {
                pool.finish_run(&rest);
                Named::Read
            }
        }
    }
}

/// Blocks of one fork, read ahead: an iterator over the same blocks.
#[derive(Debug)]
pub struct BlocksAhead<'p, I> {
    pool: &'p BufferPool,
    stream: ReadStream,
    blocks: I,
}

impl<'p, I: Iterator<Item = u32>> BlocksAhead<'p, I> {
    /// Makes an iterator over these blocks, in their order.
    pub fn new(
        pool: &'p BufferPool,
        file: RelFileId,
        fork: Fork,
        options: ReadAhead,
        blocks: I,
    ) -> Self {
        Self { pool, stream: ReadStream::new(pool, file, fork, options), blocks }
    }

    /// Returns the pages read, like [`ReadStream::take_reads`].
    pub fn take_reads(&mut self) -> u64 {
        self.stream.take_reads()
    }
}

impl<I: Iterator<Item = u32>> Iterator for BlocksAhead<'_, I> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let name = &mut || Ok::<_, Infallible>(self.blocks.next());
        match self.stream.next(self.pool, name) {
            Ok(block) => block,
            Err(never) => match never {},
        }
    }
}
