//! Shifts: the last entries of a full leaf go over to its right sibling, and the leaf is not split.
//!
//! ```text
//!  parent     | .. a -> P | m -> R | t -> S .. |        | .. a -> P | h -> R | t -> S .. |
//!  leaves         | a .. h .. m | n ...    |                | a .. h ...  | i .. m n ...   |
//!                   P: full       R: has room                 P             R
//! ```
//!
//! Pages that are divided in half whenever they are full are ln 2 = 69 % full on average when keys come in
//! random order, and no other point to divide them at betters that. Using the room that is there before
//! there is more does: the B*-tree's redistribution, here to the right sibling only, since everything in this
//! tree that follows a link relies on entries going right.
//!
//! It is one change, and one log record, of both leaves and of the pivot between them in the parent. To
//! whoever comes by an older downlink the leaf looks like one that was split: what it seeks is on the leaf, or
//! to its right. What a split never does is that entries come to a page that was there before, and had
//! been read; that concerns who goes backward and who goes by page numbers ([`Recycling::entries_shift`]),
//! while who goes forward begins behind how far it came (`passed.rs`).
//!
//! Left to a split are: leaves that are packed as they are for a reason (`split_point.rs`); a right sibling
//! under another parent; a pivot that does not fit the parent.
//!
//! Source: design section 6; Knuth 1973, 6.2.4 (B*-trees); Küspert 1983 for what it brings.
//!
//! [`Recycling::entries_shift`]: crate::recycle::Recycling::entries_shift

use niwaki_env::seeded_bug;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::LoggedPage;
use niwaki_storage::{Page, Xid};

use crate::change;
use crate::error::Result;
use crate::index::{Index, Path};
use crate::leaf::Gap;
use crate::page::{IndexPage, LINE_POINTER, USABLE_BYTES};
use crate::search::downlink_item;
use crate::separator::separator;
use crate::split::split_item;
use crate::split_point::{self, Room, SplitItem};
use crate::stats::count;
use crate::tuple::{LeafTuple, PivotTuple, push_pivot};
use crate::wal;

/// The right sibling must have this part of its room free. Half of that is freed on each of the two: so an
/// insertion pays for the moving of as many bytes as a split makes it pay for, about its own.
const ROOM_PART: usize = 3;

/// A shift that can be made: all pages it changes are latched, and what they become is known.
pub(crate) struct Shift<'a> {
    right: PageWrite<'a>,
    parent: PageWrite<'a>,
    pages_after: Box<[Page; 3]>,
    /// What the record says of each.
    data: [Vec<u8>; 3],
    /// Entries that go over.
    entries: u64,
    /// Whether the new entry belongs to the right sibling then.
    new_goes_right: bool,
}

impl Index {
    /// How to make room on the full leaf `left` for a new entry by a shift; `None`: it is to be split.
    pub(crate) fn plan_shift(
        &self,
        left: &PageWrite<'_>,
        gap: Gap,
        tuple: &[u8],
        path: &Path,
    ) -> Result<Option<Shift<'_>>> {
        if left.is_rightmost() {
            return Ok(None);
        }
        let right = self.write(left.next(), 0)?;
        let room = Room {
            bytes: right.free_bytes(),
            items: self.items_max().saturating_sub(right.entry_count().into()),
        };
        let roomy =
            room.bytes >= USABLE_BYTES / ROOM_PART && room.items >= self.items_max() / ROOM_PART;
        if !roomy || right.is_half_dead() {
            return Ok(None);
        }
        // The new entry in its place; where that is inside of a posting list, the list is larger by it.
        let mut items: Vec<SplitItem<'_>> =
            (left.first_entry()..=left.item_count()).map(|at| split_item(left.tuple(at))).collect();
        let at = |offset: u16| usize::from(offset - left.first_entry());
        let (new_at, is_item) = match gap {
            Gap::Before(offset) => {
                items.insert(at(offset), split_item(tuple));
                (at(offset), true)
            }
            Gap::Inside(offset) => {
                items[at(offset)].bytes += tuple.len() + LINE_POINTER;
                (at(offset), false)
            }
        };
        let Some(first_right) =
            split_point::choose_shift(&self.split_page(left, &items, new_at), room)
        else {
            return Ok(None);
        };
        let new_goes_right = new_at >= first_right;
        let kept = (first_right - usize::from(is_item && !new_goes_right)) as u16;
        let (last, first) = (items[first_right - 1], items[first_right]);
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
        push_pivot(&mut left_data, crate::page::NO_BLOCK, cut.key, cut.tid);
        let mut parent_data = (item + 1).to_le_bytes().to_vec();
        push_pivot(&mut parent_data, right.id().block, cut.key, cut.tid);
        let right_data = change::given_right(left, kept);

        // Made aside: what does not fit must be noticed while nothing has changed.
        let mut pages_after =
            Box::new([Page::clone(left), Page::clone(&right), Page::clone(&parent)]);
        let [left_after, right_after, parent_after] = &mut *pages_after;
        let fits = change::give_right(left_after, kept, &left_data[2..])
            && change::take_from_left(right_after, &right_data)
            && change::replace_pivot(parent_after, item + 1, &parent_data[2..]);
        if !fits {
            return Ok(None);
        }
        let mut entries = 0;
        for (offset, old) in
            (right_after.first_entry()..).zip(left.first_entry() + kept..=left.item_count())
        {
            entries += LeafTuple::decode(left.tuple(old)).map_or(0, |it| it.tids.len() as u64);
            // Marks go along; that is not logged, as marking is not.
            if change::is_dead(left, old) {
                change::set_dead(right_after, offset, true);
            }
        }
        Ok(Some(Shift {
            right,
            parent,
            pages_after,
            data: [left_data, right_data, parent_data],
            entries,
            new_goes_right,
        }))
    }

    /// Makes a shift that was planned since `left` was latched. Returns the leaf to which the new entry
    /// belongs, which was not let go in between.
    pub(crate) fn shift<'a>(
        &'a self,
        mut left: PageWrite<'a>,
        shift: Shift<'a>,
        xid: Xid,
    ) -> Result<PageWrite<'a>> {
        let Shift { mut right, mut parent, pages_after, .. } = shift;
        let (left_block, right_block) = (left.id().block, right.id().block);
        let critical = self.storage.begin_change()?;
        let [left_after, right_after, parent_after] = &*pages_after;
        left.0.copy_from_slice(&left_after.0);
        right.0.copy_from_slice(&right_after.0);
        parent.0.copy_from_slice(&parent_after.0);
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
        self.recycling.entries_shift(left_block, right_block);
        // With other entries, another pass may find something.
        self.failures.forget(left_block);
        count(&self.counters.leaf_shifts, 1);
        count(&self.counters.shifted_entries, shift.entries);
        let (owner, other) = if shift.new_goes_right { (right, left) } else { (left, right) };
        if seeded_bug!("shift_lets_go") {
            let block = owner.id().block;
            drop((owner, other));
            return self.write(block, 0);
        }
        Ok(owner)
    }
}
