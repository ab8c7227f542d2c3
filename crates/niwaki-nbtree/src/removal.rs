//! What a deletion takes off a leaf: whole items, and single TIDs out of posting lists.
//!
//! A list that loses some of its TIDs gets shorter in place; one TID left makes it a plain entry; none,
//! and the item goes. A mark (LP_DEAD) stays: it said that all TIDs were dead, so those left are.

use niwaki_storage::OffsetNumber;
use niwaki_storage::page::Page;

use crate::batch::EntryPlace;
use crate::page::IndexPage;
use crate::tuple::{LeafTuple, push_posting};

/// A posting list that gets shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shrink {
    offset: u16,
    /// Places of the TIDs that go, ascending; not all of them.
    places: Vec<u8>,
}

/// The removal of some entries of a leaf, in the form the log keeps.
///
/// ```text
/// items that go: their number, then the offset of each, ascending, as its distance from the one before
///                (the first: from 0)
/// posting lists that get shorter, to the end: per list the distance to its offset, doubled; one more when
///                several TIDs go, then their count u8; places u8 each (from 0, ascending) of the TIDs
/// ```
/// Numbers and distances are one byte below 128; above, two: the low seven bits with the top bit set, then
/// the rest. Mostly neighbours die together, so an item costs one byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    items: Vec<OffsetNumber>,
    lists: Vec<Shrink>,
}

impl Removal {
    /// The removal of these entries, given ascending; `None` if one does not exist.
    pub(crate) fn of(leaf: &Page, entries: &[EntryPlace]) -> Option<Self> {
        let mut removal = Self { items: Vec::new(), lists: Vec::new() };
        for group in entries.chunk_by(|a, b| a.offset == b.offset) {
            let offset = group[0].offset;
            let item = LeafTuple::decode(leaf.tuple(offset))?;
            let ascending = group.is_sorted_by(|a, b| a.place < b.place);
            if !ascending || usize::from(group[group.len() - 1].place) >= item.tids.len() {
                return None;
            }
            if group.len() == item.tids.len() {
                removal.items.push(OffsetNumber(offset));
            } else {
                let places = group.iter().map(|entry| entry.place).collect();
                removal.lists.push(Shrink { offset, places });
            }
        }
        Some(removal)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let places: usize = self.lists.iter().map(|list| 3 + list.places.len()).sum();
        let mut out = Vec::with_capacity(2 + 2 * self.items.len() + places);
        push_number(&mut out, self.items.len() as u16);
        let mut before = 0;
        for item in &self.items {
            push_number(&mut out, item.0 - before);
            before = item.0;
        }
        before = 0;
        for list in &self.lists {
            let several = list.places.len() > 1;
            push_number(&mut out, (list.offset - before) << 1 | u16::from(several));
            before = list.offset;
            if several {
                out.push(list.places.len() as u8);
            }
            out.extend_from_slice(&list.places);
        }
        out
    }

    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        let mut rest = data;
        let mut items = Vec::new();
        let mut before = 0u16;
        for _ in 0..take_number(&mut rest)? {
            before = before.checked_add(take_number(&mut rest)?)?;
            items.push(OffsetNumber(before));
        }
        let mut lists = Vec::new();
        before = 0;
        while !rest.is_empty() {
            let number = take_number(&mut rest)?;
            before = before.checked_add(number >> 1)?;
            let mut count = 1;
            if number & 1 != 0 {
                let (&several, behind) = rest.split_first()?;
                (count, rest) = (several, behind);
            }
            let (places, behind) = rest.split_at_checked(usize::from(count))?;
            lists.push(Shrink { offset: before, places: places.to_vec() });
            rest = behind;
        }
        Some(Self { items, lists })
    }

    /// Makes the change and compacts the page; false, with nothing changed, where the page has no
    /// such entries.
    pub(crate) fn apply(&self, page: &mut Page) -> bool {
        let there = page.first_entry()..=page.item_count();
        let ascending = self.items.is_sorted_by(|a, b| a < b)
            && self.lists.is_sorted_by(|a, b| a.offset < b.offset);
        let nothing = self.items.is_empty() && self.lists.is_empty();
        if nothing || !ascending || self.items.iter().any(|item| !there.contains(&item.0)) {
            return false;
        }
        let mut shorter = Vec::with_capacity(self.lists.len());
        for list in &self.lists {
            let gone = self.items.binary_search(&OffsetNumber(list.offset)).is_ok();
            match list.tuple(page) {
                Some(tuple) if !gone && there.contains(&list.offset) => {
                    shorter.push((OffsetNumber(list.offset), tuple));
                }
                _ => return false,
            }
        }
        for (offset, tuple) in &shorter {
            let stored = page.overwrite_item(*offset, tuple);
            debug_assert!(stored, "a shorter tuple always fits");
        }
        page.remove_items(&self.items)
    }

    /// Number of items that go, and of lists that get shorter.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.items.len(), self.lists.len())
    }
}

impl Shrink {
    /// What is left of the list; `None` if it is not that long.
    fn tuple(&self, page: &Page) -> Option<Vec<u8>> {
        let item = LeafTuple::decode(page.tuple(self.offset))?;
        let ascending = self.places.is_sorted_by(|a, b| a < b);
        let last = usize::from(*self.places.last()?);
        if !ascending || last >= item.tids.len() || self.places.len() >= item.tids.len() {
            return None;
        }
        let mut gone = self.places.iter().peekable();
        let kept: Vec<_> = (0u8..)
            .zip(item.tids.raw())
            .filter(|(place, _)| gone.next_if(|&gone| gone == place).is_none())
            .map(|(_, tid)| *tid)
            .collect();
        let mut tuple = Vec::new();
        push_posting(&mut tuple, item.key, &kept);
        Some(tuple)
    }
}

/// A number below 2^15, in one or two bytes.
fn push_number(out: &mut Vec<u8>, number: u16) {
    if number < 0x80 {
        out.push(number as u8);
    } else {
        out.extend_from_slice(&[number as u8 | 0x80, (number >> 7) as u8]);
    }
}

fn take_number(rest: &mut &[u8]) -> Option<u16> {
    let (&low, behind) = rest.split_first()?;
    *rest = behind;
    if low < 0x80 {
        return Some(low.into());
    }
    let (&high, behind) = rest.split_first()?;
    *rest = behind;
    Some(u16::from(low & 0x7F) | u16::from(high) << 7)
}

#[cfg(test)]
mod tests {
    use niwaki_storage::Tid;
    use niwaki_storage::page::ItemState;

    use super::*;
    use crate::change;
    use crate::page::flag;
    use crate::tuple::posting_bytes;

    fn tids(numbers: &[u32]) -> Vec<Tid> {
        numbers.iter().map(|&n| Tid::new(n, 1)).collect()
    }

    fn page() -> Page {
        let mut page = Page::zeroed();
        page.init_index(0, flag::LEAF);
        for (key, numbers) in
            [(b"a", &[5][..]), (b"b", &[1, 2, 3, 4]), (b"c", &[7, 8]), (b"d", &[1, 2])]
        {
            let offset = page.item_count() + 1;
            assert!(change::insert(&mut page, offset, &posting_bytes(key, &tids(numbers))));
        }
        page
    }

    fn entries(list: &[(u16, u8)]) -> Vec<EntryPlace> {
        list.iter().map(|&(offset, place)| EntryPlace { offset, place }).collect()
    }

    #[test]
    fn items_go_and_lists_get_shorter() {
        let mut page = page();
        assert!(change::set_dead(&mut page, 2, true));
        let all = entries(&[(1, 0), (2, 1), (2, 3), (3, 0), (4, 0), (4, 1)]);
        let removal = Removal::of(&page, &all).unwrap();
        assert_eq!(removal.counts(), (2, 2));
        let bytes = removal.encode();
        assert_eq!(Removal::decode(&bytes).as_ref(), Some(&removal));
        // Two items, each a distance from the one before; list 2 loses two TIDs, list 3 one.
        assert_eq!(bytes, [2, 1, 3, 2 << 1 | 1, 2, 1, 3, 1 << 1, 0]);
        let cut = |end: usize| Removal::decode(&bytes[..end]).is_some();
        assert_eq!((0..bytes.len()).filter(|&end| cut(end)).collect::<Vec<_>>(), [3, 7]);
        let free = page.free_bytes();
        assert!(removal.apply(&mut page));
        assert_eq!(page.item_count(), 2);
        assert_eq!(page.tuple(1), posting_bytes(b"b", &tids(&[1, 3])));
        assert_eq!(page.tuple(2), posting_bytes(b"c", &tids(&[8])), "one TID: a plain entry");
        assert_eq!(page.item_id(OffsetNumber(1)).state(), ItemState::Dead, "the mark stays");
        // Two items (9 and 21 bytes) with their line pointers, two TIDs, and a list of two.
        assert_eq!(page.free_bytes() - free, 9 + 21 + 2 * 4 + 12 + 12, "compacted");
    }

    #[test]
    fn what_is_not_there_changes_nothing() {
        let before = page();
        assert!(Removal::of(&before, &entries(&[(2, 4)])).is_none());
        assert!(Removal::of(&before, &entries(&[(2, 1), (2, 1)])).is_none());
        assert!(Removal::of(&before, &entries(&[(5, 0)])).is_none());
        let list = |offset, places: &[u8]| Shrink { offset, places: places.to_vec() };
        let item = OffsetNumber;
        for removal in [
            Removal { items: vec![], lists: vec![] },
            Removal { items: vec![item(0)], lists: vec![] },
            Removal { items: vec![item(2), item(1)], lists: vec![] },
            Removal { items: vec![item(5)], lists: vec![] },
            Removal { items: vec![item(2)], lists: vec![list(2, &[0])] },
            Removal { items: vec![], lists: vec![list(2, &[])] },
            Removal { items: vec![], lists: vec![list(3, &[0, 1])] },
            Removal { items: vec![], lists: vec![list(2, &[0, 4])] },
            Removal { items: vec![], lists: vec![list(2, &[1, 0])] },
            Removal { items: vec![], lists: vec![list(1, &[0])] },
            Removal { items: vec![item(1)], lists: vec![list(3, &[0]), list(2, &[0])] },
        ] {
            let mut page = before.clone();
            assert!(!removal.apply(&mut page), "{removal:?}");
            assert_eq!(page.0[..], before.0[..]);
        }
        let mut page = before.clone();
        page.set_next(niwaki_storage::BlockNumber(3));
        assert!(!Removal { items: vec![item(1)], lists: vec![] }.apply(&mut page), "the high key");
        assert!(!Removal { items: vec![], lists: vec![list(1, &[0])] }.apply(&mut page));
    }

    #[test]
    fn numbers_come_back_as_they_went_in() {
        for number in [0, 1, 0x7F, 0x80, 0x81, 0x3FFF, 0x7FFF] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out.len(), if number < 0x80 { 1 } else { 2 });
            let mut rest = &out[..];
            assert_eq!((take_number(&mut rest), rest), (Some(number), &[][..]));
            assert_eq!(take_number(&mut &out[..out.len() - 1]), None);
        }
    }
}
