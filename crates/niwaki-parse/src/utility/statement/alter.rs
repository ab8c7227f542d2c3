//! The actions of ALTER TABLE.

use niwaki_catalog::{ConstraintTime, Identity, TriggerMode};
use niwaki_types::ColumnType;

use super::{
    BoundSpec, ColumnSpec, ConstraintSpec, Name, SequenceOptions, UserTypeName, WhichTriggers,
};

/// One action of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterCommand {
    /// ADD COLUMN, with its column constraints.
    AddColumn {
        /// The column.
        column: Box<ColumnSpec>,
        /// Its constraints.
        constraints: Vec<ConstraintSpec>,
        /// IF NOT EXISTS
        if_not_exists: bool,
    },
    /// DROP COLUMN
    DropColumn {
        /// Column.
        name: String,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
    /// ALTER COLUMN
    Column {
        /// Column.
        name: String,
        /// The action.
        action: AlterColumn,
    },
    /// ADD CONSTRAINT, ADD PRIMARY KEY, …
    AddConstraint(ConstraintSpec),
    /// ADD CONSTRAINT … USING INDEX
    AddConstraintUsingIndex {
        /// Constraint name, if given.
        name: Option<String>,
        /// True for PRIMARY KEY, false for UNIQUE.
        primary: bool,
        /// Index.
        index: String,
        /// DEFERRABLE, and INITIALLY DEFERRED.
        check_time: ConstraintTime,
    },
    /// DROP CONSTRAINT
    DropConstraint {
        /// Constraint.
        name: String,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
    /// VALIDATE CONSTRAINT
    ValidateConstraint(String),
    /// ALTER CONSTRAINT: changes the time of the check.
    AlterConstraint {
        /// Constraint.
        name: String,
        /// DEFERRABLE, and INITIALLY DEFERRED.
        check_time: ConstraintTime,
    },
    /// ATTACH PARTITION
    AttachPartition {
        /// Table.
        name: Name,
        /// The partition bound.
        bound: BoundSpec,
    },
    /// ATTACH PARTITION of an index.
    AttachIndex(Name),
    /// DETACH PARTITION
    DetachPartition(Name),
    /// ENABLE TRIGGER, DISABLE TRIGGER
    EnableTrigger {
        /// The triggers.
        which: WhichTriggers,
        /// The sessions in which the triggers then fire.
        mode: TriggerMode,
    },
    /// OWNER TO
    Owner(String),
    /// SET (…)
    SetOptions(Vec<(String, Option<String>)>),
    /// RESET (…)
    ResetOptions(Vec<String>),
    /// SET TABLESPACE: accepted for the one tablespace, without effect.
    SetTablespace,
    /// Accepted, without effect in Niwaki.
    Nothing,
}

impl AlterCommand {
    /// Returns the words of the action for messages.
    pub fn words(&self) -> &'static str {
        match self {
            Self::AddColumn { .. } => "ADD COLUMN",
            Self::DropColumn { .. } => "DROP COLUMN",
            Self::Column { action, .. } => action.words(),
            Self::AddConstraint(_) | Self::AddConstraintUsingIndex { .. } => "ADD CONSTRAINT",
            Self::DropConstraint { .. } => "DROP CONSTRAINT",
            Self::ValidateConstraint(_) => "VALIDATE CONSTRAINT",
            Self::AlterConstraint { .. } => "ALTER CONSTRAINT",
            Self::AttachPartition { .. } | Self::AttachIndex(_) => "ATTACH PARTITION",
            Self::DetachPartition(_) => "DETACH PARTITION",
            Self::EnableTrigger { mode: TriggerMode::Disabled, .. } => "DISABLE TRIGGER",
            Self::EnableTrigger { .. } => "ENABLE TRIGGER",
            Self::Owner(_) => "OWNER TO",
            Self::SetOptions(_) => "SET",
            Self::ResetOptions(_) => "RESET",
            Self::SetTablespace => "SET TABLESPACE",
            Self::Nothing => "SET WITHOUT",
        }
    }
}

/// An action of ALTER COLUMN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterColumn {
    /// SET DEFAULT, DROP DEFAULT
    Default(Option<String>),
    /// SET NOT NULL
    SetNotNull,
    /// DROP NOT NULL
    DropNotNull,
    /// TYPE
    Type {
        /// The new type; `UNKNOWN` for a user's type.
        column_type: ColumnType,
        /// The name of the new type, if it is no built-in type.
        user_type: Option<UserTypeName>,
        /// COLLATE, if given.
        collation: Option<niwaki_catalog::Oid>,
        /// USING, as SQL text.
        using: Option<String>,
    },
    /// ADD GENERATED … AS IDENTITY, with the options of its sequence.
    AddIdentity(Identity, Box<SequenceOptions>),
    /// SET GENERATED, SET and RESTART of an identity column.
    SetIdentity(Option<Identity>, Box<SequenceOptions>),
    /// DROP IDENTITY
    DropIdentity {
        /// IF EXISTS
        if_exists: bool,
    },
    /// DROP EXPRESSION
    DropExpression {
        /// IF EXISTS
        if_exists: bool,
    },
    /// SET STATISTICS: accepted, without effect.
    Statistics,
    /// SET STORAGE and similar, by name: accepted for tables, without effect.
    Nothing(&'static str),
}

impl AlterColumn {
    /// Returns the words of the action for messages.
    fn words(&self) -> &'static str {
        match self {
            Self::Default(_) => "ALTER COLUMN ... SET DEFAULT",
            Self::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
            Self::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
            Self::Type { .. } => "ALTER COLUMN ... SET DATA TYPE",
            Self::AddIdentity(..) => "ALTER COLUMN ... ADD IDENTITY",
            Self::SetIdentity(..) => "ALTER COLUMN ... SET IDENTITY",
            Self::DropIdentity { .. } => "ALTER COLUMN ... DROP IDENTITY",
            Self::DropExpression { .. } => "ALTER COLUMN ... DROP EXPRESSION",
            Self::Statistics => "ALTER COLUMN ... SET STATISTICS",
            Self::Nothing(action) => action,
        }
    }
}
