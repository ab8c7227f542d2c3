//! Stored definitions of FOREIGN KEY constraints (`docs/internals/format.md`, catalog).

use serde::{Deserialize, Serialize};

use crate::definition::constraint::{ConstraintTime, is_at_once};
use crate::definition::omitted::is_false;
use crate::rows::oid::Oid;

/// Action on the referencing rows when a referenced row is deleted or its key changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ReferentialAction {
    /// NO ACTION: the change is refused if rows still refer to the row when the constraint is
    /// checked.
    #[default]
    NoAction,
    /// RESTRICT: as NO ACTION, but never deferred.
    Restrict,
    /// CASCADE: the referencing rows are deleted, or take the new key.
    Cascade,
    /// SET NULL.
    SetNull,
    /// SET DEFAULT.
    SetDefault,
}

impl ReferentialAction {
    /// Returns PostgreSQL's letter (`pg_constraint.confupdtype`).
    pub fn letter(self) -> &'static str {
        match self {
            Self::NoAction => "a",
            Self::Restrict => "r",
            Self::Cascade => "c",
            Self::SetNull => "n",
            Self::SetDefault => "d",
        }
    }

    /// Returns the words of a definition.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        }
    }
}

/// A FOREIGN KEY constraint, as stored with the referencing table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// The constraint's number.
    pub oid: Oid,
    /// Name, unique among the table's constraints.
    pub name: String,
    /// Positions of the referencing columns.
    pub columns: Vec<u16>,
    /// The referenced table.
    pub references: Oid,
    /// Positions of the referenced columns, in the order of `columns`.
    pub referenced: Vec<u16>,
    /// The unique index of the referenced table that the constraint uses.
    pub index: Oid,
    /// ON UPDATE.
    #[serde(rename = "update", default, skip_serializing_if = "is_no_action")]
    pub on_update: ReferentialAction,
    /// ON DELETE.
    #[serde(rename = "delete", default, skip_serializing_if = "is_no_action")]
    pub on_delete: ReferentialAction,
    /// ON DELETE SET NULL (…), SET DEFAULT (…): positions of these columns; empty means all.
    #[serde(rename = "set", default, skip_serializing_if = "Vec::is_empty")]
    pub set_columns: Vec<u16>,
    /// MATCH FULL rather than MATCH SIMPLE.
    #[serde(rename = "full", default, skip_serializing_if = "is_false")]
    pub match_full: bool,
    /// Time at which the constraint is checked.
    #[serde(rename = "check", default, skip_serializing_if = "is_at_once")]
    pub check_time: ConstraintTime,
    /// NOT VALID: rows older than the constraint have not been tested.
    #[serde(rename = "unproved", default, skip_serializing_if = "is_false")]
    pub not_valid: bool,
    /// The foreign key of the partitioned parent that this one is a part of.
    #[serde(rename = "part", default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<Oid>,
    /// COMMENT ON CONSTRAINT.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl ForeignKey {
    /// Decides whether SET CONSTRAINTS may defer the constraint.
    pub fn is_deferrable(&self) -> bool {
        self.check_time != ConstraintTime::AtOnce
    }

    /// Returns the columns that ON DELETE SET NULL and SET DEFAULT set.
    pub fn columns_set_on_delete(&self) -> &[u16] {
        if self.set_columns.is_empty() { &self.columns } else { &self.set_columns }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_no_action(action: &ReferentialAction) -> bool {
    *action == ReferentialAction::NoAction
}
