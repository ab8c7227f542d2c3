//! The users' functions that a statement calls.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::hash::HashMap;
use niwaki_parse::error::Result;
use niwaki_types::TextSettings;

use super::{FunctionBodies, PlanNode};
use crate::context::AnalyzeContext;
use crate::expr::{FunctionKey, UserFunction};
use crate::query::StatementQuery;
use crate::store::TableLock;

/// Rewrites and plans a statement of a function's body. Analysis reads the bodies, and planning is
/// above it.
pub(crate) type PlanBody = fn(StatementQuery, &AnalyzeContext<'_>) -> Result<PlanNode>;

/// The users' functions that one statement calls, at any depth.
#[derive(Debug)]
pub struct CalledFunctions<'a> {
    /// Settings for literals in bodies: the session's, whatever settings an enclosing view has.
    pub(crate) text: &'a TextSettings,
    pub(crate) now: i64,
    pub(crate) plan: PlanBody,
    pub(crate) found: RefCell<Found>,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) known: HashMap<FunctionKey, Arc<UserFunction>>,
    pub(crate) bodies: FunctionBodies,
    pub(crate) relations: Vec<(Arc<Relation>, TableLock)>,
}

impl<'a> CalledFunctions<'a> {
    pub(crate) fn new(context: &AnalyzeContext<'a>, plan: PlanBody) -> Self {
        Self { text: context.text, now: context.now, plan, found: RefCell::default() }
    }

    /// Returns the bodies, and the relations that these name.
    pub(crate) fn take(&self) -> (FunctionBodies, Vec<(Arc<Relation>, TableLock)>) {
        let found = self.found.take();
        (found.bodies, found.relations)
    }
}
