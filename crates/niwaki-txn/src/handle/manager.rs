//! The transaction manager: the one object that knows every transaction.

use std::fmt;
use std::sync::{Arc, OnceLock};

use niwaki_env::Env;
use niwaki_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use niwaki_storage::{Csn, Error as StorageError, Storage, Xid};

use crate::error::{Error, Result};
use crate::handle::lock_table::LockManager;
use crate::handle::registry::Registry;
use crate::handle::session::{SessionControl, SessionInfo};
use crate::options::TxnOptions;
use crate::visibility::snapshot::{Horizon, Registration, SnapshotSlots};
use crate::xact::commit_queue::CommitQueue;
use crate::xact::directory::XactStates;
use crate::xact::record::RECORD_SEGMENT;
use crate::xact::segment::{ABORTED, ANCIENT, RUNNING, segment_of};
use crate::xact::shrunk::Shrunk;
use crate::xact::transaction_log::{StorageLog, TransactionLog};

/// The first CSN that a snapshot can have; commits have greater CSNs.
pub(crate) const CSN_BEFORE_ALL: Csn = Csn(2);

const _: () = assert!(CSN_BEFORE_ALL.0 >= ANCIENT, "a snapshot would miss the oldest commits");
const _: () = assert!(RUNNING == 0, "`status` reads 0 as running");
const _: () = assert!(ABORTED == 1, "`status` and `committed_at_or_before` read 1 as aborted");
const _: () = assert!(ANCIENT == 2, "`status` reads 2 as committed before every snapshot");

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XidStatus {
    /// The transaction may still commit or abort; or it committed and is not yet published
    /// (rule `published`).
    InProgress,
    /// The transaction was rolled back: its changes do not count.
    Aborted,
    /// Committed at this CSN, which is published. `Csn(1)` when the commit is older than every
    /// snapshot.
    Committed(Csn),
}

/// Transaction ids and states, snapshots, sessions and locks of one database.
pub struct TransactionManager {
    env: Env,
    options: TxnOptions,
    pub(crate) slots: Arc<SnapshotSlots>,
    pub(crate) states: XactStates,
    pub(crate) commits: CommitQueue,
    next_xid: AtomicU64,
    log: OnceLock<Arc<dyn TransactionLog>>,
    pub(crate) storage: OnceLock<Arc<Storage>>,
    pub(crate) shrunk: Shrunk,
    locks: LockManager,
    pub(crate) registry: Arc<Registry>,
    /// True once the database closes: no session registers, no transaction begins (`closing.rs`).
    pub(crate) closing: AtomicBool,
}

impl TransactionManager {
    /// Creates a manager that knows no transaction yet. Recovery feeds the manager;
    /// [`TransactionManager::attach`] opens it for work.
    pub fn new(env: Env, options: TxnOptions) -> Arc<Self> {
        let registry = Arc::new(Registry::new(options.sessions_max));
        Arc::new(Self {
            slots: SnapshotSlots::new(options.snapshots_max, CSN_BEFORE_ALL),
            states: XactStates::new(),
            commits: CommitQueue::default(),
            next_xid: AtomicU64::new(Xid::FIRST_NORMAL.0),
            log: OnceLock::new(),
            storage: OnceLock::new(),
            shrunk: Shrunk::default(),
            locks: LockManager::new(&options, Arc::clone(&registry)),
            registry,
            closing: AtomicBool::new(false),
            env,
            options,
        })
    }

    /// Opens the manager for work, after recovery.
    ///
    /// # Errors
    /// When the manager is open already.
    pub fn attach(&self, storage: &Arc<Storage>) -> Result<()> {
        let storage = Arc::clone(storage);
        self.attach_log(Arc::new(StorageLog(Arc::clone(&storage))))?;
        self.storage.set(storage).map_err(|_| refused("the transaction manager is open already"))
    }

    /// Opens the manager for work on a log without a storage: for models and tests. States of old
    /// transactions stay in memory then.
    ///
    /// # Errors
    /// When the manager is open already.
    pub fn attach_log(&self, log: Arc<dyn TransactionLog>) -> Result<()> {
        self.slots.publish(Csn(log.flushed().0.max(CSN_BEFORE_ALL.0)));
        self.log.set(log).map_err(|_| refused("the transaction manager is open already"))
    }

    /// Closes the file of spilled states. The storage was shut down, so no caller asks for the
    /// state of a transaction any more.
    pub fn close_files(&self) {
        self.states.close_file();
    }

    pub(crate) fn log(&self) -> Result<&dyn TransactionLog> {
        Ok(&**self.log.get().ok_or_else(|| refused("the transaction manager has no log yet"))?)
    }

    /// Returns the environment: the database's access to the outside world.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns the options given to [`TransactionManager::new`].
    pub fn options(&self) -> &TxnOptions {
        &self.options
    }

    /// Returns the lock manager: table locks, row locks and waits.
    #[inline]
    pub fn locks(&self) -> &LockManager {
        &self.locks
    }

    /// Registers a session. The session ends when its last handle is dropped.
    ///
    /// # Errors
    /// [`Error::TooManySessions`], [`Error::OutOfMemory`] when all snapshot slots are taken, or
    /// [`Error::ShuttingDown`].
    pub fn register_session(self: &Arc<Self>) -> Result<Arc<SessionControl>> {
        if self.is_closing() {
            return Err(Error::ShuttingDown);
        }
        let home = Registration::new(&self.slots)?;
        let secret = (self.env.rng.next_u64() >> 32) as u32;
        self.registry.add(|backend| SessionControl::new(Arc::clone(self), backend, secret, home))
    }

    /// Returns the session with this backend number, if it is alive.
    pub fn session(&self, backend: i32) -> Option<Arc<SessionControl>> {
        self.registry.all().into_iter().find(|session| session.backend() == backend)
    }

    /// Returns all sessions, as monitoring shows them.
    pub fn session_infos(&self) -> Vec<SessionInfo> {
        self.registry.all().iter().map(|session| session.info()).collect()
    }

    /// Handles a cancel request from outside. Returns true when the secret was right and the
    /// session was cancelled.
    pub fn cancel_request(&self, backend: i32, secret: u32) -> bool {
        let session = self.session(backend).filter(|session| session.secret() == secret);
        if let Some(session) = &session {
            session.cancel();
        }
        session.is_some()
    }

    /// Assigns the next transaction id, with room for its state.
    pub(crate) fn assign_xid(&self) -> Result<Xid> {
        let log = self.log()?;
        // Relaxed: the number alone matters.
        let xid = Xid(self.next_xid.fetch_add(1, Ordering::Relaxed));
        if self.states.get(xid).is_none() {
            let segment = segment_of(xid);
            self.states.open_segment(segment, || {
                log.append(RECORD_SEGMENT, Xid::INVALID, &segment.to_le_bytes()).map(|_| ())
            })?;
            self.shrunk.due.store(true, Ordering::Relaxed);
        }
        Ok(xid)
    }

    pub(crate) fn set_next_xid(&self, xid: Xid) {
        self.next_xid.store(xid.0, Ordering::Relaxed);
    }

    /// Returns the next transaction id: this id and greater ones were not assigned yet.
    pub fn next_xid(&self) -> Xid {
        Xid(self.next_xid.load(Ordering::Relaxed))
    }

    /// Returns the outcome of `xid`. A committed transaction counts as running, for every caller,
    /// until its commit is published (rule `published`).
    #[inline]
    pub fn status(&self, xid: Xid) -> XidStatus {
        match self.state(xid) {
            0 => XidStatus::InProgress,
            1 => XidStatus::Aborted,
            2 => XidStatus::Committed(Csn(1)),
            csn if Csn(csn) > self.slots.published() => XidStatus::InProgress,
            csn => XidStatus::Committed(Csn(csn)),
        }
    }

    /// Returns whether a snapshot at `csn` sees the work of `xid`: `xid` committed at or before
    /// `csn`.
    #[inline]
    pub(crate) fn committed_at_or_before(&self, xid: Xid, csn: Csn) -> bool {
        let state = self.state(xid);
        state > 1 && state <= csn.0
    }

    /// Returns the state: 0 running, 1 aborted, 2 committed before every snapshot, else the CSN.
    #[inline]
    fn state(&self, xid: Xid) -> u64 {
        self.states.get(xid).unwrap_or_else(|| self.state_elsewhere(xid))
    }

    /// Returns the newest commit that new snapshots see.
    #[inline]
    pub fn published(&self) -> Csn {
        self.slots.published()
    }

    /// Returns the horizon, which decides the versions that may be removed now.
    pub fn horizon(&self) -> Horizon {
        let mut horizon = Horizon::new(self.options.interval_gc);
        self.refresh_horizon(&mut horizon);
        horizon
    }

    /// Does the same as [`TransactionManager::horizon`] into an old horizon, which saves an
    /// allocation.
    pub fn refresh_horizon(&self, horizon: &mut Horizon) {
        horizon.set_interval(self.options.interval_gc);
        self.slots.read_into(horizon);
    }
}

fn refused(what: &str) -> Error {
    Error::Storage(StorageError::Refused(what.to_owned()))
}

impl fmt::Debug for TransactionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionManager")
            .field("next_xid", &self.next_xid())
            .finish_non_exhaustive()
    }
}
