//! The ring of a pass over many pages: pages that the pass is done with, and whose frames it uses
//! again.

use std::collections::VecDeque;

use crate::ids::BlockNumber;

/// Divisor of the pool's frames: a ring has at most this part of the pool.
const POOL_SHARE: u32 = 8;
const _: () = assert!(POOL_SHARE > 1);

/// Blocks that a stream has given back, oldest first, as far as the stream itself read them in.
pub(super) struct AccessStrategy {
    /// Pages of the ring, including those that are named and not given back; 0 for no ring.
    pages: u32,
    given: VecDeque<BlockNumber>,
}

impl AccessStrategy {
    /// Makes a ring of `pages` pages (0 for no ring), in a pool of `pool` frames.
    pub(super) fn new(pages: u32, pool: u32) -> Self {
        let most = (pool / POOL_SHARE).max(1);
        Self { pages: pages.min(most), given: VecDeque::new() }
    }

    /// Returns the pages by which the stream may look ahead. The other half is for pages that were
    /// given back. The last of these is still in use, and some earlier ones wait for a flush of the
    /// log.
    pub(super) fn share(&self) -> u32 {
        if self.pages == 0 { u32::MAX } else { (self.pages / 2).max(1) }
    }

    /// Adds a block that was read in and is given back.
    pub(super) fn give(&mut self, block: BlockNumber) {
        if self.pages > 0 {
            self.given.push_back(block);
        }
    }

    /// Returns the block whose frame the next read is to use, if the ring is full with `named`
    /// blocks ahead.
    pub(super) fn oldest(&mut self, named: u32) -> Option<BlockNumber> {
        debug_assert!(
            self.pages > 0 || self.given.is_empty(),
            "there is no ring for {named} pages"
        );
        let full = self.given.len() + named as usize > self.pages as usize;
        // Not the last block: its reader may still use it.
        (full && self.given.len() > 1).then(|| self.given.pop_front()).flatten()
    }
}
