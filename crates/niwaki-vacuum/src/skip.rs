//! Which pages of a heap a vacuum reads, by what the visibility map says of them: the one place where that is decided.

use niwaki_table::PageVisibility;

/// The blocks to read of a heap, ascending, up to the end that it has when they are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlocksToRead {
    /// Pages of which the map says so much, or more, are left out; `None`: no page is.
    skips: Option<PageVisibility>,
    next: u32,
    skipped: u32,
}

impl BlocksToRead {
    /// For a vacuum that has nothing to do on pages of which the map says `skips`.
    pub(crate) fn new(skips: Option<PageVisibility>) -> Self {
        Self { skips, next: 0, skipped: 0 }
    }

    /// The next block to read of a heap with so many; `None` when the rest is skipped, or there is none.
    pub(crate) fn next(
        &mut self,
        blocks: u32,
        said: impl Fn(u32) -> PageVisibility,
    ) -> Option<u32> {
        while self.next < blocks {
            let block = self.next;
            self.next += 1;
            if self.skips.is_none_or(|enough| said(block) < enough) {
                return Some(block);
            }
            self.skipped += 1;
        }
        None
    }

    /// How many it left out so far.
    pub(crate) fn skipped(&self) -> u32 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PageVisibility::{AllFrozen, AllVisible, Unknown};

    const SAID: [PageVisibility; 3] = [Unknown, AllVisible, AllFrozen];

    /// All maps of up to six pages, for each kind of vacuum.
    #[test]
    fn reads_what_it_must_and_nothing_else() {
        for blocks in 0..=6u32 {
            for number in 0..3usize.pow(blocks) {
                let map: Vec<_> = (0..blocks).map(|at| SAID[number / 3usize.pow(at) % 3]).collect();
                let said = |block: u32| map[block as usize];
                for skips in [None, Some(AllVisible), Some(AllFrozen)] {
                    let mut pass = BlocksToRead::new(skips);
                    let read: Vec<u32> = std::iter::from_fn(|| pass.next(blocks, said)).collect();
                    let must = |block: &u32| match skips {
                        None => true,
                        Some(AllFrozen) => said(*block) != AllFrozen,
                        Some(_) => said(*block) == Unknown,
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
        let said = |block| if block == 1 { Unknown } else { AllVisible };
        assert_eq!(pass.next(1, said), None);
        assert_eq!(pass.next(2, said), Some(1));
        assert_eq!(pass.next(3, said), None);
        assert_eq!(pass.skipped(), 2);
    }
}
