//! Computed index keys and predicates: the trait that the SQL layer implements.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use niwaki_types::{ColumnMask, Datum};

use crate::error::ExpressionError;

/// An expression over the columns of one table: a key column of an index, or a partial index's
/// predicate.
///
/// The value depends on the row alone: the same stored bytes give the same value, for ever and in
/// every session. Indexes rely on that. The comparison of keys under latches relies on it, too
/// ([`crate::Table`], rule `bytes-under-latch`): an expression is never evaluated under a latch.
pub trait KeyExpression: Send + Sync + fmt::Debug {
    /// Returns the columns of the table that the expression reads.
    fn columns(&self) -> &ColumnMask;

    /// Returns the expression's value for a row, which is as wide as the table. Only
    /// [`KeyExpression::columns`] are read. A predicate gives a boolean or NULL. No latch is held.
    ///
    /// # Errors
    /// The errors of the expression itself: a division by zero, a failed cast.
    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError>;

    /// Returns the expression for the planner, which made it and wants to look inside.
    fn as_any(&self) -> &dyn Any;
}

/// The source of a key column's values.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A column of the table: its position, counted from 0 with dropped columns included.
    Column(usize),
    /// A computed value.
    Expression(Arc<dyn KeyExpression>),
}

impl KeySource {
    /// Returns the table's column, for a plain column.
    #[inline]
    pub fn column(&self) -> Option<usize> {
        match self {
            Self::Column(column) => Some(*column),
            Self::Expression(_) => None,
        }
    }

    /// Adds the columns that the source reads.
    pub(crate) fn add_columns(&self, to: &mut ColumnMask) {
        match self {
            Self::Column(column) => to.insert(*column),
            Self::Expression(expression) => {
                expression.columns().iter().for_each(|column| to.insert(column));
            }
        }
    }
}
