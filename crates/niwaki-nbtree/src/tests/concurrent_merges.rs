//! Merges run beside all other operations: the entries of a leaf are on the page to its right, and
//! the leaf is gone.

use std::sync::Arc;

use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_storage::Tid;

use super::concurrent::{
    NobodyElse, STEPS, delete, interleave, scan_and_verify, spawn, tiny, tiny_of,
};
use super::{checked, entry, insert};
use crate::{Direction, EntryDecision, EntryOutcome, EntryPlace, Index, KeyRange, Scan};

#[cfg(feature = "shuttle")]
mod scheduled {
    use super::super::concurrent::scheduled::finds;

    #[test]
    fn a_backward_scan_that_is_not_told_is_found() {
        finds("merge_tells_nobody", super::scans_among_merges);
    }

    #[test]
    fn a_pass_that_is_not_told_is_found() {
        finds("merge_tells_nobody", super::vacuum_among_merges);
    }

    #[test]
    fn a_forward_scan_that_reads_what_went_over_again_is_found() {
        finds("scan_reads_what_it_passed", super::scans_among_merges);
    }

    #[test]
    fn a_merge_that_keeps_versions_is_found() {
        finds("merge_keeps_versions", super::marks_among_merges);
    }

    #[test]
    fn a_merge_that_lets_go_of_the_right_leaf_is_found() {
        finds("merge_lets_go", super::insertions_among_merges);
    }
}

/// The number of keys that stay.
const STAY: u8 = 6;

/// Makes full leaves of three keys and returns the keys that stay: one in each leaf. Once the other
/// two have gone, two leaves fit on one page.
fn about_to_be_sparse(index: &Index) -> Vec<Vec<u8>> {
    for n in 0..STAY {
        insert(index, &[n * 20], Tid::new(1000, 1));
        insert(index, &[n * 20 + 7], Tid::new(1, 1));
        insert(index, &[n * 20 + 14], Tid::new(1, 1));
    }
    (0..STAY).map(|n| vec![n * 20]).collect()
}

/// Deletes the other keys, from right to left, or in random order.
fn thin_out(index: &Index, seed: u64) {
    let rng = SeededRng::new(seed);
    let mut order: Vec<u8> = (0..STAY).rev().flat_map(|n| [n * 20 + 7, n * 20 + 14]).collect();
    let shuffled = !seed.is_multiple_of(2);
    for at in (1..order.len()).rev().filter(|_| shuffled) {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    for key in order {
        assert!(delete(index, &[key], Tid::new(1, 1)));
    }
}

/// Scans run both ways among merges: no entry that stays is missed or seen twice.
#[test]
fn scans_among_merges_see_each_entry_once() {
    interleave(scans_among_merges);
}

fn scans_among_merges(seed: u64) {
    let index = tiny();
    let keys = Arc::new(about_to_be_sparse(&index));
    let mut threads = Vec::new();
    let deleter = Arc::clone(&index);
    threads.push(spawn(move || thin_out(&deleter, seed)));
    for direction in [Direction::Forward, Direction::Backward] {
        let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
        threads.push(spawn(move || {
            for _ in 0..=(STEPS / 20) {
                scan_and_verify(&index, &keys, direction);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(index.stats().merged_leaves > 0 || !seed.is_multiple_of(2));
    assert_eq!(checked(&index).len(), keys.len());
}

/// A pass of vacuum meets entries that go over from a page that it has not reached to a page that
/// it has passed.
#[test]
fn vacuum_among_merges_misses_nothing() {
    interleave(vacuum_among_merges);
}

fn vacuum_among_merges(seed: u64) {
    let index = tiny();
    // From the last key to the first: pages are in the file as they are on the level, but backward.
    for n in (0..STAY).rev() {
        insert(&index, &[n * 20 + 14], Tid::new(1, 1));
        insert(&index, &[n * 20 + 7], Tid::new(1, 1));
        insert(&index, &[n * 20], Tid::new(2000, 1));
    }
    let deleter = {
        let index = Arc::clone(&index);
        spawn(move || thin_out(&index, seed))
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut note = |entry: crate::BatchEntry<'_>| {
        seen.extend((entry.tid == Tid::new(2000, 1)).then(|| entry.key.to_vec()));
        EntryDecision::Keep
    };
    index.vacuum(&mut note).unwrap();
    deleter.join().unwrap();
    assert_eq!(seen.len(), usize::from(STAY), "{seen:?}");
    assert_eq!(checked(&index).len(), usize::from(STAY));
}

/// Marks land on the entries that were read, or on none.
#[test]
fn marks_among_merges_land_on_what_is_dead() {
    interleave(marks_among_merges);
}

fn marks_among_merges(seed: u64) {
    // Pages are wide enough for a leaf that takes others over and still has an entry that goes.
    let index = tiny_of(4);
    // Rows of heap block 1 are dead.
    let keys = about_to_be_sparse(&index);
    let deleter = {
        let index = Arc::clone(&index);
        spawn(move || thin_out(&index, seed))
    };
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::ALL, Direction::Forward);
    let mut read = Vec::new();
    while scan.next(&index).unwrap() {
        let dead: Vec<EntryPlace> = (0..scan.batch().len())
            .filter(|&at| scan.batch().get(at).is_some_and(|entry| entry.tid.block.0 == 1))
            .filter_map(|at| scan.batch().place(at))
            .collect();
        read.push((scan.batch().leaf().unwrap(), dead));
    }
    for (leaf, mut dead) in read {
        index.mark_dead_places(leaf, &mut dead);
    }
    deleter.join().unwrap();
    scan_and_verify(&index, &keys, Direction::Forward);
    checked(&index);
}

/// Entries that come to both leaves while they become one exist afterwards, and a unique key only
/// once.
#[test]
fn insertions_among_merges_are_all_there() {
    interleave(insertions_among_merges);
}

fn insertions_among_merges(seed: u64) {
    let index = tiny();
    let keys = about_to_be_sparse(&index);
    let deleter = {
        let index = Arc::clone(&index);
        spawn(move || thin_out(&index, seed))
    };
    let threads: Vec<_> = (0..2u16)
        .map(|number| {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let rng = SeededRng::new(seed);
                let mut inserted = Vec::new();
                for _ in 0..STEPS.min(40) {
                    let key = vec![rng.below(120) as u8, 1];
                    let new = entry(&key, Tid::new(7, 1 + number));
                    let outcome = index.insert(&new, Some(&NobodyElse), None).unwrap();
                    inserted.extend((outcome == EntryOutcome::Inserted).then_some(key));
                }
                inserted
            })
        })
        .collect();
    let mut expected: Vec<Vec<u8>> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    deleter.join().unwrap();
    expected.extend(keys);
    expected.sort_unstable();
    let found: Vec<Vec<u8>> = checked(&index).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, expected);
}
