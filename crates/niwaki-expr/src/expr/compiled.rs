//! Expressions of indexes, ready to be evaluated without a session.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use niwaki_env::stack::Deep;
use niwaki_table::{ExpressionError, KeyExpression};
use niwaki_types::{ColumnMask, Datum};

use super::{Expr, Runtime, State};
use crate::sessionless;

/// An expression of an index, ready to be evaluated; reads the table's columns from slot 0 on.
pub struct CompiledExpression {
    /// The expression.
    pub expr: Deep<Expr>,
    /// The columns that it reads.
    pub columns: ColumnMask,
}

impl fmt::Debug for CompiledExpression {
    // Not the expression: code that shows it is a large part of the program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CompiledExpression");
        shown.field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl KeyExpression for CompiledExpression {
    fn columns(&self) -> &ColumnMask {
        &self.columns
    }

    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError> {
        sessionless::with_context(|exec| {
            let mut state = State::default();
            let mut runtime = Runtime { exec, params: &[], state: &mut state };
            self.expr.eval(row, &mut runtime)
        })
        .map_err(|error| Arc::new(error) as ExpressionError)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the expression behind the table layer's trait object, if this module compiled it.
pub fn compiled(expression: &dyn KeyExpression) -> Option<&CompiledExpression> {
    expression.as_any().downcast_ref()
}
