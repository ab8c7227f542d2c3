//! Stored tables under the snapshot of one statement.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::{CatalogState, Relation};
use niwaki_directory::parallel_workers::{HelperPermit, LimitedHelpers};
use niwaki_env::seeded_bug;
use niwaki_sql::store::{
    BATCH_BYTES, ConflictOutcome, JudgedRow, RowBatch, RowOutcome, ScanEffort, ScanPath, ScanState,
    Sees, SharedStore, Store,
};
use niwaki_sql::{CommandTag, FiredTrigger, Result, SqlError};
use niwaki_storage::{ReadAhead, Tid};
use niwaki_table::{
    Direction, Error as TableError, LockOutcome, Lookup, NewestVersion, PageRows, Table,
    UpdateOutcome, Upsert, Workspace,
};
use niwaki_txn::{
    Error as TxnError, Isolation, Readers, RowLockMode, Snapshot, TableLockMode, Transaction,
    WaitPolicy,
};
use niwaki_types::{ColumnMask, Datum, Vector};

use crate::execution::scan::{PagePlace, Scan, SeenTable, blocks_of};
use crate::session::after_trigger_queue::AfterTriggerQueue;
use crate::session::epoch::UNIX_TO_POSTGRES_US;
use crate::session::errors::of_table;

/// The session's transaction and the statement's snapshot, as the executor uses them.
pub(crate) struct TableStore<'s> {
    pub(crate) transaction: &'s Transaction,
    pub(crate) snapshot: &'s Snapshot,
    pub(crate) state: &'s CatalogState,
    pub(crate) work: &'s mut Workspace,
    pub(crate) lookup: &'s mut Lookup,
    /// Read-ahead of scans.
    pub(crate) read_ahead: ReadAhead,
    /// Set when the session has already locked the relations of the plan and looked at the catalog
    /// again.
    pub(crate) locked: bool,
    /// Notes of changes that concern constraints, and of triggers to fire later.
    pub(crate) queue: &'s RefCell<&'s mut AfterTriggerQueue>,
    /// Statements inside the running one, outermost first.
    pub(crate) nested: Vec<NestedStatement>,
    /// Threads that may help the statement to read (parallel workers).
    pub(crate) helpers: Option<LimitedHelpers<'s>>,
}

/// A statement of a function inside the running one, or a statement that follows from the running
/// one.
pub(crate) struct NestedStatement {
    /// Snapshot of the nested statement.
    snapshot: Snapshot,
    /// Catalog that the statement was planned for, if it is not the outer statement's.
    state: Option<Arc<CatalogState>>,
    /// Snapshot in which a row must look the same as now, or else its change is refused (40001).
    crosscheck: Option<Snapshot>,
    /// Isolation level of the transaction, to be restored at the end, where the statement has
    /// another one.
    isolation: Option<Isolation>,
}

/// Store for parallel workers, which help a statement to read.
struct Shared {
    readers: Readers,
    snapshot: Snapshot,
    read_ahead: ReadAhead,
    permit: HelperPermit,
}

impl SharedStore for Shared {
    fn threads(&self) -> usize {
        self.permit.threads()
    }

    fn with_store(&self, state: &CatalogState, work: &mut dyn FnMut(&mut dyn Store)) {
        let transaction = self.readers.transaction();
        let (mut buffers, mut lookup) = (Workspace::default(), Lookup::default());
        let mut queue = AfterTriggerQueue::default();
        let queue = RefCell::new(&mut queue);
        work(&mut TableStore {
            transaction: &transaction,
            snapshot: &self.snapshot,
            state,
            work: &mut buffers,
            lookup: &mut lookup,
            read_ahead: self.read_ahead,
            locked: true,
            queue: &queue,
            nested: Vec::new(),
            helpers: None,
        });
    }

    fn check_interrupts(&self) -> Result<()> {
        niwaki_env::memory::check()?;
        Ok(self.readers.session().check_interrupts().map_err(TxnError::from)?)
    }

    fn clock_timestamp(&self) -> i64 {
        let clock = &self.readers.session().manager().env().clock;
        clock.now_unix_us() - UNIX_TO_POSTGRES_US
    }
}

/// Returns the snapshot of the innermost statement.
fn seen<'x>(nested: &'x [NestedStatement], outermost: &'x Snapshot) -> &'x Snapshot {
    nested.last().map_or(outermost, |statement| &statement.snapshot)
}

fn table(relation: &Relation) -> Result<&Table> {
    relation.table.as_deref().ok_or_else(|| {
        if relation.is_partitioned() {
            SqlError::unsupported("this use of a partitioned table")
        } else {
            SqlError::internal(format!("\"{}\" has no rows", relation.name))
        }
    })
}

impl TableStore<'_> {
    /// Returns the newest version of a row, which this transaction has locked, as a target for
    /// changes and as values.
    fn newest(
        &self,
        relation: &Relation,
        changed: NewestVersion,
    ) -> Result<(JudgedRow, Vec<Datum>)> {
        let table = table(relation)?;
        let mut row = vec![Datum::Null; relation.columns.len()];
        let all = ColumnMask::all(row.len());
        let stored = &changed.row;
        table
            .deform_parts(stored.natts, stored.has_nulls, &stored.bytes, &all, &mut row)
            .map_err(|e| of_table(e, relation, self.state))?;
        Ok((JudgedRow::newest(relation, changed.target), row))
    }

    fn changed(&self, relation: &Relation, changed: NewestVersion) -> Result<RowOutcome> {
        let (judged, row) = self.newest(relation, changed)?;
        Ok(RowOutcome::Changed { judged, row })
    }

    fn outcome(&self, relation: &Relation, outcome: UpdateOutcome) -> Result<RowOutcome> {
        if self.nested.last().is_some_and(|statement| statement.crosscheck.is_some()) {
            match outcome {
                UpdateOutcome::Changed(_) => return Err(not_serializable("update")),
                UpdateOutcome::Gone => return Err(not_serializable("delete")),
                UpdateOutcome::Done { .. } | UpdateOutcome::SelfModified => {}
            }
        }
        Ok(match outcome {
            UpdateOutcome::Done { root } => RowOutcome::Done(root),
            UpdateOutcome::Changed(changed) => return self.changed(relation, changed),
            UpdateOutcome::Gone => RowOutcome::Gone,
            UpdateOutcome::SelfModified => RowOutcome::SelfModified,
        })
    }
}

impl TableStore<'_> {
    /// Returns the catalog that the innermost statement was planned for.
    fn catalog(&self) -> &CatalogState {
        let innermost = self.nested.last().and_then(|statement| statement.state.as_deref());
        innermost.unwrap_or(self.state)
    }

    fn begin(&mut self, statement: NestedStatement) {
        // Doubtful keys of the surrounding statement are noted before this statement's keys.
        self.note_doubtful_keys();
        self.nested.push(statement);
    }

    /// Moves the possibly duplicate keys from the workspace to the notes.
    fn note_doubtful_keys(&mut self) {
        let keys = self.work.take_deferred();
        if !keys.is_empty() {
            self.queue.borrow_mut().doubtful(keys);
        }
    }

    /// Refuses the change of a row whose version the crosscheck's snapshot does not see.
    fn crosscheck(&self, relation: &Relation, tid: Tid, old: &[Datum]) -> Result<()> {
        let innermost = self.nested.last();
        let Some(snapshot) = innermost.and_then(|statement| statement.crosscheck.as_ref()) else {
            return Ok(());
        };
        let mut seen = vec![Datum::Null; relation.columns.len()];
        let all = ColumnMask::all(seen.len());
        let found = table(relation)?
            .fetch(self.transaction, snapshot, tid, &all, &mut seen)
            .map_err(|e| of_table(e, relation, self.state))?;
        let same = seen.iter().zip(old).all(|(seen, old)| seen.same_image(old));
        if found && same { Ok(()) } else { Err(not_serializable("update")) }
    }
}

/// Restores the isolation level of a transaction.
fn restore(transaction: &Transaction, isolation: Option<Isolation>) {
    if let Some(isolation) = isolation {
        // The transaction had this level before, so the level is allowed.
        let restored = transaction.set_isolation(isolation);
        debug_assert!(restored.is_ok(), "an isolation level is refused");
    }
}

/// Returns the error 25006 for a command that writes.
pub(crate) fn read_only(command: &str) -> SqlError {
    SqlError::new("25006", format!("cannot execute {command} in a read-only transaction"))
}

fn not_serializable(cause: &'static str) -> SqlError {
    TxnError::SerializationFailure { cause }.into()
}

impl Store for TableStore<'_> {
    fn lock_table(&mut self, relation: &Relation, lock: TableLockMode) -> Result<()> {
        if self.locked {
            return Ok(());
        }
        self.transaction.manager().locks().acquire_table(
            self.transaction,
            self.state.table_number(relation.oid),
            lock,
            WaitPolicy::Block,
        )?;
        Ok(())
    }

    fn open_scan(
        &mut self,
        relation: &Relation,
        path: ScanPath,
        columns: &ColumnMask,
    ) -> Result<ScanState> {
        let table = table(relation)?;
        let mask = columns.clone();
        let failed = |e| of_table(e, relation, self.state);
        let scan = match path {
            ScanPath::Sequential => {
                let blocks = table.blocks().map_err(failed)?;
                Scan::Sequential {
                    scan: table.seq_scan(0..blocks).ahead(table, self.read_ahead),
                    place: PagePlace::new(mask),
                }
            }
            ScanPath::Blocks(blocks) => Scan::Sequential {
                scan: table.seq_scan(blocks).ahead(table, self.read_ahead),
                place: PagePlace::new(mask),
            },
            ScanPath::TidRange(lower, upper) => {
                let blocks = blocks_of(&lower, &upper, table.blocks().map_err(failed)?);
                Scan::Range {
                    scan: table.seq_scan(blocks).ahead(table, self.read_ahead),
                    place: PagePlace::new(mask),
                    bounds: (lower, upper),
                }
            }
            ScanPath::Tids(tids) => Scan::Tids { tids, next: 0, mask },
            ScanPath::Index { index, keys, forward, only } => {
                let direction = if forward { Direction::Forward } else { Direction::Backward };
                let scan = if only {
                    table.index_only_scan(index, keys, direction)
                } else {
                    table.index_scan_keys(index, keys, direction)
                };
                Scan::Index(Box::new(scan), mask)
            }
            ScanPath::Bitmap { source, memory_bytes } => Scan::Bitmap {
                scan: Box::new(
                    table.bitmap_scan(source, memory_bytes).ahead(table, self.read_ahead),
                ),
                place: PagePlace::new(mask),
            },
        };
        Ok(Box::new(scan))
    }

    fn next_rows(
        &mut self,
        relation: &Relation,
        scan: &mut ScanState,
        limit: usize,
        out: &mut RowBatch,
    ) -> Result<bool> {
        let table = table(relation)?;
        let scan = scan
            .downcast_mut::<Scan>()
            .ok_or_else(|| SqlError::internal("a scan of another store"))?;
        self.transaction.session().check_interrupts().map_err(niwaki_txn::Error::from)?;
        let seen = SeenTable {
            table,
            relation,
            state: self.state,
            transaction: self.transaction,
            snapshot: seen(&self.nested, self.snapshot),
        };
        seen.next_rows(scan, limit, out)
    }

    fn next_vectors(
        &mut self,
        relation: &Relation,
        scan: &mut ScanState,
        columns: &ColumnMask,
        limit: usize,
        out: &mut [Vector],
    ) -> Result<(usize, bool)> {
        let Some(Scan::Sequential { .. } | Scan::Bitmap { .. }) = scan.downcast_mut::<Scan>()
        else {
            let mut rows = RowBatch::new(relation.columns.len());
            let more = self.next_rows(relation, scan, limit, &mut rows)?;
            return Ok((rows.append_to(columns, out), more));
        };
        let table = table(relation)?;
        let failed = |e| of_table(e, relation, self.state);
        self.transaction.session().check_interrupts().map_err(niwaki_txn::Error::from)?;
        let (mut rows, mut large) = (0, 0);
        // Pages are taken whole, unless their values are large. So a batch may exceed its limit by
        // the rows of one page.
        while rows < limit && large < BATCH_BYTES {
            let (tx, snapshot) = (self.transaction, seen(&self.nested, self.snapshot));
            let (more, PagePlace { page, next, .. }) = match scan.downcast_mut::<Scan>() {
                Some(Scan::Sequential { place, .. } | Scan::Bitmap { place, .. })
                    if place.next > 0 =>
                {
                    (Ok(true), place)
                }
                Some(Scan::Sequential { scan, place }) => {
                    if columns.is_empty() && !place.page.is_counting() {
                        place.page = PageRows::counting();
                    }
                    (scan.next_page(table, tx, snapshot, &mut place.page), place)
                }
                Some(Scan::Bitmap { scan, place }) => {
                    (scan.next_page(table, tx, snapshot, &mut place.page), place)
                }
                _ => return Err(SqlError::internal("a scan of another store")),
            };
            if !more.map_err(failed)? {
                return Ok((rows, false));
            }
            let first = std::mem::take(next);
            rows += page.len() - first;
            for (at, stored) in page.iter().enumerate().skip(first) {
                large += table.deform_vectors(stored, columns, out).map_err(failed)?;
                if large >= BATCH_BYTES && at + 1 < page.len() {
                    *next = at + 1;
                    rows -= page.len() - *next;
                    break;
                }
            }
        }
        Ok((rows, true))
    }

    fn share(&self, threads: usize) -> Option<Box<dyn SharedStore>> {
        let readers = self.transaction.readers()?;
        let permit = self.helpers?.take(threads)?;
        let snapshot = seen(&self.nested, self.snapshot).clone();
        Some(Box::new(Shared { readers, snapshot, read_ahead: self.read_ahead, permit }))
    }

    fn scan_effort(&self, scan: &ScanState) -> ScanEffort {
        match scan.downcast_ref::<Scan>() {
            Some(Scan::Index(scan, _)) => {
                ScanEffort { heap_fetches: scan.heap_fetches(), ..ScanEffort::default() }
            }
            Some(Scan::Bitmap { scan, .. }) => {
                let effort = scan.effort();
                ScanEffort {
                    exact_pages: effort.exact_pages,
                    lossy_pages: effort.lossy_pages,
                    ..ScanEffort::default()
                }
            }
            _ => ScanEffort::default(),
        }
    }

    fn fetch_unique(
        &mut self,
        relation: &Relation,
        index: usize,
        key: &[u8],
        columns: &ColumnMask,
        row: &mut [Datum],
    ) -> Result<Option<Tid>> {
        table(relation)?
            .fetch_unique(
                self.transaction,
                seen(&self.nested, self.snapshot),
                index,
                key,
                columns,
                row,
                self.lookup,
            )
            .map_err(|e| of_table(e, relation, self.state))
    }

    fn address_now(&mut self, relation: &Relation, tid: Tid) -> Result<Option<Tid>> {
        table(relation)?
            .root_seen(self.transaction, seen(&self.nested, self.snapshot), tid)
            .map_err(|e| of_table(e, relation, self.state))
    }

    fn insert(&mut self, relation: &Relation, row: &[Datum]) -> Result<Tid> {
        let tid = table(relation)?
            .insert(self.transaction, row, self.work)
            .map_err(|e| of_table(e, relation, self.state))?;
        self.queue.borrow_mut().inserted(relation, row);
        Ok(tid)
    }

    fn insert_or_lock(
        &mut self,
        relation: &Relation,
        row: &[Datum],
        arbiters: &[usize],
        lock: Option<RowLockMode>,
    ) -> Result<ConflictOutcome> {
        let tx = self.transaction;
        let outcome = table(relation)?
            .insert_or_lock(tx, seen(&self.nested, self.snapshot), row, arbiters, lock, self.work)
            .map_err(|e| of_table(e, relation, self.state))?;
        Ok(match outcome {
            Upsert::Inserted(tid) => {
                self.queue.borrow_mut().inserted(relation, row);
                ConflictOutcome::Inserted(tid)
            }
            Upsert::Conflict => ConflictOutcome::Conflict,
            Upsert::OwnCommand => ConflictOutcome::OwnCommand,
            Upsert::Locked(locked) => {
                let (judged, row) = self.newest(relation, locked)?;
                ConflictOutcome::Locked { judged, row }
            }
        })
    }

    fn update(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<RowOutcome> {
        self.crosscheck(relation, judged.tid(), old)?;
        let target = judged.target(relation)?;
        let outcome = table(relation)?
            .update(
                self.transaction,
                seen(&self.nested, self.snapshot),
                target,
                old,
                new,
                self.work,
            )
            .map_err(|e| of_table(e, relation, self.state))?;
        let outcome = match outcome {
            UpdateOutcome::Changed(newest) if seeded_bug!("judged_once") => {
                let (tx, snapshot) = (self.transaction, seen(&self.nested, self.snapshot));
                table(relation)?
                    .update(tx, snapshot, newest.target, old, new, self.work)
                    .map_err(|e| of_table(e, relation, self.state))?
            }
            outcome => outcome,
        };
        if let UpdateOutcome::Done { .. } = outcome {
            self.queue.borrow_mut().updated(relation, self.catalog(), old, new);
        }
        self.outcome(relation, outcome)
    }

    fn delete(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
    ) -> Result<RowOutcome> {
        self.crosscheck(relation, judged.tid(), old)?;
        let target = judged.target(relation)?;
        let outcome = table(relation)?
            .delete(self.transaction, seen(&self.nested, self.snapshot), target)
            .map_err(|e| of_table(e, relation, self.state))?;
        if let UpdateOutcome::Done { .. } = outcome {
            self.queue.borrow_mut().deleted(relation, self.catalog(), old);
        }
        self.outcome(relation, outcome)
    }

    fn delete_moved(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        old: &[Datum],
    ) -> Result<RowOutcome> {
        self.crosscheck(relation, judged.tid(), old)?;
        let target = judged.target(relation)?;
        let outcome = table(relation)?
            .delete_moved(self.transaction, seen(&self.nested, self.snapshot), target)
            .map_err(|e| of_table(e, relation, self.state))?;
        if let UpdateOutcome::Done { .. } = outcome {
            self.queue.borrow_mut().left(relation, self.catalog(), old);
        }
        self.outcome(relation, outcome)
    }

    fn moved(&mut self, relation: &Relation, old: &[Datum], new: Option<&[Datum]>) -> Result<()> {
        match new {
            Some(new) => self.queue.borrow_mut().replaced(relation, self.catalog(), old, new),
            None => self.queue.borrow_mut().deleted(relation, self.catalog(), old),
        }
        Ok(())
    }

    fn lock_row(
        &mut self,
        relation: &Relation,
        judged: JudgedRow,
        lock: RowLockMode,
        wait: WaitPolicy,
    ) -> Result<RowOutcome> {
        let target = judged.target(relation)?;
        let outcome = table(relation)?
            .lock_row(self.transaction, seen(&self.nested, self.snapshot), target, lock, wait)
            .map_err(|e| match e {
                // PostgreSQL reports row locks this way, whether the row was deleted or changed.
                TableError::Transaction(TxnError::SerializationFailure { .. }) => {
                    not_serializable("update")
                }
                e => of_table(e, relation, self.state),
            })?;
        Ok(match outcome {
            LockOutcome::Locked => RowOutcome::Done(judged.tid()),
            LockOutcome::Changed(changed) => return self.changed(relation, changed),
            LockOutcome::Gone => RowOutcome::Gone,
            LockOutcome::SelfModified => RowOutcome::SelfModified,
            LockOutcome::Skipped => RowOutcome::Locked,
        })
    }

    fn begin_nested(&mut self, change: Option<CommandTag>) -> Result<()> {
        self.transaction.next_command()?;
        let snapshot = match change {
            None => self.transaction.snapshot()?,
            Some(tag) if self.transaction.read_only() && tag != CommandTag::Select => {
                return Err(read_only(tag.as_str()));
            }
            Some(_) => self.transaction.snapshot_for_write()?,
        };
        let state = self.nested.last().and_then(|statement| statement.state.clone());
        self.begin(NestedStatement { snapshot, state, crosscheck: None, isolation: None });
        Ok(())
    }

    fn begin_following(&mut self, sees: Sees, catalog: &Arc<CatalogState>) -> Result<()> {
        let transaction = self.transaction;
        let own = transaction.isolation();
        let at_latest = matches!(sees, Sees::Latest | Sees::LatestIfSeen);
        let crosscheck = match (sees, own) {
            (Sees::LatestIfSeen, Isolation::RepeatableRead | Isolation::Serializable) => {
                Some(transaction.snapshot()?)
            }
            _ => None,
        };
        if at_latest {
            transaction.set_isolation(Isolation::ReadCommitted)?;
        }
        let snapshot = match sees {
            Sees::Own => transaction.snapshot(),
            Sees::OwnToWrite | Sees::Latest | Sees::LatestIfSeen => {
                transaction.snapshot_for_write()
            }
        };
        let isolation = at_latest.then_some(own);
        let snapshot = snapshot.inspect_err(|_| restore(transaction, isolation))?;
        let state = Some(Arc::clone(catalog));
        self.begin(NestedStatement { snapshot, state, crosscheck, isolation });
        Ok(())
    }

    fn end_nested(&mut self) {
        self.note_doubtful_keys();
        if let Some(statement) = self.nested.pop() {
            restore(self.transaction, statement.isolation);
        }
    }

    fn fire_later(&mut self, trigger: Box<dyn FiredTrigger>) -> Result<()> {
        self.queue.borrow_mut().fired(trigger);
        Ok(())
    }

    fn blocks(&mut self, relation: &Relation) -> Result<u32> {
        table(relation)?.blocks().map_err(|e| of_table(e, relation, self.state))
    }
}
