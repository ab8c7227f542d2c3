//! Packing: leaves that many deletions left half empty become fewer, while everybody works on.
//!
//! ```text
//!  children of a page    P1  P2  P3  P4          P1  P2  P3  P4          P1  P2  P3  P4          P1      P4
//!  parts of 32 full      10  14  14  14    ──►   10  14   1  27    ──►   10   .  15  27    ──►    .  25  27
//!                                                P3 gives last entries   P2 gives all            P1 gives all
//! ```
//!
//! A merge (`merge.rs`) needs two neighbours that fit on one page together. Where each leaf has lost half of its entries
//! no two do, and where each has lost two thirds, pairs do, and stay half empty. So packing goes over the leaves of one
//! parent from right to left, and each gives its right sibling what that has room for: all it has, and leaves the tree, or
//! its last entries. Entries only go right, as everywhere, and each pair is a merge or a shift (`shift.rs`) of its own, with all that
//! these mean to others: nothing here is new to whoever reads, inserts or vacuums meanwhile.
//!
//! Only leaves of which their parent has a third too many are packed; an eighth of a page stays free for insertions.
//! Vacuum does it after a pass that found leaves that sparse, and who looks after tables when enough entries went
//! ([`Index::pack_some`]); then of leaves in memory only.
//!
//! An index that grows at its right end only, of times of change or numbers of jobs, has no insertions for sparse leaves: they are filled
//! up wholly, and an eighth too many are enough. That is done while the table is written, too, since nothing else makes such leaves
//! fewer, and often, by few leaves at a time: the file is as large as its leaves were at their most, and judged by parents of some
//! hundred leaves, each time 32 entries a page went, they go up and down by an eighth. Other indexes wait until writers pause: what
//! went may come again, and packed leaves would split.
//! Left alone are what merges and shifts leave alone: leaves of one key, the
//! rightmost leaf, and each parent's last child, which only takes entries over.

use niwaki_env::SIMULATED;
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_storage::{BlockNumber, Xid};

use crate::descend::{Descent, RESTARTS_MAX};
use crate::error::Result;
use crate::index::{Index, Path};
use crate::merge::PARTS;
use crate::page::{IndexPage, META_BLOCK, NO_BLOCK, USABLE_BYTES};
use crate::page_delete::may_go;
use crate::recycle::Link;
use crate::search::{Target, is_beyond};
use crate::split::OwnedSeparator;
use crate::split_point::Room;
use crate::stats::count;
use crate::tuple::PivotTuple;

/// How leaves are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Density {
    /// A leaf is packed with so many parts full.
    pub(crate) packed_parts: usize,
    /// Leaves are worth packing if they have so many parts full on average, or fewer.
    sparse_mean_parts: usize,
    /// So many neighbours are judged together, and packed.
    together: usize,
    /// After so many deletions a page, leaves in memory are looked at.
    due_per_page: u64,
}

impl Density {
    /// With room for insertions: those that have lost a third.
    pub(crate) const WITH_ROOM: Self =
        Self { packed_parts: 28, sparse_mean_parts: 21, together: usize::MAX, due_per_page: 32 };
    /// Where nothing is inserted any more: those that have lost an eighth.
    const FULL: Self =
        Self { packed_parts: PARTS, sparse_mean_parts: 28, together: 32, due_per_page: 8 };
}

/// An index grows at its right end if at least so many of eight splits are of its rightmost leaf.
const GROWS_AT_END: u64 = 7;
/// A right sibling with less room than so many parts is not filled up.
const GIVEN_PARTS_MIN: usize = 2;

/// How full leaves are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fullness {
    leaves: usize,
    parts: usize,
}

impl Fullness {
    pub(crate) fn add(&mut self, parts: usize) {
        self.leaves += 1;
        self.parts += parts;
    }

    /// Whether so many leaves are a third too many, or an eighth, and packing makes them fewer.
    pub(crate) fn is_sparse(self, density: Density) -> bool {
        self.parts <= self.leaves * density.sparse_mean_parts
            && self.parts.div_ceil(density.packed_parts) < self.leaves
    }
}

/// What is to be packed of an index, as those see it who look after quiet tables.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// Entries deleted since leaves were looked at.
    deleted: AtomicU64,
    /// Splits of leaves until then, and those of them at the right end.
    splits: AtomicU64,
    end_splits: AtomicU64,
    /// Where the look that is under way goes on, and how it packs.
    at: Mutex<Option<(PackedTo, Density)>>,
}

impl Packing {
    /// So many entries were deleted.
    pub(crate) fn deleted(&self, entries: u64) {
        // Relaxed, here and below: it decides only when somebody looks.
        self.deleted.fetch_add(entries, Ordering::Relaxed);
    }
}

/// How far packing has come.
#[derive(Debug)]
enum PackedTo {
    /// It begins.
    Nothing,
    /// The page of level 1 with this high key, and all left of it.
    Bound(OwnedSeparator),
}

/// The children of a page of level 1, left to right.
struct Siblings {
    leaves: Vec<Link>,
    /// The page's high key; the rightmost one has none.
    bound: Option<OwnedSeparator>,
}

impl Index {
    /// Packs some leaves that are in memory, if enough entries were deleted since it looked at all of them: those of at most
    /// `parents` pages of level 1. `written`: somebody writes the table, so only an index that grows at its right end is packed.
    /// Whether there is more to look at.
    ///
    /// # Errors
    /// Storage's. What was packed stays packed.
    pub fn pack_some(&self, parents: u32, written: bool) -> Result<bool> {
        // Another one who comes meanwhile begins nothing: there is little to do yet.
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

    /// How to pack, if enough was deleted; then it is counted anew from now on.
    fn due(&self, written: bool) -> Result<Option<Density>> {
        let density = self.density();
        if written && density != Density::FULL {
            return Ok(None);
        }
        let deleted = self.packing.deleted.load(Ordering::Relaxed);
        let pages = u64::from(self.blocks()?).saturating_sub(self.free_pages() as u64);
        let due = if SIMULATED { 0 } else { pages * density.due_per_page };
        Ok((deleted > 0 && deleted >= due).then(|| self.begin_packing()))
    }

    /// How to pack, by where leaves were split since they were looked at.
    fn density(&self) -> Density {
        let since = |counter: &AtomicU64, then: &AtomicU64| {
            counter.load(Ordering::Relaxed).wrapping_sub(then.load(Ordering::Relaxed))
        };
        let splits = since(&self.counters.leaf_splits, &self.packing.splits);
        let end_splits = since(&self.counters.right_end_splits, &self.packing.end_splits);
        let at_end = splits > 0 && end_splits * 8 >= splits * GROWS_AT_END;
        if at_end { Density::FULL } else { Density::WITH_ROOM }
    }

    /// All leaves are about to be looked at: how to pack them. From now on it is counted anew.
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

    /// Packs all leaves, in memory or not. `rest` is called between the pages of level 1, with no latch held. Returns how many
    /// leaves it made fewer.
    ///
    /// # Errors
    /// Storage's, and that of `rest`.
    pub(crate) fn pack_all(&self, rest: &mut dyn FnMut() -> Result<()>) -> Result<u32> {
        let density = self.begin_packing();
        let (mut at, mut unlinked) = (PackedTo::Nothing, 0);
        // Ends: each turn goes right.
        while let Some(next) = self.pack_next(&at, density, false, &mut unlinked)? {
            at = next;
            rest()?;
        }
        Ok(unlinked)
    }

    /// Packs the leaves under the page of level 1 behind `at`, and counts those that went. `None`: it was the last one.
    fn pack_next(
        &self,
        at: &PackedTo,
        density: Density,
        resident: bool,
        unlinked: &mut u32,
    ) -> Result<Option<PackedTo>> {
        let Some(siblings) = self.siblings_behind(at)? else { return Ok(None) };
        let mut packed = false;
        // Once some have given what they had, those left of them are judged.
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

    /// The first page of level 1 behind `at` that is not being deleted; `None`: there is none.
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
                let bound = match page.is_rightmost() {
                    true => None,
                    false => Some(self.high_key_copy(&page, link.block)?),
                };
                let done = match (at, &bound) {
                    (PackedTo::Bound(at), Some(bound)) => bound == at,
                    _ => false,
                };
                if !done && !is_beyond(&page, &target) {
                    let child = |item| PivotTuple::decode(page.tuple(item)).map(|it| it.downlink);
                    let leaves = (page.first_entry()..=page.item_count()).filter_map(child);
                    // Under the page's latch: what it leads to is in use.
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
        Err(self.no_way(META_BLOCK))
    }

    /// Whether these leaves are worth packing. Those that are not in memory count as full, if only `resident` ones are
    /// packed.
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
        self.storage.pool().pin_if_resident(self.page_id(block)).is_some()
    }

    /// A leaf gives its right sibling all it has, or what that has room for. Returns how many pages left the tree.
    fn pack_leaf(&self, link: Link, density: Density, resident: bool) -> Result<u32> {
        let packed_parts = density.packed_parts;
        if resident && !self.is_resident(link.block) {
            return Ok(0);
        }
        // Old links are of leaves that others changed a moment ago.
        let leaf = match seeded_bug!("packing_trusts_its_links") {
            true => Some(self.write(link.block, 0)?),
            false => self.follow_to_write(link, 0)?,
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
