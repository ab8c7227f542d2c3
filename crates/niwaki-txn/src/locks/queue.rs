//! The lock table: who holds what, and who waits in which order.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicUsize, Ordering};

use super::mode::Mode;
use super::xid::XidWaits;
use super::{
    HeldLocks, LockInfo, LockKey, LockMark, RowLockMode, TableId, TableLockMode, WaitPolicy,
};
use crate::error::{Error, Result};
use crate::options::TxnOptions;
use crate::session::SessionControl;
use crate::transaction::Transaction;

const PARTITIONS: usize = 16;

/// Table locks, row locks in memory, and waits for the end of transactions.
#[derive(Debug)]
pub struct LockManager {
    partitions: [Mutex<Partition>; PARTITIONS],
    hasher: DefaultHashBuilder,
    pub(crate) xids: XidWaits,
    /// Row locks in memory; zero is the usual case and makes the writers' test one load.
    pub(crate) row_locks: AtomicUsize,
    pub(crate) row_locks_max: usize,
}

#[derive(Debug, Default)]
struct Partition {
    entries: HashMap<LockKey, Entry>,
}

/// One lock that somebody holds or waits for.
#[derive(Debug, Default)]
struct Entry {
    granted: Vec<Grant>,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Grant {
    session: Arc<SessionControl>,
    modes: u8,
}

#[derive(Debug)]
struct Waiter {
    session: Arc<SessionControl>,
    mode: Mode,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// The session held it before.
    Held,
    Granted,
    Busy,
}

impl Entry {
    fn modes_of(&self, session: &SessionControl) -> u8 {
        self.granted.iter().find(|grant| is(&grant.session, session)).map_or(0, |grant| grant.modes)
    }

    fn modes_of_others(&self, session: &SessionControl) -> u8 {
        let others = self.granted.iter().filter(|grant| !is(&grant.session, session));
        others.fold(0, |modes, grant| modes | grant.modes)
    }

    fn attempt(&mut self, session: &Arc<SessionControl>, mode: Mode) -> Attempt {
        let own = self.modes_of(session);
        if own & mode.bit != 0 {
            return Attempt::Held;
        }
        if self.modes_of_others(session) & mode.excludes != 0 {
            return Attempt::Busy;
        }
        // Behind the waiters that would exclude it, unless they wait for what this session holds:
        // then waiting for them would never end.
        let queued = self
            .waiters
            .iter()
            .any(|waiter| mode.excludes & waiter.mode.bit != 0 && waiter.mode.excludes & own == 0);
        if queued {
            return Attempt::Busy;
        }
        self.add(session, mode);
        Attempt::Granted
    }

    fn add(&mut self, session: &Arc<SessionControl>, mode: Mode) {
        match self.granted.iter_mut().find(|grant| is(&grant.session, session)) {
            Some(grant) => grant.modes |= mode.bit,
            None => self.granted.push(Grant { session: Arc::clone(session), modes: mode.bit }),
        }
    }

    fn enqueue(&mut self, session: &Arc<SessionControl>, mode: Mode) {
        let own = self.modes_of(session);
        // Before the first waiter that waits for what this session holds; else at the end.
        let at = self
            .waiters
            .iter()
            .position(|waiter| waiter.mode.excludes & own != 0)
            .unwrap_or(self.waiters.len());
        self.waiters.insert(at, Waiter { session: Arc::clone(session), mode });
    }

    /// Grants what can be granted, in order: nobody passes a waiter ahead that excludes it.
    fn grant_waiters(&mut self) {
        let mut ahead = 0;
        let mut at = 0;
        while at < self.waiters.len() {
            let Waiter { session, mode } = &self.waiters[at];
            let mode = *mode;
            if self.modes_of_others(session) & mode.excludes == 0 && mode.excludes & ahead == 0 {
                let Some(waiter) = self.waiters.remove(at) else { break };
                self.add(&waiter.session, mode);
                waiter.session.grant();
            } else {
                ahead |= mode.bit;
                at += 1;
            }
        }
    }

    fn remove(&mut self, session: &SessionControl, modes: u8) {
        if let Some(at) = self.granted.iter().position(|grant| is(&grant.session, session)) {
            self.granted[at].modes &= !modes;
            if self.granted[at].modes == 0 {
                self.granted.swap_remove(at);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.waiters.is_empty()
    }
}

fn is(one: &SessionControl, other: &SessionControl) -> bool {
    std::ptr::eq(one, other)
}

impl LockManager {
    pub(crate) fn new(options: &TxnOptions) -> Self {
        Self {
            partitions: std::array::from_fn(|_| Mutex::new(Partition::default())),
            hasher: DefaultHashBuilder::default(),
            xids: XidWaits::new(),
            row_locks: AtomicUsize::new(0),
            row_locks_max: options.row_locks_max,
        }
    }

    fn partition(&self, key: &LockKey) -> &Mutex<Partition> {
        &self.partitions[(self.hasher.hash_one(key) as usize >> 7) % PARTITIONS]
    }

    /// Locks a table until the transaction ends or the savepoint is rolled back. Returns false only
    /// under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// [`Error::LockNotAvailable`] under [`WaitPolicy::NoWait`]; [`Error::Deadlock`] and the
    /// interrupts while waiting.
    pub fn acquire_table(
        &self,
        transaction: &Transaction,
        table: TableId,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        self.acquire(transaction, LockKey::Table(table), mode.into(), policy)
    }

    pub(crate) fn acquire(
        &self,
        transaction: &Transaction,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let session = transaction.session();
        {
            let mut partition = self.partition(&key).lock();
            let entry = partition.entries.entry(key).or_default();
            match entry.attempt(session, mode) {
                Attempt::Held => return Ok(true),
                Attempt::Granted => {
                    transaction.held.queued.borrow_mut().push((key, mode.bit));
                    return Ok(true);
                }
                Attempt::Busy => {}
            }
            match policy {
                WaitPolicy::Block => {
                    session.prepare_wait(key);
                    entry.enqueue(session, mode);
                }
                WaitPolicy::NoWait => return Err(Error::LockNotAvailable { what: describe(&key) }),
                WaitPolicy::Skip => return Ok(false),
            }
        }
        let result = session.wait_granted(|| self.find_deadlock(session));
        if result.is_ok() || !self.leave_queue(session, &key) {
            transaction.held.queued.borrow_mut().push((key, mode.bit));
        }
        result.map(|()| true)
    }

    /// Whether no other session holds `key` in a mode that excludes `mode`.
    pub(crate) fn is_free(&self, session: &SessionControl, key: &LockKey, mode: Mode) -> bool {
        let partition = self.partition(key).lock();
        let entry = partition.entries.get(key);
        entry.is_none_or(|entry| entry.modes_of_others(session) & mode.excludes == 0)
    }

    /// Leaves the queue after a wait that failed; false when the lock was granted meanwhile.
    fn leave_queue(&self, session: &SessionControl, key: &LockKey) -> bool {
        let mut partition = self.partition(key).lock();
        let Some(entry) = partition.entries.get_mut(key) else { return false };
        let Some(at) = entry.waiters.iter().position(|waiter| is(&waiter.session, session)) else {
            return false;
        };
        entry.waiters.remove(at);
        // Those behind may have waited for this one only.
        entry.grant_waiters();
        if entry.is_empty() {
            partition.entries.remove(key);
        }
        true
    }

    pub(crate) fn release(&self, session: &SessionControl, key: &LockKey, modes: u8) {
        let mut partition = self.partition(key).lock();
        let Some(entry) = partition.entries.get_mut(key) else { return };
        entry.remove(session, modes);
        entry.grant_waiters();
        if entry.is_empty() {
            partition.entries.remove(key);
        }
        drop(partition);
        if matches!(key, LockKey::Row(_)) {
            self.row_locks.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Releases everything; the transaction ended.
    pub(crate) fn release_all(&self, session: &SessionControl, held: &HeldLocks) {
        self.release_since(session, held, &LockMark { queued: 0 });
    }

    /// Releases what was taken after `mark`.
    pub(crate) fn release_since(
        &self,
        session: &SessionControl,
        held: &HeldLocks,
        mark: &LockMark,
    ) {
        let mut queued = held.queued.borrow_mut();
        while queued.len() > mark.queued {
            let Some((key, modes)) = queued.pop() else { break };
            self.release(session, &key, modes);
        }
    }

    /// A cycle of waits through `session`, described; `None` when there is none.
    pub(crate) fn find_deadlock(&self, _session: &SessionControl) -> Option<String> {
        None
    }

    /// Everything held and waited for (`pg_locks`).
    pub fn infos(&self) -> Vec<LockInfo> {
        let mut infos = Vec::new();
        for partition in &self.partitions {
            for (key, entry) in &partition.lock().entries {
                for grant in &entry.granted {
                    for bit in (0..8).filter(|bit| grant.modes & 1 << bit != 0) {
                        infos.push(info(&grant.session, key, bit, true));
                    }
                }
                for waiter in &entry.waiters {
                    let bit = waiter.mode.bit.trailing_zeros();
                    infos.push(info(&waiter.session, key, bit, false));
                }
            }
        }
        infos
    }
}

fn info(session: &SessionControl, key: &LockKey, bit: u32, granted: bool) -> LockInfo {
    let backend = session.backend();
    LockInfo { backend, key: *key, mode: mode_name(key, bit), granted, fast_path: false }
}

fn mode_name(key: &LockKey, bit: u32) -> &'static str {
    match key {
        LockKey::Table(_) => TableLockMode::ALL[bit as usize].name(),
        LockKey::Transaction(_) => "ExclusiveLock",
        LockKey::Row(_) | LockKey::Tuple { .. } => match RowLockMode::ALL[bit as usize] {
            RowLockMode::KeyShare => "AccessShareLock",
            RowLockMode::Share => "RowShareLock",
            RowLockMode::NoKeyUpdate => "ExclusiveLock",
            RowLockMode::Update => "AccessExclusiveLock",
        },
    }
}

pub(crate) fn describe(key: &LockKey) -> String {
    match key {
        LockKey::Table(table) => format!("relation {}", table.0),
        LockKey::Row(row) => format!("row {} of file {}", row.root, row.file),
        LockKey::Tuple { file, tid } => format!("tuple {tid} of file {file}"),
        LockKey::Transaction(xid) => format!("transaction {xid}"),
    }
}
