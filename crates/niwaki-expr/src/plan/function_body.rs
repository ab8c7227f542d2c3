//! Planned bodies of users' functions.

use std::sync::Arc;

use niwaki_env::hash::HashMap;

use super::PlanNode;
use crate::context::CommandTag;
use crate::expr::{Expr, FunctionKey};
use crate::query::ResultShape;

/// The bodies of the functions that a statement calls. Inlined functions are not among them.
pub type FunctionBodies = HashMap<FunctionKey, Arc<FunctionBody>>;

/// The planned statements of a function.
#[derive(Debug)]
pub struct FunctionBody {
    /// The function's name, for error contexts.
    pub name: String,
    /// The statements.
    pub statements: Vec<BodyStatement>,
    /// True for STABLE and IMMUTABLE functions: the body uses its caller's snapshot and changes
    /// nothing.
    pub read_only: bool,
    /// True if the function returns a set of rows.
    pub returns_set: bool,
    /// The shape of the result.
    pub shape: ResultShape,
    /// The values of the result, over the rows of the last statement.
    pub result: Vec<Expr>,
    /// True if the single value is itself the composite value to return.
    pub whole: bool,
}

/// One statement of a body.
#[derive(Debug)]
pub struct BodyStatement {
    /// The root step.
    pub root: Arc<PlanNode>,
    /// The kind of statement.
    pub tag: CommandTag,
    /// Number of columns of the statement's rows.
    pub width: usize,
    /// True if the statement changes data or locks rows.
    pub writes: bool,
    /// True if the statement changes data.
    pub changes: bool,
}
