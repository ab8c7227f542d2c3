//! Bottom-up deletion: its occasion, the blocks it visits, and the entries it leaves.

use niwaki_storage::{Csn, Result, Tid, Xid};

use super::test_table::TestTable;
use super::{checked, entry, index, insert};
use crate::{
    DeletionCandidate, EntryOutcome, Index, IndexOptions, NewEntry, UniqueCheck, UniqueVerdict,
    VersionHint,
};

fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

/// Returns an entry for another version of the row with this key.
fn version(key: &[u8], tid: Tid) -> NewEntry<'_> {
    NewEntry { logically_unchanged: true, ..entry(key, tid) }
}

/// Returns a leaf that takes no more: keys 0 to 5 on heap block 1, their second versions on heap
/// block 2.
fn churned(options: IndexOptions) -> Index {
    let index = index(IndexOptions { page_items_max: Some(12), ..options });
    for (block, offset) in [(1, 1), (2, 1)] {
        for n in 0..6 {
            insert(&index, &key(n), Tid::new(block, offset + n));
        }
    }
    index
}

fn on_block(block: u32) -> impl Fn(&DeletionCandidate<'_>) -> bool {
    move |candidate| candidate.tid.block.0 == block
}

#[test]
fn versions_make_room_for_versions() {
    let index = churned(IndexOptions::default());
    let table = TestTable::new(on_block(1));
    let new = key(3);
    let outcome = index.insert(&version(&new, Tid::new(3, 1)), None, Some(&table)).unwrap();
    assert_eq!(outcome, EntryOutcome::Inserted);
    // Both blocks promise the same: the lower goes first, and frees less than the pass wants.
    assert_eq!(*table.visited.borrow(), [1, 2]);
    assert_eq!(*table.ended.borrow(), [true]);
    let mut expected: Vec<_> = (0..6).map(|n| (key(n).to_vec(), Tid::new(2, 1 + n))).collect();
    expected.insert(4, (key(3).to_vec(), Tid::new(3, 1)));
    assert_eq!(checked(&index), expected);
    let stats = index.stats();
    assert_eq!((stats.bottom_up_deletions, stats.bottom_up_useless), (1, 0));
    assert_eq!((stats.bottom_up_deleted_entries, stats.bottom_up_heap_blocks), (6, 2));
    assert_eq!((stats.leaf_splits, stats.dedup_passes), (0, 0));
    assert!((64..100).contains(&stats.bottom_up_wal_bytes), "{}", stats.bottom_up_wal_bytes);
    assert_eq!(index.latch_hold().iter().sum::<u64>(), 1);
}

#[test]
fn without_a_hint_or_with_the_switch_off_it_is_not_tried() {
    for (bottom_up_deletion, hinted) in [(true, false), (false, true)] {
        let index = churned(IndexOptions { bottom_up_deletion, ..IndexOptions::default() });
        let table = TestTable::new(on_block(1));
        let new = NewEntry { logically_unchanged: hinted, ..entry(&[9, 9], Tid::new(3, 1)) };
        index.insert(&new, None, Some(&table)).unwrap();
        assert!(table.asked.borrow().is_empty());
        assert_eq!(index.stats().bottom_up_deletions, 0);
        assert_eq!(checked(&index).len(), 13);
    }
}

/// A leaf that took in a version is worth a try for any entry, once, if the option allows.
#[test]
fn a_hint_may_count_for_the_page() {
    for (version_hint, passes) in [(VersionHint::LastItem, 0), (VersionHint::Page, 1)] {
        let options = IndexOptions { version_hint, deduplicate_items: false, ..Default::default() };
        let index = index(IndexOptions { page_items_max: Some(6), ..options });
        for n in 0..5 {
            insert(&index, &key(n), Tid::new(1, 1 + n));
        }
        index.insert(&version(&key(3), Tid::new(2, 1)), None, None).unwrap();
        let table = TestTable::new(on_block(1));
        index.insert(&entry(&key(9), Tid::new(3, 1)), None, Some(&table)).unwrap();
        assert_eq!(index.stats().bottom_up_deletions, passes);
        assert_eq!(checked(&index).len(), if passes == 0 { 7 } else { 2 });
        assert!(!index.version_leaves.take(niwaki_storage::BlockNumber(1)) || passes == 0);
    }
}

/// The first block on which nothing is freed ends the pass: a useless pass costs one heap page.
#[test]
fn it_gives_up_after_one_block_in_vain() {
    let index = churned(IndexOptions { deduplicate_items: false, ..IndexOptions::default() });
    let table = TestTable::new(on_block(2));
    index.insert(&version(&key(3), Tid::new(3, 1)), None, Some(&table)).unwrap();
    assert_eq!(*table.visited.borrow(), [1]);
    assert_eq!(*table.ended.borrow(), [false]);
    let stats = index.stats();
    assert_eq!((stats.bottom_up_useless, stats.bottom_up_useless_blocks), (1, 1));
    assert_eq!((stats.leaf_splits, stats.version_splits), (1, 1));
    assert_eq!(checked(&index).len(), 13);
}

#[test]
fn at_most_six_blocks_are_visited() {
    let index = index(IndexOptions { page_items_max: Some(20), ..IndexOptions::default() });
    for n in 0..20 {
        insert(&index, &key(n / 2), Tid::new(1 + u32::from(n), 1));
    }
    let table = TestTable::new(|_| true);
    index.insert(&version(&key(3), Tid::new(90, 1)), None, Some(&table)).unwrap();
    assert_eq!(*table.visited.borrow(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(index.stats().bottom_up_heap_blocks_max, 6);
}

/// Most entries of a leaf of few keys lie on a few heap blocks, but the entries that die lie on
/// other blocks. These are removed before a split.
#[test]
fn what_died_on_blocks_that_promise_little_goes_too() {
    const FULL: u16 = 400;
    let index = index(IndexOptions {
        page_items_max: Some(FULL),
        deduplicate_items: false,
        ..IndexOptions::default()
    });
    let mut blocks: Vec<(u32, u16)> = (1..=16).map(|block| (block, 10)).collect();
    blocks.extend((100..220).map(|block| (block, 2)));
    let tids = blocks.iter().flat_map(|&(block, count)| (1..=count).map(move |n| (block, n)));
    for (number, (block, offset)) in (0..).zip(tids) {
        insert(&index, &key(number % 10), Tid::new(block, offset));
    }
    assert_eq!(checked(&index).len(), usize::from(FULL));
    // Of the 120 blocks with two entries 68 hold dead entries; the first 32 and the last 20 do not.
    let is_alive = |block: u32| block < 132 || (200..220).contains(&block);
    let table = TestTable::new(move |candidate| !is_alive(candidate.tid.block.0));
    table.alive.borrow_mut().extend((1..220).filter(|&block| is_alive(block)));
    table.alive.borrow_mut().insert(300);
    let dead = 2 * (132..200).count() as u16;
    for n in 0..dead {
        let new = key(n % 10);
        let outcome = index.insert(&version(&new, Tid::new(300, 1 + n)), None, Some(&table));
        assert_eq!(outcome.unwrap(), EntryOutcome::Inserted);
    }
    let stats = index.stats();
    assert_eq!(stats.leaf_splits, 0);
    assert_eq!(stats.bottom_up_deleted_entries, u64::from(dead));
    // Each pass removes six blocks of two entries.
    assert_eq!(
        (stats.bottom_up_deletions, stats.bottom_up_useless),
        (u64::from(dead.div_ceil(12)), 0)
    );
    assert!(checked(&index).iter().all(|(_, tid)| tid.block.0 == 300 || is_alive(tid.block.0)));
}

/// Behind the favourable blocks the pass is content with less and less.
#[test]
fn far_blocks_are_visited_only_while_little_was_freed() {
    let index = index(IndexOptions::default());
    // 40 entries of 14 bytes with their line pointers on block 1, 10 on each of the others.
    let mut n = 0;
    for (block, count) in [(1, 40), (50, 10), (100, 10), (150, 10)] {
        for offset in 0..count {
            insert(&index, &key(n % 35), Tid::new(block, 1 + offset));
            n += 1;
        }
    }
    let leaf = index.pin(niwaki_storage::BlockNumber(1)).unwrap();
    let dead = |candidate: &DeletionCandidate<'_>| candidate.tid.offset.0 <= 20;
    let deletion = TestTable::new(dead);
    deletion.blind.set(true);
    let pass = crate::room::visits::Deletion { oracle: &deletion, read_ins: 0 };
    let mut page = leaf.write();
    let done = index.bottom_up_delete(&mut page, &version(&key(1), Tid::new(9, 9)), 10, &pass);
    assert_eq!(done.unwrap(), crate::room::bottom_up::BottomUp::Done);
    // 280 bytes from block 1 are less than the 512 wanted, but more than 256, the half of it.
    assert_eq!(*deletion.visited.borrow(), [1]);
}

#[test]
fn what_failed_is_not_tried_again_before_something_changed() {
    let index = churned(IndexOptions { page_items_max: Some(12), ..IndexOptions::default() });
    let table = TestTable::new(|_| false);
    let leaf = index.pin(niwaki_storage::BlockNumber(1)).unwrap();
    let pass = crate::room::visits::Deletion { oracle: &table, read_ins: 0 };
    let tries = |expected: usize| {
        let new = key(3);
        let new = version(&new, Tid::new(3, 1));
        index.bottom_up_delete(&mut leaf.write(), &new, 10, &pass).unwrap();
        assert_eq!(table.visited.borrow().len(), expected);
    };
    tries(1);
    tries(1);
    table.oldest.set(Some(Csn(6)));
    tries(2);
    tries(2);
    // With a few entries more, a pass may be worthwhile again.
    let roomy = IndexOptions::default();
    index.set_options(roomy);
    insert(&index, &key(7), Tid::new(4, 1));
    tries(2);
    insert(&index, &key(7), Tid::new(4, 2));
    tries(3);
    // Entries that wait for the running transaction alone are spared as long as the table says so.
    table.oldest.set(None);
    tries(3);
}

struct OldVersions;

impl UniqueCheck for OldVersions {
    fn check(&self, _: &[u8], _: Tid) -> Result<UniqueVerdict> {
        Ok(UniqueVerdict::NotConflicting)
    }
}

/// A unique check that met versions is as good a reason as the hint.
#[test]
fn duplicates_that_a_unique_check_met_are_a_reason() {
    let index = churned(IndexOptions::default());
    let table = TestTable::new(on_block(1));
    index.insert(&entry(&key(3), Tid::new(3, 1)), Some(&OldVersions), Some(&table)).unwrap();
    assert_eq!(index.stats().bottom_up_deleted_entries, 6);
    let index = churned(IndexOptions::default());
    index.insert(&entry(&key(9), Tid::new(3, 1)), Some(&OldVersions), Some(&table)).unwrap();
    assert_eq!(index.stats().bottom_up_deletions, 0, "the check met none");
}

/// Blocks are read in without the leaf's latch, then the insertion starts again.
#[test]
fn heap_blocks_are_read_in_before_the_pass() {
    for hinted in [true, false] {
        let index = churned(IndexOptions::default());
        if !hinted {
            super::table_calls::mark(&index, &[1, 4]);
        }
        let table = TestTable::new(on_block(1));
        table.on_disk.borrow_mut().extend([1, 2, 77]);
        let new = NewEntry { logically_unchanged: hinted, ..entry(&[9, 9], Tid::new(3, 1)) };
        let outcome = index.insert(&new, None, Some(&table)).unwrap();
        assert_eq!(outcome, EntryOutcome::Inserted);
        assert_eq!(table.on_disk.borrow().iter().copied().collect::<Vec<_>>(), [77]);
        assert_eq!(checked(&index).len(), 7);
    }
}

/// A few TIDs go out of posting lists, wherever they are in them.
#[test]
fn posting_lists_lose_single_tids() {
    let index = index(IndexOptions { page_items_max: Some(6), ..IndexOptions::default() });
    let mut builder = index.builder(Xid::FIRST_NORMAL).unwrap();
    for n in 0..5 {
        (1..=6).for_each(|offset| {
            builder.add(&key(n), b"", Tid::new(3, 6 * n + offset)).unwrap();
        });
    }
    builder.finish().unwrap();
    insert(&index, &key(2), Tid::new(8, 1));
    let table = TestTable::new(|candidate| candidate.tid.offset.0 % 2 == 0);
    index.insert(&version(&key(2), Tid::new(8, 3)), None, Some(&table)).unwrap();
    // One list and the entry beside it are promising; on the list's block all lists are judged.
    assert_eq!(*table.visited.borrow(), [3, 8]);
    let mut expected: Vec<_> = (0..5)
        .flat_map(|n| [1, 3, 5].map(|offset| (key(n).to_vec(), Tid::new(3, 6 * n + offset))))
        .collect();
    expected.splice(9..9, [1, 3].map(|offset| (key(2).to_vec(), Tid::new(8, offset))));
    assert_eq!(checked(&index), expected);
    assert_eq!(index.stats().bottom_up_deleted_entries, 15);
}

/// An insertion that waits for the latch of a leaf can be told to stop.
#[test]
fn the_wait_for_a_leaf_can_be_given_up() {
    let index = churned(IndexOptions::default());
    let pin = index.pin(niwaki_storage::BlockNumber(1)).unwrap();
    let held = pin.write();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let table = TestTable::new(|_| false);
            table.impatient.set(true);
            index.insert(&entry(&key(3), Tid::new(3, 1)), None, Some(&table)).unwrap()
        });
        assert_eq!(waiting.join().unwrap(), EntryOutcome::GivenUp);
    });
    drop(held);
    assert_eq!(checked(&index).len(), 12);
}
