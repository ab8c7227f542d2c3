//! Calls of SQL functions that are not inlined.
//! The statements of a function run one after the other, each with a state of its own, with the
//! arguments as parameters.

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_expr::expr::nested::{argument_values, call_outside};
use niwaki_expr::expr::{Expr, Runtime, State, UserFunction};
use niwaki_expr::plan::{BodyStatement, FunctionBody};
use niwaki_expr::query::ResultShape;
use niwaki_expr::spool::{TuplestoreReader, TuplestoreWriter};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::format_oid;
use niwaki_types::{Datum, Record, TypeOid, UserTypes};

use crate::step::start::start;

/// Returns the value of a call.
pub(crate) fn call(
    function: &UserFunction,
    arguments: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let body = body_of(function, rt)?;
    let mut value = Datum::Null;
    run(&body, arguments, rt, &mut |given| {
        value = value_of(&body, given);
        Ok(false)
    })?;
    Ok(value)
}

/// Converts the values of a row into the value of a call.
fn value_of(body: &FunctionBody, given: &[Datum]) -> Datum {
    match given {
        [one] if body.whole || matches!(body.shape, ResultShape::Value(_)) => one.clone(),
        given => record(&body.shape, given),
    }
}

/// Returns the values of a set-returning function in a target list.
pub(crate) fn set_values(
    function: &UserFunction,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Vec<Datum>> {
    let mut found = Vec::new();
    let Some(values) = argument_values(function, arguments, row, rt)? else { return Ok(found) };
    let body = body_of(function, rt)?;
    let (mut bytes, limit) = (rt.state.memory, rt.exec.memory_limit);
    run(&body, &values, rt, &mut |given| {
        let value = value_of(&body, given);
        bytes += niwaki_expr::spool::row_bytes(std::slice::from_ref(&value));
        found.push(value);
        if bytes > limit {
            let detail = "The rows that a function gives in a target list must stay in memory.";
            return Err(SqlError::new("53200", "out of memory").with_detail(detail));
        }
        Ok(true)
    })?;
    Ok(found)
}

/// Returns the rows of a function in FROM: rows of `width` columns, or of the one column that is
/// the function's value.
pub(crate) fn set_rows(
    function: &UserFunction,
    arguments: &[Expr],
    width: Option<usize>,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<TuplestoreReader> {
    let mut found = TuplestoreWriter::new(rt.exec);
    let values = argument_values(function, arguments, row, rt)?;
    let body = body_of(function, rt)?;
    let nothing = vec![Datum::Null; width.unwrap_or(1)];
    let mut any = false;
    let types = Arc::clone(&rt.exec.text.types);
    if let Some(values) = values {
        run(&body, &values, rt, &mut |given| {
            any = true;
            match (width, given) {
                (None, given) => found.push(&[value_of(&body, given)])?,
                (Some(_), [Datum::Record(_, record)]) if body.whole => {
                    check_row(&body.shape, record, &types)?;
                    found.push(record.values())?;
                }
                (Some(_), _) if body.whole => found.push(&nothing)?,
                (Some(_), given) => found.push(given)?,
            }
            Ok(body.returns_set)
        })?;
    }
    if !any && !body.returns_set {
        found.push(&nothing)?;
    }
    Ok(found.finish()?.read())
}

/// Returns error 42804 for a row whose columns differ from the function's declared columns.
/// The check is made at run time because only a `record` value itself knows its columns.
fn check_row(shape: &ResultShape, row: &Record, types: &UserTypes) -> Result<()> {
    let ResultShape::Row { kind: TypeOid::RECORD, fields, .. } = shape else { return Ok(()) };
    let wrong = |detail: String| {
        let message = "function return row and query-specified return row do not match";
        Err(SqlError::new("42804", message).with_detail(detail))
    };
    let (given, wanted) = (row.values().len(), fields.len());
    if given != wanted {
        let ending = if given == 1 { "" } else { "s" };
        return wrong(format!(
            "Returned row contains {given} attribute{ending}, but query expects {wanted}."
        ));
    }
    for (number, ((found, _), field)) in row.fields().zip(fields).enumerate() {
        if found != field.oid {
            let shown = |oid: TypeOid| types.shown(oid).unwrap_or_else(|| format_oid(oid));
            return wrong(format!(
                "Returned type {} at ordinal position {}, but query expects {}.",
                shown(found),
                number + 1,
                shown(field.oid)
            ));
        }
    }
    Ok(())
}

fn record(shape: &ResultShape, values: &[Datum]) -> Datum {
    let ResultShape::Row { kind, fields, names } = shape else { return Datum::Null };
    let kinds: Vec<TypeOid> = fields.iter().map(|field| field.oid).collect();
    let record = Record::new(kinds, values.to_vec());
    let record = match *kind {
        TypeOid::RECORD => record.with_names(Arc::clone(names)),
        _ => record,
    };
    Datum::Record(*kind, Arc::new(record))
}

fn body_of(function: &UserFunction, rt: &Runtime<'_, '_>) -> Result<Arc<FunctionBody>> {
    let known = rt.state.functions.as_ref().and_then(|bodies| bodies.get(&function.key));
    known.cloned().ok_or_else(|| call_outside(function))
}

/// Runs the statements of a function.
/// Calls `each` with the result's values for each row of the last statement, until `each` returns
/// false.
fn run(
    body: &FunctionBody,
    arguments: &[Datum],
    rt: &mut Runtime<'_, '_>,
    each: &mut dyn FnMut(&[Datum]) -> Result<bool>,
) -> Result<()> {
    rt.exec.environment.check_interrupts()?;
    let around = rt.exec.calls;
    rt.exec.calls = around.inside()?;
    let done = stack::deeper(|| run_inside(body, arguments, rt, each));
    rt.exec.calls = around;
    done
}

fn run_inside(
    body: &FunctionBody,
    arguments: &[Datum],
    rt: &mut Runtime<'_, '_>,
    each: &mut dyn FnMut(&[Datum]) -> Result<bool>,
) -> Result<()> {
    for (number, statement) in body.statements.iter().enumerate() {
        let last = number + 1 == body.statements.len();
        let within = |error: SqlError| {
            let place = format!("SQL function \"{}\" statement {}", body.name, number + 1);
            error.within_context(place)
        };
        if body.read_only && statement.writes {
            let what = statement.tag.as_str();
            let message = format!("{what} is not allowed in a non-volatile function");
            return Err(within(SqlError::new("0A000", message)));
        }
        if !body.read_only {
            let change = statement.writes.then_some(statement.tag);
            rt.exec.store.begin_nested(change).map_err(within)?;
        }
        let queued = rt.exec.after_triggers.queued();
        let mut state = State::of_statement(rt.state.executor, rt.state.functions.clone());
        state.memory = rt.state.memory;
        let mut inner = Runtime { exec: &mut *rt.exec, params: arguments, state: &mut state };
        let done = statement_rows(body, statement, last, &mut inner, each);
        rt.state.nested_changes |= state.nested_changes || statement.changes;
        if !body.read_only {
            rt.exec.store.end_nested();
        }
        done.map_err(within)?;
        let after_triggers = rt.exec.after_triggers;
        after_triggers.end(queued, rt.exec).map_err(within)?;
    }
    Ok(())
}

fn statement_rows(
    body: &FunctionBody,
    statement: &BodyStatement,
    last: bool,
    rt: &mut Runtime<'_, '_>,
    each: &mut dyn FnMut(&[Datum]) -> Result<bool>,
) -> Result<()> {
    let mut step = start(&statement.root, rt.state);
    let mut row = Vec::new();
    let mut wanted = last && !matches!(body.shape, ResultShape::Void);
    let mut values = Vec::with_capacity(body.result.len());
    while step.next(&mut row, rt)? {
        rt.tick()?;
        if !wanted {
            continue;
        }
        // Values that serve only as sort keys stand behind the columns.
        let columns = row.get(..statement.width).unwrap_or(&row).to_vec();
        values.clear();
        for expr in &body.result {
            values.push(expr.eval(&columns, rt)?);
        }
        wanted = each(&values)?;
        // A query without effects stops as soon as the caller wants no more rows.
        if !wanted && !statement.changes {
            break;
        }
    }
    Ok(())
}
