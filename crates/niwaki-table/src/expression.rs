//! Index keys and predicates that are computed: the trait that the SQL layer implements.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use niwaki_types::{ColumnMask, Datum};

/// Why an expression has no value for a row; the layer that made the expression knows its real type.
pub type ExpressionError = Arc<dyn StdError + Send + Sync>;

/// An expression over the columns of one table: a key column of an index, or a partial index's
/// predicate.
///
/// It is a function of the row and of nothing else: the same stored bytes give the same value, for
/// ever and in every session. Indexes rest on that, and so does the way in which keys are compared
/// under latches ([`crate::Table`], rule 9b.16): an expression is never evaluated under one.
pub trait KeyExpression: Send + Sync + fmt::Debug {
    /// The columns of the table that it reads.
    fn columns(&self) -> &ColumnMask;

    /// Its value for a row, which is as wide as the table; only [`KeyExpression::columns`] are read.
    /// A predicate gives a boolean or NULL. No latch is held.
    ///
    /// # Errors
    /// What the expression itself fails with: a division by zero, a failed cast.
    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError>;

    /// For the planner, which made it and wants to look inside.
    fn as_any(&self) -> &dyn Any;
}

/// Where the values of a key column come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A column of the table: its position, from 0, dropped ones counted.
    Column(usize),
    /// A computed value.
    Expression(Arc<dyn KeyExpression>),
}

impl KeySource {
    /// The table's column, if it is one.
    #[inline]
    pub fn column(&self) -> Option<usize> {
        match self {
            Self::Column(column) => Some(*column),
            Self::Expression(_) => None,
        }
    }

    /// Adds the columns that it reads.
    pub(crate) fn add_columns(&self, to: &mut ColumnMask) {
        match self {
            Self::Column(column) => to.insert(*column),
            Self::Expression(expression) => {
                expression.columns().iter().for_each(|column| to.insert(column));
            }
        }
    }
}
