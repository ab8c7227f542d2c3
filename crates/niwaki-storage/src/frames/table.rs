//! The table from page names to frames: chained buckets, searched without a lock.
//!
//! A lookup without a lock walks a chain that may change meanwhile, so its result is a hint. The
//! lookup pins the frame and then compares the name again. A miss is searched once more under the
//! partition's lock. Changes hold that lock.

use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_env::sync::{Mutex, MutexGuard};

use super::frame::{Frame, NONE, Tag};

const PARTITIONS: usize = 64;
/// Longest chain walked without a lock; the locked lookup handles longer ones, because the walk may
/// have strayed into another chain.
const STEPS_MAX: u32 = 32;

// A mask of the hash selects a partition.
const _: () = assert!(PARTITIONS.is_power_of_two());

pub(crate) struct PageTable {
    buckets: Box<[AtomicU32]>,
    partitions: Box<[Mutex<()>]>,
}

impl PageTable {
    pub(crate) fn new(frames: usize) -> Self {
        let buckets = (frames * 2).next_power_of_two().max(PARTITIONS);
        debug_assert!(buckets.is_power_of_two(), "a mask of the hash selects a bucket");
        debug_assert!(frames < NONE as usize, "the end of a chain is no frame");
        Self {
            buckets: (0..buckets).map(|_| AtomicU32::new(NONE)).collect(),
            partitions: (0..PARTITIONS).map(|_| Mutex::new(())).collect(),
        }
    }

    #[inline]
    fn bucket(&self, tag: Tag) -> &AtomicU32 {
        &self.buckets[tag.hash() as usize & (self.buckets.len() - 1)]
    }

    /// Returns the frame that probably holds the page. The caller must pin the frame and compare
    /// its name.
    #[inline]
    pub(crate) fn guess(&self, frames: &[Frame], tag: Tag) -> Option<u32> {
        // Acquire: pairs with the release in `link`, so that the frame's `next` is seen.
        let mut at = self.bucket(tag).load(Ordering::Acquire);
        for _ in 0..STEPS_MAX {
            let frame = frames.get(at as usize)?;
            if frame.tag() == tag {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// Locks the partition of this name.
    pub(crate) fn lock(&self, tag: Tag) -> MutexGuard<'_, ()> {
        // Buckets of one partition share their low bits.
        self.partitions[tag.hash() as usize & (PARTITIONS - 1)].lock()
    }

    /// Returns the page's frame; the caller holds the partition's lock.
    pub(crate) fn find(&self, frames: &[Frame], tag: Tag) -> Option<u32> {
        let mut at = self.bucket(tag).load(Ordering::Acquire);
        // Ends: under the lock a chain has no cycle.
        while at != NONE {
            let frame = &frames[at as usize];
            if frame.tag() == tag {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// Adds a frame that carries the name; the caller holds the partition's lock.
    pub(crate) fn link(&self, frames: &[Frame], tag: Tag, index: u32) {
        let bucket = self.bucket(tag);
        let first = bucket.load(Ordering::Acquire);
        debug_assert!(first != index, "frame {index} is in its chain already");
        debug_assert!(index != NONE, "the end of a chain is no frame");
        frames[index as usize].next.store(first, Ordering::Release);
        bucket.store(index, Ordering::Release);
    }

    /// Removes a frame; the caller holds the partition's lock.
    pub(crate) fn unlink(&self, frames: &[Frame], tag: Tag, index: u32) {
        let mut link = self.bucket(tag);
        // Ends: as in `find`.
        loop {
            let at = link.load(Ordering::Acquire);
            if at == NONE {
                debug_assert!(false, "frame {index} is not in its chain");
                return;
            }
            let next = &frames[at as usize].next;
            if at == index {
                let rest = next.load(Ordering::Acquire);
                debug_assert!(rest != index, "frame {index} follows itself");
                link.store(rest, Ordering::Release);
                return;
            }
            link = next;
        }
    }
}
