//! Finds room for entries of a full leaf: on its right sibling, or brought there from further
//! right.
//!
//! ```text
//!  P: full  R1: full  R2: full  R3: has room      1. last entries of R2 go over to R3
//!                                                 2. last entries of R1 go over to R2
//!                                                 3. last entries of P go over to R1, where the
//!                                                    new entry may belong by now
//! ```
//!
//! A right sibling with a third of its room free takes entries over in any case. Less room is
//! enough where entries are deleted as well as inserted ([`crate::memory::credit`]). Then a little
//! room for each leaf that takes part is enough: on the right sibling, or on one of up to
//! [`SIBLINGS_MAX`] further right. Where no single leaf has enough and there is plenty of credit,
//! several leaves may have it together.
//!
//! Each step is a shift of its own (`shift.rs`), the furthest first, and leaves a tree that is
//! whole. The full leaf stays latched all the while; of the other leaves two are latched at a time.
//! Links to these were read under their parent's latch, and are trusted only if they did not grow
//! old.
//!
//! The search costs shared latches of these leaves and of the parent. A failed search is not
//! remembered: the leaf is split then, and is not full again soon.

use niwaki_storage::Page;
use niwaki_storage::buffer::PageWrite;

use crate::error::Result;
use crate::memory::credit::SHIFT_PRICE;
use crate::memory::recycle::Link;
use crate::page::layout::{IndexPage, LINE_POINTER, USABLE_BYTES};
use crate::page::search::{downlink_item, is_beyond};
use crate::page::tuple::PivotTuple;
use crate::tree::index::{Index, Path};
use crate::tree::split_point::Room;

/// The right sibling must have one part in `ROOM_PART` of its room free. Each of the two leaves
/// then gets half of that. So an insertion pays for moving about its own bytes, as much as a split
/// makes it pay for.
const ROOM_PART: usize = 3;
/// The fraction of a page's room, one part in `TIGHT_PART`, that each leaf taking part must have
/// where deletions pay.
const TIGHT_PART: usize = 256;
/// The least room in all, in entries of the new one's size: room for this many entries can be moved
/// whole.
const TIGHT_ENTRIES: usize = 2;
/// The factor on a route's price that the credit must cover before room is gathered from several
/// leaves: such room is soon used up again.
pub(crate) const PLENTY: u64 = 128;
/// The most right siblings that the search looks at where deletions pay.
const SIBLINGS_MAX: usize = 32;
/// The least bytes that are worth the record that frees them.
const FREED_MIN: usize = USABLE_BYTES / 16;
// A sibling with that much of its room free has room for what a shift must free.
const _: () = assert!(FREED_MIN < USABLE_BYTES / ROOM_PART);
const _: () = assert!(ROOM_PART < TIGHT_PART);

/// The route of shifts by which a full leaf gets room.
pub(crate) struct ShiftRoute {
    /// The right siblings, nearest first, that first shift entries to their own right siblings.
    pub(crate) passing: Vec<Link>,
    /// True if deletions pay for the route.
    pub(crate) tight: bool,
}

impl ShiftRoute {
    /// Returns the price of the shifts that the route takes, in credit.
    fn price(&self) -> u64 {
        debug_assert!(self.tight || self.passing.is_empty(), "room in plenty is never far");
        debug_assert!(self.passing.len() < SIBLINGS_MAX, "the last leaf passes nothing on");
        if self.tight { SHIFT_PRICE * (1 + self.passing.len() as u64) } else { 0 }
    }

    /// Returns the least bytes that must be free on a leaf after its shift, beside the new entry.
    pub(crate) fn freed_min(&self) -> usize {
        if self.tight { 0 } else { FREED_MIN }
    }
}

impl Index {
    /// Finds a route by which the full leaf `left` gets room for some of its entries on its right
    /// sibling. `None`: there is no route. `tuple_bytes` are the bytes of the new entry.
    pub(crate) fn find_route(
        &self,
        left: &PageWrite<'_>,
        tuple_bytes: usize,
        path: &Path,
    ) -> Result<Option<ShiftRoute>> {
        if left.is_rightmost() {
            return Ok(None);
        }
        let items_max = self.items_max();
        let room = self.room_on(&*self.read(left.next(), 0)?);
        if room.bytes >= USABLE_BYTES / ROOM_PART && room.items >= items_max / ROOM_PART {
            return Ok(Some(ShiftRoute { passing: Vec::new(), tight: false }));
        }
        let entry = tuple_bytes + LINE_POINTER;
        // Room on a page that remains beside whole entries is of no use.
        let whole = |room: Room| room.bytes / entry * entry;
        let (mut bytes, mut pages) = (whole(room), 2);
        let mut route = ShiftRoute { passing: Vec::new(), tight: true };
        if !self.credit.affords(route.price()) {
            return Ok(None);
        }
        let is_enough = |room: Room, bytes: usize, pages: usize| {
            bytes >= (pages * USABLE_BYTES / TIGHT_PART).max(TIGHT_ENTRIES * entry)
                && room.items >= (items_max / TIGHT_PART).max(1)
        };
        if is_enough(room, bytes, pages) {
            return Ok(Some(route));
        }
        // The number of leaves that pass entries on to a leaf that has enough room only together
        // with theirs, and the room that each gets: the search keeps the greatest.
        let mut together = None;
        for pair in self.right_siblings(left, path)?.windows(2) {
            route.passing.push(pair[0]);
            let Some(next) = self.follow(pair[1], 0)? else { break };
            if !self.credit.affords(route.price()) {
                break;
            }
            let room = self.room_on(&next);
            (bytes, pages) = (bytes + whole(room), pages + 1);
            if is_enough(room, whole(room), pages) {
                return Ok(Some(route));
            }
            let each = bytes / pages;
            let plenty = self.credit.affords(PLENTY * route.price());
            if plenty
                && is_enough(room, bytes, pages)
                && together.is_none_or(|(_, most)| most < each)
            {
                together = Some((route.passing.len(), each));
            }
        }
        Ok(together.map(|(passing, _)| {
            route.passing.truncate(passing);
            route
        }))
    }

    /// Returns the room that a leaf has for entries of its left sibling; none if the leaf is
    /// half-dead.
    pub(crate) fn room_on(&self, leaf: &Page) -> Room {
        if leaf.is_half_dead() {
            return Room { bytes: 0, items: 0 };
        }
        Room {
            bytes: leaf.room(),
            items: self.items_max().saturating_sub(leaf.entry_count().into()),
        }
    }

    /// Returns links to the right siblings of a leaf that have the same parent, as far as the path
    /// of the descent shows it. The nearest comes first; there are [`SIBLINGS_MAX`] at most.
    fn right_siblings(&self, left: &PageWrite<'_>, path: &Path) -> Result<Vec<Link>> {
        let bound = self.high_key_copy(left, left.id().block)?;
        let parent = match path.at(1) {
            Some(link) => self.follow(link, 1)?,
            None => None,
        };
        let Some(parent) = parent.filter(|parent| !is_beyond(parent, &bound.target())) else {
            return Ok(Vec::new());
        };
        let child = |item| PivotTuple::decode(parent.tuple(item)).map(|pivot| pivot.downlink);
        let Some(item) = downlink_item(&*parent, &bound.target()) else { return Ok(Vec::new()) };
        if child(item) != Some(left.id().block) || child(item + 1) != Some(left.next()) {
            return Ok(Vec::new());
        }
        let siblings = (item + 1..=parent.item_count()).take(SIBLINGS_MAX);
        let links: Vec<Link> = siblings.filter_map(child).map(|block| self.link(block)).collect();
        if links.iter().any(|link| link.block == left.id().block) {
            // The leaf is latched all the while: this thread would wait for itself.
            let detail = format!("two downlinks to {}", left.id().block);
            return Err(self.damaged(parent.id().block, None, "B2", detail));
        }
        debug_assert!(
            links.first().is_some_and(|link| link.block == left.next()),
            "the nearest sibling comes first"
        );
        Ok(links)
    }
}
