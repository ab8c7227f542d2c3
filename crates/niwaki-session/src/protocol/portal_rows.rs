//! Movement of portals: forward over computed rows, and back over kept rows.

use niwaki_sql::utility::{FetchCount, FetchTo};
use niwaki_sql::{Progress, RandomAccessTuplestore, Result, RowSink, SqlError, TEMP_CHUNK_BYTES};
use niwaki_types::Datum;

use crate::session::handle::Session;
use crate::session::portal::{Kept, Place, Portal, PortalState};
use crate::session::running_query::Running;
use crate::session::statement::Action;

/// Number of kept rows between two checks for interrupts.
const ROWS_PER_CHECK: u64 = 512;

/// Row sink that discards rows.
struct Nowhere;

impl RowSink for Nowhere {
    fn row(&mut self, _: &[Datum]) -> Result<()> {
        Ok(())
    }
}

/// Row sink that counts rows, keeps them if `kept` is set, and passes them on.
struct Passing<'p> {
    kept: Option<&'p mut RandomAccessTuplestore>,
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

impl Session {
    /// Puts the innermost running portal back, unless its transaction is over. COMMIT AND CHAIN and
    /// ROLLBACK TO end their own portal, although a transaction is open after them.
    pub(crate) fn put_back(&mut self, mut portal: Portal, failed: bool) {
        let Some(name) = self.portals.end() else { return };
        if failed {
            portal.state = PortalState::Failed;
            portal.running = None;
        }
        let ended = match &portal.statement.action {
            Action::Utility(utility) => utility.ends_failed_transaction(),
            Action::Empty | Action::Query(_) => false,
        };
        // RELEASE leaves the portal to the level below.
        portal.level = portal.level.min(self.block.depth());
        if portal.held || (self.transaction.is_some() && !ended) {
            self.portals.insert(name, portal);
        }
    }

    /// Returns an empty store for rows that stay with a portal.
    pub(crate) fn new_kept(&self, before: u64) -> Kept {
        let work_mem = self.settings.hot().work_mem_bytes;
        Kept {
            rows: RandomAccessTuplestore::new(
                self.buffers.temp().clone(),
                TEMP_CHUNK_BYTES,
                work_mem,
            ),
            before,
        }
    }

    /// Begins to keep the rows of a portal, starting with the next computed row.
    pub(crate) fn keep_rows(&self, portal: &mut Portal) {
        portal.kept = Some(self.new_kept(portal.place.row));
    }

    fn check_interrupts(&self) -> Result<()> {
        niwaki_env::memory::check()?;
        self.identity.check_interrupts()
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
