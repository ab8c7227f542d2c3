//! Planned bodies of users' functions.

use std::sync::Arc;

use niwaki_env::hash::HashMap;

use super::PlanNode;
use crate::context::CommandTag;
use crate::expr::{Expr, FunctionKey};
use crate::query::ResultShape;

/// The bodies of the functions that a statement calls. Inlined functions are not among them.
pub(crate) type FunctionBodies = HashMap<FunctionKey, Arc<FunctionBody>>;

/// The planned statements of a function.
#[derive(Debug)]
pub(crate) struct FunctionBody {
    /// The function's name, for error contexts.
    pub(crate) name: String,
    pub(crate) statements: Vec<BodyStatement>,
    /// True for STABLE and IMMUTABLE functions: the body uses its caller's snapshot and changes
    /// nothing.
    pub(crate) read_only: bool,
    /// True if the function returns a set of rows.
    pub(crate) returns_set: bool,
    pub(crate) shape: ResultShape,
    /// The values of the result, over the rows of the last statement.
    pub(crate) result: Vec<Expr>,
    /// True if the single value is itself the composite value to return.
    pub(crate) whole: bool,
}

/// One statement of a body.
#[derive(Debug)]
pub(crate) struct BodyStatement {
    pub(crate) root: Arc<PlanNode>,
    pub(crate) tag: CommandTag,
    /// Number of columns of the statement's rows.
    pub(crate) width: usize,
    /// True if the statement changes data or locks rows.
    pub(crate) writes: bool,
    /// True if the statement changes data.
    pub(crate) changes: bool,
}
