//! Statements on triggers: CREATE TRIGGER, DROP TRIGGER, ALTER TRIGGER.

use niwaki_catalog::TriggerTime;

use super::Name;

/// CREATE TRIGGER
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "an event each")]
pub struct CreateTrigger {
    /// Name.
    pub name: String,
    /// OR REPLACE
    pub replace: bool,
    /// The table.
    pub table: Name,
    /// The time of firing.
    pub time: TriggerTime,
    /// INSERT
    pub insert: bool,
    /// DELETE
    pub delete: bool,
    /// UPDATE
    pub update: bool,
    /// UPDATE OF
    pub columns: Vec<String>,
    /// WHEN, as SQL text.
    pub when: Option<String>,
    /// The function.
    pub function: Name,
    /// The arguments of the function.
    pub arguments: Vec<String>,
}

/// The triggers that ALTER TABLE … ENABLE TRIGGER names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichTriggers {
    /// The trigger of this name.
    Named(String),
    /// USER: all triggers except the internal ones of constraints.
    User,
    /// ALL
    All,
}

/// A statement on triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerStatement {
    /// CREATE TRIGGER
    Create(Box<CreateTrigger>),
    /// DROP TRIGGER
    Drop {
        /// The table.
        table: Name,
        /// Its trigger.
        name: String,
        /// IF EXISTS
        if_exists: bool,
    },
    /// ALTER TRIGGER … RENAME TO
    Rename {
        /// The table.
        table: Name,
        /// Its trigger.
        name: String,
        /// The new name.
        to: String,
    },
}

impl TriggerStatement {
    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create(_) => "CREATE TRIGGER",
            Self::Drop { .. } => "DROP TRIGGER",
            Self::Rename { .. } => "ALTER TRIGGER",
        }
    }
}
