//! The users' functions that a statement calls.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::hash::HashMap;
use niwaki_parse::error::Result;
use niwaki_txn::TableLockMode;
use niwaki_types::TextSettings;

use super::{FunctionBodies, PlanNode};
use crate::analysis::AnalyzeContext;
use crate::expr::{FunctionKey, UserFunction};
use crate::query::StatementQuery;

/// Rewrites and plans a statement of a function's body. Analysis reads the bodies, and planning is
/// above it.
pub(crate) type PlanBody = fn(StatementQuery, &AnalyzeContext<'_>) -> Result<PlanNode>;

/// The users' functions that one statement calls, at any depth.
#[derive(Debug)]
pub struct CalledFunctions<'a> {
    /// Settings for literals in bodies: the session's, whatever settings an enclosing view has.
    pub text: &'a TextSettings,
    /// The start of the transaction, for the literal `now`.
    pub now: i64,
    /// Plans the statements of bodies.
    pub plan: PlanBody,
    /// The functions that were found so far.
    pub found: RefCell<Found>,
}

#[derive(Debug, Default)]
pub struct Found {
    pub known: HashMap<FunctionKey, Arc<UserFunction>>,
    pub bodies: FunctionBodies,
    pub relations: Vec<(Arc<Relation>, TableLockMode)>,
}

impl<'a> CalledFunctions<'a> {
    /// Creates a collector without functions.
    pub fn new(context: &AnalyzeContext<'a>, plan: PlanBody) -> Self {
        Self { text: context.text, now: context.now, plan, found: RefCell::default() }
    }

    /// Returns the bodies, and the relations that these name.
    pub fn take(&self) -> (FunctionBodies, Vec<(Arc<Relation>, TableLockMode)>) {
        let found = self.found.take();
        (found.bodies, found.relations)
    }
}
