//! Whole transactions under the deterministic scheduler.
//!
//! Locks, commits, snapshots and the collector run together, with cancels and deadlocks. The tests
//! must find each planted bug.
//!
//! `cargo test -p niwaki-txn --features shuttle --test schedules`; `NIWAKI_SCHEDULES` sets the
//! number of schedules of each test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::bugs;
use niwaki_env::clock::ManualClock;
use niwaki_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use niwaki_env::sync::{Mutex, thread};
use niwaki_storage::{Csn, Lsn, RelFile, RelFileId, Tid, Xid};
use niwaki_txn::{
    BeginOptions, Durability, Error, Isolation, LockKey, Result, RowKey, RowLockMode,
    SessionControl, TableId, TableLockMode, Transaction, TransactionLog, TransactionManager,
    TxnOptions, WaitPolicy, XidStatus,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Seed of all schedules, so that a run is the same each time; `SHUTTLE_RANDOM_SEED` replaces it.
const SEED: u64 = 1;

/// Serializes the runs: a planted bug applies to the whole process.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn run(bug: Option<&'static str>, default: usize, body: fn()) -> bool {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let text = std::env::var("NIWAKI_SCHEDULES").ok();
    let schedules = text.map_or(default, |text| text.parse().expect("a number"));
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(1_000_000);
    config.silence_warnings = true;
    bugs::plant(bug);
    let passed = catch_unwind(AssertUnwindSafe(|| {
        let half = schedules.div_ceil(2);
        Runner::new(RandomScheduler::new_from_seed(SEED, half), config.clone()).run(body);
        Runner::new(PctScheduler::new_from_seed(SEED, 3, half), config).run(body);
    }))
    .is_ok();
    bugs::plant(None);
    passed
}

/// A log in which a flush takes time.
#[derive(Default)]
struct SlowLog {
    end: AtomicU64,
    flushed: AtomicU64,
}

impl TransactionLog for SlowLog {
    fn append(&self, _: u8, _: Xid, _: &[u8]) -> Result<Lsn> {
        Ok(Lsn(self.end.fetch_add(10, Ordering::AcqRel) + 110))
    }
    fn flush(&self, upto: Lsn) -> Result<()> {
        let end = self.end.load(Ordering::Acquire) + 100;
        thread::yield_now();
        self.flushed.fetch_max(end.max(upto.0), Ordering::AcqRel);
        Ok(())
    }
    fn flushed(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::Acquire).max(100))
    }
    fn drop_file(&self, _: RelFile) {}
}

fn manager() -> Arc<TransactionManager> {
    let clock = ManualClock::ticking(Duration::from_micros(10));
    let env = Env { clock: Arc::new(clock), ..Env::memory() };
    let options = TxnOptions {
        deadlock_timeout: Duration::from_millis(1),
        spin: Duration::ZERO,
        ..TxnOptions::default()
    };
    let manager = TransactionManager::new(env, options);
    manager.attach_log(Arc::new(SlowLog::default())).unwrap();
    manager
}

fn begin(manager: &Arc<TransactionManager>, isolation: Isolation) -> Transaction {
    let session = manager.register_session().unwrap();
    manager.begin(&session, BeginOptions { isolation, ..BeginOptions::default() }).unwrap()
}

const TABLES: usize = 3;

/// The locks on each table, as their holders report them.
#[derive(Default)]
struct Oracle(Mutex<[[u32; 8]; TABLES]>);

impl Oracle {
    fn enter(&self, table: usize, mode: TableLockMode) {
        let mut held = self.0.lock();
        for other in TableLockMode::ALL {
            let count = held[table][other as usize];
            assert!(
                count == 0 || !mode.conflicts_with(other),
                "{mode:?} was granted on {table} beside {other:?}"
            );
        }
        held[table][mode as usize] += 1;
    }

    fn leave(&self, locks: &[(usize, TableLockMode)]) {
        let mut held = self.0.lock();
        for &(table, mode) in locks {
            held[table][mode as usize] -= 1;
        }
    }
}

/// Takes random locks and releases them, by savepoint or by the end.
fn lock_at_random(
    manager: &Arc<TransactionManager>,
    session: &Arc<SessionControl>,
    oracle: &Oracle,
) {
    let mut rng = thread_rng();
    for _ in 0..2 {
        let transaction = manager.begin(session, BeginOptions::default()).unwrap();
        let mut held: Vec<(usize, TableLockMode)> = Vec::new();
        let mut savepoint = None;
        for _ in 0..rng.gen_range(1..4) {
            if rng.gen_bool(0.2) && savepoint.is_none() {
                transaction.savepoint("s");
                savepoint = Some(held.len());
            }
            let table = rng.gen_range(0..TABLES);
            let mode = TableLockMode::ALL[rng.gen_range(0..8)];
            // Own locks do not exclude each other: the oracle counts one mode per table.
            if held.iter().any(|(other, _)| *other == table) {
                continue;
            }
            let policy = [WaitPolicy::Block, WaitPolicy::Block, WaitPolicy::Skip];
            let policy = policy[rng.gen_range(0..3)];
            let locks = manager.locks();
            match locks.acquire_table(&transaction, TableId(table as u64), mode, policy) {
                Ok(true) => {
                    oracle.enter(table, mode);
                    held.push((table, mode));
                }
                Ok(false) => {}
                Err(Error::Deadlock { .. } | Error::Cancelled) => break,
                Err(other) => panic!("{other}"),
            }
            thread::yield_now();
            if let Some(keep) = savepoint
                && rng.gen_bool(0.3)
            {
                oracle.leave(&held.split_off(keep));
                transaction.rollback_to("s").unwrap();
            }
        }
        oracle.leave(&held);
        drop(transaction);
    }
}

/// Takes random locks in three sessions, beside a canceller. No lock excludes another one that is
/// held, no session waits for ever, nothing is left behind.
fn random_locks() {
    let manager = manager();
    let oracle = Arc::new(Oracle::default());
    let sessions: Vec<_> = (0..3).map(|_| manager.register_session().unwrap()).collect();
    let threads: Vec<_> = sessions
        .iter()
        .map(|session| {
            let (manager, oracle) = (Arc::clone(&manager), Arc::clone(&oracle));
            let session = Arc::clone(session);
            thread::spawn(move || lock_at_random(&manager, &session, &oracle))
        })
        .collect();
    for session in &sessions {
        thread::yield_now();
        session.cancel();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn random_locks_exclude_each_other_and_are_given_back() {
    assert!(run(None, 10_000, random_locks));
}

#[test]
fn moving_a_lock_that_is_not_held_yet_is_found() {
    // The first version had this bug.
    assert!(!run(Some("tentative_locks_moved"), 40_000, random_locks));
}

#[test]
fn a_fast_lock_that_does_not_look_for_strong_ones_is_found() {
    assert!(!run(Some("fast_lock_without_check"), 2000, random_locks));
}

/// Runs a ring of sessions: each waits for the next, by a table lock or by its transaction. One is
/// the victim, the others go on.
fn ring(length: usize) {
    let manager = manager();
    let ready = Arc::new(AtomicU64::new(0));
    let xids = Arc::new(Mutex::new(vec![Xid::INVALID; length]));
    let threads: Vec<_> = (0..length)
        .map(|at| {
            let (manager, ready, xids) =
                (Arc::clone(&manager), Arc::clone(&ready), Arc::clone(&xids));
            thread::spawn(move || {
                let transaction = begin(&manager, Isolation::ReadCommitted);
                let (locks, mode) = (manager.locks(), TableLockMode::Exclusive);
                let lock = |table: usize| {
                    locks.acquire_table(
                        &transaction,
                        TableId(table as u64),
                        mode,
                        WaitPolicy::Block,
                    )
                };
                lock(at).unwrap();
                xids.lock()[at] = transaction.write_xid().unwrap();
                ready.fetch_add(1, Ordering::AcqRel);
                while ready.load(Ordering::Acquire) < length as u64 {
                    thread::yield_now();
                }
                let next = (at + 1) % length;
                let waited = if at % 2 == 0 {
                    lock(next)
                } else {
                    let xid = xids.lock()[next];
                    locks.wait_for_xid(&transaction, xid, WaitPolicy::Block)
                };
                match waited {
                    Ok(_) => false,
                    Err(Error::Deadlock { .. }) => true,
                    Err(other) => panic!("{other}"),
                }
            })
        })
        .collect();
    let died: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(died.iter().filter(|died| **died).count(), 1, "{died:?}");
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn exactly_one_of_a_cycle_dies() {
    assert!(run(None, 600, || ring(2)));
    assert!(run(None, 600, || ring(3)));
}

/// Cancels a waiting session. After that another session closes a cycle with it, and goes on:
/// one victim is enough, even if the victim has not woken yet.
fn cycle_with_a_cancelled_one() {
    fn lock(transaction: &Transaction, table: u64) -> Result<bool> {
        let (locks, mode) = (transaction.manager().locks(), TableLockMode::Exclusive);
        locks.acquire_table(transaction, TableId(table), mode, WaitPolicy::Block)
    }
    let manager = manager();
    let goes_on = begin(&manager, Isolation::ReadCommitted);
    lock(&goes_on, 1).unwrap();
    let session = manager.register_session().unwrap();
    let cancelled = {
        let (manager, session) = (Arc::clone(&manager), Arc::clone(&session));
        thread::spawn(move || {
            let cancelled = manager.begin(&session, BeginOptions::default()).unwrap();
            lock(&cancelled, 2).unwrap();
            lock(&cancelled, 1)
        })
    };
    while session.info().waiting_for.is_none() {
        thread::yield_now();
    }
    session.cancel();
    lock(&goes_on, 2).unwrap();
    assert!(matches!(cancelled.join().unwrap(), Err(Error::Cancelled)));
    drop(goes_on);
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn who_was_cancelled_is_the_only_victim() {
    assert!(run(None, 1000, cycle_with_a_cancelled_one));
}

/// Updates one row in three sessions, in turn, with the tuple lock in front. No increment is lost,
/// and each session sees the commit before it.
fn counter() {
    let manager = manager();
    // The row: its newest writer, and the value that the writer stored.
    let row = Arc::new(Mutex::new((Xid::FROZEN, 0_u64)));
    let threads: Vec<_> = (0..3)
        .map(|name| {
            let (manager, row) = (Arc::clone(&manager), Arc::clone(&row));
            thread::spawn(move || {
                let transaction = begin(&manager, Isolation::ReadCommitted);
                let own = transaction.write_xid().unwrap();
                let tid = Tid::new(1, 1);
                let (file, locks) = (RelFileId(20), manager.locks());
                let mode = RowLockMode::Update;
                let mut queued = None;
                loop {
                    let writer = {
                        let mut row = row.lock();
                        match manager.status(row.0) {
                            XidStatus::InProgress => row.0,
                            XidStatus::Aborted => panic!("nobody aborts here"),
                            XidStatus::Committed(_) => {
                                let snapshot = transaction.snapshot().unwrap();
                                let view = transaction.view(&snapshot);
                                assert!(view.committed_before(row.0), "published, and not seen");
                                *row = (own, row.1 + 1);
                                break;
                            }
                        }
                    };
                    if queued.is_none() {
                        queued = locks
                            .lock_tuple(&transaction, file, tid, mode, WaitPolicy::Block)
                            .unwrap();
                    }
                    locks.wait_for_xid(&transaction, writer, WaitPolicy::Block).unwrap();
                }
                drop(queued);
                let durability = [Durability::Flush, Durability::Async][name % 2];
                let csn = transaction.commit(durability).unwrap().unwrap();
                assert!(manager.published() >= csn);
                assert_eq!(manager.status(own), XidStatus::Committed(csn));
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(row.lock().1, 3);
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn updates_of_one_row_queue_up() {
    assert!(run(None, 1500, counter));
}

/// Runs a worker that works on table after table, checks for interrupts, and gives way. Two others
/// want a table each, and get it although the worker never ends by itself.
fn giving_way() {
    let manager = manager();
    let worker = manager.register_session().unwrap();
    worker.give_way();
    let done = Arc::new(AtomicU64::new(0));
    let definers: Vec<_> = (0..2)
        .map(|table| {
            let (manager, done) = (Arc::clone(&manager), Arc::clone(&done));
            thread::spawn(move || {
                let transaction = begin(&manager, Isolation::ReadCommitted);
                let (locks, mode) = (manager.locks(), TableLockMode::AccessExclusive);
                locks.acquire_table(&transaction, TableId(table), mode, WaitPolicy::Block).unwrap();
                drop(transaction);
                done.fetch_add(1, Ordering::AcqRel);
            })
        })
        .collect();
    for table in [0, 1, 0, 1] {
        worker.begin_statement(None);
        let transaction = manager.begin(&worker, BeginOptions::default()).unwrap();
        let mode = TableLockMode::ShareUpdateExclusive;
        let locks = manager.locks();
        if !locks.acquire_table(&transaction, TableId(table), mode, WaitPolicy::Skip).unwrap() {
            continue;
        }
        // Ends: a session waits for the table and cancels the worker, or both definers are done.
        while worker.check_interrupts().is_ok() && done.load(Ordering::Acquire) < 2 {
            if manager.locks().infos().iter().all(|lock| lock.granted || lock.key != key(table)) {
                // No session waits for this table (yet).
                break;
            }
            thread::yield_now();
        }
    }
    for definer in definers {
        definer.join().unwrap();
    }
    assert_eq!(manager.locks().infos(), []);
}

fn key(table: u64) -> LockKey {
    LockKey::Table(TableId(table))
}

#[test]
fn who_gives_way_never_keeps_others_waiting() {
    assert!(run(None, 1000, giving_way));
}

#[test]
fn a_worker_that_nobody_cancels_is_found() {
    assert!(!run(Some("nobody_gives_way"), 1000, giving_way));
}

/// Waits for the end of a transaction. A timed wait would check again by itself, so a lost wake-up
/// is a wait that lasts a deadlock timeout.
fn no_wait_times_out() {
    let manager = manager();
    let holder = begin(&manager, Isolation::ReadCommitted);
    let xid = holder.write_xid().unwrap();
    let other = Arc::clone(&manager);
    let waiter = thread::spawn(move || {
        let transaction = begin(&other, Isolation::ReadCommitted);
        other.locks().wait_for_xid(&transaction, xid, WaitPolicy::Block)
    });
    holder.commit(Durability::Async).unwrap();
    // The waiter ends without help. With a lost wake-up it would wait until the bound on steps is
    // met.
    waiter.join().unwrap().unwrap();
}

#[test]
fn a_wake_up_is_not_lost() {
    assert!(run(None, 1000, no_wait_times_out));
}

#[test]
fn waiting_without_a_second_look_is_found() {
    assert!(!run(Some("xid_wait_without_second_look"), 2000, no_wait_times_out));
}

/// Versions of one row. The collector removes the removable ones; readers, at both levels, never
/// miss a version that their snapshot sees.
struct Row {
    /// For each version: inserter, deleter, removed.
    versions: Vec<(Xid, Xid, AtomicBool)>,
}

fn collector_against_readers() {
    const UPDATES: usize = 3;
    let manager = manager();
    // The updates are planned in advance, so that no thread needs a lock that would order them.
    let writer = manager.register_session().unwrap();
    let first = Xid::FROZEN;
    let row: Arc<Mutex<Row>> =
        Arc::new(Mutex::new(Row { versions: vec![(first, Xid::INVALID, AtomicBool::new(false))] }));
    let writes = {
        let (manager, row) = (Arc::clone(&manager), Arc::clone(&row));
        thread::spawn(move || {
            for at in 0..UPDATES {
                let transaction = manager.begin(&writer, BeginOptions::default()).unwrap();
                let xid = transaction.write_xid().unwrap();
                {
                    let mut row = row.lock();
                    row.versions.last_mut().unwrap().1 = xid;
                    row.versions.push((xid, Xid::INVALID, AtomicBool::new(false)));
                }
                let durability = [Durability::Async, Durability::Flush][at % 2];
                transaction.commit(durability).unwrap();
            }
        })
    };
    let collector = {
        let (manager, row) = (Arc::clone(&manager), Arc::clone(&row));
        thread::spawn(move || {
            for _ in 0..3 {
                let horizon = manager.horizon();
                thread::yield_now();
                let row = row.lock();
                for (xmin, xmax, removed) in &row.versions {
                    let XidStatus::Committed(end) = manager.status(*xmax) else { continue };
                    let begin = match manager.status(*xmin) {
                        XidStatus::Committed(begin) => begin,
                        other => panic!("deleted by a commit, inserted by {other:?}"),
                    };
                    if horizon.removable(begin, end) {
                        removed.store(true, Ordering::Relaxed);
                    }
                }
            }
        })
    };
    let reader = |isolation| {
        let (manager, row) = (Arc::clone(&manager), Arc::clone(&row));
        thread::spawn(move || {
            let transaction = begin(&manager, isolation);
            for _ in 0..2 {
                let snapshot = transaction.snapshot().unwrap();
                let mut seen = None;
                for _ in 0..2 {
                    let row = row.lock();
                    let view = transaction.view(&snapshot);
                    let visible = |(xmin, xmax, _): &&(Xid, Xid, AtomicBool)| {
                        view.sees(*xmin, *xmax, Default::default())
                    };
                    let found: Vec<_> = row.versions.iter().filter(visible).collect();
                    assert_eq!(found.len(), 1, "one version of the row at {}", snapshot.csn());
                    assert!(
                        !found[0].2.load(Ordering::Relaxed),
                        "the version that {} sees is gone",
                        snapshot.csn()
                    );
                    assert!(seen.is_none_or(|seen| seen == found[0].0), "another answer");
                    seen = Some(found[0].0);
                    drop(row);
                    thread::yield_now();
                }
            }
        })
    };
    let readers = [reader(Isolation::ReadCommitted), reader(Isolation::RepeatableRead)];
    for thread in readers.into_iter().chain([writes, collector]) {
        thread.join().unwrap();
    }
    // No reader is left: everything but the newest version can go.
    let horizon = manager.horizon();
    let row = row.lock();
    for (xmin, xmax, _) in &row.versions[..UPDATES] {
        let XidStatus::Committed(end) = manager.status(*xmax) else { panic!("it committed") };
        let XidStatus::Committed(begin) = manager.status(*xmin) else { panic!("it committed") };
        assert!(horizon.removable(begin, end));
    }
    assert_eq!(horizon.oldest(), manager.published());
    assert!(horizon.current() > Csn(2));
}

#[test]
fn the_collector_removes_nothing_that_is_seen() {
    assert!(run(None, 3000, collector_against_readers));
}

#[test]
fn bugs_in_snapshots_and_publication_are_found() {
    for bug in [
        "snapshot_without_pending",
        "removable_without_published",
        "slots_before_published",
        "publish_before_marking",
    ] {
        assert!(!run(Some(bug), 20_000, collector_against_readers), "{bug} was not found");
    }
}

/// Tests shared row locks in memory: a writer that finds the row free under the latch is the only
/// holder.
fn shared_row_locks() {
    let manager = manager();
    let row = RowKey { file: RelFileId(20), root: Tid::new(1, 1), incarnation: 0 };
    // Stands for the page's latch and the tuple: number of sharers, and whether there is a writer.
    let page = Arc::new(Mutex::new((0_u32, false)));
    let threads: Vec<_> = (0..3)
        .map(|at| {
            let (manager, page) = (Arc::clone(&manager), Arc::clone(&page));
            thread::spawn(move || {
                let transaction = begin(&manager, Isolation::ReadCommitted);
                let locks = manager.locks();
                let (shares, mode) = if at < 2 {
                    (true, RowLockMode::Share)
                } else {
                    (false, RowLockMode::NoKeyUpdate)
                };
                loop {
                    {
                        let mut page = page.lock();
                        let free = if shares {
                            !page.1 && locks.try_lock_row(&transaction, row, mode).unwrap()
                        } else {
                            locks.row_is_free(&transaction, row, mode)
                        };
                        if free && shares {
                            page.0 += 1;
                            break;
                        }
                        if free {
                            assert_eq!(page.0, 0, "sharers hold the row");
                            page.1 = true;
                            break;
                        }
                        if page.1 {
                            // The writer has no waiters' queue of its own here.
                            return;
                        }
                    }
                    locks.wait_for_row(&transaction, row, mode, WaitPolicy::Block).unwrap();
                }
                thread::yield_now();
                if shares {
                    page.lock().0 -= 1;
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!manager.locks().any_row_locks());
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn a_writer_waits_for_sharers() {
    assert!(run(None, 1500, shared_row_locks));
}

/// Locks of the rows of one page, as their holders report them: session, row and mode.
#[derive(Default)]
struct RowOracle(Mutex<Vec<(i32, u16, RowLockMode)>>);

impl RowOracle {
    fn enter(&self, backend: i32, row: u16, mode: RowLockMode) {
        let mut held = self.0.lock();
        for (other, other_row, other_mode) in &*held {
            assert!(
                *other == backend || *other_row != row || !mode.conflicts_with(*other_mode),
                "{mode:?} was granted on {row} beside {other_mode:?}"
            );
        }
        held.push((backend, row, mode));
    }

    fn leave(&self, backend: i32, locks: &[(u16, RowLockMode)]) {
        let mut held = self.0.lock();
        for (row, mode) in locks {
            let at = held.iter().position(|it| *it == (backend, *row, *mode)).unwrap();
            held.swap_remove(at);
        }
    }
}

fn row_of_page(offset: u16) -> RowKey {
    RowKey { file: RelFileId(20), root: Tid::new(1, offset), incarnation: 0 }
}

/// Locks rows at random, in compatible modes and others, again in a stronger one. Releases them by
/// savepoint or by the end. A savepoint may be released meanwhile.
fn lock_rows_at_random(
    manager: &Arc<TransactionManager>,
    session: &Arc<SessionControl>,
    oracle: &RowOracle,
) {
    let mut rng = thread_rng();
    let (locks, backend) = (manager.locks(), session.backend());
    for _ in 0..2 {
        let transaction = manager.begin(session, BeginOptions::default()).unwrap();
        let mut held: Vec<(u16, RowLockMode)> = Vec::new();
        let mut savepoint = None;
        for _ in 0..rng.gen_range(2..6) {
            if rng.gen_bool(0.3) && savepoint.is_none() {
                transaction.savepoint("s");
                savepoint = Some(held.len());
            }
            let row = rng.gen_range(1..3);
            let mode = RowLockMode::ALL[[0, 0, 1, 1, 2, 3][rng.gen_range(0..6)]];
            let policy = [WaitPolicy::Block, WaitPolicy::Block, WaitPolicy::Skip];
            let policy = policy[rng.gen_range(0..3)];
            match locks.lock_row(&transaction, row_of_page(row), mode, policy) {
                Ok(true) if held.contains(&(row, mode)) => {}
                Ok(true) => {
                    oracle.enter(backend, row, mode);
                    held.push((row, mode));
                }
                Ok(false) => {}
                Err(Error::Deadlock { .. } | Error::Cancelled) => break,
                Err(other) => panic!("{other}"),
            }
            thread::yield_now();
            if let Some(keep) = savepoint
                && rng.gen_bool(0.4)
            {
                if rng.gen_bool(0.3) {
                    transaction.release("s").unwrap();
                    savepoint = None;
                } else {
                    oracle.leave(backend, &held.split_off(keep));
                    transaction.rollback_to("s").unwrap();
                }
            }
            for row in 1..3 {
                let holds = held.iter().any(|it| it.0 == row);
                assert_eq!(locks.holds_row(&transaction, row_of_page(row)), holds, "row {row}");
            }
        }
        oracle.leave(backend, &held);
        drop(transaction);
    }
}

/// Rows of one page by three sessions and a canceller. Most locks are bits, and those with waiters
/// are promoted, without a visible difference.
fn rows_of_a_page() {
    let manager = manager();
    let oracle = Arc::new(RowOracle::default());
    let sessions: Vec<_> = (0..3).map(|_| manager.register_session().unwrap()).collect();
    let threads: Vec<_> = sessions
        .iter()
        .map(|session| {
            let (manager, oracle) = (Arc::clone(&manager), Arc::clone(&oracle));
            let session = Arc::clone(session);
            thread::spawn(move || lock_rows_at_random(&manager, &session, &oracle))
        })
        .collect();
    for session in &sessions {
        thread::yield_now();
        session.cancel();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!manager.locks().any_row_locks());
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn rows_of_a_page_exclude_each_other_and_are_given_back() {
    assert!(run(None, 6000, rows_of_a_page));
}

#[test]
fn bugs_in_the_bits_of_rows_are_found() {
    for bug in ["promotion_without_bits", "bits_released_without_entries", "bit_joins_outer_level"]
    {
        assert!(!run(Some(bug), 3000, rows_of_a_page), "{bug} was not found");
    }
}
