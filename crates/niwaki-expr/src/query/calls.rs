//! Calls of aggregates and of set-returning functions, and the keys of an order.

use super::SetFunction;
use crate::context::RecordFields;
use crate::expr::{Expr, Likeness};
use crate::function::AggregateKind;

/// One aggregate of a query.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The computation.
    pub kind: AggregateKind,
    /// The name of the aggregate.
    pub name: String,
    /// The arguments.
    pub arguments: Vec<Expr>,
    /// True for DISTINCT in the call.
    pub distinct: bool,
    /// The FILTER condition.
    pub filter: Option<Expr>,
    /// ORDER BY inside the call: expression, descending, NULLs first.
    pub order: Vec<(Expr, bool, bool)>,
    /// WITHIN GROUP: the number of direct arguments, which stand before it. `order` has the other
    /// arguments.
    pub direct: Option<usize>,
}

/// Defines the expressions of an aggregate. Shared and mutable ones have one definition, so each
/// part is named once.
macro_rules! exprs_of_aggregate {
    ($exprs:ident, $iter:ident $(, $mutable:ident)?) => {
        /// Returns the call's arguments, its FILTER and its ORDER BY.
        pub fn $exprs(& $($mutable)? self) -> impl Iterator<Item = & $($mutable)? Expr> {
            let order = self.order.$iter().map(|(expr, ..)| expr);
            self.arguments.$iter().chain(self.filter.$iter()).chain(order)
        }
    };
}

impl AggregateCall {
    exprs_of_aggregate!(exprs, iter);
    exprs_of_aggregate!(exprs_mut, iter_mut, mut);
}

/// One set-returning function of a target list.
#[derive(Clone, Debug)]
pub struct SetCall {
    /// The function.
    pub function: SetFunction,
    /// The arguments.
    pub arguments: Vec<Expr>,
}

impl SetCall {
    /// Returns names and types of the result columns if the function returns rows of several
    /// columns.
    pub fn fields(&self) -> Option<RecordFields> {
        self.function.fields(&self.arguments)
    }

    /// Returns whether both call the same function with the same arguments.
    pub fn same(&self, other: &Self) -> bool {
        self.is_like(other, Likeness::Value)
    }

    pub(crate) fn is_like(&self, other: &Self, how: Likeness) -> bool {
        let same_function = match (&self.function, &other.function) {
            _ if how == Likeness::Copy => self.function.is_copy_of(&other.function),
            (SetFunction::Builtin(a), SetFunction::Builtin(b)) => std::ptr::eq(*a, *b),
            (SetFunction::User { function: a, .. }, SetFunction::User { function: b, .. }) => {
                a.key == b.key
            }
            _ => false,
        };
        same_function
            && self.arguments.len() == other.arguments.len()
            && self.arguments.iter().zip(&other.arguments).all(|(a, b)| a.is_like(b, how))
    }
}

/// One key of a sort, evaluated over the input rows.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The expression.
    pub expr: Expr,
    /// True for DESC.
    pub descending: bool,
    /// True for NULLS FIRST.
    pub nulls_first: bool,
}

impl SortKey {
    /// Returns whether both keys sort alike.
    pub fn same(&self, other: &Self) -> bool {
        self.is_like(other, Likeness::Value)
    }

    pub(crate) fn is_like(&self, other: &Self, how: Likeness) -> bool {
        self.expr.is_like(&other.expr, how)
            && self.descending == other.descending
            && self.nulls_first == other.nulls_first
    }
}
