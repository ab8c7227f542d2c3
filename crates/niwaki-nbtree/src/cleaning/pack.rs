//! Packing: leaves that many deletions left half empty become fewer, while all other operations go
//! on.
//!
//! ```text
//!  children          P1  P2  P3  P4       P1  P2  P3  P4       P1  P2  P3  P4       P1  P2  P3  P4
//!  parts of 32 full  10  14  14  14  ──►  10  14   1  27  ──►  10   .  15  27  ──►   .   .  25  27
//!                                         P3 gives its         P2 gives all         P1 gives all
//!                                         last entries
//! ```
//!
//! A merge (`merge.rs`) needs two neighbours that fit on one page together. Where each leaf has
//! lost half of its entries, no two leaves do. Where each has lost two thirds, pairs do, and stay
//! half empty. So packing goes over the leaves of one parent from right to left. Each leaf gives
//! its right sibling as much as that has room for: all its entries, and leaves the tree, or its
//! last entries. Entries only go right, as everywhere. Each pair is a merge or a shift (`shift.rs`)
//! of its own, with the same effects on other threads. So packing is nothing new to concurrent
//! reads, insertions or vacuum.
//!
//! Packing applies only where the leaves under a parent are a third too many. An eighth of a page
//! stays free for insertions. Vacuum packs after a pass that found leaves that sparse. Table
//! maintenance packs when enough entries went ([`Index::pack_some`]), but only leaves in memory.
//!
//! An index that grows only at its right end, such as one on times of change or job numbers, has no
//! insertions for sparse leaves. Packing fills these leaves completely, and an eighth too many is
//! enough. That happens even while the table is written, since nothing else makes such leaves
//! fewer. It happens often, by few leaves at a time, because the file is as large as its leaves
//! were at their most. The number of leaves would go up and down by an eighth if packing judged
//! parents of some hundred leaves, each time 32 entries a page went. Other indexes wait until
//! writers pause: the deleted entries may come again, and packed leaves would split.
//!
//! Packing leaves alone the leaves that merges and shifts leave alone: leaves of one key and the
//! rightmost leaf. Each parent's last child only takes entries over.

use niwaki_env::SIMULATED;
use niwaki_env::seeded_bug;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_storage::{BlockNumber, Xid};

use crate::cleaning::page_delete::may_go;
use crate::error::Result;
use crate::memory::density::{Density, Fullness, PARTS, PackedTo};
use crate::memory::recycle::Link;
use crate::memory::stats::count;
use crate::page::layout::{IndexPage, META_BLOCK, NO_BLOCK, USABLE_BYTES};
use crate::page::search::{Target, is_beyond};
use crate::page::separator::OwnedSeparator;
use crate::page::tuple::PivotTuple;
use crate::tree::descend::{Descent, RESTARTS_MAX};
use crate::tree::index::{Index, Path};
use crate::tree::split_point::Room;

/// An index grows at its right end if at least `GROWS_AT_END` of eight leaf splits are of its
/// rightmost leaf.
const GROWS_AT_END: u64 = 7;
/// The least room of a right sibling, in parts: with less room it is not filled up.
const GIVEN_PARTS_MIN: usize = 2;
const _: () = assert!(GROWS_AT_END <= 8);
const _: () = assert!(GIVEN_PARTS_MIN < PARTS);

/// The children of a page of level 1, left to right.
struct Siblings {
    leaves: Vec<Link>,
    /// The page's high key; the rightmost page has none.
    bound: Option<OwnedSeparator>,
}

impl Index {
    /// Packs some leaves that are in memory, if enough entries were deleted since the last look at
    /// all leaves. Takes the leaves of at most `parents` pages of level 1. `written`: the table is
    /// being written, so the function packs only an index that grows at its right end. Returns
    /// whether there are more leaves to look at.
    ///
    /// # Errors
    /// Storage's. Packed leaves stay packed.
    pub fn pack_some(&self, parents: u32, written: bool) -> Result<bool> {
        // Another caller that comes meanwhile begins nothing: few entries were deleted since.
        let under_way = self.packing.at.lock().take();
        let (mut at, density) = match under_way {
            Some(at) => at,
            None => match self.due(written)? {
                Some(density) => (PackedTo::Nothing, density),
                None => return Ok(false),
            },
        };
        for _ in 0..parents {
            match self.pack_next(&at, density, true, &mut 0)? {
                Some(next) => at = next,
                None => return Ok(false),
            }
        }
        *self.packing.at.lock() = Some((at, density));
        Ok(true)
    }

    /// Decides whether enough entries were deleted, and how to pack. If so, the counts begin anew.
    fn due(&self, written: bool) -> Result<Option<Density>> {
        let density = self.density();
        if written && density != Density::FULL {
            return Ok(None);
        }
        // Relaxed, here and below: as in `Packing::deleted`.
        let deleted = self.packing.deleted.load(Ordering::Relaxed);
        let pages = u64::from(self.blocks()?).saturating_sub(self.free_pages() as u64);
        let due = if SIMULATED { 0 } else { pages * density.due_per_page };
        Ok((deleted > 0 && deleted >= due).then(|| self.begin_packing()))
    }

    /// Chooses the density by the places of the leaf splits since the last look.
    fn density(&self) -> Density {
        let since = |counter: &AtomicU64, then: &AtomicU64| {
            counter.load(Ordering::Relaxed).wrapping_sub(then.load(Ordering::Relaxed))
        };
        let splits = since(&self.counters.leaf_splits, &self.packing.splits);
        let end_splits = since(&self.counters.right_end_splits, &self.packing.end_splits);
        let at_end = splits > 0 && end_splits * 8 >= splits * GROWS_AT_END;
        if at_end { Density::FULL } else { Density::WITH_ROOM }
    }

    /// Begins a look at all leaves: chooses how to pack them, and begins the counts anew.
    fn begin_packing(&self) -> Density {
        let (density, packing, counters) = (self.density(), &self.packing, &self.counters);
        packing.deleted.store(0, Ordering::Relaxed);
        let now = |counter: &AtomicU64, then: &AtomicU64| {
            then.store(counter.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        now(&counters.leaf_splits, &packing.splits);
        now(&counters.right_end_splits, &packing.end_splits);
        density
    }

    /// Packs all leaves, in memory or not. Calls `rest` between the pages of level 1, with no latch
    /// held (vacuum delay). Returns the number of leaves that left the tree.
    ///
    /// # Errors
    /// Storage's, and the error of `rest`.
    pub(crate) fn pack_all(&self, rest: &mut dyn FnMut() -> Result<()>) -> Result<u32> {
        let density = self.begin_packing();
        let (mut at, mut unlinked) = (PackedTo::Nothing, 0);
        // Ends: each round goes right.
        while let Some(next) = self.pack_next(&at, density, false, &mut unlinked)? {
            at = next;
            rest()?;
        }
        Ok(unlinked)
    }

    /// Packs the leaves under the page of level 1 behind `at`, and adds the leaves that left the
    /// tree to `unlinked`. `None`: it was the last page.
    fn pack_next(
        &self,
        at: &PackedTo,
        density: Density,
        resident: bool,
        unlinked: &mut u32,
    ) -> Result<Option<PackedTo>> {
        let Some(siblings) = self.siblings_behind(at)? else { return Ok(None) };
        let mut packed = false;
        // Leaves are judged only after the leaves on their right have been packed.
        for leaves in siblings.leaves.rchunks(density.together) {
            if self.are_sparse(leaves, density, resident)? {
                packed = true;
                for &leaf in leaves.iter().rev().skip(1) {
                    *unlinked += self.pack_leaf(leaf, density, resident)?;
                }
            }
        }
        count(&self.counters.packed_parents, packed.into());
        Ok(siblings.bound.map(PackedTo::Bound))
    }

    /// Returns the children of the first page of level 1 behind `at`; `None`: there is no such
    /// page.
    fn siblings_behind(&self, at: &PackedTo) -> Result<Option<Siblings>> {
        let target = match at {
            PackedTo::Nothing => Target::before(&[]),
            PackedTo::Bound(bound) => bound.target(),
        };
        for _ in 0..RESTARTS_MAX {
            let Some((_, level)) = self.root()? else { return Ok(None) };
            if level == 0 {
                return Ok(None);
            }
            let Descent::At(mut link) = self.descend(&target, 1, false, &mut Path::new())? else {
                return Ok(None);
            };
            let mut moves = 0;
            while let Some(page) = self.follow(link, 1)? {
                let bound = if page.is_rightmost() {
                    None
                } else {
                    Some(self.high_key_copy(&page, link.block)?)
                };
                let done = match (at, &bound) {
                    (PackedTo::Bound(at), Some(bound)) => bound == at,
                    _ => false,
                };
                if !done && !is_beyond(&page, &target) {
                    let child = |item| PivotTuple::decode(page.tuple(item)).map(|it| it.downlink);
                    let leaves = (page.first_entry()..=page.item_count()).filter_map(child);
                    // Under the page's latch, the pages to which it leads are in use.
                    let leaves = leaves.map(|block| self.link(block)).collect();
                    return Ok(Some(Siblings { leaves, bound }));
                }
                if page.is_rightmost() {
                    return Ok(None);
                }
                self.count_move(&mut moves, link.block)?;
                link = self.link(page.next());
            }
        }
        Err(self.dead_links(META_BLOCK))
    }

    /// Decides whether these leaves are worth packing. If only `resident` leaves are packed, leaves
    /// that are not in memory count as full.
    fn are_sparse(&self, leaves: &[Link], density: Density, resident: bool) -> Result<bool> {
        let mut fullness = Fullness::default();
        for &link in leaves {
            if resident && !self.is_resident(link.block) {
                fullness.add(PARTS);
            } else if let Some(leaf) = self.follow(link, 0)? {
                fullness.add(self.parts_full(&leaf));
            }
        }
        Ok(fullness.is_sparse(density))
    }

    fn is_resident(&self, block: BlockNumber) -> bool {
        self.pin_if_resident(block).is_some()
    }

    /// Lets a leaf give its right sibling all its entries, or as many as that has room for. Returns
    /// the number of pages that left the tree.
    fn pack_leaf(&self, link: Link, density: Density, resident: bool) -> Result<u32> {
        let packed_parts = density.packed_parts;
        if resident && !self.is_resident(link.block) {
            return Ok(0);
        }
        // An old link means that another thread changed the leaf a moment ago.
        let leaf = if seeded_bug!("packing_trusts_its_links") {
            Some(self.write(link.block, 0)?)
        } else {
            self.follow_to_write(link, 0)?
        };
        let Some(leaf) = leaf else { return Ok(0) };
        if leaf.entry_count() == 0 {
            return self.delete_page(leaf);
        }
        // Both siblings change if the leaf goes.
        let absent = |block| resident && block != NO_BLOCK && !self.is_resident(block);
        if !may_go(&leaf) || absent(leaf.next()) || absent(leaf.prev()) {
            return Ok(0);
        }
        let right = self.write(leaf.next(), 0)?;
        if self.takes_all(&right, &leaf, packed_parts) {
            let gave = self.give_all_right(leaf, right)?;
            return Ok(u32::from(gave && self.unlink(link.block)?));
        }
        let full = self.parts_full(&right);
        if right.is_rightmost() || right.is_half_dead() || full + GIVEN_PARTS_MIN > packed_parts {
            return Ok(0);
        }
        let kept_free = |all: usize| all / PARTS * (PARTS - packed_parts);
        let room = self.room_on(&right);
        let room = Room {
            bytes: room.bytes.saturating_sub(kept_free(USABLE_BYTES)),
            items: room.items.saturating_sub(kept_free(self.items_max())),
        };
        if let Some(shift) = self.plan_packing(&leaf, right, room)? {
            drop(self.shift(leaf, shift, Xid::INVALID)?);
        }
        Ok(0)
    }
}
