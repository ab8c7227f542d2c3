//! COMMENT ON.

use niwaki_catalog::RelationKind;
use pg_query::protobuf::{CommentStmt, ObjectType};
use pg_query::{Node, NodeEnum};

use super::extension;
use super::function::function_in;
use super::nodes::{qualified, strings, unexpected};
use crate::error::{Result, SqlError};
use crate::utility::command_name::object_words;
use crate::utility::statement::{CommentTarget, Name, Utility};

pub(super) fn comment(s: &CommentStmt, source: &str) -> Result<Utility> {
    let parts: Vec<String> = match s.object.as_deref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::List(list)) => strings(&list.items),
        Some(NodeEnum::String(text)) => vec![text.sval.clone()],
        _ => Vec::new(),
    };
    let relation = |kind| -> Result<CommentTarget> {
        Ok(CommentTarget::Relation { kind, name: qualified(&parts)? })
    };
    // The last part belongs to the table that the other parts name.
    let within = || match parts.split_last() {
        Some((last, table)) if !table.is_empty() => Ok((qualified(table)?, last.clone())),
        Some(_) => Err(SqlError::new("42601", "column name must be qualified")),
        None => Err(unexpected("COMMENT")),
    };
    let single = || match parts.as_slice() {
        [one] => Ok(one.clone()),
        _ => Err(unexpected("COMMENT")),
    };
    let kind = ObjectType::try_from(s.objtype).unwrap_or(ObjectType::Undefined);
    let target = match kind {
        ObjectType::ObjectTable => relation(RelationKind::Table)?,
        ObjectType::ObjectIndex => relation(RelationKind::Index)?,
        ObjectType::ObjectSequence => relation(RelationKind::Sequence)?,
        ObjectType::ObjectView => relation(RelationKind::View)?,
        ObjectType::ObjectMatview => relation(RelationKind::MaterializedView)?,
        ObjectType::ObjectColumn => {
            let (relation, column) = within()?;
            CommentTarget::Column { relation, column }
        }
        ObjectType::ObjectTabconstraint => {
            let (relation, name) = within()?;
            CommentTarget::Constraint { relation, name }
        }
        kind @ (ObjectType::ObjectType | ObjectType::ObjectDomain) => {
            let domain = kind == ObjectType::ObjectDomain;
            CommentTarget::Type { name: type_named(s.object.as_deref())?, domain }
        }
        ObjectType::ObjectDomconstraint => {
            let Some(NodeEnum::List(list)) = s.object.as_deref().and_then(|o| o.node.as_ref())
            else {
                return Err(unexpected("COMMENT"));
            };
            let domain = type_named(list.items.first())?;
            CommentTarget::DomainConstraint { domain, name: single()? }
        }
        ObjectType::ObjectFunction | ObjectType::ObjectRoutine => {
            CommentTarget::Function(function_in(s.object.as_deref(), source)?)
        }
        ObjectType::ObjectTrigger => {
            let (relation, name) = within()?;
            CommentTarget::Trigger { relation, name }
        }
        ObjectType::ObjectSchema => CommentTarget::Schema(single()?),
        ObjectType::ObjectDatabase => CommentTarget::Database(single()?),
        ObjectType::ObjectExtension => return extension::comment(s.object.as_deref()),
        _ => {
            let words = object_words(s.objtype);
            return Err(SqlError::unsupported(format!("COMMENT ON {words}")));
        }
    };
    // An empty text also removes the comment.
    let text = (!s.comment.is_empty()).then(|| s.comment.clone());
    Ok(Utility::Comment { target, text })
}

/// Returns the name in a node that names a type.
fn type_named(node: Option<&Node>) -> Result<Name> {
    match node.and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::TypeName(name)) => qualified(&strings(&name.names)),
        _ => Err(unexpected("COMMENT")),
    }
}
