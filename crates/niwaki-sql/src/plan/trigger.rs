//! Triggers that wait for the end of their statement.

use std::sync::Arc;

use niwaki_types::Datum;

use super::FunctionBodies;
use crate::query::{RowTriggers, TriggerCall};

/// An AFTER trigger that fires when the statement has ended.
#[derive(Debug)]
pub struct FiredTrigger {
    pub(crate) triggers: Arc<RowTriggers>,
    pub(crate) call: Arc<TriggerCall>,
    pub(crate) old: Option<Vec<Datum>>,
    pub(crate) new: Option<Vec<Datum>>,
    /// Bodies of the users' functions that the trigger calls.
    pub(crate) functions: Option<Arc<FunctionBodies>>,
}
