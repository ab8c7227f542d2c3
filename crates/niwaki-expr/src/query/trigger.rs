//! The row triggers that a statement fires.

use std::sync::Arc;

use niwaki_catalog::{TriggerEvent, TriggerTime};
use niwaki_parse::error::SqlError;
use niwaki_types::Datum;

use crate::expr::Expr;

/// The triggers that a change of a table fires, in the order of their names.
///
/// Their expressions read a row of three parts: the columns of the old row, the columns of the new
/// row, and variables.
#[derive(Debug)]
pub struct RowTriggers {
    /// The triggers.
    pub calls: Vec<Arc<TriggerCall>>,
    /// Number of columns of the table.
    pub width: usize,
    /// Generated columns. A BEFORE trigger sees them as NULL.
    pub generated: Vec<usize>,
}

/// A trigger, for one kind of change that fires it.
#[derive(Debug)]
pub struct TriggerCall {
    /// The name of the trigger.
    pub name: String,
    /// True if the trigger belongs to a partitioned table above this one.
    pub is_part: bool,
    /// The moment of the call.
    pub time: TriggerTime,
    /// The change that fires it.
    pub event: TriggerEvent,
    /// The WHEN condition.
    pub when: Option<Expr>,
    /// The action.
    pub action: TriggerAction,
}

/// The action of a trigger.
#[derive(Debug)]
pub enum TriggerAction {
    /// `suppress_redundant_updates_trigger`
    SuppressRedundant,
    /// A function in PL/pgSQL.
    Body(TriggerBody),
}

/// One of the two rows that a body names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowName {
    /// `NEW`
    New,
    /// `OLD`
    Old,
}

impl RowName {
    /// Returns the name as expressions write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Old => "old",
        }
    }

    /// Returns the row of this name, in lower case.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::New, Self::Old].into_iter().find(|row| row.word() == word)
    }
}

/// A function body whose names are resolved.
#[derive(Debug)]
pub struct TriggerBody {
    /// The function's name in error contexts.
    pub function: String,
    /// The statements.
    pub steps: Vec<TriggerStep>,
    /// The values of `TG_OP` and the other special variables.
    pub variables: Vec<Datum>,
}

/// A statement of a body.
#[derive(Debug)]
pub struct TriggerStep {
    /// The line of the statement, from 1.
    pub line: u32,
    /// The kind of statement.
    pub kind: StepKind,
}

/// The kinds of body statements.
#[derive(Debug)]
pub enum StepKind {
    /// An assignment of a value to a column of a row.
    Assign {
        /// The row.
        row: RowName,
        /// The column.
        column: usize,
        /// The value.
        value: Expr,
        /// The statement's text in error contexts.
        text: String,
    },
    /// RETURN, with the row that it names.
    Return(Option<RowName>),
    /// A statement with an analysis error. The error is raised when execution reaches the
    /// statement.
    Wrong(SqlError),
}

impl RowTriggers {
    /// Returns the triggers of one time and event.
    pub fn of(
        &self,
        time: TriggerTime,
        event: TriggerEvent,
    ) -> impl Iterator<Item = &Arc<TriggerCall>> {
        self.calls.iter().filter(move |call| call.time == time && call.event == event)
    }
}
