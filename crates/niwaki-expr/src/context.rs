//! Interfaces between a statement and its session: contexts, services, and the receiver of result
//! rows.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation, SearchPath, SystemSource};
use niwaki_env::stack::TooDeep;
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::Tid;
use niwaki_table::TempSpace;
use niwaki_types::{ColumnType, Datum, TextSettings, TypeOid};

use crate::definitions::Definitions;
use crate::store::Store;

/// The usual value of [`ExecContext::temp_chunk`], in bytes.
pub const TEMP_CHUNK_BYTES: usize = 8 << 10;

/// Everything that a running statement needs. It is borrowed anew for every call, so a suspended
/// portal holds no borrow.
pub struct ExecContext<'a> {
    /// Stored tables, under the statement's snapshot.
    pub store: &'a mut dyn Store,
    /// The session's services.
    pub environment: &'a mut dyn Environment,
    /// The catalog that the statement sees.
    pub catalog: &'a CatalogState,
    /// The search path for names without a schema (`regclass` input).
    pub path: &'a SearchPath,
    /// The running database, for system views and administration functions.
    pub source: &'a dyn SystemSource,
    /// Settings for reading and showing values as text.
    pub text: &'a TextSettings,
    /// Limit, in bytes, for data that must stay in memory; `53200` beyond the limit. Such data are
    /// states of aggregates (`array_agg`), and results of nested queries in expressions.
    pub memory_limit: usize,
    /// `work_mem` in bytes. Beyond it, a sort or kept rows (a tuplestore) go to temporary files,
    /// and a bitmap becomes lossy.
    pub work_mem: usize,
    /// The same limit for hash tables: `work_mem` times `hash_mem_multiplier`.
    pub hash_mem: usize,
    /// The place for temporary files. Without it, only statements that need none can run.
    pub temp: Option<&'a TempSpace>,
    /// Least number of bytes for one read or write of a temporary file.
    pub temp_chunk: usize,
    /// State that the session keeps between statements.
    pub scratch: &'a mut Scratch,
    /// The answers to questions of functions about stored definitions.
    pub definitions: &'static dyn Definitions,
    /// The work that statements queue for their end.
    pub after_triggers: &'a dyn AfterTriggers,
    /// The enclosing calls of users' functions.
    pub calls: Calls,
}

impl ExecContext<'_> {
    /// Returns the same context for a nested statement, which sees another catalog.
    pub fn inside<'b>(&'b mut self, catalog: &'b CatalogState) -> ExecContext<'b> {
        ExecContext {
            store: &mut *self.store,
            environment: &mut *self.environment,
            catalog,
            path: self.path,
            source: self.source,
            text: self.text,
            memory_limit: self.memory_limit,
            work_mem: self.work_mem,
            hash_mem: self.hash_mem,
            temp: self.temp,
            temp_chunk: self.temp_chunk,
            scratch: &mut *self.scratch,
            definitions: self.definitions,
            after_triggers: self.after_triggers,
            calls: self.calls,
        }
    }
}

/// The work at the end of a statement: checking constraints, foreign-key actions, firing triggers.
/// A statement of a function has its own end.
pub trait AfterTriggers {
    /// Returns the length of the queue. A statement that begins now queues its work after this
    /// position.
    fn queued(&self) -> usize;
    /// Does the work queued since then, with everything that follows from it.
    ///
    /// # Errors
    /// `23503`, `23505`, and the errors of the work itself.
    fn end(&self, since: usize, exec: &mut ExecContext<'_>) -> Result<()>;
}

/// The end of statements that queue no work.
#[derive(Clone, Copy, Debug)]
pub struct NoAfterTriggers;

impl AfterTriggers for NoAfterTriggers {
    fn queued(&self) -> usize {
        0
    }

    fn end(&self, _: usize, _: &mut ExecContext<'_>) -> Result<()> {
        Ok(())
    }
}

/// State that a session keeps between executions: buffers that point statements reuse, and the
/// random numbers that `setseed` started.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The buffers of point statements.
    pub buffers: Buffers,
    /// The random numbers that `setseed` started.
    pub random: Option<crate::seeded_random::SeededRandom>,
}

/// The buffers of point statements.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The key that is looked up.
    pub key: Vec<u8>,
    /// The row that is found.
    pub row: Vec<Datum>,
    /// The row after the change.
    pub new: Vec<Datum>,
    /// The row that is returned.
    pub output: Vec<Datum>,
}

/// The key of an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryNumber {
    /// One number.
    One(i64),
    /// Two numbers, which never equal a single number.
    Two(i32, i32),
}

/// An advisory lock that a function takes or releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// The key.
    pub number: AdvisoryNumber,
    /// True for a shared lock.
    pub shared: bool,
    /// True if the lock is held to the end of the transaction, false for the session.
    pub transaction: bool,
}

/// Session services for functions and system tables.
pub trait Environment {
    /// Fails if the session was cancelled or terminated, or is out of time.
    ///
    /// # Errors
    /// `57014`, `57P01`.
    fn check_interrupts(&mut self) -> Result<()>;
    /// Returns the start of the transaction, in microseconds since 2000-01-01 UTC: `now()`.
    fn transaction_timestamp(&self) -> i64;
    /// Returns the same for the statement.
    fn statement_timestamp(&self) -> i64;
    /// Returns the same for this instant.
    fn clock_timestamp(&self) -> i64;
    /// Returns a random number, uniform over all bit patterns.
    fn random(&mut self) -> u64;
    /// Sleeps; returns early with an error if interrupted (`pg_sleep`).
    ///
    /// # Errors
    /// As [`check_interrupts`](Self::check_interrupts).
    fn sleep(&mut self, microseconds: u64) -> Result<()>;
    /// Returns `nextval` of the sequence with this OID.
    ///
    /// # Errors
    /// `42809` when it is no sequence, `2200H` at its end.
    fn nextval(&mut self, sequence: u32) -> Result<i64>;
    /// Returns `currval` of the sequence.
    ///
    /// # Errors
    /// `55000` before the first `nextval` of the session.
    fn currval(&mut self, sequence: u32) -> Result<i64>;
    /// Returns `lastval()`.
    ///
    /// # Errors
    /// `55000` before the first `nextval` of the session.
    fn lastval(&mut self) -> Result<i64>;
    /// Does `setval(sequence, value, is_called)`.
    ///
    /// # Errors
    /// `22003` outside the sequence's bounds.
    fn setval(&mut self, sequence: u32, value: i64, is_called: bool) -> Result<i64>;
    /// Returns the value of `SHOW name`; `None` if there is no such setting.
    fn setting(&self, name: &str) -> Option<String>;
    /// Does `SET [LOCAL] name`, or RESET without a value. Returns the new value as shown.
    ///
    /// # Errors
    /// `42704` for an unknown name, `22023` for a bad value.
    fn set_setting(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String>;
    /// Returns the running transaction's number, and assigns one if needed (`txid_current`).
    ///
    /// # Errors
    /// `25006` in a read-only transaction; `0A000` without transactions.
    fn transaction_id(&mut self) -> Result<u64> {
        Err(SqlError::unsupported("a transaction id outside of a session"))
    }
    /// Queues a notice or warning, sent at the statement's end if `client_min_messages` permits.
    fn queue_notice(&mut self, _notice: SqlError) {}
    /// Locks a table in SHARE mode until the transaction ends: other transactions may read it.
    ///
    /// # Errors
    /// The errors of waiting; `0A000` without transactions.
    fn lock_against_writers(&mut self, _table: u32) -> Result<()> {
        Err(SqlError::unsupported("a table lock outside of a session"))
    }
    /// Locks a table in ACCESS SHARE mode until the transaction ends: its definition cannot change.
    ///
    /// # Errors
    /// The errors of waiting; `0A000` without transactions.
    fn lock_for_reading(&mut self, _table: u32) -> Result<()> {
        Err(SqlError::unsupported("a table lock outside of a session"))
    }
    /// Takes an advisory lock. Returns false only if the lock is not free and `wait` is false.
    ///
    /// # Errors
    /// The errors of waiting; `0A000` without sessions.
    fn advisory_lock(&mut self, _lock: AdvisoryLock, _wait: bool) -> Result<bool> {
        Err(SqlError::unsupported("an advisory lock outside of a session"))
    }
    /// Releases an advisory lock of the session. Returns false, after a warning, if the session
    /// does not hold it.
    ///
    /// # Errors
    /// `0A000` without sessions.
    fn advisory_unlock(&mut self, _lock: AdvisoryLock) -> Result<bool> {
        Err(SqlError::unsupported("an advisory lock outside of a session"))
    }
    /// Releases all advisory locks of the session.
    ///
    /// # Errors
    /// `0A000` without sessions.
    fn advisory_unlock_all(&mut self) -> Result<()> {
        Err(SqlError::unsupported("an advisory lock outside of a session"))
    }
    /// Queues `NOTIFY channel, payload` for the transaction's commit.
    ///
    /// # Errors
    /// `22023` for an invalid channel or payload; `0A000` without sessions.
    fn notify(&mut self, _channel: &str, _payload: &str) -> Result<()> {
        Err(SqlError::unsupported("a notification outside of a session"))
    }
    /// Returns the channels that the session listens to.
    fn listening_channels(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the fill level of the notification queue, from 0 to 1.
    fn notification_queue_usage(&self) -> f64 {
        0.0
    }
    /// Returns the current row of a cursor in a table, for `WHERE CURRENT OF`. The result is the
    /// table or partition, and the row's TID when the cursor reached it. Returns `None` if the row
    /// belongs to another partition.
    ///
    /// # Errors
    /// `34000` if there is no such cursor, `24000` if it is on no row of the table; `0A000` without
    /// cursors.
    fn row_of_cursor(&self, _cursor: &str, _table: &Relation) -> Result<Option<(Oid, Tid)>> {
        Err(SqlError::unsupported("a cursor outside of a session"))
    }
    /// Returns the name of the current user.
    fn current_user(&self) -> String;
    /// Returns the name of the session's user.
    fn session_user(&self) -> String;
}

/// The receiver of result rows.
pub trait RowSink {
    /// Takes one row. The slice is valid only during the call.
    ///
    /// # Errors
    /// Any error of the receiver; the statement fails with it.
    fn row(&mut self, row: &[Datum]) -> Result<()>;

    /// Returns whether the receiver wants object numbers instead of names (`regclass` and similar)
    /// in this column, given by position.
    fn takes_numbers(&self, _column: usize) -> bool {
        false
    }

    /// Returns whether the receiver wants no more rows for now, if it need not take all. Called
    /// before each row but the first.
    fn is_full(&self) -> bool {
        false
    }
}

impl RowSink for Vec<Vec<Datum>> {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.push(row.to_vec());
        Ok(())
    }
}

/// A result column, as in a row description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Type and its modifier.
    pub column_type: ColumnType,
    /// Table that the column comes from unchanged, or 0.
    pub table: u32,
    /// Number of the column in that table, from 1; or 0.
    pub attribute: i16,
    /// Fields of a `record`, if the query that produces it determines them.
    pub fields: Option<RecordFields>,
    /// The collation of the values, if it differs from their type's; [`Oid::INVALID`] if none can
    /// be derived.
    pub collation: Option<Oid>,
}

/// Names and types of a row's fields.
pub type RecordFields = Arc<[(Arc<str>, ColumnType)]>;

impl ColumnInfo {
    /// Creates a computed column.
    pub fn computed(name: impl Into<String>, column_type: ColumnType) -> Self {
        let (name, fields, collation) = (name.into(), None, None);
        Self { name, column_type, table: 0, attribute: 0, fields, collation }
    }

    /// Returns the type of the column.
    pub fn oid(&self) -> TypeOid {
        self.column_type.oid
    }
}

/// The completion of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The kind of statement.
    pub tag: CommandTag,
    /// Number of affected or returned rows.
    pub rows: u64,
}

impl Completion {
    /// Writes the text of `CommandComplete` to `out`; replaces its content, but reuses its memory.
    pub fn write_tag(&self, out: &mut String) {
        use std::fmt::Write as _;
        out.clear();
        out.push_str(self.tag.as_str());
        // Writing to a string cannot fail.
        let _ = match self.tag {
            CommandTag::Insert => write!(out, " 0 {}", self.rows),
            CommandTag::Explain => Ok(()),
            _ => write!(out, " {}", self.rows),
        };
    }

    /// Returns the text of `CommandComplete`: `SELECT 3`, `INSERT 0 1`, …
    pub fn command_tag(&self) -> String {
        match self.tag {
            CommandTag::Insert => format!("INSERT 0 {}", self.rows),
            CommandTag::Explain => "EXPLAIN".to_owned(),
            tag => format!("{} {}", tag.as_str(), self.rows),
        }
    }
}

/// The first word of a command tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandTag {
    /// `SELECT n`
    Select,
    /// `INSERT 0 n`
    Insert,
    /// `UPDATE n`
    Update,
    /// `DELETE n`
    Delete,
    /// `MERGE n`
    Merge,
    /// `EXPLAIN`
    Explain,
}

impl CommandTag {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Merge => "MERGE",
            Self::Explain => "EXPLAIN",
        }
    }
}

/// The nesting depth of calls of users' functions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// The number of surrounding calls.
    depth: u32,
    /// Calls of triggers' functions, and what foreign keys do, which are triggers in PostgreSQL.
    triggers: u32,
}

/// The most calls inside one another, even if each takes little stack.
/// Each call may hold a snapshot, and a database has a few thousand snapshots for all sessions.
const DEPTH_MAX: u32 = 1_000;

/// The error hint for a function that calls itself without end.
const HINT: &str = "A function calls itself too often, directly or through others.";

impl Calls {
    /// Returns the depth inside one more call.
    ///
    /// # Errors
    /// `54001` when too many calls stand inside one another.
    pub fn inside(self) -> Result<Self> {
        if self.depth >= DEPTH_MAX {
            return Err(SqlError::from(TooDeep).with_hint(HINT));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Those around what a trigger runs.
    #[must_use]
    pub fn inside_trigger(self) -> Self {
        Self { triggers: self.triggers.saturating_add(1), ..self }
    }

    /// `pg_trigger_depth()`
    pub fn trigger_depth(self) -> i32 {
        i32::try_from(self.triggers).unwrap_or(i32::MAX)
    }
}
