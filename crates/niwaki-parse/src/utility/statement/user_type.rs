//! Statements on types: CREATE TYPE, ALTER TYPE, DROP TYPE. The module `domain` reads statements on
//! domains.

use niwaki_types::ColumnType;

use super::{DomainAction, DomainSpec, Name};

/// A statement on types.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeStatement {
    /// CREATE TYPE … AS ENUM
    CreateEnum {
        /// Name.
        name: Name,
        /// Labels in order.
        labels: Vec<String>,
    },
    /// CREATE TYPE … AS (…)
    CreateComposite {
        /// Name.
        name: Name,
        /// Attributes in order.
        attributes: Vec<AttributeSpec>,
    },
    /// ALTER TYPE … ADD VALUE
    AddValue {
        /// The type.
        name: Name,
        /// The new label.
        label: String,
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// The neighbouring label, if given, and whether the new label goes after it.
        neighbour: Option<(String, bool)>,
    },
    /// ALTER TYPE … RENAME VALUE
    RenameValue {
        /// The type.
        name: Name,
        /// The current label.
        from: String,
        /// The new label.
        to: String,
    },
    /// CREATE DOMAIN
    CreateDomain(Box<DomainSpec>),
    /// ALTER DOMAIN
    AlterDomain {
        /// The domain.
        name: Name,
        /// The action.
        action: DomainAction,
    },
    /// ALTER TYPE … RENAME TO, ALTER DOMAIN … RENAME TO
    Rename {
        /// The type.
        name: Name,
        /// Its new name.
        to: String,
        /// True if the statement says DOMAIN.
        domain: bool,
    },
    /// ALTER TYPE … OWNER TO, ALTER DOMAIN … OWNER TO
    Owner {
        /// The type.
        name: Name,
        /// The new owner.
        role: String,
        /// True if the statement says DOMAIN.
        domain: bool,
    },
    /// ALTER TYPE … SET SCHEMA, ALTER DOMAIN … SET SCHEMA
    SetSchema {
        /// The type.
        name: Name,
        /// Its new schema.
        schema: String,
        /// True if the statement says DOMAIN.
        domain: bool,
    },
    /// DROP TYPE, DROP DOMAIN
    Drop {
        /// True if the statement says DOMAIN.
        domain: bool,
        /// Types.
        names: Vec<Name>,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
}

impl TypeStatement {
    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateEnum { .. } | Self::CreateComposite { .. } => "CREATE TYPE",
            Self::CreateDomain(_) => "CREATE DOMAIN",
            Self::AlterDomain { .. }
            | Self::Rename { domain: true, .. }
            | Self::Owner { domain: true, .. }
            | Self::SetSchema { domain: true, .. } => "ALTER DOMAIN",
            Self::AddValue { .. }
            | Self::RenameValue { .. }
            | Self::Rename { .. }
            | Self::Owner { .. }
            | Self::SetSchema { .. } => "ALTER TYPE",
            Self::Drop { domain: true, .. } => "DROP DOMAIN",
            Self::Drop { .. } => "DROP TYPE",
        }
    }
}

/// An attribute of a new composite type.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeSpec {
    /// Its name.
    pub name: String,
    /// Its type, if it is a built-in type.
    pub column_type: ColumnType,
    /// Its type, if it is a user's type.
    pub user_type: Option<UserTypeName>,
    /// COLLATE, if given.
    pub collation: Option<niwaki_catalog::Oid>,
}

/// A type that a definition names and that is no built-in type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTypeName {
    /// Its name.
    pub name: Name,
    /// True if the array type is meant.
    pub array: bool,
    /// True if the type has a modifier, which users' types do not support.
    pub modified: bool,
}
