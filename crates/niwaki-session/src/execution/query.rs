//! Queries, with their plans, snapshots and executions.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::FunctionVolatility;
use niwaki_sql::parse::ParsedStatement;
use niwaki_sql::walk::each_node;
use niwaki_sql::{
    AnalyzeContext, Calls, CommandTag, Completion, ExecContext, Execution, Named, Planned,
    Progress, Result, RowSink, SqlError, Statement as Analyzed, TEMP_CHUNK_BYTES, TuplestoreReader,
    TuplestoreWriter, ValueFor, objects_named,
};
use niwaki_storage::ReadAhead;
use niwaki_system::names::columns_of_expression;
use niwaki_txn::{Isolation, Snapshot, TableLockMode, Transaction};
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::NodeEnum;

use crate::execution::after_trigger_context::AfterTriggerContext;
use crate::execution::environment::SessionEnvironment;
use crate::execution::open_statements::OpenStatements;
use crate::execution::planning::{lock_relations, planner_settings};
use crate::execution::source::SessionSource;
use crate::execution::store::{TableStore, read_only};
use crate::session::epoch::UNIX_TO_POSTGRES_US;
use crate::session::handle::Session;
use crate::session::running_query::Running;

/// Least memory in bytes that a statement may hold for values that must stay in memory (an
/// `array_agg`), even if `work_mem` is smaller.
const STATEMENT_MEMORY_MIN_BYTES: usize = 64 << 20;

/// Divisor for the server's memory limit: a statement may hold one part in `STATEMENT_PART` for
/// such values.
const STATEMENT_PART: usize = 8;

/// Returns the memory in bytes that a statement may hold for values that must stay in memory.
fn held_max(work_mem: usize) -> usize {
    let of_server = match niwaki_env::memory::used().1 {
        // No limit is set.
        usize::MAX => 0,
        limit => limit / STATEMENT_PART,
    };
    work_mem.max(STATEMENT_MEMORY_MIN_BYTES).max(of_server)
}

impl Session {
    /// Analyzes a statement against the current catalog. A transaction is open.
    pub(crate) fn analyze(
        &mut self,
        statement: &ParsedStatement,
        parameter_types: &[TypeOid],
    ) -> Result<Analyzed> {
        self.with_analysis(|context| niwaki_sql::analyze(statement, context, parameter_types))
    }

    /// Calls `run` with the inputs of analysis: the current catalog, and the session's settings.
    ///
    /// # Errors
    /// The errors of `run`.
    pub fn with_analysis<T>(
        &mut self,
        run: impl FnOnce(&AnalyzeContext<'_>) -> Result<T>,
    ) -> Result<T> {
        niwaki_env::memory::check()?;
        self.refresh_types();
        let _asking = niwaki_types::work::asking(Some(self.identity.asker()));
        let path = self.search_path();
        let state = self.catalog.state();
        let hot = self.settings.hot();
        let now =
            self.transaction.as_ref().map_or(self.command.started_us(), Transaction::started_us)
                - UNIX_TO_POSTGRES_US;
        let context = AnalyzeContext {
            catalog: &state,
            path: &path,
            text: self.text.settings(),
            now,
            planner: planner_settings(hot, now),
            interrupts: &|| self.identity.check_interrupts(),
            clock: &|| self.directory.env().clock.now_unix_us(),
            functions: None,
            stored: self.command.has_stored_text(),
        };
        run(&context)
    }

    /// Takes the table locks of a plan. Returns false when the catalog changed since the plan was
    /// made. Then the plan must be made again. The locks stay, so that the retries end.
    pub(crate) fn lock_for(&mut self, planned: &Planned, version: (u64, u64)) -> Result<bool> {
        lock_relations(self.open_transaction()?, self.catalog.catalog(), planned)?;
        Ok(self.plan_version() == version)
    }

    /// Returns the snapshot for a statement with this plan. The locks of the plan are held.
    fn snapshot_for(&mut self, planned: &Planned) -> Result<Snapshot> {
        let transaction = self.open_transaction()?;
        if let Some(view) = planned.unpopulated() {
            let message = format!("materialized view \"{}\" has not been populated", view.name);
            return Err(SqlError::new("55000", message)
                .with_hint("Use the REFRESH MATERIALIZED VIEW command."));
        }
        transaction.set_writes_temporary(false);
        if !planned.writes() {
            return Ok(transaction.snapshot()?);
        }
        let own_work = planned.tag() != CommandTag::Select
            || planned.changes_in_with()
            || planned.locks_rows();
        // Functions check their own writes, so their work does not count here.
        if transaction.read_only() && own_work {
            let own = self.catalog.state().temporary_schema();
            let mut changed =
                planned.relations().iter().filter(|(_, lock)| *lock != TableLockMode::AccessShare);
            if !changed.all(|(relation, _)| Some(relation.schema) == own) {
                return Err(read_only(&planned.command()));
            }
            self.open_transaction()?.set_writes_temporary(true);
        }
        Ok(self.open_transaction()?.snapshot_for_write()?)
    }

    /// Begins a query that may be stopped and continued. Its locks are held. A change of data runs
    /// to its end, even if a client asks for few of its rows.
    ///
    /// # Errors
    /// 25006 for a change in a READ ONLY transaction; any error of a change of data.
    pub fn start(&mut self, planned: &Arc<Planned>, parameters: Vec<Datum>) -> Result<Running> {
        if planned.tag() != CommandTag::Select || planned.changes_in_with() {
            let work_mem = self.settings.hot().work_mem_bytes;
            let mut rows = TuplestoreWriter::within(
                Some(self.buffers.temp().clone()),
                TEMP_CHUNK_BYTES,
                work_mem,
            );
            let completion = self.run_planned(planned, &parameters, &mut rows)?;
            return Ok(Running::Rows { rows: rows.finish()?.read(), completion });
        }
        let snapshot = self.snapshot_for(planned)?;
        let execution = Box::new(Execution::new(Arc::clone(planned), parameters));
        Ok(Running::Query { execution, snapshot })
    }

    /// Runs a query up to `max_rows` rows (0: all), or until `out` is full.
    ///
    /// # Errors
    /// Any error of the query.
    pub fn advance(
        &mut self,
        running: &mut Running,
        max_rows: u64,
        out: &mut dyn RowSink,
    ) -> Result<Progress> {
        let (execution, snapshot) = match running {
            Running::Query { execution, snapshot } => (execution, snapshot),
            Running::Rows { rows, completion } => {
                return give(rows, completion.clone(), max_rows, out);
            }
        };
        let progress =
            self.with_context(snapshot, &mut |context| execution.run(context, max_rows, out))?;
        if matches!(progress, Progress::Complete(_)) {
            self.open_transaction()?.next_command()?;
            self.check_after_statement()?;
        }
        Ok(progress)
    }

    /// Runs a query to its end in one go. Its locks are held.
    pub(crate) fn run_planned(
        &mut self,
        planned: &Arc<Planned>,
        parameters: &[Datum],
        out: &mut dyn RowSink,
    ) -> Result<Completion> {
        let snapshot = self.snapshot_for(planned)?;
        let completion =
            self.with_context(&snapshot, &mut |context| planned.execute(context, parameters, out))?;
        self.open_transaction()?.next_command()?;
        self.check_after_statement()?;
        Ok(completion)
    }

    /// Calls `run` with everything that a running statement needs.
    ///
    /// # Errors
    /// 53200 when memory is short; the errors of `run`.
    pub fn with_context<T>(
        &mut self,
        snapshot: &Snapshot,
        run: &mut dyn FnMut(&mut ExecContext<'_>) -> Result<T>,
    ) -> Result<T> {
        niwaki_env::memory::check()?;
        let _asking = niwaki_types::work::asking(Some(self.identity.asker()));
        let path = self.search_path();
        let state = self.catalog.state();
        let transaction = self
            .transaction
            .as_ref()
            .ok_or_else(|| SqlError::internal("no transaction is open"))?;
        let hot = self.settings.hot();
        let (work_mem, hash_mem) = (hot.work_mem_bytes, hot.hash_mem_bytes);
        let (work, lookup, scratch, temp) = self.buffers.parts();
        temp.quota().set_limit(hot.temp_file_limit_bytes);
        let statement_started_us = self.command.started_us();
        let (queue, deferred, plans) = self.checks.parts();
        let queue = RefCell::new(queue);
        let mut store = TableStore {
            transaction,
            snapshot,
            state: &state,
            work,
            lookup,
            read_ahead: ReadAhead {
                concurrency: hot.effective_io_concurrency,
                combine: hot.io_combine_pages,
                ..ReadAhead::default()
            },
            locked: true,
            nested: Vec::new(),
            queue: &queue,
            helpers: Some(self.directory.helpers().limited(hot.parallel_workers_of_all)),
        };
        let settings = RefCell::new(&mut self.settings);
        let catalog = RefCell::new(&mut self.catalog);
        let source = SessionSource {
            directory: &self.directory,
            statistics: self.connection.statistics(),
            session: self.identity.control().backend(),
            path: &path,
            settings: &settings,
            open: OpenStatements { portals: &self.portals, statements: &self.statements },
        };
        let mut environment = SessionEnvironment {
            env: self.directory.env(),
            control: self.identity.control(),
            transaction,
            state: &state,
            catalog: &catalog,
            settings: &settings,
            sequences: &mut self.sequences,
            advisory: &mut self.advisory,
            pending: self.messages.pending_mut(),
            notifications: self.connection.notifications(),
            warnings: self.command.warnings_mut(),
            portals: &self.portals,
            user: self.identity.user(),
            statement_started_us,
        };
        let after_triggers = AfterTriggerContext {
            transaction,
            settings: &settings,
            catalog: &catalog,
            deferred: RefCell::new(deferred),
            plans: RefCell::new(plans),
            queue: &queue,
        };
        let mut context = ExecContext {
            store: &mut store,
            environment: &mut environment,
            catalog: &state,
            path: &path,
            source: &source,
            text: self.text.settings(),
            memory_limit: held_max(work_mem),
            work_mem,
            hash_mem,
            temp: Some(temp),
            temp_chunk: TEMP_CHUNK_BYTES,
            scratch,
            definitions: niwaki_sql::definitions(),
            after_triggers: &after_triggers,
            calls: Calls::default(),
        };
        run(&mut context)
    }

    /// Runs `run` at READ COMMITTED, so that it sees everything committed now, whatever the
    /// isolation level.
    ///
    /// # Errors
    /// The errors of `run`.
    pub fn at_latest<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let transaction = self.open_transaction()?;
        let isolation = transaction.isolation();
        transaction.set_isolation(Isolation::ReadCommitted)?;
        let result = run(self);
        if let Some(transaction) = &self.transaction {
            transaction.set_isolation(isolation)?;
        }
        result
    }

    /// Analyzes, locks and runs a query to its end.
    pub(crate) fn run_query(
        &mut self,
        statement: &ParsedStatement,
        out: &mut dyn RowSink,
    ) -> Result<Completion> {
        let planned = self.plan_locked(statement, &[])?;
        self.run_planned(&planned, &[], out)
    }

    /// Returns a plan that is valid for the current catalog. Its locks are held.
    ///
    /// # Errors
    /// Errors of the analysis; the errors of a lock wait.
    pub fn plan_locked(
        &mut self,
        statement: &ParsedStatement,
        parameter_types: &[TypeOid],
    ) -> Result<Arc<Planned>> {
        self.plan_until_locked(|context| match parameter_types {
            [] => niwaki_sql::analyze_without_parameters(statement, context),
            types => niwaki_sql::analyze(statement, context, types),
        })
    }

    /// Returns the plan that `analyze` makes, once it is valid for the current catalog. Its locks
    /// are held.
    ///
    /// # Errors
    /// The errors of `analyze`; the errors of a lock wait.
    pub fn plan_until_locked(
        &mut self,
        analyze: impl Fn(&AnalyzeContext<'_>) -> Result<Analyzed>,
    ) -> Result<Arc<Planned>> {
        loop {
            let version = self.plan_version();
            let Analyzed::Query(planned) = self.with_analysis(&analyze)? else {
                return Err(SqlError::internal("not a query"));
            };
            if self.lock_for(&planned, version)? {
                return Ok(planned);
            }
            // Locks are kept, so only DDL on other relations can cause another round.
        }
    }

    /// Runs a query of the session's own and returns all its rows.
    ///
    /// # Errors
    /// Any error of the query.
    pub fn internal_query(&mut self, sql: &str) -> Result<Vec<Vec<Datum>>> {
        let statements = niwaki_sql::parse::parse(sql)?;
        let statement =
            statements.first().ok_or_else(|| SqlError::internal("an empty internal query"))?;
        let mut rows: Vec<Vec<Datum>> = Vec::new();
        self.run_query(statement, &mut rows)?;
        Ok(rows)
    }

    /// Does [`Session::internal_query`] for a query with texts of the catalog in it.
    ///
    /// # Errors
    /// Any error of the query.
    pub fn stored_query(&mut self, sql: &str) -> Result<Vec<Vec<Datum>>> {
        self.command.set_stored_text(true);
        let rows = self.internal_query(sql);
        self.command.set_stored_text(false);
        rows
    }

    /// Returns the value of an expression without columns, converted as an assignment to a column
    /// converts it. If no conversion exists, the error is `refused` of the expression's type.
    /// Errors have no positions, because they would refer to another text than the statement's.
    ///
    /// # Errors
    /// Errors of the analysis and of the evaluation; `refused` for a type that does not fit.
    pub fn evaluate_as(
        &mut self,
        expression: &str,
        (what, to): (ValueFor, ColumnType),
        refused: &dyn Fn(&str) -> SqlError,
    ) -> Result<Datum> {
        let value = self.assigned_value(expression, (what, to), refused);
        value.map_err(|mut error| {
            error.position = None;
            error
        })
    }

    fn assigned_value(
        &mut self,
        expression: &str,
        (what, to): (ValueFor, ColumnType),
        refused: &dyn Fn(&str) -> SqlError,
    ) -> Result<Datum> {
        let statements = niwaki_sql::parse::parse(&format!("SELECT ({expression})"))?;
        let statement =
            statements.first().ok_or_else(|| SqlError::internal("an empty expression"))?;
        let planned = self.plan_until_locked(|context| {
            niwaki_sql::analyze_assigned(statement, context, what, to, refused)
        })?;
        let mut rows: Vec<Vec<Datum>> = Vec::new();
        self.run_planned(&planned, &[], &mut rows)?;
        only_value(rows)
    }

    /// Returns the value of a default in the catalog, for a column of this type.
    ///
    /// # Errors
    /// Errors of the analysis and of the evaluation.
    pub fn evaluate_stored(&mut self, expression: &str, to: ColumnType) -> Result<Datum> {
        let refused = |_: &str| SqlError::internal("a default of another type");
        self.command.set_stored_text(true);
        let value = self.evaluate_as(expression, (ValueFor::Default, to), &refused);
        self.command.set_stored_text(false);
        value
    }

    /// Returns whether a stored expression may give another value each time.
    ///
    /// # Errors
    /// Errors of the analysis.
    pub fn is_volatile(&mut self, expression: &str) -> Result<bool> {
        const VOLATILE: &[&str] = &[
            "random",
            "clock_timestamp",
            "timeofday",
            "nextval",
            "setval",
            "currval",
            "lastval",
            "gen_random_uuid",
            "pg_sleep",
            "set_config",
        ];
        let mut volatile = false;
        each_node(expression, |node| {
            if let NodeEnum::FuncCall(call) = node {
                volatile |= call.funcname.iter().any(|n| {
                    matches!(&n.node, Some(NodeEnum::String(s)) if VOLATILE.contains(&s.sval.as_str()))
                });
            }
        })?;
        let state = self.catalog.state();
        for named in objects_named(expression)? {
            if let Named::Function(oid) = named {
                let of_user = state.function(oid).map(|function| function.traits.volatility);
                volatile |= of_user == Some(FunctionVolatility::Volatile);
            }
        }
        Ok(volatile)
    }

    /// Returns the names of the columns that an expression reads.
    ///
    /// # Errors
    /// Errors of the grammar.
    pub fn columns_of_expression(&self, expression: &str) -> Result<Vec<String>> {
        columns_of_expression(expression)
    }
}

/// Gives rows of a query that has run to its end: up to `max_rows` rows (0: all), or until `out` is
/// full.
fn give(
    rows: &mut TuplestoreReader,
    completion: Completion,
    max_rows: u64,
    out: &mut dyn RowSink,
) -> Result<Progress> {
    let mut given = 0;
    let mut row = vec![Datum::Null; rows.width()];
    while max_rows == 0 || given == 0 || (given < max_rows && !out.is_full()) {
        if !rows.next(&mut row)? {
            return Ok(Progress::Complete(completion));
        }
        out.row(&row)?;
        given += 1;
    }
    Ok(Progress::Suspended { rows: given })
}

fn only_value(mut rows: Vec<Vec<Datum>>) -> Result<Datum> {
    let value = rows.pop().and_then(|mut row| row.pop());
    value.ok_or_else(|| SqlError::internal("an expression without a value"))
}
