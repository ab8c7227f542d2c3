//! A session as locks, waits and interrupts know it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use niwaki_env::sync::{Mutex, Parker, plain_atomic};
use niwaki_storage::{Csn, Xid};

use crate::error::Interrupted;
use crate::locks::{FastSlots, LockKey, WaitInfo};
use crate::manager::TransactionManager;
use crate::snapshot::Registration;
use crate::turns::Turns;

const CANCEL: u32 = 1;
const TERMINATE: u32 = 2;
/// A statement deadline is set: whoever checks must look at the clock.
const DEADLINE: u32 = 4;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// One session: its identity, the flags others set to interrupt it, the place where it waits, its
/// snapshot slot and its fast-path locks. At most one transaction at a time runs in it.
///
/// Waits happen on the session's own thread; any thread may cancel or terminate.
pub struct SessionControl {
    manager: Arc<TransactionManager>,
    backend: i32,
    secret: u32,
    flags: AtomicU32,
    /// Monotonic microseconds at which the statement is out of time.
    deadline_us: AtomicU64,
    /// Longest wait for one lock, in microseconds; [`NEVER`] for no limit.
    lock_timeout_us: AtomicU64,
    /// How long it waits before it looks for deadlocks, in microseconds.
    deadlock_timeout_us: AtomicU64,
    pub(crate) parker: Parker,
    /// Outcome of the wait in progress (`locks::wait`).
    pub(crate) signal: AtomicU8,
    pub(crate) in_transaction: AtomicBool,
    /// Top transaction id, or 0.
    pub(crate) xid: AtomicU64,
    /// Ids of live subtransactions, ascending: a search for the owner of an id reads them.
    pub(crate) subxids: Mutex<Vec<Xid>>,
    pub(crate) home: Arc<Registration>,
    pub(crate) fast: FastSlots,
    /// The wait in progress, for those who look for deadlocks or monitor.
    pub(crate) waiting: Mutex<Option<WaitInfo>>,
    /// Number of waits so far.
    pub(crate) waits: AtomicU64,
    /// Who waits for its locks may cancel it.
    gives_way: AtomicBool,
    /// When it began, in microseconds since 1970.
    started_us: i64,
    /// When its transaction began, or the last one, in microseconds since 1970.
    transaction_us: plain_atomic::AtomicI64,
    /// When the running statement began, or the last one, in microseconds since 1970; 0 if nobody
    /// said so.
    statement_us: plain_atomic::AtomicI64,
    turns: Turns,
    /// Deadlocks that ended one of its waits, and that nobody has taken yet.
    deadlocks: plain_atomic::AtomicI64,
    /// Why it sleeps: a [`Sleep`], or 0.
    sleeps: AtomicU8,
    /// Ends a wait that the parker does not know of: for its client.
    when_terminated: Mutex<Option<Wake>>,
}

/// Wakes a session that waits for its client; called by any thread.
type Wake = Box<dyn Fn() + Send + Sync>;

/// Why a session sleeps for a fixed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Sleep {
    /// The statement asks for it.
    PgSleep = 1,
    /// A vacuum has done as much as it may without a rest.
    VacuumDelay,
    /// An update rests for an old snapshot that keeps too many versions (`version_split_delay`).
    VersionSplitDelay,
}

impl Sleep {
    const ALL: [Self; 3] = [Self::PgSleep, Self::VacuumDelay, Self::VersionSplitDelay];

    /// The word of `pg_stat_activity.wait_event`, PostgreSQL's where it has one.
    pub fn word(self) -> &'static str {
        match self {
            Self::PgSleep => "PgSleep",
            Self::VacuumDelay => "VacuumDelay",
            Self::VersionSplitDelay => "VersionSplitDelay",
        }
    }
}

/// A session, as monitoring shows it.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Process-like number (`pg_stat_activity.pid`).
    pub backend: i32,
    /// Top transaction id, if it has one.
    pub xid: Option<Xid>,
    /// The snapshot in its own slot, if it holds one.
    pub snapshot: Option<Csn>,
    /// When it began, in microseconds since 1970.
    pub started_us: i64,
    /// Whether a transaction is open.
    pub in_transaction: bool,
    /// When that one began, or the last one, in microseconds since 1970.
    pub transaction_us: Option<i64>,
    /// When its statement began, or the last one, in microseconds since 1970.
    pub statement_us: Option<i64>,
    /// What it waits for, and for how long so far.
    pub waiting_for: Option<(LockKey, Duration)>,
    /// Why it sleeps, if it does.
    pub sleeps: Option<Sleep>,
}

impl SessionControl {
    pub(crate) fn new(
        manager: Arc<TransactionManager>,
        backend: i32,
        secret: u32,
        home: Arc<Registration>,
    ) -> Self {
        home.belongs_to(backend);
        let deadlock_timeout_us = micros(manager.options().deadlock_timeout);
        let started_us = manager.env().clock.now_unix_us();
        Self {
            manager,
            backend,
            secret,
            flags: AtomicU32::new(0),
            deadline_us: AtomicU64::new(NEVER),
            lock_timeout_us: AtomicU64::new(NEVER),
            deadlock_timeout_us: AtomicU64::new(deadlock_timeout_us),
            parker: Parker::new(),
            signal: AtomicU8::new(0),
            in_transaction: AtomicBool::new(false),
            xid: AtomicU64::new(0),
            subxids: Mutex::new(Vec::new()),
            home,
            fast: FastSlots::new(),
            waiting: Mutex::new(None),
            waits: AtomicU64::new(0),
            gives_way: AtomicBool::new(false),
            started_us,
            transaction_us: plain_atomic::AtomicI64::new(0),
            statement_us: plain_atomic::AtomicI64::new(0),
            turns: Turns::new(),
            deadlocks: plain_atomic::AtomicI64::new(0),
            sleeps: AtomicU8::new(0),
            when_terminated: Mutex::new(None),
        }
    }

    /// The manager this session is registered with.
    #[inline]
    pub fn manager(&self) -> &Arc<TransactionManager> {
        &self.manager
    }

    /// Process-like number, unique among live sessions: what BackendKeyData and `pg_backend_pid()` give.
    pub fn backend(&self) -> i32 {
        self.backend
    }

    /// The secret that a cancel request must know.
    pub fn secret(&self) -> u32 {
        self.secret
    }

    /// Asks the running statement to end with [`Interrupted::Cancel`]. Without a running statement
    /// the session drops the request at its next [`SessionControl::begin_statement`].
    pub fn cancel(&self) {
        self.raise(CANCEL);
    }

    /// Asks the session to end with [`Interrupted::Terminate`].
    pub fn terminate(&self) {
        self.raise(TERMINATE);
        if let Some(wake) = &*self.when_terminated.lock() {
            wake();
        }
    }

    /// `wake` is called when the session is told to end, by the thread that tells it, and at once if
    /// that has happened: it ends a wait for the session's client. It must not block.
    pub fn when_terminated(&self, wake: impl Fn() + Send + Sync + 'static) {
        let mut known = self.when_terminated.lock();
        // Under the lock: a thread that raises the flag later finds the wake-up.
        if self.is_terminated() {
            wake();
        }
        *known = Some(Box::new(wake));
    }

    /// From now on, who waits for what this session holds cancels it after `deadlock_timeout`: what it does can be done
    /// later as well.
    pub fn give_way(&self) {
        // Relaxed: it stands for itself.
        self.gives_way.store(true, Ordering::Relaxed);
    }

    /// Whether it does ([`SessionControl::give_way`]).
    pub(crate) fn gives_way(&self) -> bool {
        self.gives_way.load(Ordering::Relaxed)
    }

    /// Ends the session's nap, if it takes one ([`SessionControl::nap`]); else the next one is short.
    pub fn wake(&self) {
        self.parker.unpark();
    }

    fn raise(&self, flag: u32) {
        // Release: whoever sees the flag sees what its setter did before.
        self.flags.fetch_or(flag, Ordering::Release);
        self.parker.unpark();
    }

    /// Whether the session was told to end.
    pub fn is_terminated(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TERMINATE != 0
    }

    /// A statement begins: forgets an earlier cancel request, and the statement is out of time after
    /// `timeout` (`statement_timeout`; `None` for no limit).
    #[inline]
    pub fn begin_statement(&self, timeout: Option<Duration>) {
        self.turns.begin();
        match timeout {
            None => {
                if self.flags.load(Ordering::Relaxed) & (CANCEL | DEADLINE) != 0
                    && !seeded_bug!("late_cancel_hits_next")
                {
                    self.flags.fetch_and(!(CANCEL | DEADLINE), Ordering::Relaxed);
                }
            }
            Some(timeout) => {
                let deadline = self.now().saturating_add(timeout);
                self.deadline_us.store(micros(deadline), Ordering::Relaxed);
                self.flags.fetch_and(!CANCEL, Ordering::Relaxed);
                self.flags.fetch_or(DEADLINE, Ordering::Relaxed);
            }
        }
    }

    /// Tells when the statement that runs now began, in microseconds since 1970: how old its snapshot is.
    #[inline]
    pub fn statement_began(&self, unix_us: i64) {
        // Relaxed, here and where it is read: the session's own thread does both, and to monitoring
        // it stands for itself.
        self.statement_us.store(unix_us, Ordering::Relaxed);
    }

    pub(crate) fn statement_us(&self) -> Option<i64> {
        Some(self.statement_us.load(Ordering::Relaxed)).filter(|us| *us != 0)
    }

    /// Its transaction began, in microseconds since 1970.
    pub(crate) fn transaction_began(&self, unix_us: i64) {
        // Relaxed, here and where it is read: monitoring reads nothing else that depends on it.
        self.transaction_us.store(unix_us, Ordering::Relaxed);
    }

    /// A wait of the session ended because of a deadlock.
    pub(crate) fn note_deadlock(&self) {
        // Relaxed, here and where it is read: it stands for itself.
        self.deadlocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Deadlocks that ended one of its waits since the last call.
    pub fn take_deadlocks(&self) -> u64 {
        match self.deadlocks.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.deadlocks.swap(0, Ordering::Relaxed).cast_unsigned(),
        }
    }

    /// The statement ended: its time limit ends with it.
    #[inline]
    pub fn end_statement(&self) {
        if self.flags.load(Ordering::Relaxed) & DEADLINE != 0 {
            self.flags.fetch_and(!DEADLINE, Ordering::Relaxed);
        }
    }

    /// Sets the longest wait for one lock (`lock_timeout`; `None` for no limit).
    pub fn set_lock_timeout(&self, timeout: Option<Duration>) {
        self.lock_timeout_us.store(timeout.map_or(NEVER, micros), Ordering::Relaxed);
    }

    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        match self.lock_timeout_us.load(Ordering::Relaxed) {
            NEVER => None,
            us => Some(Duration::from_micros(us)),
        }
    }

    /// Sets how long the session waits for a lock before it looks for deadlocks
    /// (`deadlock_timeout`); until then it is [`TxnOptions::deadlock_timeout`](crate::TxnOptions).
    pub fn set_deadlock_timeout(&self, timeout: Duration) {
        // Relaxed, here and where it is read: the session's own thread does both.
        self.deadlock_timeout_us.store(micros(timeout), Ordering::Relaxed);
    }

    pub(crate) fn deadlock_timeout(&self) -> Duration {
        Duration::from_micros(self.deadlock_timeout_us.load(Ordering::Relaxed))
    }

    /// Between two steps of a long statement, with no latch held: lets other threads run if this one has had a processor for
    /// long (`turns.rs`), then looks for interrupts ([`SessionControl::interrupted`]).
    ///
    /// # Errors
    /// [`Interrupted`], never [`Interrupted::LockTimeout`].
    #[inline]
    pub fn check_interrupts(&self) -> Result<(), Interrupted> {
        self.let_others_run();
        self.interrupted()
    }

    /// As [`SessionControl::check_interrupts`], for who is not to be interrupted.
    #[inline]
    pub fn let_others_run(&self) {
        self.turns.step();
    }

    /// Fails when the session was cancelled, told to end, or its statement is out of time. Cheap:
    /// one relaxed load unless something is set. A cancel request is consumed by its report. For who waits, or holds a latch.
    ///
    /// # Errors
    /// [`Interrupted`], never [`Interrupted::LockTimeout`].
    #[inline]
    pub fn interrupted(&self) -> Result<(), Interrupted> {
        if self.flags.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.check_slowly()
    }

    #[cold]
    fn check_slowly(&self) -> Result<(), Interrupted> {
        // Acquire: pairs with the release in `raise`.
        let flags = self.flags.load(Ordering::Acquire);
        if flags & TERMINATE != 0 {
            return Err(Interrupted::Terminate);
        }
        if flags & CANCEL != 0 {
            self.flags.fetch_and(!CANCEL, Ordering::Relaxed);
            return Err(Interrupted::Cancel);
        }
        if self.is_late(flags) {
            self.flags.fetch_and(!DEADLINE, Ordering::Relaxed);
            return Err(Interrupted::StatementTimeout);
        }
        Ok(())
    }

    fn is_late(&self, flags: u32) -> bool {
        flags & DEADLINE != 0 && micros(self.now()) >= self.deadline_us.load(Ordering::Relaxed)
    }

    /// Whether [`SessionControl::interrupted`] fails. Nothing is consumed by it: for work that ends
    /// early, whose caller asks again.
    pub fn is_interrupted(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed);
        flags & (TERMINATE | CANCEL) != 0 || self.is_late(flags)
    }

    /// When the statement is out of time, on the monotonic clock.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let set = self.flags.load(Ordering::Relaxed) & DEADLINE != 0;
        set.then(|| Duration::from_micros(self.deadline_us.load(Ordering::Relaxed)))
    }

    /// Sleeps for `duration`, or until interrupted.
    ///
    /// # Errors
    /// [`Interrupted`], never [`Interrupted::LockTimeout`].
    pub fn sleep(&self, duration: Duration, why: Sleep) -> Result<(), Interrupted> {
        // Relaxed, here and where it is read: monitoring reads nothing else that depends on it.
        self.sleeps.store(why as u8, Ordering::Relaxed);
        let slept = self.sleep_until(self.now().saturating_add(duration));
        self.sleeps.store(0, Ordering::Relaxed);
        slept
    }

    fn sleep_until(&self, end: Duration) -> Result<(), Interrupted> {
        loop {
            self.interrupted()?;
            let now = self.now();
            if now >= end {
                return Ok(());
            }
            let until = self.deadline().map_or(end, |deadline| deadline.min(end));
            self.parker.park_timeout(until.saturating_sub(now));
        }
    }

    /// Waits for `most`, or less, or until interrupted, whatever the clock says: for who looks again and again, and gives
    /// up after a few times.
    ///
    /// # Errors
    /// As [`SessionControl::sleep`].
    pub fn nap(&self, most: Duration) -> Result<(), Interrupted> {
        self.interrupted()?;
        self.parker.park_timeout(most);
        self.interrupted()
    }

    /// Whether `xid` is its transaction, or a subtransaction not rolled back.
    pub(crate) fn owns(&self, xid: Xid) -> bool {
        // Acquire: pairs with the release when the id is assigned.
        self.xid.load(Ordering::Acquire) == xid.0 || self.subxids.lock().binary_search(&xid).is_ok()
    }

    /// Tells its transaction's number and those of subtransactions that are not rolled back; zero for
    /// a transaction that has none.
    pub(crate) fn each_xid(&self, mut tell: impl FnMut(Xid)) {
        tell(Xid(self.xid.load(Ordering::Acquire)));
        self.subxids.lock().iter().for_each(|xid| tell(*xid));
    }

    pub(crate) fn now(&self) -> Duration {
        self.manager.env().clock.monotonic()
    }

    /// What monitoring shows of this session.
    pub fn info(&self) -> SessionInfo {
        let waiting = *self.waiting.lock();
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        let transaction_us = self.transaction_us.load(Ordering::Relaxed);
        SessionInfo {
            backend: self.backend,
            xid: Some(Xid(self.xid.load(Ordering::Relaxed))).filter(|xid| xid.is_normal()),
            snapshot: self.home.current(),
            started_us: self.started_us,
            in_transaction: self.in_transaction.load(Ordering::Relaxed),
            transaction_us: Some(transaction_us).filter(|us| *us != 0),
            statement_us: self.statement_us(),
            waiting_for: waiting.map(|wait| (wait.key, self.now().saturating_sub(wait.since))),
            sleeps: Sleep::ALL.into_iter().find(|sleep| *sleep as u8 == sleeps),
        }
    }
}

impl Drop for SessionControl {
    fn drop(&mut self) {
        self.manager.registry.forget_dead();
    }
}

impl fmt::Debug for SessionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionControl").field("backend", &self.backend).finish_non_exhaustive()
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(NEVER)
}
