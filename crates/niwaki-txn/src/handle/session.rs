//! A session, as locks, waits and interrupts know it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use niwaki_env::sync::{Mutex, Parker, plain_atomic};
use niwaki_storage::{Csn, Xid};

use crate::error::Interrupted;
use crate::handle::manager::TransactionManager;
use crate::handle::time_slice::TimeSlices;
use crate::locks::advisory_holds::AdvisoryHolds;
use crate::locks::held::FastSlots;
use crate::locks::key::LockKey;
use crate::visibility::snapshot::Registration;

const CANCEL: u32 = 1;
const TERMINATE: u32 = 2;
/// A statement deadline is set: a check for interrupts must read the clock.
const DEADLINE: u32 = 4;

const _: () = assert!((CANCEL | TERMINATE | DEADLINE).count_ones() == 3, "two flags share a bit");

/// No deadline.
const NEVER: u64 = u64::MAX;

/// One session: its identity, interrupt flags, wait state, snapshot slot and fast-path locks. At
/// most one transaction at a time runs in the session.
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
    /// Time that the session waits for a lock before it looks for deadlocks, in microseconds.
    deadlock_timeout_us: AtomicU64,
    pub(crate) parker: Parker,
    /// Outcome of the wait in progress (`signal.rs`).
    pub(crate) signal: AtomicU8,
    pub(crate) in_transaction: AtomicBool,
    /// Top transaction id, or 0.
    pub(crate) xid: AtomicU64,
    /// Ids of live subtransactions, ascending: a search for the owner of an id reads them.
    pub(crate) subxids: Mutex<Vec<Xid>>,
    pub(crate) home: Arc<Registration>,
    pub(crate) fast: FastSlots,
    /// Advisory locks that the session holds, independent of its transactions.
    pub(crate) advisory: AdvisoryHolds,
    /// The wait in progress, for the deadlock search and for monitoring.
    pub(crate) waiting: Mutex<Option<WaitInfo>>,
    /// Number of waits so far.
    pub(crate) waits: AtomicU64,
    /// True if a transaction that waits for a lock of this session may cancel it.
    gives_way: AtomicBool,
    /// Start of the session, in microseconds since 1970.
    started_us: i64,
    /// Start of the current or last transaction, in microseconds since 1970.
    transaction_us: plain_atomic::AtomicI64,
    /// Start of the current or last statement, in microseconds since 1970; 0 if not set yet.
    statement_us: plain_atomic::AtomicI64,
    time_slices: TimeSlices,
    /// Deadlocks that ended a wait of the session, since the last call of `take_deadlocks`.
    deadlocks: plain_atomic::AtomicI64,
    /// Reason for the current sleep: a [`Sleep`], or 0.
    sleeps: AtomicU8,
    /// Ends a wait for the client, which the parker does not know of.
    when_terminated: Mutex<Option<Wake>>,
}

/// A session's current wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitInfo {
    pub(crate) key: LockKey,
    /// Monotonic time at which the wait began.
    pub(crate) since: Duration,
    /// Number of this wait among the waits of the session.
    pub(crate) number: u64,
    /// True if the session has looked for deadlocks since the wait began.
    pub(crate) checked: bool,
}

/// Wakes a session that waits for its client. Any thread may call the function.
type Wake = Box<dyn Fn() + Send + Sync>;

/// Reason for a session's sleep of a fixed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Sleep {
    /// `pg_sleep`: the statement asked for the sleep.
    PgSleep = 1,
    /// Vacuum delay: a vacuum did as much work as it may without a rest.
    VacuumDelay,
    /// An update rests because an old snapshot keeps too many versions (`version_split_delay`).
    VersionSplitDelay,
}

const _: () = assert!(Sleep::PgSleep as u8 > 0, "0 stands for no sleep");
const _: () = assert!(
    Sleep::ALL.len() == Sleep::VersionSplitDelay as usize,
    "monitoring would show no reason for a sleep"
);

impl Sleep {
    const ALL: [Self; 3] = [Self::PgSleep, Self::VacuumDelay, Self::VersionSplitDelay];

    /// Returns the word of `pg_stat_activity.wait_event`: PostgreSQL's word if PostgreSQL has one.
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
    /// Top transaction id, if assigned.
    pub xid: Option<Xid>,
    /// The snapshot in the session's own slot, if held.
    pub snapshot: Option<Csn>,
    /// Start of the session, in microseconds since 1970.
    pub started_us: i64,
    /// True if a transaction is open.
    pub in_transaction: bool,
    /// Start of the current or last transaction, in microseconds since 1970.
    pub transaction_us: Option<i64>,
    /// Start of the current or last statement, in microseconds since 1970.
    pub statement_us: Option<i64>,
    /// The awaited lock, and the time waited so far.
    pub waiting_for: Option<(LockKey, Duration)>,
    /// Reason for the current sleep, if the session sleeps.
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
            advisory: AdvisoryHolds::new(),
            waiting: Mutex::new(None),
            waits: AtomicU64::new(0),
            gives_way: AtomicBool::new(false),
            started_us,
            transaction_us: plain_atomic::AtomicI64::new(0),
            statement_us: plain_atomic::AtomicI64::new(0),
            time_slices: TimeSlices::new(),
            deadlocks: plain_atomic::AtomicI64::new(0),
            sleeps: AtomicU8::new(0),
            when_terminated: Mutex::new(None),
        }
    }

    /// Returns the manager that the session is registered with.
    #[inline]
    pub fn manager(&self) -> &Arc<TransactionManager> {
        &self.manager
    }

    /// Returns the process-like number, unique among live sessions, of `BackendKeyData` and
    /// `pg_backend_pid()`.
    pub fn backend(&self) -> i32 {
        self.backend
    }

    /// Returns the secret that a cancel request must know.
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

    /// Registers `wake`, which ends a wait for the session's client. The thread that terminates the
    /// session calls `wake`. If the session is terminated already, this function calls `wake` at
    /// once. `wake` must not block.
    pub fn when_terminated(&self, wake: impl Fn() + Send + Sync + 'static) {
        let mut known = self.when_terminated.lock();
        // Checked under the lock: a thread that raises the flag later finds `wake` registered.
        if self.is_terminated() {
            wake();
        }
        *known = Some(Box::new(wake));
    }

    /// Lets lock waiters cancel this session: from now on, a session that waits for its locks
    /// cancels it after `deadlock_timeout`. For work that can be done later as well.
    pub fn give_way(&self) {
        // Relaxed: no other data depends on the flag.
        self.gives_way.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`SessionControl::give_way`] was called.
    pub(crate) fn gives_way(&self) -> bool {
        self.gives_way.load(Ordering::Relaxed)
    }

    /// Ends the session's current nap ([`SessionControl::nap`]). Without a nap in progress, the
    /// next one is short.
    pub fn wake(&self) {
        self.parker.unpark();
    }

    fn raise(&self, flag: u32) {
        // Release: a thread that sees the flag sees the earlier work of its setter.
        self.flags.fetch_or(flag, Ordering::Release);
        self.parker.unpark();
    }

    /// Returns whether the session was terminated.
    pub fn is_terminated(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TERMINATE != 0
    }

    /// Begins a statement. Forgets an earlier cancel request, and sets the deadline to `timeout`
    /// from now (`statement_timeout`; `None` for no limit).
    #[inline]
    pub fn begin_statement(&self, timeout: Option<Duration>) {
        self.time_slices.begin();
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

    /// Stores the start of the running statement, in microseconds since 1970: the age of its
    /// snapshot follows from it.
    #[inline]
    pub fn statement_began(&self, unix_us: i64) {
        // Relaxed, here and at the reads: the session's own thread does both, and monitoring reads
        // no other data that depends on it.
        self.statement_us.store(unix_us, Ordering::Relaxed);
    }

    pub(crate) fn statement_us(&self) -> Option<i64> {
        Some(self.statement_us.load(Ordering::Relaxed)).filter(|us| *us != 0)
    }

    /// Stores the start of the session's transaction, in microseconds since 1970.
    pub(crate) fn transaction_began(&self, unix_us: i64) {
        // Relaxed, here and at the reads: monitoring reads no other data that depends on it.
        self.transaction_us.store(unix_us, Ordering::Relaxed);
    }

    /// Counts a deadlock that ended a wait of the session.
    pub(crate) fn note_deadlock(&self) {
        // Relaxed, here and at the reads: no other data depends on the count.
        self.deadlocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of deadlocks that ended a wait of the session since the last call.
    pub fn take_deadlocks(&self) -> u64 {
        match self.deadlocks.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.deadlocks.swap(0, Ordering::Relaxed).cast_unsigned(),
        }
    }

    /// Ends the statement, and with it its time limit.
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

    /// Sets the time that the session waits for a lock before it looks for deadlocks
    /// (`deadlock_timeout`). The initial time is
    /// [`TxnOptions::deadlock_timeout`](crate::TxnOptions).
    pub fn set_deadlock_timeout(&self, timeout: Duration) {
        // Relaxed, here and at the reads: the session's own thread does both.
        self.deadlock_timeout_us.store(micros(timeout), Ordering::Relaxed);
    }

    pub(crate) fn deadlock_timeout(&self) -> Duration {
        Duration::from_micros(self.deadlock_timeout_us.load(Ordering::Relaxed))
    }

    /// Yields if the thread has had a processor for long (`time_slice.rs`), then checks for
    /// interrupts ([`SessionControl::interrupted`]). Call it between two steps of a long statement,
    /// with no latch held.
    ///
    /// # Errors
    /// [`Interrupted`], never [`Interrupted::LockTimeout`].
    #[inline]
    pub fn check_interrupts(&self) -> Result<(), Interrupted> {
        self.let_others_run();
        self.interrupted()
    }

    /// Yields as [`SessionControl::check_interrupts`] does, without a check for interrupts.
    #[inline]
    pub fn let_others_run(&self) {
        self.time_slices.step();
    }

    /// Fails when the session was cancelled or terminated, or its statement is out of time.
    /// Reporting a cancel request consumes it. Cheap: one relaxed load unless a flag is set. For a
    /// thread that waits or holds a latch.
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

    /// Returns whether [`SessionControl::interrupted`] would fail, and consumes nothing. For work
    /// that ends early, whose caller asks again.
    pub fn is_interrupted(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed);
        flags & (TERMINATE | CANCEL) != 0 || self.is_late(flags)
    }

    /// Returns the statement's deadline on the monotonic clock, if set.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let set = self.flags.load(Ordering::Relaxed) & DEADLINE != 0;
        set.then(|| Duration::from_micros(self.deadline_us.load(Ordering::Relaxed)))
    }

    /// Sleeps for `duration`, or until interrupted.
    ///
    /// # Errors
    /// [`Interrupted`], never [`Interrupted::LockTimeout`].
    pub fn sleep(&self, duration: Duration, why: Sleep) -> Result<(), Interrupted> {
        // Relaxed, here and at the reads: monitoring reads no other data that depends on it.
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

    /// Waits for at most `most`, or until interrupted or woken, without reading the clock. For a
    /// thread that polls and gives up after a few times.
    ///
    /// # Errors
    /// The errors of [`SessionControl::sleep`].
    pub fn nap(&self, most: Duration) -> Result<(), Interrupted> {
        self.interrupted()?;
        self.parker.park_timeout(most);
        self.interrupted()
    }

    /// Returns whether `xid` is the session's transaction, or a subtransaction not rolled back.
    pub(crate) fn owns(&self, xid: Xid) -> bool {
        // Acquire: pairs with the release when the id is assigned.
        self.xid.load(Ordering::Acquire) == xid.0 || self.subxids.lock().binary_search(&xid).is_ok()
    }

    /// Calls `visit` with the top transaction id and with the ids of subtransactions not rolled
    /// back. The top id is zero for a transaction without one.
    pub(crate) fn each_xid(&self, mut visit: impl FnMut(Xid)) {
        visit(Xid(self.xid.load(Ordering::Acquire)));
        let subxids = self.subxids.lock();
        debug_assert!(
            subxids.is_sorted_by(|a, b| a < b),
            "a search for the owner of an id would miss some of {subxids:?}"
        );
        subxids.iter().for_each(|xid| visit(*xid));
    }

    pub(crate) fn now(&self) -> Duration {
        self.manager.env().clock.monotonic()
    }

    /// Returns the state of this session for monitoring.
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
