//! The pages that a pass has brought into the pool and is done with, whose frames it uses again.

use std::collections::VecDeque;

/// A ring is at most this part of the pool.
const POOL_SHARE: u32 = 8;

/// Blocks given back by a stream, oldest first, as far as it read them in itself.
pub(super) struct Ring {
    /// Pages, those that are named and not given back included; 0 for no ring.
    pages: u32,
    given: VecDeque<u32>,
}

impl Ring {
    /// `pages`: 0 for no ring. `pool`: frames of the pool.
    pub(super) fn new(pages: u32, pool: u32) -> Self {
        let most = (pool / POOL_SHARE).max(1);
        Self { pages: pages.min(most), given: VecDeque::new() }
    }

    /// By how many pages the stream may look ahead. As much again is for what it gave back: the last page is still in use,
    /// and of those before some wait for their log.
    pub(super) fn share(&self) -> u32 {
        if self.pages == 0 { u32::MAX } else { (self.pages / 2).max(1) }
    }

    /// A block is given back that was read in.
    pub(super) fn give(&mut self, block: u32) {
        if self.pages > 0 {
            self.given.push_back(block);
        }
    }

    /// The block whose frame is to be used for the next one that is read, if the ring is full with `named` blocks ahead.
    pub(super) fn oldest(&mut self, named: u32) -> Option<u32> {
        let full = self.given.len() + named as usize > self.pages as usize;
        // Not the last one: its reader may be at it.
        (full && self.given.len() > 1).then(|| self.given.pop_front()).flatten()
    }
}
