//! Locks between real threads: waits, grants, time limits and victims.

#![cfg(not(any(feature = "shuttle", feature = "loom")))]

mod support;

use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_env::sync::thread::{self, JoinHandle};
use niwaki_storage::{RelFileId, Tid, Xid};
use niwaki_txn::{
    AdvisoryKey, AdvisoryLocks, BeginOptions, Durability, Error, Interrupted, LockKey, Result,
    RowKey, RowLockMode, SessionControl, TableId, TableLockMode, Transaction, TransactionLog,
    TransactionManager, TxnOptions, WaitPolicy, XidStatus,
};
use support::CountingLog;

/// Creates a manager that looks for deadlocks at once, so that no test waits.
fn manager() -> Arc<TransactionManager> {
    manager_with(TxnOptions { deadlock_timeout: Duration::ZERO, ..TxnOptions::default() })
}

fn manager_with(options: TxnOptions) -> Arc<TransactionManager> {
    let manager = TransactionManager::new(Env::memory(), options);
    manager.attach_log(Arc::new(CountingLog::default())).unwrap();
    manager
}

fn begin(manager: &Arc<TransactionManager>) -> Transaction {
    let session = manager.register_session().unwrap();
    manager.begin(&session, BeginOptions::default()).unwrap()
}

fn lock(transaction: &Transaction, table: u64, mode: TableLockMode) -> Result<bool> {
    let locks = transaction.manager().locks();
    locks.acquire_table(transaction, TableId(table), mode, WaitPolicy::Block)
}

fn try_lock(transaction: &Transaction, table: u64, mode: TableLockMode) -> bool {
    let locks = transaction.manager().locks();
    locks.acquire_table(transaction, TableId(table), mode, WaitPolicy::Skip).unwrap()
}

/// Runs a transaction in a thread of its own.
fn spawn<T: Send + 'static>(
    manager: &Arc<TransactionManager>,
    body: impl FnOnce(&Transaction) -> T + Send + 'static,
) -> (Arc<SessionControl>, JoinHandle<T>) {
    let session = manager.register_session().unwrap();
    let manager = Arc::clone(manager);
    let runs_in = Arc::clone(&session);
    let thread = thread::spawn(move || {
        let transaction = manager.begin(&runs_in, BeginOptions::default()).unwrap();
        body(&transaction)
    });
    (session, thread)
}

/// Returns when the session waits for something.
fn until_waiting(session: &SessionControl) {
    while session.info().waiting_for.is_none() {
        thread::yield_now();
    }
}

const ROW: RowKey = RowKey {
    file: RelFileId(20),
    root: Tid { block: niwaki_storage::BlockNumber(3), offset: niwaki_storage::OffsetNumber(4) },
    incarnation: 1,
};

#[test]
fn modes_exclude_each_other_as_in_postgresql() {
    // PostgreSQL's table of conflicting lock modes (documentation, "Explicit Locking").
    let conflicts = [
        ".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx",
        "xxxxxxxx",
    ];
    for (one, row) in TableLockMode::ALL.into_iter().zip(conflicts) {
        for (other, mark) in TableLockMode::ALL.into_iter().zip(row.chars()) {
            assert_eq!(one.conflicts_with(other), mark == 'x', "{one:?} and {other:?}");
            let manager = manager();
            let (first, second) = (begin(&manager), begin(&manager));
            assert!(try_lock(&first, 1, one));
            assert_eq!(try_lock(&second, 1, other), mark == '.', "{one:?}, then {other:?}");
            assert!(try_lock(&second, 2, other), "another table is free");
            drop(first);
            assert!(try_lock(&second, 1, other), "released");
        }
    }
    let conflicts = ["...x", "..xx", ".xxx", "xxxx"];
    for (one, row) in RowLockMode::ALL.into_iter().zip(conflicts) {
        for (other, mark) in RowLockMode::ALL.into_iter().zip(row.chars()) {
            assert_eq!(one.conflicts_with(other), mark == 'x', "{one:?} and {other:?}");
            let manager = manager();
            let (first, second) = (begin(&manager), begin(&manager));
            let locks = manager.locks();
            assert!(locks.row_is_free(&second, ROW, other));
            assert!(locks.try_lock_row(&first, ROW, one).unwrap());
            assert_eq!(locks.row_is_free(&second, ROW, other), mark == '.');
            assert!(locks.row_is_free(&first, ROW, other), "own locks do not stand in the way");
            assert_eq!(locks.try_lock_row(&second, ROW, other).unwrap(), mark == '.');
        }
    }
}

#[test]
fn a_strong_lock_waits_for_fast_ones_and_keeps_new_ones_out() {
    let manager = manager();
    let reader = begin(&manager);
    assert!(lock(&reader, 1, TableLockMode::AccessShare).unwrap());
    assert!(manager.locks().infos().iter().all(|info| info.fast_path));
    let (session, writer) =
        spawn(&manager, |writer| lock(writer, 1, TableLockMode::AccessExclusive).unwrap());
    until_waiting(&session);
    // The reader's lock was moved, and the reader still holds it.
    assert!(manager.locks().infos().iter().all(|info| !info.fast_path));
    assert!(lock(&reader, 1, TableLockMode::RowExclusive).unwrap(), "a holder does not queue");
    let late = begin(&manager);
    assert!(!try_lock(&late, 1, TableLockMode::AccessShare), "nobody overtakes the waiter");
    assert_eq!(manager.locks().blocking_backends(session.backend()), [reader.session().backend()]);
    drop(reader);
    assert!(writer.join().unwrap());
    assert!(try_lock(&late, 1, TableLockMode::AccessShare));
    drop(late);
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn who_waits_for_the_holders_of_a_moment_stands_in_nobodys_way() {
    let manager = manager();
    let first = begin(&manager);
    let second = begin(&manager);
    let reader = begin(&manager);
    assert!(lock(&first, 1, TableLockMode::RowExclusive).unwrap());
    assert!(lock(&second, 1, TableLockMode::ShareUpdateExclusive).unwrap());
    assert!(lock(&reader, 1, TableLockMode::AccessShare).unwrap());
    let (session, waiter) = spawn(&manager, |waiter| {
        let mut told = Vec::new();
        let locks = waiter.manager().locks();
        locks
            .wait_for_holders(waiter, TableId(1), TableLockMode::Share, &mut |total, left, _| {
                told.push((total, left));
            })
            .unwrap();
        told
    });
    until_waiting(&session);
    // Later lockers lock at once, in any mode that the holders allow, and are not waited for.
    let late = begin(&manager);
    assert!(try_lock(&late, 1, TableLockMode::RowExclusive));
    // A holder that ends and locks again is another transaction now.
    let control = Arc::clone(first.session());
    drop(first);
    let again = manager.begin(&control, BeginOptions::default()).unwrap();
    assert!(try_lock(&again, 1, TableLockMode::RowExclusive));
    assert!(!waiter.is_finished());
    drop(second);
    let told = waiter.join().unwrap();
    assert_eq!((told.first(), told.last()), (Some(&(2, 2)), Some(&(2, 0))));
    drop((again, late, reader));
    assert_eq!(manager.locks().infos(), []);
    // No session holds the table: the call does not wait. A cancelled wait leaves nothing behind.
    let alone = begin(&manager);
    let locks = manager.locks();
    locks.wait_for_holders(&alone, TableId(1), TableLockMode::Share, &mut |_, _, _| {}).unwrap();
    assert!(lock(&alone, 1, TableLockMode::RowExclusive).unwrap());
    let (session, cancelled) = spawn(&manager, |waiter| {
        let locks = waiter.manager().locks();
        locks.wait_for_holders(waiter, TableId(1), TableLockMode::Share, &mut |_, _, _| {})
    });
    until_waiting(&session);
    session.cancel();
    assert!(matches!(cancelled.join().unwrap(), Err(Error::Cancelled)));
    drop(alone);
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn who_gives_way_is_cancelled_by_who_waits_for_it() {
    const MODE: TableLockMode = TableLockMode::ShareUpdateExclusive;
    let manager = manager();
    let worker = manager.register_session().unwrap();
    worker.give_way();
    let works = manager.begin(&worker, BeginOptions::default()).unwrap();
    let other = begin(&manager);
    assert!(lock(&works, 1, MODE).unwrap());
    assert!(lock(&other, 2, MODE).unwrap());
    let (session, definer) =
        spawn(&manager, |definer| lock(definer, 1, TableLockMode::AccessExclusive).unwrap());
    // Ends: the definer looks for deadlocks at once, and that search cancels the worker.
    let cancelled = loop {
        if let Err(why) = worker.check_interrupts() {
            break why;
        }
        thread::yield_now();
    };
    assert_eq!(cancelled, Interrupted::Cancel);
    assert!(session.info().waiting_for.is_some(), "until the worker has let go");
    drop(works);
    assert!(definer.join().unwrap());
    // The next statement forgets further cancel requests.
    worker.begin_statement(None);
    // A session that did not call `give_way` is never cancelled. Nor is a worker that blocks no
    // session, or that waits itself.
    let works = manager.begin(&worker, BeginOptions::default()).unwrap();
    assert!(lock(&works, 1, MODE).unwrap());
    let (session, waiter) = spawn(&manager, |waiter| lock(waiter, 2, MODE).unwrap());
    until_waiting(&session);
    assert!(lock(&begin(&manager), 1, TableLockMode::RowExclusive).unwrap(), "no conflict");
    assert!(!try_lock(&works, 2, TableLockMode::Share));
    let control = Arc::clone(other.session());
    drop(other);
    assert!(waiter.join().unwrap());
    assert_eq!((control.check_interrupts(), worker.check_interrupts()), (Ok(()), Ok(())));
}

/// Truncating the end of a table excludes all sessions for a moment, and learns that one waits.
#[test]
fn a_table_is_wanted_while_somebody_waits_for_it() {
    let manager = manager();
    let (locks, table) = (manager.locks(), TableId(1));
    let (holder, reader) = (begin(&manager), begin(&manager));
    assert!(try_lock(&holder, 1, TableLockMode::ShareUpdateExclusive));
    assert!(try_lock(&reader, 1, TableLockMode::AccessShare));
    assert!(!try_lock(&holder, 1, TableLockMode::AccessExclusive), "somebody reads");
    assert!(!locks.has_waiters(table), "and does not wait");
    drop(reader);
    assert!(try_lock(&holder, 1, TableLockMode::AccessExclusive));
    let kept = holder.keep_table_lock(table, TableLockMode::AccessExclusive).unwrap();
    assert!(!locks.has_waiters(table));
    let (session, waits) = spawn(&manager, |tx| lock(tx, 1, TableLockMode::AccessShare).unwrap());
    until_waiting(&session);
    assert!(locks.has_waiters(table) && !locks.has_waiters(TableId(2)));
    let beside = |held| locks.has_waiters_excluded_by(table, held);
    assert!(!beside(TableLockMode::ShareUpdateExclusive), "a reader waits for the other lock only");
    assert!(beside(TableLockMode::AccessExclusive));
    drop(kept);
    assert!(waits.join().unwrap(), "it excludes no reader any more");
    assert!(!locks.has_waiters(table));
    assert!(locks.holds_table(&holder, table, TableLockMode::ShareUpdateExclusive));
    let (session, waits) = spawn(&manager, |tx| lock(tx, 1, TableLockMode::Share).unwrap());
    until_waiting(&session);
    assert!(locks.has_waiters(table), "what it waits for is held all along");
    assert!(beside(TableLockMode::ShareUpdateExclusive));
    assert!(!beside(TableLockMode::AccessShare));
    assert!(!locks.has_waiters_excluded_by(TableId(2), TableLockMode::AccessExclusive));
    drop(holder);
    assert!(waits.join().unwrap());
    assert_eq!(locks.infos(), []);
}

#[test]
fn a_kept_lock_outlives_its_transaction() {
    const MODE: TableLockMode = TableLockMode::ShareUpdateExclusive;
    let manager = manager();
    let first = begin(&manager);
    let control = Arc::clone(first.session());
    assert!(first.keep_table_lock(TableId(1), MODE).is_none(), "it does not hold it");
    assert!(lock(&first, 1, MODE).unwrap());
    assert!(first.keep_table_lock(TableId(1), TableLockMode::Share).is_none());
    let kept = first.keep_table_lock(TableId(1), MODE).expect("it holds it");
    first.commit(Durability::Flush).unwrap();
    let other = begin(&manager);
    assert!(!try_lock(&other, 1, MODE) && try_lock(&other, 1, TableLockMode::RowExclusive));
    drop(other);
    // The session lock counts for the session's next transactions too, and stays when they end.
    for _ in 0..2 {
        let next = manager.begin(&control, BeginOptions::default()).unwrap();
        assert!(try_lock(&next, 1, MODE) && try_lock(&next, 1, TableLockMode::AccessShare));
        assert!(next.keep_table_lock(TableId(1), MODE).is_none(), "it is kept already");
        assert!(try_lock(&next, 1, TableLockMode::AccessExclusive));
        next.abort();
        let other = begin(&manager);
        assert!(!try_lock(&other, 1, MODE) && try_lock(&other, 1, TableLockMode::AccessShare));
    }
    drop(kept);
    assert!(try_lock(&begin(&manager), 1, TableLockMode::AccessExclusive));
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn who_waits_for_holders_is_seen_by_the_search_for_deadlocks() {
    const MODE: TableLockMode = TableLockMode::ShareUpdateExclusive;
    let manager = manager();
    let (writer_session, writer_begun) = (manager.register_session().unwrap(), AtomicU64::new(0));
    let (builder_waits, writer_begun) = (Arc::new(AtomicU64::new(0)), Arc::new(writer_begun));
    let writer = {
        let (manager, session) = (Arc::clone(&manager), Arc::clone(&writer_session));
        let (begun, may_go_on) = (Arc::clone(&writer_begun), Arc::clone(&builder_waits));
        thread::spawn(move || {
            let writer = manager.begin(&session, BeginOptions::default()).unwrap();
            assert!(lock(&writer, 1, TableLockMode::RowExclusive).unwrap());
            begun.store(1, Ordering::Release);
            while may_go_on.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            lock(&writer, 1, MODE).map(drop)
        })
    };
    while writer_begun.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    let (session, builder) = spawn(&manager, |builder| {
        assert!(lock(builder, 1, MODE).unwrap());
        let locks = builder.manager().locks();
        locks.wait_for_holders(builder, TableId(1), TableLockMode::Share, &mut |_, _, _| {})
    });
    until_waiting(&session);
    assert_eq!(manager.locks().blocking_backends(session.backend()), [writer_session.backend()]);
    builder_waits.store(1, Ordering::Release);
    let results = [writer.join().unwrap(), builder.join().unwrap()];
    let detail = results.iter().find_map(|result| match result {
        Err(Error::Deadlock { detail }) => Some(detail.clone()),
        _ => None,
    });
    let detail = detail.expect("one of them is told");
    assert!(detail.contains("waits for ShareLock on relation 1"), "{detail}");
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn a_savepoint_takes_its_locks_with_it() {
    let manager = manager();
    let holder = begin(&manager);
    let other = begin(&manager);
    let strongest = |table| try_lock(&other, table, TableLockMode::AccessExclusive);
    assert!(lock(&holder, 1, TableLockMode::AccessShare).unwrap());
    holder.savepoint("s");
    assert!(lock(&holder, 1, TableLockMode::RowExclusive).unwrap());
    assert!(lock(&holder, 2, TableLockMode::AccessShare).unwrap());
    assert!(lock(&holder, 3, TableLockMode::Exclusive).unwrap());
    assert!(manager.locks().try_lock_row(&holder, ROW, RowLockMode::Share).unwrap());
    assert!(!try_lock(&other, 1, TableLockMode::Share), "RowExclusive stands in the way");
    holder.rollback_to("s").unwrap();
    assert!(try_lock(&other, 1, TableLockMode::Share));
    assert!(!strongest(1), "what was held before the savepoint stays");
    assert!(strongest(2) && strongest(3));
    assert!(!manager.locks().any_row_locks());
    // The same again, with the fast locks moved by the strong attempts above.
    assert!(lock(&holder, 1, TableLockMode::RowShare).unwrap());
    holder.release("s").unwrap();
    drop(holder);
    assert!(strongest(1));
}

/// Once, a lock was lost with a savepoint. It went through the lock table before the savepoint,
/// because another session had a strong lock then. Inside the savepoint it was taken again on the
/// fast path, and moved.
#[test]
fn a_savepoint_does_not_take_what_was_there_before() {
    let manager = manager();
    let (holder, other) = (begin(&manager), begin(&manager));
    assert!(lock(&other, 1, TableLockMode::Share).unwrap());
    assert!(lock(&holder, 1, TableLockMode::AccessShare).unwrap());
    assert!(manager.locks().infos().iter().all(|info| !info.fast_path));
    drop(other);
    holder.savepoint("s");
    assert!(lock(&holder, 1, TableLockMode::AccessShare).unwrap());
    let third = begin(&manager);
    assert!(!try_lock(&third, 1, TableLockMode::AccessExclusive));
    holder.rollback_to("s").unwrap();
    assert!(!try_lock(&third, 1, TableLockMode::AccessExclusive));
    drop(holder);
    assert!(try_lock(&third, 1, TableLockMode::AccessExclusive));
}

#[test]
fn nowait_and_skip_do_not_wait() {
    let manager = manager();
    let (holder, other) = (begin(&manager), begin(&manager));
    lock(&holder, 1, TableLockMode::AccessExclusive).unwrap();
    let locks = manager.locks();
    let mode = TableLockMode::AccessShare;
    let refused = locks.acquire_table(&other, TableId(1), mode, WaitPolicy::NoWait);
    assert!(matches!(refused, Err(Error::LockNotAvailable { .. })));
    assert!(!try_lock(&other, 1, mode));
    let xid = holder.write_xid().unwrap();
    let refused = locks.wait_for_xid(&other, xid, WaitPolicy::NoWait);
    assert!(matches!(refused, Err(Error::LockNotAvailable { .. })));
    assert!(!locks.wait_for_xid(&other, xid, WaitPolicy::Skip).unwrap());
    holder.commit(Durability::Flush).unwrap();
    assert!(locks.wait_for_xid(&other, xid, WaitPolicy::NoWait).unwrap());
}

#[test]
fn a_wait_ends_by_cancel_terminate_and_timeouts() {
    let manager = manager();
    let holder = begin(&manager);
    lock(&holder, 1, TableLockMode::AccessExclusive).unwrap();
    let xid = holder.write_xid().unwrap();
    for on_xid in [false, true] {
        let wait = move |transaction: &Transaction| {
            if on_xid {
                transaction.manager().locks().wait_for_xid(transaction, xid, WaitPolicy::Block)
            } else {
                lock(transaction, 1, TableLockMode::AccessShare)
            }
        };
        let (session, waiter) = spawn(&manager, wait);
        until_waiting(&session);
        assert!(manager.cancel_request(session.backend(), session.secret()));
        assert!(!manager.cancel_request(session.backend(), session.secret().wrapping_add(1)));
        assert!(matches!(waiter.join().unwrap(), Err(Error::Cancelled)));

        let (session, waiter) = spawn(&manager, wait);
        until_waiting(&session);
        session.terminate();
        assert!(matches!(waiter.join().unwrap(), Err(Error::Terminated)));

        let (_, waiter) = spawn(&manager, move |transaction| {
            transaction.session().set_lock_timeout(Some(Duration::from_micros(100)));
            wait(transaction)
        });
        assert!(matches!(waiter.join().unwrap(), Err(Error::LockTimeout)));

        let (_, waiter) = spawn(&manager, move |transaction| {
            transaction.session().begin_statement(Some(Duration::from_micros(100)));
            wait(transaction)
        });
        assert!(matches!(waiter.join().unwrap(), Err(Error::StatementTimeout)));
    }
    // No session is left in a queue.
    drop(holder);
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn who_waits_for_a_transaction_finds_its_end_published() {
    let manager = manager();
    let holder = begin(&manager);
    holder.savepoint("s");
    let undone = holder.write_xid().unwrap();
    let wait = |xid| {
        spawn(&manager, move |transaction: &Transaction| {
            transaction
                .manager()
                .locks()
                .wait_for_xid(transaction, xid, WaitPolicy::Block)
                .unwrap();
            let status = transaction.manager().status(xid);
            let snapshot = transaction.snapshot().unwrap();
            (status, transaction.view(&snapshot).committed_before(xid))
        })
    };
    let (session, waiter) = wait(undone);
    until_waiting(&session);
    holder.rollback_to("s").unwrap();
    assert_eq!(waiter.join().unwrap(), (XidStatus::Aborted, false));
    let kept = holder.write_xid().unwrap();
    let (session, waiter) = wait(kept);
    let (top_session, top_waiter) = wait(holder.xid().unwrap());
    until_waiting(&session);
    until_waiting(&top_session);
    assert_eq!(manager.locks().blocking_backends(session.backend()), [holder.session().backend()]);
    let csn = holder.commit(Durability::Flush).unwrap().unwrap();
    assert_eq!(waiter.join().unwrap(), (XidStatus::Committed(csn), true));
    assert_eq!(top_waiter.join().unwrap(), (XidStatus::Committed(csn), true));
}

#[test]
fn waiters_for_a_row_get_it_in_order() {
    let manager = manager();
    let order = Arc::new(niwaki_env::sync::Mutex::new(Vec::new()));
    let holder = begin(&manager);
    let guard =
        |transaction: &Transaction, name: u32, order: &niwaki_env::sync::Mutex<Vec<u32>>| {
            let locks = transaction.manager().locks();
            let guard = locks
                .lock_tuple(transaction, ROW.file, ROW.root, RowLockMode::Update, WaitPolicy::Block)
                .unwrap();
            assert!(guard.is_some());
            order.lock().push(name);
        };
    let locks = manager.locks();
    let mode = RowLockMode::Update;
    let first =
        locks.lock_tuple(&holder, ROW.file, ROW.root, mode, WaitPolicy::Block).unwrap().unwrap();
    assert!(
        locks
            .lock_tuple(&begin(&manager), ROW.file, ROW.root, mode, WaitPolicy::Skip)
            .unwrap()
            .is_none()
    );
    let threads: Vec<_> = (0..4)
        .map(|name| {
            let order = Arc::clone(&order);
            let (session, thread) =
                spawn(&manager, move |transaction| guard(transaction, name, &order));
            until_waiting(&session);
            thread
        })
        .collect();
    drop(first);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*order.lock(), [0, 1, 2, 3]);
    drop(holder);
    assert_eq!(locks.infos(), []);
}

#[test]
fn locks_of_a_row_follow_it_to_another_page() {
    let manager = manager();
    let (sharer, other) = (begin(&manager), begin(&manager));
    let locks = manager.locks();
    let moved = RowKey { root: Tid::new(9, 1), ..ROW };
    assert!(locks.try_lock_row(&sharer, ROW, RowLockMode::KeyShare).unwrap());
    locks.carry_row_locks(ROW, moved).unwrap();
    assert!(!locks.row_is_free(&other, moved, RowLockMode::Update));
    assert!(locks.row_is_free(&other, moved, RowLockMode::NoKeyUpdate));
    assert!(locks.row_is_locked(ROW) && locks.row_is_locked(moved));
    drop(sharer);
    assert!(!locks.row_is_locked(ROW) && !locks.row_is_locked(moved));
    assert!(!locks.any_row_locks());
}

#[test]
fn row_locks_in_memory_are_bounded() {
    let manager = manager_with(TxnOptions { row_locks_max: 3, ..TxnOptions::default() });
    let transaction = begin(&manager);
    let row = |at| RowKey { root: Tid::new(at, 1), ..ROW };
    for at in 0..3 {
        assert!(manager.locks().try_lock_row(&transaction, row(at), RowLockMode::Share).unwrap());
    }
    let refused = manager.locks().try_lock_row(&transaction, row(3), RowLockMode::Share);
    assert!(matches!(refused, Err(Error::TooManyRowLocks { most: 3 })));
    drop(transaction);
    assert!(manager.locks().try_lock_row(&begin(&manager), row(3), RowLockMode::Share).unwrap());
}

/// Once, one session had all row locks of the server, and every insert of a reference failed
/// (53200).
#[test]
fn who_holds_many_row_locks_leaves_some_to_others() {
    const MOST: usize = 16_000;
    let manager = manager_with(TxnOptions { row_locks_max: MOST, ..TxnOptions::default() });
    let (many, few) = (begin(&manager), begin(&manager));
    let lock = |transaction: &Transaction, at| {
        let row = RowKey { root: Tid::new(at, 1), ..ROW };
        manager.locks().try_lock_row(transaction, row, RowLockMode::KeyShare)
    };
    let taken = (0..u32::MAX).take_while(|at| lock(&many, *at).is_ok()).count();
    assert_eq!(taken, MOST / 8 * 7);
    for at in 0..1_000 {
        assert!(lock(&few, MOST as u32 + at).unwrap());
    }
    let refused = lock(&few, 2 * MOST as u32);
    assert!(matches!(refused, Err(Error::TooManyRowLocks { most: MOST })), "it holds many now");
    drop(many);
    assert!(lock(&few, 2 * MOST as u32).unwrap());
}

/// Once, a million shared row locks were the bound of the whole server: each had an entry of its
/// own.
#[test]
fn row_locks_of_a_page_count_once() {
    let manager = manager_with(TxnOptions { row_locks_max: 3, ..TxnOptions::default() });
    let (first, second) = (begin(&manager), begin(&manager));
    let locks = manager.locks();
    let row = |block, offset| RowKey { root: Tid::new(block, offset), ..ROW };
    let lock = |transaction: &Transaction, row, mode| locks.try_lock_row(transaction, row, mode);
    for offset in 1..=250 {
        assert!(lock(&first, row(1, offset), RowLockMode::KeyShare).unwrap());
        assert!(lock(&second, row(1, offset), RowLockMode::KeyShare).unwrap());
        assert!(lock(&second, row(1, offset), RowLockMode::Share).unwrap());
    }
    let refused = lock(&first, row(2, 1), RowLockMode::KeyShare);
    assert!(matches!(refused, Err(Error::TooManyRowLocks { most: 3 })));
    assert!(!locks.row_is_locked(row(2, 1)));
    // Each row still has a lock of its own.
    assert!(!lock(&first, row(1, 7), RowLockMode::NoKeyUpdate).unwrap());
    locks.unlock_row(&second, row(1, 7), RowLockMode::Share);
    assert!(locks.row_is_free(&first, row(1, 7), RowLockMode::NoKeyUpdate));
    assert!(!locks.row_is_free(&first, row(1, 8), RowLockMode::NoKeyUpdate));
    drop(second);
    // Released savepoints leave no sets of their own.
    for offset in 1..=250 {
        first.savepoint("s");
        assert!(lock(&first, row(2, offset), RowLockMode::Share).unwrap());
        first.release("s").unwrap();
    }
    assert_eq!(locks.infos().len(), 500);
    drop(first);
    assert_eq!(locks.infos(), []);
    assert!(!locks.any_row_locks());
}

#[test]
fn who_waits_for_a_row_finds_its_holders_and_the_other_rows_stay_as_they_were() {
    let manager = manager();
    let (holder, other) = (begin(&manager), begin(&manager));
    let locks = manager.locks();
    let row = |offset| RowKey { root: Tid::new(3, offset), ..ROW };
    let share = |transaction, offset| {
        locks.try_lock_row(transaction, row(offset), RowLockMode::Share).unwrap()
    };
    assert!(share(&holder, 1));
    holder.savepoint("s");
    assert!(share(&holder, 2) && share(&holder, 3));
    // These attempts leave no waiter in the queue.
    let wait = |policy| locks.wait_for_row(&other, row(2), RowLockMode::Update, policy);
    assert!(matches!(wait(WaitPolicy::NoWait), Err(Error::LockNotAvailable { .. })));
    assert!(!wait(WaitPolicy::Skip).unwrap());
    let (session, writer) = spawn(&manager, move |writer| {
        let locks = writer.manager().locks();
        let lock = |row| locks.lock_row(writer, row, RowLockMode::Update, WaitPolicy::Block);
        assert!(lock(row(2)).unwrap());
        writer.savepoint("s");
        assert!(lock(row(1)).unwrap());
        writer.rollback_to("s").unwrap();
        assert!(!locks.holds_row(writer, row(1)) && locks.holds_row(writer, row(2)));
        assert_eq!(locks.infos().len(), 1);
    });
    until_waiting(&session);
    assert_eq!(locks.blocking_backends(session.backend()), [holder.session().backend()]);
    let shown = |granted| locks.infos().iter().filter(|info| info.granted == granted).count();
    assert_eq!((shown(true), shown(false)), (3, 1));
    // Sharers are compatible with sharers in spite of waiters, and the waiter waits for them too.
    assert!(share(&other, 2) && share(&other, 3));
    let backends = [holder.session().backend(), other.session().backend()];
    assert_eq!(locks.blocking_backends(session.backend()), backends);
    holder.rollback_to("s").unwrap();
    assert_eq!(locks.blocking_backends(session.backend()), [other.session().backend()]);
    assert!(locks.holds_row(&holder, row(1)) && !locks.holds_row(&holder, row(2)));
    locks.unlock_row(&other, row(2), RowLockMode::Share);
    assert!(locks.holds_row(&other, row(3)));
    // The writer has one row, and waits for the other.
    while locks.blocking_backends(session.backend()) != [holder.session().backend()] {
        thread::yield_now();
    }
    drop(other);
    drop(holder);
    writer.join().unwrap();
    assert_eq!(locks.infos(), []);
    assert!(!locks.any_row_locks());
}

#[test]
fn sharers_of_a_row_that_both_want_to_change_it_are_a_deadlock() {
    let manager = manager();
    let both = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let both = Arc::clone(&both);
            spawn(&manager, move |transaction| {
                let locks = transaction.manager().locks();
                assert!(locks.try_lock_row(transaction, ROW, RowLockMode::KeyShare).unwrap());
                both.fetch_add(1, Ordering::AcqRel);
                while both.load(Ordering::Acquire) < 2 {
                    thread::yield_now();
                }
                locks.wait_for_row(transaction, ROW, RowLockMode::Update, WaitPolicy::Block)
            })
            .1
        })
        .collect();
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let died = |result: &&Result<bool>| matches!(result, Err(Error::Deadlock { .. }));
    assert_eq!(results.iter().filter(died).count(), 1, "{results:?}");
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(manager.locks().infos(), []);
}

#[test]
fn one_of_a_cycle_dies_and_the_others_go_on() {
    // Each transaction locks its own table, then the next one's; half of the ring waits for
    // transactions.
    for length in 2..5_u64 {
        let manager = manager();
        let barrier = Arc::new(AtomicU64::new(0));
        let xids = Arc::new(niwaki_env::sync::Mutex::new(vec![Xid::INVALID; length as usize]));
        let threads: Vec<_> = (0..length)
            .map(|at| {
                let (barrier, xids) = (Arc::clone(&barrier), Arc::clone(&xids));
                spawn(&manager, move |transaction| {
                    lock(transaction, at, TableLockMode::Exclusive).unwrap();
                    xids.lock()[at as usize] = transaction.write_xid().unwrap();
                    barrier.fetch_add(1, Ordering::AcqRel);
                    while barrier.load(Ordering::Acquire) < length {
                        thread::yield_now();
                    }
                    let next = (at + 1) % length;
                    if at % 2 == 0 {
                        lock(transaction, next, TableLockMode::Exclusive).map(|_| ())
                    } else {
                        let xid = xids.lock()[next as usize];
                        let locks = transaction.manager().locks();
                        locks.wait_for_xid(transaction, xid, WaitPolicy::Block).map(|_| ())
                    }
                })
                .1
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let victims: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        assert_eq!(victims.len(), 1, "{results:?}");
        assert!(
            matches!(victims[0], Error::Deadlock { detail } if detail.lines().count() == length as usize),
            "{victims:?}"
        );
        assert_eq!(manager.locks().infos(), []);
    }
}

#[test]
fn a_cycle_through_the_order_of_a_queue_is_mended() {
    // A holds t1 (AccessShare). B waits for t1 (AccessExclusive). C holds t3, wants t1
    // (AccessShare) and queues behind B. When A waits for t3, neither B nor C must be the victim: C
    // can pass B.
    let manager = manager();
    let a = begin(&manager);
    lock(&a, 1, TableLockMode::AccessShare).unwrap();
    let (b_session, b) =
        spawn(&manager, |b| lock(b, 1, TableLockMode::AccessExclusive).map(|_| ()));
    until_waiting(&b_session);
    let (c_session, c) = spawn(&manager, |c| {
        lock(c, 3, TableLockMode::AccessExclusive).unwrap();
        lock(c, 1, TableLockMode::AccessShare).map(|_| ())
    });
    until_waiting(&c_session);
    // C waits behind B, B waits for A, A waits for C.
    lock(&a, 3, TableLockMode::AccessShare).unwrap();
    drop(a);
    c.join().unwrap().unwrap();
    b.join().unwrap().unwrap();
}

#[test]
fn an_upgrade_against_an_upgrade_is_a_deadlock() {
    let manager = manager();
    let both = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let both = Arc::clone(&both);
            spawn(&manager, move |transaction| {
                lock(transaction, 1, TableLockMode::AccessShare).unwrap();
                both.fetch_add(1, Ordering::AcqRel);
                while both.load(Ordering::Acquire) < 2 {
                    thread::yield_now();
                }
                lock(transaction, 1, TableLockMode::AccessExclusive).map(|_| ())
            })
            .1
        })
        .collect();
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let died = |result: &&Result<()>| matches!(result, Err(Error::Deadlock { .. }));
    assert_eq!(results.iter().filter(died).count(), 1, "{results:?}");
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
}

/// Creates a manager whose sessions look for deadlocks only if they set a shorter timeout.
fn patient_manager() -> Arc<TransactionManager> {
    manager_with(TxnOptions { deadlock_timeout: PATIENCE, ..TxnOptions::default() })
}

const PATIENCE: Duration = Duration::from_secs(100_000);

/// The second of two transactions that hold a table and want more of it fails at once, as in
/// PostgreSQL.
#[test]
fn an_upgrade_against_an_upgrade_is_found_without_a_search() {
    let manager = patient_manager();
    let second = begin(&manager);
    lock(&second, 1, TableLockMode::AccessShare).unwrap();
    let (session, first) = spawn(&manager, |first| {
        lock(first, 1, TableLockMode::AccessShare).unwrap();
        lock(first, 1, TableLockMode::AccessExclusive).map(drop)
    });
    until_waiting(&session);
    let died = lock(&second, 1, TableLockMode::AccessExclusive);
    assert!(matches!(died, Err(Error::Deadlock { .. })), "{died:?}");
    drop(second);
    first.join().unwrap().unwrap();
}

/// PostgreSQL's specification `deadlock-hard`, smaller.
#[test]
fn the_session_that_looks_is_the_victim() {
    let manager = patient_manager();
    let last = begin(&manager);
    lock(&last, 0, TableLockMode::Exclusive).unwrap();
    let others: Vec<_> = (1..4_u64)
        .map(|table| {
            let other = spawn(&manager, move |other| {
                lock(other, table, TableLockMode::Exclusive).unwrap();
                lock(other, table - 1, TableLockMode::Exclusive).map(drop)
            });
            until_waiting(&other.0);
            other.1
        })
        .collect();
    last.session().set_deadlock_timeout(Duration::ZERO);
    let died = lock(&last, 3, TableLockMode::Exclusive);
    assert!(
        matches!(&died, Err(Error::Deadlock { detail }) if detail.lines().count() == 4),
        "{died:?}"
    );
    drop(last);
    others.into_iter().for_each(|other| other.join().unwrap().unwrap());
    assert_eq!(manager.locks().infos(), []);
}

/// PostgreSQL's specification `deadlock-soft`: two waiters could move ahead, and the session that
/// looks does not.
#[test]
fn who_mends_a_queue_lets_others_pass() {
    const READ: TableLockMode = TableLockMode::AccessShare;
    let manager = patient_manager();
    let order = Arc::new(niwaki_env::sync::Mutex::new(Vec::new()));
    let (has_read, may_go_on) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let until = |told: &AtomicU64| {
        while told.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    };
    let looks = begin(&manager);
    lock(&looks, 2, READ).unwrap();
    let reader = {
        let (has_read, may_go_on) = (Arc::clone(&has_read), Arc::clone(&may_go_on));
        let order = Arc::clone(&order);
        spawn(&manager, move |reader| {
            lock(reader, 1, READ).unwrap();
            has_read.store(1, Ordering::Release);
            until(&may_go_on);
            lock(reader, 2, READ).unwrap();
            order.lock().push("reader of 1");
        })
    };
    until(&has_read);
    let writers = [(1, "writer of 1"), (2, "writer of 2")].map(|(table, name)| {
        let order = Arc::clone(&order);
        let (session, writer) = spawn(&manager, move |writer| {
            lock(writer, table, TableLockMode::AccessExclusive).unwrap();
            order.lock().push(name);
        });
        until_waiting(&session);
        writer
    });
    may_go_on.store(1, Ordering::Release);
    until_waiting(&reader.0);
    looks.session().set_deadlock_timeout(Duration::ZERO);
    lock(&looks, 1, READ).unwrap();
    order.lock().push("looks");
    drop(looks);
    reader.1.join().unwrap();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(*order.lock(), ["reader of 1", "writer of 1", "looks", "writer of 2"]);
}

#[test]
fn monitoring_names_locks_as_postgresql_does() {
    let manager = manager();
    let transaction = begin(&manager);
    lock(&transaction, 1, TableLockMode::RowExclusive).unwrap();
    let xid = transaction.write_xid().unwrap();
    let mut infos = manager.locks().infos();
    infos.sort_by_key(|info| info.key);
    let shown: Vec<_> =
        infos.iter().map(|info| (info.key, info.mode, info.granted, info.fast_path)).collect();
    assert_eq!(
        shown,
        [
            (LockKey::Table(TableId(1)), "RowExclusiveLock", true, true),
            (LockKey::Transaction(xid), "ExclusiveLock", true, false),
        ]
    );
}

/// A session with a transaction, and what it takes and gives back of the lock on one number.
struct Advised {
    manager: Arc<TransactionManager>,
    transaction: Transaction,
    locks: AdvisoryLocks,
}

impl Advised {
    fn new() -> Self {
        let manager = manager();
        let transaction = begin(&manager);
        let locks = AdvisoryLocks::new(transaction.session());
        Self { manager, transaction, locks }
    }

    fn lock_for_session(&mut self, number: i64) {
        assert!(self.locks.lock(key(number), false, WaitPolicy::NoWait).unwrap());
    }

    fn lock_for_transaction(&mut self, number: i64) {
        let (transaction, policy) = (&self.transaction, WaitPolicy::NoWait);
        let locked = self.locks.lock_in_transaction(transaction, key(number), false, policy);
        assert!(locked.unwrap());
    }

    /// The numbers that are locked.
    fn held(&self) -> Vec<u32> {
        held_numbers(&self.manager)
    }

    /// The numbers that are locked after the transaction.
    fn held_after(self) -> (Vec<u32>, AdvisoryLocks) {
        self.transaction.commit(Durability::Flush).unwrap();
        (held_numbers(&self.manager), self.locks)
    }
}

fn key(number: i64) -> AdvisoryKey {
    AdvisoryKey::one(1, number)
}

fn held_numbers(manager: &TransactionManager) -> Vec<u32> {
    let number = |key: LockKey| match key {
        LockKey::Advisory(key) => Some(key.object),
        _ => None,
    };
    let infos = manager.locks().infos();
    let mut held: Vec<u32> = infos.iter().filter_map(|info| number(info.key)).collect();
    held.sort_unstable();
    held
}

/// The session took over the transaction's note, and a savepoint then counted one too many.
#[test]
fn a_lock_of_the_session_leaves_what_savepoints_count() {
    let mut session = Advised::new();
    session.lock_for_transaction(1);
    session.transaction.savepoint("s");
    session.lock_for_session(1);
    session.lock_for_transaction(2);
    assert_eq!(session.held(), [1, 2]);
    session.transaction.rollback_to("s").unwrap();
    assert_eq!(session.held(), [1]);
    let (held, mut locks) = session.held_after();
    assert_eq!(held, [1], "the session's");
    assert!(locks.unlock(key(1), false));
    assert!(!locks.unlock(key(1), false));
}

/// The transaction's note came back behind the savepoint.
#[test]
fn the_transaction_keeps_what_the_session_gives_up_after_a_savepoint() {
    let mut session = Advised::new();
    session.lock_for_transaction(1);
    session.lock_for_session(1);
    session.transaction.savepoint("s");
    assert!(session.locks.unlock(key(1), false));
    session.transaction.rollback_to("s").unwrap();
    assert_eq!(session.held(), [1]);
    assert!(session.held_after().0.is_empty());
}

/// The transaction counted as an owner for as long as it ran.
#[test]
fn a_rollback_to_a_savepoint_ends_the_transactions_share_alone() {
    let mut session = Advised::new();
    session.transaction.savepoint("s");
    session.lock_for_session(1);
    session.lock_for_session(1);
    session.lock_for_transaction(1);
    session.transaction.rollback_to("s").unwrap();
    assert_eq!(session.held(), [1], "the session's outlives a rollback");
    assert!(session.locks.unlock(key(1), false));
    assert_eq!(session.held(), [1], "it was taken twice");
    assert!(session.locks.unlock(key(1), false));
    assert!(session.held().is_empty());
    // Taken anew it is the transaction's again.
    session.lock_for_session(1);
    session.lock_for_transaction(1);
    session.locks.unlock_all();
    assert_eq!(session.held(), [1]);
    session.transaction.rollback_to("s").unwrap();
    assert!(session.held().is_empty());
}
