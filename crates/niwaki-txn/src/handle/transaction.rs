//! A transaction: its ids, commands, snapshots, savepoints and end.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::{Csn, RelFile, Xid};

use crate::error::{Error, Result};
use crate::handle::manager::TransactionManager;
use crate::handle::session::SessionControl;
use crate::locks::held::{HeldLocks, LockMark, level};
use crate::locks::key::RowKey;
use crate::locks::mode::RowLockMode;
use crate::visibility::command::{ComboTable, CommandId, TupleCid};
use crate::visibility::snapshot::{Registration, Snapshot};
use crate::xact::transaction_log::Durability;

/// Isolation level: the changes of other transactions that a transaction sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees the commits before it; READ UNCOMMITTED is the same.
    #[default]
    ReadCommitted,
    /// The whole transaction sees the commits before its first statement; the first updater wins.
    RepeatableRead,
    /// Not supported yet: [`Error::SerializableUnsupported`].
    Serializable,
}

/// Options of a new transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct BeginOptions {
    /// The isolation level.
    pub isolation: Isolation,
    /// True if the transaction refuses writes.
    pub read_only: bool,
    /// Start time in microseconds since 1970 UTC (`now()`); `None` reads the clock.
    pub started_us: Option<i64>,
}

/// A transaction of one session, from begin to [`Transaction::commit`] or [`Transaction::abort`].
/// Dropping the transaction aborts it.
///
/// All methods take `&self`, so that a [`View`](crate::View) of the transaction can be held while
/// the transaction writes. The transaction belongs to one thread at a time.
#[derive(Debug)]
pub struct Transaction {
    session: Arc<SessionControl>,
    isolation: Cell<Isolation>,
    read_only: Cell<bool>,
    /// True if the running statement writes only temporary relations, which READ ONLY allows.
    writes_temporary: Cell<bool>,
    started_us: i64,
    /// Top transaction id, or invalid while nothing was written.
    xid: Cell<Xid>,
    /// Id of the innermost subtransaction that wrote, or the top id. Invalid while the current
    /// level has not written yet.
    level_xid: Cell<Xid>,
    /// Ids of subtransactions not rolled back, ascending: the order of their assignment.
    subxids: RefCell<Vec<Xid>>,
    has_subxids: Cell<bool>,
    command: Cell<u32>,
    command_wrote: Cell<bool>,
    combos: RefCell<ComboTable>,
    levels: RefCell<Vec<Level>>,
    files: RefCell<Files>,
    /// REPEATABLE READ: the snapshot of the whole transaction.
    snapshot: RefCell<Option<Snapshot>>,
    pub(crate) held: HeldLocks,
    /// True if this transaction reads for another transaction of its session ([`Readers`]).
    reads_for_other: bool,
    ended: Cell<bool>,
}

/// The state that parallel workers need to read for a statement ([`Transaction::readers`]).
#[derive(Clone, Debug)]
pub struct Readers {
    session: Arc<SessionControl>,
    isolation: Isolation,
    started_us: i64,
}

impl Readers {
    /// Returns the session of the statement.
    pub fn session(&self) -> &Arc<SessionControl> {
        &self.session
    }

    /// Creates a read-only transaction for one of the parallel workers.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.session), self.isolation, true, self.started_us, true)
    }
}

/// One open savepoint.
#[derive(Debug)]
struct Level {
    name: String,
    /// `level_xid` of the level below.
    outer_xid: Xid,
    subxids: usize,
    drop_at_commit: usize,
    drop_at_abort: usize,
    locks: LockMark,
}

#[derive(Debug, Default)]
struct Files {
    at_commit: Vec<RelFile>,
    at_abort: Vec<RelFile>,
}

impl TransactionManager {
    /// Begins a transaction in `session`. The transaction needs no id and no log record until it
    /// writes.
    ///
    /// # Errors
    /// [`Error::SerializableUnsupported`]; [`Error::Terminated`] when the database closes.
    ///
    /// # Panics
    /// When the session has a transaction already.
    pub fn begin(
        self: &Arc<Self>,
        session: &Arc<SessionControl>,
        options: BeginOptions,
    ) -> Result<Transaction> {
        Transaction::begin(Arc::clone(session), options)
    }
}

impl Transaction {
    pub(crate) fn begin(session: Arc<SessionControl>, options: BeginOptions) -> Result<Self> {
        if options.isolation == Isolation::Serializable {
            return Err(Error::SerializableUnsupported);
        }
        // SeqCst: pairs with the closer of the database (`closing.rs`), which waits for this
        // transaction unless it is refused here.
        let had_one = session.in_transaction.swap(true, Ordering::SeqCst);
        assert!(!had_one, "a session runs one transaction at a time");
        if session.manager().is_closing() && !seeded_bug!("begin_beside_shutdown") {
            session.in_transaction.store(false, Ordering::Release);
            return Err(Error::Terminated);
        }
        let clock = &session.manager().env().clock;
        let started_us = options.started_us.unwrap_or_else(|| clock.now_unix_us());
        session.transaction_began(started_us);
        Ok(Self::new(session, options.isolation, options.read_only, started_us, false))
    }

    fn new(
        session: Arc<SessionControl>,
        isolation: Isolation,
        read_only: bool,
        started_us: i64,
        reads_for_other: bool,
    ) -> Self {
        Self {
            isolation: Cell::new(isolation),
            read_only: Cell::new(read_only),
            writes_temporary: Cell::new(false),
            started_us,
            xid: Cell::new(Xid::INVALID),
            level_xid: Cell::new(Xid::INVALID),
            subxids: RefCell::default(),
            has_subxids: Cell::new(false),
            command: Cell::new(0),
            command_wrote: Cell::new(false),
            combos: RefCell::default(),
            levels: RefCell::default(),
            files: RefCell::default(),
            snapshot: RefCell::new(None),
            held: HeldLocks::new(),
            reads_for_other,
            ended: Cell::new(false),
            session,
        }
    }

    /// Asserts what holds between two operations.
    fn assert_state(&self) {
        let (top, own) = (self.xid.get(), self.level_xid.get());
        debug_assert!(
            own == Xid::INVALID || self.is_mine(own),
            "{own} belongs to no level of {top}"
        );
        debug_assert!(
            self.subxids.borrow().first().is_none_or(|first| top != Xid::INVALID && *first > top),
            "a subtransaction began before {top}"
        );
        debug_assert!(
            self.subxids.borrow().last_chunk::<2>().is_none_or(|[before, last]| before < last),
            "a search in the subtransactions of {top} would miss some"
        );
        debug_assert!(!self.reads_for_other || top == Xid::INVALID, "{top} reads for another one");
        self.assert_levels();
    }

    /// Asserts that each savepoint began after the one around it, and before now.
    fn assert_levels(&self) {
        debug_assert!(
            self.levels.borrow().last_chunk::<2>().is_none_or(|[outer, inner]| {
                outer.subxids <= inner.subxids && outer.locks.level < inner.locks.level
            }),
            "a savepoint began before the one around it"
        );
        debug_assert!(
            self.levels.borrow().last().is_none_or(|it| it.subxids <= self.subxids.borrow().len()),
            "a savepoint has subtransactions that are gone"
        );
        let depth = self.levels.borrow().len();
        debug_assert!(
            self.levels.borrow().last().is_none_or(|it| it.locks.level == level(depth)),
            "a rollback to the last of {depth} savepoints would release locks of another level"
        );
        debug_assert!(
            self.levels.borrow().last().is_none_or(|it| {
                let files = self.files.borrow();
                it.drop_at_commit <= files.at_commit.len()
                    && it.drop_at_abort <= files.at_abort.len()
            }),
            "a savepoint has files that are forgotten"
        );
    }

    /// Returns the state for parallel workers that read under a snapshot of this transaction, which
    /// keeps its locks meanwhile.
    ///
    /// `None` once the transaction has written: other threads do not know which of its own changes
    /// the snapshot sees.
    pub fn readers(&self) -> Option<Readers> {
        if self.xid.get() != Xid::INVALID {
            return None;
        }
        let (session, isolation) = (Arc::clone(&self.session), self.isolation.get());
        Some(Readers { session, isolation, started_us: self.started_us })
    }

    /// Returns the session that runs the transaction.
    #[inline]
    pub fn session(&self) -> &Arc<SessionControl> {
        &self.session
    }

    /// Returns the manager of the transaction.
    #[inline]
    pub fn manager(&self) -> &TransactionManager {
        self.session.manager()
    }

    /// Returns the isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation.get()
    }

    /// Changes the isolation level (`SET TRANSACTION`), which is allowed before the first snapshot.
    ///
    /// # Errors
    /// [`Error::SerializableUnsupported`].
    pub fn set_isolation(&self, isolation: Isolation) -> Result<()> {
        if isolation == Isolation::Serializable {
            return Err(Error::SerializableUnsupported);
        }
        self.isolation.set(isolation);
        Ok(())
    }

    /// Returns whether the transaction refuses writes.
    pub fn read_only(&self) -> bool {
        self.read_only.get()
    }

    /// Refuses or allows writing (`SET TRANSACTION READ ONLY | READ WRITE`).
    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.set(read_only);
    }

    /// Declares whether the following work writes only temporary relations, which is allowed even
    /// in a READ ONLY transaction. Returns the previous declaration.
    pub fn set_writes_temporary(&self, alone: bool) -> bool {
        self.writes_temporary.replace(alone)
    }

    /// Returns the start time, in microseconds since 1970 UTC: `now()`.
    pub fn started_us(&self) -> i64 {
        self.started_us
    }

    /// Returns the top transaction id, if the transaction has written.
    pub fn xid(&self) -> Option<Xid> {
        Some(self.xid.get()).filter(|xid| xid.is_normal())
    }

    /// Returns the id for writes of the current level (transaction or savepoint). The first use
    /// assigns the id.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], or [`Error::OutOfMemory`] when no state can be kept for another id.
    #[inline]
    pub fn write_xid(&self) -> Result<Xid> {
        self.command_wrote.set(true);
        let xid = self.level_xid.get();
        if xid != Xid::INVALID {
            debug_assert!(self.is_mine(xid), "{xid} was rolled back, or is of another transaction");
            return Ok(xid);
        }
        self.assign_xid()
    }

    fn assign_xid(&self) -> Result<Xid> {
        self.assert_state();
        debug_assert!(!self.ended.get(), "a transaction writes after its end");
        if self.read_only.get() && !self.writes_temporary.get() {
            return Err(Error::ReadOnly);
        }
        debug_assert!(!self.reads_for_other, "a parallel worker writes");
        if self.xid.get() == Xid::INVALID {
            let top = self.manager().assign_xid()?;
            self.xid.set(top);
            // Release: a thread that looks for the owner of an id on a page finds the id here.
            self.session.xid.store(top.0, Ordering::Release);
        }
        if self.levels.borrow().is_empty() {
            self.level_xid.set(self.xid.get());
            return Ok(self.xid.get());
        }
        let subxid = self.manager().assign_xid()?;
        self.subxids.borrow_mut().push(subxid);
        self.has_subxids.set(true);
        self.session.subxids.lock().push(subxid);
        self.level_xid.set(subxid);
        self.assert_state();
        Ok(subxid)
    }

    /// Returns whether `xid` is this transaction or one of its subtransactions not rolled back.
    #[inline]
    pub fn is_mine(&self, xid: Xid) -> bool {
        if xid == self.xid.get() {
            return xid != Xid::INVALID;
        }
        self.has_subxids.get() && self.subxids.borrow().binary_search(&xid).is_ok()
    }

    /// Returns the ids that [`Transaction::is_mine`] recognizes now, for threads that work for the
    /// transaction.
    pub fn own_xids(&self) -> Vec<Xid> {
        let top = Some(self.xid.get()).filter(|xid| *xid != Xid::INVALID);
        top.into_iter().chain(self.subxids.borrow().iter().copied()).collect()
    }

    /// Returns a snapshot for a statement that reads: a new one at READ COMMITTED, the
    /// transaction's at REPEATABLE READ. The snapshot sees the transaction's commands before the
    /// current one.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when too many snapshots are held.
    #[inline]
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.take_snapshot(false)
    }

    /// Returns a snapshot for a statement that locks or changes rows. At READ COMMITTED the
    /// snapshot is registered as one that may follow update chains to the newest version
    /// (rule `stub`).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when too many snapshots are held.
    #[inline]
    pub fn snapshot_for_write(&self) -> Result<Snapshot> {
        self.take_snapshot(true)
    }

    #[inline]
    fn take_snapshot(&self, writes: bool) -> Result<Snapshot> {
        let command = self.command();
        if self.isolation.get() == Isolation::ReadCommitted {
            return self.new_snapshot(writes, command);
        }
        let mut kept = self.snapshot.borrow_mut();
        if let Some(snapshot) = &*kept {
            return Ok(snapshot.at_command(command));
        }
        let snapshot = self.new_snapshot(false, command)?;
        *kept = Some(snapshot.clone());
        Ok(snapshot)
    }

    #[inline]
    fn new_snapshot(&self, follows: bool, command: CommandId) -> Result<Snapshot> {
        let snapshot = Registration::take(&self.session.home, follows, command)?;
        snapshot.taken_at(self.session.statement_us().unwrap_or(self.started_us));
        Ok(snapshot)
    }

    /// Returns the number of the running command.
    #[inline]
    pub fn command(&self) -> CommandId {
        CommandId(self.command.get())
    }

    /// Ends the running command: later snapshots see its writes. A command that did not write uses
    /// up no number.
    ///
    /// # Errors
    /// [`Error::TooManyCommands`].
    pub fn next_command(&self) -> Result<()> {
        if self.command_wrote.replace(false) {
            // The last number stays unused, as PostgreSQL reserves it for its "invalid" command.
            if self.command.get() >= u32::MAX - 1 {
                return Err(Error::TooManyCommands);
            }
            self.command.set(self.command.get() + 1);
        }
        Ok(())
    }

    /// Returns the command field of a version that this command inserts.
    #[inline]
    pub fn insert_cid(&self) -> TupleCid {
        TupleCid { raw: self.command.get(), combo: false }
    }

    /// Returns the command field of a version that this command deletes or updates. `xmin` inserted
    /// the version, whose command field is `old`.
    ///
    /// # Errors
    /// [`Error::TooManyCommands`].
    pub fn delete_cid(&self, xmin: Xid, old: TupleCid) -> Result<TupleCid> {
        if !self.is_mine(xmin) {
            return Ok(TupleCid { raw: self.command.get(), combo: false });
        }
        let insert = self.inserted_by(old);
        let raw = self.combos.borrow_mut().number(insert, self.command())?;
        Ok(TupleCid { raw, combo: true })
    }

    /// Returns the command that inserted a version whose xmin belongs to this transaction.
    pub fn inserted_by(&self, cid: TupleCid) -> CommandId {
        self.pair(cid).map_or(CommandId(cid.raw), |(insert, _)| insert)
    }

    /// Returns the command that deleted a version whose xmax belongs to this transaction.
    pub fn deleted_by(&self, cid: TupleCid) -> CommandId {
        self.pair(cid).map_or(CommandId(cid.raw), |(_, delete)| delete)
    }

    fn pair(&self, cid: TupleCid) -> Option<(CommandId, CommandId)> {
        if !cid.combo { None } else { self.combos.borrow().pair(cid.raw) }
    }

    /// Opens a savepoint. The new savepoint hides an earlier one of the same name until the new one
    /// is gone.
    pub fn savepoint(&self, name: &str) {
        self.assert_state();
        let files = self.files.borrow();
        let mut levels = self.levels.borrow_mut();
        let locks = self.held.mark(levels.len());
        levels.push(Level {
            name: name.to_owned(),
            outer_xid: self.level_xid.replace(Xid::INVALID),
            subxids: self.subxids.borrow().len(),
            drop_at_commit: files.at_commit.len(),
            drop_at_abort: files.at_abort.len(),
            locks,
        });
    }

    /// Keeps a row lock in memory that this transaction holds in the tuple itself, under `holder`,
    /// the id of some level.
    ///
    /// Call this when an inner level is about to overwrite that id: a rollback to the savepoint
    /// must not lose the outer level's lock. Never waits; call it under the page's latch.
    ///
    /// # Errors
    /// [`Error::TooManyRowLocks`].
    pub fn keep_row_lock(&self, row: RowKey, mode: RowLockMode, holder: Xid) -> Result<()> {
        debug_assert!(self.is_mine(holder), "{holder} is no level of this transaction");
        // A transaction that holds the row in memory now is compatible with the lock that is there
        // already.
        let locks = self.manager().locks();
        locks.try_lock_row(self, row, mode)?;
        let subxids = self.subxids.borrow();
        // The top id marks only rows locked outside all savepoints, so every open savepoint is
        // newer.
        let assigned = subxids.binary_search(&holder).map_or(0, |at| at + 1);
        // The index of the first savepoint opened after `holder` is the number of savepoints around
        // the lock.
        let outer = self.levels.borrow().iter().position(|level| level.subxids >= assigned);
        outer.map_or(Ok(()), |outer| locks.keep_row(self, row, mode, outer))
    }

    /// Returns the number of open savepoints.
    pub fn savepoint_depth(&self) -> usize {
        self.levels.borrow().len()
    }

    fn find_level(&self, name: &str) -> Result<usize> {
        let levels = self.levels.borrow();
        levels
            .iter()
            .rposition(|level| level.name == name)
            .ok_or_else(|| Error::NoSuchSavepoint(name.to_owned()))
    }

    /// Undoes everything since the savepoint, which stays open. Locks taken since are released.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`].
    pub fn rollback_to(&self, name: &str) -> Result<()> {
        self.assert_state();
        let at = self.find_level(name)?;
        let mut levels = self.levels.borrow_mut();
        levels.truncate(at + 1);
        let level = &levels[at];
        self.level_xid.set(Xid::INVALID);
        let mut subxids = self.subxids.borrow_mut();
        let kept = if seeded_bug!("savepoint_rows_stay") { subxids.len() } else { level.subxids };
        let aborted = subxids.split_off(kept);
        drop(subxids);
        self.has_subxids.set(level.subxids > 0);
        let mut files = self.files.borrow_mut();
        files.at_commit.truncate(level.drop_at_commit);
        let dropped = files.at_abort.split_off(level.drop_at_abort);
        self.manager().abort_subtransactions(&self.session, &aborted, &dropped);
        if !seeded_bug!("savepoint_locks_stay") {
            self.manager().locks().release_since(&self.session, &self.held, &level.locks);
        }
        drop((levels, files));
        self.assert_state();
        Ok(())
    }

    /// Merges everything since the savepoint into the level around it, and removes the savepoint.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`].
    pub fn release(&self, name: &str) -> Result<()> {
        self.assert_state();
        let at = self.find_level(name)?;
        let mut levels = self.levels.borrow_mut();
        self.level_xid.set(levels[at].outer_xid);
        levels.truncate(at);
        if seeded_bug!("released_rows_stay")
            && let Some(outer) = levels.last_mut()
        {
            outer.subxids = self.subxids.borrow().len();
        }
        if !seeded_bug!("released_locks_go") {
            self.manager().locks().lower_rows(&self.session, &self.held, at);
        }
        drop(levels);
        self.assert_state();
        Ok(())
    }

    /// Registers a file for removal when the transaction commits.
    pub fn drop_file_at_commit(&self, file: RelFile) {
        self.files.borrow_mut().at_commit.push(file);
    }

    /// Registers a file, which the transaction created, for removal when it or its savepoint is
    /// rolled back.
    pub fn drop_file_at_abort(&self, file: RelFile) {
        self.files.borrow_mut().at_abort.push(file);
    }

    /// Commits. Returns once the commit is visible to new snapshots, and durable unless
    /// `durability` says otherwise. The locks are free afterwards. Returns `None`, at no cost, when
    /// nothing was written.
    ///
    /// # Errors
    /// When the commit cannot be logged or written; the transaction is aborted then.
    pub fn commit(self, durability: Durability) -> Result<Option<Csn>> {
        self.commit_then(durability, || ())
    }

    /// Does the same as [`Transaction::commit`], and calls `then` between two moments. New
    /// snapshots see the commit before `then`; the locks are free after it. So a transaction that
    /// waited for a lock finds the work of `then` done.
    ///
    /// # Errors
    /// The errors of [`Transaction::commit`]; `then` was not called.
    pub fn commit_then(self, durability: Durability, then: impl FnOnce()) -> Result<Option<Csn>> {
        self.assert_state();
        debug_assert!(!self.ended.get(), "a transaction ends twice");
        if self.xid.get() == Xid::INVALID && !self.files.borrow().at_commit.is_empty() {
            // A commit record removes the files, and the record needs a transaction id.
            self.assign_xid()?;
        }
        let xid = self.xid.get();
        let mut committed = None;
        // Once the log has the commit, memory must have it, too. A panic in between ends the
        // process and undoes nothing.
        let _section = niwaki_env::critical::enter();
        self.ended.set(true);
        if xid != Xid::INVALID {
            let (subxids, files) = (self.subxids.borrow(), self.files.borrow());
            let logged =
                self.manager().commit_transaction(xid, &subxids, &files.at_commit, durability);
            committed = Some(logged.inspect_err(|_| self.ended.set(false))?);
        }
        then();
        self.finish();
        Ok(committed)
    }

    /// Rolls back.
    pub fn abort(self) {
        drop(self);
    }

    fn abort_now(&self) {
        let xid = self.xid.get();
        let files = std::mem::take(&mut *self.files.borrow_mut());
        if xid != Xid::INVALID {
            let subxids = std::mem::take(&mut *self.subxids.borrow_mut());
            self.manager().abort_transaction(xid, &subxids, &files.at_abort);
        } else {
            self.manager().drop_files(&files.at_abort);
        }
        self.finish();
    }

    /// Releases the resources of a live transaction: snapshot, ids in the session, locks.
    fn finish(&self) {
        self.ended.set(true);
        if self.reads_for_other {
            debug_assert_eq!(self.held.count(), 0, "a lock of a parallel worker is not released");
            debug_assert_eq!(self.held.fast_used.get(), 0, "a parallel worker uses a fast slot");
            return;
        }
        *self.snapshot.borrow_mut() = None;
        if self.xid.get() != Xid::INVALID {
            self.session.xid.store(0, Ordering::Release);
            if self.has_subxids.get() {
                self.session.subxids.lock().clear();
            }
        }
        self.manager().locks().release_all(&self.session, &self.held);
        debug_assert_eq!(self.held.count(), 0, "a lock outlives its transaction");
        debug_assert_eq!(self.held.fast_used.get(), 0, "a lock outlives its transaction");
        // Release: the closer of the database sees everything that the transaction did.
        self.session.in_transaction.store(false, Ordering::Release);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended.get() {
            self.abort_now();
        }
    }
}

#[cfg(all(test, debug_assertions, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use niwaki_env::Env;

    use super::*;
    use crate::TxnOptions;

    #[test]
    #[should_panic(expected = "a subtransaction began before")]
    fn a_subtransaction_without_a_transaction_is_noticed() {
        let manager = TransactionManager::new(Env::memory(), TxnOptions::default());
        let session = manager.register_session().unwrap();
        let transaction = manager.begin(&session, BeginOptions::default()).unwrap();
        transaction.subxids.borrow_mut().push(Xid(9));
        transaction.assert_state();
    }
}
