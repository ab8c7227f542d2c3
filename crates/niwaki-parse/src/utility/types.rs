//! Statements on types: CREATE TYPE, ALTER TYPE, DROP TYPE. The module `domain` reads statements on
//! domains.

use niwaki_types::ColumnType;
use pg_query::protobuf::{self, DropBehavior, ObjectType, TypeName};
use pg_query::{Node, NodeEnum};

use super::domain::{DomainAction, DomainSpec};
use super::read::{qualified, relation_name, strings, unexpected};
use super::read_table::{collation_of, type_of_column};
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

/// Returns the user's type that a syntax tree names.
pub(super) fn user_type(type_name: &TypeName, source: &str) -> Option<UserTypeName> {
    let plain = !type_name.setof && !type_name.pct_type;
    let name = qualified(&strings(&type_name.names)).ok().filter(|_| plain)?;
    Some(UserTypeName {
        name: Name { position: position_of(source, type_name.location), ..name },
        array: !type_name.array_bounds.is_empty(),
        modified: !type_name.typmods.is_empty(),
    })
}

pub(super) fn create_enum(s: &protobuf::CreateEnumStmt) -> Result<Utility> {
    let name = qualified(&strings(&s.type_name))?;
    Ok(Utility::Type(TypeStatement::CreateEnum { name, labels: strings(&s.vals) }))
}

pub(super) fn create_composite(s: &protobuf::CompositeTypeStmt, source: &str) -> Result<Utility> {
    let name = relation_name(s.typevar.as_ref(), source)?;
    let mut attributes: Vec<AttributeSpec> = Vec::with_capacity(s.coldeflist.len());
    for node in &s.coldeflist {
        let Some(NodeEnum::ColumnDef(c)) = node.node.as_ref() else {
            return Err(unexpected("CREATE TYPE"));
        };
        let type_name = c.type_name.as_ref().ok_or_else(|| unexpected("CREATE TYPE"))?;
        let (column_type, user_type) = type_of_column(&c.colname, type_name, source)?;
        let collation = collation_of(c.coll_clause.as_deref(), source)?;
        if attributes.iter().any(|known| known.name == c.colname) {
            let message = format!("column \"{}\" specified more than once", c.colname);
            return Err(SqlError::new("42701", message));
        }
        let name = c.colname.clone();
        attributes.push(AttributeSpec { name, column_type, user_type, collation });
    }
    Ok(Utility::Type(TypeStatement::CreateComposite { name, attributes }))
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

/// Returns the type (false) or domain (true) that the statement is on; `None` if it is on another
/// object.
pub(super) fn type_of_statement(kind: i32, object: Option<&Node>) -> Result<Option<(Name, bool)>> {
    let domain = match ObjectType::try_from(kind) {
        Ok(ObjectType::ObjectType) => false,
        Ok(ObjectType::ObjectDomain) => true,
        _ => return Ok(None),
    };
    match object.and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::List(list)) => Ok(Some((qualified(&strings(&list.items))?, domain))),
        _ => Err(SqlError::internal("a statement on a type without a name")),
    }
}

pub(super) fn drop_types(s: &protobuf::DropStmt) -> Result<Utility> {
    let name = |node: &Node| match node.node.as_ref() {
        Some(NodeEnum::TypeName(name)) => qualified(&strings(&name.names)),
        _ => Err(SqlError::internal("DROP TYPE without a type")),
    };
    Ok(Utility::Type(TypeStatement::Drop {
        domain: s.remove_type == ObjectType::ObjectDomain as i32,
        names: s.objects.iter().map(name).collect::<Result<_>>()?,
        if_exists: s.missing_ok,
        cascade: s.behavior == DropBehavior::DropCascade as i32,
    }))
}
