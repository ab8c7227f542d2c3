//! Choice of the heap pages that a vacuum reads, by the visibility map. No other code decides this.

use niwaki_table::PageVisibility;

/// The blocks of a heap to read, ascending, up to the end of the heap at the time of each call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlocksToRead {
    /// Pages whose visibility is at least this are left out; `None` leaves no page out.
    skips: Option<PageVisibility>,
    next: u32,
    skipped: u32,
}

impl BlocksToRead {
    /// Chooses for a vacuum that has nothing to do on pages with visibility `skips`.
    pub(crate) fn new(skips: Option<PageVisibility>) -> Self {
        Self { skips, next: 0, skipped: 0 }
    }

    /// Returns the next block to read of a heap with `blocks` blocks. Returns `None` when the rest
    /// is skipped, or the heap ends.
    pub(crate) fn next(
        &mut self,
        blocks: u32,
        visibility: impl Fn(u32) -> PageVisibility,
    ) -> Option<u32> {
        while self.next < blocks {
            let block = self.next;
            self.next += 1;
            if self.skips.is_none_or(|enough| visibility(block) < enough) {
                return Some(block);
            }
            self.skipped += 1;
            debug_assert!(self.skipped <= self.next, "a block was left out twice");
        }
        None
    }

    /// Returns the number of blocks left out so far.
    pub(crate) fn skipped(&self) -> u32 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PageVisibility::{AllFrozen, AllVisible, Unknown};

    const SAID: [PageVisibility; 3] = [Unknown, AllVisible, AllFrozen];

    /// Tries all maps of up to six pages, for each kind of vacuum.
    #[test]
    fn reads_what_it_must_and_nothing_else() {
        for blocks in 0..=6u32 {
            for number in 0..3usize.pow(blocks) {
                let map: Vec<_> = (0..blocks).map(|at| SAID[number / 3usize.pow(at) % 3]).collect();
                let visibility = |block: u32| map[block as usize];
                for skips in [None, Some(AllVisible), Some(AllFrozen)] {
                    let mut pass = BlocksToRead::new(skips);
                    let read: Vec<u32> =
                        std::iter::from_fn(|| pass.next(blocks, visibility)).collect();
                    let must = |block: &u32| match skips {
                        None => true,
                        Some(AllFrozen) => visibility(*block) != AllFrozen,
                        Some(_) => visibility(*block) == Unknown,
                    };
                    assert_eq!(read, (0..blocks).filter(must).collect::<Vec<_>>(), "{map:?}");
                    assert_eq!(pass.skipped() + read.len() as u32, blocks);
                }
            }
        }
    }

    #[test]
    fn follows_a_heap_that_grows() {
        let mut pass = BlocksToRead::new(Some(AllVisible));
        let visibility = |block| if block == 1 { Unknown } else { AllVisible };
        assert_eq!(pass.next(1, visibility), None);
        assert_eq!(pass.next(2, visibility), Some(1));
        assert_eq!(pass.next(3, visibility), None);
        assert_eq!(pass.skipped(), 2);
    }
}
