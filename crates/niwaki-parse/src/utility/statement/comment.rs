//! COMMENT ON.

use niwaki_catalog::RelationKind;

use super::{FunctionName, Name};

/// The object of a COMMENT statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentTarget {
    /// A table, index, sequence or view.
    Relation {
        /// The kind that the statement names.
        kind: RelationKind,
        /// Name.
        name: Name,
    },
    /// A column.
    Column {
        /// The table.
        relation: Name,
        /// Its column.
        column: String,
    },
    /// A constraint.
    Constraint {
        /// The table.
        relation: Name,
        /// Its constraint.
        name: String,
    },
    /// A type.
    Type {
        /// Name.
        name: Name,
        /// True if the statement says DOMAIN.
        domain: bool,
    },
    /// A constraint of a domain.
    DomainConstraint {
        /// The domain.
        domain: Name,
        /// Its constraint.
        name: String,
    },
    /// A function.
    Function(FunctionName),
    /// A trigger.
    Trigger {
        /// The table.
        relation: Name,
        /// Its trigger.
        name: String,
    },
    /// A schema.
    Schema(String),
    /// The database.
    Database(String),
}
