//! Bodies of SQL functions: analyzes and plans their statements over the parameters.

use std::sync::Arc;

use niwaki_catalog::{FunctionDefinition, FunctionVolatility};
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::expr::{Expr, ExprKind, FunctionKey, inline_call, keeps_promises};
use niwaki_expr::plan::{BodyStatement, CalledFunctions, FunctionBody};
use niwaki_expr::query::{
    Body, Distinct, Growth, Query, ResultShape, StatementBody, StatementQuery,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_txn::TableLockMode;
use pg_query::NodeEnum;

use super::enclosing::Routine;
use super::shape::BodyResult;
use crate::analyze::Analyzer;

impl Analyzer<'_> {
    /// Returns the planned statements of a function for arguments of these types. The second value
    /// is the expression to inline in place of a call, if the body is such an expression.
    pub(super) fn function_body(
        &self,
        definition: &FunctionDefinition,
        key: &FunctionKey,
        shape: &ResultShape,
        functions: &CalledFunctions<'_>,
    ) -> Result<(FunctionBody, Option<Expr>)> {
        let within = |error: SqlError| {
            let place = format!("SQL function \"{}\" during startup", definition.name);
            without_position(error).within_context(place)
        };
        self.statements_of(definition, key, shape, functions).map_err(within)
    }

    fn statements_of(
        &self,
        definition: &FunctionDefinition,
        key: &FunctionKey,
        shape: &ResultShape,
        functions: &CalledFunctions<'_>,
    ) -> Result<(FunctionBody, Option<Expr>)> {
        let context = AnalyzeContext {
            text: functions.text,
            now: functions.now,
            stored: false,
            ..*self.context
        };
        let parsed = niwaki_parse::parse::parse(&definition.body)?;
        let count = parsed.len();
        let mut statements = Vec::with_capacity(count);
        let (mut result, mut inline) = (None, None);
        for (number, statement) in parsed.iter().enumerate() {
            let mut inner = Analyzer::new(&context, &statement.source, key.arguments.clone());
            inner.input_collation = key.collation;
            inner.routine = Some(Routine::of(definition));
            refuse_others(&statement.node)?;
            let (mut query, mut columns, tag) = inner.statement_query(&statement.node)?;
            if number + 1 == count {
                if let StatementBody::Select(query) = &mut query.body {
                    inner.row_of_body(query, shape)?;
                    columns.clone_from(&query.columns);
                }
                let given = inner.result_of_body(shape, Some((columns.as_slice(), tag)))?;
                if count == 1 && !definition.returns_set {
                    inline = inlined(definition, &query, shape, &given);
                }
                result = Some(given);
            }
            let relations = std::mem::take(&mut inner.relations);
            let writes = relations.iter().any(|(_, lock)| *lock != TableLockMode::AccessShare);
            let changes = relations.iter().any(|(_, lock)| *lock == TableLockMode::RowExclusive);
            functions.found.borrow_mut().relations.extend(relations);
            let width = columns.len();
            let root = Arc::new((functions.plan)(query, &context)?);
            statements.push(BodyStatement { root, tag, width, writes, changes });
        }
        let result = match result {
            Some(result) => result,
            None => Analyzer::new(&context, "", Vec::new()).result_of_body(shape, None)?,
        };
        let body = FunctionBody {
            name: definition.name.clone(),
            statements,
            read_only: definition.traits.volatility != FunctionVolatility::Volatile,
            returns_set: definition.returns_set,
            shape: shape.clone(),
            result: result.values,
            whole: result.whole,
        };
        Ok((body, inline))
    }
}

/// Removes the position: positions in a body mean nothing to the caller.
fn without_position(mut error: SqlError) -> SqlError {
    error.position = None;
    error
}

/// Refuses statements that bodies cannot contain.
fn refuse_others(node: &NodeEnum) -> Result<()> {
    match node {
        NodeEnum::SelectStmt(select) if select.into_clause.is_some() => {
            Err(SqlError::unsupported("SELECT INTO in a function's body"))
        }
        NodeEnum::SelectStmt(_)
        | NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_) => Ok(()),
        NodeEnum::TransactionStmt(_) => {
            let message = "transaction control is not allowed in an SQL function";
            Err(SqlError::new("0A000", message))
        }
        _ => Err(SqlError::unsupported("a statement other than a query in a function's body")),
    }
}

/// Returns the expression to inline: the only statement selects one value, and reads no rows.
fn inlined(
    definition: &FunctionDefinition,
    statement: &StatementQuery,
    shape: &ResultShape,
    result: &BodyResult,
) -> Option<Expr> {
    let (ResultShape::Value(_), [converted]) = (shape, result.values.as_slice()) else {
        return None;
    };
    let StatementBody::Select(query) = &statement.body else { return None };
    let selected = only_expression(query).filter(|_| statement.shared.is_empty())?;
    let mut expr = converted.clone();
    put_slot(&mut expr, selected);
    inline_inside(&mut expr, &mut Growth::default());
    let nested = expr.any(&mut |part| {
        matches!(part.kind, ExprKind::SubQuery(_) | ExprKind::Slot { .. } | ExprKind::CaseOperand)
    });
    let (promised, strict) = (definition.traits.volatility, definition.traits.strict);
    (!nested && keeps_promises(&expr, promised, strict)).then_some(expr)
}

/// Returns the only target of a query without FROM.
fn only_expression(query: &Query) -> Option<&Expr> {
    let Body::Select(select) = &query.body else { return None };
    let plain = select.from.tree.is_none()
        && select.from.conditions.is_empty()
        && select.grouping.is_none()
        && select.windowing.windows.is_empty()
        && select.sets.is_empty()
        && select.distinct == Distinct::None
        && select.locks.is_empty()
        && query.order.is_empty()
        && query.limit.is_none()
        && query.offset.is_none();
    match select.targets.as_slice() {
        [only] if plain => Some(only),
        _ => None,
    }
}

/// Replaces the single slot of a row by its value.
fn put_slot(expr: &mut Expr, value: &Expr) {
    if matches!(expr.kind, ExprKind::Slot { depth: 0, slot: 0 }) {
        let (ty, typmod, domain) = (expr.ty, expr.typmod, expr.domain);
        *expr = Expr { ty, typmod, domain, ..value.clone() };
        return;
    }
    expr.for_each_child_mut(&mut |child| put_slot(child, value));
}

/// Inlines other functions at their calls.
fn inline_inside(expr: &mut Expr, growth: &mut Growth) {
    expr.for_each_child_mut(&mut |child| inline_inside(child, growth));
    inline_call(expr, growth);
}
