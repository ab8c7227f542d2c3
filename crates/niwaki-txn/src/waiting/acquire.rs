//! The lock table: taking, awaiting and releasing locks.

use std::sync::Arc;

use niwaki_env::sync::atomic::{Ordering, fence};

use crate::error::Result;
use crate::handle::lock_entry::{Attempt, Carried, HolderWaiter, is};
use crate::handle::lock_table::LockManager;
use crate::handle::session::SessionControl;
use crate::handle::transaction::Transaction;
use crate::locks::held::{HeldLocks, LockMark};
use crate::locks::key::{LockKey, TableId, WaitPolicy};
use crate::locks::mode::{Mode, TableLockMode, bits};
use crate::waiting::fast_path::{FastPath, is_strong, is_weak};

/// Outcome of a successful call: the way in which a lock was acquired, or that it was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The transaction held it before, in this mode.
    Before,
    /// The transaction holds the lock now.
    Now,
    /// The lock is not free, and the caller does not want to wait.
    Skipped,
}

impl LockManager {
    /// Locks a table until the transaction ends or the savepoint is rolled back. Returns false only
    /// under [`WaitPolicy::Skip`].
    ///
    /// Costs some ten nanoseconds for the three weak modes while no session wants a strong lock.
    ///
    /// # Errors
    /// [`Error::LockNotAvailable`](crate::Error::LockNotAvailable) under [`WaitPolicy::NoWait`];
    /// [`Error::Deadlock`](crate::Error::Deadlock) and the interrupts while waiting.
    #[inline]
    pub fn acquire_table(
        &self,
        transaction: &Transaction,
        table: TableId,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        if is_weak(mode)
            && self.acquire_fast(transaction.session(), &transaction.held, table, mode)
                == FastPath::Held
        {
            return Ok(true);
        }
        let acquired = self.acquire(transaction, LockKey::Table(table), mode.into(), policy)?;
        Ok(acquired != Acquired::Skipped)
    }

    /// Returns whether the transaction holds the table in this mode or one that includes it.
    pub fn holds_table(
        &self,
        transaction: &Transaction,
        table: TableId,
        mode: TableLockMode,
    ) -> bool {
        let excludes = Mode::from(mode).excludes;
        let covers = |held: u8| {
            TableLockMode::ALL
                .iter()
                .filter(|other| held & 1 << **other as u8 != 0)
                .any(|other| *other >= mode && Mode::from(*other).excludes & excludes == excludes)
        };
        transaction.held.table_modes(table, &covers)
    }

    /// Returns whether a session waits for the table, in any mode. For a holder of the table that
    /// can do the rest of its work later.
    pub fn has_waiters(&self, table: TableId) -> bool {
        let key = LockKey::Table(table);
        let partition = self.partition(&key).lock();
        partition.entries.get(&key).is_some_and(|entry| !entry.waiters.is_empty())
    }

    /// Returns whether a session waits for the table in a mode that `held` excludes. For a holder
    /// of the table in the mode `held`, which keeps that session waiting.
    pub fn has_waiters_excluded_by(&self, table: TableId, held: TableLockMode) -> bool {
        let (key, excludes) = (LockKey::Table(table), Mode::from(held).excludes);
        let partition = self.partition(&key).lock();
        let entry = partition.entries.get(&key);
        entry.is_some_and(|entry| entry.waiters.iter().any(|it| excludes & it.mode.bit != 0))
    }

    /// Waits until every other transaction that holds the table now in a mode that excludes `mode`
    /// has released it. Such a transaction ends, or rolls back to a point before it locked.
    ///
    /// Takes no lock, and keeps no session from taking one meanwhile. Later holders are not waited
    /// for. `report` receives the number of holders at first, the number left, and the backend of
    /// one of them.
    ///
    /// # Errors
    /// [`Error::Deadlock`](crate::Error::Deadlock), if a holder waits for a lock of this session;
    /// the interrupts, and `lock_timeout`'s error.
    pub fn wait_for_holders(
        &self,
        transaction: &Transaction,
        table: TableId,
        mode: TableLockMode,
        report: &mut dyn FnMut(usize, usize, i32),
    ) -> Result<()> {
        let key = LockKey::Table(table);
        let mode = Mode::from(mode);
        debug_assert!(is_strong(mode), "no session on the fast path would notice the wait");
        self.announce(&key, mode, 0)?;
        let result = self.wait_for_holders_announced(transaction.session(), key, mode, report);
        self.retract(&key, mode);
        result
    }

    fn wait_for_holders_announced(
        &self,
        session: &Arc<SessionControl>,
        key: LockKey,
        mode: Mode,
        report: &mut dyn FnMut(usize, usize, i32),
    ) -> Result<()> {
        let LockKey::Table(table) = key else { return Ok(()) };
        let mut holders = {
            let sessions = self.registry.all();
            let mut partition = self.partition(&key).lock();
            Self::move_fast_locks(&sessions, &mut partition, table);
            let entry = partition.entry(key);
            debug_assert!(
                entry.holder_waits_of(session).next().is_none(),
                "holder_waiters of an earlier wait of {session:?} are left"
            );
            let holders = entry.other_holders(session, mode.excludes);
            for holder in &holders {
                // One holder waiter for each holder, so that progress can be reported.
                entry.holder_waiters.push(HolderWaiter {
                    session: Arc::clone(session),
                    mode,
                    holders: vec![Arc::clone(holder)],
                });
            }
            partition.remove_if_idle(&key);
            holders
        };
        let total = holders.len();
        let mut result = Ok(());
        while !holders.is_empty() {
            session.prepare_wait(key);
            // A holder that released the table before the wait began would not wake the session.
            holders.retain(|holder| self.still_waits_for(session, &key, holder));
            let Some(first) = holders.first() else { break };
            report(total, holders.len(), first.backend());
            result = session.wait_granted(|| self.check_for_deadlock(session));
            if result.is_err() {
                break;
            }
        }
        debug_assert!(result.is_err() || holders.is_empty(), "{} still hold it", holders.len());
        report(total, holders.len(), 0);
        session.end_wait();
        let mut partition = self.partition(&key).lock();
        if let Some(entry) = partition.entries.get_mut(&key) {
            entry.holder_waiters.retain(|waiter| !is(&waiter.session, session));
        }
        partition.remove_if_idle(&key);
        result
    }

    /// Returns whether the session still waits for this holder.
    fn still_waits_for(
        &self,
        session: &SessionControl,
        key: &LockKey,
        holder: &Arc<SessionControl>,
    ) -> bool {
        let partition = self.partition(key).lock();
        partition.entries.get(key).is_some_and(|entry| {
            entry
                .holder_waits_of(session)
                .any(|waiter| waiter.holders.iter().any(|other| is(other, holder)))
        })
    }

    /// Takes a lock through the lock table.
    pub(crate) fn acquire(
        &self,
        transaction: &Transaction,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
    ) -> Result<Acquired> {
        let held = transaction.held.count();
        let session = transaction.session();
        let acquired = self.acquire_for_session(session, key, mode, policy, held)?;
        if acquired == Acquired::Now {
            transaction.held.push(key, mode.bit);
        }
        Ok(acquired)
    }

    /// Takes a lock that the caller notes and releases. `held`: the number of locks that its
    /// transaction has.
    pub(crate) fn acquire_for_session(
        &self,
        session: &Arc<SessionControl>,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
        held: usize,
    ) -> Result<Acquired> {
        self.announce(&key, mode, held)?;
        let result = self.acquire_announced(session, key, mode, policy, true);
        debug_assert!(
            policy == WaitPolicy::Skip || !matches!(result, Ok(Acquired::Skipped)),
            "{key:?} was skipped under {policy:?}"
        );
        if !matches!(result, Ok(Acquired::Now)) {
            self.retract(&key, mode);
        }
        result
    }

    /// Waits until the transaction is the next one whose notifications are delivered. It keeps this
    /// right until it ends. The holder waits only for the log.
    ///
    /// # Errors
    /// The errors of a wait.
    pub fn acquire_notifications(&self, transaction: &Transaction) -> Result<()> {
        let mode = TableLockMode::Exclusive.into();
        self.acquire(transaction, LockKey::Notifications, mode, WaitPolicy::Block)?;
        Ok(())
    }

    /// Waits until the lock could be taken, without taking it.
    pub(crate) fn probe(
        &self,
        transaction: &Transaction,
        key: LockKey,
        mode: Mode,
    ) -> Result<Acquired> {
        self.announce(&key, mode, 0)?;
        let (session, policy) = (transaction.session(), WaitPolicy::Block);
        let result = self.acquire_announced(session, key, mode, policy, false);
        self.retract(&key, mode);
        debug_assert!(!matches!(result, Ok(Acquired::Skipped)), "a probe of {key:?} did not wait");
        result
    }

    fn acquire_announced(
        &self,
        session: &Arc<SessionControl>,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
        keeps: bool,
    ) -> Result<Acquired> {
        let crosses = {
            let sessions = match key {
                LockKey::Table(_) if is_strong(mode) => self.registry.all(),
                _ => Vec::new(),
            };
            let mut partition = self.partition(&key).lock();
            if let LockKey::Table(table) = key {
                Self::move_fast_locks(&sessions, &mut partition, table);
            }
            let entry = partition.entry(key);
            // As in PostgreSQL, a request that is compatible with the holders of a row does not
            // wait behind the row's waiters. Waiters keep the order of the row's queue
            // (`LockKey::Tuple`).
            let jumps = matches!(key, LockKey::Row(_));
            match entry.attempt(session, mode, keeps, jumps) {
                Attempt::Held => return Ok(Acquired::Before),
                Attempt::Granted => {
                    partition.remove_if_idle(&key);
                    return Ok(Acquired::Now);
                }
                Attempt::Busy => {}
            }
            if !policy.waits(&key)? {
                return Ok(Acquired::Skipped);
            }
            session.prepare_wait(key);
            // Not for rows: PostgreSQL waits for their holders as for any transaction.
            let crosses = !jumps && entry.crosses(session, mode);
            entry.enqueue(session, mode, keeps);
            crosses
        };
        let checked = if crosses { self.check_for_deadlock(session) } else { Ok(()) };
        let wait = |()| session.wait_granted(|| self.check_for_deadlock(session));
        let result = checked.and_then(wait);
        if result.is_err() && !self.leave_queue(session, &key) && keeps {
            // The lock was granted at the same moment: it is released, since the caller fails.
            self.drop_modes(session, &key, mode.bit);
        }
        session.end_wait();
        result.map(|()| Acquired::Now)
    }

    /// Counts a lock before the lookup, so that a zero count means that there is no lock. `held`:
    /// the number of locks that its transaction has.
    fn announce(&self, key: &LockKey, mode: Mode, held: usize) -> Result<()> {
        match key {
            LockKey::Table(table) if is_strong(mode) => {
                self.strong.of(*table).fetch_add(1, Ordering::AcqRel);
                // Pairs with the fence in `settle_fast`.
                fence(Ordering::SeqCst);
            }
            LockKey::Row(row) => return self.rows.add(row, held),
            _ => {}
        }
        Ok(())
    }

    fn retract(&self, key: &LockKey, mode: Mode) {
        match key {
            LockKey::Table(table) if is_strong(mode) => {
                // Release: pairs with the acquire in `settle_fast`.
                let before = self.strong.of(*table).fetch_sub(1, Ordering::Release);
                debug_assert!(before > 0, "the strong lock on {table:?} was not counted");
            }
            LockKey::Row(row) => self.rows.remove(row),
            _ => {}
        }
    }

    /// Returns whether no other session holds `key` in a mode that excludes `mode`.
    pub(crate) fn is_free(&self, session: &SessionControl, key: &LockKey, mode: Mode) -> bool {
        let others = self.partition(key).lock().modes(key, |holder| !is(holder, session));
        others & mode.excludes == 0
    }

    /// Returns whether the session holds `key`.
    pub(crate) fn is_held_by(&self, session: &SessionControl, key: &LockKey) -> bool {
        self.partition(key).lock().modes(key, |holder| is(holder, session)) != 0
    }

    /// Returns whether any session holds `key`.
    pub(crate) fn is_held(&self, key: &LockKey) -> bool {
        self.partition(key).lock().modes(key, |_| true) != 0
    }

    /// Leaves the queue after a wait that failed. Returns false when the lock was granted
    /// meanwhile.
    fn leave_queue(&self, session: &SessionControl, key: &LockKey) -> bool {
        let mut partition = self.partition(key).lock();
        let Some(entry) = partition.entries.get_mut(key) else { return false };
        let Some(at) = entry.place_of(session) else { return false };
        entry.waiters.remove(at);
        debug_assert!(entry.place_of(session).is_none(), "{session:?} waits for {key:?} twice");
        // Waiters behind this one may have waited for this one only.
        entry.grant_waiters();
        partition.remove_if_idle(key);
        true
    }

    /// Gives back modes of one lock.
    pub(crate) fn release(&self, session: &SessionControl, key: &LockKey, modes: u8) {
        self.drop_modes(session, key, modes);
        for bit in bits(modes) {
            self.retract(key, Mode::of(key, bit));
        }
    }

    fn drop_modes(&self, session: &SessionControl, key: &LockKey, modes: u8) {
        let carried = self.partition(key).lock().drop_modes(session, key, modes);
        self.release_carried(session, carried);
    }

    /// Releases the locks that were carried along with locks that the session released.
    pub(crate) fn release_carried(&self, session: &SessionControl, carried: Vec<Carried>) {
        // Ends: a row is carried to younger rows only.
        for Carried { to, modes, .. } in carried {
            self.release(session, &to, modes);
        }
    }

    /// Lets every holder of `from` hold `to` too, until it releases `from`.
    pub(crate) fn copy_grants(&self, from: LockKey, to: LockKey) -> Result<()> {
        // Locks the whole table, so that no holder disappears in between; rows that move are rare.
        let mut partitions = self.lock_all();
        let source = self.partition_of(&from);
        let entry = partitions[source].entry(from);
        let mut carried = Vec::new();
        for grant in &entry.granted {
            for bit in bits(grant.modes) {
                // The lock belonged to the holder before, and another transaction moves it.
                if let Err(error) = self.announce(&to, Mode::of(&to, bit), 0) {
                    carried.iter().for_each(|(_, bit)| self.retract(&to, Mode::of(&to, *bit)));
                    partitions[source].remove_if_idle(&from);
                    return Err(error);
                }
                carried.push((Arc::clone(&grant.session), bit));
            }
        }
        let links = carried.iter().map(|(session, bit)| Carried {
            to,
            backend: session.backend(),
            modes: *bit,
        });
        entry.carried.extend(links);
        partitions[source].remove_if_idle(&from);
        for (session, bit) in carried {
            partitions[self.partition_of(&to)].entry(to).add_modes(&session, bit);
        }
        Ok(())
    }

    /// Releases all locks of a transaction that ended.
    #[inline]
    pub(crate) fn release_all(&self, session: &SessionControl, held: &HeldLocks) {
        self.release_fast(session, held, None);
        if held.count() != 0 {
            self.release_noted(session, held, 0, 0);
        }
    }

    /// Releases the locks taken after `mark`.
    pub(crate) fn release_since(
        &self,
        session: &SessionControl,
        held: &HeldLocks,
        mark: &LockMark,
    ) {
        self.release_fast(session, held, Some(mark));
        self.release_noted(session, held, mark.queued, mark.level);
    }

    /// Releases all locks in the lock table except the first `keep`, and the row bits of `level`
    /// and of inner levels.
    fn release_noted(&self, session: &SessionControl, held: &HeldLocks, keep: usize, level: u32) {
        while let Some((key, modes)) = held.pop(keep) {
            if !session.advisory.leave(&key, modes) {
                self.release(session, &key, modes);
            }
        }
        while let Some(note) = held.pop_page(level) {
            self.release_page(session, &note);
        }
    }
}
