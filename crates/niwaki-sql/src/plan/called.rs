//! The users' functions that a statement calls.

use std::cell::RefCell;
use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::hash::HashMap;
use niwaki_types::TextSettings;

use super::FunctionBodies;
use crate::context::AnalyzeContext;
use crate::expr::{FunctionKey, UserFunction};
use crate::store::TableLock;

/// The users' functions that one statement calls, at any depth.
#[derive(Debug)]
pub struct CalledFunctions<'a> {
    /// Settings for literals in bodies: the session's, whatever settings an enclosing view has.
    pub(crate) text: &'a TextSettings,
    pub(crate) now: i64,
    pub(crate) found: RefCell<Found>,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) known: HashMap<FunctionKey, Arc<UserFunction>>,
    pub(crate) bodies: FunctionBodies,
    pub(crate) relations: Vec<(Arc<Relation>, TableLock)>,
}

impl<'a> CalledFunctions<'a> {
    pub(crate) fn new(context: &AnalyzeContext<'a>) -> Self {
        Self { text: context.text, now: context.now, found: RefCell::default() }
    }

    /// Returns the bodies, and the relations that these name.
    pub(crate) fn take(&self) -> (FunctionBodies, Vec<(Arc<Relation>, TableLock)>) {
        let found = self.found.take();
        (found.bodies, found.relations)
    }
}
