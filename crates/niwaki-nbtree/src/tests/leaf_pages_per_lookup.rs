//! Lookups read only the leaves that hold the wanted key.

use std::collections::{BTreeMap, BTreeSet};

use niwaki_env::rng::SeededRng;
use niwaki_storage::{BlockNumber, Tid};
use proptest::prelude::*;

use super::{checked, index, insert};
use crate::page::layout::{IndexPage, META_BLOCK};
use crate::page::tuple::PivotTuple;
use crate::{Direction, EntryDecision, Index, IndexOptions, KeyRange, Scan};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// Returns the leaves that hold each key.
fn holders(index: &Index) -> BTreeMap<Vec<u8>, BTreeSet<BlockNumber>> {
    let mut holders: BTreeMap<Vec<u8>, BTreeSet<BlockNumber>> = BTreeMap::new();
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::ALL, Direction::Forward);
    while scan.next(index).unwrap() {
        let block = scan.batch().block().unwrap();
        for entry in scan.batch().iter() {
            holders.entry(entry.key.to_vec()).or_default().insert(block);
        }
    }
    holders
}

/// Returns the upper bound of each leaf's range of keys from left to right, as (key, whether a TID
/// follows). Entries with that key belong to the leaf only if a TID follows. The last leaf has no
/// bound.
fn upper_bounds(index: &Index) -> Vec<Option<(Vec<u8>, bool)>> {
    let mut bounds: Vec<_> = (META_BLOCK.0 + 1..index.blocks().unwrap())
        .filter_map(|block| {
            let page = index.pin(BlockNumber(block)).unwrap().into_read();
            let in_tree = !page.is_new() && page.is_leaf() && !page.is_deleted();
            in_tree.then(|| {
                let pivot = page.high_key().and_then(PivotTuple::decode);
                pivot.map(|pivot| (pivot.key.to_vec(), pivot.tid))
            })
        })
        .collect();
    bounds.sort_unstable_by(|a, b| match (a, b) {
        (None, None) => std::cmp::Ordering::Equal,
        (None, _) => std::cmp::Ordering::Greater,
        (_, None) => std::cmp::Ordering::Less,
        (a, b) => a.cmp(b),
    });
    bounds.into_iter().map(|bound| bound.map(|(key, tid)| (key, tid.is_some()))).collect()
}

/// Returns the number of leaves in whose range entries of a key can be.
fn leaves_in_range(bounds: &[Option<(Vec<u8>, bool)>], key: &[u8]) -> u64 {
    let may_begin = |at: usize| match at.checked_sub(1).and_then(|left| bounds[left].as_ref()) {
        None => true,
        Some((low, _)) => low.as_slice() <= key,
    };
    let may_end = |at: usize| match &bounds[at] {
        None => true,
        Some((high, has_tid)) => key < high.as_slice() || (key == high.as_slice() && *has_tid),
    };
    (0..bounds.len()).filter(|&at| may_begin(at) && may_end(at)).count() as u64
}

/// Returns the number of entries found by a lookup, and of leaves read.
fn look_up(index: &Index, key: &[u8], direction: Direction) -> (usize, u64) {
    let before = index.stats();
    let mut scan = Scan::default();
    scan.look_up(index, key, direction);
    let mut found = 0;
    while scan.next(index).unwrap() {
        found += scan.batch().len();
    }
    let after = index.stats();
    assert_eq!(after.lookups, before.lookups + 1);
    (found, after.lookup_leaf_pages - before.lookup_leaf_pages)
}

/// Returns a key. No key is a prefix of another, as in the encoding of values.
fn key(number: u32, long: bool) -> Vec<u8> {
    let mut key = vec![1];
    key.extend_from_slice(&number.to_be_bytes());
    if long {
        key.extend(std::iter::repeat_n(number as u8, number as usize % 300));
    }
    key
}

fn options(page_items_max: Option<u16>, deduplicate_items: bool) -> IndexOptions {
    IndexOptions { deduplicate_items, page_items_max, ..IndexOptions::default() }
}

/// Returns an index with these numbers, inserted in an order that `seed` decides.
fn shuffled(numbers: &BTreeSet<u32>, seed: u64, long: bool, options: IndexOptions) -> Index {
    let index = index(options);
    let rng = SeededRng::new(seed);
    let mut order: Vec<u32> = numbers.iter().copied().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    order.iter().for_each(|&n| {
        insert(&index, &key(n, long), Tid::new(n, 1));
    });
    index
}

/// Deletes the entries that `which` accepts, and the pages left empty.
fn delete(index: &Index, mut which: impl FnMut(&[u8], Tid) -> bool) {
    let mut decide = |entry: crate::BatchEntry<'_>| {
        if which(entry.key, entry.tid) { EntryDecision::Delete } else { EntryDecision::Keep }
    };
    index.vacuum(&mut decide).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_unique_key_takes_one_leaf(
        numbers in prop::collection::btree_set(0u32..2000, 1..400),
        order in any::<u64>(),
        long: bool,
        tiny: bool,
    ) {
        let index = shuffled(&numbers, order, long, options(tiny.then_some(4), true));
        // Keys that exist and keys that do not, including keys at the edges of pages.
        for number in 0..2001 {
            let expected = usize::from(numbers.contains(&number));
            for direction in BOTH {
                prop_assert_eq!(look_up(&index, &key(number, long), direction), (expected, 1));
            }
        }
    }

    #[test]
    fn a_unique_key_takes_one_leaf_after_deletions(
        numbers in prop::collection::btree_set(0u32..600, 1..400),
        gone in prop::collection::btree_set(0u32..600, 1..500),
        again in prop::collection::btree_set(0u32..600, 0..100),
        order in any::<u64>(),
        long: bool,
        tiny: bool,
    ) {
        let index = shuffled(&numbers, order, long, options(tiny.then_some(4), true));
        delete(&index, |_, tid| gone.contains(&tid.block.0));
        let mut there: BTreeSet<u32> = numbers.difference(&gone).copied().collect();
        for &number in &again {
            insert(&index, &key(number, long), Tid::new(number, 1));
            there.insert(number);
        }
        prop_assert_eq!(checked(&index).len(), there.len());
        for number in 0..601 {
            let expected = usize::from(there.contains(&number));
            for direction in BOTH {
                prop_assert_eq!(look_up(&index, &key(number, long), direction), (expected, 1));
            }
        }
    }

    #[test]
    fn duplicates_take_the_leaves_that_hold_them(
        entries in prop::collection::vec((0u32..6, 0u32..4000), 1..3000),
        deduplicate: bool,
        tiny: bool,
    ) {
        let index = index(options(tiny.then_some(5), deduplicate));
        for &(number, tid) in &entries {
            insert(&index, &key(number, false), Tid::new(tid, 1));
        }
        let holders = holders(&index);
        prop_assert!(checked(&index).len() <= entries.len());
        for (key, leaves) in &holders {
            let (found, visited) = look_up(&index, key, Direction::Forward);
            prop_assert_eq!(visited, leaves.len() as u64, "{} entries of {:?}", found, key);
        }
    }

    /// Deleted entries may have held a leaf whose range goes on to another key: lookups read that
    /// leaf as well.
    #[test]
    fn after_deletions_duplicates_take_the_leaves_of_their_range(
        entries in prop::collection::vec((0u32..6, 0u32..2000), 1..2000),
        gone in prop::collection::vec((0u32..6, 0u32..2000, 1u32..1000), 1..4),
        deduplicate: bool,
        tiny: bool,
    ) {
        let index = index(options(tiny.then_some(5), deduplicate));
        for &(number, tid) in &entries {
            insert(&index, &key(number, false), Tid::new(tid, 1));
        }
        delete(&index, |found, tid| {
            gone.iter().any(|&(number, from, length)| {
                found == key(number, false) && (from..from + length).contains(&tid.block.0)
            })
        });
        let (bounds, holders) = (upper_bounds(&index), holders(&index));
        for number in 0..7 {
            let key = key(number, false);
            let (_, visited) = look_up(&index, &key, Direction::Forward);
            prop_assert_eq!(visited, leaves_in_range(&bounds, &key), "{}", number);
            prop_assert!(visited >= holders.get(&key).map_or(1, |held| held.len() as u64));
        }
    }
}

#[test]
fn a_thousand_duplicates_take_exactly_their_leaves() {
    for deduplicate in [true, false] {
        let index = index(options(None, deduplicate));
        for n in 0..20_000u32 {
            insert(&index, &key(n % 20, false), Tid::new(n, 1));
        }
        let holders = holders(&index);
        for number in 0..20 {
            let key = key(number, false);
            let (found, visited) = look_up(&index, &key, Direction::Forward);
            assert_eq!(found, 1000);
            assert_eq!(visited, holders[&key].len() as u64);
            // 1,000 entries of 17 bytes, or of 6 in lists.
            assert!(visited <= if deduplicate { 2 } else { 4 }, "{visited}");
        }
    }
}

#[test]
fn the_keys_at_the_edges_of_pages_take_one_leaf() {
    let numbers: BTreeSet<u32> = (0..5000).collect();
    let index = shuffled(&numbers, 1, true, options(None, true));
    let mut edges: BTreeMap<BlockNumber, Vec<Vec<u8>>> = BTreeMap::new();
    for (key, leaves) in holders(&index) {
        edges.entry(*leaves.first().unwrap()).or_default().push(key);
    }
    assert!(edges.len() > 20, "{} leaves", edges.len());
    for keys in edges.values() {
        for edge in [&keys[0], &keys[keys.len() - 1]] {
            for direction in BOTH {
                assert_eq!(look_up(&index, edge, direction), (1, 1), "{edge:?}");
            }
        }
    }
}

#[test]
fn only_whole_keys_count_as_lookups() {
    let index = index(options(None, true));
    (0..100).for_each(|n| {
        insert(&index, &key(n, false), Tid::new(n, 1));
    });
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::equal(&key(7, false)[..3]), Direction::Forward);
    assert!(scan.next(&index).unwrap());
    assert_eq!((index.stats().lookups, index.stats().lookup_leaf_pages), (0, 0));
    assert_eq!(look_up(&index, &key(7, false), Direction::Forward), (1, 1));
    // The same scan is started again for another range.
    scan.look_up(&index, &key(8, false), Direction::Forward);
    assert!(scan.next(&index).unwrap());
    scan.start(&index, &KeyRange::ALL, Direction::Forward);
    assert!(scan.next(&index).unwrap());
    assert_eq!((index.stats().lookups, index.stats().lookup_leaf_pages), (2, 2));
}

#[test]
fn a_lookup_in_an_emptied_index_takes_one_leaf() {
    let index = index(options(Some(4), true));
    (0..64).for_each(|n| {
        insert(&index, &key(n, false), Tid::new(n, 1));
    });
    delete(&index, |_, _| true);
    for number in 0..64 {
        assert_eq!(look_up(&index, &key(number, false), Direction::Forward), (0, 1));
    }
}
