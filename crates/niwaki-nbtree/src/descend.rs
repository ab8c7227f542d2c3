//! From the root to the page where a key belongs.
//!
//! Lehman and Yao: one latch at a time on the way down. Between reading a downlink and latching the
//! page it names, that page may split; then the key lies beyond its high key, and the search moves
//! right. How inner pages are read is decided here alone ([`Index::inner_step`]).

use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::{PageRead, PageWrite};
use niwaki_storage::page::Page;

use crate::error::Result;
use crate::index::{Index, MOVES_MAX, Path};
use crate::page::{IndexPage, META_BLOCK};
use crate::search::{Target, downlink_item, is_beyond};
use crate::tuple::PivotTuple;

/// What reading one inner page tells.
enum InnerStep {
    /// The child to go to.
    Down(BlockNumber),
    /// The target lies in the right sibling or beyond.
    Right(BlockNumber),
    /// The page's split was never finished; only told to those who would finish it.
    Incomplete,
}

/// How a descent ended.
pub(crate) enum Descent {
    /// The page of the wanted level to look at; it may have split since.
    At(BlockNumber),
    /// An inner page with an unfinished split, and its level.
    Incomplete(BlockNumber, u16),
    /// The index has no pages.
    Empty,
}

impl Index {
    /// Goes down to `level`, noting the way in `path`. `finisher`: stop at unfinished splits.
    #[inline]
    pub(crate) fn descend(
        &self,
        target: &Target<'_>,
        level: u16,
        finisher: bool,
        path: &mut Path,
    ) -> Result<Descent> {
        let Some((mut block, mut here)) = self.root()? else { return Ok(Descent::Empty) };
        if here < level {
            // The tree has grown since the root was cached.
            match self.reload_root()? {
                Some((root, root_level)) if root_level >= level => {
                    (block, here) = (root, root_level);
                }
                _ => return Err(self.damaged(block, None, "B2", format!("no level {level}"))),
            }
        }
        let mut moves = 0;
        while here > level {
            match self.inner_step(block, here, target, finisher)? {
                InnerStep::Down(child) => {
                    path.note(here, block);
                    block = child;
                    here -= 1;
                }
                InnerStep::Right(right) => {
                    self.count_move(&mut moves, block)?;
                    block = right;
                }
                InnerStep::Incomplete => return Ok(Descent::Incomplete(block, here)),
            }
        }
        Ok(Descent::At(block))
    }

    /// Reads one inner page under its shared latch. The one place to change when readers shall do
    /// without the latch: everything it uses of the page is copied into the answer.
    #[inline]
    fn inner_step(
        &self,
        block: BlockNumber,
        level: u16,
        target: &Target<'_>,
        finisher: bool,
    ) -> Result<InnerStep> {
        let page = self.read(block, level)?;
        if finisher && page.is_incomplete() {
            return Ok(InnerStep::Incomplete);
        }
        if is_beyond(&page, target) {
            return Ok(InnerStep::Right(page.next()));
        }
        Ok(InnerStep::Down(self.child(&page, block, target)?))
    }

    /// The downlink of an inner page that leads to `target`.
    fn child(&self, page: &Page, block: BlockNumber, target: &Target<'_>) -> Result<BlockNumber> {
        let item = downlink_item(page, target);
        match item.and_then(|item| PivotTuple::decode(page.tuple(item))) {
            Some(pivot) if pivot.downlink != META_BLOCK => Ok(pivot.downlink),
            _ => Err(self.damaged(block, item, "B2", "no downlink")),
        }
    }

    /// The leaf where `target` belongs, latched for reading; `None` when the index has no pages.
    #[inline]
    pub(crate) fn read_leaf(&self, target: &Target<'_>) -> Result<Option<PageRead<'_>>> {
        let Descent::At(mut block) = self.descend(target, 0, false, &mut Path::new())? else {
            return Ok(None);
        };
        let mut moves = 0;
        loop {
            let page = self.read(block, 0)?;
            if !is_beyond(&page, target) {
                return Ok(Some(page));
            }
            self.count_move(&mut moves, block)?;
            block = page.next();
        }
    }

    /// Latches for writing the page of `level` where `target` belongs, starting at `block`.
    /// Unfinished splits are left alone.
    pub(crate) fn write_from(
        &self,
        mut block: BlockNumber,
        level: u16,
        target: &Target<'_>,
    ) -> Result<PageWrite<'_>> {
        let mut moves = 0;
        loop {
            let page = self.write(block, level)?;
            if !is_beyond(&page, target) {
                return Ok(page);
            }
            self.count_move(&mut moves, block)?;
            block = page.next();
        }
    }

    /// Counts a step to the right of `block`. A root has no right sibling, so if this is the cached
    /// root, it is not the root any more, or will soon be none: the next search asks the metapage.
    #[inline]
    pub(crate) fn count_move(&self, moves: &mut u32, block: BlockNumber) -> Result<()> {
        *moves += 1;
        if *moves > MOVES_MAX {
            return Err(self.damaged(block, None, "B2", "right links do not come to an end"));
        }
        self.forget_root(block);
        Ok(())
    }
}
