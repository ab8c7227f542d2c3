//! Where a key is on a page: comparison and binary search, straight on the page's bytes.

use std::cmp::Ordering;

use niwaki_storage::Tid;
use niwaki_storage::page::Page;

use crate::page::IndexPage;
use crate::tuple::{sort_key, tid_number};

/// A place in the order of (key, TID): at, before or after entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    key: &'a [u8],
    tid: u64,
    /// After every key that starts with `key`.
    after: bool,
}

impl<'a> Target<'a> {
    /// The place of the entry (key, TID).
    #[inline]
    pub(crate) fn entry(key: &'a [u8], tid: Tid) -> Self {
        Self { key, tid: tid_number(tid), after: false }
    }

    /// Before the first entry whose key is at least `prefix`, reached from the left: descends past
    /// a pivot that equals `prefix` and has no TID, since whatever lies left of it is smaller.
    #[inline]
    pub(crate) fn before(prefix: &'a [u8]) -> Self {
        Self { key: prefix, tid: 1, after: false }
    }

    /// The same place, reached from the right: descends to the last page with smaller entries.
    #[inline]
    pub(crate) fn up_to(prefix: &'a [u8]) -> Self {
        Self { key: prefix, tid: 0, after: false }
    }

    /// After the last entry whose key starts with `prefix`.
    #[inline]
    pub(crate) fn after(prefix: &'a [u8]) -> Self {
        Self { key: prefix, tid: u64::MAX, after: true }
    }

    /// The place of a pivot.
    #[inline]
    pub(crate) fn pivot(key: &'a [u8], tid: Option<Tid>) -> Self {
        Self { key, tid: tid.map_or(0, tid_number), after: false }
    }

    /// How a tuple lies to this place.
    #[inline]
    pub(crate) fn order_of(&self, tuple: &[u8]) -> Ordering {
        let (key, tid) = sort_key(tuple);
        self.order(key, tid)
    }

    #[inline]
    fn order(&self, key: &[u8], tid: u64) -> Ordering {
        let common = key.len().min(self.key.len());
        match key[..common].cmp(&self.key[..common]) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
        match key.len().cmp(&self.key.len()) {
            Ordering::Less => Ordering::Less,
            _ if self.after => Ordering::Less,
            Ordering::Greater => Ordering::Greater,
            Ordering::Equal => tid.cmp(&self.tid),
        }
    }
}

/// First item in `from..=item_count()` that is not before `target`; `item_count() + 1` if all are.
#[inline]
pub(crate) fn lower_bound(page: &Page, from: u16, target: &Target<'_>) -> u16 {
    let mut low = from;
    let mut high = page.item_count() + 1;
    while low < high {
        let middle = low + (high - low) / 2;
        if target.order_of(page.tuple(middle)) == Ordering::Less {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// First item from `from` on that is not before `target`, found fast when it is near `from`.
#[inline]
pub(crate) fn lower_bound_near(page: &Page, from: u16, target: &Target<'_>) -> u16 {
    let end = page.item_count() + 1;
    if from >= end || target.order_of(page.tuple(from)) != Ordering::Less {
        return from;
    }
    if from + 1 >= end || target.order_of(page.tuple(from + 1)) != Ordering::Less {
        return from + 1;
    }
    lower_bound(page, from + 2, target)
}

/// Whether `target` lies beyond the page's high key, so that the search goes on to the right.
#[inline]
pub(crate) fn is_beyond(page: &Page, target: &Target<'_>) -> bool {
    match page.high_key() {
        Some(high_key) => target.order_of(high_key) == Ordering::Less,
        None => false,
    }
}

/// The item of an inner page whose downlink leads to `target`: the last pivot before it. The first
/// pivot counts as minus infinity. `None` on an empty page, which an inner page never is.
#[inline]
pub(crate) fn downlink_item(page: &Page, target: &Target<'_>) -> Option<u16> {
    let first = page.first_entry();
    if first > page.item_count() {
        return None;
    }
    Some(lower_bound(page, first + 1, target) - 1)
}

#[cfg(test)]
mod tests {
    use niwaki_storage::{BlockNumber, OffsetNumber};

    use super::*;
    use crate::page::flag;
    use crate::tuple::{push_leaf, push_pivot};

    fn leaf(entries: &[(&[u8], u16)]) -> Page {
        let mut page = Page::zeroed();
        page.init_index(0, flag::LEAF);
        for (number, (key, offset)) in entries.iter().enumerate() {
            let mut tuple = Vec::new();
            push_leaf(&mut tuple, key, b"", Tid::new(0, *offset));
            assert!(page.insert_item(OffsetNumber(number as u16 + 1), &tuple));
        }
        page
    }

    #[test]
    fn places_among_duplicates() {
        let page = leaf(&[(b"a", 1), (b"b", 1), (b"b", 5), (b"b", 9), (b"ba", 1), (b"c", 1)]);
        let find = |target: Target<'_>| lower_bound(&page, 1, &target);
        assert_eq!(find(Target::before(b"b")), 2);
        assert_eq!(find(Target::up_to(b"b")), 2);
        assert_eq!(find(Target::entry(b"b", Tid::new(0, 5))), 3);
        assert_eq!(find(Target::entry(b"b", Tid::new(0, 6))), 4);
        assert_eq!(find(Target::after(b"b")), 6, "after every key that starts with it");
        assert_eq!(find(Target::after(b"")), 7);
        assert_eq!(find(Target::before(b"")), 1);
        for from in 1..=7 {
            let target = Target::after(b"b");
            assert_eq!(lower_bound_near(&page, from, &target), find(target).max(from));
        }
    }

    #[test]
    fn a_truncated_pivot_is_minus_infinity() {
        let mut page = Page::zeroed();
        page.init_index(1, 0);
        let pivots: [(&[u8], Option<Tid>); 4] =
            [(b"", None), (b"b", None), (b"d", Some(Tid::new(0, 5))), (b"f", None)];
        for (number, (key, tid)) in pivots.iter().enumerate() {
            let mut tuple = Vec::new();
            push_pivot(&mut tuple, BlockNumber(10 + number as u32), key, *tid);
            assert!(page.insert_item(OffsetNumber(number as u16 + 1), &tuple));
        }
        let find = |target: Target<'_>| downlink_item(&page, &target).unwrap();
        assert_eq!(find(Target::entry(b"a", Tid::MAX)), 1);
        assert_eq!(find(Target::before(b"b")), 2, "b itself lies right of its truncated pivot");
        assert_eq!(find(Target::up_to(b"b")), 1, "what is smaller than b lies left of it");
        assert_eq!(find(Target::entry(b"d", Tid::new(0, 5))), 2, "equal to a full pivot: left");
        assert_eq!(find(Target::entry(b"d", Tid::new(0, 6))), 3);
        assert_eq!(find(Target::after(b"")), 4);
    }
}
