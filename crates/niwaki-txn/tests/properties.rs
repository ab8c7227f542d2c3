//! Random histories against models that are too simple to be wrong.

#![cfg(not(any(feature = "shuttle", feature = "loom")))]

mod support;

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_storage::{Csn, RelFileId, Tid, Xid};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, Result, RowKey, RowLockMode, Snapshot, TableId,
    TableLockMode, Transaction, TransactionLog, TransactionManager, TxnOptions, WaitPolicy,
};
use proptest::prelude::*;
use support::CountingLog;

fn manager(interval_gc: bool) -> Arc<TransactionManager> {
    let options = TxnOptions { interval_gc, ..TxnOptions::default() };
    let manager = TransactionManager::new(Env::memory(), options);
    manager.attach_log(Arc::new(CountingLog::default())).unwrap();
    manager
}

fn begin(manager: &Arc<TransactionManager>) -> Transaction {
    let session = manager.register_session().unwrap();
    manager.begin(&session, BeginOptions::default()).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum SnapshotStep {
    Commit,
    /// Takes a new snapshot beside the session's others.
    Take(usize),
    /// Drops the session's oldest snapshot.
    Drop(usize),
    Share(usize),
}

fn snapshot_step() -> impl Strategy<Value = SnapshotStep> {
    prop_oneof![
        3 => Just(SnapshotStep::Commit),
        2 => (0..3_usize).prop_map(SnapshotStep::Take),
        2 => (0..3_usize).prop_map(SnapshotStep::Drop),
        1 => (0..3_usize).prop_map(SnapshotStep::Share),
    ]
}

#[derive(Clone, Copy, Debug)]
enum LockStep {
    Table(usize, u64, usize),
    Row(usize, u32, usize),
    Savepoint(usize),
    RollbackTo(usize),
    Release(usize),
    End(usize),
}

const TRANSACTIONS: usize = 4;

fn lock_step() -> impl Strategy<Value = LockStep> {
    let who = 0..TRANSACTIONS;
    prop_oneof![
        // More tables than there are fast slots.
        8 => (who.clone(), 0..20_u64, 0..8_usize).prop_map(|(w, t, m)| LockStep::Table(w, t, m)),
        16 => (who.clone(), 0..2_u64, 0..3_usize).prop_map(|(w, t, m)| LockStep::Table(w, t, m)),
        3 => (who.clone(), 0..3_u32, 0..4_usize).prop_map(|(w, r, m)| LockStep::Row(w, r, m)),
        2 => who.clone().prop_map(LockStep::Savepoint),
        2 => who.clone().prop_map(LockStep::RollbackTo),
        1 => who.clone().prop_map(LockStep::Release),
        1 => who.prop_map(LockStep::End),
    ]
}

/// The locks of a transaction in the simplest form: a list, and positions in it for savepoints.
#[derive(Default)]
struct ModelTransaction {
    held: Vec<(Lockable, usize)>,
    savepoints: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lockable {
    Table(u64),
    Row(u32),
}

fn conflict(what: Lockable, one: usize, other: usize) -> bool {
    match what {
        Lockable::Table(_) => TableLockMode::ALL[one].conflicts_with(TableLockMode::ALL[other]),
        Lockable::Row(_) => RowLockMode::ALL[one].conflicts_with(RowLockMode::ALL[other]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A version is removable exactly if it ended at or before C, with no snapshot in between
    /// (rule `removable`).
    #[test]
    fn the_interval_test_is_the_rule(steps in proptest::collection::vec(snapshot_step(), 1..60), interval: bool) {
        let manager = manager(interval);
        let transactions: Vec<_> = (0..3).map(|_| begin(&manager)).collect();
        let writer = manager.register_session().unwrap();
        let mut held: Vec<Vec<Snapshot>> = vec![Vec::new(), Vec::new(), Vec::new()];
        let mut commits = vec![Csn(3), manager.published()];
        for step in steps {
            match step {
                SnapshotStep::Commit => {
                    let transaction = manager.begin(&writer, BeginOptions::default()).unwrap();
                    transaction.write_xid().unwrap();
                    commits.push(transaction.commit(Durability::Flush).unwrap().unwrap());
                }
                SnapshotStep::Take(at) => held[at].push(transactions[at].snapshot().unwrap()),
                SnapshotStep::Drop(at) => if !held[at].is_empty() { held[at].remove(0); },
                SnapshotStep::Share(at) => if let Some(last) = held[at].last().cloned() { held[at].push(last); },
            }
            let horizon = manager.horizon();
            let current = manager.published();
            let live: Vec<Csn> = held.iter().flatten().map(Snapshot::csn).collect();
            let next = Csn(current.0 + 7);
            for &begin in &commits {
                for &end in commits.iter().chain([&next]).filter(|end| **end > begin) {
                    let begin_or_any = if interval { begin } else { Csn(0) };
                    let needed = live.iter().any(|snapshot| begin_or_any <= *snapshot && *snapshot < end);
                    prop_assert_eq!(horizon.removable(begin, end), end <= current && !needed);
                }
            }
            prop_assert_eq!(horizon.oldest(), live.into_iter().min().unwrap_or(current));
        }
    }

    /// The lock table, with fast slots, transfers and savepoints, grants the same locks as a plain
    /// list.
    #[test]
    fn locks_are_granted_as_a_list_would(steps in proptest::collection::vec(lock_step(), 1..120)) {
        let manager = manager(true);
        let mut real: Vec<_> = (0..TRANSACTIONS).map(|_| begin(&manager)).collect();
        let mut model: Vec<_> = (0..TRANSACTIONS).map(|_| ModelTransaction::default()).collect();
        for step in steps {
            let (who, what, mode) = match step {
                LockStep::Table(who, table, mode) => (who, Lockable::Table(table), mode),
                LockStep::Row(who, row, mode) => (who, Lockable::Row(row), mode),
                LockStep::Savepoint(who) => {
                    real[who].savepoint("s");
                    let held = model[who].held.len();
                    model[who].savepoints.push(held);
                    continue;
                }
                LockStep::RollbackTo(who) => {
                    let known = model[who].savepoints.last().copied();
                    prop_assert_eq!(real[who].rollback_to("s").is_ok(), known.is_some());
                    if let Some(keep) = known { model[who].held.truncate(keep); }
                    continue;
                }
                LockStep::Release(who) => {
                    let known = model[who].savepoints.pop();
                    prop_assert_eq!(real[who].release("s").is_ok(), known.is_some());
                    continue;
                }
                LockStep::End(who) => {
                    real[who] = begin(&manager);
                    model[who] = ModelTransaction::default();
                    continue;
                }
            };
            let free = model.iter().enumerate().filter(|(other, _)| *other != who).all(|(_, other)| {
                other.held.iter().all(|(held, held_mode)| *held != what || !conflict(what, mode, *held_mode))
            });
            let locks = manager.locks();
            let granted = match what {
                Lockable::Table(table) => locks
                    .acquire_table(&real[who], TableId(table), TableLockMode::ALL[mode], WaitPolicy::Skip)
                    .unwrap(),
                Lockable::Row(row) => {
                    let key = RowKey { file: RelFileId(20), root: Tid::new(row / 2, row as u16 % 2 + 1), incarnation: 0 };
                    let mode = RowLockMode::ALL[mode];
                    prop_assert_eq!(locks.row_is_free(&real[who], key, mode), free);
                    locks.try_lock_row(&real[who], key, mode).unwrap()
                }
            };
            prop_assert_eq!(granted, free, "{:?} of {:?} by {}", mode, what, who);
            // A mode held before the savepoint stays when the savepoint goes.
            if granted && !model[who].held.contains(&(what, mode)) {
                model[who].held.push((what, mode));
            }
        }
        drop(real);
        prop_assert!(manager.locks().infos().is_empty());
        prop_assert!(!manager.locks().any_row_locks());
    }

    /// A snapshot sees exactly the commits up to its own. Of its own transaction it sees the
    /// earlier commands that no savepoint took back (S1).
    #[test]
    fn visibility_is_commit_order(
        steps in proptest::collection::vec((0..3_usize, 0..6_usize), 1..60),
        repeatable: bool,
    ) {
        let manager = manager(true);
        let isolation =
            if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let sessions: Vec<_> = (0..3).map(|_| manager.register_session().unwrap()).collect();
        let start = |at: usize| {
            manager.begin(&sessions[at], BeginOptions { isolation, ..BeginOptions::default() }).unwrap()
        };
        let mut open: Vec<_> = (0..3).map(|at| Some(start(at))).collect();
        // Each version: writer's session, xid, command field, savepoint depth, fate.
        struct Version { by: usize, xid: Xid, cid: niwaki_txn::TupleCid, depth: usize, committed: Option<u64>, undone: bool, round: u64 }
        let mut versions: Vec<Version> = Vec::new();
        let mut rounds = [0_u64; 3];
        let mut commits = 0_u64;
        let mut kept: [Option<u64>; 3] = [None; 3];
        for (at, action) in steps {
            let transaction = open[at].as_ref().unwrap();
            let depth = transaction.savepoint_depth();
            let mine = |version: &Version, rounds: &[u64; 3]| version.by == at && version.round == rounds[at] && version.committed.is_none();
            match action {
                0 | 1 => {
                    let xid = transaction.write_xid().unwrap();
                    versions.push(Version { by: at, xid, cid: transaction.insert_cid(), depth, committed: None, undone: false, round: rounds[at] });
                }
                2 => transaction.savepoint("s"),
                3 if depth > 0 => {
                    transaction.rollback_to("s").unwrap();
                    for version in versions.iter_mut().filter(|version| mine(version, &rounds) && version.depth >= depth) {
                        version.undone = true;
                    }
                }
                4 if depth > 0 => {
                    transaction.release("s").unwrap();
                    for version in versions.iter_mut().filter(|version| mine(version, &rounds) && version.depth >= depth) {
                        version.depth = depth - 1;
                    }
                }
                5 => {
                    let wrote = open[at].take().unwrap().commit(Durability::Flush).unwrap().is_some();
                    commits += u64::from(wrote);
                    for version in versions.iter_mut().filter(|version| version.by == at && version.round == rounds[at] && version.committed.is_none()) {
                        version.committed = Some(commits);
                    }
                    rounds[at] += 1;
                    kept[at] = None;
                    open[at] = Some(start(at));
                }
                _ => {}
            }
            // Every transaction checks every version.
            for (reader, transaction) in open.iter().enumerate() {
                let transaction = transaction.as_ref().unwrap();
                let snapshot = transaction.snapshot().unwrap();
                let position = if repeatable { *kept[reader].get_or_insert(commits) } else { commits };
                let view = transaction.view(&snapshot);
                for version in &versions {
                    let own = version.by == reader && version.round == rounds[reader] && version.committed.is_none();
                    let expected = !version.undone
                        && if own {
                            version.cid.raw < transaction.command().0
                        } else {
                            version.committed.is_some_and(|committed| committed <= position)
                        };
                    prop_assert_eq!(view.sees(version.xid, Xid::INVALID, version.cid), expected);
                }
                transaction.next_command().unwrap();
            }
        }
    }
}

/// Threads that read for a transaction see the same as its snapshot, write nothing, and end without
/// it. Once the transaction has written, it has no such readers.
#[test]
fn readers_only_read_and_leave_their_transaction_open() {
    let manager = manager(true);
    let earlier = begin(&manager);
    let seen = earlier.write_xid().unwrap();
    earlier.commit(Durability::Flush).unwrap();
    let session = manager.register_session().unwrap();
    let transaction = manager.begin(&session, BeginOptions::default()).unwrap();
    let snapshot = transaction.snapshot().unwrap();
    let later = begin(&manager);
    let unseen = later.write_xid().unwrap();
    later.commit(Durability::Flush).unwrap();
    let readers = transaction.readers().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = readers.transaction();
                let view = reader.view(&snapshot);
                assert!(view.committed_before(seen) && !view.committed_before(unseen));
                assert!(matches!(reader.write_xid(), Err(niwaki_txn::Error::ReadOnly)));
            });
        }
    });
    // The transaction goes on as if there had been no readers: its session still runs it, and
    // begins no other.
    let another = || manager.begin(&session, BeginOptions::default());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(another)).is_err());
    let xid = transaction.write_xid().unwrap();
    assert!(transaction.is_mine(xid));
    assert!(transaction.readers().is_none());
    transaction.commit(Durability::Flush).unwrap();
    manager.begin(&session, BeginOptions::default()).unwrap().abort();
}
