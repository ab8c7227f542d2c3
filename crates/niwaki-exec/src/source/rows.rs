//! Rows that do not come from a stored table.

use std::sync::Arc;

use niwaki_catalog::Key;
use niwaki_expr::expr::nested::shared_rows::SharedReader;
use niwaki_expr::expr::{Expr, Running, Runtime, Step};
use niwaki_expr::function::{Eval, Function};
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::{SetFunction, fields_of_rows};
use niwaki_expr::spool::{TuplestoreReader, TuplestoreWriter};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::charge_parts;
use niwaki_types::{Datum, Numeric, Record, TypeOid, datetime};

use crate::source::json_records;

/// The step that returns one row without values.
pub(crate) struct OneRow {
    pub(crate) done: bool,
}

impl Step for OneRow {
    fn next(&mut self, _: &mut Vec<Datum>, _: &mut Runtime<'_, '_>) -> Result<bool> {
        Ok(!std::mem::replace(&mut self.done, true))
    }
}

/// The step that returns rows of expressions (VALUES).
pub(crate) struct Values {
    plan: Arc<PlanNode>,
    next: usize,
}

impl Values {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), next: 0 }
    }
}

impl Step for Values {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        rt.tick()?;
        let PlanNode::Values { rows } = &*self.plan else {
            return Err(SqlError::internal("values of another plan"));
        };
        let Some(exprs) = rows.get(self.next) else { return Ok(false) };
        self.next += 1;
        if row.len() < exprs.len() {
            row.resize(exprs.len(), Datum::Null);
        }
        for (slot, expr) in exprs.iter().enumerate() {
            let value = expr.eval(&[], rt)?;
            row[slot] = value;
        }
        Ok(true)
    }
}

/// The values of a set, returned one by one.
pub(crate) enum SetValues {
    Integers {
        next: Option<i64>,
        stop: i64,
        step: i64,
        wide: bool,
    },
    Numerics {
        next: Numeric,
        stop: Numeric,
        step: Numeric,
        descending: bool,
    },
    Moments {
        next: i64,
        stop: i64,
        step: Arc<niwaki_types::Interval>,
        zoned: bool,
        descending: bool,
    },
    List(std::vec::IntoIter<Datum>),
}

impl SetValues {
    /// Calls a set-returning function.
    pub(crate) fn start(
        function: &SetFunction,
        arguments: &[Expr],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Self> {
        let function: &Function = match function {
            SetFunction::Builtin(function) => function,
            SetFunction::Records(records) => {
                let values = json_records::set_values(records, arguments, row, rt)?;
                return Ok(Self::List(values.into_iter()));
            }
            SetFunction::User { function, .. } => {
                let values = crate::source::function::set_values(function, arguments, row, rt)?;
                return Ok(Self::List(values.into_iter()));
            }
        };
        let values = arguments.iter().map(|a| a.eval(row, rt)).collect::<Result<Vec<Datum>>>()?;
        if function.strict && values.iter().any(Datum::is_null) {
            return Ok(Self::List(Vec::new().into_iter()));
        }
        if function.name == "generate_series" {
            return Self::series(&values);
        }
        let list = match &function.eval {
            Eval::Set(body) => body(rt.exec, &values)?,
            Eval::Rows(rows) => {
                let fields = fields_of_rows(function, arguments);
                let kinds: Vec<TypeOid> =
                    fields.iter().flat_map(|all| all.iter().map(|(_, kind)| kind.oid)).collect();
                let mut records = Vec::new();
                (rows.body)(rt.exec, &values, &mut |row| {
                    // The record holds its values and their types.
                    charge_parts(row.len().saturating_add(2), 2 * size_of::<Datum>())?;
                    let record = Record::new(kinds.clone(), row);
                    records.push(Datum::Record(TypeOid::RECORD, Arc::new(record)));
                    Ok(())
                })?;
                records
            }
            _ => return Err(SqlError::internal("a set function that gives no set")),
        };
        Ok(Self::List(list.into_iter()))
    }

    fn series(values: &[Datum]) -> Result<Self> {
        let zero = || SqlError::new("22023", "step size cannot equal zero");
        match values {
            [Datum::Int4(a), Datum::Int4(b), rest @ ..] => {
                let step = match rest {
                    [Datum::Int4(step)] => i64::from(*step),
                    _ => 1,
                };
                if step == 0 {
                    return Err(zero());
                }
                Ok(Self::Integers {
                    next: Some(i64::from(*a)),
                    stop: i64::from(*b),
                    step,
                    wide: false,
                })
            }
            [Datum::Int8(a), Datum::Int8(b), rest @ ..] => {
                let step = match rest {
                    [Datum::Int8(step)] => *step,
                    _ => 1,
                };
                if step == 0 {
                    return Err(zero());
                }
                Ok(Self::Integers { next: Some(*a), stop: *b, step, wide: true })
            }
            [Datum::Numeric(a), Datum::Numeric(b), rest @ ..] => {
                let step = match rest {
                    [Datum::Numeric(step)] => Numeric::clone(step),
                    _ => Numeric::from(1i64),
                };
                if !a.is_finite() || !b.is_finite() || !step.is_finite() {
                    return Err(SqlError::new("22023", "series bounds must be finite"));
                }
                if step.is_zero() {
                    return Err(zero());
                }
                let descending = step.is_negative();
                Ok(Self::Numerics {
                    next: Numeric::clone(a),
                    stop: Numeric::clone(b),
                    step,
                    descending,
                })
            }
            [Datum::Timestamp(a), Datum::Timestamp(b), Datum::Interval(step)] => {
                Self::moments(*a, *b, step, false)
            }
            [Datum::TimestampTz(a), Datum::TimestampTz(b), Datum::Interval(step)] => {
                Self::moments(*a, *b, step, true)
            }
            _ => Err(SqlError::internal("generate_series was given values of other types")),
        }
    }

    fn moments(
        next: i64,
        stop: i64,
        step: &Arc<niwaki_types::Interval>,
        zoned: bool,
    ) -> Result<Self> {
        let size = step.comparable();
        if size == 0 {
            return Err(SqlError::new("22023", "step size cannot equal zero"));
        }
        Ok(Self::Moments { next, stop, step: Arc::clone(step), zoned, descending: size < 0 })
    }

    pub(crate) fn next(&mut self, rt: &mut Runtime<'_, '_>) -> Result<Option<Datum>> {
        Ok(match self {
            Self::Integers { next, stop, step, wide } => {
                let Some(value) = *next else { return Ok(None) };
                if (*step > 0 && value > *stop) || (*step < 0 && value < *stop) {
                    return Ok(None);
                }
                *next = value.checked_add(*step);
                if *wide {
                    Some(Datum::Int8(value))
                } else {
                    i32::try_from(value).ok().map(Datum::Int4)
                }
            }
            Self::Numerics { next, stop, step, descending } => {
                let distance = stop.sub(next)?;
                let past = if *descending {
                    !distance.is_negative() && !distance.is_zero()
                } else {
                    distance.is_negative()
                };
                if past {
                    return Ok(None);
                }
                let value = if let Ok(following) = next.add(step) {
                    std::mem::replace(next, following)
                } else {
                    // No number is as large as the next value, so the next value is outside the
                    // bounds. This value is the last.
                    *stop = next.sub(step)?;
                    next.clone()
                };
                Some(Datum::Numeric(Arc::new(value)))
            }
            Self::Moments { next, stop, step, zoned, descending } => {
                let value = *next;
                if (*descending && value < *stop) || (!*descending && value > *stop) {
                    return Ok(None);
                }
                *next = if *zoned {
                    datetime::timestamptz_plus_interval(value, step, &rt.exec.text.zone)?
                } else {
                    datetime::timestamp_plus_interval(value, step)?
                };
                Some(if *zoned { Datum::TimestampTz(value) } else { Datum::Timestamp(value) })
            }
            Self::List(values) => values.next(),
        })
    }
}

/// Calls a function that returns rows of several columns.
fn function_rows(
    function: &Function,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<TuplestoreReader> {
    let Eval::Rows(rows) = &function.eval else {
        return Err(SqlError::internal("a function of several columns that has none"));
    };
    let values = arguments.iter().map(|a| a.eval(row, rt)).collect::<Result<Vec<Datum>>>()?;
    let mut found = TuplestoreWriter::new(rt.exec);
    if !values.iter().any(Datum::is_null) {
        (rows.body)(rt.exec, &values, &mut |row| found.push(&row))?;
    }
    Ok(found.finish()?.read())
}

enum Rows {
    NotStarted,
    List { rows: Vec<Vec<Datum>>, next: usize },
    Kept(TuplestoreReader),
    Shared(SharedReader),
    Set { values: SetValues, number: i64 },
    Running { step: Running, outer: Vec<Datum>, inner: Vec<Datum> },
}

/// The step that returns the rows of system views, nested queries, and functions in FROM.
pub(crate) struct RowSource {
    plan: Arc<PlanNode>,
    rows: Rows,
}

impl RowSource {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), rows: Rows::NotStarted }
    }

    fn start(&mut self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        let list = |rows: Vec<Vec<Datum>>| Rows::List { rows, next: 0 };
        self.rows = match &*self.plan {
            PlanNode::Virtual { relation, key, .. } => {
                let wanted = match key {
                    Some((column, value)) => {
                        let value = value.eval(row, rt)?;
                        // Nothing equals NULL.
                        if value.is_null() {
                            self.rows = list(Vec::new());
                            return Ok(());
                        }
                        Some((*column, value))
                    }
                    None => None,
                };
                let wanted = wanted.as_ref().map(|(column, value)| Key { column: *column, value });
                let view = relation
                    .view
                    .as_ref()
                    .ok_or_else(|| SqlError::internal("a view without rows"))?;
                let mut rows = Vec::new();
                view.rows(rt.exec.catalog, rt.exec.source, wanted, &mut |row| {
                    rows.push(row.to_vec());
                    Ok(())
                })?;
                list(rows)
            }
            PlanNode::SubQuery { plan, .. } => Rows::Running {
                step: crate::step::start::start(&plan.root, rt.state),
                outer: if plan.correlated { row.to_vec() } else { Vec::new() },
                inner: Vec::new(),
            },
            PlanNode::Shared { plan, .. } => Rows::Shared(SharedReader::new(plan)),
            PlanNode::Working(plan) => {
                let rows = rt.state.working.get(plan.number).and_then(Option::as_ref);
                match rows {
                    Some(rows) => Rows::Kept(rows.read()),
                    None => return Err(SqlError::internal("working rows of no recursive query")),
                }
            }
            PlanNode::Function {
                function: SetFunction::User { function, fields },
                arguments,
                ..
            } => {
                let width = fields.as_ref().map(|fields| fields.len());
                Rows::Kept(crate::source::function::set_rows(function, arguments, width, row, rt)?)
            }
            PlanNode::Function { function: SetFunction::Records(records), arguments, .. } => {
                Rows::Kept(json_records::rows(records, arguments, row, rt)?)
            }
            PlanNode::Function { function: SetFunction::Builtin(function), arguments, .. }
                if function.columns().is_some() =>
            {
                Rows::Kept(function_rows(function, arguments, row, rt)?)
            }
            PlanNode::Function { function, arguments, .. } => {
                Rows::Set { values: SetValues::start(function, arguments, row, rt)?, number: 0 }
            }
            PlanNode::Single { expr, .. } => Rows::Set {
                values: SetValues::List(vec![expr.eval(row, rt)?].into_iter()),
                number: 0,
            },
            _ => return Err(SqlError::internal("a row source of another plan")),
        };
        Ok(())
    }
}

impl Step for RowSource {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if matches!(self.rows, Rows::NotStarted) {
            self.start(row, rt)?;
        }
        let (start, filter, ordinality, virtual_oid) = match &*self.plan {
            PlanNode::Virtual { start, filter, relation, .. } => {
                (*start, filter.as_ref(), false, Some(relation.oid.0))
            }
            PlanNode::SubQuery { start, filter, .. } | PlanNode::Shared { start, filter, .. } => {
                (*start, filter.as_ref(), false, None)
            }
            PlanNode::Working(plan) => (plan.start, plan.filter.as_ref(), false, None),
            PlanNode::Function { start, filter, ordinality, .. }
            | PlanNode::Single { start, filter, ordinality, .. } => {
                (*start, filter.as_ref(), *ordinality, None)
            }
            _ => return Err(SqlError::internal("a row source of another plan")),
        };
        loop {
            rt.tick()?;
            match &mut self.rows {
                Rows::NotStarted => return Ok(false),
                Rows::List { rows, next } => {
                    let Some(values) = rows.get(*next) else { return Ok(false) };
                    *next += 1;
                    let extra = if virtual_oid.is_some() { 3 } else { 0 };
                    let end = start + values.len();
                    if row.len() < end + extra {
                        row.resize(end + extra, Datum::Null);
                    }
                    row[start..end].clone_from_slice(values);
                    if let Some(oid) = virtual_oid {
                        row[end + 1] = Datum::Oid(oid);
                    }
                }
                Rows::Kept(reader) => {
                    let end = start + reader.width();
                    if row.len() < end + usize::from(ordinality) {
                        row.resize(end + usize::from(ordinality), Datum::Null);
                    }
                    if !reader.next(&mut row[start..end])? {
                        return Ok(false);
                    }
                    if ordinality {
                        row[end] = Datum::Int8(i64::try_from(reader.given()).unwrap_or(i64::MAX));
                    }
                }
                Rows::Shared(reader) => {
                    let PlanNode::Shared { plan, .. } = &*self.plan else { return Ok(false) };
                    let end = start + plan.columns.len();
                    if row.len() < end {
                        row.resize(end, Datum::Null);
                    }
                    if !reader.next(&mut row[start..end], rt)? {
                        return Ok(false);
                    }
                }
                Rows::Set { values, number } => {
                    let Some(value) = values.next(rt)? else { return Ok(false) };
                    *number += 1;
                    if row.len() < start + 2 {
                        row.resize(start + 2, Datum::Null);
                    }
                    row[start] = value;
                    if ordinality {
                        row[start + 1] = Datum::Int8(*number);
                    }
                }
                Rows::Running { step, outer, inner } => {
                    let PlanNode::SubQuery { plan, .. } = &*self.plan else { return Ok(false) };
                    rt.state.outer.push(std::mem::take(outer));
                    let found = step.next(inner, rt);
                    *outer = rt.state.outer.pop().unwrap_or_default();
                    if !found? {
                        return Ok(false);
                    }
                    let width = plan.columns.len();
                    if row.len() < start + width {
                        row.resize(start + width, Datum::Null);
                    }
                    for (slot, value) in inner.iter_mut().take(width).enumerate() {
                        row[start + slot] = std::mem::replace(value, Datum::Null);
                    }
                }
            }
            if let Some(filter) = filter
                && !filter.holds(row, rt)?
            {
                continue;
            }
            return Ok(true);
        }
    }
}
