//! Inserters, deleters and scans run at once. With the feature `shuttle` the deterministic
//! scheduler chooses the interleavings; otherwise the machine does, over many rounds.

use std::collections::BTreeSet;
use std::sync::Arc;

use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_storage::{Result, Tid, Xid};

use super::test_table::TestTable;
use super::{checked, entry, insert, level};
use crate::{
    Direction, EntryDecision, EntryOutcome, Index, IndexOptions, KeyRange, NewEntry, OneRange,
    Scan, UniqueCheck, UniqueVerdict,
};

/// Runs a scenario under many interleavings. `NIWAKI_SCHEDULES` sets the number of schedules.
pub(super) fn interleave(scenario: fn(u64)) {
    #[cfg(feature = "shuttle")]
    scheduled::simulate(None, scheduled::count(), scenario);
    #[cfg(not(feature = "shuttle"))]
    (0..100).for_each(scenario);
}

#[cfg(feature = "shuttle")]
pub(super) mod scheduled {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use niwaki_env::bugs;
    use niwaki_env::sync::__shuttle as shuttle;
    use niwaki_env::sync::bursts::Bursts;
    use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

    /// Seed of all schedules, so that a run is the same each time.
    const SEED: u64 = 1;

    /// The steps that a thread runs before another may, as powers of two. A search or a scan takes
    /// some ten steps a page.
    const BURST_POWERS: std::ops::Range<u64> = 0..8;

    /// The planted bug is one for the whole process, and the tests run side by side.
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// Returns the number of schedules under which a scenario is tried.
    pub(super) fn count() -> usize {
        let text = std::env::var("NIWAKI_SCHEDULES").ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(2000)
    }

    /// Runs the scenario with the bug planted, under `schedules` schedules.
    pub(super) fn simulate(bug: Option<&'static str>, schedules: usize, scenario: fn(u64)) {
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        bugs::plant(bug);
        let seeds = AtomicU64::new(0);
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut config = shuttle::Config::new();
            // Pages are copied on the stack.
            config.stack_size = 1 << 20;
            config.silence_warnings = true;
            let scheduler = Bursts::new(SEED, schedules, BURST_POWERS);
            shuttle::Runner::new(scheduler, config)
                .run(move || scenario(seeds.fetch_add(1, Ordering::Relaxed)));
        }));
        bugs::plant(None);
        drop(guard);
        if let Err(panic) = run {
            std::panic::resume_unwind(panic);
        }
    }

    /// The number of schedules in which a planted bug must show. The rarest bug shows in one of
    /// about 1,600. In each of six runs with other seeds it came within 4,100.
    const SCHEDULES_OF_BUG: usize = 20_000;

    /// Checks that the scenario fails in one of many schedules once the bug is planted.
    pub(in super::super) fn finds(bug: &'static str, scenario: fn(u64)) {
        let found =
            catch_unwind(AssertUnwindSafe(|| simulate(Some(bug), SCHEDULES_OF_BUG, scenario)));
        assert!(found.is_err(), "nothing noticed {bug}");
    }

    #[test]
    fn a_suppression_that_keeps_the_version_is_found() {
        finds("suppression-bumps", super::restored_entry);
    }

    #[test]
    fn marks_on_a_leaf_that_has_changed_are_found() {
        finds("kill-unchanged", super::restored_entry);
    }

    #[test]
    fn unique_checks_that_let_each_other_pass_are_found() {
        finds("unique_moves_right_uncoupled", super::unique_insertions);
    }

    #[test]
    fn a_backward_scan_that_trusts_its_left_link_is_found() {
        finds("backward_scan_trusts_left_link", super::scans_among_splits);
    }

    #[test]
    fn links_that_never_grow_old_are_found() {
        finds("links_never_grow_old", super::scans_among_page_deletions);
    }

    #[test]
    fn marks_that_are_believed_are_found() {
        finds("marks_are_believed", super::scans_that_empty_leaves);
    }

    #[test]
    fn a_pass_that_forgets_what_moved_behind_it_is_found() {
        finds("pass_forgets_moved", super::vacuum_among_splits);
    }

    #[test]
    fn a_deletion_that_takes_what_was_only_promising_is_found() {
        finds("deletion_trusts_promises", super::scans_among_deletions);
    }

    #[test]
    fn an_entry_put_on_a_half_dead_page_is_found() {
        finds("half_dead_page_keeps_its_range", super::insertions_among_page_deletions);
    }

    #[test]
    fn an_unlinking_that_trusts_its_left_link_is_found() {
        finds("unlink_trusts_left_link", super::insertions_among_page_deletions);
    }

    /// An inserter holds a leaf, and looks for the leaf's parent in a page that it has itself put
    /// to use again since.
    #[test]
    fn a_wait_for_an_old_link_is_found() {
        finds("old_links_are_waited_for", super::parent_that_goes);
    }

    #[test]
    fn a_pass_that_gives_away_pages_just_grown_is_found() {
        finds("awaited_page_is_unused", super::vacuum_of_a_growing_file);
    }

    #[test]
    fn a_scan_that_reads_what_it_passed_is_found() {
        finds("scan_reads_what_it_passed", super::range_filled_again);
    }

    #[test]
    fn an_insertion_that_does_not_move_right_is_found() {
        finds("insert_without_move_right", super::scans_among_splits);
    }
}

/// Work per thread: little where every step is scheduled, more on the machine.
pub(super) const STEPS: u64 = if cfg!(feature = "shuttle") { 6 } else { 150 };

/// Frames of the pool. Where every step is scheduled, indexes have some thirty pages, and each
/// schedule has a pool of its own. Clearing a larger pool would take most of the time.
const FRAMES: usize = if cfg!(feature = "shuttle") { 64 } else { 500 };

pub(super) fn tiny() -> Arc<Index> {
    tiny_of(3)
}

/// Returns an index with at most `items` items a page.
pub(super) fn tiny_of(items: u16) -> Arc<Index> {
    let options = IndexOptions { page_items_max: Some(items), ..IndexOptions::default() };
    Arc::new(super::index_in(&super::storage(FRAMES), options))
}

/// Inserts keys that exist before all others, so that scans must return each exactly once.
pub(super) fn fixed(index: &Index) -> Vec<Vec<u8>> {
    let keys: Vec<Vec<u8>> = (0..12u8).map(|n| vec![n * 20]).collect();
    for key in &keys {
        insert(index, key, Tid::new(1000, 1));
    }
    keys
}

pub(super) fn spawn(work: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(work)
}

/// Scans the whole index in `direction`, and compares the result with the keys that never move.
pub(super) fn scan_and_verify(index: &Index, fixed: &[Vec<u8>], direction: Direction) {
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::ALL, direction);
    let mut found = Vec::new();
    while scan.next(index).unwrap() {
        found.extend(scan.batch().iter().map(|entry| (entry.key.to_vec(), entry.tid)));
    }
    if direction == Direction::Backward {
        found.reverse();
    }
    assert!(found.is_sorted_by(|a, b| a < b), "in order, and nothing twice: {found:?}");
    let seen: Vec<Vec<u8>> = found
        .into_iter()
        .filter(|(_, tid)| *tid == Tid::new(1000, 1))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(seen, fixed);
}

#[test]
fn scans_among_splits_see_each_entry_once() {
    interleave(scans_among_splits);
}

fn scans_among_splits(seed: u64) {
    let index = tiny();
    let keys = Arc::new(fixed(&index));
    let mut threads = Vec::new();
    for number in 0..2u64 {
        let index = Arc::clone(&index);
        threads.push(spawn(move || {
            let rng = SeededRng::new(seed.wrapping_mul(31).wrapping_add(number));
            for step in 0..STEPS {
                let key = [rng.below(250) as u8, number as u8];
                insert(&index, &key, Tid::new(step as u32, 1));
            }
        }));
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
        threads.push(spawn(move || {
            for _ in 0..=(STEPS / 20) {
                scan_and_verify(&index, &keys, direction);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    scan_and_verify(&index, &keys, Direction::Forward);
    assert_eq!(index.check(&mut |_| {}).unwrap().incomplete_splits, 0);
    checked(&index);
}

#[test]
fn what_each_thread_inserts_and_deletes_is_there_or_gone() {
    interleave(|seed| {
        let index = tiny();
        let threads: Vec<_> = (0..3u64)
            .map(|number| {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    let rng = SeededRng::new(seed.wrapping_mul(7).wrapping_add(number));
                    let mut mine = BTreeSet::new();
                    for _ in 0..STEPS {
                        // All threads use the same keys; the TID shows whose entry it is.
                        let key = vec![rng.below(12) as u8];
                        let tid = Tid::new(number as u32, 1 + rng.below(3) as u16);
                        if rng.chance(2, 3) {
                            let outcome = insert(&index, &key, tid);
                            let new = mine.insert((key, tid));
                            assert_eq!(outcome == EntryOutcome::Inserted, new);
                        } else {
                            let decide = &mut || Ok((EntryDecision::Delete, None));
                            let gone = index.delete_entry(&key, tid, Xid::INVALID, decide).unwrap();
                            assert_eq!(gone, mine.remove(&(key, tid)));
                        }
                    }
                    mine
                })
            })
            .collect();
        let mut expected = BTreeSet::new();
        threads.into_iter().for_each(|thread| expected.extend(thread.join().unwrap()));
        assert_eq!(checked(&index), expected.into_iter().collect::<Vec<_>>());
    });
}

/// A unique check in which every other entry conflicts.
pub(super) struct NobodyElse;

impl UniqueCheck for NobodyElse {
    fn check(&self, _: &[u8], _: Tid) -> Result<UniqueVerdict> {
        Ok(UniqueVerdict::Conflict)
    }
}

#[test]
fn of_two_unique_insertions_of_a_key_one_succeeds() {
    interleave(unique_insertions);
}

fn unique_insertions(_: u64) {
    let index = tiny();
    // Dead versions that do not conflict spread the key over several leaves.
    for n in 0..7u32 {
        insert(&index, &[5], Tid::new(50 + n, 1));
        insert(&index, &[4], Tid::new(50 + n, 1));
    }
    struct OldOnesAreFine;
    impl UniqueCheck for OldOnesAreFine {
        fn check(&self, key: &[u8], tid: Tid) -> Result<UniqueVerdict> {
            if (50..60).contains(&tid.block.0) {
                return Ok(UniqueVerdict::NotConflicting);
            }
            NobodyElse.check(key, tid)
        }
    }
    let threads: Vec<_> = [3u32, 53, 99]
        .into_iter()
        .map(|block| {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let new = entry(&[5], Tid::new(block, 7));
                // Block 53 counts as old, so no check takes its entry for a conflict. Its TID lies
                // among the old ones.
                index.insert(&new, Some(&OldOnesAreFine), None).unwrap()
            })
        })
        .collect();
    let outcomes: Vec<EntryOutcome> =
        threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let entries = checked(&index);
    let count = entries.iter().filter(|(key, tid)| key == &[5] && tid.offset.0 == 7).count();
    let inserted = outcomes.iter().filter(|&&outcome| outcome == EntryOutcome::Inserted).count();
    assert_eq!(count, inserted);
    let in_the_way = [outcomes[0], outcomes[2]];
    assert_eq!(
        in_the_way.iter().filter(|&&outcome| outcome == EntryOutcome::Inserted).count(),
        1,
        "{outcomes:?}"
    );
}

/// A pass of vacuum among splits visits every entry that existed when it began. That includes
/// entries that splits move to free pages which the pass has already passed.
#[test]
fn vacuum_among_splits_misses_nothing() {
    interleave(vacuum_among_splits);
}

fn vacuum_among_splits(seed: u64) {
    let index = tiny();
    // Makes free pages in front.
    for n in 0..12u8 {
        insert(&index, &[200, n], Tid::new(1, 1));
    }
    for n in 0..20u8 {
        insert(&index, &[n * 10], Tid::new(2000, 1));
    }
    for n in 0..12u8 {
        assert!(delete(&index, &[200, n], Tid::new(1, 1)));
    }
    vacuum_beside_insertions(&index, seed);
}

/// Runs a pass that must remove the twenty entries with TID (2000, 1), whatever insertions move
/// meanwhile.
pub(super) fn vacuum_beside_insertions(index: &Arc<Index>, seed: u64) {
    let inserter = {
        let index = Arc::clone(index);
        spawn(move || {
            let rng = SeededRng::new(seed);
            for step in 0..STEPS {
                insert(&index, &[rng.below(200) as u8, 9], Tid::new(step as u32, 1));
            }
        })
    };
    let mut decide = |entry: crate::BatchEntry<'_>| {
        if entry.tid == Tid::new(2000, 1) { EntryDecision::Delete } else { EntryDecision::Keep }
    };
    let summary = index.vacuum(&mut decide).unwrap();
    inserter.join().unwrap();
    assert_eq!(summary.removed, 20);
    assert!(checked(index).iter().all(|(_, tid)| *tid != Tid::new(2000, 1)));
}

pub(super) fn delete(index: &Index, key: &[u8], tid: Tid) -> bool {
    let decide = &mut || Ok((EntryDecision::Delete, None));
    index.delete_entry(key, tid, Xid::INVALID, decide).unwrap()
}

/// Scans run both ways while pages become empty, are deleted, and are used again elsewhere. No
/// entry that stays is missed or seen twice.
#[test]
fn scans_among_page_deletions_see_each_entry_once() {
    interleave(scans_among_page_deletions);
}

fn scans_among_page_deletions(seed: u64) {
    let index = tiny();
    let rng = SeededRng::new(seed);
    let keys = Arc::new(fixed(&index));
    // Runs that fill whole pages between the keys that stay.
    let runs: Vec<u8> = (0..3).map(|_| rng.below(12) as u8 * 20 + 1).collect();
    for &run in &runs {
        (0..7u8).for_each(|n| {
            insert(&index, &[run, n], Tid::new(5, 1));
        });
    }
    let mut threads = Vec::new();
    let cleaner = Arc::clone(&index);
    let emptied = runs[0];
    threads.push(spawn(move || {
        for n in 0..7u8 {
            assert!(delete(&cleaner, &[emptied, n], Tid::new(5, 1)));
        }
        if rng.chance(1, 2) {
            let keep = &mut |_: crate::BatchEntry<'_>| EntryDecision::Keep;
            cleaner.vacuum(keep).unwrap();
        }
    }));
    let inserter = Arc::clone(&index);
    threads.push(spawn(move || {
        let rng = SeededRng::new(seed ^ 77);
        let at = rng.below(240) as u8;
        for n in 0..=(STEPS as u8) {
            insert(&inserter, &[at, 100 + n % 100], Tid::new(9, 1));
        }
    }));
    for direction in [Direction::Forward, Direction::Backward] {
        let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
        threads.push(spawn(move || {
            for _ in 0..=(STEPS / 20) {
                scan_and_verify(&index, &keys, direction);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    scan_and_verify(&index, &keys, Direction::Backward);
    let left = checked(&index);
    assert!(left.iter().all(|(key, tid)| *tid != Tid::new(5, 1) || runs[1..].contains(&key[0])));
}

/// Scans run both ways while new versions push out dead versions. No entry that the table keeps is
/// missed or seen twice.
#[test]
fn scans_among_deletions_see_each_entry_once() {
    interleave(scans_among_deletions);
}

fn scans_among_deletions(seed: u64) {
    let index = tiny();
    let keys = Arc::new(fixed(&index));
    let mut threads = Vec::new();
    for number in 0..2u64 {
        let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
        threads.push(spawn(move || {
            let rng = SeededRng::new(seed.wrapping_mul(31).wrapping_add(number));
            for step in 0..STEPS {
                // Another version of a row that stays: each of the two makes the other promising.
                let key = &keys[rng.below(4) as usize];
                let tid = Tid::new((number * 1000 + step) as u32, 2);
                let new = NewEntry { logically_unchanged: true, ..entry(key, tid) };
                let table = TestTable::new(|candidate| candidate.tid.offset.0 == 2);
                index.insert(&new, None, Some(&table)).unwrap();
            }
        }));
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
        threads.push(spawn(move || {
            for _ in 0..=(STEPS / 20) {
                scan_and_verify(&index, &keys, direction);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    scan_and_verify(&index, &keys, Direction::Forward);
    checked(&index);
}

/// Scans mark dead entries, and empty leaves whose entries are all marked, beside insertions into
/// the same leaves and other scans. Live entries stay, and are seen once.
#[test]
fn scans_that_empty_leaves_lose_nothing() {
    interleave(scans_that_empty_leaves);
}

/// Marks and empties leaves. Rows of heap block 5 are dead. Rows of block 6 are alive, but marked
/// all the same: a mark is a hint, so the table is asked again.
fn mark_and_empty(index: &Index, direction: Direction) {
    let table = TestTable::new(|candidate| candidate.tid.block.0 == 5);
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::ALL, direction);
    while scan.next(index).unwrap() {
        let dead = |tid: Tid| tid.block.0 == 5 || tid.block.0 == 6;
        let positions: Vec<usize> = (0..scan.batch().len())
            .filter(|&at| scan.batch().get(at).is_some_and(|entry| dead(entry.tid)))
            .collect();
        if index.mark_dead(scan.batch(), &positions).whole_leaf {
            let leaf = scan.batch().leaf().unwrap();
            index.empty_dead_leaf(leaf, &table).unwrap();
        }
    }
}

fn scans_that_empty_leaves(seed: u64) {
    let index = tiny();
    let rng = SeededRng::new(seed);
    let keys = Arc::new(fixed(&index));
    // Dead runs that fill whole pages between the keys that stay, one of them with a row that is
    // alive.
    let runs: Vec<u8> = (0..2).map(|_| rng.below(12) as u8 * 20 + 1).collect();
    for &run in &runs {
        (0..7u8).for_each(|n| {
            insert(&index, &[run, n], Tid::new(5, 1));
        });
    }
    let alive = vec![runs[0], rng.below(7) as u8];
    insert(&index, &alive, Tid::new(6, 1));
    let mut threads = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let index = Arc::clone(&index);
        threads.push(spawn(move || mark_and_empty(&index, direction)));
    }
    let inserter = Arc::clone(&index);
    let at = runs[rng.below(2) as usize];
    threads.push(spawn(move || {
        for n in 0..=(STEPS as u8 / 2) {
            insert(&inserter, &[at, n % 8, 1], Tid::new(9, 1 + u16::from(n)));
        }
    }));
    for direction in [Direction::Forward, Direction::Backward] {
        let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
        threads.push(spawn(move || scan_and_verify(&index, &keys, direction)));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    scan_and_verify(&index, &keys, Direction::Backward);
    let left = checked(&index);
    assert!(left.contains(&(alive, Tid::new(6, 1))), "a row that is alive lost its entry");
    let inserted = left.iter().filter(|(_, tid)| tid.block.0 == 9).count();
    assert_eq!(inserted, 1 + usize::from(STEPS as u8 / 2));
}

/// Pages are emptied and deleted, their neighbours are emptied or split, and entries come into the
/// ranges that were given up. At the end all entries are there.
#[test]
fn insertions_among_page_deletions_lose_nothing() {
    interleave(insertions_among_page_deletions);
}

fn insertions_among_page_deletions(seed: u64) {
    let index = tiny();
    let mut expected: BTreeSet<(Vec<u8>, Tid)> = BTreeSet::new();
    for n in 0..24u8 {
        insert(&index, &[n * 10], Tid::new(1, 1));
        expected.insert((vec![n * 10], Tid::new(1, 1)));
    }
    let rng = SeededRng::new(seed);
    // Neighbours, each of about a page.
    let first = rng.below(16) as u8;
    let mut threads = Vec::new();
    for part in 0..2u8 {
        let gone: Vec<u8> = (0..3).map(|n| (first + 3 * part + n) * 10).collect();
        for &key in &gone {
            expected.remove(&(vec![key], Tid::new(1, 1)));
        }
        let index = Arc::clone(&index);
        threads.push(spawn(move || {
            for key in gone {
                assert!(delete(&index, &[key], Tid::new(1, 1)));
            }
        }));
    }
    for number in 0..2u8 {
        let keys: Vec<u8> = (0..4)
            .map(|_| (u64::from(first) * 10 + rng.below(80)).saturating_sub(20) as u8)
            .collect();
        let tid = Tid::new(2, 1 + u16::from(number));
        expected.extend(keys.iter().map(|&key| (vec![key], tid)));
        let index = Arc::clone(&index);
        threads.push(spawn(move || {
            for key in keys {
                insert(&index, &[key], tid);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(checked(&index), expected.into_iter().collect::<Vec<_>>());
}

/// Passes of vacuum run over a file that insertions make, from its first page on.
#[test]
fn a_growing_file_can_be_vacuumed() {
    interleave(vacuum_of_a_growing_file);
}

fn vacuum_of_a_growing_file(_: u64) {
    const KEYS: usize = if cfg!(feature = "shuttle") { 12 } else { 200 };
    let index = tiny();
    let threads: Vec<_> = (0..2u8)
        .map(|number| {
            let index = Arc::clone(&index);
            spawn(move || {
                (0..KEYS as u8).for_each(|n| {
                    insert(&index, &[n % 3, n, number], Tid::new(1, 1));
                });
            })
        })
        .collect();
    for _ in 0..3 {
        let keep = &mut |_: crate::BatchEntry<'_>| EntryDecision::Keep;
        index.vacuum(keep).unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(checked(&index).len(), 2 * KEYS);
}

/// A leaf goes, and its parent with it, while an insertion is on the way there. On the leaf to
/// which the entry then belongs, a split puts the former parent's page to use.
#[test]
fn an_insertion_does_not_wait_for_the_parent_that_it_knew() {
    interleave(parent_that_goes);
}

fn parent_that_goes(_: u64) {
    let index = tiny();
    let tid = Tid::new(1, 1);
    // From the last key to the first: inner pages come after their children in the file.
    (0..20u8)
        .rev()
        .for_each(|n| assert_eq!(insert(&index, &[n * 12], tid), EntryOutcome::Inserted));
    let parents = level(&index, 1);
    let last_key = |at: usize| parents[at].1[0][0];
    let goes: Vec<u8> =
        (0..20).map(|n| n * 12).filter(|&key| (last_key(0)..last_key(1)).contains(&key)).collect();
    // Two leaves on its right become full.
    let leaves = level(&index, 0);
    let beyond = leaves.iter().filter(|(_, keys)| keys[0][0] > last_key(1)).take(2);
    for (_, keys) in beyond {
        (keys.len()..4).for_each(|n| {
            insert(&index, &[keys[1][0], n as u8], tid);
        });
    }
    // The parent then has one leaf, of one entry; the free pages are put to use elsewhere.
    let (&last, others) = goes.split_last().unwrap();
    others.iter().for_each(|&key| assert!(delete(&index, &[key], tid)));
    for n in (0..u8::MAX).take_while(|_| index.recycling.free_count() > 0) {
        insert(&index, &[240, n], tid);
    }
    let deleter = {
        let index = Arc::clone(&index);
        spawn(move || assert!(delete(&index, &[last], tid)))
    };
    insert(&index, &[last_key(1) - 1], tid);
    deleter.join().unwrap();
    checked(&index);
}

/// A leaf is deleted behind a scan that has read it. Its range is filled again, on the page to
/// which the scan goes on.
#[test]
fn a_scan_does_not_come_back_to_a_range_that_is_filled_again() {
    interleave(range_filled_again);
}

fn range_filled_again(seed: u64) {
    let index = tiny();
    let tid = Tid::new(1, 1);
    (0..60u8).for_each(|n| {
        insert(&index, &[n], tid);
    });
    // Leaves have room, so that no page is used again, which the scan would notice.
    (0..60).filter(|n| n % 2 == 1).for_each(|n| assert!(delete(&index, &[n], tid)));
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::ALL, Direction::Forward);
    let (mut found, mut leaves) = (Vec::new(), 0);
    while scan.next(&index).unwrap() {
        let batch: Vec<u8> = scan.batch().iter().map(|entry| entry.key[0]).collect();
        if leaves == 1 + seed % 8 {
            batch.iter().for_each(|&key| assert!(delete(&index, &[key], tid)));
            insert(&index, &batch[..1], tid);
        }
        leaves += 1;
        found.extend(batch);
    }
    assert_eq!(found, (0..60).filter(|n| n % 2 == 0).collect::<Vec<u8>>());
}

/// Rule `dead-marks`: a mark never lands on an entry that was inserted again after the scan read
/// it.
#[test]
fn a_restored_entry_is_never_marked() {
    interleave(restored_entry);
}

fn restored_entry(_: u64) {
    let index = tiny();
    insert(&index, b"k", Tid::new(1, 1));
    let restorer = {
        let index = Arc::clone(&index);
        spawn(move || {
            assert_eq!(insert(&index, b"k", Tid::new(1, 1)), EntryOutcome::AlreadyThere);
            // From here on the entry is wanted, even if a scan read the leaf before.
            let mut scan = Scan::default();
            scan.start(&index, &KeyRange::equal(b"k"), Direction::Forward);
            assert!(scan.next(&index).unwrap());
        })
    };
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::equal(b"k"), Direction::Forward);
    // A reader may mark entries that it read before the restoration. Here it reads from the index's
    // own counter, under the leaf latch, whether the entry was restored yet.
    let mut restored = false;
    let found = scan
        .next_with(&index, None::<&mut OneRange>, |_| {
            restored = index.stats().suppressed_duplicates > 0;
        })
        .unwrap();
    if found && !restored {
        index.mark_dead(scan.batch(), &[0]);
    }
    restorer.join().unwrap();
    scan.start(&index, &KeyRange::equal(b"k"), Direction::Forward);
    assert!(scan.next(&index).unwrap(), "the entry is there for good");
}
