//! Calls of aggregates and of set-returning functions, and the keys of an order.

use super::SetFunction;
use crate::context::RecordFields;
use crate::expr::Expr;
use crate::function::AggregateKind;

/// One aggregate of a query.
#[derive(Clone, Debug)]
pub(crate) struct AggregateCall {
    pub(crate) kind: AggregateKind,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Expr>,
    /// ORDER BY inside the call: expression, descending, NULLs first.
    pub(crate) order: Vec<(Expr, bool, bool)>,
    /// WITHIN GROUP: the number of direct arguments, which stand before it. `order` has the other
    /// arguments.
    pub(crate) direct: Option<usize>,
}

/// One set-returning function of a target list.
#[derive(Clone, Debug)]
pub(crate) struct SetCall {
    pub(crate) function: SetFunction,
    pub(crate) arguments: Vec<Expr>,
}

impl SetCall {
    /// Returns names and types of the result columns if the function returns rows of several
    /// columns.
    pub(crate) fn fields(&self) -> Option<RecordFields> {
        self.function.fields(&self.arguments)
    }

    /// Returns whether both call the same function with the same arguments.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let same_function = match (&self.function, &other.function) {
            (SetFunction::Builtin(a), SetFunction::Builtin(b)) => std::ptr::eq(*a, *b),
            (SetFunction::User { function: a, .. }, SetFunction::User { function: b, .. }) => {
                a.key == b.key
            }
            _ => false,
        };
        same_function
            && self.arguments.len() == other.arguments.len()
            && self.arguments.iter().zip(&other.arguments).all(|(a, b)| a.same(b))
    }
}

/// One key of a sort, evaluated over the input rows.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl SortKey {
    /// Returns whether both keys sort alike.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.expr.same(&other.expr)
            && self.descending == other.descending
            && self.nulls_first == other.nulls_first
    }
}
