//! How many leaves a lookup reads: those that hold what it looks for, and no other.

use std::collections::{BTreeMap, BTreeSet};

use niwaki_storage::{BlockNumber, Tid};
use proptest::prelude::*;

use super::{checked, index, insert};
use crate::{Direction, Index, IndexOptions, KeyRange, Scan};

/// Leaves that hold each key.
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

/// Entries found by a lookup, and leaves read.
fn look_up(index: &Index, key: &[u8], direction: Direction) -> (usize, u64) {
    let before = index.stats().equality_leaf_visits;
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::equal(key), direction);
    let mut found = 0;
    while scan.next(index).unwrap() {
        found += scan.batch().len();
    }
    (found, index.stats().equality_leaf_visits - before)
}

/// No key is a prefix of another, as the encoding of values makes them.
fn key(number: u32, long: bool) -> Vec<u8> {
    let mut key = vec![1];
    key.extend_from_slice(&number.to_be_bytes());
    if long {
        key.extend(std::iter::repeat_n(number as u8, number as usize % 300));
    }
    key
}

fn options(page_items_max: Option<u16>, deduplicate_items: bool) -> IndexOptions {
    IndexOptions { page_items_max, deduplicate_items, ..IndexOptions::default() }
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
        let index = index(options(tiny.then_some(4), true));
        let rng = niwaki_env::rng::SeededRng::new(order);
        let mut inserted: Vec<u32> = numbers.iter().copied().collect();
        for at in (1..inserted.len()).rev() {
            inserted.swap(at, rng.below(at as u64 + 1) as usize);
        }
        inserted.iter().for_each(|&n| { insert(&index, &key(n, long), Tid::new(n, 1)); });
        // Keys that are there and keys that are not, those at the edges of pages among them.
        for number in 0..2001 {
            let expected = usize::from(numbers.contains(&number));
            for direction in [Direction::Forward, Direction::Backward] {
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
