//! From the root to the page where a key belongs.
//!
//! Lehman and Yao: one page at a time on the way down. Between reading a downlink and reading the
//! page it names, that page may split; then the key lies beyond its high key, and the search moves
//! right. Inner pages are read without a latch ([`Index::inner_step`]).

use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::{PageRead, PageWrite};
use niwaki_storage::page::{PAGE_SIZE, Page};

use crate::error::Result;
use crate::index::{Index, MOVES_MAX, Path};
use crate::page::{IndexPage, LEVEL_AT, META_BLOCK, SPECIAL_SIZE, flag};
use crate::search::{Keys, Target, downlink_item, is_beyond, lies_beyond};
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
            return Err(self.damaged(block, None, "B2", format!("no level {level}")));
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

    /// Reads one inner page: at a glance if that succeeds, under its shared latch otherwise. Everything it
    /// uses of the page is copied into the answer.
    #[inline]
    fn inner_step(
        &self,
        block: BlockNumber,
        level: u16,
        target: &Target<'_>,
        finisher: bool,
    ) -> Result<InnerStep> {
        match self.glance_step(block, level, target, finisher) {
            Some(step) => Ok(step),
            None => self.latched_step(block, level, target, finisher),
        }
    }

    /// Without pin, latch or any write to shared memory. `None`: there is nothing to glance at, or the page
    /// is being changed, or it is not what was expected, which the latch will show. One try is
    /// enough: whoever changes a page drops its copy, so a second would meet the writer's latch too.
    #[inline]
    fn glance_step(
        &self,
        block: BlockNumber,
        level: u16,
        target: &Target<'_>,
        finisher: bool,
    ) -> Option<InnerStep> {
        let page = self.storage.pool().glance(self.page_id(block))?;
        let special = page.u64_at(PAGE_SIZE - SPECIAL_SIZE + LEVEL_AT);
        let flags = (special >> 16) as u16;
        if special as u16 != level || (finisher && flags & flag::INCOMPLETE_SPLIT != 0) {
            return None;
        }
        let step = if lies_beyond(&page, target) {
            InnerStep::Right(page.right())
        } else {
            let at = usize::from(page.item_id(downlink_item(&page, target)?).offset());
            let child = BlockNumber(page.u64_at(at) as u32);
            if child == META_BLOCK {
                return None;
            }
            InnerStep::Down(child)
        };
        page.holds().then_some(step)
    }

    fn latched_step(
        &self,
        block: BlockNumber,
        level: u16,
        target: &Target<'_>,
        finisher: bool,
    ) -> Result<InnerStep> {
        let page = self.read(block, level)?;
        page.publish();
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

    /// Counts a step to the right of `block`.
    #[inline]
    pub(crate) fn count_move(&self, moves: &mut u32, block: BlockNumber) -> Result<()> {
        *moves += 1;
        if *moves > MOVES_MAX {
            return Err(self.damaged(block, None, "B2", "right links do not come to an end"));
        }
        Ok(())
    }
}
