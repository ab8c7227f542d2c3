//! Statements on types: CREATE TYPE, ALTER TYPE, DROP TYPE.

use pg_query::protobuf::{self, DropBehavior, TypeName};
use pg_query::{Node, NodeEnum};

use super::read::{qualified, strings};
use super::statement::{Name, Utility};
use crate::error::{Result, SqlError};
use crate::parse::position_of;

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
    /// ALTER TYPE … ADD VALUE
    AddValue {
        /// The type.
        name: Name,
        /// The new label.
        label: String,
        /// IF NOT EXISTS
        if_not_exists: bool,
        /// The label beside which it goes, if that is said, and whether it goes behind that.
        neighbour: Option<(String, bool)>,
    },
    /// ALTER TYPE … RENAME VALUE
    RenameValue {
        /// The type.
        name: Name,
        /// The label as it is.
        from: String,
        /// The label as it will be.
        to: String,
    },
    /// DROP TYPE
    Drop {
        /// Types.
        names: Vec<Name>,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
    },
}

impl TypeStatement {
    /// The statement's command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateEnum { .. } => "CREATE TYPE",
            Self::AddValue { .. } | Self::RenameValue { .. } => "ALTER TYPE",
            Self::Drop { .. } => "DROP TYPE",
        }
    }
}

/// A type that a column's definition names, and that is none of PostgreSQL's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTypeName {
    /// Its name.
    pub name: Name,
    /// Whether an array of it is meant.
    pub array: bool,
}

/// The user's type that a syntax tree names.
pub(super) fn user_type(type_name: &TypeName, source: &str) -> Option<UserTypeName> {
    let plain = type_name.typmods.is_empty() && !type_name.setof && !type_name.pct_type;
    let name = qualified(&strings(&type_name.names)).ok().filter(|_| plain)?;
    Some(UserTypeName {
        name: Name { position: position_of(source, type_name.location), ..name },
        array: !type_name.array_bounds.is_empty(),
    })
}

pub(super) fn create_enum(s: &protobuf::CreateEnumStmt) -> Result<Utility> {
    let name = qualified(&strings(&s.type_name))?;
    Ok(Utility::Type(TypeStatement::CreateEnum { name, labels: strings(&s.vals) }))
}

pub(super) fn alter_enum(s: &protobuf::AlterEnumStmt) -> Result<Utility> {
    let name = qualified(&strings(&s.type_name))?;
    if !s.old_val.is_empty() {
        let (from, to) = (s.old_val.clone(), s.new_val.clone());
        return Ok(Utility::Type(TypeStatement::RenameValue { name, from, to }));
    }
    let neighbour =
        (!s.new_val_neighbor.is_empty()).then(|| (s.new_val_neighbor.clone(), s.new_val_is_after));
    Ok(Utility::Type(TypeStatement::AddValue {
        name,
        label: s.new_val.clone(),
        if_not_exists: s.skip_if_new_val_exists,
        neighbour,
    }))
}

pub(super) fn drop_types(s: &protobuf::DropStmt) -> Result<Utility> {
    let name = |node: &Node| match node.node.as_ref() {
        Some(NodeEnum::TypeName(name)) => qualified(&strings(&name.names)),
        _ => Err(SqlError::internal("DROP TYPE without a type")),
    };
    Ok(Utility::Type(TypeStatement::Drop {
        names: s.objects.iter().map(name).collect::<Result<_>>()?,
        if_exists: s.missing_ok,
        cascade: s.behavior == DropBehavior::DropCascade as i32,
    }))
}
