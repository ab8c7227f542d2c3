//! Counts of locks, which spare a look at the lock table: a zero says that there is no lock.

use niwaki_env::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use niwaki_env::sync::thread;

use crate::error::{Error, Result};
use crate::locks::key::{RowKey, TableId};
use crate::options::limit;

/// Counters of strong locks. Tables share a counter when their numbers collide, which costs only
/// speed.
const STRONG_COUNTERS: usize = limit(1024, 8, 2);

const _: () = assert!(STRONG_COUNTERS.is_power_of_two(), "the high bits of a hash choose one");
const _: () = assert!(STRONG_COUNTERS > 1, "a hash cannot be shifted by all its bits");

/// Numbers of strong locks that are held or wanted, by table.
#[derive(Debug)]
pub(crate) struct StrongCounts(Box<[AtomicU32]>);

impl StrongCounts {
    pub(crate) fn new() -> Self {
        Self((0..STRONG_COUNTERS).map(|_| AtomicU32::new(0)).collect())
    }

    #[inline]
    pub(crate) fn of(&self, table: TableId) -> &AtomicU32 {
        // Fibonacci hashing: the high bits of the product are well mixed.
        let mixed = table.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.0[(mixed >> (u64::BITS - STRONG_COUNTERS.trailing_zeros())) as usize]
    }
}

/// Counters of row locks. Rows share a counter when their keys collide, which costs only speed.
const ROW_COUNTERS: usize = limit(4096, 8, 2);

const _: () = assert!(ROW_COUNTERS.is_power_of_two(), "the high bits of a hash choose one");
const _: () = assert!(ROW_COUNTERS > 1, "a hash cannot be shifted by all its bits");

/// The reserved part of all row locks, one in eight: only transactions that hold few locks may use
/// it.
const RESERVED: usize = 8;

const _: () = assert!(RESERVED > 1, "a transaction that holds many locks could take no more");

/// The greatest number of locks of a transaction that counts as holding few. Sets of row locks
/// count once. The reserved part has room for a hundred such sessions.
const FEW: usize = 1_000;

/// Numbers of row locks that are kept or wanted. The total counts the units that take memory. A
/// transaction's locks on one page, in one mode and at one level, count once. A lock that is waited
/// for or was carried along counts once, too.
#[derive(Debug)]
pub(crate) struct RowCounts {
    pub(crate) total: AtomicUsize,
    total_max: usize,
    /// The limit of `total` for a transaction that holds many locks: the rest is reserved for
    /// others.
    shared_max: usize,
    counters: Box<[AtomicU32]>,
}

impl RowCounts {
    pub(crate) fn new(total_max: usize) -> Self {
        Self {
            total: AtomicUsize::new(0),
            total_max,
            shared_max: total_max - total_max / RESERVED,
            counters: (0..ROW_COUNTERS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn counter(&self, row: &RowKey) -> &AtomicU32 {
        let place = u64::from(row.root.block.0) << 16 | u64::from(row.root.offset.0);
        let mixed = (place ^ row.file.0.rotate_left(48)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.counters[(mixed >> (u64::BITS - ROW_COUNTERS.trailing_zeros())) as usize]
    }

    /// Counts a lock before the transaction, which has `held` locks already, takes it.
    pub(crate) fn add(&self, row: &RowKey, held: usize) -> Result<()> {
        self.reserve(held)?;
        self.count(row);
        Ok(())
    }

    pub(crate) fn remove(&self, row: &RowKey) {
        self.discount(row);
        self.give_back();
    }

    /// Adds one to the total, for a transaction that has `held` locks already.
    pub(crate) fn reserve(&self, held: usize) -> Result<()> {
        let most = if held < FEW { self.total_max } else { self.shared_max };
        if self.total.fetch_add(1, Ordering::AcqRel) >= most {
            self.total.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TooManyRowLocks { most: self.total_max });
        }
        Ok(())
    }

    pub(crate) fn give_back(&self) {
        let before = self.total.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a row lock is given back that was not counted");
    }

    /// Counts a row whose lock the total includes.
    pub(crate) fn count(&self, row: &RowKey) {
        self.counter(row).fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn discount(&self, row: &RowKey) {
        let before = self.counter(row).fetch_sub(1, Ordering::Release);
        // A panic between a lock and its count leaves the lock uncounted.
        debug_assert!(before > 0 || thread::panicking(), "the lock on {row:?} was not counted");
    }

    /// Returns false when no session has a lock on the row.
    #[inline]
    pub(crate) fn maybe(&self, row: &RowKey) -> bool {
        // Acquire: pairs with `reserve` and `count`. Two loads: the first reads a cache line that
        // hardly ever changes.
        self.total.load(Ordering::Acquire) != 0 && self.counter(row).load(Ordering::Acquire) != 0
    }
}
