//! Stored tables as seen by one statement: under its snapshot, in its transaction.

use std::any::Any;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation};
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::Tid;
use niwaki_table::{BitmapSource, RowTarget, ScanKeys};
use niwaki_txn::{RowLockMode, TableLockMode, WaitPolicy};
use niwaki_types::{ColumnMask, Datum, Vector};

use crate::context::{CommandTag, ExecContext};

/// An AFTER trigger that waits for the end of its statement.
pub trait FiredTrigger: fmt::Debug + Send + Sync {
    /// Fires the trigger.
    ///
    /// # Errors
    /// The errors of the trigger's function.
    fn fire(&self, exec: &mut ExecContext<'_>) -> Result<()>;
}

/// Size of large values, in bytes, after which a batch ends, however few rows it has: a thousand
/// rows of 10 MB are too much. Small values are inline in their
/// row, and a page holds 8 kB.
pub const BATCH_BYTES: usize = 256 << 10;

/// Rows of one table, stored in one vector.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// Values per row: the table's columns.
    pub width: usize,
    /// The rows' values, row by row. Columns that the caller did not ask for are NULL.
    pub values: Vec<Datum>,
    /// The rows' TIDs.
    pub tids: Vec<Tid>,
    /// Bytes of the values that are not stored inline: all large values.
    pub large_bytes: usize,
}

impl RowBatch {
    /// Creates an empty batch for rows of `width` values.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }
    /// Removes the rows, but keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.values.clear();
        self.tids.clear();
        self.large_bytes = 0;
    }
    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.tids.len()
    }
    /// Returns whether the batch has no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tids.is_empty()
    }
    /// Returns the values of one row.
    #[inline]
    pub fn row(&self, number: usize) -> &[Datum] {
        &self.values[number * self.width..(number + 1) * self.width]
    }
    /// Appends these columns to the vectors at their positions. Returns the number of rows.
    pub fn append_to(&self, columns: &ColumnMask, out: &mut [Vector]) -> usize {
        for number in 0..self.len() {
            let row = self.row(number);
            for column in columns.iter() {
                out[column].push(&row[column]);
            }
        }
        self.len()
    }
}

/// The access path of a table.
#[derive(Clone, Debug)]
pub enum ScanPath {
    /// Every block.
    Sequential,
    /// These blocks.
    Blocks(Range<u32>),
    /// These TIDs, in this order.
    Tids(Vec<Tid>),
    /// The blocks between two TIDs.
    TidRange(Bound<Tid>, Bound<Tid>),
    /// The entries of an index within a key range, in index order.
    Index {
        /// The store's number of the index.
        index: usize,
        /// The key range.
        keys: ScanKeys,
        /// True for ascending order of the encoded keys.
        forward: bool,
        /// True for an index-only scan: the entries hold every column that is read.
        only: bool,
    },
    /// The rows of a bitmap, in block order. The caller must recheck every row.
    Bitmap {
        /// The source of the bitmap.
        source: BitmapSource,
        /// Bytes that a bitmap may take before it becomes lossy.
        memory_bytes: usize,
    },
}

/// Counters of a scan's work besides reading rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanEffort {
    /// Entries of an index-only scan whose rows were fetched from the heap.
    pub heap_fetches: u64,
    /// Heap pages of a bitmap with exact rows.
    pub exact_pages: u64,
    /// Heap pages of a bitmap that were read in full.
    pub lossy_pages: u64,
}

/// The row version that a statement has checked. A change computed from this version may replace
/// only this version.
///
/// The checking step passes the value on to the change. So no other statement, table, partition or
/// function call can use it by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedRow {
    table: Oid,
    target: RowTarget,
}

impl JudgedRow {
    /// Creates the value for the version that the statement's scan of this table found at `tid`.
    #[inline]
    pub fn seen(relation: &Relation, tid: Tid) -> Self {
        Self { table: relation.oid, target: RowTarget::visible(tid) }
    }

    /// Creates the value for the newest version of a locked row, which must be rechecked.
    pub fn newest(relation: &Relation, target: RowTarget) -> Self {
        Self { table: relation.oid, target }
    }

    /// Returns the row's TID.
    #[inline]
    pub fn tid(&self) -> Tid {
        self.target.root
    }

    /// Returns whether the version is the one that the statement's scan found.
    pub fn is_seen(&self) -> bool {
        self.target.version.is_none()
    }

    /// Returns the target of the table change.
    ///
    /// # Errors
    /// `XX000` if it is a row of another table.
    #[inline]
    pub fn target(&self, relation: &Relation) -> Result<RowTarget> {
        if self.table == relation.oid { Ok(self.target) } else { Err(self.foreign(relation)) }
    }

    #[cold]
    fn foreign(&self, relation: &Relation) -> SqlError {
        let (own, other) = (&relation.name, self.table.0);
        SqlError::internal(format!("a row of table {other} is taken for one of \"{own}\""))
    }
}

/// The outcome of changing or locking a row.
#[derive(Debug)]
pub enum RowOutcome {
    /// Done; the current TID of the row's chain root.
    Done(Tid),
    /// Another transaction changed the row and committed. The newest version is locked now. The
    /// caller must recheck the whole version before changing it. READ COMMITTED only.
    Changed {
        /// The version on which to base a change.
        judged: JudgedRow,
        /// All columns of the version.
        row: Vec<Datum>,
    },
    /// Another transaction deleted the row and committed.
    Gone,
    /// This command has already changed the row.
    SelfModified,
    /// The row is locked, and the statement does not wait (`SKIP LOCKED`).
    Locked,
}

/// The outcome of an insertion with ON CONFLICT.
#[derive(Debug)]
pub enum ConflictOutcome {
    /// Inserted at this TID.
    Inserted(Tid),
    /// Another row has the key. The caller did not ask to lock it.
    Conflict,
    /// Another row has the key, and this version of it is locked.
    Locked {
        /// The version on which to base an update.
        judged: JudgedRow,
        /// All columns of the version.
        row: Vec<Datum>,
    },
    /// A row that this command inserted or changed has the key.
    OwnCommand,
}

/// The store of worker threads that help a statement to read. Until it is dropped, the workers
/// count against the limit of such threads.
pub trait SharedStore: Sync {
    /// Returns the maximum number of threads.
    fn threads(&self) -> usize;

    /// Calls `work` with a read-only store that sees what the statement's store sees, in the
    /// calling thread. `catalog` is the statement's catalog.
    fn with_store(&self, catalog: &CatalogState, work: &mut dyn FnMut(&mut dyn Store));

    /// Does the work of `Environment::check_interrupts` for
    /// the session.
    ///
    /// # Errors
    /// `57014`, `57P01`, when the statement was interrupted.
    fn check_interrupts(&self) -> Result<()>;

    /// Does the work of `Environment::clock_timestamp`.
    fn clock_timestamp(&self) -> i64;
}

/// State of a scan between two batches. Only the store creates and reads it.
pub type ScanState = Box<dyn Any + Send>;

/// The visibility for a statement that follows from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// The transaction's own snapshot.
    Own,
    /// The same, with permission to lock rows.
    OwnToWrite,
    /// Everything committed by now, whatever the isolation level.
    Latest,
    /// The same, but a row that the transaction's snapshot does not show unchanged cannot be
    /// changed (`40001`).
    LatestIfSeen,
}

/// Stored tables under one statement's snapshot.
pub trait Store {
    /// Takes the table lock, which is held to the end of the transaction.
    ///
    /// # Errors
    /// `55P03`, `40P01`, `57014` while waiting.
    fn lock_table(&mut self, relation: &Relation, lock: TableLockMode) -> Result<()>;

    /// Starts a scan. `columns` has the columns that the caller will read.
    ///
    /// # Errors
    /// I/O and corruption.
    fn open_scan(
        &mut self,
        relation: &Relation,
        path: ScanPath,
        columns: &ColumnMask,
    ) -> Result<ScanState>;

    /// Appends up to about `limit` visible rows; fewer if they have [`BATCH_BYTES`] of large
    /// values. Returns false if no rows follow.
    ///
    /// # Errors
    /// I/O, corruption, interrupts.
    fn next_rows(
        &mut self,
        relation: &Relation,
        scan: &mut ScanState,
        limit: usize,
        out: &mut RowBatch,
    ) -> Result<bool>;

    /// Appends about `limit` visible rows to `out`, which has one vector for each column of the
    /// table.
    ///
    /// Only the vectors of the columns asked for in [`Store::open_scan`] are filled. Returns the
    /// number of rows, and whether more may follow. Large values end the batch as in
    /// [`Store::next_rows`].
    ///
    /// # Errors
    /// As [`Store::next_rows`].
    fn next_vectors(
        &mut self,
        relation: &Relation,
        scan: &mut ScanState,
        columns: &ColumnMask,
        limit: usize,
        out: &mut [Vector],
    ) -> Result<(usize, bool)> {
        let mut rows = RowBatch::new(relation.columns.len());
        let more = self.next_rows(relation, scan, limit, &mut rows)?;
        Ok((rows.append_to(columns, out), more))
    }

    /// Returns a store for at most `threads` worker threads. Returns `None` if there can be none,
    /// because other threads cannot see what the transaction has written.
    fn share(&self, _threads: usize) -> Option<Box<dyn SharedStore>> {
        None
    }

    /// Returns the scan's counters so far; zeros for a store without counters.
    fn scan_effort(&self, _scan: &ScanState) -> ScanEffort {
        ScanEffort::default()
    }

    /// Returns the TID of the visible row whose key in a unique index is exactly `key` (encoded,
    /// all columns). Writes the row's columns to `row`, which is as wide as the table.
    ///
    /// # Errors
    /// I/O and corruption.
    fn fetch_unique(
        &mut self,
        relation: &Relation,
        index: usize,
        key: &[u8],
        columns: &ColumnMask,
        row: &mut [Datum],
    ) -> Result<Option<Tid>>;

    /// Returns the current TID of a row that was at `tid` for this transaction before: the place of
    /// the version that the statement sees. Returns `None` if the statement sees no version.
    ///
    /// # Errors
    /// I/O and corruption.
    fn address_now(&mut self, relation: &Relation, tid: Tid) -> Result<Option<Tid>>;

    /// Inserts a row (all columns).
    ///
    /// # Errors
    /// `23505` with constraint and detail; I/O.
    fn insert(&mut self, relation: &Relation, row: &[Datum]) -> Result<Tid>;

    /// Inserts a row (all columns), unless another row has its key in one of the unique indexes
    /// `arbiters` (the store's numbers). In that case locks the other row with `lock`, if given.
    ///
    /// # Errors
    /// As [`Store::insert`], for the other indexes; `40001` at REPEATABLE READ, `40P01`.
    fn insert_or_lock(
        &mut self,
        relation: &Relation,
        row: &[Datum],
        arbiters: &[usize],
        lock: Option<RowLockMode>,
    ) -> Result<ConflictOutcome>;

    /// Replaces a row whose checked version is `old` by `new` (all columns each).
    ///
    /// # Errors
    /// `23505`, `40001` at REPEATABLE READ, `40P01`, I/O.
    fn update(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<RowOutcome>;

    /// Deletes a row whose checked version is `old`.
    ///
    /// # Errors
    /// `40001` at REPEATABLE READ, `40P01`, I/O.
    fn delete(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
    ) -> Result<RowOutcome>;

    /// Deletes a row that moves to another partition.
    ///
    /// # Errors
    /// As [`Store::delete`].
    fn delete_moved(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
    ) -> Result<RowOutcome>;

    /// Records that a row of a partition of `relation` moved to another partition. `old` and `new`
    /// are the row before and after, as rows of `relation`. `new` is `None` if a trigger kept the
    /// row out of the new partition.
    ///
    /// # Errors
    /// The errors of reading definitions.
    fn moved(
        &mut self,
        _relation: &Relation,
        _old: &[Datum],
        _new: Option<&[Datum]>,
    ) -> Result<()> {
        Ok(())
    }

    /// Locks the checked version of a row.
    ///
    /// # Errors
    /// `55P03`, `40001` at REPEATABLE READ, `40P01`, I/O.
    fn lock_row(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        lock: RowLockMode,
        wait: WaitPolicy,
    ) -> Result<RowOutcome>;

    /// Begins a statement of a function inside the running statement. From now on, everything done
    /// so far is visible. `change` is the first word of the command tag, if the statement changes
    /// data or locks rows.
    ///
    /// # Errors
    /// `25006` for a change in a read-only transaction; `XX000` in a store without a session.
    fn begin_nested(&mut self, _change: Option<CommandTag>) -> Result<()> {
        Err(SqlError::internal("nothing runs functions here"))
    }

    /// Begins a statement that follows from a running or ended one: a foreign-key check or action.
    /// It was planned for `catalog`. [`Store::end_nested`] ends it, too.
    ///
    /// # Errors
    /// `XX000` in a store without a session.
    fn begin_following(&mut self, _sees: Sees, _catalog: &Arc<CatalogState>) -> Result<()> {
        Err(SqlError::internal("nothing follows from statements here"))
    }

    /// Ends a nested statement: the previous visibility is restored.
    fn end_nested(&mut self) {}

    /// Queues a trigger until the statement has ended. Queued triggers fire in the order of the
    /// changes.
    ///
    /// # Errors
    /// `XX000` in a store without a session.
    fn fire_later(&mut self, _trigger: Box<dyn FiredTrigger>) -> Result<()> {
        Err(SqlError::internal("nothing fires triggers here"))
    }

    /// Returns the current number of blocks of the table's main fork.
    ///
    /// # Errors
    /// I/O.
    fn blocks(&mut self, relation: &Relation) -> Result<u32>;
}
