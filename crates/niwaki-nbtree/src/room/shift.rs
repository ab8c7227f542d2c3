//! Shifts: the last entries of a full leaf go over to its right sibling, and the leaf is not split.
//!
//! ```text
//!  parent     | .. a -> P | m -> R | t -> S .. |        | .. a -> P | h -> R | t -> S .. |
//!  leaves         | a .. h .. m | n ...    |                | a .. h ...  | i .. m n ...   |
//!                   P: full       R: has room                 P             R
//! ```
//!
//! Keys in random order leave pages ln 2 = 69 % full on average, if full pages are divided in half.
//! No other point of division betters that. Using existing room before making more does: this is
//! the B*-tree's redistribution. Here it goes to the right sibling only, since everything in this
//! tree that follows a link relies on entries going right.
//!
//! A shift is one change, and one log record, of both leaves and of the pivot between them in the
//! parent. To a reader that comes by an older downlink the leaf looks like one that was split: the
//! wanted entries are on the leaf, or to its right. But unlike a split, a shift brings entries to a
//! page that existed before, and may have been read. That concerns backward scans and passes in
//! physical order ([`Recycling::entries_shift`]). A forward scan begins behind the place that it
//! has reached (`position.rs`).
//!
//! Where deletions pay for it, a right sibling that is full itself first gets room from its own
//! right sibling in the same way (`siblings.rs`).
//!
//! A split handles these cases: leaves that are packed as they are for a reason
//! (`split_point.rs`), a right sibling under another parent, and a pivot that does not fit the
//! parent.
//!
//! Source: docs/internals/design.md, "A full leaf"; Knuth 1973, 6.2.4 (B*-trees); Küspert 1983 for
//! the gain.
//!
//! [`Recycling::entries_shift`]: crate::memory::recycle::Recycling::entries_shift

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{Page, Xid};

use crate::error::Result;
use crate::memory::credit::SHIFT_PRICE;
use crate::memory::stats::count;
use crate::page::layout::{IndexPage, LINE_POINTER, NO_BLOCK};
use crate::page::search::downlink_item;
use crate::page::separator::separator;
use crate::page::tuple::{LeafTuple, PivotTuple, push_pivot};
use crate::page::{change, wal};
use crate::room::siblings::ShiftRoute;
use crate::tree::index::{Index, Path};
use crate::tree::locate::Gap;
use crate::tree::split::split_item;
use crate::tree::split_point::{self, Room, SplitItem};

/// A shift that can be made: all pages it changes are latched, and their new contents are known.
pub(crate) struct Shift<'a> {
    right: PageWrite<'a>,
    parent: PageWrite<'a>,
    /// The record's data for the leaf, its right sibling and the parent.
    data: [Vec<u8>; 3],
    /// The number of entries of the leaf that stay.
    kept: u16,
    /// The offset of the parent's pivot between the two leaves.
    pivot: u16,
    /// True if the new entry belongs to the right sibling after the shift.
    new_goes_right: bool,
    /// True if deletions pay for the shift.
    tight: bool,
}

/// An entry that does not fit the leaf where it belongs.
#[derive(Clone, Copy)]
pub(crate) struct NewTuple<'a> {
    pub(crate) gap: Gap,
    pub(crate) tuple: &'a [u8],
}

impl Index {
    /// Plans a shift that makes room on the full leaf `left` for a new entry. First makes the
    /// shifts among the leaves further right that the plan needs. `None`: the leaf must be split.
    ///
    /// # Errors
    /// Storage's.
    pub(crate) fn prepare_shift(
        &self,
        left: &PageWrite<'_>,
        new: NewTuple<'_>,
        path: &Path,
        xid: Xid,
    ) -> Result<Option<Shift<'_>>> {
        let Some(route) = self.find_route(left, new.tuple.len(), path)? else { return Ok(None) };
        let items = with_new(left, Some(new));
        if !self.may_shift(left, &items) {
            return Ok(None);
        }
        for (pages, &link) in (2..2 + route.passing.len()).zip(&route.passing).rev() {
            let passing = if seeded_bug!("way_trusts_its_links") {
                Some(self.write(link.block, 0)?)
            } else {
                self.follow_to_write(link, 0)?
            };
            let Some(passing) = passing else { return Ok(None) };
            if passing.next() == left.id().block {
                // The leaf is latched all the while: this thread would wait for itself.
                let detail = format!("right link back to {}", left.id().block);
                return Err(self.damaged(passing.id().block, None, "B2", detail));
            }
            let items = with_new(&passing, None);
            if !self.may_shift(&passing, &items) {
                return Ok(None);
            }
            let shift = self.plan_shift(&passing, &items, pages, &route, path)?;
            let Some(shift) = shift else { return Ok(None) };
            drop(self.shift(passing, shift, xid)?);
        }
        self.plan_shift(left, &items, 1, &route, path)
    }

    /// Decides whether a leaf with these items may be parted.
    fn may_shift(&self, leaf: &Page, items: &Items<'_>) -> bool {
        split_point::may_shift(&self.split_page(leaf, &items.list, items.new_at))
    }

    /// Plans the shift of the last entries of `left` to its right sibling, whose room it then
    /// shares with `pages` leaves on the left. `None`: the shift is not possible, or not worth its
    /// cost.
    fn plan_shift(
        &self,
        left: &PageWrite<'_>,
        items: &Items<'_>,
        pages: usize,
        route: &ShiftRoute,
        path: &Path,
    ) -> Result<Option<Shift<'_>>> {
        debug_assert!(pages > 0, "the leaf itself shares the room");
        if left.is_rightmost() {
            return Ok(None);
        }
        let right = self.write(left.next(), 0)?;
        if right.is_half_dead() {
            return Ok(None);
        }
        let room = self.room_on(&right);
        let page = self.split_page(left, &items.list, items.new_at);
        let chosen = split_point::choose_shift(&page, room, pages, route.freed_min());
        let Some(first_right) = chosen else { return Ok(None) };
        self.plan_at(left, right, (items, first_right), route.tight, path)
    }

    /// Plans the shift of the last entries of `left` that fills `room` on `right`, its right
    /// sibling. `None`: that is not possible.
    pub(crate) fn plan_packing<'a>(
        &'a self,
        left: &PageWrite<'_>,
        right: PageWrite<'a>,
        room: Room,
    ) -> Result<Option<Shift<'a>>> {
        let items = with_new(left, None);
        let page = self.split_page(left, &items.list, items.new_at);
        let Some(first_right) = split_point::choose_packed(&page, room) else { return Ok(None) };
        self.plan_at(left, right, (&items, first_right), false, &Path::new())
    }

    /// Plans the shift of the items of `left` to its right sibling, from a given item on.
    fn plan_at<'a>(
        &'a self,
        left: &PageWrite<'_>,
        right: PageWrite<'a>,
        (items, first_right): (&Items<'_>, usize),
        tight: bool,
        path: &Path,
    ) -> Result<Option<Shift<'a>>> {
        let new_goes_right = items.new_at >= first_right;
        debug_assert!(first_right > 0, "an item stays on the left");
        debug_assert!(first_right < items.list.len(), "an item goes over");
        let kept = (first_right - usize::from(items.new_is_item && !new_goes_right)) as u16;
        debug_assert!(kept <= left.entry_count(), "the new entry is not on the leaf yet");
        let (last, first) = (items.list[first_right - 1], items.list[first_right]);
        let truncate = self.options().suffix_truncation;
        let cut = separator((last.key, last.last_tid), (first.key, first.tid), truncate);

        let old_bound = self.high_key_copy(left, left.id().block)?;
        let parent = self.write_parent(1, &old_bound.target(), path)?;
        let item = downlink_item(&*parent, &old_bound.target()).unwrap_or(0);
        let leads_to = |item, block| {
            PivotTuple::decode(parent.tuple(item)).is_some_and(|pivot| pivot.downlink == block)
        };
        if !leads_to(item, left.id().block) || !leads_to(item + 1, right.id().block) {
            return Ok(None);
        }
        let mut left_data = kept.to_le_bytes().to_vec();
        push_pivot(&mut left_data, NO_BLOCK, cut.key, cut.tid);
        let mut parent_data = (item + 1).to_le_bytes().to_vec();
        push_pivot(&mut parent_data, right.id().block, cut.key, cut.tid);
        let right_data = change::given_right(left, kept);

        // A part that does not fit must be noticed while nothing has changed.
        let fits = change::can_give_right(left, kept, &left_data[2..])
            && change::can_take_from_left(&right, left, kept)
            && change::can_replace_pivot(&parent, item + 1, &parent_data[2..]);
        let data = [left_data, right_data, parent_data];
        let shift = Shift { right, parent, data, kept, pivot: item + 1, new_goes_right, tight };
        Ok(fits.then_some(shift))
    }

    /// Makes a planned shift. `left` has been latched since the plan. Returns the leaf to which the
    /// new entry belongs, if there is one; that leaf stayed latched in between.
    pub(crate) fn shift<'a>(
        &'a self,
        mut left: PageWrite<'a>,
        shift: Shift<'a>,
        xid: Xid,
    ) -> Result<PageWrite<'a>> {
        let Shift { mut right, mut parent, kept, pivot, .. } = shift;
        let (left_block, right_block) = (left.id().block, right.id().block);
        invariant!(B2, left.next() == right_block, "entries go over to another page");
        debug_assert!(kept > 0, "the leaf keeps an entry");
        debug_assert!(kept < left.entry_count(), "an entry goes over");
        debug_assert!(pivot > parent.first_entry(), "the pivot has a left neighbour");
        let going = left.first_entry() + kept..=left.item_count();
        let tids = |offset| LeafTuple::decode(left.tuple(offset)).map_or(0, |it| it.tids.len());
        let entries: usize = going.clone().map(tids).sum();
        let marks: Vec<bool> = going.map(|offset| change::is_dead(&left, offset)).collect();
        let right_before = usize::from(right.entry_count());
        let [left_data, right_data, parent_data] = &shift.data;
        let critical = self.storage.begin_change()?;
        let shifted = change::give_right(&mut left, kept, &left_data[2..])
            && change::take_from_left(&mut right, right_data)
            && change::replace_pivot(&mut parent, pivot, &parent_data[2..]);
        assert!(shifted, "all was measured before");
        // Marks go along, but are not logged, as marking is not.
        for (offset, _) in (right.first_entry()..).zip(&marks).filter(|(_, marked)| **marked) {
            change::set_dead(&mut right, offset, true);
        }
        if !seeded_bug!("shift_keeps_versions") {
            left.bump_version();
            right.bump_version();
        }
        let data = shift.data.each_ref().map(|bytes| [&bytes[..]]);
        let pages = &mut [
            LoggedPage::delta(&mut left, &data[0]),
            LoggedPage::delta(&mut right, &data[1]),
            LoggedPage::delta(&mut parent, &data[2]),
        ];
        self.log(wal::kind::SHIFT, xid, pages, None);
        drop(critical);
        debug_assert_eq!(left.entry_count(), kept, "the first entries stay");
        let right_after = usize::from(right.entry_count());
        debug_assert_eq!(right_after, right_before + marks.len(), "no entry is lost on the way");
        self.recycling.entries_shift(left_block, right_block);
        // The leaf has other entries now, so another pass may find dead versions.
        self.failures.forget(left_block);
        if shift.tight {
            self.credit.spend(SHIFT_PRICE);
            count(&self.counters.tight_shifts, 1);
        }
        count(&self.counters.leaf_shifts, 1);
        count(&self.counters.shifted_entries, entries as u64);
        let (owner, other) = if shift.new_goes_right { (right, left) } else { (left, right) };
        if seeded_bug!("shift_lets_go") {
            let block = owner.id().block;
            drop((owner, other));
            return self.write(block, 0);
        }
        Ok(owner)
    }
}

/// The items of a leaf, with the new entry in its place if there is one.
struct Items<'a> {
    list: Vec<SplitItem<'a>>,
    /// The number of the new item; the number of items if there is no new one.
    new_at: usize,
    /// True if the new entry is an item of its own. False if it is inside a posting list, which is
    /// then counted larger.
    new_is_item: bool,
}

fn with_new<'a>(left: &'a Page, new: Option<NewTuple<'a>>) -> Items<'a> {
    let items = (left.first_entry()..=left.item_count()).map(|at| split_item(left.tuple(at)));
    // One more than the leaf has, so that the list has room for the new item.
    let mut list = Vec::with_capacity(usize::from(left.item_count()) + 1);
    list.extend(items);
    let at = |offset: u16| usize::from(offset - left.first_entry());
    let (new_at, new_is_item) = match new {
        Some(NewTuple { gap: Gap::Before(offset), tuple }) => {
            list.insert(at(offset), split_item(tuple));
            (at(offset), true)
        }
        Some(NewTuple { gap: Gap::Inside(offset), tuple }) => {
            list[at(offset)].bytes += tuple.len() + LINE_POINTER;
            (at(offset), false)
        }
        None => (list.len(), false),
    };
    debug_assert!(new_at <= list.len(), "the new entry is at its place, or absent");
    debug_assert_eq!(
        list.len(),
        usize::from(left.entry_count()) + usize::from(new_is_item),
        "each entry is an item"
    );
    Items { list, new_at, new_is_item }
}
