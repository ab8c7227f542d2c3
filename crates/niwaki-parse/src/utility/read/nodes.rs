//! Parts that many statements share, read from nodes of the syntax tree.

use niwaki_env::stack::TooDeep;
use pg_query::protobuf::{self, DefElem, Node, RangeVar, a_const};
use pg_query::{DeparseOptions, NodeEnum};

use crate::error::{Result, SqlError};
use crate::parse::position_of;
use crate::utility::statement::{Name, Persistence};

/// Returns the role that a statement names. `CURRENT_USER` and similar have no name, and mean the
/// only role.
pub(super) fn role_name(role: Option<&protobuf::RoleSpec>) -> Result<String> {
    let role = role.ok_or_else(|| unexpected("OWNER TO"))?;
    let name = if role.rolename.is_empty() { "postgres" } else { &role.rolename };
    Ok(name.to_owned())
}

// Helpers for the readers of this module.

pub(super) fn unexpected(what: &str) -> SqlError {
    SqlError::unsupported(format!("this form of {what}"))
}

pub(super) fn boxed<'a>(node: Option<&'a Node>, what: &str) -> Result<&'a NodeEnum> {
    node.and_then(|n| n.node.as_ref()).ok_or_else(|| unexpected(what))
}

/// Returns the SQL text of an expression, as stored for defaults and checks.
///
/// # Errors
/// XX000 if the library cannot deparse what it parsed.
pub fn expression_text(node: &Node) -> Result<String> {
    let select = protobuf::SelectStmt {
        target_list: vec![Node {
            node: Some(NodeEnum::ResTarget(Box::new(protobuf::ResTarget {
                val: Some(Box::new(node.clone())),
                ..protobuf::ResTarget::default()
            }))),
        }],
        limit_option: protobuf::LimitOption::Default as i32,
        op: protobuf::SetOperation::SetopNone as i32,
        ..protobuf::SelectStmt::default()
    };
    let text = text_of(select).map_err(|error| unwritten("an expression", &error))?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_owned())
}

/// Returns the SQL text of a query, as stored for views.
///
/// # Errors
/// XX000 if the library cannot deparse what it parsed.
pub fn query_text(select: &protobuf::SelectStmt) -> Result<String> {
    text_of(select.clone()).map_err(|error| unwritten("a query", &error))
}

/// Returns the text of a query. The library's own method for a node copies the tree first.
fn text_of(select: protobuf::SelectStmt) -> pg_query::Result<String> {
    let node = Node { node: Some(NodeEnum::SelectStmt(Box::new(select))) };
    let statement = protobuf::RawStmt { stmt: Some(Box::new(node)), ..Default::default() };
    // The library does not look at the version.
    let parsed = protobuf::ParseResult { version: 0, stmts: vec![statement] };
    pg_query::deparse(&parsed, DeparseOptions::default())
}

fn unwritten(what: &str, error: &pg_query::Error) -> SqlError {
    let error = error.to_string();
    if error.contains("stack depth limit") || error.contains("protobuf") {
        return SqlError::from(TooDeep);
    }
    SqlError::internal(format!("could not write {what}: {error}"))
}

/// Name of the tablespace for what all databases share. Users cannot put relations there.
pub(super) const GLOBAL_TABLESPACE: &str = "pg_global";

/// Fails for the name of a tablespace that is not the default one. All relations are there.
///
/// # Errors
/// 42704, as no other tablespace can be made; 22023 for `pg_global`.
pub(super) fn default_tablespace(name: &str) -> Result<()> {
    match name {
        "" | "pg_default" => Ok(()),
        GLOBAL_TABLESPACE => {
            let message = "only shared relations can be placed in pg_global tablespace";
            Err(SqlError::new("22023", message))
        }
        _ => Err(SqlError::new("42704", format!("tablespace \"{name}\" does not exist"))),
    }
}

pub(super) fn relation_name(relation: Option<&RangeVar>, source: &str) -> Result<Name> {
    let r = relation.ok_or_else(|| unexpected("statement without a relation"))?;
    Ok(Name {
        database: (!r.catalogname.is_empty()).then(|| r.catalogname.clone()),
        schema: (!r.schemaname.is_empty()).then(|| r.schemaname.clone()),
        name: r.relname.clone(),
        position: position_of(source, r.location),
        only: !r.inh,
    })
}

/// Returns the persistence given before TABLE or SEQUENCE, or by the schema name.
pub(super) fn persistence(relation: Option<&RangeVar>) -> Persistence {
    match relation.map(|r| (r.relpersistence.as_str(), r.schemaname.as_str())) {
        Some(("u", _)) => Persistence::Unlogged,
        Some(("t", _) | (_, "pg_temp")) => Persistence::Temporary,
        _ => Persistence::Permanent,
    }
}

pub(super) fn names(nodes: &[Node], source: &str) -> Result<Vec<Name>> {
    nodes
        .iter()
        .map(|n| match n.node.as_ref() {
            Some(NodeEnum::RangeVar(r)) => relation_name(Some(r), source),
            _ => Err(unexpected("list of tables")),
        })
        .collect()
}

pub(super) fn qualified(parts: &[String]) -> Result<Name> {
    match parts {
        [name] => Ok(Name { name: name.clone(), ..Name::default() }),
        [schema, name] => {
            Ok(Name { schema: Some(schema.clone()), name: name.clone(), ..Name::default() })
        }
        [database, schema, name] => Ok(Name {
            database: Some(database.clone()),
            schema: Some(schema.clone()),
            name: name.clone(),
            ..Name::default()
        }),
        _ => Err(unexpected("qualified name")),
    }
}

pub(super) fn strings(nodes: &[Node]) -> Vec<String> {
    nodes
        .iter()
        .filter_map(|n| match n.node.as_ref() {
            Some(NodeEnum::String(s)) => Some(s.sval.clone()),
            _ => None,
        })
        .collect()
}

pub(super) fn elements(nodes: &[Node]) -> impl Iterator<Item = &DefElem> {
    nodes.iter().filter_map(|n| match n.node.as_ref() {
        Some(NodeEnum::DefElem(d)) => Some(&**d),
        _ => None,
    })
}

/// Returns the text of an option's value, whatever its form; `None` if there is no value.
pub(super) fn string_of(element: &DefElem) -> Option<String> {
    match element.arg.as_deref()?.node.as_ref()? {
        NodeEnum::String(s) => Some(s.sval.clone()),
        NodeEnum::Integer(i) => Some(i.ival.to_string()),
        NodeEnum::Float(f) => Some(f.fval.clone()),
        NodeEnum::Boolean(b) => Some(b.boolval.to_string()),
        NodeEnum::TypeName(t) => Some(strings(&t.names).pop()?),
        NodeEnum::AConst(c) => match &c.val {
            Some(a_const::Val::Ival(v)) => Some(v.ival.to_string()),
            Some(a_const::Val::Fval(v)) => Some(v.fval.clone()),
            Some(a_const::Val::Sval(v)) => Some(v.sval.clone()),
            Some(a_const::Val::Boolval(v)) => Some(v.boolval.to_string()),
            None if !c.isnull => Some("0".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn int_of(element: &DefElem) -> Option<i64> {
    string_of(element)?.parse().ok()
}

/// Reads a Boolean option, which is on without a value. It accepts fewer words than settings do.
pub(super) fn switch_of(element: &DefElem) -> Result<bool> {
    let Some(text) = string_of(element) else { return Ok(true) };
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => {
            let message = format!("{} requires a Boolean value", element.defname);
            Err(SqlError::new("42601", message))
        }
    }
}

/// Returns the WITH options as written; options of a namespace (`toast.…`) have its name as a
/// prefix.
pub(super) fn options(nodes: &[Node]) -> Vec<(String, Option<String>)> {
    let name = |e: &DefElem| match e.defnamespace.as_str() {
        "" => e.defname.clone(),
        namespace => format!("{namespace}.{}", e.defname),
    };
    elements(nodes).map(|e| (name(e), string_of(e))).collect()
}
