//! Triggers that wait for the end of their statement.

use std::sync::Arc;

use niwaki_types::Datum;

use super::FunctionBodies;
use crate::query::{RowTriggers, TriggerCall};

/// An AFTER trigger that fires when the statement has ended.
#[derive(Debug)]
pub struct FiredTrigger {
    /// The triggers of the table.
    pub triggers: Arc<RowTriggers>,
    /// The trigger that fires.
    pub call: Arc<TriggerCall>,
    /// The row before the change.
    pub old: Option<Vec<Datum>>,
    /// The row after the change.
    pub new: Option<Vec<Datum>>,
    /// Bodies of the users' functions that the trigger calls.
    pub functions: Option<Arc<FunctionBodies>>,
}
