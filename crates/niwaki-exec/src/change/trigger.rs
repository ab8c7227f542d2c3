//! Fires row triggers.
//!
//! BEFORE triggers get the row as the change would leave it, and may change the row or skip the
//! change. AFTER triggers wait in the store until the statement has ended ([`FiredTrigger`]).

use std::fmt;
use std::sync::Arc;

use niwaki_catalog::{TriggerEvent, TriggerTime};
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::Runtime;
use niwaki_expr::expr::State;
use niwaki_expr::expr::measure::Measures;
use niwaki_expr::expr::nested::Executor;
use niwaki_expr::plan::FunctionBodies;
use niwaki_expr::query::{RowName, RowTriggers, StepKind, TriggerAction, TriggerBody, TriggerCall};
use niwaki_expr::spool::row_bytes;
use niwaki_expr::store::FiredTrigger;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

/// An AFTER trigger that fires when the statement has ended.
struct Fired {
    triggers: Arc<RowTriggers>,
    call: Arc<TriggerCall>,
    old: Option<Vec<Datum>>,
    new: Option<Vec<Datum>>,
    /// Bodies of the users' functions that the trigger calls.
    functions: Option<Arc<FunctionBodies>>,
    executor: Option<&'static dyn Executor>,
}

impl fmt::Debug for Fired {
    // Not the rows and the plans: code that shows these is a large part of the program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fired").finish_non_exhaustive()
    }
}

impl FiredTrigger for Fired {
    fn fire(&self, exec: &mut ExecContext<'_>) -> Result<()> {
        let mut state = State::of_statement(self.executor, self.functions.clone());
        let mut rt = Runtime { exec, params: &[], state: &mut state };
        let rows = Rows::new(&self.triggers, self.old.as_deref(), self.new.clone());
        run(&self.call, rows, &mut rt).map(|_| ())
    }
}

/// A check of the row that a BEFORE trigger leaves.
pub(crate) type Look<'l> = &'l dyn Fn(&TriggerCall, &[Datum], &ExecContext<'_>) -> Result<()>;

/// The rows before and after a change, side by side.
struct Rows {
    width: usize,
    /// Columns of the row before, then columns of the row after, then variables.
    values: Vec<Datum>,
    /// Flags that a row before, and a row after, exist.
    has: [bool; 2],
}

impl Rows {
    fn new(triggers: &RowTriggers, old: Option<&[Datum]>, new: Option<Vec<Datum>>) -> Self {
        // Additional room for the variables.
        const MORE: usize = 16;
        let width = triggers.width;
        let mut values = Vec::with_capacity(2 * width + MORE);
        let has = [old.is_some(), new.is_some()];
        values.extend_from_slice(old.unwrap_or_default());
        values.resize(width, Datum::Null);
        values.extend(new.unwrap_or_default());
        values.resize(2 * width, Datum::Null);
        Self { width, values, has }
    }

    fn place(row: RowName) -> usize {
        match row {
            RowName::Old => 0,
            RowName::New => 1,
        }
    }

    fn slot(&self, row: RowName, column: usize) -> usize {
        Self::place(row) * self.width + column
    }

    /// Returns a row, if it exists.
    fn take(mut self, row: RowName) -> Option<Vec<Datum>> {
        if !self.has[Self::place(row)] {
            return None;
        }
        self.values.truncate(2 * self.width);
        let new = self.values.split_off(self.width);
        Some(if row == RowName::New { new } else { self.values })
    }
}

/// Fires row triggers.
pub(crate) trait FireTriggers {
    /// Fires the BEFORE triggers of a change, one after the other.
    /// `new` is the row after the change, if there is one, and the triggers may replace it. Returns
    /// false if a trigger prevents the change.
    ///
    /// # Errors
    /// The errors of conditions and functions.
    fn before(
        &self,
        event: TriggerEvent,
        old: Option<&[Datum]>,
        new: Option<&mut Vec<Datum>>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool>;

    /// Fires the BEFORE triggers, as [`before`](Self::before) does. `look` checks the row that each
    /// trigger leaves.
    fn before_each(
        &self,
        event: TriggerEvent,
        old: Option<&[Datum]>,
        new: Option<&mut Vec<Datum>>,
        look: Look<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool>;

    /// Notes the AFTER triggers of a change that was made.
    ///
    /// # Errors
    /// The errors of conditions; `53200` when too many rows wait for their triggers.
    fn after(
        self: &Arc<Self>,
        event: TriggerEvent,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()>;
}

impl FireTriggers for RowTriggers {
    fn before(
        &self,
        event: TriggerEvent,
        old: Option<&[Datum]>,
        new: Option<&mut Vec<Datum>>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        self.before_each(event, old, new, &|_, _, _| Ok(()), rt)
    }

    fn before_each(
        &self,
        event: TriggerEvent,
        old: Option<&[Datum]>,
        mut new: Option<&mut Vec<Datum>>,
        look: Look<'_>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        for call in self.of(TriggerTime::Before, event) {
            let given = new.as_deref_mut().map(std::mem::take);
            let mut rows = Rows::new(self, old, given);
            if let Some(when) = &call.when
                && !when.holds(&rows.values, rt)?
            {
                put(&mut new, rows.take(RowName::New));
                continue;
            }
            // The trigger may still change the inputs of generated columns, so these columns have
            // no new value yet.
            for column in &self.generated {
                let (old, new) =
                    (rows.slot(RowName::Old, *column), rows.slot(RowName::New, *column));
                rows.values[new] = match call.action {
                    TriggerAction::Body(_) => Datum::Null,
                    TriggerAction::SuppressRedundant => rows.values[old].clone(),
                };
            }
            let timed = rt.state.measures.as_ref().is_some_and(Measures::timing);
            let clock = |rt: &Runtime<'_, '_>| {
                if timed { rt.exec.environment.clock_timestamp() } else { 0 }
            };
            let begun = clock(rt);
            let returned = run(call, rows, rt)?;
            let took = clock(rt) - begun;
            count(call, took, rt);
            match returned {
                Some(row) => {
                    look(call, &row, rt.exec)?;
                    put(&mut new, Some(row));
                }
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn after(
        self: &Arc<Self>,
        event: TriggerEvent,
        old: Option<&[Datum]>,
        new: Option<&[Datum]>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        for call in self.of(TriggerTime::After, event) {
            if let Some(when) = &call.when {
                let rows = Rows::new(self, old, new.map(<[Datum]>::to_vec));
                if !when.holds(&rows.values, rt)? {
                    continue;
                }
            }
            count(call, 0, rt);
            let rows = [old, new].into_iter().flatten();
            rt.charge(size_of::<Fired>() + rows.map(row_bytes).sum::<usize>())?;
            rt.exec.store.fire_later(Box::new(Fired {
                triggers: Arc::clone(self),
                call: Arc::clone(call),
                old: old.map(<[Datum]>::to_vec),
                new: new.map(<[Datum]>::to_vec),
                functions: rt.state.functions.clone(),
                executor: rt.state.executor,
            }))?;
        }
        Ok(())
    }
}

fn put(place: &mut Option<&mut Vec<Datum>>, row: Option<Vec<Datum>>) {
    if let (Some(place), Some(row)) = (place, row) {
        **place = row;
    }
}

/// Counts a call for EXPLAIN ANALYZE.
fn count(call: &TriggerCall, took_us: i64, rt: &mut Runtime<'_, '_>) {
    if let Some(measures) = &mut rt.state.measures {
        measures.count_trigger(&call.name, took_us);
    }
}

/// Calls the action of a trigger, and returns the action's row, if it returns one.
fn run(call: &TriggerCall, rows: Rows, rt: &mut Runtime<'_, '_>) -> Result<Option<Vec<Datum>>> {
    match &call.action {
        TriggerAction::Body(body) => {
            let around = rt.exec.calls;
            rt.exec.calls = around.inside_trigger();
            let returned = run_body(body, rows, rt);
            rt.exec.calls = around;
            returned
        }
        TriggerAction::SuppressRedundant => suppress_redundant(call, rows),
    }
}

/// Returns the row after the change, unless it equals the row before.
fn suppress_redundant(call: &TriggerCall, rows: Rows) -> Result<Option<Vec<Datum>>> {
    let refused = |what: &str| {
        let message = format!("suppress_redundant_updates_trigger: must be called {what}");
        Err(SqlError::new("39P01", message))
    };
    if call.event != TriggerEvent::Update {
        return refused("on update");
    }
    if call.time != TriggerTime::Before {
        return refused("before update");
    }
    let (old, new) = rows.values.split_at(rows.width);
    let same = old.iter().zip(new).all(|(old, new)| old.same_image(new));
    Ok(if same { None } else { rows.take(RowName::New) })
}

/// Runs a body, and returns the row that it returns.
fn run_body(
    body: &TriggerBody,
    mut rows: Rows,
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<Vec<Datum>>> {
    rows.values.extend(body.variables.iter().cloned());
    // The statement's own CASE expressions are not the body's.
    let operands = std::mem::take(&mut rt.state.case_operands);
    let result = run_steps(body, &mut rows, rt);
    rt.state.case_operands = operands;
    let row = result?;
    Ok(row.and_then(|row| rows.take(row)))
}

/// Runs the statements up to RETURN.
fn run_steps(
    body: &TriggerBody,
    rows: &mut Rows,
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<RowName>> {
    for step in &body.steps {
        match &step.kind {
            StepKind::Return(row) => return Ok(*row),
            StepKind::Wrong(error) => return Err(error.clone()),
            StepKind::Assign { row, column, value, text } => {
                let value = value.eval(&rows.values, rt).map_err(|error| {
                    error.within_context(format!("PL/pgSQL assignment \"{text}\"")).within_context(
                        format!(
                            "PL/pgSQL function {} line {} at assignment",
                            body.function, step.line
                        ),
                    )
                })?;
                let slot = rows.slot(*row, *column);
                rows.values[slot] = value;
                rows.has[Rows::place(*row)] = true;
            }
        }
    }
    let message = "control reached end of trigger procedure without RETURN";
    Err(SqlError::new("2F005", message)
        .with_context(format!("PL/pgSQL function {}", body.function)))
}
