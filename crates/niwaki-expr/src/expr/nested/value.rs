//! Evaluates a nested query in an expression: what its rows say about the current row.

use std::sync::Arc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Array, Datum, TypeOid};

use super::{compare_each, hashed_values, sub_query_rows};
use crate::expr::eval::{apply, compare_any};
use crate::expr::hashed::look_up;
use crate::expr::{ComparedRows, Nested, Quantifier, Runtime, SubQuery, SubQueryKind};
use crate::plan::SubPlan;

impl SubQuery {
    /// Returns the value of a nested query for `row`.
    pub(in crate::expr) fn eval(&self, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Datum> {
        let limit = match &self.kind {
            SubQueryKind::Exists => 1,
            SubQueryKind::Scalar => 2,
            SubQueryKind::CompareRows(rows) if rows.with == Quantifier::Only => 2,
            _ => usize::MAX,
        };
        let Nested::Plan(plan) = &self.query else {
            return Err(SqlError::internal("a nested query that was not planned"));
        };
        if let SubQueryKind::Assigned { place, column } = &self.kind {
            return assigned_column(*place, *column, plan, row, rt);
        }
        if let Some(wanted) = look_up(self, plan) {
            return hashed_values::contains(plan, wanted, row, rt);
        }
        if plan.correlated
            && let Some(found) = compare_until_known(&self.kind, plan, row, rt)?
        {
            return Ok(found);
        }
        let rows = sub_query_rows(plan, row, limit, rt)?;
        match &self.kind {
            SubQueryKind::Exists => Ok(Datum::Bool(!rows.is_empty())),
            SubQueryKind::Assigned { .. } => Err(SqlError::internal("a row that is not assigned")),
            SubQueryKind::Scalar => match rows.as_slice() {
                [] => Ok(Datum::Null),
                [only] => Ok(only.first().cloned().unwrap_or(Datum::Null)),
                _ => Err(several_rows()),
            },
            SubQueryKind::Array => {
                let column = plan.columns.first().map_or(TypeOid::TEXT, |c| c.column_type.oid);
                let values: Vec<Datum> =
                    rows.iter().map(|r| r.first().cloned().unwrap_or(Datum::Null)).collect();
                Ok(match niwaki_parse::types::element_of(column) {
                    Some(element) => Datum::Array(element, Arc::new(Array::accumulated(&values)?)),
                    None => Datum::array(column, values),
                })
            }
            SubQueryKind::Compare { function, any, left, right_cast } => {
                let left = left.eval(row, rt)?;
                let mut values = Vec::with_capacity(rows.len());
                for candidate in rows.iter() {
                    values.push(right_cast.eval(candidate, rt)?);
                }
                compare_any(function, *any, &left, values.iter(), rt)
            }
            SubQueryKind::CompareRows(wanted) => compare_rows(wanted, &rows, row, rt),
        }
    }
}

/// Returns one of the columns that a query's row is assigned to. The query runs once for all these
/// columns.
fn assigned_column(
    place: i32,
    column: usize,
    plan: &SubPlan,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let of_row = |values: &[Datum]| values.get(column).cloned().unwrap_or(Datum::Null);
    let mut asked = rt.state.assigned.iter();
    if let Some((_, values)) = asked.find(|(known, _)| *known == place) {
        return Ok(of_row(values));
    }
    let rows = sub_query_rows(plan, row, 2, rt)?;
    let values = match rows.as_slice() {
        [] => Vec::new(),
        [only] => only.clone(),
        _ => return Err(several_rows()),
    };
    let value = of_row(&values);
    rt.state.assigned.push((place, values));
    Ok(value)
}

/// Evaluates `left op ANY (query)` or ALL, for a query that reads the current row. Returns `None`
/// for other kinds of nested queries.
fn compare_until_known(
    kind: &SubQueryKind,
    plan: &SubPlan,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<Datum>> {
    match kind {
        SubQueryKind::Compare { function, any, left, right_cast } => {
            let mut known = None;
            let found = compare_each(plan, row, *any, rt, &mut |candidate, rt| {
                let left = match &known {
                    Some(left) => left,
                    None => known.insert(left.eval(row, rt)?),
                };
                let right = right_cast.eval(candidate, rt)?;
                if left.is_null() || right.is_null() {
                    Ok(Datum::Null)
                } else {
                    apply(function, &[left.clone(), right], rt)
                }
            });
            found.map(Some)
        }
        SubQueryKind::CompareRows(rows) if rows.with != Quantifier::Only => {
            let any = rows.with == Quantifier::Any;
            let mut pair = Vec::new();
            let found = compare_each(plan, row, any, rt, &mut |candidate, rt| {
                rows.compare(&mut pair, candidate, row, rt)
            });
            found.map(Some)
        }
        _ => Ok(None),
    }
}

impl ComparedRows {
    /// Compares the left side with a row of the query. `pair` is empty before the first row. It
    /// keeps the values of the left side, computed from `row`.
    fn compare(
        &self,
        pair: &mut Vec<Datum>,
        candidate: &[Datum],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        if pair.is_empty() {
            for part in &self.left {
                pair.push(part.eval(row, rt)?);
            }
        }
        pair.truncate(self.left.len());
        pair.extend_from_slice(candidate);
        self.compared.eval(pair, rt)
    }
}

fn several_rows() -> SqlError {
    let message = "more than one row returned by a subquery used as an expression";
    SqlError::new("21000", message)
}

/// Evaluates `(left, …) op (rows)`, with ANY, ALL or neither, with SQL's three values.
fn compare_rows(
    wanted: &ComparedRows,
    rows: &[Vec<Datum>],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let any = match (wanted.with, rows.len()) {
        (Quantifier::Only, 0) => return Ok(Datum::Null),
        (Quantifier::Only, 2..) => return Err(several_rows()),
        (Quantifier::All, _) => false,
        (Quantifier::Only | Quantifier::Any, _) => true,
    };
    let (mut pair, mut unknown) = (Vec::new(), false);
    for candidate in rows {
        rt.tick()?;
        match wanted.compare(&mut pair, candidate, row, rt)? {
            Datum::Bool(found) if found == any => return Ok(Datum::Bool(any)),
            Datum::Null => unknown = true,
            _ => {}
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(!any) })
}
