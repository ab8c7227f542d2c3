//! The row triggers that a statement fires.

use std::sync::Arc;

use niwaki_catalog::{TriggerEvent, TriggerTime};
use niwaki_types::Datum;

use crate::error::SqlError;
use crate::expr::Expr;
use crate::plpgsql::RowName;

/// The triggers that a change of a table fires, in the order of their names.
///
/// Their expressions read a row of three parts: the columns of the row before, those of the row after, and variables.
#[derive(Debug)]
pub(crate) struct RowTriggers {
    pub(crate) calls: Vec<Arc<TriggerCall>>,
    /// Columns of the table.
    pub(crate) width: usize,
    /// Those that are generated: what a trigger before the change sees as NULL.
    pub(crate) generated: Vec<usize>,
}

/// A trigger as one kind of change fires it.
#[derive(Debug)]
pub(crate) struct TriggerCall {
    pub(crate) name: String,
    /// Whether a partitioned table above has it.
    pub(crate) is_part: bool,
    pub(crate) time: TriggerTime,
    pub(crate) event: TriggerEvent,
    /// WHEN
    pub(crate) when: Option<Expr>,
    pub(crate) action: TriggerAction,
}

/// What a trigger calls.
#[derive(Debug)]
pub(crate) enum TriggerAction {
    /// `suppress_redundant_updates_trigger`
    SuppressRedundant,
    /// A function in PL/pgSQL.
    Body(TriggerBody),
}

/// A body whose names have their meanings.
#[derive(Debug)]
pub(crate) struct TriggerBody {
    /// The function as contexts of errors name it.
    pub(crate) function: String,
    pub(crate) steps: Vec<TriggerStep>,
    /// The values of `TG_OP` and its like.
    pub(crate) variables: Vec<Datum>,
}

/// A statement of a body.
#[derive(Debug)]
pub(crate) struct TriggerStep {
    pub(crate) line: u32,
    pub(crate) kind: StepKind,
}

/// What a statement of a body does.
#[derive(Debug)]
pub(crate) enum StepKind {
    /// Puts a value into a column of a row.
    Assign {
        row: RowName,
        column: usize,
        value: Expr,
        /// The statement as contexts of errors show it.
        text: String,
    },
    Return(Option<RowName>),
    /// What it means is wrong, which is said when it is reached.
    Wrong(SqlError),
}

impl RowTriggers {
    /// Those of one time and event.
    pub(crate) fn of(
        &self,
        time: TriggerTime,
        event: TriggerEvent,
    ) -> impl Iterator<Item = &Arc<TriggerCall>> {
        self.calls.iter().filter(move |call| call.time == time && call.event == event)
    }
}
