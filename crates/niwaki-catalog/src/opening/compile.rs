//! The catalog's interface to the SQL layer: compiling stored expressions for evaluation.

use std::fmt;
use std::sync::Arc;

use niwaki_table::{ExpressionError, KeyExpression};

use crate::definition::relation_definition::{RelationDefinition, StoredExpression};

/// Compiler of expressions, which the SQL layer implements.
pub trait ExpressionCompiler: Send + Sync + fmt::Debug {
    /// Compiles an expression over the columns of `table` from its stored text. The result depends
    /// on no session's settings.
    ///
    /// # Errors
    /// The text cannot be read, because another version wrote it or it is damaged.
    fn compile(
        &self,
        table: &RelationDefinition,
        expression: &StoredExpression,
    ) -> Result<Arc<dyn KeyExpression>, ExpressionError>;
}
