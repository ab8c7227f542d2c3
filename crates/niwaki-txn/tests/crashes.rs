//! Crashes under the deterministic scheduler.
//!
//! Sessions commit, abort and roll back savepoints, while checkpoints run and segments are spilled
//! and shrunk. A report checks the view of its snapshot. Then the machine stops, at a moment that
//! the schedule chooses, with unsynced writes kept, lost and torn.
//!
//! The recovered database holds every commit that was reported (W2) and nothing that was aborted.
//! It holds a transaction with all of its parts or with none.
//!
//! `cargo test -p niwaki-txn --features shuttle --test crashes`; `NIWAKI_SCHEDULES` sets the number
//! of schedules.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::sync::bursts::Bursts;
use niwaki_env::sync::{Mutex, thread};
use niwaki_env::vfs::{CrashOptions, FaultyVfs, Vfs};
use niwaki_env::{Env, bugs};
use niwaki_storage::{CheckpointKind, RelFile, Storage, StorageOptions, Xid};
use niwaki_txn::{BeginOptions, Durability, TransactionManager, TxnOptions, XidStatus};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Seed of all schedules, so that a run is the same each time; `SHUTTLE_RANDOM_SEED` replaces it.
const SEED: u64 = 1;

/// Serializes the runs: a planted bug applies to the whole process.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn schedules(default: usize) -> usize {
    let text = std::env::var("NIWAKI_SCHEDULES").ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Runs with switches at every step.
fn run(bug: Option<&'static str>, schedules: usize) -> bool {
    run_with(bug, RandomScheduler::new_from_seed(SEED, schedules))
}

/// Runs with switches at a few places: one thread stands still while others do much.
fn run_in_turns(bug: Option<&'static str>, schedules: usize) -> bool {
    run_with(bug, PctScheduler::new_from_seed(SEED, 4, schedules))
}

fn run_with(bug: Option<&'static str>, scheduler: impl Scheduler + 'static) -> bool {
    run_body(bug, scheduler, crash)
}

fn run_body(bug: Option<&'static str>, scheduler: impl Scheduler + 'static, body: fn()) -> bool {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(3_000_000);
    config.silence_warnings = true;
    config.stack_size = 1 << 20;
    bugs::plant(bug);
    let passed = catch_unwind(AssertUnwindSafe(|| {
        Runner::new(scheduler, config).run(body);
    }))
    .is_ok();
    bugs::plant(None);
    passed
}

fn open(vfs: Arc<dyn Vfs>) -> (Arc<Storage>, Arc<TransactionManager>) {
    let env = Env::simulated(vfs, 1);
    let options = TxnOptions {
        spin: Duration::ZERO,
        deadlock_timeout: Duration::from_millis(1),
        ..TxnOptions::default()
    };
    let manager = TransactionManager::new(env.clone(), options);
    let managers = vec![Arc::clone(&manager) as _];
    let storage = StorageOptions { shared_buffers: 16, ..StorageOptions::tiny() };
    let (storage, _) = Storage::open(env, storage, managers).expect("it opens");
    manager.attach(&storage).expect("it is not open yet");
    (storage, manager)
}

/// Known facts about one transaction.
#[derive(Clone, Debug, Default)]
struct Fate {
    /// Ids of the transaction that count if it commits.
    kept: Vec<Xid>,
    /// Ids of the transaction that were rolled back.
    undone: Vec<Xid>,
    /// True if the commit was reported, durably.
    durable: bool,
    /// True if the abort was reported.
    aborted: bool,
}

fn work(manager: &Arc<TransactionManager>, fates: &Mutex<Vec<Fate>>) {
    let session = manager.register_session().expect("room");
    let mut rng = thread_rng();
    for _ in 0..4 {
        let transaction = manager.begin(&session, BeginOptions::default()).expect("begins");
        let mut fate = Fate::default();
        let at = {
            let mut fates = fates.lock();
            fates.push(Fate::default());
            fates.len() - 1
        };
        fate.kept.push(transaction.write_xid().expect("an id"));
        if rng.gen_bool(0.4) {
            transaction.savepoint("s");
            fate.undone.push(transaction.write_xid().expect("an id"));
            transaction.rollback_to("s").expect("it is there");
            fate.kept.push(transaction.write_xid().expect("an id"));
        }
        // The fate is stored before the transaction can have ended.
        fates.lock()[at] = fate;
        let durability = match rng.gen_range(0..4) {
            0 => None,
            1 => Some(Durability::Async),
            _ => Some(Durability::Flush),
        };
        match durability {
            None => {
                transaction.abort();
                fates.lock()[at].aborted = true;
            }
            Some(durability) => {
                transaction.commit(durability).expect("room on disk");
                fates.lock()[at].durable = durability == Durability::Flush;
            }
        }
    }
}

/// Checks again and again that a snapshot's view does not change, while segments are spilled and
/// shrunk.
fn report(manager: &Arc<TransactionManager>, fates: &Mutex<Vec<Fate>>) {
    let session = manager.register_session().expect("room");
    for _ in 0..3 {
        let transaction = manager.begin(&session, BeginOptions::default()).expect("begins");
        let snapshot = transaction.snapshot().expect("a slot");
        let xids: Vec<Xid> = fates.lock().iter().flat_map(|fate| fate.kept.clone()).collect();
        let look = || {
            let seen = xids.iter().map(|xid| manager.status(*xid));
            let seen =
                seen.map(|s| matches!(s, XidStatus::Committed(csn) if csn <= snapshot.csn()));
            seen.collect::<Vec<_>>()
        };
        let first = look();
        for _ in 0..4 {
            thread::yield_now();
            assert_eq!(look(), first, "{xids:?} at {:?}", snapshot.csn());
        }
    }
}

fn check(manager: &TransactionManager, fates: &[Fate], survivors: &str) {
    for fate in fates {
        let states: Vec<_> = fate.kept.iter().map(|xid| manager.status(*xid)).collect();
        let committed = states.iter().filter(|state| matches!(state, XidStatus::Committed(_)));
        let committed = committed.count();
        assert!(
            committed == 0 || committed == states.len(),
            "half a transaction: {fate:?} is {states:?} ({survivors})"
        );
        // A transaction that never reached the disk has no state; its ids may be assigned again.
        assert!(
            !fate.durable || committed == states.len(),
            "a reported commit is lost: {fate:?} is {states:?} ({survivors})"
        );
        assert!(
            !fate.aborted || committed == 0,
            "an abort became a commit: {fate:?} is {states:?} ({survivors})"
        );
        if fate.durable {
            for xid in &fate.undone {
                assert_eq!(manager.status(*xid), XidStatus::Aborted, "{xid} was rolled back");
            }
            assert!(fate.kept.iter().all(|xid| *xid < manager.next_xid()));
        }
    }
}

fn crash() {
    let vfs = FaultyVfs::new();
    let (storage, manager) = open(Arc::new(vfs.clone()));
    let fates = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (manager, fates) = (Arc::clone(&manager), Arc::clone(&fates));
            thread::spawn(move || work(&manager, &fates))
        })
        .collect();
    let checkpointer = {
        let (storage, manager) = (Arc::clone(&storage), Arc::clone(&manager));
        thread::spawn(move || {
            for _ in 0..2 {
                storage.checkpoint(CheckpointKind::Requested, &[&*manager]).expect("room on disk");
            }
        })
    };
    // Some crashes come after all work: then checkpoints have ended in every possible way.
    let moments = thread_rng().gen_range(0..300);
    let late = moments >= 200;
    let reporter = {
        let (manager, fates) = (Arc::clone(&manager), Arc::clone(&fates));
        thread::spawn(move || report(&manager, &fates))
    };
    let mut running = workers;
    running.extend([checkpointer, reporter]);
    if late {
        running.drain(..).for_each(|thread| thread.join().expect("it ends"));
    }
    for _ in 0..moments {
        thread::yield_now();
    }
    // The promises are read first, and the possible states after a crash later.
    let promised = fates.lock().clone();
    let options = CrashOptions { images_max: 4, ..CrashOptions::default() };
    let images = vfs.crash_images(&options);
    running.drain(..).for_each(|thread| thread.join().expect("it ends"));
    drop((storage, manager));
    for image in images {
        let files = Arc::new(image.vfs);
        // Twice: the second opening repeats a recovery that was cut off.
        for _ in 0..2 {
            let (_storage, manager) = open(Arc::new(files.fork()) as _);
            check(&manager, &promised, &image.survivors);
            let (storage, manager) = open(Arc::clone(&files) as _);
            check(&manager, &promised, &image.survivors);
            drop((storage, manager));
        }
    }
}

#[test]
fn commits_survive_a_crash_at_any_moment() {
    assert!(run(None, schedules(300)));
    assert!(run_in_turns(None, schedules(300)));
}

#[test]
fn a_checkpoint_that_forgets_the_commit_queue_is_found() {
    assert!(!run(Some("states_without_commit_queue"), schedules(3000)));
}

#[test]
fn redo_that_keeps_a_shrunk_segment_is_found() {
    assert!(!run(Some("redo_keeps_shrunk_segment"), schedules(3000)));
}

/// Bug: a transaction that ran when its segment was spilled commits, and the next checkpoint does
/// not know the segment.
#[test]
fn a_checkpoint_that_forgets_spilled_segments_is_found() {
    assert!(!run(Some("states_without_spilled"), schedules(3000)));
}

/// Bug: the copy of a status page in memory reports all of its transactions as committed.
#[test]
fn copies_of_status_pages_that_forget_aborted_transactions_are_found() {
    assert!(!run(Some("ended_without_aborted"), schedules(3000)));
}

/// Bug: a transaction ends between the copy of its state and the move of its segment.
#[test]
fn segments_that_are_spilled_beside_an_end_are_found() {
    assert!(!run(Some("spilled_beside_an_end"), schedules(3000)));
}

/// Bug: a transaction gets an id, and opens the segment after others have used it up and it was
/// spilled.
#[test]
fn a_spilled_segment_that_is_opened_again_is_found() {
    assert!(!run_in_turns(Some("spilled_opened_again"), schedules(3000)));
}

/// Bug: between a checkpoint's look at the states and its record, a transaction commits and its
/// segment is shrunk.
#[test]
fn states_that_are_logged_beside_shrinking_are_found() {
    assert!(!run_in_turns(Some("states_beside_shrinking"), schedules(3000)));
}

fn commit_one(manager: &Arc<TransactionManager>) -> Xid {
    let session = manager.register_session().expect("room");
    let transaction = manager.begin(&session, BeginOptions::default()).expect("begins");
    let xid = transaction.write_xid().expect("an id");
    transaction.commit(Durability::Flush).expect("room on disk");
    xid
}

/// Asks again and again for the oldest transaction that a snapshot does not see. Meanwhile its
/// segment moves from memory into the spill file, and from there to its status page.
fn ask_beside_moves() {
    let (_storage, manager) = open(Arc::new(FaultyVfs::new()));
    let session = manager.register_session().expect("room");
    let reader = manager.begin(&session, BeginOptions::default()).expect("begins");
    let snapshot = reader.snapshot().expect("a slot");
    let first = commit_one(&manager);
    let ask = || {
        let oldest = manager.snapshot_xmin(snapshot.csn());
        assert!(oldest <= first, "the snapshot does not see {first}, which is before {oldest}");
    };
    let mover = {
        let manager = Arc::clone(&manager);
        thread::spawn(move || {
            // A running transaction keeps the first segment from being shrunk.
            let session = manager.register_session().expect("room");
            let running = manager.begin(&session, BeginOptions::default()).expect("begins");
            running.write_xid().expect("an id");
            (0..12).for_each(|_| _ = commit_one(&manager));
            running.abort();
            (0..12).for_each(|_| _ = commit_one(&manager));
        })
    };
    (0..40).for_each(|_| ask());
    mover.join().expect("it ends");
    ask();
}

/// A segment that moved between two looks was found in neither place.
#[test]
fn the_oldest_unseen_transaction_is_found_wherever_its_segment_goes() {
    let scheduler = Bursts::new(SEED, schedules(1000), 0..9);
    assert!(run_body(None, scheduler, ask_beside_moves));
}

/// Drops files, one in each transaction, beside checkpoints. A process that is killed after a
/// checkpoint leaves no file that a commit has dropped.
fn drop_beside_checkpoints() {
    let vfs = FaultyVfs::new();
    let (storage, manager) = open(Arc::new(vfs.clone()));
    let begin = |manager: &Arc<TransactionManager>| {
        let session = manager.register_session().expect("room");
        manager.begin(&session, BeginOptions::default()).expect("begins")
    };
    let creating = begin(&manager);
    let xid = creating.write_xid().expect("an id");
    let files = [(); 2].map(|()| RelFile { id: storage.allocate_file(), logged: true });
    for file in files {
        storage.create_file(file, xid).expect("room on disk");
    }
    creating.commit(Durability::Flush).expect("room on disk");
    let dropping = Arc::new(Mutex::new(Vec::new()));
    let dropper = {
        let (manager, dropping) = (Arc::clone(&manager), Arc::clone(&dropping));
        thread::spawn(move || {
            for file in files {
                let transaction = begin(&manager);
                let xid = transaction.write_xid().expect("an id");
                transaction.drop_file_at_commit(file);
                dropping.lock().push((file, xid));
                transaction.commit(Durability::Flush).expect("room on disk");
            }
        })
    };
    let mut killed = Vec::new();
    for _ in 0..2 {
        storage.checkpoint(CheckpointKind::Requested, &[&*manager]).expect("room on disk");
        let dropping = dropping.lock().clone();
        killed.push((dropping, vfs.restarted()));
    }
    dropper.join().expect("it ends");
    drop((storage, manager));
    for (dropping, image) in killed {
        let (storage, manager) = open(Arc::new(image));
        for (file, xid) in dropping {
            let committed = matches!(manager.status(xid), XidStatus::Committed(_));
            let is_known = storage.known_files().iter().any(|(known, _)| known.id == file.id);
            assert_eq!(is_known, !committed, "{file:?}, which {xid} drops");
        }
    }
}

/// Once, a checkpoint came between a commit and the removal of its dropped files, and a crash
/// followed. No record said any more that the files were dropped, and they stayed in `aside/` for
/// ever.
#[test]
fn what_a_commit_dropped_is_gone_after_a_crash() {
    let seed = PctScheduler::new_from_seed(SEED, 4, schedules(300));
    assert!(run_body(None, seed, drop_beside_checkpoints));
}

#[test]
fn a_checkpoint_between_a_commit_and_its_drops_is_found() {
    let seed = PctScheduler::new_from_seed(SEED, 4, schedules(3000));
    assert!(!run_body(Some("drop_beside_checkpoint"), seed, drop_beside_checkpoints));
}

/// Begins transactions until the manager refuses: each writes, and commits or rolls back.
fn work_until_closed(manager: &Arc<TransactionManager>, fates: &Mutex<Vec<Fate>>) {
    let Ok(session) = manager.register_session() else { return };
    let mut rng = thread_rng();
    // Ends: the database is closed.
    while let Ok(transaction) = manager.begin(&session, BeginOptions::default()) {
        for _ in 0..rng.gen_range(0..30) {
            thread::yield_now();
        }
        let mut fate = Fate::default();
        fate.kept.push(transaction.write_xid().expect("an id"));
        let at = {
            let mut fates = fates.lock();
            fates.push(fate);
            fates.len() - 1
        };
        thread::yield_now();
        if rng.gen_bool(0.5) {
            transaction.commit(Durability::Flush).expect("room on disk");
            fates.lock()[at].durable = true;
        } else {
            transaction.abort();
            fates.lock()[at].aborted = true;
        }
    }
}

/// Closes the database beside work, as a server does on a stop request, and opens the directory
/// again. Promises hold, and no id is assigned twice (W2, S1).
fn shutdown() {
    let vfs = FaultyVfs::new();
    let (storage, manager) = open(Arc::new(vfs.clone()));
    let fates = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (manager, fates) = (Arc::clone(&manager), Arc::clone(&fates));
            thread::spawn(move || work_until_closed(&manager, &fates))
        })
        .collect();
    for _ in 0..thread_rng().gen_range(0..60) {
        thread::yield_now();
    }
    manager.refuse_new_work();
    manager.wait_for_transactions(Duration::from_secs(3600)).expect("they end");
    storage.shutdown(&[&*manager]).expect("nothing is written beside it");
    workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
    drop((storage, manager));
    let fates = fates.lock().clone();
    let (_storage, manager) = open(Arc::new(vfs));
    check(&manager, &fates, "a shutdown");
    let session = manager.register_session().expect("room");
    for _ in 0..8 {
        let transaction = manager.begin(&session, BeginOptions::default()).expect("begins");
        let xid = transaction.write_xid().expect("an id");
        let twice = fates.iter().any(|fate| fate.kept.contains(&xid));
        assert!(!twice, "W2: {xid} was given out before the shutdown, and is again: {fates:?}");
        transaction.commit(Durability::Flush).expect("room on disk");
    }
    check(&manager, &fates, "a shutdown, and commits after it");
}

/// Once, a host that closed its database beside its threads found rows that were never committed.
/// Their transaction got its id after the last checkpoint logged the states. The next start
/// assigned the id to a transaction that committed. Closing waits for every transaction now.
#[test]
fn no_number_is_given_twice_when_the_database_closes_beside_work() {
    let seed = RandomScheduler::new_from_seed(SEED, schedules(300));
    assert!(run_body(None, seed, shutdown));
    let seed = PctScheduler::new_from_seed(SEED, 4, schedules(300));
    assert!(run_body(None, seed, shutdown));
}

#[test]
fn a_shutdown_that_waits_for_no_transaction_is_found() {
    let seed = PctScheduler::new_from_seed(SEED, 4, schedules(3000));
    assert!(!run_body(Some("shutdown_beside_transactions"), seed, shutdown));
}

/// Bug: a transaction begins after the closer's look at all sessions.
#[test]
fn a_transaction_that_begins_while_the_database_closes_is_found() {
    let seed = RandomScheduler::new_from_seed(SEED, schedules(3000));
    assert!(!run_body(Some("begin_beside_shutdown"), seed, shutdown));
}
