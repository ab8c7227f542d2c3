//! Evaluates expressions without a session: index expressions, and the expressions that parallel
//! workers evaluate.
//!
//! Only immutable functions come here, and none of them uses the services below. A use raises an
//! error, because its result would differ from session to session.

use std::sync::OnceLock;

use niwaki_catalog::{CatalogState, NoSystem, PG_CATALOG, Relation, SearchPath};
use niwaki_parse::error::{Result, SqlError};
use niwaki_settings::planner_settings::PlannerSettings;
use niwaki_storage::Tid;
use niwaki_table::TempSpace;
use niwaki_txn::{RowLockMode, TableLockMode, WaitPolicy};
use niwaki_types::{ColumnMask, Datum, TextSettings};

use crate::context::{Calls, Environment, ExecContext, NoAfterTriggers, Scratch};

use crate::analysis::AnalyzeContext;
use crate::definitions::{Definitions, Outside};
use crate::store::{
    ConflictOutcome, JudgedRow, RowBatch, RowOutcome, ScanPath, ScanState, SharedStore, Store,
};

/// The fixed surroundings of every evaluation without a session.
struct Fixed {
    catalog: CatalogState,
    path: SearchPath,
    text: TextSettings,
}

fn fixed() -> &'static Fixed {
    static FIXED: OnceLock<Fixed> = OnceLock::new();
    FIXED.get_or_init(|| Fixed {
        catalog: CatalogState::default(),
        path: SearchPath { schemas: vec![PG_CATALOG], creation: None },
        text: TextSettings::default(),
    })
}

/// Returns a context for analysis with default settings at the moment `now`. No expression may
/// depend on `now`.
pub fn analyze_context(now: i64) -> AnalyzeContext<'static> {
    let fixed = fixed();
    AnalyzeContext {
        catalog: &fixed.catalog,
        path: &fixed.path,
        text: &fixed.text,
        now,
        planner: PlannerSettings::default(),
        interrupts: &|| Ok(()),
        clock: &|| 0,
        functions: None,
        stored: true,
    }
}

/// Calls `run` with a context that has only a catalog, a search path and settings.
pub fn with_names<T>(names: &AnalyzeContext<'_>, run: impl FnOnce(&ExecContext<'_>) -> T) -> T {
    with_context(|exec| {
        run(&ExecContext {
            catalog: names.catalog,
            path: names.path,
            store: exec.store,
            environment: exec.environment,
            source: exec.source,
            text: names.text,
            memory_limit: exec.memory_limit,
            work_mem: exec.work_mem,
            hash_mem: exec.hash_mem,
            temp: exec.temp,
            temp_chunk: exec.temp_chunk,
            scratch: exec.scratch,
            definitions: exec.definitions,
            after_triggers: exec.after_triggers,
            calls: exec.calls,
        })
    })
}

/// Calls `run` with a context that has only default settings.
pub fn with_context<T>(run: impl FnOnce(&mut ExecContext<'_>) -> T) -> T {
    with_times(0, run)
}

/// Does the work of [`with_context`] at the time `now`, in microseconds since 2000.
pub fn with_times<T>(now: i64, run: impl FnOnce(&mut ExecContext<'_>) -> T) -> T {
    let fixed = fixed();
    let (transaction_us, statement_us) = (now, now);
    run(&mut ExecContext {
        store: &mut NoStore,
        environment: &mut NoSession { shared: None, transaction_us, statement_us },
        catalog: &fixed.catalog,
        path: &fixed.path,
        source: &NoSystem,
        text: &fixed.text,
        memory_limit: usize::MAX,
        work_mem: usize::MAX,
        hash_mem: usize::MAX,
        temp: None,
        temp_chunk: crate::context::TEMP_CHUNK_BYTES,
        scratch: &mut Scratch::default(),
        definitions: &Outside,
        after_triggers: &NoAfterTriggers,
        calls: Calls::default(),
    })
}

/// The context data that a statement passes to its worker threads.
#[derive(Clone, Copy)]
pub struct ForThreads<'c> {
    catalog: &'c CatalogState,
    path: &'c SearchPath,
    text: &'c TextSettings,
    /// The value of `now` in a text read as a date or time.
    transaction_us: i64,
    statement_us: i64,
    memory_limit: usize,
    work_mem: usize,
    hash_mem: usize,
    temp: Option<&'c TempSpace>,
    temp_chunk: usize,
    definitions: &'static dyn Definitions,
}

impl<'c> ForThreads<'c> {
    /// Takes the data from a context.
    pub fn of(exec: &ExecContext<'c>) -> Self {
        Self {
            catalog: exec.catalog,
            path: exec.path,
            text: exec.text,
            transaction_us: exec.environment.transaction_timestamp(),
            statement_us: exec.environment.statement_timestamp(),
            memory_limit: exec.memory_limit,
            work_mem: exec.work_mem,
            hash_mem: exec.hash_mem,
            temp: exec.temp,
            temp_chunk: exec.temp_chunk,
            definitions: exec.definitions,
        }
    }

    /// Calls `run` in a worker thread.
    pub fn with_context(self, shared: &dyn SharedStore, run: &mut dyn FnMut(&mut ExecContext<'_>)) {
        shared.with_store(self.catalog, &mut |store| {
            run(&mut ExecContext {
                store,
                environment: &mut NoSession {
                    shared: Some(shared),
                    transaction_us: self.transaction_us,
                    statement_us: self.statement_us,
                },
                catalog: self.catalog,
                path: self.path,
                source: &NoSystem,
                text: self.text,
                memory_limit: self.memory_limit,
                work_mem: self.work_mem,
                hash_mem: self.hash_mem,
                temp: self.temp,
                temp_chunk: self.temp_chunk,
                scratch: &mut Scratch::default(),
                definitions: self.definitions,
                after_triggers: &NoAfterTriggers,
                calls: Calls::default(),
            });
        });
    }
}

/// A store without tables, for expressions without a session, and for tests.
#[derive(Debug)]
pub struct NoStore;

/// The services without a session. In a worker thread they can be interrupted, and have the
/// session's clock and times.
#[derive(Default)]
struct NoSession<'s> {
    shared: Option<&'s dyn SharedStore>,
    transaction_us: i64,
    statement_us: i64,
}

fn none<T>() -> Result<T> {
    Err(SqlError::internal("an expression asked for a session, and is evaluated where none is"))
}

impl Store for NoStore {
    fn lock_table(&mut self, _: &Relation, _: TableLockMode) -> Result<()> {
        none()
    }
    fn open_scan(&mut self, _: &Relation, _: ScanPath, _: &ColumnMask) -> Result<ScanState> {
        none()
    }
    fn next_rows(
        &mut self,
        _: &Relation,
        _: &mut ScanState,
        _: usize,
        _: &mut RowBatch,
    ) -> Result<bool> {
        none()
    }
    fn fetch_unique(
        &mut self,
        _: &Relation,
        _: usize,
        _: &[u8],
        _: &ColumnMask,
        _: &mut [Datum],
    ) -> Result<Option<Tid>> {
        none()
    }
    fn address_now(&mut self, _: &Relation, _: Tid) -> Result<Option<Tid>> {
        none()
    }
    fn insert(&mut self, _: &Relation, _: &[Datum]) -> Result<Tid> {
        none()
    }
    fn insert_or_lock(
        &mut self,
        _: &Relation,
        _: &[Datum],
        _: &[usize],
        _: Option<RowLockMode>,
    ) -> Result<ConflictOutcome> {
        none()
    }
    fn update(
        &mut self,
        _: &Relation,
        _: JudgedRow,
        _: &[Datum],
        _: &[Datum],
    ) -> Result<RowOutcome> {
        none()
    }
    fn delete(&mut self, _: &Relation, _: JudgedRow, _: &[Datum]) -> Result<RowOutcome> {
        none()
    }

    fn delete_moved(&mut self, _: &Relation, _: JudgedRow, _: &[Datum]) -> Result<RowOutcome> {
        none()
    }
    fn lock_row(
        &mut self,
        _: &Relation,
        _: JudgedRow,
        _: RowLockMode,
        _: WaitPolicy,
    ) -> Result<RowOutcome> {
        none()
    }
    fn blocks(&mut self, _: &Relation) -> Result<u32> {
        none()
    }
}

impl Environment for NoSession<'_> {
    fn check_interrupts(&mut self) -> Result<()> {
        self.shared.map_or(Ok(()), SharedStore::check_interrupts)
    }
    fn transaction_timestamp(&self) -> i64 {
        self.transaction_us
    }
    fn statement_timestamp(&self) -> i64 {
        self.statement_us
    }
    fn clock_timestamp(&self) -> i64 {
        self.shared.map_or(0, SharedStore::clock_timestamp)
    }
    fn random(&mut self) -> u64 {
        0
    }
    fn sleep(&mut self, _: u64) -> Result<()> {
        none()
    }
    fn nextval(&mut self, _: u32) -> Result<i64> {
        none()
    }
    fn currval(&mut self, _: u32) -> Result<i64> {
        none()
    }
    fn lastval(&mut self) -> Result<i64> {
        none()
    }
    fn setval(&mut self, _: u32, _: i64, _: bool) -> Result<i64> {
        none()
    }
    fn setting(&self, _: &str) -> Option<String> {
        None
    }
    fn set_setting(&mut self, _: &str, _: Option<&str>, _: bool) -> Result<String> {
        none()
    }
    fn current_user(&self) -> String {
        String::new()
    }
    fn session_user(&self) -> String {
        String::new()
    }
}
