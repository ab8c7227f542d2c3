//! The removal of entries from a leaf: whole items, and single TIDs out of posting lists.
//!
//! A list that loses some of its TIDs gets shorter in place. With one TID left it becomes a plain
//! entry; with none left the item goes. A mark (LP_DEAD) stays: it said that all TIDs were dead, so
//! the remaining TIDs are dead.

use std::ops::Range;

use niwaki_storage::OffsetNumber;
use niwaki_storage::page::Page;

use crate::page::entry::EntryPlace;
use crate::page::golomb::{NumberReader, NumberWriter};
use crate::page::layout::IndexPage;
use crate::page::tuple::{LeafTuple, posting_tids, push_posting};

/// The removal of some entries of a leaf, in the form the log keeps.
///
/// ```text
/// number of items that go, number of TIDs that go out of posting lists that stay
/// items that go: how many items stay between each and the one before, ascending
/// TIDs:          likewise, where the TIDs of all posting lists of the leaf are counted
/// ```
/// All are numbers as `golomb.rs` writes them: a removed entry costs about five bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    items: Vec<OffsetNumber>,
    tids: Vec<u16>,
}

/// A posting list that gets shorter.
struct Shorter {
    offset: u16,
    /// The number of the list's first TID among the TIDs of all lists.
    first: u16,
    /// The part of the removal's TIDs that belongs to this list.
    gone: Range<usize>,
}

impl Removal {
    /// Asserts what the encoding relies on: it stores the distances between neighbours.
    fn assert_state(&self) {
        debug_assert!(self.items.first() != Some(&OffsetNumber::INVALID), "items begin at 1");
        debug_assert!(self.items.is_sorted_by(|a, b| a < b), "each item goes once, in order");
        debug_assert!(self.tids.is_sorted_by(|a, b| a < b), "each TID goes once, in order");
    }

    /// Returns the removal of these entries, given ascending; `None` if an entry does not exist.
    pub(crate) fn of(leaf: &Page, entries: &[EntryPlace]) -> Option<Self> {
        let mut removal = Self { items: Vec::new(), tids: Vec::new() };
        let mut there = leaf.first_entry()..=leaf.item_count();
        // The item up to which the TIDs of posting lists are counted, and the count.
        let (mut counted, mut first) = (leaf.first_entry(), 0u16);
        for group in entries.chunk_by(|a, b| a.offset == b.offset) {
            let offset = group[0].offset;
            let ascending = group.is_sorted_by(|a, b| a.place < b.place);
            if !ascending || !there.contains(&offset) {
                return None;
            }
            there = offset + 1..=leaf.item_count();
            let tids = LeafTuple::decode(leaf.tuple(offset))?.tids.len();
            if usize::from(group[group.len() - 1].place) >= tids {
                return None;
            }
            if group.len() == tids {
                // A whole item needs no count of TIDs. Mostly there are only whole items, and no
                // other item is looked at.
                removal.items.push(OffsetNumber(offset));
                continue;
            }
            while counted < offset {
                first = first.checked_add(posting_tids(leaf.tuple(counted)))?;
                counted += 1;
            }
            removal.tids.extend(group.iter().map(|entry| first + u16::from(entry.place)));
        }
        removal.assert_state();
        debug_assert!(
            removal.items.len() + removal.tids.len() <= entries.len(),
            "an entry is removed with its item, or out of a list"
        );
        Some(removal)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.assert_state();
        debug_assert!(u16::try_from(self.items.len()).is_ok(), "no page has so long a list");
        debug_assert!(u16::try_from(self.tids.len()).is_ok(), "no page has so long a list");
        let mut out = NumberWriter::default();
        out.push(self.items.len() as u16);
        out.push(self.tids.len() as u16);
        let mut next = 1;
        for item in &self.items {
            out.push(item.0 - next);
            next = item.0 + 1;
        }
        next = 0;
        for &number in &self.tids {
            out.push(number - next);
            next = number + 1;
        }
        out.finish()
    }

    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        let mut numbers = NumberReader::new(data);
        let (items, tids) = (numbers.take()?, numbers.take()?);
        let mut list = |count: u16, mut next: u16| {
            let mut list = Vec::new();
            for _ in 0..count {
                let number = next.checked_add(numbers.take()?)?;
                next = number.checked_add(1)?;
                list.push(number);
            }
            Some(list)
        };
        let items = list(items, 1)?.into_iter().map(OffsetNumber).collect();
        let tids = list(tids, 0)?;
        let removal = Self { items, tids };
        removal.assert_state();
        numbers.is_at_end().then_some(removal)
    }

    /// Makes the change; false, with nothing changed, where the page has no such entries.
    pub(crate) fn apply(&self, page: &mut Page) -> bool {
        let there = page.first_entry()..=page.item_count();
        let nothing = self.items.is_empty() && self.tids.is_empty();
        let ascending = self.items.is_sorted_by(|a, b| a < b);
        if nothing || !ascending || self.items.iter().any(|item| !there.contains(&item.0)) {
            return false;
        }
        let Some(shorter) = self.shorter(page) else { return false };
        let items_before = usize::from(page.item_count());
        let (mut kept, mut tuple) = (Vec::new(), Vec::new());
        for list in shorter {
            let Some(item) = LeafTuple::decode(page.tuple(list.offset)) else { continue };
            let mut gone = self.tids[list.gone].iter().peekable();
            kept.clear();
            kept.extend((list.first..).zip(item.tids.raw()).filter_map(|(number, tid)| {
                gone.next_if(|&&gone| gone == number).is_none().then_some(*tid)
            }));
            tuple.clear();
            push_posting(&mut tuple, item.key, &kept);
            let stored = page.overwrite_item(OffsetNumber(list.offset), &tuple);
            debug_assert!(stored, "a shorter tuple always fits");
        }
        let removed = page.remove_items(&self.items);
        debug_assert!(removed, "the items are on the page, in order");
        debug_assert_eq!(
            usize::from(page.item_count()) + self.items.len(),
            items_before,
            "lists that get shorter stay"
        );
        removed
    }

    /// Returns the lists that get shorter. `None` where the removal does not fit the page. A list
    /// may lose TIDs and also go as a whole, or lose all its TIDs. Some TIDs may not exist, or
    /// their order may be wrong.
    fn shorter(&self, page: &Page) -> Option<Vec<Shorter>> {
        let mut shorter = Vec::new();
        if !self.tids.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let (mut first, mut at) = (0u16, 0);
        for offset in page.first_entry()..=page.item_count() {
            if at == self.tids.len() {
                break;
            }
            let tids = posting_tids(page.tuple(offset));
            if tids == 0 {
                continue;
            }
            debug_assert!(self.tids[at] >= first, "no TID of an earlier list is left over");
            let end = first.checked_add(tids)?;
            let here = self.tids[at..].iter().take_while(|&&number| number < end).count();
            if here > 0 {
                let goes = self.items.binary_search(&OffsetNumber(offset)).is_ok();
                let item = LeafTuple::decode(page.tuple(offset))?;
                if goes || here == item.tids.len() {
                    return None;
                }
                shorter.push(Shorter { offset, first, gone: at..at + here });
                at += here;
            }
            first = end;
        }
        debug_assert!(
            shorter.is_sorted_by(|a, b| a.offset < b.offset && a.gone.end == b.gone.start),
            "each list has its own part of the TIDs"
        );
        (at == self.tids.len()).then_some(shorter)
    }

    /// Returns the number of items that go, and of TIDs that go out of lists that stay.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.items.len(), self.tids.len())
    }
}

#[cfg(test)]
mod tests {
    use niwaki_storage::Tid;
    use niwaki_storage::page::ItemState;

    use super::*;
    use crate::page::change;
    use crate::page::layout::flag;
    use crate::page::tuple::posting_bytes;

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
        assert_eq!(removal.counts(), (2, 3));
        let bytes = removal.encode();
        assert_eq!(Removal::decode(&bytes).as_ref(), Some(&removal));
        // Numbers: 2 items and 3 TIDs. Items 1 and 4 go, with two between them; of the lists' TIDs
        // numbers 1, 3 and 4 go.
        assert_eq!(bytes, [0b1101_1110, 0b0110_1011, 0b0110_0000]);
        assert!((0..bytes.len()).all(|end| Removal::decode(&bytes[..end]).is_none()));
        assert!(Removal::decode(&[&bytes[..], &[0]].concat()).is_none());
        let free = page.room();
        assert!(removal.apply(&mut page));
        assert_eq!(page.item_count(), 2);
        assert_eq!(page.tuple(1), posting_bytes(b"b", &tids(&[1, 3])));
        assert_eq!(page.tuple(2), posting_bytes(b"c", &tids(&[8])), "one TID: a plain entry");
        assert_eq!(page.item_id(OffsetNumber(1)).state(), ItemState::Dead, "the mark stays");
        // Two items (9 and 21 bytes) with their line pointers, two TIDs, and a list of two.
        assert_eq!(page.room() - free, 9 + 21 + 2 * 4 + 12 + 12);
    }

    #[test]
    #[should_panic(expected = "each item goes once, in order")]
    #[cfg(debug_assertions)]
    fn a_removal_out_of_order_is_noticed() {
        Removal { items: vec![OffsetNumber(2), OffsetNumber(1)], tids: vec![] }.encode();
    }

    #[test]
    fn what_is_not_there_changes_nothing() {
        let before = page();
        assert!(Removal::of(&before, &entries(&[(2, 4)])).is_none());
        assert!(Removal::of(&before, &entries(&[(2, 1), (2, 1)])).is_none());
        assert!(Removal::of(&before, &entries(&[(5, 0)])).is_none());
        let item = OffsetNumber;
        for (items, tids) in [
            (vec![], vec![]),
            (vec![item(0)], vec![]),
            (vec![item(2), item(1)], vec![]),
            (vec![item(5)], vec![]),
            (vec![item(2)], vec![0]),
            (vec![], vec![4, 5]),
            (vec![], vec![8]),
            (vec![], vec![1, 0]),
            (vec![], vec![0, 0]),
            (vec![item(1)], vec![0, 1, 2, 3]),
            (vec![item(4)], vec![0, 7]),
        ] {
            let removal = Removal { items, tids };
            let mut page = before.clone();
            assert!(!removal.apply(&mut page), "{removal:?}");
            assert_eq!(page.0[..], before.0[..]);
        }
        let mut page = before.clone();
        page.set_next(niwaki_storage::BlockNumber(3));
        assert!(!Removal { items: vec![item(1)], tids: vec![] }.apply(&mut page), "the high key");
    }
}
