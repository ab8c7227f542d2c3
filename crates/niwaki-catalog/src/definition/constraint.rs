//! Stored definitions of constraints (`docs/internals/format.md`, catalog).

use serde::{Deserialize, Serialize};

use crate::definition::omitted::is_false;
use crate::rows::oid::Oid;

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Constraint name, unique in the table or domain.
    pub name: String,
    /// SQL text of the condition over the table's columns, or over VALUE for a domain's check.
    pub expression: String,
    /// NOT VALID: rows older than the constraint have not been tested.
    #[serde(rename = "unproved", default, skip_serializing_if = "is_false")]
    pub not_valid: bool,
    /// NO INHERIT, which is shown and has no effect, because no table inherits.
    #[serde(rename = "own", default, skip_serializing_if = "is_false")]
    pub no_inherit: bool,
    /// COMMENT ON CONSTRAINT.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Kind of a constraint that an index enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConstraintKind {
    /// PRIMARY KEY.
    PrimaryKey,
    /// UNIQUE.
    Unique,
}

/// PRIMARY KEY or UNIQUE, as declared. The constraint has the name of its index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// The kind of the constraint.
    pub kind: ConstraintKind,
    /// The index that enforces the constraint.
    pub index: Oid,
}

/// Time at which a constraint is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ConstraintTime {
    /// NOT DEFERRABLE: checked with each row.
    #[default]
    AtOnce,
    /// DEFERRABLE INITIALLY IMMEDIATE: checked at the end of the statement, unless SET CONSTRAINTS
    /// says otherwise.
    Statement,
    /// DEFERRABLE INITIALLY DEFERRED: checked at the end of the transaction, unless SET CONSTRAINTS
    /// says otherwise.
    Transaction,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
pub(crate) fn is_at_once(v: &ConstraintTime) -> bool {
    *v == ConstraintTime::AtOnce
}
