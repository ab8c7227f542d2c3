//! Statements on types: CREATE TYPE, ALTER TYPE, DROP TYPE. The module `domain` reads statements on
//! domains.

use pg_query::protobuf::{self, DropBehavior, ObjectType, TypeName};
use pg_query::{Node, NodeEnum};

use super::nodes::{qualified, relation_name, strings, unexpected};
use super::table::{collation_of, type_of_column};
use crate::error::{Result, SqlError};
use crate::parse::position_of;
use crate::utility::statement::{AttributeSpec, Name, TypeStatement, UserTypeName, Utility};

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
