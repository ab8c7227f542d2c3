//! Planned statements, executed at once or in pieces.

use std::sync::Arc;

use niwaki_analyze::analyze::CursorTable;
use niwaki_catalog::{CatalogState, Relation};
use niwaki_env::stack::{self, Deep};
use niwaki_exec::{PointPlan, fresh_state, start};
use niwaki_expr::context::{ColumnInfo, CommandTag, Completion, ExecContext, RowSink};
use niwaki_expr::expr::measure::Measures;
use niwaki_expr::expr::{Running, Runtime, State};
use niwaki_expr::plan::{FunctionBodies, PlanNode};
use niwaki_parse::error::{Result, Severity, SqlError};
use niwaki_parse::parse::ParsedStatement;
use niwaki_plan::planning::estimate;
use niwaki_txn::TableLockMode;
use niwaki_types::{Datum, TypeOid};

use crate::explain::{self, ExplainOptions};

/// A statement after analysis.
#[derive(Clone, Debug)]
pub enum Statement {
    /// SELECT, VALUES, INSERT, UPDATE, DELETE, MERGE, or EXPLAIN of one of them.
    Query(Arc<Planned>),
    /// A utility statement, executed from its syntax tree.
    Utility(ParsedStatement),
}

/// A planned statement. It is immutable: a prepared statement keeps it, and its executions share
/// it.
#[derive(Debug)]
pub struct Planned {
    root: Deep<Arc<PlanNode>>,
    columns: Vec<ColumnInfo>,
    tag: CommandTag,
    params: Vec<TypeOid>,
    relations: Vec<(Arc<Relation>, TableLockMode)>,
    sub_plans: usize,
    catalog_version: u64,
    point: Option<PointPlan>,
    explain: Option<ExplainOptions>,
    /// Bodies of the users' functions that the statement calls.
    functions: Deep<Option<Arc<FunctionBodies>>>,
    /// Positions of result columns whose values are shown as object names (regclass and similar).
    /// Only the catalog has the names.
    names: Vec<usize>,
    /// True if a second execution may return other rows, or do something twice.
    volatile: bool,
    /// True if another plan may be better for other parameter values.
    wants_values: bool,
    /// Tables of a cursor's query whose rows have their TIDs.
    cursor_tables: Vec<CursorTable>,
}

impl Planned {
    pub(crate) fn new(
        root: Arc<PlanNode>,
        columns: Vec<ColumnInfo>,
        tag: CommandTag,
        params: Vec<TypeOid>,
        relations: Vec<(Arc<Relation>, TableLockMode)>,
        sub_plans: usize,
        catalog_version: u64,
    ) -> Self {
        let names: Vec<usize> = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| niwaki_expr::expr::shows_names(column.oid()))
            .map(|(number, _)| number)
            .collect();
        let point = PointPlan::of(&root, columns.len()).filter(|_| names.is_empty());
        Self {
            root: Deep::new(root, 0),
            columns,
            tag,
            params,
            relations,
            sub_plans,
            catalog_version,
            point,
            explain: None,
            functions: Deep::new(None, 0),
            names,
            volatile: false,
            wants_values: false,
            cursor_tables: Vec::new(),
        }
    }

    /// Adds the bodies of the users' functions that the statement calls.
    pub(crate) fn with_functions(self, bodies: FunctionBodies) -> Self {
        let functions = Deep::new((!bodies.is_empty()).then(|| Arc::new(bodies)), 0);
        Self { functions, ..self }
    }

    /// Stores the stack, in bytes, that building the plan took. Executing and dropping it take no
    /// more per level.
    pub(crate) fn set_stack(&mut self, bytes: usize) {
        self.root.set_bytes(bytes);
        self.functions.set_bytes(bytes);
    }

    /// Puts the statement under EXPLAIN.
    pub(crate) fn explained(self, options: ExplainOptions) -> Self {
        Self { explain: Some(options), ..self }
    }

    /// Sets whether the statement contains anything volatile.
    pub(crate) fn with_volatility(self, volatile: bool) -> Self {
        Self { volatile, ..self }
    }

    /// Sets whether other parameter values may need another plan.
    pub(crate) fn with_wish(self, wants_values: bool) -> Self {
        Self { wants_values, ..self }
    }

    /// Sets the tables whose places the rows have behind their columns.
    pub(crate) fn with_cursor_tables(self, cursor_tables: Vec<CursorTable>) -> Self {
        Self { cursor_tables, ..self }
    }

    /// Returns the tables whose row places each row has behind its columns. A place is a TID and a
    /// table, which may be a partition. Only a cursor's query has such places.
    pub fn cursor_tables(&self) -> &[CursorTable] {
        &self.cursor_tables
    }

    /// Returns whether a plan for given parameter values may be better than this generic one.
    pub fn wants_values(&self) -> bool {
        self.wants_values
    }

    /// Returns the estimated cost, in PostgreSQL's unit.
    pub fn cost(&self) -> f64 {
        stack::room(self.root.bytes(), || estimate(&self.root).total)
    }

    /// Returns the types of the parameters, in order.
    pub fn params(&self) -> &[TypeOid] {
        &self.params
    }

    /// Returns the result columns; empty for statements that return no rows.
    pub fn columns(&self) -> Vec<ColumnInfo> {
        match &self.explain {
            Some(options) => vec![options.column()],
            None => self.columns.clone(),
        }
    }

    /// Returns whether the statement returns rows.
    pub fn returns_rows(&self) -> bool {
        self.explain.is_some() || self.tag == CommandTag::Select || !self.columns.is_empty()
    }

    /// Returns whether the statement changes data or locks rows, so that it needs a read-write
    /// transaction.
    pub fn writes(&self) -> bool {
        self.relations.iter().any(|(_, lock)| *lock != TableLockMode::AccessShare)
            && self.explain.as_ref().is_none_or(|options| options.analyze)
    }

    /// Returns a materialized view without data that the statement would read.
    pub fn unpopulated(&self) -> Option<&Relation> {
        let mut relations = self.relations.iter().map(|(relation, _)| &**relation);
        let is_run = self.explain.as_ref().is_none_or(|options| options.analyze);
        relations.find(|relation| relation.unpopulated && is_run)
    }

    /// Returns whether the statement runs to completion before the client receives a row.
    /// PostgreSQL does so with data changes and with constant queries. If the statement fails, the
    /// client receives only the error.
    pub fn runs_before_its_rows(&self) -> bool {
        self.tag != CommandTag::Select
            || self.explain.is_some()
            || stack::room(self.root.bytes(), || self.root.is_constant())
            || self.changes_in_with()
    }

    /// Returns whether PostgreSQL could also read the rows backward. A cursor then moves backward
    /// unless that is forbidden.
    pub fn goes_backward(&self) -> bool {
        self.explain.is_none() && stack::room(self.root.bytes(), || self.root.goes_backward())
    }

    /// Returns whether a second run with the same snapshot may return other rows, or do something
    /// twice. That is so if the statement calls a volatile function, or reads data outside of any
    /// snapshot.
    pub fn is_volatile(&self) -> bool {
        self.volatile || self.relations.iter().any(|(relation, _)| relation.view.is_some())
    }

    /// Returns whether the statement locks the rows that it returns.
    pub fn locks_rows(&self) -> bool {
        let locks = |(_, lock): &(Arc<Relation>, TableLockMode)| *lock == TableLockMode::RowShare;
        self.tag == CommandTag::Select && self.relations.iter().any(locks)
    }

    /// Returns the statement's name in refusals: its tag, and its locking clause.
    pub fn command(&self) -> String {
        fn clause(node: &PlanNode) -> Option<&'static str> {
            match node {
                PlanNode::LockRows { targets, .. } => {
                    targets.first().map(|target| target.lock.clause())
                }
                PlanNode::Project { input, .. }
                | PlanNode::Limit { input, .. }
                | PlanNode::Sort { input, .. }
                | PlanNode::First { input, .. }
                | PlanNode::With { input, .. } => clause(input),
                _ => None,
            }
        }
        match clause(&self.root) {
            Some(clause) => format!("{} {clause}", self.tag.as_str()),
            None => self.tag.as_str().to_owned(),
        }
    }

    /// Returns whether a WITH query of the statement changes data.
    pub fn changes_in_with(&self) -> bool {
        match &**self.root {
            PlanNode::With { queries, .. } => queries.iter().any(|query| query.changes),
            _ => false,
        }
    }

    /// Returns the relations, with the table locks that execution needs.
    pub fn relations(&self) -> &[(Arc<Relation>, TableLockMode)] {
        &self.relations
    }

    /// Returns the first word of the command tag.
    pub fn tag(&self) -> CommandTag {
        if self.explain.is_some() { CommandTag::Explain } else { self.tag }
    }

    /// Returns whether the plan still matches the catalog. Otherwise the statement must be analyzed
    /// again.
    #[inline]
    pub fn is_valid(&self, catalog: &CatalogState) -> bool {
        self.catalog_version == catalog.version()
    }

    /// Takes the table locks of the statement. Execution itself takes none. The locks must be held
    /// before the statement's snapshot is taken. After waiting for a lock, the catalog must be
    /// checked again.
    ///
    /// # Errors
    /// `55P03`, `40P01`, `57014` while waiting.
    pub fn lock_relations(&self, exec: &mut ExecContext<'_>) -> Result<()> {
        for (relation, lock) in &self.relations {
            exec.store.lock_table(relation, *lock)?;
        }
        Ok(())
    }

    /// Runs the statement to completion. The caller holds its table locks.
    ///
    /// # Errors
    /// The errors of the statement.
    pub fn execute(
        self: &Arc<Self>,
        exec: &mut ExecContext<'_>,
        params: &[Datum],
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        if let (Some(point), None) = (&self.point, &self.explain) {
            let mut state = fresh_state((*self.functions).clone());
            let mut rt = Runtime { exec, params, state: &mut state };
            let rows = point.run(&mut rt, sink)?;
            return Ok(Completion { tag: self.tag, rows });
        }
        let mut execution = Execution::new(Arc::clone(self), params.to_vec());
        match execution.run(exec, 0, sink)? {
            Progress::Complete(completion) => Ok(completion),
            Progress::Suspended { rows } => Ok(Completion { tag: self.tag, rows }),
        }
    }
}

/// The progress of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The limit was reached; there may be more rows.
    Suspended {
        /// Number of rows returned in this call.
        rows: u64,
    },
    /// The execution is complete.
    Complete(Completion),
}

impl Drop for Execution {
    /// Drops the steps first: they hold parts of the plan. The plan goes last, since it knows how
    /// much stack its drop takes.
    fn drop(&mut self) {
        stack::room(0, || {
            self.step = None;
            self.state = State::default();
            self.row.clear();
            self.params.clear();
        });
    }
}

/// A running statement (portal). It holds no borrow between calls.
pub struct Execution {
    planned: Arc<Planned>,
    params: Vec<Datum>,
    state: State,
    step: Option<Running>,
    row: Vec<Datum>,
    /// Number of rows returned so far.
    given: u64,
    started: bool,
    done: bool,
    /// The lines of EXPLAIN's text.
    lines: Option<std::vec::IntoIter<String>>,
}

impl Execution {
    /// Creates an execution that has not started.
    pub fn new(planned: Arc<Planned>, params: Vec<Datum>) -> Self {
        let state = fresh_state((*planned.functions).clone());
        Self {
            planned,
            params,
            state,
            step: None,
            row: Vec::new(),
            given: 0,
            started: false,
            done: false,
            lines: None,
        }
    }

    /// Returns the statement.
    pub fn planned(&self) -> &Arc<Planned> {
        &self.planned
    }

    /// Creates a new execution of the same statement with the same parameters.
    pub fn again(&self) -> Self {
        Self::new(Arc::clone(&self.planned), self.params.clone())
    }

    /// Returns whether [`run`](Self::run) was called before.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Sends up to `max_rows` rows (all, if 0) to the sink; fewer if the sink is full.
    ///
    /// # Errors
    /// The errors of the statement. After an error, the execution cannot continue.
    pub fn run(
        &mut self,
        exec: &mut ExecContext<'_>,
        max_rows: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Progress> {
        let bytes = self.planned.root.bytes();
        stack::room(bytes, || self.run_here(exec, max_rows, sink))
    }

    fn run_here(
        &mut self,
        exec: &mut ExecContext<'_>,
        max_rows: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Progress> {
        let planned = Arc::clone(&self.planned);
        if !self.started {
            self.started = true;
            if let Some(options) = &planned.explain {
                let lines = self.explain(options, exec)?;
                self.lines = Some(lines.into_iter());
            } else {
                self.step = Some(start(&planned.root, &self.state));
            }
        }
        let mut rows = 0;
        let width = planned.columns.len() + 2 * planned.cursor_tables.len();
        while !self.done {
            if max_rows > 0 && rows > 0 && (rows == max_rows || sink.is_full()) {
                return Ok(Progress::Suspended { rows });
            }
            if let Some(lines) = &mut self.lines {
                if let Some(line) = lines.next() {
                    sink.row(&[Datum::text(&line)])?;
                } else {
                    self.done = true;
                    break;
                }
                rows += 1;
                continue;
            }
            let Some(step) = &mut self.step else { break };
            let mut rt = Runtime { exec, params: &self.params, state: &mut self.state };
            if !step.next(&mut self.row, &mut rt)? {
                self.done = true;
                break;
            }
            rt.tick()?;
            for number in &planned.names {
                if let Some(value) = self.row.get_mut(*number)
                    && !value.is_null()
                    && !sink.takes_numbers(*number)
                {
                    let name = niwaki_expr::expr::value_text(
                        value,
                        planned.columns[*number].oid(),
                        rt.exec,
                    );
                    *value = Datum::Text(name.into());
                }
            }
            // Sort-only values follow the columns.
            sink.row(self.row.get(..width).unwrap_or(&self.row))?;
            rows += 1;
            self.given += 1;
        }
        self.step = None;
        let counted = match planned.tag {
            // A portal's tag counts the rows of its last call.
            CommandTag::Select => rows,
            _ => self.state.modified,
        };
        Ok(Progress::Complete(Completion { tag: planned.tag(), rows: counted }))
    }

    fn explain(
        &mut self,
        options: &ExplainOptions,
        exec: &mut ExecContext<'_>,
    ) -> Result<Vec<String>> {
        if options.buffers {
            // Clients ask for buffers by habit, so this is no error.
            let message = "EXPLAIN (BUFFERS) shows nothing: no statement counts its buffers";
            let notice = SqlError::new("00000", message).with_severity(Severity::Notice);
            exec.environment.queue_notice(notice);
        }
        let mut total_us = 0;
        if options.analyze {
            self.state.measures = Some(Measures::new(options.timing));
            let before = exec.environment.clock_timestamp();
            let mut step = start(&self.planned.root, &self.state);
            let mut rt = Runtime { exec, params: &self.params, state: &mut self.state };
            while step.next(&mut self.row, &mut rt)? {
                rt.tick()?;
            }
            total_us = exec.environment.clock_timestamp() - before;
        }
        let measured = self.state.measures.as_ref().map(|measures| (measures, total_us));
        explain::explain(&self.planned.root, options, measured, exec)
    }

    /// Returns the number of nested plans, for tests of plan shapes.
    pub fn nested_plans(&self) -> usize {
        self.planned.sub_plans
    }
}
