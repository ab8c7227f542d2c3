//! Extensions: every database has the built-in ones, and no others exist.

use pg_query::NodeEnum;
use pg_query::protobuf::{CreateExtensionStmt, DropStmt, Node};

use super::nodes::unexpected;
use crate::error::{Result, SqlError};
use crate::utility::statement::{Extension, Utility};

/// All extensions, sorted by name.
pub const EXTENSIONS: &[Extension] = &[
    Extension {
        oid: 16_020,
        name: "pg_prewarm",
        version: "1.2",
        trusted: false,
        relocatable: true,
        schema: None,
        comment: "prewarm relation data",
    },
    Extension {
        oid: 16_021,
        name: "pg_visibility",
        version: "1.2",
        trusted: false,
        relocatable: true,
        schema: None,
        comment: "examine the visibility map (VM) and page-level visibility info",
    },
    Extension {
        oid: 16_022,
        name: "plpgsql",
        version: "1.0",
        trusted: true,
        relocatable: false,
        schema: Some("pg_catalog"),
        comment: "PL/pgSQL procedural language",
    },
];

fn is_there(name: &str) -> bool {
    EXTENSIONS.iter().any(|extension| extension.name == name)
}

/// Reads CREATE EXTENSION. As in PostgreSQL, the options do not matter if the extension exists.
///
/// # Errors
/// 42710 for an existing extension, without IF NOT EXISTS; 0A000 for any other.
pub(super) fn create(s: &CreateExtensionStmt) -> Result<Utility> {
    let name = &s.extname;
    if !is_there(name) {
        let message = format!("extension \"{name}\" is not available");
        return Err(SqlError::new("0A000", message)
            .with_detail("Niwaki loads no extensions: it has some of them built in.")
            .with_hint("pg_available_extensions shows which."));
    }
    let message = format!("extension \"{name}\" already exists");
    if !s.if_not_exists {
        return Err(SqlError::new("42710", message));
    }
    let notices = vec![("42710", format!("{message}, skipping"))];
    Ok(Utility::Nothing { tag: "CREATE EXTENSION", notices })
}

/// Reads DROP EXTENSION.
///
/// # Errors
/// 0A000 for an existing extension; 42704 for any other, without IF EXISTS.
pub(super) fn drop(s: &DropStmt) -> Result<Utility> {
    let mut notices = Vec::new();
    for node in &s.objects {
        let name = name_of(Some(node))?;
        if is_there(name) {
            return Err(SqlError::unsupported(format!("DROP EXTENSION \"{name}\"")));
        }
        if !s.missing_ok {
            return Err(does_not_exist(name));
        }
        notices.push(("00000", format!("extension \"{name}\" does not exist, skipping")));
    }
    Ok(Utility::Nothing { tag: "DROP EXTENSION", notices })
}

/// Reads COMMENT ON EXTENSION, which `pg_dump` writes. The comments of built-in extensions do not
/// change.
///
/// # Errors
/// 42704 for an unknown extension.
pub(super) fn comment(object: Option<&Node>) -> Result<Utility> {
    let name = name_of(object)?;
    if !is_there(name) {
        return Err(does_not_exist(name));
    }
    Ok(Utility::Nothing { tag: "COMMENT", notices: Vec::new() })
}

fn name_of(node: Option<&Node>) -> Result<&str> {
    match node.and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::String(name)) => Ok(&name.sval),
        _ => Err(unexpected("the name of an extension")),
    }
}

fn does_not_exist(name: &str) -> SqlError {
    SqlError::new("42704", format!("extension \"{name}\" does not exist"))
}
