//! Row locks of all kinds, promoted and not, compared with a list that is too simple to be wrong.

#[path = "../../../tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_storage::{RelFileId, Tid};
use proptest::prelude::*;

use crate::{
    BeginOptions, LockKey, Result, RowKey, RowLockMode, Transaction, TransactionLog,
    TransactionManager, TxnOptions, WaitPolicy,
};
use support::CountingLog;

const TRANSACTIONS: usize = 3;
/// Three rows on one page, one on another.
const ROWS: [(u32, u16); 4] = [(1, 1), (1, 2), (1, 200), (2, 1)];

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock(usize, usize, usize),
    Unlock(usize, usize, usize),
    /// Keeps the lock as if it had been taken with this number of open savepoints.
    Keep(usize, usize, usize, usize),
    /// Creates the row's entry, as a waiter does.
    Promote(usize),
    /// Removes the entry again, if it is idle.
    Demote(usize),
    /// The row moves to another page.
    Carry(usize),
    Savepoint(usize),
    RollbackTo(usize, usize),
    Release(usize, usize),
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..TRANSACTIONS;
    let what = || (who(), 0..ROWS.len(), 0..4_usize);
    prop_oneof![
        12 => what().prop_map(|(who, row, mode)| Step::Lock(who, row, mode)),
        2 => what().prop_map(|(who, row, mode)| Step::Unlock(who, row, mode)),
        2 => (what(), 0..3_usize).prop_map(|((who, row, mode), to)| Step::Keep(who, row, mode, to)),
        3 => (0..ROWS.len()).prop_map(Step::Promote),
        1 => (0..ROWS.len()).prop_map(Step::Demote),
        1 => (0..ROWS.len()).prop_map(Step::Carry),
        3 => who().prop_map(Step::Savepoint),
        2 => (who(), 0..3_usize).prop_map(|(who, at)| Step::RollbackTo(who, at)),
        2 => (who(), 0..3_usize).prop_map(|(who, at)| Step::Release(who, at)),
        1 => who().prop_map(Step::End),
    ]
}

/// A lock. `along`: the row with which the lock was carried along, and whose lock releases it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    who: usize,
    row: RowKey,
    mode: RowLockMode,
    level: usize,
    along: Option<RowKey>,
}

#[derive(Default)]
struct Model {
    held: Vec<Held>,
    depths: [usize; TRANSACTIONS],
}

impl Model {
    fn own(&mut self, who: usize, row: RowKey, mode: RowLockMode) -> Option<&mut Held> {
        self.held.iter_mut().find(|it| (it.who, it.row, it.mode) == (who, row, mode))
    }

    fn is_free(&self, who: usize, row: RowKey, mode: RowLockMode) -> bool {
        let mut others = self.held.iter().filter(|it| it.who != who && it.row == row);
        !others.any(|it| it.mode.conflicts_with(mode))
    }

    fn release(&mut self, goes: impl Fn(&Held) -> bool) {
        let (gone, kept) = self.held.iter().partition(|it| it.along.is_none() && goes(it));
        self.held = kept;
        let mut gone: Vec<Held> = gone;
        while let Some(went) = gone.pop() {
            let with = |it: &mut Held| {
                (it.who, it.mode, it.along) == (went.who, went.mode, Some(went.row))
            };
            gone.extend(self.held.extract_if(.., with));
        }
    }
}

struct Fixture {
    manager: Arc<TransactionManager>,
    real: Vec<Transaction>,
    model: Model,
    /// Current keys of the rows; `old` has their former keys.
    rows: Vec<RowKey>,
    old: Vec<RowKey>,
}

fn row((block, offset): (u32, u16)) -> RowKey {
    RowKey { file: RelFileId(20), root: Tid::new(block, offset), incarnation: 0 }
}

impl Fixture {
    fn new() -> Self {
        let manager = TransactionManager::new(Env::memory(), TxnOptions::default());
        manager.attach_log(Arc::new(CountingLog::default())).unwrap();
        let real = (0..TRANSACTIONS).map(|_| begin(&manager)).collect();
        let rows = ROWS.into_iter().map(row).collect();
        Self { manager, real, model: Model::default(), rows, old: Vec::new() }
    }

    fn take(&mut self, step: Step) {
        let Self { manager, real, model, rows, old } = self;
        let locks = manager.locks();
        let mode_of = |mode: usize| RowLockMode::ALL[mode];
        match step {
            Step::Lock(who, at, mode) => {
                let (row, mode) = (rows[at], mode_of(mode));
                let free = model.is_free(who, row, mode);
                for policy in [WaitPolicy::Skip, WaitPolicy::NoWait] {
                    let found = locks.wait_for_row(&real[who], row, mode, policy);
                    assert_eq!(matches!(found, Ok(true)), free);
                }
                assert_eq!(locks.try_lock_row(&real[who], row, mode).unwrap(), free);
                if free && model.own(who, row, mode).is_none() {
                    let level = model.depths[who];
                    model.held.push(Held { who, row, mode, level, along: None });
                }
            }
            Step::Unlock(who, at, mode) => {
                let (row, mode) = (rows[at], mode_of(mode));
                locks.unlock_row(&real[who], row, mode);
                model.release(|it| (it.who, it.row, it.mode) == (who, row, mode));
            }
            Step::Keep(who, at, mode, outer) => {
                let (row, mode) = (rows[at], mode_of(mode));
                if outer < model.depths[who] {
                    locks.keep_row(&real[who], row, mode, outer).unwrap();
                    if let Some(held) = model.own(who, row, mode) {
                        held.level = held.level.min(outer);
                    }
                }
            }
            Step::Promote(at) => {
                let key = LockKey::Row(rows[at]);
                locks.partition(&key).lock().entry(key);
            }
            Step::Demote(at) => {
                let key = LockKey::Row(rows[at]);
                locks.partition(&key).lock().remove_if_idle(&key);
            }
            Step::Carry(at) => {
                let (from, to) = (rows[at], row((100 + old.len() as u32, 1)));
                locks.carry_row_locks(from, to).unwrap();
                let along: Vec<_> =
                    model.held.iter().filter(|it| it.row == from).copied().collect();
                let along = along.into_iter();
                model.held.extend(along.map(|it| Held { row: to, along: Some(from), ..it }));
                old.push(from);
                rows[at] = to;
            }
            Step::Savepoint(who) => {
                model.depths[who] += 1;
                real[who].savepoint(&model.depths[who].to_string());
            }
            Step::RollbackTo(who, at) => {
                let known = (1..=model.depths[who]).contains(&at);
                assert_eq!(real[who].rollback_to(&at.to_string()).is_ok(), known);
                if known {
                    model.depths[who] = at;
                    model.release(|it| it.who == who && it.level >= at);
                }
            }
            Step::Release(who, at) => {
                let known = (1..=model.depths[who]).contains(&at);
                assert_eq!(real[who].release(&at.to_string()).is_ok(), known);
                if known {
                    model.depths[who] = at - 1;
                    for it in model.held.iter_mut().filter(|it| it.who == who) {
                        it.level = it.level.min(at - 1);
                    }
                }
            }
            Step::End(who) => {
                real[who] = begin(manager);
                model.release(|it| it.who == who);
                model.depths[who] = 0;
            }
        }
    }

    /// Compares every answer of the lock manager with the model.
    fn check(&self) {
        let Self { manager, real, model, rows, old } = self;
        let locks = manager.locks();
        for row in rows.iter().chain(old).copied() {
            let locked = model.held.iter().any(|it| it.row == row);
            assert_eq!(locks.row_is_locked(row), locked, "{row:?}");
            for (who, transaction) in real.iter().enumerate() {
                let holds = model.held.iter().any(|it| (it.who, it.row) == (who, row));
                assert_eq!(locks.holds_row(transaction, row), holds, "{row:?} by {who}");
                for mode in RowLockMode::ALL {
                    let free = locks.row_is_free(transaction, row, mode);
                    assert_eq!(free, model.is_free(who, row, mode), "{row:?}, {mode:?} for {who}");
                }
            }
        }
        let shown = locks.infos().into_iter().map(|it| {
            assert!(it.granted && !it.fast_path);
            (it.backend, it.key, it.mode)
        });
        let mut shown: Vec<_> = shown.collect();
        let held = model.held.iter().map(|it| {
            let names = ["AccessShareLock", "RowShareLock", "ExclusiveLock", "AccessExclusiveLock"];
            (real[it.who].session().backend(), LockKey::Row(it.row), names[it.mode as usize])
        });
        let mut held: Vec<_> = held.collect();
        shown.sort_unstable();
        held.sort_unstable();
        assert_eq!(shown, held);
        assert_eq!(locks.any_row_locks(), !held.is_empty());
    }
}

fn begin(manager: &Arc<TransactionManager>) -> Transaction {
    let session = manager.register_session().unwrap();
    manager.begin(&session, BeginOptions::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Only the lock table can tell whether a row is promoted.
    #[test]
    fn row_locks_are_as_a_list_would_have_them(steps in proptest::collection::vec(step(), 1..60)) {
        let mut fixture = Fixture::new();
        for step in steps {
            fixture.take(step);
            fixture.check();
        }
        fixture.real.clear();
        let locks = fixture.manager.locks();
        assert!(!locks.any_row_locks());
        // Only entries that this test asked for are left.
        for row in fixture.rows.iter().chain(&fixture.old) {
            let key = LockKey::Row(*row);
            locks.partition(&key).lock().remove_if_idle(&key);
        }
        for partition in &locks.partitions {
            let partition = partition.lock();
            assert!(partition.entries.is_empty() && partition.pages.is_empty(), "{partition:?}");
        }
    }
}
