//! Services of the session for SQL functions.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use niwaki_catalog::{CatalogState, CatalogTransaction, Oid, Relation, RelationKind};
use niwaki_directory::notifications::{Notifications, Pending};
use niwaki_env::{Env, seeded_bug};
use niwaki_sql::settings::Settings;
use niwaki_sql::{AdvisoryLock, AdvisoryNumber, Environment, Result, SqlError};
use niwaki_storage::Tid;
use niwaki_table::Sequence;
use niwaki_txn::{
    AdvisoryKey, AdvisoryLocks, Isolation, SessionControl, Sleep, TableLockMode, Transaction,
    WaitPolicy,
};

use crate::execution::current_row::row_of_cursor;
use crate::execution::store::read_only;
use crate::session::epoch::UNIX_TO_POSTGRES_US;
use crate::session::sequence_values::SequenceValues;
use crate::session::state::portals::Portals;

/// The session, as SQL functions use it.
pub(crate) struct SessionEnvironment<'s> {
    pub(crate) env: &'s Env,
    pub(crate) control: &'s SessionControl,
    pub(crate) transaction: &'s Transaction,
    pub(crate) state: &'s CatalogState,
    pub(crate) catalog: &'s RefCell<&'s mut CatalogTransaction>,
    pub(crate) settings: &'s RefCell<&'s mut Settings>,
    pub(crate) sequences: &'s mut SequenceValues,
    pub(crate) advisory: &'s mut AdvisoryLocks,
    pub(crate) pending: &'s mut Pending,
    pub(crate) notifications: &'s Notifications,
    pub(crate) warnings: &'s mut Vec<SqlError>,
    pub(crate) portals: &'s Portals,
    pub(crate) user: &'s str,
    pub(crate) statement_started_us: i64,
}

impl SessionEnvironment<'_> {
    /// Returns a sequence, locked until the transaction ends. The sequence keeps its file until
    /// then, and this waits for a running ALTER. The second time in a transaction, the lock costs
    /// only a look at the session's own slots.
    fn sequence(&self, oid: u32) -> Result<Arc<Relation>> {
        if !seeded_bug!("sequence-unlocked") {
            self.lock_table(oid, TableLockMode::RowExclusive)?;
        }
        let mut catalog = self.catalog.borrow_mut();
        let relation =
            if catalog.version() == self.state.version() || seeded_bug!("sequence-of-before") {
                self.state.relation(Oid(oid)).cloned()
            } else {
                // The sequence may have another file since this statement began, or be gone.
                catalog.state().relation(Oid(oid)).cloned()
            };
        let relation = relation
            .ok_or_else(|| SqlError::internal(format!("could not open relation with OID {oid}")))?;
        if relation.kind != RelationKind::Sequence {
            return Err(SqlError::new("42809", format!("\"{}\" is not a sequence", relation.name)));
        }
        Ok(relation)
    }

    fn lock_table(&self, table: u32, mode: TableLockMode) -> Result<()> {
        let locks = self.transaction.manager().locks();
        let table = self.state.table_number(Oid(table));
        locks.acquire_table(self.transaction, table, mode, WaitPolicy::Block)?;
        Ok(())
    }

    /// Lets a function write to a sequence. In a READ ONLY transaction only a temporary sequence
    /// may be written.
    fn write_sequence<T>(
        &self,
        sequence: &Relation,
        function: &str,
        write: impl FnOnce(&Sequence) -> Result<T>,
    ) -> Result<T> {
        let numbers = sequence
            .number_generator
            .as_deref()
            .ok_or_else(|| SqlError::internal("a sequence without its numbers"))?;
        if !self.transaction.read_only() {
            return write(numbers);
        }
        if Some(sequence.schema) != self.state.temporary_schema() {
            return Err(read_only(&format!("{function}()")));
        }
        let before = self.transaction.set_writes_temporary(true);
        let written = write(numbers);
        self.transaction.set_writes_temporary(before);
        written
    }
}

impl Environment for SessionEnvironment<'_> {
    fn check_interrupts(&mut self) -> Result<()> {
        niwaki_env::memory::check()?;
        self.control.check_interrupts().map_err(|e| niwaki_txn::Error::from(e).into())
    }

    fn transaction_timestamp(&self) -> i64 {
        self.transaction.started_us() - UNIX_TO_POSTGRES_US
    }

    fn statement_timestamp(&self) -> i64 {
        self.statement_started_us - UNIX_TO_POSTGRES_US
    }

    fn clock_timestamp(&self) -> i64 {
        self.env.clock.now_unix_us() - UNIX_TO_POSTGRES_US
    }

    fn random(&mut self) -> u64 {
        self.env.rng.next_u64()
    }

    fn sleep(&mut self, microseconds: u64) -> Result<()> {
        self.control
            .sleep(Duration::from_micros(microseconds), Sleep::PgSleep)
            .map_err(|e| niwaki_txn::Error::from(e).into())
    }

    fn nextval(&mut self, sequence: u32) -> Result<i64> {
        let relation = self.sequence(sequence)?;
        let value = self.write_sequence(&relation, "nextval", |numbers| {
            numbers.nextval(self.transaction).map_err(|e| match e {
                niwaki_table::Error::SequenceLimit { which, limit } => SqlError::new(
                    "2200H",
                    format!(
                        "nextval: reached {which} value of sequence \"{}\" ({limit})",
                        relation.name
                    ),
                ),
                other => other.into(),
            })
        })?;
        self.sequences.values.insert(sequence, value);
        self.sequences.last = Some(sequence);
        Ok(value)
    }

    fn currval(&mut self, sequence: u32) -> Result<i64> {
        let relation = self.sequence(sequence)?;
        self.sequences.values.get(&sequence).copied().ok_or_else(|| {
            SqlError::new(
                "55000",
                format!(
                    "currval of sequence \"{}\" is not yet defined in this session",
                    relation.name
                ),
            )
        })
    }

    fn lastval(&mut self) -> Result<i64> {
        let last = self.sequences.last.filter(|oid| self.state.relation(Oid(*oid)).is_some());
        let Some(sequence) = last else {
            return Err(SqlError::new("55000", "lastval is not yet defined in this session"));
        };
        self.currval(sequence)
    }

    fn setval(&mut self, sequence: u32, value: i64, is_called: bool) -> Result<i64> {
        let relation = self.sequence(sequence)?;
        self.write_sequence(&relation, "setval", |numbers| {
            let options = numbers.options();
            if !(options.minimum..=options.maximum).contains(&value) {
                return Err(SqlError::new(
                    "22003",
                    format!(
                        "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                        relation.name, options.minimum, options.maximum
                    ),
                ));
            }
            Ok(numbers.setval(self.transaction, value, is_called)?)
        })?;
        if is_called {
            self.sequences.values.insert(sequence, value);
        }
        Ok(value)
    }

    fn setting(&self, name: &str) -> Option<String> {
        if let Some(word) = of_transaction(name, self.transaction) {
            return Some(word.to_owned());
        }
        self.settings.borrow().show(name).ok()
    }

    fn set_setting(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String> {
        let mut settings = self.settings.borrow_mut();
        let mode = of_transaction(name, self.transaction);
        // A mode ends with the transaction.
        let local = local || mode.is_some();
        match value {
            Some(value) => settings.set(name, value, local)?,
            None => settings.reset(name, local)?,
        }
        let shown = settings.show(name)?;
        if mode.is_some_and(|mode| mode != shown) {
            set_mode(name, &shown, self.transaction)?;
        }
        Ok(shown)
    }

    fn transaction_id(&mut self) -> Result<u64> {
        // READ ONLY does not refuse an id: the id alone writes nothing.
        let before = self.transaction.set_writes_temporary(true);
        let written = self.transaction.write_xid();
        self.transaction.set_writes_temporary(before);
        written?;
        self.transaction
            .xid()
            .map(|xid| xid.0)
            .ok_or_else(|| SqlError::internal("a transaction without a number"))
    }

    fn queue_notice(&mut self, notice: SqlError) {
        self.warnings.push(notice);
    }

    fn lock_against_writers(&mut self, table: u32) -> Result<()> {
        self.lock_table(table, TableLockMode::Share)
    }

    fn lock_for_reading(&mut self, table: u32) -> Result<()> {
        self.lock_table(table, TableLockMode::AccessShare)
    }

    fn advisory_lock(&mut self, lock: AdvisoryLock, wait: bool) -> Result<bool> {
        let policy = if wait { WaitPolicy::Block } else { WaitPolicy::Skip };
        let (key, tx) = (advisory_key(self.state.database_oid(), lock), self.transaction);
        Ok(if lock.transaction {
            self.advisory.lock_in_transaction(tx, key, lock.shared, policy)?
        } else {
            self.advisory.lock(key, lock.shared, policy)?
        })
    }

    fn advisory_unlock(&mut self, lock: AdvisoryLock) -> Result<bool> {
        let key = advisory_key(self.state.database_oid(), lock);
        let had = self.advisory.unlock(key, lock.shared);
        if !had {
            let mode = if lock.shared { "ShareLock" } else { "ExclusiveLock" };
            let message = format!("you don't own a lock of type {mode}");
            self.queue_notice(
                SqlError::new("01000", message).with_severity(niwaki_sql::Severity::Warning),
            );
        }
        Ok(had)
    }

    fn advisory_unlock_all(&mut self) -> Result<()> {
        self.advisory.unlock_all();
        Ok(())
    }

    fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        self.pending.notify(channel, payload)
    }

    fn listening_channels(&self) -> Vec<String> {
        self.notifications.channels(self.control.backend())
    }

    fn notification_queue_usage(&self) -> f64 {
        self.notifications.usage()
    }

    fn row_of_cursor(&self, cursor: &str, table: &Relation) -> Result<Option<(Oid, Tid)>> {
        row_of_cursor(self.portals, self.state, cursor, table)
    }

    fn current_user(&self) -> String {
        self.user.to_owned()
    }

    fn session_user(&self) -> String {
        self.user.to_owned()
    }
}

fn advisory_key(database: Oid, lock: AdvisoryLock) -> AdvisoryKey {
    match lock.number {
        AdvisoryNumber::One(number) => AdvisoryKey::one(database.0, number),
        AdvisoryNumber::Two(first, second) => AdvisoryKey::two(database.0, first, second),
    }
}

/// Sets a mode of the transaction to another value, within a query.
///
/// # Errors
/// `25001`: only READ ONLY can be set after the first query.
fn set_mode(name: &str, value: &str, transaction: &Transaction) -> Result<()> {
    let refused = |message: &str| Err(SqlError::new("25001", message));
    if name.eq_ignore_ascii_case("transaction_isolation") {
        return refused("SET TRANSACTION ISOLATION LEVEL must be called before any query");
    }
    if value != "on" {
        return refused("transaction read-write mode must be set before any query");
    }
    transaction.set_read_only(true);
    Ok(())
}

/// A setting whose value is the transaction's.
pub(crate) fn of_transaction(name: &str, transaction: &Transaction) -> Option<&'static str> {
    if name.eq_ignore_ascii_case("transaction_isolation") {
        let repeatable = transaction.isolation() == Isolation::RepeatableRead;
        return Some(if repeatable { "repeatable read" } else { "read committed" });
    }
    let read_only = name.eq_ignore_ascii_case("transaction_read_only");
    read_only.then(|| if transaction.read_only() { "on" } else { "off" })
}
