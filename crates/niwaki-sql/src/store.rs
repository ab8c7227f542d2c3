//! Stored tables as one statement sees them: under its snapshot, in its transaction.

use std::any::Any;
use std::ops::{Bound, Range};
use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation};
use niwaki_storage::Tid;
use niwaki_table::{BitmapSource, RowTarget, ScanKeys};
use niwaki_types::{ColumnMask, Datum, Vector};

use crate::context::CommandTag;
use crate::error::{Result, SqlError};
use crate::exec::FiredTrigger;

/// Bytes of large values after which a batch of rows ends, however few they are: a thousand rows of
/// 10 MB are no batch. What is small stands in its row, of which a page has 8 kB.
pub const BATCH_BYTES: usize = 256 << 10;

/// Rows of one table, one after the other in one vector.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// Values per row: the table's columns.
    pub width: usize,
    /// The rows' values, row by row; columns that were not asked for are NULL.
    pub values: Vec<Datum>,
    /// The rows' addresses.
    pub tids: Vec<Tid>,
    /// Bytes of values that do not stand in their rows on disk as they are: of all that are large.
    pub large_bytes: usize,
}

impl RowBatch {
    /// An empty batch for rows of `width` values.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }
    /// Forgets the rows, keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.tids.clear();
        self.large_bytes = 0;
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.tids.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tids.is_empty()
    }
    /// The values of one row.
    pub fn row(&self, number: usize) -> &[Datum] {
        &self.values[number * self.width..(number + 1) * self.width]
    }
    /// Appends these columns to the vectors in their places; returns how many rows.
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

/// How the rows of a table are reached.
#[derive(Clone, Debug)]
pub enum ScanPath {
    /// Every block.
    Sequential,
    /// These blocks.
    Blocks(Range<u32>),
    /// These addresses, in this order.
    Tids(Vec<Tid>),
    /// The blocks between two addresses.
    TidRange(Bound<Tid>, Bound<Tid>),
    /// The entries of an index with some keys, in its order.
    Index {
        /// The store's number of the index.
        index: usize,
        /// Which keys.
        keys: ScanKeys,
        /// Ascending order of the encoded keys.
        forward: bool,
        /// The entries hold every column that is read.
        only: bool,
    },
    /// The rows of a bitmap, in the order of their blocks; every row must be judged again.
    Bitmap {
        /// Which rows.
        source: BitmapSource,
        /// Bytes that a bitmap may take before it becomes lossy.
        memory_bytes: usize,
    },
}

/// What a scan had to do besides reading rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanEffort {
    /// Entries of an index-only scan whose rows were asked for in the heap.
    pub heap_fetches: u64,
    /// Heap pages of a bitmap whose rows were known.
    pub exact_pages: u64,
    /// Heap pages of a bitmap read in full.
    pub lossy_pages: u64,
}

/// The version of a row that a statement has judged: what it computes from this version, it may
/// write over this version alone.
///
/// It goes by hand from the step that judges to the change, so no other statement, table, partition
/// or function call can take it for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedRow {
    table: Oid,
    target: RowTarget,
}

impl JudgedRow {
    /// The version that the statement's scan of this table found at `tid`.
    #[inline]
    pub fn seen(relation: &Relation, tid: Tid) -> Self {
        Self { table: relation.oid, target: RowTarget::visible(tid) }
    }

    /// The newest version of a row of this table, which was locked and is to be judged again.
    pub fn newest(relation: &Relation, target: RowTarget) -> Self {
        Self { table: relation.oid, target }
    }

    /// The row's address.
    #[inline]
    pub fn tid(&self) -> Tid {
        self.target.root
    }

    /// Whether it is the one that the statement's scan found.
    pub fn is_seen(&self) -> bool {
        self.target.version.is_none()
    }

    /// What the table is asked to change.
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

/// What became of a row that a statement wanted to change or lock.
#[derive(Debug)]
pub enum RowOutcome {
    /// It was done; the row's address now (of its root).
    Done(Tid),
    /// Another transaction changed the row and committed, and its newest version is locked now: the
    /// caller judges it whole before it changes it. READ COMMITTED only.
    Changed {
        /// What a change of the newest version is to be made on.
        judged: JudgedRow,
        /// All columns of it.
        row: Vec<Datum>,
    },
    /// Another transaction deleted it and committed.
    Gone,
    /// This command changed it already.
    SelfModified,
    /// It is locked, and the statement does not wait (`SKIP LOCKED`).
    Locked,
}

/// What became of a row that gives way to one with its key.
#[derive(Debug)]
pub enum InsertOutcome {
    /// It is there, at this address.
    Inserted(Tid),
    /// Another row has its key; that one was not to be locked.
    Conflict,
    /// Another row has its key, and this version of it is locked.
    Locked {
        /// What an update of it is to be made on.
        judged: JudgedRow,
        /// All columns of it.
        row: Vec<Datum>,
    },
    /// A row that this command inserted or changed has its key.
    OwnCommand,
}

/// Strength of a row lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowLock {
    /// `FOR KEY SHARE`
    KeyShare,
    /// `FOR SHARE`
    Share,
    /// `FOR NO KEY UPDATE`
    NoKeyUpdate,
    /// `FOR UPDATE`
    Update,
}

impl RowLock {
    /// The clause that asks for it.
    pub(crate) fn clause(self) -> &'static str {
        match self {
            Self::KeyShare => "FOR KEY SHARE",
            Self::Share => "FOR SHARE",
            Self::NoKeyUpdate => "FOR NO KEY UPDATE",
            Self::Update => "FOR UPDATE",
        }
    }
}

/// What to do when a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Wait.
    Block,
    /// `SKIP LOCKED`
    Skip,
    /// `NOWAIT`: fail with `55P03`.
    Error,
}

/// Table lock that a statement needs on a relation, in PostgreSQL's modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLock {
    /// Reading.
    AccessShare,
    /// `SELECT … FOR …`
    RowShare,
    /// Writing.
    RowExclusive,
}

/// What the threads need that help a statement to read. As long as it lives they count for the limit of such threads.
pub trait SharedStore: Sync {
    /// How many there may be.
    fn threads(&self) -> usize;

    /// Calls `work` with a store that sees what the statement's own sees, and can read only. In the thread that uses it.
    /// `catalog`: the statement's.
    fn with_store(&self, catalog: &CatalogState, work: &mut dyn FnMut(&mut dyn Store));

    /// As [`Environment::check_interrupts`](crate::Environment::check_interrupts) of the session.
    ///
    /// # Errors
    /// `57014`, `57P01`, when the statement was interrupted.
    fn check_interrupts(&self) -> Result<()>;

    /// As [`Environment::clock_timestamp`](crate::Environment::clock_timestamp).
    fn clock_timestamp(&self) -> i64;
}

/// State of a scan between two batches; made and understood by the store alone.
pub type ScanState = Box<dyn Any + Send>;

/// What a statement sees that follows from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// What the transaction sees.
    Own,
    /// The same; it may lock rows.
    OwnToWrite,
    /// What is committed by now, whatever the isolation level.
    Latest,
    /// The same, but rows that the transaction does not see as they are refuse to be changed (`40001`).
    LatestIfSeen,
}

/// Stored tables under one statement's snapshot.
pub trait Store {
    /// Takes the table lock; held to the end of the transaction.
    ///
    /// # Errors
    /// `55P03`, `40P01`, `57014` while waiting.
    fn lock_table(&mut self, relation: &Relation, lock: TableLock) -> Result<()>;

    /// Starts a scan. `columns` tells which columns the caller will read.
    ///
    /// # Errors
    /// I/O and corruption.
    fn open_scan(
        &mut self,
        relation: &Relation,
        path: ScanPath,
        columns: &ColumnMask,
    ) -> Result<ScanState>;

    /// Appends up to about `limit` visible rows, and fewer if they have [`BATCH_BYTES`] of large values;
    /// false when there are no more after them.
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

    /// Appends about `limit` visible rows as vectors, one for each column of the table, of which those that were asked for in
    /// [`Store::open_scan`] are filled; returns how many rows, and whether there may be more after them.
    /// Large values end them as in [`Store::next_rows`].
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

    /// For at most `threads` that help to read; `None` if there can be none: nobody else sees what the transaction has written.
    fn share(&self, _threads: usize) -> Option<Box<dyn SharedStore>> {
        None
    }

    /// What the scan had to do so far; nothing, in a store that counts nothing.
    fn scan_effort(&self, _scan: &ScanState) -> ScanEffort {
        ScanEffort::default()
    }

    /// The visible row, if any, whose key in a unique index is exactly `key` (encoded, all columns).
    /// Writes its columns to `row` (as wide as the table) and returns its address.
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

    /// Where the version is that the statement sees of a row which was at `tid` for this transaction before: its address now,
    /// wherever it went. `None` when it sees none.
    ///
    /// # Errors
    /// I/O and corruption.
    fn address_now(&mut self, relation: &Relation, tid: Tid) -> Result<Option<Tid>>;

    /// Inserts a row (all columns).
    ///
    /// # Errors
    /// `23505` with constraint and detail; I/O.
    fn insert(&mut self, relation: &Relation, row: &[Datum]) -> Result<Tid>;

    /// Inserts a row (all columns), unless another has its key in one of the unique indexes `arbiters`
    /// (the store's numbers); then that one is locked, if `lock` says how.
    ///
    /// # Errors
    /// As [`Store::insert`], for the other indexes; `40001` at REPEATABLE READ, `40P01`.
    fn insert_or_lock(
        &mut self,
        relation: &Relation,
        row: &[Datum],
        arbiters: &[usize],
        lock: Option<RowLock>,
    ) -> Result<InsertOutcome>;

    /// Replaces a row whose judged version is `old` by `new` (all columns each).
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

    /// Deletes a row whose judged version is `old`.
    ///
    /// # Errors
    /// `40001` at REPEATABLE READ, `40P01`, I/O.
    fn delete(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
    ) -> Result<RowOutcome>;

    /// Deletes a row, which goes to another partition.
    ///
    /// # Errors
    /// As [`Store::delete`].
    fn delete_moved(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
    ) -> Result<RowOutcome>;

    /// A row of a partition of `relation` has gone to another partition: what it was, and is, as rows of `relation`; nothing where a
    /// trigger kept it out there.
    ///
    /// # Errors
    /// Those of looking at definitions.
    fn moved(
        &mut self,
        _relation: &Relation,
        _old: &[Datum],
        _new: Option<&[Datum]>,
    ) -> Result<()> {
        Ok(())
    }

    /// Locks the judged version of a row.
    ///
    /// # Errors
    /// `55P03`, `40001` at REPEATABLE READ, `40P01`, I/O.
    fn lock_row(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        lock: RowLock,
        wait: LockWait,
    ) -> Result<RowOutcome>;

    /// Begins a statement of a function inside the running statement: from now on everything that was done so far is seen. `change` is
    /// what its command tag begins with, if it changes data or locks rows.
    ///
    /// # Errors
    /// `25006` for a change in a read-only transaction; `XX000` in a store of no session.
    fn begin_nested(&mut self, _change: Option<CommandTag>) -> Result<()> {
        Err(SqlError::internal("nothing runs functions here"))
    }

    /// Begins a statement that follows from the running one, or from one that has ended: a check of a foreign key, or what it does
    /// to rows. It was planned for this catalog. [`Store::end_nested`] ends it, too.
    ///
    /// # Errors
    /// `XX000` in a store of no session.
    fn begin_following(&mut self, _sees: Sees, _catalog: &Arc<CatalogState>) -> Result<()> {
        Err(SqlError::internal("nothing follows from statements here"))
    }

    /// Ends it: what is seen is what was seen before.
    fn end_nested(&mut self) {}

    /// Keeps a trigger until the statement has ended, when it is fired, in the order of the changes.
    ///
    /// # Errors
    /// `XX000` in a store of no session.
    fn fire_later(&mut self, _trigger: FiredTrigger) -> Result<()> {
        Err(SqlError::internal("nothing fires triggers here"))
    }

    /// Blocks of the table's main fork now.
    ///
    /// # Errors
    /// I/O.
    fn blocks(&mut self, relation: &Relation) -> Result<u32>;
}
