//! Statements on domains: CREATE DOMAIN, ALTER DOMAIN.

use niwaki_types::ColumnType;

use super::{Name, UserTypeName};

/// CREATE DOMAIN
#[derive(Clone, Debug, PartialEq)]
pub struct DomainSpec {
    /// Name.
    pub name: Name,
    /// The base type, if it is a built-in type.
    pub column_type: ColumnType,
    /// The base type, if it is a user's type.
    pub user_type: Option<UserTypeName>,
    /// COLLATE, if given.
    pub collation: Option<niwaki_catalog::Oid>,
    /// NOT NULL
    pub not_null: bool,
    /// The DEFAULT: not given, NULL, or an expression's text.
    pub default: Option<Option<String>>,
    /// CHECK constraints, in order: given names and expression texts.
    pub checks: Vec<(Option<String>, String)>,
}

/// An action of ALTER DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub enum DomainAction {
    /// SET DEFAULT, DROP DEFAULT
    Default(Option<String>),
    /// SET NOT NULL (true), DROP NOT NULL
    NotNull(bool),
    /// ADD CONSTRAINT
    AddCheck {
        /// The given name.
        name: Option<String>,
        /// The expression's text.
        expression: String,
        /// NOT VALID
        not_valid: bool,
    },
    /// DROP CONSTRAINT
    DropConstraint {
        /// Its name.
        name: String,
        /// IF EXISTS
        if_exists: bool,
    },
    /// VALIDATE CONSTRAINT
    Validate(String),
    /// RENAME CONSTRAINT
    RenameConstraint {
        /// The current name.
        from: String,
        /// The new name.
        to: String,
    },
}
