//! Reads, stores and compiles the expressions and predicates of indexes. They must be functions of
//! the row alone. They are stored as text, and compiled when their table is opened.

use std::sync::Arc;

use niwaki_catalog::{ExpressionCompiler, Relation, RelationDefinition, StoredExpression};
use niwaki_env::stack::{self, Deep};
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::expr::{
    CompiledExpression, Expr, ExprKind, is_immutable, refuse_domains, refuse_user_functions,
};
use niwaki_expr::sessionless;
use niwaki_parse::column_names::rename_column;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{ExpressionError, KeyExpression};
use niwaki_types::{ColumnMask, TypeOid};

use crate::analyze::{IndexPart, define_index, index_expression};
use crate::deparse::expression::deparse_over;

/// A key column that an index is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKey {
    /// A column, by its position.
    Column(usize),
    /// A computed value.
    Expression(StoredExpression),
}

/// Reads the expression of a key column, `text`, over the columns of `relation`.
///
/// # Errors
/// Errors of analysis; `42P17` when the expression is not immutable; `0A000` for subqueries, system
/// columns and constants that depend on the session's settings.
pub fn read_index_key(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<IndexKey> {
    stack::whole(|| {
        let text = define_index(text, relation, context, IndexPart::Key)?;
        let expr = checked(&text, relation, context, IndexPart::Key)?;
        if let ExprKind::Slot { depth: 0, slot } = expr.kind {
            return Ok(IndexKey::Column(slot));
        }
        let type_oid = expr.ty.0;
        let shown = deparse_over(&expr, relation, context);
        let collation = expr.derived.as_column(expr.column_type());
        Ok(IndexKey::Expression(StoredExpression { text, shown, type_oid, collation }))
    })
}

/// Reads the predicate of a partial index.
///
/// # Errors
/// As [`read_index_key`]; `42804` when the predicate is not boolean.
pub fn read_index_predicate(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<StoredExpression> {
    stack::whole(|| {
        let text = define_index(text, relation, context, IndexPart::Predicate)?;
        let expr = checked(&text, relation, context, IndexPart::Predicate)?;
        let shown = deparse_over(&expr, relation, context);
        Ok(StoredExpression { text, shown, type_oid: TypeOid::BOOL.0, collation: None })
    })
}

/// Returns the stored expression of an index, a predicate or a key, after columns of `relation` got
/// other types. `relation` is the relation after the change.
///
/// # Errors
/// As [`read_index_key`] and [`read_index_predicate`].
pub fn retyped_index_part(
    stored: &StoredExpression,
    predicate: bool,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<StoredExpression> {
    let part = if predicate { IndexPart::Predicate } else { IndexPart::Key };
    stack::whole(|| {
        let expr = checked(&stored.text, relation, context, part)?;
        let (shown, type_oid) = (deparse_over(&expr, relation, context), expr.ty.0);
        let collation = expr.derived.as_column(expr.column_type());
        Ok(StoredExpression { text: stored.text.clone(), shown, type_oid, collation })
    })
}

/// Returns the stored expression after a column of `relation` was renamed from `from` to `to`.
/// `relation` is the relation after the change.
///
/// # Errors
/// Errors of analysis, if the expression cannot be read any more.
pub fn rename_in_expression(
    stored: &StoredExpression,
    from: &str,
    to: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
) -> Result<StoredExpression> {
    let text = rename_column(&stored.text, from, to)?;
    let shown = stack::whole(|| {
        let expr = index_expression(&text, relation, context, IndexPart::Key)?;
        Ok::<_, SqlError>(deparse_over(&expr, relation, context))
    })?;
    Ok(StoredExpression { text, shown, ..stored.clone() })
}

/// Analyzes an expression and refuses it if an index cannot be built on it.
fn checked(
    text: &str,
    relation: &Arc<Relation>,
    context: &AnalyzeContext<'_>,
    part: IndexPart,
) -> Result<Expr> {
    // Two moments far apart: a literal such as 'today' has another value at each.
    const MOMENTS: [i64; 2] = [0, 1 << 58];
    let expr = index_expression(text, relation, context, part)?;
    let width = relation.columns.len();
    if expr.any(&mut |e| matches!(e.kind, ExprKind::Slot { depth: 0, slot } if slot >= width)) {
        return Err(SqlError::new("0A000", "index creation on system columns is not supported"));
    }
    refuse_domains(&expr, part.one())?;
    refuse_user_functions(&expr, part.one(), is_immutable(&expr))?;
    if !is_immutable(&expr) {
        return Err(SqlError::new(
            "42P17",
            format!("functions in {} must be marked IMMUTABLE", part.one()),
        ));
    }
    for now in MOMENTS {
        let again = index_expression(text, relation, &sessionless::analyze_context(now), part)?;
        if !again.same(&expr) {
            return Err(SqlError::unsupported(format!(
                "a literal in {} that depends on the time or on the session's settings",
                part.one()
            ))
            .with_hint("Write it in ISO form, with a time zone where it has one."));
        }
    }
    Ok(expr)
}

/// Compiles stored expressions for the catalog.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexExpressions;

impl ExpressionCompiler for IndexExpressions {
    fn compile(
        &self,
        table: &RelationDefinition,
        expression: &StoredExpression,
    ) -> std::result::Result<Arc<dyn KeyExpression>, ExpressionError> {
        let relation = Arc::new(Relation::unopened(table.clone()));
        let context = sessionless::analyze_context(0);
        let read = || {
            // The kind of part, key or predicate, only changes the words of errors.
            let expr = index_expression(&expression.text, &relation, &context, IndexPart::Key)?;
            if expr.ty.0 != expression.type_oid {
                return Err(SqlError::new(
                    "XX001",
                    format!(
                        "index expression {} has another type than when it was stored",
                        expression.text
                    ),
                ));
            }
            let mut columns = ColumnMask::none();
            // Collects columns; never ends the walk.
            expr.any(&mut |part| {
                if let ExprKind::Slot { depth: 0, slot } = part.kind {
                    columns.insert(slot);
                }
                false
            });
            Ok((expr, columns))
        };
        let (read, bytes) = stack::measured(|| stack::whole(read));
        let (expr, columns) = read.map_err(|error| Arc::new(error) as ExpressionError)?;
        Ok(Arc::new(CompiledExpression { expr: Deep::new(expr, bytes), columns }))
    }
}
