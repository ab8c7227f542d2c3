//! Portals: the position in the rows of a statement, with movement forward, back, and beyond the
//! end of the transaction.
//!
//! ```text
//!        before the first        a row, by number          behind the last
//!   ──►  at_start, row 0    ◄──►  row 1 … row n      ◄──►   at_end, row n
//! ```
//!
//! Rows are computed one by one, forward. A portal that goes back does so over kept rows (a
//! tuplestore). Keeping costs memory and temporary files.
//!
//! So a query that gives the same rows on every run with the same snapshot keeps none at first.
//! When the portal is first asked to go back, the query runs again to the current position. This
//! second run keeps its rows from the first on. A volatile query keeps its rows from the start.

use std::sync::Arc;

use niwaki_sql::{
    ColumnInfo, Completion, CursorTable, RandomAccessTuplestore, Result, RowSink, SqlError,
};
use niwaki_types::Datum;

use crate::result::{ResultFormats, ResultSink};
use crate::session::running_query::Running;
use crate::session::statement::{Action, Statement};

/// A statement with values for its parameters, ready to run or running.
pub(crate) struct Portal {
    pub(crate) statement: Arc<Statement>,
    pub(crate) parameters: Vec<Datum>,
    /// Execution that computes the rows, as long as more rows, or the same rows again, may be
    /// wanted.
    pub(crate) running: Option<Running>,
    pub(crate) state: PortalState,
    /// Number of savepoints that existed when the portal was made. After a rollback to a savepoint,
    /// only a portal older than the savepoint stays open.
    pub(crate) level: usize,
    pub(crate) kind: CursorKind,
    /// Formats in which messages of the client get the portal's rows.
    pub(crate) formats: ResultFormats,
    pub(crate) place: Place,
    pub(crate) kept: Option<Kept>,
    /// Address of the current row: the values that the row has behind its columns
    /// ([`Planned::cursor_tables`]).
    pub(crate) here: Vec<Datum>,
    /// Set when the portal's transaction is committed: every row that may still be wanted is kept.
    pub(crate) held: bool,
    /// Completion of the query, until it is taken for the command tag.
    pub(crate) completion: Option<Completion>,
    /// The tag of a utility statement that gave rows.
    utility_tag: String,
    /// Creation time, in microseconds since 1970.
    pub(crate) created_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortalState {
    /// Not begun.
    Ready,
    /// More rows may exist than were computed.
    Begun,
    /// All rows were computed, or the statement's work is done.
    Done,
    /// The portal failed, and cannot go on.
    Failed,
}

/// Options of a cursor. Other portals go forward only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CursorKind {
    /// SCROLL: the cursor goes back.
    pub(crate) scrolls: bool,
    /// WITH HOLD: the cursor stays open when its transaction is committed.
    pub(crate) holds: bool,
    /// BINARY: a simple query gets the cursor's rows in binary form.
    pub(crate) binary: bool,
}

/// Position of a portal, as PostgreSQL counts it. An empty result sets both flags once the portal
/// has passed its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at_start: bool,
    pub(crate) at_end: bool,
    /// Number of the current row, or of the last row when `at_end`.
    pub(crate) row: u64,
}

/// Kept rows, with the number of rows that came before them.
pub(crate) struct Kept {
    pub(crate) rows: RandomAccessTuplestore,
    pub(crate) before: u64,
}

impl Kept {
    /// Returns a sink that keeps the rows of a statement and passes everything else on to the
    /// client.
    pub(crate) fn filled_by<'k>(&'k mut self, out: &'k mut dyn ResultSink) -> Keeping<'k> {
        Keeping { rows: &mut self.rows, out }
    }
}

/// Row sink that keeps rows which the client asks for in parts, and passes everything else on.
pub(crate) struct Keeping<'k> {
    rows: &'k mut RandomAccessTuplestore,
    out: &'k mut dyn ResultSink,
}

impl RowSink for Keeping<'_> {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.rows.push(row)
    }

    fn takes_numbers(&self, column: usize) -> bool {
        self.out.takes_numbers(column)
    }
}

impl ResultSink for Keeping<'_> {
    fn columns(&mut self, columns: &[ColumnInfo]) -> Result<()> {
        self.out.columns(columns)
    }
    fn binary_columns(&mut self, columns: &[ColumnInfo]) -> Result<()> {
        self.out.binary_columns(columns)
    }
    fn complete(&mut self, tag: &str) {
        self.out.complete(tag);
    }
    fn empty_query(&mut self) {
        self.out.empty_query();
    }
    fn notice(&mut self, notice: &SqlError) {
        self.out.notice(notice);
    }
    fn parameter_status(&mut self, name: &str, value: &str) {
        self.out.parameter_status(name, value);
    }
    fn text_settings(&mut self, settings: &niwaki_types::TextSettings) {
        self.out.text_settings(settings);
    }
    fn copy_format(&mut self, binary: bool) {
        self.out.copy_format(binary);
    }
    fn copy_in(&mut self, columns: usize) -> Result<()> {
        self.out.copy_in(columns)
    }
    fn copy_in_data(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        self.out.copy_in_data(buffer)
    }
    fn copy_out_begin(&mut self, columns: usize) -> Result<()> {
        self.out.copy_out_begin(columns)
    }
    fn copy_out(&mut self, line: &[u8]) -> Result<()> {
        self.out.copy_out(line)
    }
    fn copy_out_end(&mut self) {
        self.out.copy_out_end();
    }
}

impl Place {
    pub(crate) const START: Self = Self { at_start: true, at_end: false, row: 0 };

    /// Moves forward over `given` rows, of the `wanted` ones (`None`: all).
    pub(crate) fn went_forward(&mut self, given: u64, wanted: Option<u64>) {
        self.at_start &= given == 0;
        self.at_end |= wanted.is_none_or(|wanted| given < wanted);
        self.row += given;
    }

    pub(crate) fn went_back(&mut self, given: u64, wanted: Option<u64>) {
        if given > 0 && self.at_end {
            self.at_end = false;
            self.row += 1;
        }
        if wanted.is_none_or(|wanted| given < wanted) {
            self.at_start = true;
            self.row = 0;
        } else {
            self.row -= given;
        }
    }
}

impl Portal {
    /// Makes a portal that has not begun and goes forward only.
    pub(crate) fn new(
        statement: Arc<Statement>,
        parameters: Vec<Datum>,
        level: usize,
        created_us: i64,
    ) -> Self {
        Self {
            statement,
            parameters,
            running: None,
            state: PortalState::Ready,
            level,
            kind: CursorKind::default(),
            formats: ResultFormats::default(),
            place: Place::START,
            kept: None,
            here: Vec::new(),
            held: false,
            completion: None,
            utility_tag: String::new(),
            created_us,
        }
    }

    /// Takes the completion of the query, if the query has ended and the completion was not taken
    /// yet.
    pub(crate) fn take_completion(&mut self) -> Option<Completion> {
        self.completion.take()
    }

    /// Records that the portal ran to its end in one go, and gave `rows` rows.
    pub(crate) fn ran(&mut self, rows: u64) {
        self.state = PortalState::Done;
        self.place.went_forward(rows, None);
    }

    /// Records that a utility statement gave all its rows in one go.
    pub(crate) fn ran_unread(&mut self, tag: &str) {
        self.place.went_forward(0, None);
        tag.clone_into(&mut self.utility_tag);
    }

    /// Records that a utility statement gave its rows to be read in parts.
    pub(crate) fn ran_into(&mut self, kept: Kept, tag: &str) {
        self.kept = Some(kept);
        tag.clone_into(&mut self.utility_tag);
    }

    /// Returns the tag of the utility statement that ran.
    pub(crate) fn utility_tag(&self) -> &str {
        &self.utility_tag
    }

    /// Returns the tables whose rows the portal's rows are, as far as the plan gives row addresses.
    pub(crate) fn tables(&self) -> &[CursorTable] {
        match &self.statement.action {
            Action::Query(planned) => planned.cursor_tables(),
            Action::Empty | Action::Utility(_) => &[],
        }
    }

    /// Returns the address of the current row in each of [`Portal::tables`], as pairs of address
    /// and table. `None` when the portal is not on a row.
    pub(crate) fn addresses(&self) -> Option<impl Iterator<Item = (&Datum, &Datum)>> {
        let on_row = !self.place.at_start && !self.place.at_end;
        let (pairs, _) = self.here.as_chunks::<2>();
        on_row.then(|| pairs.iter().map(|[address, table]| (address, table)))
    }

    /// Returns the number of columns that the client sees, if rows have more values than these.
    pub(crate) fn visible_columns(&self) -> Option<usize> {
        let columns = self.statement.described.columns.as_deref().unwrap_or_default();
        (!self.tables().is_empty()).then_some(columns.len())
    }

    /// Fails with 55000 if the portal failed, or has done work that is done only once. A finished
    /// portal that gives rows is usable, and has no more of them.
    pub(crate) fn check_usable(&self, name: &str) -> Result<()> {
        let gives_rows = self.statement.described.columns.is_some();
        match self.state {
            PortalState::Ready | PortalState::Begun => return Ok(()),
            PortalState::Done if gives_rows => return Ok(()),
            PortalState::Done | PortalState::Failed => {}
        }
        Err(cannot_be_run(name))
    }

    pub(crate) fn refuse_to_go_back(&self) -> Result<()> {
        if self.kind.scrolls {
            return Ok(());
        }
        Err(SqlError::new("55000", "cursor can only scan forward")
            .with_hint("Declare it with SCROLL option to enable backward scan."))
    }
}

/// Returns the error for a portal that failed, has done work that is done only once, or runs
/// already.
pub(crate) fn cannot_be_run(name: &str) -> SqlError {
    SqlError::new("55000", format!("portal \"{name}\" cannot be run"))
}
