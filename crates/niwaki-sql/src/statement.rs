//! Planned statements, and their execution in one go or piece by piece.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Relation};
use niwaki_env::stack::{self, Deep};
use niwaki_types::{Datum, TypeOid};

use crate::analyze::CursorTable;
use crate::context::{ColumnInfo, CommandTag, Completion, ExecContext, RowSink};
use crate::error::{Result, Severity, SqlError};
use crate::exec::measure::Measures;
use crate::exec::point::PointPlan;
use crate::exec::{self, Running};
use crate::explain::{self, ExplainOptions};
use crate::expr::{Runtime, State};
use crate::parse::ParsedStatement;
use crate::plan::{FunctionBodies, PlanNode, estimate};
use crate::store::TableLock;

/// A statement after analysis.
#[derive(Clone, Debug)]
pub enum Statement {
    /// SELECT, VALUES, INSERT, UPDATE, DELETE, MERGE, or EXPLAIN of one of them.
    Query(Arc<Planned>),
    /// Everything else, to be interpreted from its syntax tree.
    Utility(ParsedStatement),
}

/// A planned statement: immutable, to be kept with a prepared statement and shared by executions.
#[derive(Debug)]
pub struct Planned {
    root: Deep<Arc<PlanNode>>,
    columns: Vec<ColumnInfo>,
    tag: CommandTag,
    params: Vec<TypeOid>,
    relations: Vec<(Arc<Relation>, TableLock)>,
    sub_plans: usize,
    catalog_version: u64,
    point: Option<PointPlan>,
    explain: Option<ExplainOptions>,
    /// Bodies of the users' functions that it calls.
    functions: Deep<Option<Arc<FunctionBodies>>>,
    /// Result columns of type regclass: they leave as names, which only the catalog knows.
    names: Vec<usize>,
    /// Run twice, it may give other rows, or do something twice.
    volatile: bool,
    /// With other values of its parameters another plan may be better.
    wants_values: bool,
    /// Where rows of a cursor's query are.
    cursor_tables: Vec<CursorTable>,
}

impl Planned {
    pub(crate) fn new(
        root: Arc<PlanNode>,
        columns: Vec<ColumnInfo>,
        tag: CommandTag,
        params: Vec<TypeOid>,
        relations: Vec<(Arc<Relation>, TableLock)>,
        sub_plans: usize,
        catalog_version: u64,
    ) -> Self {
        let names: Vec<usize> = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| crate::expr::shows_names(column.oid()))
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

    /// The same statement with the bodies of the users' functions that it calls.
    pub(crate) fn with_functions(self, bodies: FunctionBodies) -> Self {
        let functions = Deep::new((!bodies.is_empty()).then(|| Arc::new(bodies)), 0);
        Self { functions, ..self }
    }

    /// Keeps how much stack making the plan took, in bytes: running and dropping it take no more
    /// for a level.
    pub(crate) fn set_stack(&mut self, bytes: usize) {
        self.root.set_bytes(bytes);
        self.functions.set_bytes(bytes);
    }

    /// The same statement under EXPLAIN.
    pub(crate) fn explained(self, options: ExplainOptions) -> Self {
        Self { explain: Some(options), ..self }
    }

    /// The same statement, of which is known whether anything in it is volatile.
    pub(crate) fn with_volatility(self, volatile: bool) -> Self {
        Self { volatile, ..self }
    }

    /// The same statement, of which is known whether other values ask for another plan.
    pub(crate) fn with_wish(self, wants_values: bool) -> Self {
        Self { wants_values, ..self }
    }

    /// The same statement, whose rows say behind their columns where they are.
    pub(crate) fn with_cursor_tables(self, cursor_tables: Vec<CursorTable>) -> Self {
        Self { cursor_tables, ..self }
    }

    /// The tables of which each row says, behind its columns, where the table's row is: its address and the table, which may be a
    /// partition. Only of a cursor's query.
    pub fn cursor_tables(&self) -> &[CursorTable] {
        &self.cursor_tables
    }

    /// Whether a plan for the values of the parameters may be better than this one, which is for any.
    pub fn wants_values(&self) -> bool {
        self.wants_values
    }

    /// What it is expected to cost, in PostgreSQL's unit.
    pub fn cost(&self) -> f64 {
        stack::room(self.root.bytes(), || estimate(&self.root).total)
    }

    /// Types of the parameters, in order.
    pub fn params(&self) -> &[TypeOid] {
        &self.params
    }

    /// Result columns; empty for statements that return no rows.
    pub fn columns(&self) -> Vec<ColumnInfo> {
        match &self.explain {
            Some(options) => vec![options.column()],
            None => self.columns.clone(),
        }
    }

    /// Whether the statement returns rows.
    pub fn returns_rows(&self) -> bool {
        self.explain.is_some() || self.tag == CommandTag::Select || !self.columns.is_empty()
    }

    /// Whether it changes data or locks rows, so that it needs a transaction that may write.
    pub fn writes(&self) -> bool {
        self.relations.iter().any(|(_, lock)| *lock != TableLock::AccessShare)
            && self.explain.as_ref().is_none_or(|options| options.analyze)
    }

    /// A materialized view without data that it is to read.
    pub fn unpopulated(&self) -> Option<&Relation> {
        let mut relations = self.relations.iter().map(|(relation, _)| &**relation);
        let is_run = self.explain.as_ref().is_none_or(|options| options.analyze);
        relations.find(|relation| relation.unpopulated && is_run)
    }

    /// Whether it is run to its end before a client hears of its rows, as PostgreSQL does with changes
    /// of data and with queries that depend on nothing: if it fails, the client hears of the failure only.
    pub fn runs_before_its_rows(&self) -> bool {
        self.tag != CommandTag::Select
            || self.explain.is_some()
            || self.root.is_constant()
            || self.changes_in_with()
    }

    /// Whether PostgreSQL would read its rows backward too: a cursor on it goes back unless it is forbidden to.
    pub fn goes_backward(&self) -> bool {
        self.explain.is_none() && stack::room(self.root.bytes(), || self.root.goes_backward())
    }

    /// Whether it may give other rows, or do something twice, if it is run again with the same snapshot: it calls
    /// something volatile, or reads what no snapshot holds.
    pub fn is_volatile(&self) -> bool {
        self.volatile || self.relations.iter().any(|(relation, _)| relation.view.is_some())
    }

    /// Whether it locks the rows that it gives.
    pub fn locks_rows(&self) -> bool {
        let locks = |(_, lock): &(Arc<Relation>, TableLock)| *lock == TableLock::RowShare;
        self.tag == CommandTag::Select && self.relations.iter().any(locks)
    }

    /// What it is called where it is refused: its tag, and the clause that locks rows.
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

    /// Whether a query of its WITH changes data.
    pub fn changes_in_with(&self) -> bool {
        match &**self.root {
            PlanNode::With { queries, .. } => queries.iter().any(|query| query.changes),
            _ => false,
        }
    }

    /// Relations with the table locks that execution takes.
    pub fn relations(&self) -> &[(Arc<Relation>, TableLock)] {
        &self.relations
    }

    /// What the command tag begins with.
    pub fn tag(&self) -> CommandTag {
        if self.explain.is_some() { CommandTag::Explain } else { self.tag }
    }

    /// Whether the plan still fits the catalog; otherwise the statement is to be analyzed again.
    #[inline]
    pub fn is_valid(&self, catalog: &CatalogState) -> bool {
        self.catalog_version == catalog.version()
    }

    /// Takes the table locks of the statement. Execution itself takes none: they must be held before
    /// the statement's snapshot is taken, and the catalog looked at again after waiting for one.
    ///
    /// # Errors
    /// `55P03`, `40P01`, `57014` while waiting.
    pub fn lock_relations(&self, exec: &mut ExecContext<'_>) -> Result<()> {
        for (relation, lock) in &self.relations {
            exec.store.lock_table(relation, *lock)?;
        }
        Ok(())
    }

    /// Runs the statement to its end. Its table locks are held.
    ///
    /// # Errors
    /// The statement's.
    pub fn execute(
        self: &Arc<Self>,
        exec: &mut ExecContext<'_>,
        params: &[Datum],
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        if let (Some(point), None) = (&self.point, &self.explain) {
            let mut state = exec::fresh_state((*self.functions).clone());
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

/// How far an execution came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The limit was reached; there may be more rows.
    Suspended {
        /// Rows given in this call.
        rows: u64,
    },
    /// Everything is done.
    Complete(Completion),
}

impl Drop for Execution {
    /// Steps hold parts of the plan, which goes last: it knows how much stack its end takes.
    fn drop(&mut self) {
        stack::room(0, || {
            self.step = None;
            self.state = State::default();
            self.row.clear();
            self.params.clear();
        });
    }
}

/// A statement while it runs: a portal. It holds no borrow between calls.
pub struct Execution {
    planned: Arc<Planned>,
    params: Vec<Datum>,
    state: State,
    step: Option<Running>,
    row: Vec<Datum>,
    /// Rows given so far.
    given: u64,
    started: bool,
    done: bool,
    /// The text of EXPLAIN, line by line.
    lines: Option<std::vec::IntoIter<String>>,
}

impl Execution {
    /// An execution that has not started.
    pub fn new(planned: Arc<Planned>, params: Vec<Datum>) -> Self {
        let state = exec::fresh_state((*planned.functions).clone());
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

    /// The statement.
    pub fn planned(&self) -> &Arc<Planned> {
        &self.planned
    }

    /// An execution of the same statement with the same parameters that has not started.
    pub fn again(&self) -> Self {
        Self::new(Arc::clone(&self.planned), self.params.clone())
    }

    /// Whether [`run`](Self::run) was called before.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Gives up to `max_rows` rows (all, if 0) to the sink, and fewer where that is full.
    ///
    /// # Errors
    /// The statement's; it cannot go on then.
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
                self.step = Some(exec::start(&planned.root, &self.state));
            }
        }
        let mut rows = 0;
        let width = planned.columns.len() + 2 * planned.cursor_tables.len();
        while !self.done {
            if max_rows > 0 && rows > 0 && (rows == max_rows || sink.is_full()) {
                return Ok(Progress::Suspended { rows });
            }
            if let Some(lines) = &mut self.lines {
                match lines.next() {
                    Some(line) => sink.row(&[Datum::text(&line)])?,
                    None => {
                        self.done = true;
                        break;
                    }
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
                    let name =
                        crate::expr::value_text(value, planned.columns[*number].oid(), rt.exec);
                    *value = Datum::Text(name.into());
                }
            }
            // Values that rows are only sorted by stand behind the columns.
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
            // Clients ask for it as a habit, so it is no error.
            let message = "EXPLAIN (BUFFERS) shows nothing: no statement counts its buffers";
            let notice = SqlError::new("00000", message).with_severity(Severity::Notice);
            exec.environment.tell(notice);
        }
        let mut total_us = 0;
        if options.analyze {
            self.state.measures = Some(Measures::new(options.timing));
            let before = exec.environment.clock_timestamp();
            let mut step = exec::start(&self.planned.root, &self.state);
            let mut rt = Runtime { exec, params: &self.params, state: &mut self.state };
            while step.next(&mut self.row, &mut rt)? {
                rt.tick()?;
            }
            total_us = exec.environment.clock_timestamp() - before;
        }
        let measured = self.state.measures.as_ref().map(|measures| (measures, total_us));
        explain::explain(&self.planned.root, options, measured, exec)
    }

    /// Number of nested plans, for tests of plan shapes.
    pub fn nested_plans(&self) -> usize {
        self.planned.sub_plans
    }
}
