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
pub(crate) struct RowTriggers {
    pub(crate) calls: Vec<Arc<TriggerCall>>,
    /// Number of columns of the table.
    pub(crate) width: usize,
    /// Generated columns. A BEFORE trigger sees them as NULL.
    pub(crate) generated: Vec<usize>,
}

/// A trigger, for one kind of change that fires it.
#[derive(Debug)]
pub(crate) struct TriggerCall {
    pub(crate) name: String,
    /// True if the trigger belongs to a partitioned table above this one.
    pub(crate) is_part: bool,
    pub(crate) time: TriggerTime,
    pub(crate) event: TriggerEvent,
    /// The WHEN condition.
    pub(crate) when: Option<Expr>,
    pub(crate) action: TriggerAction,
}

/// The action of a trigger.
#[derive(Debug)]
pub(crate) enum TriggerAction {
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
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Old => "old",
        }
    }

    /// Returns the row of this name, in lower case.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        [Self::New, Self::Old].into_iter().find(|row| row.word() == word)
    }
}

/// A function body whose names are resolved.
#[derive(Debug)]
pub(crate) struct TriggerBody {
    /// The function's name in error contexts.
    pub(crate) function: String,
    pub(crate) steps: Vec<TriggerStep>,
    /// The values of `TG_OP` and the other special variables.
    pub(crate) variables: Vec<Datum>,
}

/// A statement of a body.
#[derive(Debug)]
pub(crate) struct TriggerStep {
    pub(crate) line: u32,
    pub(crate) kind: StepKind,
}

/// The kinds of body statements.
#[derive(Debug)]
pub(crate) enum StepKind {
    /// An assignment of a value to a column of a row.
    Assign {
        row: RowName,
        column: usize,
        value: Expr,
        /// The statement's text in error contexts.
        text: String,
    },
    Return(Option<RowName>),
    /// A statement with an analysis error. The error is raised when execution reaches the
    /// statement.
    Wrong(SqlError),
}

impl RowTriggers {
    /// Returns the triggers of one time and event.
    pub(crate) fn of(
        &self,
        time: TriggerTime,
        event: TriggerEvent,
    ) -> impl Iterator<Item = &Arc<TriggerCall>> {
        self.calls.iter().filter(move |call| call.time == time && call.event == event)
    }
}
