//! Rows that some sessions lock FOR KEY SHARE while others move, delete and insert them again.
//!
//! A granted lock protects the row until the session gives the lock back. Run inside a schedule
//! (`schedules`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;
use niwaki_table::HeapOnlyUpdates;
use niwaki_txn::RowLockMode;

use crate::model::{Isolation, Reply, Step};
use crate::schedules::seed;
use crate::tables::{TableDatabase, TableSession};

const ROWS: usize = 2;
const ROUNDS: usize = 4;
/// Value in a row's count of sharers: one session has the row exclusively.
const ALONE: i64 = i64::MIN / 2;

/// The count of sharers of each row, by what the statements reported.
type Held = Arc<[AtomicI64; ROWS]>;

fn execute(session: &mut TableSession, step: &Step) -> Reply {
    session.step(step).unwrap_or_else(|error| panic!("{step:?}: {error}"))
}

fn end(session: &mut TableSession, rng: &SeededRng) {
    let step = if rng.chance(1, 3) { Step::Rollback } else { Step::Commit };
    execute(session, &step);
}

fn share(mut session: TableSession, rng: &SeededRng, held: &Held) {
    for _ in 0..ROUNDS {
        let row = rng.below(ROWS as u64) as usize;
        execute(&mut session, &Step::Begin(Isolation::ReadCommitted));
        let inner = rng.chance(1, 3);
        if inner {
            execute(&mut session, &Step::Savepoint(1));
        }
        let locked = session.lock(row as i64, RowLockMode::KeyShare);
        if locked.expect("nobody waits for a sharer that waits") {
            let sharers = held[row].fetch_add(1, Ordering::SeqCst);
            assert!(sharers >= 0, "row {row} is shared while somebody has it alone");
            for _ in 0..2 {
                let found = execute(&mut session, &Step::Read(row as i64));
                assert!(matches!(found, Reply::Row(Some(_))), "a shared row is gone");
            }
            held[row].fetch_sub(1, Ordering::SeqCst);
        }
        if inner && rng.chance(1, 2) {
            execute(&mut session, &Step::RollbackTo(1));
        }
        end(&mut session, rng);
    }
}

/// Moves rows. Each update changes the key of the second index, so the row gets a new chain root,
/// and often another page.
fn shift(mut session: TableSession, rng: &SeededRng) {
    for _ in 0..ROUNDS {
        let row = rng.below(ROWS as u64) as i64;
        execute(&mut session, &Step::Begin(Isolation::ReadCommitted));
        for _ in 0..=rng.below(2) {
            session.add(row, 1).expect("an update that leaves the key alone");
        }
        end(&mut session, rng);
    }
}

fn replace(mut session: TableSession, rng: &SeededRng, held: &Held) {
    for _ in 0..ROUNDS {
        let row = rng.below(ROWS as u64) as usize;
        execute(&mut session, &Step::Begin(Isolation::ReadCommitted));
        if execute(&mut session, &Step::Delete(row as i64)) == Reply::Done(1) {
            let sharers = held[row].fetch_add(ALONE, Ordering::SeqCst);
            assert_eq!(sharers, 0, "row {row} was deleted under {sharers} sharers");
            let done = execute(&mut session, &Step::Insert(row as i64, 3));
            assert_eq!(done, Reply::Done(1));
            held[row].fetch_sub(ALONE, Ordering::SeqCst);
        }
        end(&mut session, rng);
    }
}

/// Runs two sharers, a session that moves the rows, one that deletes and reinserts them, and
/// vacuum. Vacuum must not free what a lock names.
///
/// # Panics
/// When a shared row is deleted, a lock stays behind, or an invariant does not hold.
pub fn run() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let database =
        TableDatabase::open(env, true, HeapOnlyUpdates::SameKeys).expect("the database opens");
    let session = || database.session().expect("a session");
    let mut first = session();
    for row in 0..ROWS {
        execute(&mut first, &Step::Insert(row as i64, 0));
    }
    let held: Held = Arc::new([const { AtomicI64::new(0) }; ROWS]);
    let mut threads = Vec::new();
    for number in 0..4 {
        let (session, held) = (session(), Arc::clone(&held));
        let rng = SeededRng::new(seed ^ number << 32);
        threads.push(thread::spawn(move || match number {
            0 | 1 => share(session, &rng, &held),
            2 => shift(session, &rng),
            _ => replace(session, &rng, &held),
        }));
    }
    for _ in 0..3 {
        execute(&mut first, &Step::Vacuum);
    }
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    assert!(!database.any_row_locks(), "a lock stayed behind");
    assert_eq!(database.rows().expect("the rows").len(), ROWS);
    database.check().expect("the check");
}
