//! Room for entries of a full leaf: on its right sibling, or brought there from further right.
//!
//! ```text
//!  P: full  R1: full  R2: full  R3: has room        1. last entries of R2 go over to R3
//!                                                   2. of R1 to R2
//!                                                   3. of P to R1, where the new entry may belong by now
//! ```
//!
//! A right sibling a third of which is free takes entries over in any case. What is tighter pays where entries are
//! deleted as well as inserted ([`crate::credit`]): then it is enough if there is a little room for each leaf that takes part,
//! on the right sibling or on one of up to [`SIBLINGS_MAX`] further right; or on several of them together, where none has enough
//! and there is plenty of credit. Each step is a shift of its own (`shift.rs`), the furthest first, and leaves a tree that is
//! whole; the full leaf stays latched all the while, and of the others two at a time. Links to these were read under their
//! parent's latch, and are believed only if they did not grow old.
//!
//! Looking costs shared latches of so many leaves and of the parent. It is not remembered where it was in vain: the
//! leaf is split then, and is not full again soon.

use niwaki_storage::Page;
use niwaki_storage::buffer::PageWrite;

use crate::credit::SHIFT_PRICE;
use crate::error::Result;
use crate::index::{Index, Path};
use crate::page::{IndexPage, LINE_POINTER, USABLE_BYTES};
use crate::recycle::Link;
use crate::search::{downlink_item, is_beyond};
use crate::split_point::Room;
use crate::tuple::PivotTuple;

/// The right sibling must have this part of its room free. Half of that is freed on each of the two: so an
/// insertion pays for the moving of as many bytes as a split makes it pay for, about its own.
const ROOM_PART: usize = 3;
/// Where deletions pay there must be this part of a page's room for each leaf that takes part.
const TIGHT_PART: usize = 256;
/// Room for so many entries of the new one's size there must be in all: so many can be moved whole.
const TIGHT_ENTRIES: usize = 2;
/// Room that only several have together is soon used up again: it is gathered while there is credit for so many times as much.
pub(crate) const PLENTY: u64 = 128;
/// How many right siblings are looked at then.
const SIBLINGS_MAX: usize = 32;
/// Fewer bytes than this are not worth the record that frees them.
const FREED_MIN: usize = USABLE_BYTES / 16;

/// How a full leaf gets room.
pub(crate) struct Way {
    /// The right siblings, nearest first, that shift to their own before.
    pub(crate) passing: Vec<Link>,
    /// Whether deletions pay for it.
    pub(crate) tight: bool,
}

impl Way {
    /// What the shifts that it takes cost.
    fn price(&self) -> u64 {
        if self.tight { SHIFT_PRICE * (1 + self.passing.len() as u64) } else { 0 }
    }

    /// The least that is to be free on a leaf when it has shifted, in bytes, beside the new entry.
    pub(crate) fn freed_min(&self) -> usize {
        if self.tight { 0 } else { FREED_MIN }
    }
}

impl Index {
    /// How the full leaf `left` gets room for some of its entries on its right sibling; `None`: it does not. `tuple_bytes`: of
    /// the new entry.
    pub(crate) fn find_way(
        &self,
        left: &PageWrite<'_>,
        tuple_bytes: usize,
        path: &Path,
    ) -> Result<Option<Way>> {
        if left.is_rightmost() {
            return Ok(None);
        }
        let items_max = self.items_max();
        let room = self.room_on(&*self.read(left.next(), 0)?);
        if room.bytes >= USABLE_BYTES / ROOM_PART && room.items >= items_max / ROOM_PART {
            return Ok(Some(Way { passing: Vec::new(), tight: false }));
        }
        let entry = tuple_bytes + LINE_POINTER;
        // What is left on a page beside whole entries is of no use.
        let whole = |room: Room| room.bytes / entry * entry;
        let (mut bytes, mut pages) = (whole(room), 2);
        let mut way = Way { passing: Vec::new(), tight: true };
        if !self.credit.affords(way.price()) {
            return Ok(None);
        }
        let is_enough = |room: Room, bytes: usize, pages: usize| {
            bytes >= (pages * USABLE_BYTES / TIGHT_PART).max(TIGHT_ENTRIES * entry)
                && room.items >= (items_max / TIGHT_PART).max(1)
        };
        if is_enough(room, bytes, pages) {
            return Ok(Some(way));
        }
        // How many pass entries on to one that has not enough itself, but with theirs, and what each gets: the most.
        let mut together = None;
        for pair in self.right_siblings(left, path)?.windows(2) {
            way.passing.push(pair[0]);
            let Some(next) = self.follow(pair[1], 0)? else { break };
            if !self.credit.affords(way.price()) {
                break;
            }
            let room = self.room_on(&next);
            (bytes, pages) = (bytes + whole(room), pages + 1);
            if is_enough(room, whole(room), pages) {
                return Ok(Some(way));
            }
            let each = bytes / pages;
            let plenty = self.credit.affords(PLENTY * way.price());
            if plenty
                && is_enough(room, bytes, pages)
                && together.is_none_or(|(_, most)| most < each)
            {
                together = Some((way.passing.len(), each));
            }
        }
        Ok(together.map(|(passing, _)| {
            way.passing.truncate(passing);
            way
        }))
    }

    /// Room that a leaf has for entries of its left sibling; none if it is being deleted.
    pub(crate) fn room_on(&self, leaf: &Page) -> Room {
        if leaf.is_half_dead() {
            return Room { bytes: 0, items: 0 };
        }
        Room {
            bytes: leaf.room(),
            items: self.items_max().saturating_sub(leaf.entry_count().into()),
        }
    }

    /// Links to the right siblings of a leaf that lead up to the same parent, as far as the way down shows it,
    /// nearest first, [`SIBLINGS_MAX`] at most.
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
        Ok(siblings.filter_map(child).map(|block| self.link(block)).collect())
    }
}
