//! Tests of the page against a simple model and against hostile bytes.

use super::*;
use crate::ids::{BlockNumber, Fork, OffsetNumber, PageId, RelFileId};

/// A small generator, so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn id() -> PageId {
    PageId { file: RelFileId(17), fork: Fork::Main, block: BlockNumber(3) }
}

fn page() -> Page {
    let mut page = Page::zeroed();
    page.init(PageKind::Heap, 16);
    page
}

fn numbers(page: &Page) -> impl Iterator<Item = OffsetNumber> {
    (1..=page.item_count()).map(OffsetNumber)
}

fn assert_holds(page: &Page, model: &[Option<Vec<u8>>], seed: u64) {
    assert_eq!(usize::from(page.item_count()), model.len(), "seed {seed}");
    for (number, expected) in numbers(page).zip(model) {
        assert_eq!(page.item(number), expected.as_deref(), "seed {seed}, item {number}");
    }
    page.check_deep(id()).unwrap_or_else(|damage| panic!("seed {seed}: {damage:?}"));
}

#[test]
fn a_page_is_what_was_done_to_it() {
    for seed in 1..200 {
        let mut random = Random(seed * 7919);
        let mut page = page();
        let mut model: Vec<Option<Vec<u8>>> = Vec::new();
        for _ in 0..200 {
            let bytes = vec![random.next() as u8; 1 + random.below(400)];
            let number = OffsetNumber(1 + random.below(model.len() + 1) as u16);
            let at = usize::from(number.0) - 1;
            match random.below(10) {
                0..=2 => {
                    let free = page.free_for_item();
                    let added = page.add_item(&bytes);
                    assert_eq!(added.is_some(), free >= bytes.len(), "seed {seed}");
                    if let Some(number) = added {
                        let at = usize::from(number.0) - 1;
                        if at == model.len() {
                            assert!(model.iter().all(Option::is_some), "seed {seed}: not reused");
                            model.push(None);
                        }
                        assert_eq!(model[at], None);
                        model[at] = Some(bytes);
                    }
                }
                3 => {
                    if page.insert_item(number, &bytes) {
                        model.insert(at, Some(bytes));
                    }
                }
                4 if at < model.len() => {
                    assert!(page.remove_item(number));
                    model.remove(at);
                }
                5 if at < model.len() => {
                    assert!(page.set_unused(number));
                    model[at] = None;
                }
                6 if at < model.len() && model[at].is_some() => {
                    let room = page.free_bytes_compacted() + page.item(number).unwrap().len();
                    let fits = room >= bytes.len();
                    assert_eq!(page.overwrite_item(number, &bytes), fits, "seed {seed}");
                    if fits {
                        model[at] = Some(bytes);
                    }
                }
                7 => {
                    let free = page.free_bytes_compacted();
                    page.compact();
                    assert_eq!(page.free_bytes(), free, "seed {seed}");
                }
                8 => {
                    let gone: Vec<OffsetNumber> =
                        numbers(&page).filter(|_| random.below(4) == 0).collect();
                    assert!(page.remove_items(&gone));
                    for number in gone.iter().rev() {
                        model.remove(usize::from(number.0) - 1);
                    }
                }
                9 if at < model.len() && model[at].is_some() => {
                    let tuple = model[at].as_mut().unwrap();
                    let place = random.below(tuple.len() + 1);
                    let fits = page.free_bytes_compacted() >= bytes.len();
                    assert_eq!(page.grow_item(number, place, &bytes), fits, "seed {seed}");
                    if fits {
                        tuple.splice(place..place, bytes);
                    }
                }
                _ => {
                    let trimmed = usize::from(page.trim_unused());
                    for gone in model.drain(model.len() - trimmed..) {
                        assert_eq!(gone, None);
                    }
                    assert!(model.last().is_none_or(Option::is_some));
                }
            }
            assert_holds(&page, &model, seed);
        }
    }
}

#[test]
fn compacting_gives_equal_bytes_to_equal_contents() {
    let (mut one, mut other) = (page(), page());
    for number in 0..20u8 {
        one.add_item(&[number; 50]).unwrap();
    }
    for number in (0..20u8).rev() {
        assert!(other.insert_item(OffsetNumber(1), &[number; 50]));
    }
    assert!(one.0 != other.0);
    one.compact();
    other.compact();
    assert!(one.0 == other.0);
}

#[test]
fn items_are_taken_out_and_give_their_room_back() {
    let some = (1..=40u16).map(|gone| vec![gone]);
    let many = (0..200).map(|seed| {
        let mut random = Random(seed + 1);
        let part = 2 + random.below(6);
        (1..=40).filter(|_| random.below(part) == 0).collect()
    });
    let lengths = [false, true].into_iter();
    for (gone, alike) in
        some.chain(many).flat_map(|gone| lengths.clone().map(move |it| (gone.clone(), it)))
    {
        let mut page = page();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for number in 0..40u8 {
            // The tuples lie in another order than their line pointers.
            let at = usize::from(number) / 2;
            let length = if alike { 30 } else { 30 + usize::from(number) };
            let tuple = vec![number + 1; length];
            assert!(page.insert_item(OffsetNumber(at as u16 + 1), &tuple));
            model.insert(at, tuple);
        }
        let numbers: Vec<_> = gone.iter().map(|number| OffsetNumber(*number)).collect();
        assert!(page.remove_items(&numbers));
        for number in gone.iter().rev() {
            model.remove(usize::from(*number) - 1);
        }
        if alike {
            assert_eq!(
                page.free_bytes(),
                page.free_bytes_compacted(),
                "those stored last take their places"
            );
        }
        let holds = |page: &Page, model: &[Vec<u8>]| {
            let free = usize::from(page.lower())..usize::from(page.upper());
            assert!(page.0[free].iter().all(|byte| *byte == 0));
            assert_holds(page, &model.iter().cloned().map(Some).collect::<Vec<_>>(), 0);
        };
        holds(&page, &model);
        // First one byte too many, then all free bytes: more than lies between line pointers and
        // tuples before compaction.
        let room = page.free_bytes_compacted() - ITEM_ID_SIZE;
        let mut full = page.clone();
        assert!(!full.insert_item(OffsetNumber(3), &vec![9; room + 1]));
        holds(&full, &model);
        assert!(full.insert_item(OffsetNumber(3), &vec![9; room]));
        model.insert(2, vec![9; room]);
        holds(&full, &model);
        assert_eq!(full.free_bytes(), 0);
    }
}

#[test]
fn several_items_are_put_in_at_once_or_none() {
    for (at, gone) in (1..=11u16).flat_map(|at| [0, 3, 7].map(|gone| (at, gone))) {
        let mut page = page();
        let mut model: Vec<Vec<u8>> = (0..10 + gone).map(|number| vec![number; 300]).collect();
        for (number, tuple) in (1..).zip(&model) {
            assert!(page.insert_item(OffsetNumber(number), tuple));
        }
        // The freed room lies between other tuples.
        let removed: Vec<_> = (0..u16::from(gone)).map(|nth| OffsetNumber(1 + nth)).collect();
        assert!(page.remove_items(&removed));
        model.drain(..usize::from(gone));
        let room = page.free_bytes_compacted();
        let most = (room - ITEM_ID_SIZE) / (100 + ITEM_ID_SIZE);
        let new: Vec<Vec<u8>> = (0..=most).map(|number| vec![100 + number as u8; 100]).collect();
        let mut tuples: Vec<&[u8]> = new.iter().map(Vec::as_slice).collect();
        let refused = page.clone();
        assert!(!page.insert_items(OffsetNumber(at), &tuples), "one too many");
        assert!(!page.insert_items(OffsetNumber(12), &tuples[..1]), "beyond the last");
        assert!(!page.insert_items(OffsetNumber(at), &[&[1], &[]]), "an empty one");
        assert_eq!(page.item_ids().count(), refused.item_ids().count());
        tuples.pop();
        assert!(page.insert_items(OffsetNumber(at), &tuples));
        let place = usize::from(at) - 1;
        model.splice(place..place, tuples.iter().map(|tuple| tuple.to_vec()));
        assert_holds(&page, &model.into_iter().map(Some).collect::<Vec<_>>(), 0);
    }
}

#[test]
fn what_can_be_overwritten_is_known_before() {
    for length in [0, 1, 299, 300, 301, 900, 1100, 1300, 7900, 8192] {
        for removed in [&[][..], &[OffsetNumber(2)], &[OffsetNumber(1), OffsetNumber(5)]] {
            let mut page = page();
            for number in 1..=24 {
                assert!(page.insert_item(OffsetNumber(number), &[number as u8; 300]));
            }
            assert!(page.remove_items(removed));
            let can = page.can_overwrite_item(OffsetNumber(3), length);
            assert_eq!(page.overwrite_item(OffsetNumber(3), &vec![7; length]), can, "{length}");
            assert!(!page.can_overwrite_item(OffsetNumber(25), 10));
        }
    }
}

#[test]
fn line_pointers_keep_their_fields_apart() {
    for state in [ItemState::Unused, ItemState::Normal, ItemState::Redirect, ItemState::Dead] {
        for mixed in [Mixed::No, Mixed::Cleaning, Mixed::Yes] {
            for moved_in in [false, true] {
                let item = ItemId::normal(8191, 8000)
                    .with_state(state)
                    .with_mixed(mixed)
                    .with_moved_in(moved_in);
                assert_eq!(item.state(), state);
                assert_eq!(item.mixed(), mixed);
                assert_eq!(item.moved_in(), moved_in);
                assert_eq!((item.offset(), item.len()), (8191, 8000));
                assert_eq!(item.0 >> 31, 0);
            }
        }
    }
    assert_eq!(ItemId::redirect(OffsetNumber(291)).target(), OffsetNumber(291));
    assert_eq!(ItemId::redirect(OffsetNumber(291)).state(), ItemState::Redirect);
    assert!(!ItemId::dead().has_storage());
}

#[test]
fn flags_of_the_access_method_and_of_the_page_are_apart() {
    let mut page = page();
    page.set_flags(0xff);
    page.add_item(&[1; 10]).unwrap();
    page.set_unused(OffsetNumber(1));
    assert!(page.has_unused());
    page.set_flags(0);
    assert!(page.has_unused());
    assert_eq!(page.add_item(&[2; 10]), Some(OffsetNumber(1)));
}

#[test]
fn a_raw_page_has_no_hole() {
    let mut page = Page::zeroed();
    page.init(PageKind::Visibility, 0);
    page.raw_mut().fill(0xff);
    assert_eq!(page.raw().len(), PAGE_SIZE - HEADER_SIZE);
    assert_eq!(page.free_bytes(), 0);
    page.check_deep(id()).unwrap();
}

#[test]
fn the_checksum_sees_every_byte_and_the_place() {
    let mut page = page();
    page.add_item(b"row").unwrap();
    let checksum = page.compute_checksum(id());
    page.set_checksum(checksum);
    assert_eq!(page.compute_checksum(id()), checksum);
    for at in 0..PAGE_SIZE {
        if (CHECKSUM_AT..CHECKSUM_AT + 4).contains(&at) {
            continue;
        }
        page.0[at] ^= 0x04;
        assert_ne!(page.compute_checksum(id()), checksum, "byte {at}");
        page.0[at] ^= 0x04;
    }
    for other in [
        PageId { block: BlockNumber(4), ..id() },
        PageId { fork: Fork::Visibility, ..id() },
        PageId { file: RelFileId(18), ..id() },
    ] {
        assert_ne!(page.compute_checksum(other), checksum, "{other}");
    }
}

/// Every page, whatever it holds, is refused or keeps every accessor within its bytes.
#[test]
fn hostile_bytes_never_panic() {
    let mut accepted = 0;
    for seed in 1..3000 {
        let mut random = Random(seed * 104_729);
        let mut page = page();
        for _ in 0..random.below(30) {
            page.add_item(&vec![random.next() as u8; 1 + random.below(300)]);
        }
        for _ in 0..=random.below(4) {
            // Most changes hit the header and the line pointers.
            let at = if random.below(4) == 0 { random.below(PAGE_SIZE) } else { random.below(150) };
            page.0[at] = random.next() as u8;
        }
        if seed % 7 == 0 {
            page.0.iter_mut().for_each(|b| *b = random.next() as u8);
        }
        let sound = page.check_structure(id()).is_ok();
        accepted += u32::from(sound);
        // Accessors do not panic even on refused pages.
        for number in (0..=page.item_count().saturating_add(2)).map(OffsetNumber) {
            let _ = (page.item_id(number), page.item(number).map(<[u8]>::len));
            let _ = page.item_mut(number);
        }
        let _ = (page.special().len(), page.free_for_item());
        let _ = page.special_mut();
        let _ = (page.stored_bytes(), page.free_bytes_compacted(), page.check_deep(id()));
        if sound && page.kind().is_slotted() {
            page.compact();
            page.add_item(&[1; 20]);
            page.overwrite_item(OffsetNumber(1), &[2; 700]);
            page.insert_item(OffsetNumber(1), &[3; 20]);
            page.remove_item(OffsetNumber(2));
            page.trim_unused();
            assert!(page.check_structure(id()).is_ok(), "seed {seed}");
        }
    }
    assert!(accepted > 100, "the check refuses everything: {accepted}");
}

#[test]
fn damage_is_named() {
    type Harm = fn(&mut Page);
    let cases: [(&str, Harm); 6] = [
        ("page kind 77", |page| page.0[KIND_AT] = 77),
        ("page version 2", |page| page.0[VERSION_AT] = 2),
        ("upper 1", |page| page.set_upper(1)),
        ("not at a line pointer", |page| page.set_lower(HEADER_SIZE as u16 + 6)),
        ("line pointer", |page| {
            page.set_item_id(OffsetNumber(2), ItemId::normal(8000, 190));
        }),
        ("overlap", |page| {
            let first = page.item_id(OffsetNumber(1));
            page.set_item_id(OffsetNumber(2), first);
            page.set_item_id(OffsetNumber(1), ItemId::normal(first.offset(), first.len()));
            page.set_item_id(OffsetNumber(3), first);
        }),
    ];
    for (expected, harm) in cases {
        let mut page = page();
        for number in 0..3 {
            page.add_item(&[number; 40]).unwrap();
        }
        page.check_deep(id()).unwrap();
        harm(&mut page);
        let damage = page.check_deep(id()).unwrap_err();
        assert!(damage.detail.contains(expected), "{expected}: {damage:?}");
        assert_eq!((damage.file.as_str(), damage.block), ("base/17.main", Some(3)));
    }
}
