//! Packing runs beside all other operations: entries go right, leaf by leaf, and every other leaf
//! goes.

use std::sync::Arc;

use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_storage::{BlockNumber, OffsetNumber, Tid, Xid};

use super::concurrent::{NobodyElse, STEPS, delete, interleave, scan_and_verify, spawn, tiny_of};
use super::{checked, entry, insert};
use crate::{Direction, EntryDecision, EntryOutcome, Index};

#[cfg(feature = "shuttle")]
mod scheduled {
    use super::super::concurrent::scheduled::finds;

    #[test]
    fn a_backward_scan_that_is_not_told_of_a_shift_is_found() {
        finds("shift_leaves_left_links", super::scans_among_packing);
    }

    #[test]
    fn a_forward_scan_that_reads_what_went_over_again_is_found() {
        finds("scan_reads_what_it_passed", super::scans_among_packing);
    }

    #[test]
    fn a_pass_that_is_not_told_is_found() {
        finds("pass_forgets_shifted", super::vacuum_among_packing);
    }

    #[test]
    fn packing_that_trusts_its_links_is_found() {
        finds("packing_trusts_its_links", super::page_deletions_among_packing);
    }
}

/// The number of leaves that were full once.
const LEAVES: u8 = 6;
/// The TID of entries that stay.
const STAYS: Tid = Tid { block: BlockNumber(1000), offset: OffsetNumber(1) };
/// The TID of entries that go.
const GOES: Tid = Tid { block: BlockNumber(1), offset: OffsetNumber(1) };

/// Makes leaves of four entries and deletes two in each. No deletion merges the leaves, and packing
/// makes them fewer. Returns the remaining keys. With `backward`, pages are in the file in the
/// opposite order of the level.
fn half_empty(index: &Index, backward: bool) -> Vec<Vec<u8>> {
    let keys = (0..LEAVES).flat_map(|n| [0, 5, 7, 14].map(|at| n * 20 + at));
    let stays = |key: u8| matches!(key % 20, 0 | 5);
    let mut all: Vec<u8> = keys.collect();
    if backward {
        all.reverse();
    }
    for &key in &all {
        insert(index, &[key], if stays(key) { STAYS } else { GOES });
    }
    all.sort_unstable();
    for &key in all.iter().filter(|&&key| !stays(key)) {
        assert!(delete(index, &[key], GOES));
    }
    all.into_iter().filter(|&key| stays(key)).map(|key| vec![key]).collect()
}

fn pack(index: &Arc<Index>) -> thread::JoinHandle<()> {
    let index = Arc::clone(index);
    spawn(move || {
        index.pack_all(&mut || Ok(())).unwrap();
    })
}

/// Scans run both ways: no entry is missed or seen twice.
#[test]
fn scans_among_packing_see_each_entry_once() {
    interleave(scans_among_packing);
}

fn scans_among_packing(seed: u64) {
    let index = tiny_of(4);
    let keys = Arc::new(half_empty(&index, !seed.is_multiple_of(2)));
    let mut threads = vec![pack(&index)];
    for direction in [Direction::Forward, Direction::Backward] {
        let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
        threads.push(spawn(move || {
            for _ in 0..=(STEPS / 20) {
                scan_and_verify(&index, &keys, direction);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(index.stats().leaf_shifts + index.stats().merged_leaves > 0);
    assert_eq!(checked(&index).len(), keys.len());
}

/// A pass of vacuum meets entries that go over from a page that it has not reached to a page that
/// it has passed.
#[test]
fn vacuum_among_packing_misses_nothing() {
    interleave(vacuum_among_packing);
}

fn vacuum_among_packing(_seed: u64) {
    let index = tiny_of(4);
    let keys = half_empty(&index, true);
    let packer = pack(&index);
    let mut seen = std::collections::BTreeSet::new();
    let mut note = |entry: crate::BatchEntry<'_>| {
        seen.insert(entry.key.to_vec());
        EntryDecision::Keep
    };
    index.vacuum(&mut note).unwrap();
    packer.join().unwrap();
    assert_eq!(seen.len(), keys.len(), "{seen:?}");
    assert_eq!(checked(&index).len(), keys.len());
}

/// Entries that come to leaves while these are packed exist afterwards, and a unique key only once.
#[test]
fn insertions_among_packing_are_all_there() {
    interleave(insertions_among_packing);
}

fn insertions_among_packing(seed: u64) {
    let index = tiny_of(4);
    let keys = half_empty(&index, !seed.is_multiple_of(2));
    let packer = pack(&index);
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
    packer.join().unwrap();
    expected.extend(keys);
    expected.sort_unstable();
    let found: Vec<Vec<u8>> = checked(&index).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, expected);
}

/// The deletion of a list of entries goes from leaf to leaf by their parents, which split and go
/// meanwhile.
#[test]
fn lists_of_entries_go_among_splits_and_page_deletions() {
    interleave(lists_among_splits);
}

fn lists_among_splits(seed: u64) {
    let index = tiny_of(4);
    let keys = half_empty(&index, !seed.is_multiple_of(2));
    for key in &keys {
        insert(&index, &[key[0], 1], GOES);
    }
    let (from, to) = if seed.is_multiple_of(3) { (0, 6) } else { (4, 10) };
    let deleter = {
        let (index, keys) = (Arc::clone(&index), keys.clone());
        spawn(move || {
            let listed: Vec<[u8; 2]> = keys.iter().map(|key| [key[0], 1]).collect();
            let list: Vec<(&[u8], Tid)> = listed.iter().map(|key| (&key[..], GOES)).collect();
            let decide = &mut |_| Ok((EntryDecision::Delete, None));
            let deleted = index.delete_listed(&list, Xid::INVALID, decide).unwrap();
            assert_eq!(deleted, keys.len() as u64, "each was there all the time");
        })
    };
    let changer = {
        let (index, keys) = (Arc::clone(&index), keys.clone());
        spawn(move || {
            for key in &keys[from..to] {
                assert!(delete(&index, key, STAYS));
            }
            for number in 0..10u8 {
                insert(&index, &[keys[usize::from(number)][0], 2], STAYS);
            }
        })
    };
    deleter.join().unwrap();
    changer.join().unwrap();
    assert_eq!(checked(&index).len(), keys.len() - 6 + 10);
}

/// Leaves that packing has not reached yet are emptied, deleted, and used again elsewhere.
#[test]
fn page_deletions_among_packing_are_noticed() {
    interleave(page_deletions_among_packing);
}

fn page_deletions_among_packing(seed: u64) {
    let index = tiny_of(4);
    let keys = half_empty(&index, false);
    let packer = pack(&index);
    let changer = {
        let (index, keys) = (Arc::clone(&index), keys.clone());
        spawn(move || {
            let (from, to) = if seed.is_multiple_of(2) { (0, 4) } else { (2, 8) };
            for key in &keys[from..to] {
                assert!(delete(&index, key, STAYS));
            }
            for number in 0..8u8 {
                insert(&index, &[118, number], GOES);
            }
        })
    };
    packer.join().unwrap();
    changer.join().unwrap();
    let gone = if seed.is_multiple_of(2) { 4 } else { 6 };
    assert_eq!(checked(&index).len(), keys.len() - gone + 8);
}
