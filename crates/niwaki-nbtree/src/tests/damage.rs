//! Damage made on purpose: for each invariant, a change that breaks it, and that the check names
//! it.

use niwaki_storage::{BlockNumber, ItemState, OffsetNumber, Page, Tid};

use super::{checked, index, insert};
use crate::page::layout::{IndexPage, META_BLOCK, flag};
use crate::page::tuple::{posting_bytes, push_leaf, push_pivot};
use crate::{Index, IndexOptions};

/// Returns a tree of three levels.
fn tree() -> Index {
    let index = index(IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
    for n in 0..60u8 {
        insert(&index, &[n, 1], Tid::new(u32::from(n), 1));
    }
    assert_eq!(checked(&index).len(), 60);
    index
}

/// Returns the blocks of a level, left to right.
fn level(index: &Index, level: u16) -> Vec<BlockNumber> {
    let (mut block, mut here) = index.root().unwrap().unwrap();
    while here > level {
        let page = index.read(block, here).unwrap();
        let first = page.first_entry();
        block = crate::page::tuple::PivotTuple::decode(page.tuple(first)).unwrap().downlink;
        here -= 1;
    }
    let mut blocks = Vec::new();
    while block != BlockNumber(0) {
        blocks.push(block);
        block = index.read(block, level).unwrap().next();
    }
    blocks
}

/// Damages a page and returns the names of the invariants that the check finds broken.
fn damage(index: &Index, block: BlockNumber, how: impl FnOnce(&mut Page)) -> Vec<&'static str> {
    let mut page = index.pin(block).unwrap().into_write();
    how(&mut page);
    page.mark_hint();
    drop(page);
    let report = index.check(&mut |_| {}).unwrap();
    report.corruptions.iter().map(|corruption| corruption.invariant).collect()
}

fn leaf(key: &[u8], tid: Tid) -> Vec<u8> {
    let mut tuple = Vec::new();
    push_leaf(&mut tuple, key, b"", tid);
    tuple
}

#[test]
fn b1_order_on_a_page() {
    let index = tree();
    let block = level(&index, 0)[5];
    let found = damage(&index, block, |page| {
        let (a, b) = (page.item_id(OffsetNumber(2)), page.item_id(OffsetNumber(3)));
        page.set_item_id(OffsetNumber(2), b);
        page.set_item_id(OffsetNumber(3), a);
    });
    assert!(found.contains(&"B1"), "{found:?}");
}

#[test]
fn b1_an_entry_above_the_high_key_or_below_the_lower_bound() {
    for key in [[0u8, 0], [200, 0]] {
        let index = tree();
        let block = level(&index, 0)[5];
        let found = damage(&index, block, |page| {
            let offset = if key[0] == 0 { page.first_entry() } else { page.item_count() };
            assert!(page.overwrite_item(OffsetNumber(offset), &leaf(&key, Tid::new(1, 1))));
        });
        assert!(found.contains(&"B1"), "{found:?}");
    }
}

#[test]
fn b1_a_parent_bound_that_is_not_the_left_high_key() {
    let index = tree();
    let block = level(&index, 1)[1];
    let found = damage(&index, block, |page| {
        let offset = OffsetNumber(page.first_entry() + 1);
        let tuple = page.item_mut(offset).unwrap();
        let last = tuple.len() - 1;
        tuple[last] += 1;
    });
    assert!(found.contains(&"B1"), "{found:?}");
}

#[test]
fn b1_no_high_key_where_there_must_be_one() {
    let index = tree();
    let block = level(&index, 0)[5];
    let found = damage(&index, block, |page| {
        assert!(page.overwrite_item(OffsetNumber(1), &leaf(b"", Tid::new(1, 1))));
    });
    assert!(found.contains(&"B1"), "{found:?}");
}

#[test]
fn b1_a_mark_of_an_incomplete_split_that_has_its_parent() {
    let index = tree();
    let block = level(&index, 0)[5];
    let found = damage(&index, block, |page| {
        page.set_index_flags(page.index_flags() | flag::INCOMPLETE_SPLIT);
    });
    assert!(found.contains(&"B1"), "{found:?}");
}

#[test]
fn b2_sibling_links() {
    let index = tree();
    let leaves = level(&index, 0);
    let found = damage(&index, leaves[5], |page| page.set_prev(leaves[1]));
    assert!(found.contains(&"B2"), "{found:?}");
    let index = tree();
    let leaves = level(&index, 0);
    let found = damage(&index, leaves[5], |page| page.set_next(leaves[7]));
    assert!(found.contains(&"B2"), "skipped: {found:?}");
    let index = tree();
    let leaves = level(&index, 0);
    let found = damage(&index, leaves[5], |page| page.set_next(leaves[2]));
    assert!(found.contains(&"B2"), "a ring: {found:?}");
}

#[test]
fn b2_a_leaf_without_downlink() {
    let index = tree();
    let block = level(&index, 1)[1];
    let found = damage(&index, block, |page| {
        let offset = OffsetNumber(page.first_entry() + 1);
        assert!(page.remove_item(offset));
    });
    assert!(found.contains(&"B2"), "{found:?}");
}

#[test]
fn b2_a_page_that_nothing_leads_to() {
    let index = tree();
    let block =
        index.storage.pool().extend(index.file, niwaki_storage::Fork::Main, 1).unwrap().first;
    assert!(index.check(&mut |_| {}).unwrap().corruptions.is_empty(), "an unused page is fine");
    let found = damage(&index, block, |page| page.init_index(0, flag::LEAF));
    assert_eq!(found, ["B2"]);
}

#[test]
fn b2_a_page_of_another_level() {
    let index = tree();
    let block = level(&index, 1)[1];
    let found = damage(&index, block, |page| page.set_level(3));
    assert!(found.contains(&"B2"), "{found:?}");
}

#[test]
fn b3_a_posting_list_out_of_order() {
    let fine = posting_bytes(&[5, 1], &[Tid::new(5, 1), Tid::new(5, 2)]);
    let bad = posting_bytes(&[5, 1], &[Tid::new(5, 2), Tid::new(5, 1)]);
    for (tuple, expected) in [(fine, false), (bad, true)] {
        let index = index(IndexOptions::default());
        insert(&index, &[5, 1], Tid::new(5, 1));
        let block = level(&index, 0)[0];
        let found = damage(&index, block, |page| {
            assert!(page.overwrite_item(OffsetNumber(1), &tuple));
        });
        assert_eq!(found.contains(&"B3"), expected, "{found:?}");
    }
}

#[test]
fn x2_two_equal_entries() {
    let index = tree();
    let block = level(&index, 0)[5];
    let found = damage(&index, block, |page| {
        let first = page.first_entry();
        let tuple = page.tuple(first).to_vec();
        assert!(page.overwrite_item(OffsetNumber(first + 1), &tuple));
    });
    assert!(found.contains(&"X2"), "{found:?}");
}

#[test]
fn format_bytes_that_are_no_entry() {
    let index = tree();
    let leaves = level(&index, 0);
    let found = damage(&index, leaves[5], |page| {
        let offset = OffsetNumber(page.first_entry());
        page.item_mut(offset).unwrap()[7] = 0x80;
    });
    assert!(found.contains(&"format"), "{found:?}");
    let index = tree();
    let found = damage(&index, META_BLOCK, |page| page.item_mut(OffsetNumber(1)).unwrap()[0] ^= 1);
    assert_eq!(found, ["format"]);
    let index = tree();
    let leaves = level(&index, 0);
    let found = damage(&index, leaves[3], |page| page.set_index_flags(flag::LEAF | 0x4000));
    assert!(found.contains(&"format"), "{found:?}");
}

/// Damage is an error for every operation that meets it, never a panic or an endless loop.
#[test]
fn any_damage_is_survived() {
    let rng = niwaki_env::rng::SeededRng::new(3);
    for round in 0..400 {
        let index = tree();
        let blocks = index.blocks().unwrap();
        for _ in 0..=(round % 4) {
            let block = BlockNumber(rng.below(u64::from(blocks)) as u32);
            let mut page = index.pin(block).unwrap().into_write();
            // The damage is behind the header, which the pool verifies: line pointers stay as they
            // are, tuples and links become arbitrary.
            let upper = u64::from(page.upper());
            let at = (upper + rng.below(8192 - upper)) as usize;
            page.0[at] = rng.below(256) as u8;
            page.mark_hint();
        }
        let _ = index.check(&mut |_| {});
        let mut scan = crate::Scan::default();
        for direction in [crate::Direction::Forward, crate::Direction::Backward] {
            scan.start(&index, &crate::KeyRange::ALL, direction);
            while scan.next(&index).unwrap_or(false) {}
        }
        let key = [rng.below(70) as u8, 1];
        let _ = index.insert(&super::entry(&key, Tid::new(99, 1)), None, None);
        let keep = &mut || Ok((crate::EntryDecision::Keep, None));
        let _ = index.delete_entry(&key, Tid::new(1, 1), niwaki_storage::Xid::INVALID, keep);
        let decide = &mut |_: crate::BatchEntry<'_>| crate::EntryDecision::Keep;
        let _ = index.vacuum(decide);
    }
}

#[test]
fn a_high_key_cannot_be_marked_dead() {
    let index = tree();
    let block = level(&index, 0)[2];
    let found = damage(&index, block, |page| {
        let id = page.item_id(OffsetNumber(1)).with_state(ItemState::Dead);
        page.set_item_id(OffsetNumber(1), id);
    });
    assert!(found.contains(&"B1"), "{found:?}");
}

#[test]
fn a_pivot_of_minus_infinity_comes_first_only() {
    let index = tree();
    let block = level(&index, 1)[0];
    let found = damage(&index, block, |page| {
        let offset = OffsetNumber(page.first_entry() + 1);
        let child = crate::page::tuple::PivotTuple::decode(page.tuple(offset.0)).unwrap().downlink;
        let mut tuple = Vec::new();
        push_pivot(&mut tuple, child, b"", None);
        assert!(page.overwrite_item(offset, &tuple));
    });
    assert!(found.contains(&"B1"), "{found:?}");
}

#[test]
fn a_scan_of_a_ring_ends_with_an_error() {
    let index = tree();
    let leaves = level(&index, 0);
    damage(&index, leaves[5], |page| page.set_next(leaves[2]));
    let mut scan = crate::Scan::default();
    scan.start(&index, &crate::KeyRange::ALL, crate::Direction::Forward);
    let error = loop {
        match scan.next(&index) {
            Ok(more) => assert!(more, "the ring has no end"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("B2"), "{error}");
}

/// Makes a leaf in the middle properly half-dead, and returns it.
fn half_dead(index: &Index) -> BlockNumber {
    let block = level(index, 0)[5];
    let mut leaf = index.pin(block).unwrap().into_write();
    let decide = &mut |_: crate::BatchEntry<'_>| crate::EntryDecision::Delete;
    index.visit_leaf(&mut leaf, decide).unwrap();
    assert_eq!(index.make_half_dead(leaf).unwrap(), [block]);
    checked(index);
    block
}

#[test]
fn b2_a_half_dead_page_with_entries_or_a_downlink() {
    let index = tree();
    let block = half_dead(&index);
    let found = damage(&index, block, |page| {
        let offset = OffsetNumber(page.first_entry());
        assert!(page.insert_item(offset, &leaf(&[7, 1], Tid::new(7, 1))));
    });
    assert!(found.contains(&"B2"), "{found:?}");
    let index = tree();
    let block = level(&index, 0)[5];
    let found = damage(&index, block, |page| {
        page.set_index_flags(page.index_flags() | flag::HALF_DEAD);
    });
    assert!(found.contains(&"B2"), "{found:?}");
}

#[test]
fn b2_a_half_dead_page_that_no_sibling_links_to() {
    let index = tree();
    let block = half_dead(&index);
    let (prev, next) = {
        let page = index.read(block, 0).unwrap();
        (page.prev(), page.next())
    };
    damage(&index, prev, |page| page.set_next(next));
    let found = damage(&index, next, |page| page.set_prev(prev));
    assert_eq!(found, ["B2"], "lost");
}

#[test]
fn b2_a_deleted_page_that_is_linked_to_or_not_empty() {
    let index = tree();
    let block = level(&index, 0)[5];
    let found = damage(&index, block, crate::page::change::make_deleted);
    assert!(found.contains(&"B2"), "{found:?}");
    let index = tree();
    let block = half_dead(&index);
    assert!(index.unlink(block).unwrap());
    checked(&index);
    let found = damage(&index, block, |page| page.set_next(BlockNumber(3)));
    assert_eq!(found, ["B2"]);
}

#[test]
fn b2_a_page_in_use_that_is_listed_as_free() {
    let index = tree();
    let block = level(&index, 0)[5];
    index.recycling.add_free(block);
    let report = index.check(&mut |_| {}).unwrap();
    let found: Vec<_> = report.corruptions.iter().map(|damage| damage.invariant).collect();
    assert_eq!(found, ["B2"]);
    // The page is not overwritten: the next split notices.
    while index.recycling.free_count() > 1 {
        index.allocate().unwrap().written();
    }
    assert!(index.use_page(&index.allocate().unwrap()).is_err());
}

/// Changes the links of a page, as a fault of the disk under a sound checksum would.
fn relink(index: &Index, block: BlockNumber, how: impl FnOnce(&mut Page)) {
    let mut page = index.pin(block).unwrap().into_write();
    how(&mut page);
    page.mark_hint();
}

/// Returns the invariant that an operation finds broken.
fn broken<T: std::fmt::Debug>(result: crate::Result<T>) -> &'static str {
    match result {
        Err(crate::Error::Storage(niwaki_storage::Error::Corruption(damage))) => damage.invariant,
        other => panic!("no damage was found: {other:?}"),
    }
}

/// Regression test: a thread that had latched such a leaf waited for itself, for ever. It met this
/// when the leaf was full, became sparse, or left the tree.
#[test]
fn b2_a_leaf_that_leads_to_itself_stops_nobody() {
    type Damage = fn(&mut Page, BlockNumber, BlockNumber);
    let next: Damage = |page, block, _| page.set_next(block);
    let prev: Damage = |page, block, _| page.set_prev(block);
    let both: Damage = |page, _, left| page.set_next(left);
    for how in [next, prev, both] {
        let index = tree();
        let leaves = level(&index, 0);
        let (left, block) = (leaves[4], leaves[5]);
        let keys: Vec<Vec<u8>> = {
            let leaf = index.read(block, 0).unwrap();
            let items = leaf.first_entry()..=leaf.item_count();
            items.map(|item| crate::page::tuple::sort_key(leaf.tuple(item)).0.to_vec()).collect()
        };
        relink(&index, block, |page| how(page, block, left));
        let tid = |key: &[u8]| Tid::new(u32::from(key[0]), 1);
        let decide = &mut || Ok((crate::EntryDecision::Delete, None));
        for key in &keys {
            assert_eq!(
                broken(index.delete_entry(key, tid(key), niwaki_storage::Xid::INVALID, decide)),
                "B2"
            );
            let more = [&key[..], &[9]].concat();
            assert_eq!(broken(index.insert(&super::entry(&more, tid(key)), None, None)), "B2");
        }
        let mut all = |_: crate::BatchEntry<'_>| crate::EntryDecision::Delete;
        assert_eq!(broken(index.vacuum(&mut all)), "B2");
    }
}

/// A unique check keeps its first leaf latched, and so must not come there again.
#[test]
fn b2_leaves_in_a_ring_stop_no_unique_check() {
    struct Versions;
    impl crate::UniqueCheck for Versions {
        fn check(&self, _: &[u8], _: Tid) -> niwaki_storage::Result<crate::UniqueVerdict> {
            Ok(crate::UniqueVerdict::NotConflicting)
        }
    }
    let index = index(IndexOptions {
        page_items_max: Some(4),
        deduplicate_items: false,
        ..IndexOptions::default()
    });
    for n in 1..=24 {
        insert(&index, b"key", Tid::new(n, 1));
    }
    let leaves = level(&index, 0);
    assert!(leaves.len() > 4, "{leaves:?}");
    relink(&index, leaves[2], |page| page.set_next(leaves[0]));
    let entry = super::entry(b"key", Tid::new(99, 1));
    assert_eq!(broken(index.insert(&entry, Some(&Versions), None)), "B2");
}
