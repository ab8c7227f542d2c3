//! The changes a page can undergo, each as one function that both the operation and redo call.
//!
//! A function returns `false`, with nothing changed, where the page does not fit the change. For an
//! operation this means a broken invariant, for redo it means damage.

use niwaki_env::invariant;
use niwaki_storage::page::{ItemState, PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, OffsetNumber};

use crate::page::layout::{HIGH_KEY, IndexPage, LINE_POINTER, NO_BLOCK, flag, read_u16, read_u32};
use crate::page::tuple::{
    ENTRY_MAX, LeafTuple, PIVOT_MAX, POSTING_MAX, POSTING_TIDS_MAX, TID_SIZE, TUPLE_HEADER,
    push_leaf, push_posting, read_tid,
};

/// Bytes of a pivot's downlink.
const DOWNLINK_SIZE: usize = 4;
const _: () = assert!(DOWNLINK_SIZE == size_of::<BlockNumber>());
const _: () = assert!(DOWNLINK_SIZE <= TUPLE_HEADER);

/// Puts a tuple at an offset; later items move up.
pub(crate) fn insert(page: &mut Page, offset: u16, tuple: &[u8]) -> bool {
    let items = page.item_count();
    let placed = page.insert_item(OffsetNumber(offset), tuple);
    debug_assert!(!placed || page.item_count() == items + 1, "one item came to the page");
    debug_assert!(!placed || page.tuple(offset) == tuple, "the tuple is at its offset");
    placed
}

/// Inserts an entry whose TID falls inside the posting list at `offset` (posting list split). The
/// list takes in the TID and gives up its last TID, which becomes a plain entry behind the list. So
/// the list keeps its size, and the page needs as much room as for any entry.
///
/// ```text
/// (k, 3 5 9)              insert (k, 7):   (k, 3 5 7) (k, 9)
/// ```
pub(crate) fn insert_inside(page: &mut Page, offset: u16, tid: &[u8; TID_SIZE]) -> bool {
    let Some((list, last)) = take_in(page, offset, tid) else { return false };
    if !insert(page, offset + 1, &last) {
        return false;
    }
    debug_assert!(!is_dead(page, offset + 1), "the entry that the list gave up is not marked");
    set_list(page, offset, &list);
    true
}

/// Adds a TID to the posting list at `offset`, which gets longer, at whatever place the TID
/// belongs.
///
/// ```text
/// (k, 3 5 9)              grow (k, 7):   (k, 3 5 7 9)
/// ```
pub(crate) fn grow_list(page: &mut Page, offset: u16, tid: &[u8; TID_SIZE]) -> bool {
    let tuple = page.tuple(offset);
    let Some(item) = LeafTuple::decode(tuple).filter(LeafTuple::is_posting) else { return false };
    let Err(place) = item.tids.search(read_tid(tid, 0)) else { return false };
    let count = item.tids.len() + 1;
    let at = TUPLE_HEADER + item.key.len() + place * TID_SIZE;
    if tuple.len() + TID_SIZE > POSTING_MAX || !page.grow_item(OffsetNumber(offset), at, tid) {
        return false;
    }
    invariant!(B3, count <= POSTING_TIDS_MAX, "a list of {count} TIDs has no room on its place");
    debug_assert_eq!(
        page.tuple(offset).get(at..at + TID_SIZE),
        Some(&tid[..]),
        "the TID is at its place in the list"
    );
    let count = (count as u16).to_le_bytes();
    let head = page.item_mut(OffsetNumber(offset)).and_then(|tuple| tuple.first_chunk_mut());
    head.map(|place| *place = count).is_some()
}

/// Computes a posting list after it took in a TID, and the plain entry of the TID that it gives up.
/// `None` if the item is no list or the TID does not fall inside.
fn take_in(page: &Page, offset: u16, tid: &[u8; TID_SIZE]) -> Option<(Vec<u8>, Vec<u8>)> {
    let item = LeafTuple::decode(page.tuple(offset)).filter(LeafTuple::is_posting)?;
    let (last, kept) = item.tids.raw().split_last()?;
    let place = item.tids.search(read_tid(tid, 0)).err()?;
    if !(1..=kept.len()).contains(&place) {
        return None;
    }
    let tids = [&kept[..place], &[*tid], &kept[place..]].concat();
    let (mut list, mut plain) = (Vec::new(), Vec::new());
    push_posting(&mut list, item.key, &tids);
    push_posting(&mut plain, item.key, &[*last]);
    debug_assert_eq!(tids.len(), item.tids.len(), "the list gives up a TID for the one it takes");
    debug_assert_eq!(list.len(), page.tuple(offset).len(), "the list keeps its size");
    Some((list, plain))
}

/// Puts a list of the same size in place of another. The new TID is alive, so the LP_DEAD mark, if
/// any, is cleared.
fn set_list(page: &mut Page, offset: u16, list: &[u8]) {
    let free = page.free_bytes();
    let stored = page.overwrite_item(OffsetNumber(offset), list) && set_dead(page, offset, false);
    debug_assert!(stored, "the list was just read");
    debug_assert_eq!(page.free_bytes(), free, "a list of the same size needs no room");
}

/// Lets the posting list at `offset` take in a TID, for a page that is about to be divided. Returns
/// the entry that the list gives up. `None`, with nothing changed, where [`insert_inside`] would
/// refuse.
pub(crate) fn swap_inside(page: &mut Page, offset: u16, tid: &[u8; TID_SIZE]) -> Option<Vec<u8>> {
    let (list, last) = take_in(page, offset, tid)?;
    set_list(page, offset, &list);
    Some(last)
}

/// Gives the entry at `offset`, which is no posting list, another INCLUDE payload.
pub(crate) fn set_payload(page: &mut Page, offset: u16, payload: &[u8]) -> bool {
    if !page.is_leaf() || offset < page.first_entry() {
        return false;
    }
    let Some(item) = LeafTuple::decode(page.tuple(offset)).filter(|item| !item.is_posting()) else {
        return false;
    };
    if TUPLE_HEADER + item.key.len() + payload.len() > ENTRY_MAX {
        return false;
    }
    let mut tuple = Vec::new();
    push_leaf(&mut tuple, item.key, payload, item.tids.first());
    let stored = page.overwrite_item(OffsetNumber(offset), &tuple);
    page.compact();
    stored
}

/// Sets or clears LP_DEAD on an entry.
pub(crate) fn set_dead(page: &mut Page, offset: u16, dead: bool) -> bool {
    let number = OffsetNumber(offset);
    let id = page.item_id(number);
    if offset < page.first_entry() || !id.has_storage() {
        return false;
    }
    let state = if dead { ItemState::Dead } else { ItemState::Normal };
    let set = page.set_item_id(number, id.with_state(state));
    debug_assert!(!set || is_dead(page, offset) == dead, "the mark was set or cleared");
    debug_assert_eq!(page.item_id(number).len(), id.len(), "a marked entry keeps its bytes");
    set
}

/// Decides whether an entry is marked LP_DEAD.
#[inline]
pub(crate) fn is_dead(page: &Page, offset: u16) -> bool {
    page.item_id(OffsetNumber(offset)).state() == ItemState::Dead
}

/// Clears the flag of an incomplete split: the parent has the downlink to the right sibling.
pub(crate) fn clear_incomplete(page: &mut Page) {
    page.set_index_flags(page.index_flags() & !flag::INCOMPLETE_SPLIT);
}

/// Merges two neighbouring downlinks. The downlink at `offset` now leads to the next pivot's child,
/// and the next pivot goes: its child takes over the range of keys of the deleted child.
pub(crate) fn merge_downlinks(page: &mut Page, offset: u16) -> bool {
    let next = offset.wrapping_add(1);
    if page.is_leaf() || offset < page.first_entry() || next > page.item_count() {
        return false;
    }
    let Some(child) = page.tuple(next).first_chunk::<DOWNLINK_SIZE>().copied() else {
        return false;
    };
    let place = page.item_mut(OffsetNumber(offset)).and_then(|it| it.first_chunk_mut());
    let Some(downlink) = place else { return false };
    *downlink = child;
    let removed = page.remove_items(&[OffsetNumber(next)]);
    debug_assert!(!removed || page.item_count() >= offset, "the merged downlink stays");
    removed
}

/// Makes a page half-dead: the parent leads past it. Its entries go (an empty leaf has none), flags
/// and links stay.
pub(crate) fn make_half_dead(page: &mut Page) {
    let entries: Vec<_> = (page.first_entry()..=page.item_count()).map(OffsetNumber).collect();
    let removed = entries.is_empty() || page.remove_items(&entries);
    debug_assert!(removed, "the entries were just counted");
    invariant!(B2, page.entry_count() == 0, "a half-dead page keeps entries");
    page.set_index_flags(page.index_flags() | flag::HALF_DEAD);
}

/// Makes a page deleted: nothing leads to it any more. The page loses everything but its level.
pub(crate) fn make_deleted(page: &mut Page) {
    let leaf = page.index_flags() & flag::LEAF;
    page.init_index(page.level(), flag::DELETED | leaf);
    invariant!(B2, page.is_deleted(), "the page could be taken for one in use");
    invariant!(B2, page.prev() == NO_BLOCK, "a deleted page leads to its left sibling");
    invariant!(B2, page.next() == NO_BLOCK, "a deleted page leads to its right sibling");
}

/// Replaces the pivot at `offset` by `pivot`, which carries the same downlink. Bytes that only the
/// old pivot needed are free at once.
pub(crate) fn replace_pivot(page: &mut Page, offset: u16, pivot: &[u8]) -> bool {
    if !can_replace_pivot(page, offset, pivot) {
        return false;
    }
    let stored = page.overwrite_item(OffsetNumber(offset), pivot);
    page.compact();
    debug_assert!(!stored || page.tuple(offset) == pivot, "the pivot is at its offset");
    stored
}

/// Decides whether [`replace_pivot`] can succeed.
pub(crate) fn can_replace_pivot(page: &Page, offset: u16, pivot: &[u8]) -> bool {
    let there = !page.is_leaf() && offset > page.first_entry() && offset <= page.item_count();
    there && page.can_overwrite_item(OffsetNumber(offset), pivot.len())
}

/// Removes the entries of a leaf behind its first `kept`, which go over to its right sibling.
/// `kept` is at least one and not all. `high_key` bounds the entries that stay.
pub(crate) fn give_right(page: &mut Page, kept: u16, high_key: &[u8]) -> bool {
    if !can_give_right(page, kept, high_key) {
        return false;
    }
    let going: Vec<_> = (page.first_entry() + kept..=page.item_count()).map(OffsetNumber).collect();
    let given = page.remove_items(&going) && page.overwrite_item(OffsetNumber(HIGH_KEY), high_key);
    debug_assert!(!given || page.entry_count() == kept, "the first entries stay");
    debug_assert!(!given || page.high_key() == Some(high_key), "the new bound is in place");
    given
}

/// Decides whether [`give_right`] can succeed.
pub(crate) fn can_give_right(page: &Page, kept: u16, high_key: &[u8]) -> bool {
    if !page.is_leaf() || page.is_rightmost() || kept == 0 || kept >= page.entry_count() {
        return false;
    }
    let going = page.first_entry() + kept..=page.item_count();
    let freed: usize = going.map(|offset| page.tuple(offset).len() + LINE_POINTER).sum();
    // The old high key has storage on a page that is sound.
    let old = page.tuple(HIGH_KEY).len();
    old > 0 && !high_key.is_empty() && high_key.len() <= (page.room() + freed + old).max(old)
}

/// Returns the entries behind the first `kept` of a leaf, for [`take_from_left`]: the length of
/// each as u16, then its bytes.
pub(crate) fn given_right(page: &Page, kept: u16) -> Vec<u8> {
    debug_assert!(kept <= page.entry_count(), "no more entries stay than there are");
    let mut out = Vec::new();
    for offset in page.first_entry() + kept..=page.item_count() {
        let tuple = page.tuple(offset);
        debug_assert!(tuple.len() <= PAGE_SIZE, "the length fits its two bytes");
        out.extend_from_slice(&(tuple.len() as u16).to_le_bytes());
        out.extend_from_slice(tuple);
    }
    out
}

/// Adds the last entries of a leaf's left sibling, encoded by [`given_right`], before the leaf's
/// own entries.
pub(crate) fn take_from_left(page: &mut Page, mut given: &[u8]) -> bool {
    let mut tuples = Vec::new();
    while let Some((length, rest)) = given.split_first_chunk() {
        let Some((tuple, rest)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else {
            return false;
        };
        tuples.push(tuple);
        given = rest;
    }
    let sound = page.is_leaf() && !tuples.is_empty() && given.is_empty();
    let (first, items) = (page.first_entry(), usize::from(page.item_count()));
    let taken = sound && page.insert_items(OffsetNumber(first), &tuples);
    debug_assert!(
        !taken || usize::from(page.item_count()) == items + tuples.len(),
        "all given entries came to the page"
    );
    debug_assert!(
        !taken || tuples.first().is_some_and(|tuple| *tuple == page.tuple(first)),
        "the given entries lie before the page's own"
    );
    taken
}

/// Decides whether [`take_from_left`] can succeed with the entries of `left` behind its first
/// `kept`.
pub(crate) fn can_take_from_left(page: &Page, left: &Page, kept: u16) -> bool {
    let given = left.first_entry() + kept..=left.item_count();
    let bytes: usize = given.map(|offset| left.tuple(offset).len() + LINE_POINTER).sum();
    page.is_leaf() && bytes > 0 && bytes <= page.room()
}

/// The effect of a split on the left page, in the form the log keeps.
///
/// ```text
/// 0  kept u16         items of the page that stay
/// 2  new position u16 where among the left items the new one goes, from 0; 0xffff = goes right
/// 4  high key bytes u16       6  into list u8      7  reserved u8 (zero)
/// 8  right block u32         12  new high key, then the new tuple if it changes the left page
/// ```
///
/// *Into list* is 1 if the new entry's TID falls inside the posting list before it, which stays
/// left. Then the list takes in the TID. The TID that the list gives up goes to the new position,
/// or right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitLeft<'a> {
    pub(crate) kept: u16,
    pub(crate) new_at: Option<u16>,
    /// True if the list before the new item takes in the new entry's TID.
    pub(crate) into_list: bool,
    pub(crate) right: BlockNumber,
    pub(crate) high_key: &'a [u8],
    /// The tuple as inserted: if a list takes in a TID, it is this tuple's TID.
    pub(crate) new_tuple: &'a [u8],
}

const SPLIT_HEADER: usize = 12;
const GOES_RIGHT: u16 = u16::MAX;
// No page has as many items, so this position is never one of them.
const _: () = assert!(PAGE_SIZE / LINE_POINTER < GOES_RIGHT as usize);

impl<'a> SplitLeft<'a> {
    fn has_tuple(&self) -> bool {
        self.new_at.is_some() || self.into_list
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // `decode` refuses what is refused here.
        debug_assert!(!self.high_key.is_empty(), "the left half has a bound");
        debug_assert!(self.high_key.len() <= PIVOT_MAX, "the length fits its two bytes");
        debug_assert!(self.new_at != Some(GOES_RIGHT), "this position means the right half");
        debug_assert!(self.new_at.is_none_or(|at| at <= self.kept), "the new item is on the page");
        debug_assert!(!self.has_tuple() || !self.new_tuple.is_empty(), "there is a new tuple");
        let mut out = Vec::with_capacity(SPLIT_HEADER + self.high_key.len() + self.new_tuple.len());
        out.extend_from_slice(&self.kept.to_le_bytes());
        out.extend_from_slice(&self.new_at.unwrap_or(GOES_RIGHT).to_le_bytes());
        out.extend_from_slice(&(self.high_key.len() as u16).to_le_bytes());
        out.extend_from_slice(&[u8::from(self.into_list), 0]);
        out.extend_from_slice(&self.right.0.to_le_bytes());
        out.extend_from_slice(self.high_key);
        debug_assert_eq!(out.len(), SPLIT_HEADER + self.high_key.len(), "the tuple lies behind");
        if self.has_tuple() {
            out.extend_from_slice(self.new_tuple);
        }
        out
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, _) = bytes.split_first_chunk::<SPLIT_HEADER>()?;
        if head[6] > 1 || head[7] != 0 {
            return None;
        }
        let new_at = Some(read_u16(bytes, 2)).filter(|&position| position != GOES_RIGHT);
        let end = SPLIT_HEADER + usize::from(read_u16(bytes, 4));
        let (high_key, new_tuple) = (bytes.get(SPLIT_HEADER..end)?, bytes.get(end..)?);
        let split = Self {
            kept: read_u16(bytes, 0),
            new_at,
            into_list: head[6] == 1,
            right: BlockNumber(read_u32(bytes, 8)),
            high_key,
            new_tuple,
        };
        (!high_key.is_empty() && new_tuple.is_empty() != split.has_tuple()).then_some(split)
    }

    /// Makes the page the left half. LP_DEAD marks of entries that stay are kept.
    pub(crate) fn apply(&self, page: &mut Page) -> bool {
        let first = page.first_entry();
        if self.kept > page.entry_count() || self.new_at.is_some_and(|at| at > self.kept) {
            return false;
        }
        let mut old = page.clone();
        let given_up;
        let new_item = if self.into_list {
            let behind = first + self.new_at.unwrap_or(self.kept);
            let tid = self.new_tuple.first_chunk();
            let Some(last) = tid.and_then(|tid| swap_inside(&mut old, behind - 1, tid)) else {
                return false;
            };
            given_up = last;
            &given_up
        } else {
            self.new_tuple
        };
        let mut half = old.clone();
        let mut writer =
            Rebuild::new(&mut half, old.level(), old.index_flags() | flag::INCOMPLETE_SPLIT);
        writer.page.set_prev(old.prev());
        writer.page.set_next(self.right);
        writer.push(self.high_key);
        for position in 0..=self.kept {
            if self.new_at == Some(position) {
                writer.push(new_item);
            }
            if position < self.kept {
                writer.push_from(&old, first + position);
            }
        }
        let fine = writer.put_in_place_of(page);
        let items = 1 + self.kept + u16::from(self.new_at.is_some());
        debug_assert!(!fine || page.item_count() == items, "high key, and the items of the left");
        debug_assert!(!fine || page.is_incomplete(), "the parent has no downlink to the right");
        debug_assert!(!fine || page.next() == self.right, "the halves are neighbours");
        fine
    }
}

/// A writer that fills an empty index page item by item.
pub(crate) struct Rebuild<'a> {
    pub(crate) page: &'a mut Page,
    pub(crate) fits: bool,
}

impl<'a> Rebuild<'a> {
    pub(crate) fn new(page: &'a mut Page, level: u16, flags: u16) -> Self {
        page.init_index(level, flags);
        Self { page, fits: true }
    }

    /// Begins a page with flags, siblings and high key of `old`; the entries are to follow.
    pub(crate) fn like(page: &'a mut Page, old: &Page) -> Self {
        let mut writer = Self::new(page, old.level(), old.index_flags());
        writer.page.set_prev(old.prev());
        writer.page.set_next(old.next());
        if let Some(high_key) = old.high_key() {
            writer.push(high_key);
        }
        writer
    }

    /// Replaces `page` by the rebuilt one, if everything fitted.
    pub(crate) fn put_in_place_of(self, page: &mut Page) -> bool {
        if self.fits {
            page.0.copy_from_slice(&self.page.0);
        }
        self.fits
    }

    pub(crate) fn push(&mut self, tuple: &[u8]) {
        let appended = self.page.append_item(tuple);
        debug_assert!(
            !appended || self.page.tuple(self.page.item_count()) == tuple,
            "the tuple is the last item"
        );
        self.fits &= appended;
    }

    /// Copies an item of another page together with its LP_DEAD mark.
    pub(crate) fn push_from(&mut self, from: &Page, offset: u16) {
        self.push(from.tuple(offset));
        if is_dead(from, offset) {
            let number = OffsetNumber(self.page.item_count());
            let id = self.page.item_id(number).with_state(ItemState::Dead);
            self.fits &= self.page.set_item_id(number, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tuple::{POSTING_TIDS_MAX, posting_bytes, push_leaf, tid_bytes};
    use niwaki_storage::Tid;

    fn tuple(key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_leaf(&mut out, key, b"", Tid::new(1, 1));
        out
    }

    fn page() -> Page {
        let mut page = Page::zeroed();
        page.init_index(0, flag::LEAF);
        page.set_prev(BlockNumber(8));
        for (offset, key) in [(1, b"a"), (2, b"c"), (3, b"e"), (4, b"g")] {
            assert!(insert(&mut page, offset, &tuple(key)));
        }
        assert!(set_dead(&mut page, 2, true));
        page
    }

    #[test]
    fn a_split_says_what_stays() {
        let (high, new) = (tuple(b"e"), tuple(b"b"));
        let split = SplitLeft {
            kept: 2,
            new_at: Some(1),
            into_list: false,
            right: BlockNumber(9),
            high_key: &high,
            new_tuple: &new,
        };
        let bytes = split.encode();
        assert_eq!(SplitLeft::decode(&bytes), Some(split));
        let mut left = page();
        assert!(split.apply(&mut left));
        assert!(left.is_incomplete() && left.is_leaf());
        assert_eq!((left.prev(), left.next()), (BlockNumber(8), BlockNumber(9)));
        let items: Vec<&[u8]> = (1..=4).map(|offset| left.tuple(offset)).collect();
        assert_eq!(items, [&high[..], &tuple(b"a"), &new, &tuple(b"c")]);
        assert!(is_dead(&left, 4) && !is_dead(&left, 3));
    }

    #[test]
    fn what_does_not_fit_the_page_changes_nothing() {
        let (high, new) = (tuple(b"e"), tuple(b"b"));
        let split = SplitLeft {
            kept: 5,
            new_at: Some(1),
            into_list: false,
            right: BlockNumber(9),
            high_key: &high,
            new_tuple: &new,
        };
        let mut left = page();
        assert!(!split.apply(&mut left));
        assert!(!SplitLeft { kept: 2, new_at: Some(3), ..split }.apply(&mut left));
        assert_eq!(left.0[..], page().0[..]);
        for len in 0..split.encode().len() {
            let _ = SplitLeft::decode(&split.encode()[..len]);
        }
    }

    #[test]
    fn the_high_key_is_not_an_entry() {
        let mut page = page();
        page.set_next(BlockNumber(3));
        assert!(!set_dead(&mut page, 1, true));
        assert!(!insert_inside(&mut page, 1, &[0, 0, 0, 0, 2, 0]));
        assert!(!grow_list(&mut page, 1, &[0, 0, 0, 0, 2, 0]));
    }

    #[test]
    fn a_list_grows_where_the_tid_belongs() {
        let tids = |numbers: &[u32]| -> Vec<Tid> {
            numbers.iter().map(|&number| Tid::new(number, 1)).collect()
        };
        let there = [10, 20, 30];
        for new in [5, 10, 15, 25, 30, 35] {
            let mut page = page();
            assert!(insert(&mut page, 3, &posting_bytes(b"d", &tids(&there))));
            let before = page.clone();
            let mut expected = there.to_vec();
            expected.extend((!there.contains(&new)).then_some(new));
            expected.sort_unstable();
            let grown = grow_list(&mut page, 3, &tid_bytes(Tid::new(new, 1)));
            assert_eq!(grown, expected.len() == 4);
            assert_eq!(page.tuple(3), posting_bytes(b"d", &tids(&expected)));
            let others = [1, 2, 4, 5];
            assert!(others.iter().all(|&offset| page.tuple(offset) == before.tuple(offset)));
            assert!(is_dead(&page, 2));
            let taken = if grown { TID_SIZE } else { 0 };
            assert_eq!(page.free_bytes(), before.free_bytes() - taken);
        }
        let mut page = page();
        assert!(!grow_list(&mut page, 3, &tid_bytes(Tid::new(1, 2))), "a plain entry");
        let longest: Vec<u32> = (1..=POSTING_TIDS_MAX as u32).collect();
        assert!(insert(&mut page, 3, &posting_bytes(b"", &tids(&longest))));
        assert!(!grow_list(&mut page, 3, &tid_bytes(Tid::new(9, 9))), "the longest list");
    }
}
