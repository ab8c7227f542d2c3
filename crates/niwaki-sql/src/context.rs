//! What a statement gets from the session that runs it, and where its rows go.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation, SearchPath, SystemSource};
use niwaki_storage::Tid;
use niwaki_table::TempSpace;
use niwaki_types::{ColumnType, Datum, TextSettings, TypeOid};

use crate::analyze::CalledFunctions;
use crate::error::Result;
use crate::exec::Calls;
use crate::expr::{Collation, Expr};
use crate::store::Store;

/// What analysis and planning read.
#[derive(Clone, Copy)]
pub struct AnalyzeContext<'a> {
    /// The catalog that the statement sees.
    pub catalog: &'a CatalogState,
    /// Where names without a schema are looked up.
    pub path: &'a SearchPath,
    /// How literals of date and time types are read.
    pub text: &'a TextSettings,
    /// Start of the transaction, microseconds since 2000-01-01 UTC: what the literal `now` means.
    pub now: i64,
    /// Which plans may be made.
    pub planner: PlannerSettings,
    /// As [`Environment::check_interrupts`]: asked between the steps of planning, which takes long for many tables.
    pub interrupts: &'a dyn Fn() -> Result<()>,
    /// The time now, in microseconds: EXPLAIN tells how long planning took.
    pub clock: &'a dyn Fn() -> i64,
    /// Where the bodies of users' functions are kept; where they are not looked at, none.
    pub functions: Option<&'a CalledFunctions<'a>>,
    /// Whether the text is the catalog's own, in which names of users' objects are numbers.
    pub stored: bool,
}

/// What reading costs; PostgreSQL's names, defaults and unit: one page read in sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostSettings {
    /// `seq_page_cost`
    pub seq_page_cost: f64,
    /// `random_page_cost`
    pub random_page_cost: f64,
    /// `cpu_tuple_cost`
    pub cpu_tuple_cost: f64,
    /// `cpu_index_tuple_cost`
    pub cpu_index_tuple_cost: f64,
    /// `cpu_operator_cost`
    pub cpu_operator_cost: f64,
    /// `effective_cache_size` in blocks.
    pub effective_cache_size: f64,
}

impl Default for CostSettings {
    fn default() -> Self {
        Self {
            seq_page_cost: 1.0,
            random_page_cost: 4.0,
            cpu_tuple_cost: 0.01,
            cpu_index_tuple_cost: 0.005,
            cpu_operator_cost: 0.0025,
            effective_cache_size: 524_288.0,
        }
    }
}

/// Settings of the planner; PostgreSQL's names.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct PlannerSettings {
    /// `enable_seqscan`
    pub enable_seqscan: bool,
    /// `enable_indexscan`
    pub enable_indexscan: bool,
    /// `enable_indexonlyscan`
    pub enable_indexonlyscan: bool,
    /// `enable_bitmapscan`
    pub enable_bitmapscan: bool,
    /// `enable_skipscan`: Niwaki's own.
    pub enable_skipscan: bool,
    /// `enable_tidscan`
    pub enable_tidscan: bool,
    /// `enable_hashjoin`
    pub enable_hashjoin: bool,
    /// `enable_nestloop`
    pub enable_nestloop: bool,
    /// `enable_mergejoin`
    pub enable_mergejoin: bool,
    /// `enable_incremental_sort`
    pub enable_incremental_sort: bool,
    /// `enable_hashagg`
    pub enable_hashagg: bool,
    /// Bytes that a hash table may take in memory: `work_mem` times `hash_mem_multiplier`.
    pub hash_memory: f64,
    /// Costs.
    pub costs: CostSettings,
    /// `max_parallel_workers_per_gather`: threads that a step may have besides the session's own.
    pub parallel_workers: usize,
    /// `min_parallel_table_scan_size` in blocks.
    pub parallel_table_blocks: f64,
    /// The transaction's time, in microseconds since 2000: estimates take it for that of each execution.
    pub now: i64,
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            enable_seqscan: true,
            enable_indexscan: true,
            enable_indexonlyscan: true,
            enable_bitmapscan: true,
            enable_skipscan: true,
            enable_tidscan: true,
            enable_hashjoin: true,
            enable_nestloop: true,
            enable_mergejoin: true,
            enable_incremental_sort: true,
            enable_hashagg: true,
            hash_memory: 8.0 * 1024.0 * 1024.0,
            costs: CostSettings::default(),
            parallel_workers: 0,
            parallel_table_blocks: 1_024.0,
            now: 0,
        }
    }
}

/// What [`ExecContext::temp_chunk`] usually is.
pub const TEMP_CHUNK_BYTES: usize = 8 << 10;

/// Everything a statement needs while it runs. Borrowed anew for every call, so that a suspended
/// portal holds no borrow.
pub struct ExecContext<'a> {
    /// Stored tables, under the statement's snapshot.
    pub store: &'a mut dyn Store,
    /// The session's services.
    pub environment: &'a mut dyn Environment,
    /// The catalog that the statement sees.
    pub catalog: &'a CatalogState,
    /// Where names without a schema are looked up (`regclass` input).
    pub path: &'a SearchPath,
    /// The running database, for system views and administration functions.
    pub source: &'a dyn SystemSource,
    /// How values are read and shown as text.
    pub text: &'a TextSettings,
    /// Bytes that may be taken, before `53200`, by what must stay in memory: states of aggregates such as `array_agg`, results
    /// of nested queries in expressions.
    pub memory_limit: usize,
    /// `work_mem` in bytes: what a sort or kept rows take before they go to temporary files, and a bitmap before it becomes
    /// lossy.
    pub work_mem: usize,
    /// The same for hash tables: `work_mem` times `hash_mem_multiplier`.
    pub hash_mem: usize,
    /// Where temporary files go; without it only statements that need none can run.
    pub temp: Option<&'a TempSpace>,
    /// Bytes that temporary files are read and written by at a time, at least.
    pub temp_chunk: usize,
    /// Buffers of the session that point statements reuse.
    pub scratch: &'a mut Scratch,
    /// What statements leave to be done when they end.
    pub ends: &'a dyn StatementEnd,
    /// Calls of users' functions around what runs.
    pub calls: Calls,
}

impl ExecContext<'_> {
    /// The same for a statement inside the running one, which sees another catalog.
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
            ends: self.ends,
            calls: self.calls,
        }
    }
}

/// What statements leave to be done when they have ended: constraints are checked, foreign keys act, triggers are fired. A statement
/// of a function has an end of its own.
pub trait StatementEnd {
    /// How much is noted by now; what a statement leaves that begins now comes behind it.
    fn noted(&self) -> usize;
    /// Does what was left since then, and what follows from that.
    ///
    /// # Errors
    /// `23503`, `23505`, and those of what is done.
    fn end(&self, since: usize, exec: &mut ExecContext<'_>) -> Result<()>;
}

/// Where no statement leaves anything.
#[derive(Clone, Copy, Debug)]
pub struct NothingLeft;

impl StatementEnd for NothingLeft {
    fn noted(&self) -> usize {
        0
    }

    fn end(&self, _: usize, _: &mut ExecContext<'_>) -> Result<()> {
        Ok(())
    }
}

/// What a session keeps from one execution to the next: buffers that point statements reuse, and the random
/// numbers that `setseed` asked for.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) key: Vec<u8>,
    pub(crate) row: Vec<Datum>,
    pub(crate) new: Vec<Datum>,
    pub(crate) output: Vec<Datum>,
    pub(crate) random: Option<crate::functions::SeededRandom>,
}

/// What an advisory lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryNumber {
    /// One number.
    One(i64),
    /// Two numbers, which are never the same as one.
    Two(i32, i32),
}

/// An advisory lock that a function asks for, or gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// On what.
    pub number: AdvisoryNumber,
    /// Others may share it.
    pub shared: bool,
    /// Until the transaction ends, rather than the session.
    pub transaction: bool,
}

/// Session services that functions and system tables use.
pub trait Environment {
    /// Fails when the session was cancelled, terminated or is out of time.
    ///
    /// # Errors
    /// `57014`, `57P01`.
    fn check_interrupts(&mut self) -> Result<()>;
    /// Microseconds since 2000-01-01 UTC at which the transaction began: `now()`.
    fn transaction_timestamp(&self) -> i64;
    /// The same for the statement.
    fn statement_timestamp(&self) -> i64;
    /// The same for this instant.
    fn clock_timestamp(&self) -> i64;
    /// A random number, uniform over all bit patterns.
    fn random(&mut self) -> u64;
    /// Sleeps, returning early with an error when interrupted (`pg_sleep`).
    ///
    /// # Errors
    /// As [`check_interrupts`](Self::check_interrupts).
    fn sleep(&mut self, microseconds: u64) -> Result<()>;
    /// `nextval` of the sequence with this oid.
    ///
    /// # Errors
    /// `42809` when it is no sequence, `2200H` at its end.
    fn nextval(&mut self, sequence: u32) -> Result<i64>;
    /// `currval` of the sequence.
    ///
    /// # Errors
    /// `55000` before the first `nextval` of the session.
    fn currval(&mut self, sequence: u32) -> Result<i64>;
    /// `lastval()`.
    ///
    /// # Errors
    /// `55000` before the first `nextval` of the session.
    fn lastval(&mut self) -> Result<i64>;
    /// `setval(sequence, value, is_called)`.
    ///
    /// # Errors
    /// `22003` outside the sequence's bounds.
    fn setval(&mut self, sequence: u32, value: i64, is_called: bool) -> Result<i64>;
    /// `SHOW name`; `None` when there is no such setting.
    fn setting(&self, name: &str) -> Option<String>;
    /// `SET [LOCAL] name`, or RESET without a value, returning the new value as shown.
    ///
    /// # Errors
    /// `42704` for an unknown name, `22023` for a bad value.
    fn set_setting(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String>;
    /// The running transaction's number, which it gets now if it had none (`txid_current`).
    ///
    /// # Errors
    /// `25006` in a read-only transaction; `0A000` where there are no transactions.
    fn transaction_id(&mut self) -> Result<u64> {
        Err(crate::SqlError::unsupported("a transaction id outside of a session"))
    }
    /// Sends a notice or warning when the statement ends, if `client_min_messages` lets it through.
    fn tell(&mut self, _notice: crate::SqlError) {}
    /// Locks a table in SHARE mode until the transaction ends: others may read it.
    ///
    /// # Errors
    /// Those of a wait; `0A000` where there are no transactions.
    fn lock_against_writers(&mut self, _table: u32) -> Result<()> {
        Err(crate::SqlError::unsupported("a table lock outside of a session"))
    }
    /// Locks a table in ACCESS SHARE mode until the transaction ends: its definition stays.
    ///
    /// # Errors
    /// Those of a wait; `0A000` where there are no transactions.
    fn lock_for_reading(&mut self, _table: u32) -> Result<()> {
        Err(crate::SqlError::unsupported("a table lock outside of a session"))
    }
    /// Takes an advisory lock; false only when it is not free and `wait` says not to wait.
    ///
    /// # Errors
    /// Those of a wait; `0A000` where there are no sessions.
    fn advisory_lock(&mut self, _lock: AdvisoryLock, _wait: bool) -> Result<bool> {
        Err(crate::SqlError::unsupported("an advisory lock outside of a session"))
    }
    /// Gives back an advisory lock of the session; false, after a warning, when it has none.
    ///
    /// # Errors
    /// `0A000` where there are no sessions.
    fn advisory_unlock(&mut self, _lock: AdvisoryLock) -> Result<bool> {
        Err(crate::SqlError::unsupported("an advisory lock outside of a session"))
    }
    /// Gives back all advisory locks of the session.
    ///
    /// # Errors
    /// `0A000` where there are no sessions.
    fn advisory_unlock_all(&mut self) -> Result<()> {
        Err(crate::SqlError::unsupported("an advisory lock outside of a session"))
    }
    /// `NOTIFY channel, payload`: when the transaction commits.
    ///
    /// # Errors
    /// `22023` for a bad channel or payload; `0A000` where there are no sessions.
    fn notify(&mut self, _channel: &str, _payload: &str) -> Result<()> {
        Err(crate::SqlError::unsupported("a notification outside of a session"))
    }
    /// Channels that the session listens to.
    fn listening_channels(&self) -> Vec<String> {
        Vec::new()
    }
    /// How full the queue of notifications is, from 0 to 1.
    fn notification_queue_usage(&self) -> f64 {
        0.0
    }
    /// The row of a table that a cursor is on, for `WHERE CURRENT OF`: of which table, or partition of it, and where it was when
    /// the cursor came to it. `None` if it is of another partition than this one.
    ///
    /// # Errors
    /// `34000` when there is no such cursor, `24000` when it is on no row of the table; `0A000` where there are no cursors.
    fn row_of_cursor(&self, _cursor: &str, _table: &Relation) -> Result<Option<(Oid, Tid)>> {
        Err(crate::SqlError::unsupported("a cursor outside of a session"))
    }
    /// Name of the current user.
    fn current_user(&self) -> String;
    /// Name of the session's user.
    fn session_user(&self) -> String;
}

/// Where result rows go.
pub trait RowSink {
    /// Takes one row; the slice is valid during the call only.
    ///
    /// # Errors
    /// Whatever the receiver meets; the statement fails with it.
    fn row(&mut self, row: &[Datum]) -> Result<()>;

    /// Whether the receiver wants numbers of objects (`regclass` and its like) in this column, by its position, and not
    /// their names.
    fn takes_numbers(&self, _column: usize) -> bool {
        false
    }

    /// Whether the receiver wants no more rows for now, where it need not take all: asked before each
    /// but the first.
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

/// One column of a result, as a row description tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Type and its modifier.
    pub column_type: ColumnType,
    /// Table the column comes from unchanged, or 0.
    pub table: u32,
    /// Number of the column in that table, from 1, or 0.
    pub attribute: i16,
    /// Fields of a `record`, where the query says which it has.
    pub fields: Option<RecordFields>,
    /// The collation of its values, if it is not that of their type; [`Oid::INVALID`] where none can be derived.
    pub collation: Option<Oid>,
}

/// Names and types of a row's fields.
pub type RecordFields = Arc<[(Arc<str>, ColumnType)]>;

impl ColumnInfo {
    /// A column that is computed.
    pub fn computed(name: impl Into<String>, column_type: ColumnType) -> Self {
        let (name, fields, collation) = (name.into(), None, None);
        Self { name, column_type, table: 0, attribute: 0, fields, collation }
    }

    /// The same column with the collation of an expression.
    pub(crate) fn collated(self, derived: Collation) -> Self {
        Self { collation: derived.as_column(self.column_type), ..self }
    }

    /// The column as an expression, in a slot.
    pub(crate) fn at_slot(&self, slot: usize) -> Expr {
        let derived = Collation::of_column(self.collation, self.column_type.oid);
        Expr { derived, ..Expr::slot(slot, self.column_type) }
    }

    /// Type of the column.
    pub fn oid(&self) -> TypeOid {
        self.column_type.oid
    }
}

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What was done.
    pub tag: CommandTag,
    /// How many rows it concerned.
    pub rows: u64,
}

impl Completion {
    /// Writes the text of CommandComplete over what is in `out`, whose memory is used again.
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

    /// The text of CommandComplete: `SELECT 3`, `INSERT 0 1`, …
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
    /// The word.
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
