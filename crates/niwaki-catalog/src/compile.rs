//! What the catalog asks of the SQL layer: stored expressions ready to be evaluated.

use std::fmt;
use std::sync::Arc;

use niwaki_table::{ExpressionError, KeyExpression};

use crate::definition::{RelationDefinition, StoredExpression};

/// Implemented by the SQL layer, which knows how to read an expression.
pub trait ExpressionCompiler: Send + Sync + fmt::Debug {
    /// An expression over the columns of `table`, from its stored text. It depends on no session's
    /// settings.
    ///
    /// # Errors
    /// The text cannot be read: it was written by another version, or is damaged.
    fn compile(
        &self,
        table: &RelationDefinition,
        expression: &StoredExpression,
    ) -> Result<Arc<dyn KeyExpression>, ExpressionError>;
}
