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

use niwaki_sql::utility::{FetchCount, FetchTo};
use niwaki_sql::{
    ColumnInfo, Completion, CursorTable, NumberedRows, Progress, RowSink, SqlError,
    TEMP_CHUNK_BYTES,
};
use niwaki_types::Datum;

use crate::Result;
use crate::execution::query::Running;
use crate::protocol::extended::{Action, Statement};
use crate::result::{ResultFormats, ResultSink};
use crate::session::handle::Session;

/// Number of kept rows between two checks for interrupts.
const ROWS_PER_CHECK: u64 = 512;

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
    kept: Option<Kept>,
    /// Address of the current row: the values that the row has behind its columns
    /// ([`Planned::cursor_tables`]).
    here: Vec<Datum>,
    /// Set when the portal's transaction is committed: every row that may still be wanted is kept.
    pub(crate) held: bool,
    /// Completion of the query, until it is taken for the command tag.
    completion: Option<Completion>,
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
    rows: NumberedRows,
    before: u64,
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
    rows: &'k mut NumberedRows,
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
    const START: Self = Self { at_start: true, at_end: false, row: 0 };

    /// Moves forward over `given` rows, of the `wanted` ones (`None`: all).
    fn went_forward(&mut self, given: u64, wanted: Option<u64>) {
        self.at_start &= given == 0;
        self.at_end |= wanted.is_none_or(|wanted| given < wanted);
        self.row += given;
    }

    fn went_back(&mut self, given: u64, wanted: Option<u64>) {
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

/// Row sink that discards rows.
struct Nowhere;

impl RowSink for Nowhere {
    fn row(&mut self, _: &[Datum]) -> Result<()> {
        Ok(())
    }
}

/// Row sink that counts rows, keeps them if `kept` is set, and passes them on.
struct Passing<'p> {
    kept: Option<&'p mut NumberedRows>,
    out: &'p mut dyn RowSink,
    /// Set when the client gets the kept rows in binary form.
    binary: bool,
    rows: u64,
}

impl RowSink for Passing<'_> {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        if let Some(kept) = &mut self.kept {
            kept.push(row)?;
        }
        self.out.row(row)?;
        self.rows += 1;
        Ok(())
    }

    fn takes_numbers(&self, column: usize) -> bool {
        // Kept rows have one form for every later reader.
        if self.kept.is_some() { self.binary } else { self.out.takes_numbers(column) }
    }
}

/// Row sink that passes rows on without the values behind their columns. It remembers these values,
/// the row's address, of the last row.
struct Visible<'p> {
    out: &'p mut dyn RowSink,
    columns: usize,
    here: Vec<Datum>,
}

impl RowSink for Visible<'_> {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        let (row, here) = row.split_at(self.columns.min(row.len()));
        self.here.clear();
        self.here.extend_from_slice(here);
        self.out.row(row)
    }

    fn takes_numbers(&self, column: usize) -> bool {
        self.out.takes_numbers(column)
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
    fn visible_columns(&self) -> Option<usize> {
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

    fn refuse_to_go_back(&self) -> Result<()> {
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

impl Session {
    /// Returns whether a portal of this name runs now. No other portal may take its name.
    pub(crate) fn is_active_portal(&self, name: &str) -> bool {
        self.active_portals.iter().any(|active| active == name)
    }

    /// Puts the innermost running portal back, unless its transaction is over. COMMIT AND CHAIN and
    /// ROLLBACK TO end their own portal, although a transaction is open after them.
    pub(crate) fn put_back(&mut self, mut portal: Portal, failed: bool) {
        let Some(name) = self.active_portals.pop() else { return };
        if failed {
            portal.state = PortalState::Failed;
            portal.running = None;
        }
        let ended = match &portal.statement.action {
            Action::Utility(utility) => utility.ends_failed_transaction(),
            Action::Empty | Action::Query(_) => false,
        };
        // RELEASE leaves the portal to the level below.
        portal.level = portal.level.min(self.levels.len());
        if portal.held || (self.transaction.is_some() && !ended) {
            self.portals.insert(name, portal);
        }
    }

    /// Returns an empty store for rows that stay with a portal.
    pub(crate) fn new_kept(&self, before: u64) -> Kept {
        let work_mem = self.settings.hot().work_mem_bytes;
        Kept { rows: NumberedRows::new(self.temp.clone(), TEMP_CHUNK_BYTES, work_mem), before }
    }

    /// Begins to keep the rows of a portal, starting with the next computed row.
    pub(crate) fn keep_rows(&self, portal: &mut Portal) {
        portal.kept = Some(self.new_kept(portal.place.row));
    }

    fn check_interrupts(&self) -> Result<()> {
        niwaki_env::memory::check()?;
        Ok(self.control.check_interrupts().map_err(niwaki_txn::Error::from)?)
    }

    /// Moves the portal, and gives the rows (FETCH) or passes over them (MOVE, without `out`).
    /// Returns the number of rows.
    ///
    /// # Errors
    /// 55000 for going back in a cursor without SCROLL, and errors from computing rows. The portal
    /// cannot go on then.
    pub(crate) fn fetch(
        &mut self,
        portal: &mut Portal,
        to: FetchTo,
        out: Option<&mut dyn RowSink>,
    ) -> Result<u64> {
        let wanted = |count| match count {
            FetchCount::All => None,
            FetchCount::Rows(rows) => Some(rows),
        };
        let is_move = out.is_none();
        let mut nowhere = Nowhere;
        let out = out.unwrap_or(&mut nowhere);
        match to {
            FetchTo::Forward(FetchCount::Rows(0))
            | FetchTo::Backward(FetchCount::Rows(0))
            | FetchTo::Relative(0) => {
                let on_row = !portal.place.at_start && !portal.place.at_end;
                if is_move || !on_row {
                    return Ok(on_row.into());
                }
                self.back(portal, Some(1), &mut Nowhere)?;
                self.forward(portal, Some(1), out)
            }
            FetchTo::Forward(count) => self.forward(portal, wanted(count), out),
            FetchTo::Backward(FetchCount::All) if is_move => {
                let place = portal.place;
                self.rewind(portal)?;
                Ok(if place.at_end { place.row } else { place.row.saturating_sub(1) })
            }
            FetchTo::Backward(count) => self.back(portal, wanted(count), out),
            FetchTo::Absolute(0) => {
                self.rewind(portal)?;
                Ok(0)
            }
            FetchTo::Absolute(row) if row > 0 => {
                self.go_before(portal, row.unsigned_abs())?;
                self.forward(portal, Some(1), out)
            }
            FetchTo::Absolute(row) => {
                self.forward(portal, None, &mut Nowhere)?;
                self.back(portal, Some(row.unsigned_abs() - 1), &mut Nowhere)?;
                self.back(portal, Some(1), out)
            }
            FetchTo::Relative(rows) if rows > 0 => {
                self.forward(portal, Some(rows.unsigned_abs() - 1), &mut Nowhere)?;
                self.forward(portal, Some(1), out)
            }
            FetchTo::Relative(rows) => {
                self.back(portal, Some(rows.unsigned_abs() - 1), &mut Nowhere)?;
                self.back(portal, Some(1), out)
            }
        }
    }

    /// Goes to the place before a row. Starts from the first row if that is nearer, as PostgreSQL
    /// does, so that the same requests are refused.
    fn go_before(&mut self, portal: &mut Portal, row: u64) -> Result<()> {
        if row - 1 <= portal.place.row / 2 {
            self.rewind(portal)?;
            self.forward(portal, Some(row - 1), &mut Nowhere)?;
            return Ok(());
        }
        let next = portal.place.row + 1 + u64::from(portal.place.at_end);
        if row < next {
            self.back(portal, Some(next - row), &mut Nowhere)?;
        } else {
            self.forward(portal, Some(row - next), &mut Nowhere)?;
        }
        Ok(())
    }

    /// Gives the next rows, at most `wanted` (`None`: all). Returns the number of rows.
    pub(crate) fn forward(
        &mut self,
        portal: &mut Portal,
        wanted: Option<u64>,
        out: &mut dyn RowSink,
    ) -> Result<u64> {
        self.go(portal, wanted, out, Self::go_forward)
    }

    /// Moves by `way`, and hides the values that rows have behind their columns.
    fn go(
        &mut self,
        portal: &mut Portal,
        wanted: Option<u64>,
        out: &mut dyn RowSink,
        way: fn(&mut Self, &mut Portal, Option<u64>, &mut dyn RowSink) -> Result<u64>,
    ) -> Result<u64> {
        let Some(columns) = portal.visible_columns() else {
            return way(self, portal, wanted, out);
        };
        let mut visible = Visible { out, columns, here: std::mem::take(&mut portal.here) };
        let given = way(self, portal, wanted, &mut visible);
        portal.here = visible.here;
        given
    }

    fn go_forward(
        &mut self,
        portal: &mut Portal,
        wanted: Option<u64>,
        out: &mut dyn RowSink,
    ) -> Result<u64> {
        if portal.place.at_end || wanted == Some(0) {
            return Ok(0);
        }
        let left = |given: u64| wanted.is_none_or(|wanted| given < wanted);
        let mut given = 0;
        if let Some(kept) = &mut portal.kept {
            let next = portal.place.row - kept.before;
            let mut row = Vec::new();
            while left(given) && kept.rows.read(next + given, &mut row)? {
                if given % ROWS_PER_CHECK == 0 {
                    self.check_interrupts()?;
                }
                out.row(&row)?;
                given += 1;
            }
        }
        if left(given) && portal.state == PortalState::Begun {
            given += self.compute(portal, wanted.map(|wanted| wanted - given), out)?;
        }
        portal.place.went_forward(given, wanted);
        Ok(given)
    }

    /// Computes more rows of a portal, at least one unless none is left.
    fn compute(
        &mut self,
        portal: &mut Portal,
        wanted: Option<u64>,
        out: &mut dyn RowSink,
    ) -> Result<u64> {
        let Some(running) = &mut portal.running else {
            return Err(SqlError::internal("a portal without a query"));
        };
        let kept = portal.kept.as_mut().map(|kept| &mut kept.rows);
        let mut passing = Passing { kept, out, binary: portal.kind.binary, rows: 0 };
        if let Progress::Complete(completion) =
            self.advance(running, wanted.unwrap_or(0), &mut passing)?
        {
            portal.completion = Some(completion);
            portal.state = PortalState::Done;
            // A scrolling portal that kept no rows may have to run its query again.
            if !portal.kind.scrolls || passing.kept.is_some() {
                portal.running = None;
            }
        }
        Ok(passing.rows)
    }

    /// Gives the rows before the current one, the nearest first, at most `wanted` (`None`: all).
    /// Returns the number of rows.
    fn back(
        &mut self,
        portal: &mut Portal,
        wanted: Option<u64>,
        out: &mut dyn RowSink,
    ) -> Result<u64> {
        self.go(portal, wanted, out, Self::go_back)
    }

    fn go_back(
        &mut self,
        portal: &mut Portal,
        wanted: Option<u64>,
        out: &mut dyn RowSink,
    ) -> Result<u64> {
        if wanted == Some(0) {
            return Ok(0);
        }
        portal.refuse_to_go_back()?;
        if portal.place.at_start {
            return Ok(0);
        }
        self.keep_all(portal)?;
        let mut here = portal.place.row + u64::from(portal.place.at_end);
        let mut given = 0;
        let mut row = Vec::new();
        while here > 1 && wanted.is_none_or(|wanted| given < wanted) {
            if given % ROWS_PER_CHECK == 0 {
                self.check_interrupts()?;
            }
            here -= 1;
            let Some(kept) = &mut portal.kept else { break };
            if !kept.rows.read(here - 1, &mut row)? {
                return Err(SqlError::internal("a row that was not kept"));
            }
            out.row(&row)?;
            given += 1;
        }
        portal.place.went_back(given, wanted);
        Ok(given)
    }

    /// Goes to the place before the first row, if the portal ever left it.
    fn rewind(&mut self, portal: &mut Portal) -> Result<()> {
        if portal.place.at_start && !portal.place.at_end {
            return Ok(());
        }
        portal.refuse_to_go_back()?;
        if portal.kept.is_none() {
            run_again(portal);
        }
        portal.place = Place::START;
        Ok(())
    }

    /// Keeps the rows up to the current position, from the first on.
    fn keep_all(&mut self, portal: &mut Portal) -> Result<()> {
        if portal.kept.is_some() {
            return Ok(());
        }
        run_again(portal);
        portal.kept = Some(self.new_kept(0));
        let Place { at_end, row, .. } = portal.place;
        let wanted = if at_end { None } else { Some(row) };
        if wanted != Some(0) && self.compute(portal, wanted, &mut Nowhere)? != row {
            return Err(SqlError::internal("a query that gives other rows the second time"));
        }
        Ok(())
    }

    /// Makes a cursor WITH HOLD independent of its transaction, which is about to be committed.
    /// Every row that may still be wanted is kept.
    pub(crate) fn hold(&mut self, portal: &mut Portal) -> Result<()> {
        if portal.kind.scrolls {
            self.keep_all(portal)?;
        } else {
            self.keep_rows(portal);
        }
        if portal.state == PortalState::Begun {
            self.compute(portal, None, &mut Nowhere)?;
        }
        portal.running = None;
        portal.parameters.clear();
        portal.level = 0;
        portal.held = true;
        Ok(())
    }
}

/// Lets a begun query of a portal begin again, with the same snapshot and the same parameters.
fn run_again(portal: &mut Portal) {
    if let Some(Running::Query { execution, .. }) = &mut portal.running
        && execution.is_started()
    {
        **execution = execution.again();
        portal.state = PortalState::Begun;
    }
}
