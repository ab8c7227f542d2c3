//! Vacuum in little memory: it visits the indexes several times, and leaves nothing behind.
//!
//! Cancelled at any moment, it leaves work that the next vacuum finishes.

#[path = "../../niwaki-table/tests/support/mod.rs"]
mod support;

mod hooked_clock;

use std::sync::Arc;
use std::time::Duration;

use hooked_clock::HookedClock;
use niwaki_env::Env;
use niwaki_env::sync::plain_atomic::{AtomicBool, AtomicU64, Ordering};
use niwaki_env::vfs::{MemoryVfs, Vfs};
use niwaki_heap::VacuumRoots;
use niwaki_storage::{ReadAhead, Xid};
use niwaki_table::Error;
use niwaki_txn::{Durability, Isolation};
use niwaki_vacuum::{CostOptions, IndexCleanup, VacuumOptions, vacuum};
use support::{Rows, World, open_engine_in};

const ROWS: i32 = 240;
/// The length of a row's text: some ten rows fill a page, so that there are many pages.
const LENGTH: usize = 700;

/// Makes a world whose clock can be hooked, with a pool of `pages` pages. Some of its rows are
/// deleted, some have had other keys.
fn dirty(pages: usize) -> (World, Arc<HookedClock>) {
    let (vfs, clock) = (Arc::new(MemoryVfs::new()), Arc::new(HookedClock::default()));
    let env = Env { vfs: Arc::clone(&vfs) as Arc<dyn Vfs>, clock: clock.clone(), ..Env::memory() };
    let world = World::on(open_engine_in(env, pages).unwrap(), vfs, 2, true, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..ROWS {
        world.stamp();
        world.insert(&tx, id, id % 13, &"x".repeat(LENGTH)).unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    soil(&world, 0);
    (world, clock)
}

/// Deletes rows and changes keys, of other rows each time.
fn soil(world: &World, time: i32) {
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    for id in 0..ROWS {
        let Some((target, old)) = world.find(&tx, &snapshot, id) else { continue };
        world.stamp();
        match (id + time) % 4 {
            0 => drop(world.table.delete(&tx, &snapshot, target).unwrap()),
            1 => {
                let text = "y".repeat(LENGTH - 100);
                world.update(&tx, &snapshot, target, &old, (id, 100 + id + time, &text)).unwrap();
            }
            _ => {}
        }
    }
    drop(snapshot);
    tx.commit(Durability::Flush).unwrap();
}

fn rows(world: &World) -> Rows {
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    world.rows(&tx, &snapshot)
}

/// Counts the DEAD line pointers and mixed roots that are left.
fn left(world: &World) -> u64 {
    let horizon = world.engine.transactions().horizon();
    let mut roots = VacuumRoots::default();
    for block in 0..world.table.blocks().unwrap() {
        world.table.heap().vacuum_page(block, &horizon, Xid::INVALID, true, &mut roots).unwrap();
    }
    roots.len()
}

fn options(memory_bytes: usize) -> VacuumOptions {
    VacuumOptions { memory_bytes, index_cleanup: IndexCleanup::On, ..VacuumOptions::default() }
}

#[test]
fn several_passes_leave_nothing() {
    let mut passes = Vec::new();
    // Memory for all roots, for the roots of some pages, and for the roots of one page.
    for memory_bytes in [1 << 20, 300, 1] {
        for index_workers in [0, 1, 7] {
            let (world, _) = dirty(64);
            let expected = rows(&world);
            let options = VacuumOptions { index_workers, ..options(memory_bytes) };
            let summary = vacuum(&world.table, &world.sessions[1], None, &options).unwrap();
            assert!(summary.freed > 0 && summary.cleared > 0, "{summary:?}");
            assert_eq!(left(&world), 0, "{memory_bytes} bytes: {summary:?}");
            world.check();
            assert_eq!(rows(&world), expected);
            world.compare_with_redo(&expected);
            passes.push(summary.index_passes);
        }
    }
    assert_eq!(passes[..3], [1; 3]);
    assert!(passes[3..].iter().all(|passes| *passes >= 3), "{passes:?}");
    assert!(passes[6] > passes[3], "{passes:?}");
}

/// A page with DEAD line pointers and mixed roots counted twice among the few that are not worth a
/// visit of the indexes.
#[test]
fn a_page_with_both_kinds_of_roots_counts_once() {
    let world = World::new(2, false, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..800 {
        world.stamp();
        world.insert(&tx, id, id % 13, &"x".repeat(LENGTH)).unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    // With this number of pages, one page is below 2 %, and two are not.
    let blocks = world.table.blocks().unwrap();
    assert!((51..=100).contains(&blocks), "{blocks}");
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    let (target, _) = world.find(&tx, &snapshot, 0).unwrap();
    world.table.delete(&tx, &snapshot, target).unwrap();
    drop(snapshot);
    tx.commit(Durability::Flush).unwrap();
    // Another row gets another key, in the room of that one.
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    let (target, old) = world.find(&tx, &snapshot, 1).unwrap();
    world.stamp();
    let text = "y".repeat(LENGTH - 100);
    world.update(&tx, &snapshot, target, &old, (1, 100, &text)).unwrap();
    drop(snapshot);
    tx.commit(Durability::Flush).unwrap();
    let mut roots = VacuumRoots::default();
    let horizon = world.engine.transactions().horizon();
    world.table.heap().vacuum_page(0, &horizon, Xid::INVALID, true, &mut roots).unwrap();
    assert_eq!((roots.dead.len(), roots.mixed.len()), (1, 1), "both are on one page");
    let options = VacuumOptions { index_cleanup: IndexCleanup::Auto, ..VacuumOptions::default() };
    let summary = vacuum(&world.table, &world.sessions[1], None, &options).unwrap();
    assert_eq!((summary.bypassed, summary.index_passes), (2, 0), "{summary:?}");
}

/// Cancels at each reading of the clock in turn; each delay has one.
#[test]
fn a_vacuum_that_is_cancelled_anywhere_loses_nothing() {
    let (world, clock) = dirty(64);
    let control = Arc::clone(&world.sessions[1]);
    // Each visit of a page is a delay.
    let delay = Duration::from_millis(1);
    let cost = CostOptions { delay, limit: 1, page_hit: 1, ..CostOptions::default() };
    let (mut cancelled, mut removed_so_far, mut passes) = (0, 0, 0);
    for moment in 1.. {
        let expected = rows(&world);
        let (readings, fired) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let hook = {
            let (control, fired) = (Arc::clone(&control), Arc::clone(&fired));
            move || {
                if readings.fetch_add(1, Ordering::Relaxed) + 1 == moment {
                    fired.store(true, Ordering::Relaxed);
                    control.cancel();
                }
            }
        };
        clock.at_each_reading(hook);
        control.begin_statement(None);
        let options = VacuumOptions {
            cost,
            index_workers: usize::from(moment % 2 == 0),
            read_ahead: [ReadAhead::default(), ReadAhead::NONE][usize::from(moment % 3 == 0)],
            ..options(300)
        };
        let done = vacuum(&world.table, &control, None, &options);
        clock.quiet();
        control.begin_statement(None);
        match done {
            Err(Error::Transaction(niwaki_txn::Error::Cancelled)) => {
                cancelled += 1;
            }
            Ok(summary) => passes = summary.index_passes,
            other => panic!("reading {moment}: {other:?}"),
        }
        world.check();
        assert!(world.engine.storage().pool().is_idle(), "reading {moment}");
        assert_eq!(rows(&world), expected, "reading {moment}");
        let summary = vacuum(
            &world.table,
            &control,
            None,
            &VacuumOptions { cost: CostOptions::default(), ..options },
        )
        .unwrap();
        removed_so_far += u64::from(summary.freed == 0);
        assert_eq!(left(&world), 0, "reading {moment}");
        world.check();
        assert_eq!(rows(&world), expected, "reading {moment}");
        if !fired.load(Ordering::Relaxed) {
            break;
        }
        // The rows are inserted again, so that each moment meets the same work.
        let tx = world.begin(0, Isolation::ReadCommitted);
        for id in (0..ROWS).filter(|id| !expected.contains_key(id)) {
            world.stamp();
            world.insert(&tx, id, id % 13, &"x".repeat(LENGTH)).unwrap();
        }
        tx.commit(Durability::Flush).unwrap();
        soil(&world, i32::try_from(moment % 1000).unwrap());
    }
    assert!(cancelled > 100, "only {cancelled} moments");
    assert!(removed_so_far > 0, "the last moments come after all was freed");
    assert!(passes >= 3, "{passes}");
}

/// A session reports an interrupt once, to one of the threads; all of them stop at once.
#[test]
fn who_visits_indexes_at_the_same_time_stops_together_and_rests_as_one() {
    let rests_of = |index_workers, cancel_at: u64| {
        let (world, clock) = dirty(1024);
        let control = Arc::clone(&world.sessions[1]);
        let readings = Arc::new(AtomicU64::new(0));
        let (read, cancelled) = (Arc::clone(&readings), Arc::clone(&control));
        clock.at_each_reading(move || {
            if read.fetch_add(1, Ordering::Relaxed) + 1 == cancel_at {
                cancelled.cancel();
            }
        });
        let delay = Duration::from_millis(1);
        let cost = CostOptions { delay, limit: 1, page_hit: 1, ..CostOptions::default() };
        let options = VacuumOptions { cost, index_workers, ..options(1 << 20) };
        let done = vacuum(&world.table, &control, None, &options);
        clock.quiet();
        world.check();
        (readings.load(Ordering::Relaxed), done.ok())
    };
    let (alone, summary) = rests_of(0, u64::MAX);
    let (together, same) = rests_of(1, u64::MAX);
    assert_eq!(summary, same);
    assert_eq!(alone, together, "as many rests");
    assert_eq!(
        summary.map(|summary| summary.reads),
        Some(0),
        "all is in the pool: no page is visited twice"
    );
    // A delay has two readings. The second one is no longer done.
    let visiting = (alone / 3..alone * 2 / 3).step_by(7);
    for moment in visiting {
        let (readings, done) = rests_of(1, moment);
        assert_eq!(done, None);
        assert!((moment..=moment + 1).contains(&readings), "{readings} after {moment}");
    }
}
