//! Benchmarks of a transaction's path through this crate, without pages and without a disk.
//!
//! `cargo bench -p niwaki-txn`

use std::hint::black_box;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_env::sync::thread;
use niwaki_storage::{Lsn, RelFile, RelFileId, Tid, Xid};
use niwaki_txn::{
    BeginOptions, Durability, RowKey, RowLockMode, TableId, TableLockMode, Transaction,
    TransactionLog, TransactionManager, TxnOptions, WaitPolicy,
};

/// A log that is always flushed.
#[derive(Default)]
struct CountingLog(AtomicU64);

impl TransactionLog for CountingLog {
    fn append(&self, _: u8, _: Xid, body: &[u8]) -> niwaki_txn::Result<Lsn> {
        Ok(Lsn(self.0.fetch_add(24 + body.len() as u64, Ordering::AcqRel) + 1024))
    }
    fn flush(&self, _: Lsn) -> niwaki_txn::Result<()> {
        Ok(())
    }
    fn flushed(&self) -> Lsn {
        Lsn(u64::MAX >> 2)
    }
    fn drop_file(&self, _: RelFile) {}
}

fn measure(name: &str, rounds: u32, mut body: impl FnMut()) {
    let clock = Env::memory().clock;
    for _ in 0..rounds / 10 {
        body();
    }
    let best = (0..5)
        .map(|_| {
            let start = clock.monotonic();
            for _ in 0..rounds {
                body();
            }
            clock.monotonic().checked_sub(start).unwrap() / rounds
        })
        .min()
        .unwrap_or_default();
    println!("{name:<55} {:>6} ns", best.as_nanos());
}

#[expect(clippy::too_many_lines, reason = "one measurement after another")]
fn main() {
    let manager = TransactionManager::new(Env::memory(), TxnOptions::default());
    let log = Arc::new(CountingLog::default());
    log.0.store(1 << 20, Ordering::Relaxed);
    manager.attach_log(log).unwrap();
    let session = manager.register_session().unwrap();
    let begin = || manager.begin(&session, BeginOptions::default()).unwrap();
    let at_zero = BeginOptions { started_us: Some(0), ..BeginOptions::default() };

    measure("begin, end", 1_000_000, || {
        manager.begin(&session, at_zero).unwrap().commit(Durability::Flush).unwrap();
    });
    measure("begin with a clock reading, end", 1_000_000, || {
        begin().commit(Durability::Flush).unwrap();
    });
    let select = || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        manager
            .locks()
            .acquire_table(&transaction, TableId(7), TableLockMode::AccessShare, WaitPolicy::Block)
            .unwrap();
        let snapshot = transaction.snapshot().unwrap();
        black_box(transaction.view(&snapshot).csn());
        drop(snapshot);
        transaction.commit(Durability::Flush).unwrap();
    };
    measure("point select: begin, lock, snapshot, end", 1_000_000, select);
    let transaction = begin();
    measure("take and drop a snapshot", 1_000_000, || {
        black_box(transaction.snapshot().unwrap());
    });
    drop(transaction);
    measure("begin, fast table lock, end", 1_000_000, || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        manager
            .locks()
            .acquire_table(&transaction, TableId(7), TableLockMode::AccessShare, WaitPolicy::Block)
            .unwrap();
        transaction.commit(Durability::Flush).unwrap();
    });
    let transaction = begin();
    let lock = |table| {
        let mode = TableLockMode::AccessShare;
        manager.locks().acquire_table(&transaction, TableId(table), mode, WaitPolicy::Block)
    };
    lock(7).unwrap();
    measure("lock a table that is locked", 1_000_000, || {
        lock(7).unwrap();
    });
    drop(transaction);

    let row = |block, offset| RowKey {
        file: RelFileId(20),
        root: Tid::new(block, offset),
        incarnation: 0,
    };
    let share = |transaction: &Transaction, row| {
        manager.locks().try_lock_row(transaction, row, RowLockMode::KeyShare).unwrap();
    };
    measure("begin, share one row, end", 1_000_000, || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        share(&transaction, row(1, 1));
        transaction.commit(Durability::Flush).unwrap();
    });
    measure("share 100 rows of one page, end", 30_000, || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        (1..=100).for_each(|offset| share(&transaction, row(1, offset)));
        transaction.commit(Durability::Flush).unwrap();
    });
    measure("share a row on each of 100 pages, end", 30_000, || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        (1..=100).for_each(|block| share(&transaction, row(block, 1)));
        transaction.commit(Durability::Flush).unwrap();
    });

    let crowd: Vec<_> = (0..200)
        .map(|at| {
            let session = manager.register_session().unwrap();
            let transaction = manager.begin(&session, at_zero).unwrap();
            share(&transaction, row(1, at % 100 + 1));
            transaction
        })
        .collect();
    measure("begin, share one row of a page that 200 share, end", 300_000, || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        share(&transaction, row(1, 1));
        transaction.commit(Durability::Flush).unwrap();
    });
    drop(crowd);

    let mut xid = Xid(0);
    measure("write transaction: xid, commit", 300_000, || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        xid = transaction.write_xid().unwrap();
        transaction.commit(Durability::Flush).unwrap();
    });
    measure("status of a recent transaction", 1_000_000, || {
        black_box(manager.status(black_box(xid)));
    });
    let transaction = begin();
    let snapshot = transaction.snapshot().unwrap();
    let view = transaction.view(&snapshot);
    measure("is a recent transaction's work seen", 1_000_000, || {
        black_box(view.committed_before(black_box(xid)));
    });
    let mut horizon = manager.horizon();
    measure("horizon, one session", 300_000, || manager.refresh_horizon(&mut horizon));
    drop((snapshot, transaction));

    let sessions: Vec<_> = (0..64).map(|_| manager.register_session().unwrap()).collect();
    measure("horizon, 65 sessions", 300_000, || manager.refresh_horizon(&mut horizon));
    measure("AccessExclusive on a table, 65 sessions", 30_000, || {
        let transaction = manager.begin(&session, at_zero).unwrap();
        let mode = TableLockMode::AccessExclusive;
        manager.locks().acquire_table(&transaction, TableId(7), mode, WaitPolicy::Block).unwrap();
        transaction.commit(Durability::Flush).unwrap();
    });
    drop(sessions);

    two_threads(&manager);
    hand_over(&manager);
}

/// Measures the point select in two sessions at the same time: a slow result shows cache lines that
/// both write.
fn two_threads(manager: &Arc<TransactionManager>) {
    let run = |manager: Arc<TransactionManager>, name: &'static str| {
        thread::spawn(move || {
            let session = manager.register_session().unwrap();
            let options = BeginOptions { started_us: Some(0), ..BeginOptions::default() };
            measure(name, 1_000_000, || {
                let transaction = manager.begin(&session, options).unwrap();
                let mode = TableLockMode::AccessShare;
                manager
                    .locks()
                    .acquire_table(&transaction, TableId(7), mode, WaitPolicy::Block)
                    .unwrap();
                black_box(transaction.snapshot().unwrap());
                transaction.commit(Durability::Flush).unwrap();
            });
        })
    };
    let one = run(Arc::clone(manager), "point select, one of two threads");
    let two = run(Arc::clone(manager), "point select, one of two threads");
    one.join().unwrap();
    two.join().unwrap();
}

/// Measures the hand-over of an exclusive lock that two sessions pass to and fro.
fn hand_over(manager: &Arc<TransactionManager>) {
    for (spin_us, name) in
        [(0, "two threads over one exclusive lock, sleeping"), (20, "… spinning")]
    {
        let options = TxnOptions {
            spin: std::time::Duration::from_micros(spin_us),
            ..manager.options().clone()
        };
        let manager = TransactionManager::new(Env::memory(), options);
        manager.attach_log(Arc::new(CountingLog::default())).unwrap();
        let run = |manager: Arc<TransactionManager>| {
            thread::spawn(move || {
                let session = manager.register_session().unwrap();
                let options = BeginOptions { started_us: Some(0), ..BeginOptions::default() };
                measure(name, 20_000, || {
                    let transaction = manager.begin(&session, options).unwrap();
                    let mode = TableLockMode::AccessExclusive;
                    manager
                        .locks()
                        .acquire_table(&transaction, TableId(7), mode, WaitPolicy::Block)
                        .unwrap();
                    transaction.commit(Durability::Flush).unwrap();
                });
            })
        };
        let (one, two) = (run(Arc::clone(&manager)), run(Arc::clone(&manager)));
        one.join().unwrap();
        two.join().unwrap();
    }
}
