//! Models of the protocols for the model checker.
//!
//! The checker runs the shipped types over every interleaving and every value that the memory model
//! allows. It must find each planted bug.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom::thread;
use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_env::{Env, bugs};
use niwaki_storage::{Csn, Lsn, RelFile, Xid};

use crate::durability::commit::mark_and_publish;
use crate::visibility::command::CommandId;
use crate::visibility::snapshot::{Horizon, Registration, SnapshotSlots};
use crate::xact::directory::XactStates;
use crate::xact::segment::XIDS_PER_SEGMENT;
use crate::{
    BeginOptions, TableId, TableLockMode, TransactionLog, TransactionManager, TxnOptions,
    WaitPolicy,
};

/// Serializes the models: a planted bug applies to the whole process.
static ONE_MODEL_AT_A_TIME: Mutex<()> = Mutex::new(());

const START: Csn = Csn(10);
const DELETED: Csn = Csn(20);
const DELETER: Xid = Xid(3);
const OTHER: Xid = Xid(5);

fn check(bug: Option<&'static str>, model: fn()) -> bool {
    let _alone = ONE_MODEL_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    bugs::plant(bug);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let passed = catch_unwind(AssertUnwindSafe(|| builder.check(model))).is_ok();
    bugs::plant(None);
    passed
}

struct World {
    slots: Arc<SnapshotSlots>,
    states: XactStates,
    removed: AtomicBool,
}

impl World {
    fn new() -> Arc<Self> {
        let states = XactStates::new();
        states.open_segment(0, || Ok(())).expect("a first segment");
        states.open_segment(1, || Ok(())).expect("a second segment");
        let slots = SnapshotSlots::new(2, START);
        Arc::new(Self { slots, states, removed: AtomicBool::new(false) })
    }

    fn sees(&self, xid: Xid, snapshot: Csn) -> bool {
        self.states.get(xid).is_some_and(|state| state > 1 && state <= snapshot.0)
    }

    /// Collects garbage: removes the version that lived in [5, DELETED) if the horizon allows that.
    fn collect(&self) {
        let mut horizon = Horizon::new(true);
        self.slots.read_into(&mut horizon);
        let state = self.states.get(DELETER).unwrap_or(0);
        // A reader of a state waits for its publication (rule `published`).
        let ended = state > 1 && Csn(state) <= self.slots.published();
        if ended && horizon.removable(Csn(5), Csn(state)) {
            self.removed.store(true, Ordering::Release);
        }
    }
}

/// Checks commit × snapshot × collector: a version is not removed while a snapshot that sees it is
/// alive.
fn nothing_seen_is_removed() {
    let world = World::new();
    let committer = Arc::clone(&world);
    let committer = thread::spawn(move || {
        mark_and_publish(&committer.states, &committer.slots, [(DELETER, DELETED)].into_iter());
    });
    let collector = Arc::clone(&world);
    let collector = thread::spawn(move || collector.collect());
    let home = Registration::new(&world.slots).expect("a slot");
    let snapshot = Registration::take(&home, false, CommandId(0)).expect("a slot");
    let deleted = world.sees(DELETER, snapshot.csn());
    let removed = world.removed.load(Ordering::Acquire);
    assert!(deleted || !removed, "the snapshot at {} misses the version", snapshot.csn());
    assert_eq!(deleted, world.sees(DELETER, snapshot.csn()), "the same question, another answer");
    collector.join().expect("the collector ends");
    let removed = world.removed.load(Ordering::Acquire);
    assert!(deleted || !removed, "the snapshot at {} misses the version", snapshot.csn());
    drop(snapshot);
    committer.join().expect("the committer ends");
}

#[test]
fn a_snapshot_keeps_what_it_sees() {
    assert!(check(None, nothing_seen_is_removed));
}

#[test]
fn a_snapshot_taken_without_pending_is_found() {
    assert!(!check(Some("snapshot_without_pending"), nothing_seen_is_removed));
}

#[test]
fn removing_what_ended_after_c_is_found() {
    assert!(!check(Some("removable_without_published"), nothing_seen_is_removed));
}

#[test]
fn reading_the_slots_before_c_is_found() {
    assert!(!check(Some("slots_before_published"), nothing_seen_is_removed));
}

/// Commits two transactions in order: a snapshot sees none, the first, or both, and never changes
/// its answer.
fn one_snapshot_one_answer() {
    let world = World::new();
    let committer = Arc::clone(&world);
    let committer = thread::spawn(move || {
        let commits = [(DELETER, DELETED), (OTHER, Csn(30))];
        mark_and_publish(&committer.states, &committer.slots, commits[..1].iter().copied());
        mark_and_publish(&committer.states, &committer.slots, commits[1..].iter().copied());
    });
    let home = Registration::new(&world.slots).expect("a slot");
    for _ in 0..2 {
        let snapshot = Registration::take(&home, false, CommandId(0)).expect("a slot");
        let look = || [DELETER, OTHER].map(|xid| world.sees(xid, snapshot.csn()));
        let first = look();
        assert_eq!(first[0], snapshot.csn() >= Csn(20));
        assert_eq!(first, look());
    }
    committer.join().expect("the committer ends");
}

#[test]
fn a_snapshot_does_not_change_its_mind() {
    assert!(check(None, one_snapshot_one_answer));
}

#[test]
fn publishing_before_marking_is_found() {
    assert!(!check(Some("publish_before_marking"), one_snapshot_one_answer));
}

/// Checks that a handle dropped on another thread frees the slot before the session takes it again.
fn a_shared_slot_is_not_wiped() {
    let world = World::new();
    let home = Registration::new(&world.slots).expect("a slot");
    let shared = Registration::take(&home, false, CommandId(0)).expect("a slot");
    let other = shared.clone();
    let dropper = thread::spawn(move || drop(other));
    drop(shared);
    let again = Registration::take(&home, false, CommandId(0)).expect("a slot");
    let mut horizon = Horizon::new(true);
    dropper.join().expect("the dropper ends");
    world.slots.read_into(&mut horizon);
    assert!(horizon.snapshots().contains(&again.csn()), "the registered snapshot is not there");
}

#[test]
fn a_slot_survives_its_former_owner() {
    assert!(check(None, a_shared_slot_is_not_wiped));
}

/// Reuses a frame of states while another thread reads the segment that the frame held.
fn a_reused_frame_is_noticed() {
    let states = Arc::new(XactStates::new());
    states.open_segment(0, || Ok(())).expect("room");
    let xid = Xid(3);
    states.commit(xid, Csn(20));
    let writer = Arc::clone(&states);
    let writer = thread::spawn(move || {
        writer.close_segment(0);
        writer.open_segment(1, || Ok(())).expect("room");
        writer.abort(Xid(XIDS_PER_SEGMENT + 3));
    });
    let state = states.get(xid);
    assert!(state.is_none() || state == Some(20), "the state of another transaction: {state:?}");
    writer.join().expect("the writer ends");
}

#[test]
fn no_state_of_another_transaction_is_read() {
    assert!(check(None, a_reused_frame_is_noticed));
}

struct NoLog;

impl TransactionLog for NoLog {
    fn append(&self, _: u8, _: Xid, _: &[u8]) -> crate::Result<Lsn> {
        Ok(Lsn(100))
    }
    fn flush(&self, _: Lsn) -> crate::Result<()> {
        Ok(())
    }
    fn flushed(&self) -> Lsn {
        Lsn(100)
    }
    fn drop_file(&self, _: RelFile) {}
}

/// Checks that a weak lock on the fast path and a strong lock are never held at the same time.
fn fast_against_strong() {
    let options = TxnOptions { spin: Duration::ZERO, ..TxnOptions::default() };
    let manager = TransactionManager::new(Env::memory(), options);
    manager.attach_log(Arc::new(NoLog)).expect("it is not open yet");
    let held = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let sessions = [0, 1].map(|_| manager.register_session().expect("room"));
    let lock = |at: usize, mode: TableLockMode| {
        let (manager, held) = (Arc::clone(&manager), Arc::clone(&held));
        let session = Arc::clone(&sessions[at]);
        move || {
            let options = BeginOptions { started_us: Some(0), ..BeginOptions::default() };
            let transaction = manager.begin(&session, options).expect("begins");
            let locks = manager.locks();
            if locks
                .acquire_table(&transaction, TableId(1), mode, WaitPolicy::Skip)
                .expect("no wait")
            {
                held[at].store(true, Ordering::SeqCst);
                assert!(!held[1 - at].load(Ordering::SeqCst), "both have the table");
                held[at].store(false, Ordering::SeqCst);
            }
            drop(transaction);
        }
    };
    let weak = thread::spawn(lock(0, TableLockMode::AccessShare));
    lock(1, TableLockMode::AccessExclusive)();
    weak.join().expect("it ends");
}

#[test]
fn a_fast_lock_and_a_strong_one_exclude_each_other() {
    assert!(check(None, fast_against_strong));
}

#[test]
fn a_fast_lock_that_does_not_look_is_found() {
    assert!(!check(Some("fast_lock_without_check"), fast_against_strong));
}
