//! Expressions over one row of a table, outside indexes: expressions of generated columns, and
//! expressions for the columns of a rewritten table.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::stack::{self, Deep};
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::{
    Expr, ExprKind, Runtime, State, is_immutable, refuse_domains, refuse_user_functions,
};
use niwaki_expr::sessionless;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{ColumnType, Datum};

use crate::analyze::{
    copy_condition, define_generation, generation_expression, table_expression, written_expression,
};

/// Reads the GENERATED ALWAYS AS expression of a column (`target`, its type and name) of
/// `relation`. Returns the text to be stored.
///
/// # Errors
/// Errors of analysis; `42P17` when the expression is not immutable or reads a generated column;
/// `42P10` for system columns. `0A000` for subqueries and for literals that depend on the time or
/// the session's settings.
pub fn read_generated(
    text: &str,
    relation: &Arc<Relation>,
    target: (ColumnType, &str),
    context: &AnalyzeContext<'_>,
) -> Result<String> {
    stack::whole(|| generated_text(text, relation, target, context))
}

fn generated_text(
    text: &str,
    relation: &Arc<Relation>,
    target: (ColumnType, &str),
    context: &AnalyzeContext<'_>,
) -> Result<String> {
    // Two moments far apart: a literal such as 'today' has another value at each.
    const MOMENTS: [i64; 2] = [0, 1 << 58];
    // Domain checks happen where the values are stored.
    let target = (ColumnType { domain: None, ..target.0 }, target.1);
    let text = define_generation(text, relation, context, target)?;
    let expr = generation_expression(&text, relation, context, target)?;
    let mut refused = None;
    // Ends the walk at the first column that the expression may not read.
    expr.any(&mut |part| {
        let ExprKind::Slot { depth: 0, slot } = part.kind else { return false };
        refused = match relation.columns.get(slot) {
            None => Some(system_column(slot - relation.columns.len())),
            Some(column) if column.generated => Some(nested(&column.name)),
            Some(_) => None,
        };
        refused.is_some()
    });
    if let Some(error) = refused {
        return Err(error);
    }
    refuse_domains(&expr, "a column generation expression")?;
    refuse_user_functions(&expr, "a column generation expression", is_immutable(&expr))?;
    if !is_immutable(&expr) {
        return Err(SqlError::new("42P17", "generation expression is not immutable"));
    }
    for now in MOMENTS {
        let again =
            generation_expression(&text, relation, &sessionless::analyze_context(now), target)?;
        if !again.same(&expr) {
            return Err(SqlError::unsupported(
                "a literal in a column generation expression that depends on the time or on the session's settings",
            )
            .with_hint("Write it in ISO form, with a time zone where it has one."));
        }
    }
    Ok(text)
}

fn system_column(number: usize) -> SqlError {
    let name = crate::analyze::SYSTEM_COLUMNS.get(number).map_or("?", |(name, ..)| *name);
    let message = format!("cannot use system column \"{name}\" in column generation expression");
    SqlError::new("42P10", message)
}

fn nested(name: &str) -> SqlError {
    let message = format!("cannot use generated column \"{name}\" in column generation expression");
    SqlError::new("42P17", message)
        .with_detail("A generated column cannot reference another generated column.")
}

/// An expression over the columns of a table, ready to be evaluated row by row.
#[derive(Debug)]
pub struct RowExpression {
    expr: Deep<Expr>,
}

impl RowExpression {
    /// Keeps the expression that `read` returns, with its stack use.
    fn of(read: impl FnOnce() -> Result<Expr>) -> Result<Self> {
        let (expr, bytes) = stack::measured(read);
        Ok(Self { expr: Deep::new(expr?, bytes) })
    }

    /// Reads a stored expression over the columns of `relation`, or over none. Its values are
    /// assigned to a column (`target`, its type and name).
    ///
    /// # Errors
    /// Errors of analysis; `42804` when the value cannot be assigned.
    pub fn new(
        text: &str,
        relation: Option<&Arc<Relation>>,
        target: (ColumnType, &str),
        context: &AnalyzeContext<'_>,
    ) -> Result<Self> {
        Self::of(|| table_expression(text, relation, context, Some(target)))
    }

    /// Reads a stored CHECK over the columns of `relation`.
    ///
    /// # Errors
    /// Errors of analysis.
    pub fn condition(
        text: &str,
        relation: &Arc<Relation>,
        context: &AnalyzeContext<'_>,
    ) -> Result<Self> {
        Self::of(|| table_expression(text, Some(relation), context, None))
    }

    /// Does the work of [`RowExpression::new`] for the text of a statement, where names are looked
    /// up along the search path.
    ///
    /// # Errors
    /// As [`RowExpression::new`].
    pub fn written(
        text: &str,
        relation: Option<&Arc<Relation>>,
        target: (ColumnType, &str),
        context: &AnalyzeContext<'_>,
    ) -> Result<Self> {
        Self::of(|| written_expression(text, relation, context, target))
    }

    /// Reads the condition of COPY FROM … WHERE over the columns of `relation`. The columns at
    /// `absent` have no value yet when the condition judges a row.
    ///
    /// # Errors
    /// Errors of analysis; `0A000` for functions of users, and where the condition reads an absent
    /// column.
    pub fn copy_condition(
        text: &str,
        relation: &Arc<Relation>,
        absent: &[usize],
        context: &AnalyzeContext<'_>,
    ) -> Result<Self> {
        Self::of(|| stack::whole(|| judged_condition(text, relation, absent, context)))
    }

    /// Evaluates the expression for a row, which has all columns of the table.
    ///
    /// # Errors
    /// Errors of the expression.
    pub fn evaluate(&self, exec: &mut ExecContext<'_>, row: &[Datum]) -> Result<Datum> {
        let mut state = State::default();
        let mut runtime = Runtime { exec, params: &[], state: &mut state };
        self.expr.eval(row, &mut runtime)
    }
}

fn judged_condition(
    text: &str,
    relation: &Arc<Relation>,
    absent: &[usize],
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let expr = copy_condition(text, relation, context)?;
    refuse_user_functions(&expr, "COPY … WHERE", true)?;
    let mut unknown = |part: &Expr| {
        let ExprKind::Slot { depth: 0, slot } = part.kind else { return false };
        slot >= relation.columns.len() || absent.contains(&slot)
    };
    if expr.any(&mut unknown) {
        let what =
            "COPY … WHERE over a column that is computed, has its default, or is a system column";
        return Err(SqlError::unsupported(what));
    }
    Ok(expr)
}
