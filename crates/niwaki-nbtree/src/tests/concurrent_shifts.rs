//! Shifts run beside all other operations: existing entries move to another page, to the right.

use std::sync::Arc;

use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_storage::Tid;

use super::concurrent::{
    NobodyElse, STEPS, delete, fixed, interleave, scan_and_verify, spawn, tiny, tiny_of,
    vacuum_beside_insertions,
};
use super::{checked, entry, insert};
use crate::{Direction, EntryOutcome, EntryPlace, Index, KeyRange, Scan};

#[cfg(feature = "shuttle")]
mod scheduled {
    use super::super::concurrent::scheduled::finds;

    #[test]
    fn a_backward_scan_that_overlooks_shifts_is_found() {
        finds("shift_leaves_left_links", super::scans_among_shifts);
    }

    #[test]
    fn a_forward_scan_that_reads_what_went_over_again_is_found() {
        finds("scan_reads_what_it_passed", super::scans_among_shifts);
    }

    #[test]
    fn a_pass_that_forgets_what_went_over_is_found() {
        finds("pass_forgets_shifted", super::vacuum_among_shifts);
    }

    #[test]
    fn a_backward_scan_that_overlooks_tight_shifts_is_found() {
        finds("shift_leaves_left_links", super::scans_among_tight_shifts);
    }

    /// Between the search for room and the shift, a leaf on the way is deleted.
    #[test]
    fn a_shift_that_trusts_its_links_is_found() {
        finds("way_trusts_its_links", super::shifts_among_page_deletions);
    }

    #[test]
    fn a_shift_that_keeps_versions_is_found() {
        finds("shift_keeps_versions", super::marks_among_shifts);
    }

    #[test]
    fn a_shift_that_lets_go_of_the_leaf_is_found() {
        finds("shift_lets_go", super::unique_insertions_that_shift);
    }
}

/// Makes full leaves and keys that stay; of the other keys every `gap`th is gone.
fn with_gaps(index: &Index, gap: usize) -> Vec<Vec<u8>> {
    let keys = fixed(index);
    for n in 0..12u8 {
        insert(index, &[n * 20 + 10], Tid::new(1, 1));
    }
    for n in (2..12u8).step_by(gap) {
        assert!(delete(index, &[n * 20 + 10], Tid::new(1, 1)));
    }
    index.credit.spend(u64::MAX);
    keys
}

/// Makes full leaves, each with a right sibling that has room, and keys that stay.
fn with_room(index: &Index) -> Vec<Vec<u8>> {
    // The full leaves have three keys each; every other leaf keeps one.
    with_gaps(index, 3)
}

/// Makes two leaves that have room, and credit for any shifts that bring the room to a full leaf.
fn with_little_room(index: &Index) -> Vec<Vec<u8>> {
    let keys = with_gaps(index, 6);
    index.earn(1000);
    keys
}

/// Scans run both ways among shifts: no entry that stays is missed or seen twice.
#[test]
fn scans_among_shifts_see_each_entry_once() {
    interleave(scans_among_shifts);
}

fn scans_among_shifts(seed: u64) {
    let index = tiny();
    let keys = with_room(&index);
    scans_among_insertions(&index, keys, seed);
}

/// The same where room comes from further right, step by step.
#[test]
fn scans_among_tight_shifts_see_each_entry_once() {
    interleave(scans_among_tight_shifts);
}

fn scans_among_tight_shifts(seed: u64) {
    let index = tiny();
    let keys = with_little_room(&index);
    scans_among_insertions(&index, keys, seed);
}

fn scans_among_insertions(index: &Arc<Index>, keys: Vec<Vec<u8>>, seed: u64) {
    let keys = Arc::new(keys);
    let mut threads = Vec::new();
    let inserter = Arc::clone(index);
    threads.push(spawn(move || {
        let rng = SeededRng::new(seed);
        for step in 0..STEPS {
            insert(&inserter, &[rng.below(250) as u8, 1], Tid::new(step as u32, 1));
        }
    }));
    for direction in [Direction::Forward, Direction::Backward] {
        let (index, keys) = (Arc::clone(index), Arc::clone(&keys));
        threads.push(spawn(move || {
            for _ in 0..=(STEPS / 20) {
                scan_and_verify(&index, &keys, direction);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    checked(index);
}

/// A pass of vacuum meets entries that go over from a page that it has not reached to a page that
/// it has passed.
#[test]
fn vacuum_among_shifts_misses_nothing() {
    interleave(vacuum_among_shifts);
}

fn vacuum_among_shifts(seed: u64) {
    let index = tiny();
    // From the last key to the first: pages are in the file as they are on the level, but backward.
    for n in (0..20u8).rev() {
        insert(&index, &[n * 10], Tid::new(2000, 1));
    }
    vacuum_beside_insertions(&index, seed);
}

/// Marks land on the entries that were read, or on none.
#[test]
fn marks_among_shifts_land_on_what_is_dead() {
    interleave(marks_among_shifts);
}

fn marks_among_shifts(seed: u64) {
    let index = tiny();
    // Rows of heap block 1 are dead.
    let keys = with_room(&index);
    let inserter = {
        let index = Arc::clone(&index);
        spawn(move || {
            let rng = SeededRng::new(seed);
            for step in 0..STEPS {
                insert(&index, &[rng.below(250) as u8, 1], Tid::new(9, 1 + step as u16));
            }
        })
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
    inserter.join().unwrap();
    scan_and_verify(&index, &keys, Direction::Forward);
    checked(&index);
}

/// The leaf where a unique key belongs is full, and shifts. Of all insertions of the key one
/// succeeds, whether the key goes to the one page or to the other.
#[test]
fn of_unique_insertions_that_shift_one_succeeds() {
    interleave(unique_insertions_that_shift);
}

fn unique_insertions_that_shift(seed: u64) {
    let key = [if seed.is_multiple_of(2) { 15 } else { 25 }];
    let index = tiny();
    (1..=9u8).for_each(|n| {
        insert(&index, &[n * 10], Tid::new(1, 1));
    });
    assert!(delete(&index, &[50], Tid::new(1, 1)) && delete(&index, &[60], Tid::new(1, 1)));
    let threads: Vec<_> = (0..3u16)
        .map(|number| {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let new = entry(&key, Tid::new(7, 1 + number));
                index.insert(&new, Some(&NobodyElse), None).unwrap()
            })
        })
        .collect();
    let outcomes: Vec<EntryOutcome> =
        threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let inserted = outcomes.iter().filter(|&&outcome| outcome == EntryOutcome::Inserted).count();
    assert_eq!(inserted, 1, "{outcomes:?}");
    assert_eq!(checked(&index).iter().filter(|entry| entry.0 == key).count(), 1);
    assert_eq!(index.stats().leaf_shifts, 1);
}

/// Leaves between the full leaf and the room are deleted, and put to use again elsewhere.
#[test]
fn shifts_among_page_deletions_lose_nothing() {
    interleave(shifts_among_page_deletions);
}

fn shifts_among_page_deletions(seed: u64) {
    // Pages are wide enough for several leaves under one parent.
    let index = tiny_of(4);
    for n in 0..24u8 {
        insert(&index, &[n * 10], Tid::new(1, 1));
    }
    let kept = |n: u8| !(4..12).contains(&n) && n != 13;
    index.earn(1000);
    assert!(delete(&index, &[130], Tid::new(1, 1)));
    let deleter = {
        let index = Arc::clone(&index);
        spawn(move || {
            for n in (4..12).map(|n| if seed.is_multiple_of(2) { n } else { 15 - n }) {
                assert!(delete(&index, &[n * 10], Tid::new(1, 1)));
            }
        })
    };
    for step in 0..STEPS as u16 {
        insert(&index, &[15 + (step % 4) as u8 * 5], Tid::new(2, 1 + step));
    }
    deleter.join().unwrap();
    let entries = checked(&index);
    let old = entries.iter().filter(|entry| entry.1.block.0 == 1).map(|entry| entry.0[0]);
    assert!(old.eq((0..24u8).filter(|&n| kept(n)).map(|n| n * 10)));
    assert_eq!(entries.len(), 15 + STEPS as usize);
}
