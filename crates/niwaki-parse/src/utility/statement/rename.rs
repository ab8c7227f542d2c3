//! DROP and RENAME.

use niwaki_catalog::RelationKind;

use super::Name;

/// DROP of relations or schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// The kind of the relations; `None` for schemas.
    pub kind: Option<RelationKind>,
    /// The names.
    pub names: Vec<Name>,
    /// IF EXISTS
    pub if_exists: bool,
    /// CASCADE
    pub cascade: bool,
    /// CONCURRENTLY
    pub concurrently: bool,
}

impl Drop {
    /// Returns the statement's words for messages.
    pub fn word(&self) -> &'static str {
        match self.kind {
            None => "DROP SCHEMA",
            Some(RelationKind::Index) => "DROP INDEX",
            Some(RelationKind::Sequence) => "DROP SEQUENCE",
            Some(RelationKind::View) => "DROP VIEW",
            Some(RelationKind::MaterializedView) => "DROP MATERIALIZED VIEW",
            Some(RelationKind::Table) => "DROP TABLE",
        }
    }
}

/// Returns the command tag of an ALTER that names a relation of this kind.
pub fn alter_tag(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::Table => "ALTER TABLE",
        RelationKind::Index => "ALTER INDEX",
        RelationKind::Sequence => "ALTER SEQUENCE",
        RelationKind::View => "ALTER VIEW",
        RelationKind::MaterializedView => "ALTER MATERIALIZED VIEW",
    }
}

/// ALTER … RENAME
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The relation.
    pub relation: Name,
    /// The kind that the statement names.
    pub kind: RelationKind,
    /// The renamed object.
    pub target: RenameTarget,
    /// New name.
    pub to: String,
    /// IF EXISTS
    pub if_exists: bool,
}

/// The renamed object of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenameTarget {
    /// The relation itself.
    Relation,
    /// A column of the relation.
    Column(String),
    /// A constraint of the relation.
    Constraint(String),
}
