//! CREATE, ALTER and DROP DATABASE.

use pg_query::NodeEnum;
use pg_query::protobuf::{self, DefElem, Node};

use super::nodes::{
    GLOBAL_TABLESPACE, default_tablespace, elements, int_of, role_name, string_of, switch_of,
    unexpected,
};
use super::setting::variable_set;
use crate::error::{Result, SqlError};
use crate::utility::statement::{DatabaseOptions, DatabaseStatement, Utility};

pub(super) fn create(s: &protobuf::CreatedbStmt) -> Result<Utility> {
    let (mut options, mut template) = (DatabaseOptions::default(), None);
    for element in distinct(&s.options)? {
        // DEFAULT
        let Some(value) = string_of(element) else { continue };
        match element.defname.as_str() {
            "template" => template = Some(value),
            "owner" => options.owner = Some(value),
            "encoding" => check_encoding(&value)?,
            "locale" | "lc_collate" | "lc_ctype" => check_locale(&element.defname, &value)?,
            "locale_provider" if value.eq_ignore_ascii_case("libc") => {}
            "locale_provider" => {
                return Err(SqlError::unsupported(format!("locale provider \"{value}\"")));
            }
            "tablespace" => check_database_tablespace(&value)?,
            "strategy"
                if ["wal_log", "file_copy"].iter().any(|s| value.eq_ignore_ascii_case(s)) => {}
            "strategy" => {
                let message = format!("invalid create database strategy \"{value}\"");
                return Err(SqlError::new("22023", message)
                    .with_hint("Valid strategies are \"wal_log\", and \"file_copy\"."));
            }
            _ => common(element, &mut options)?,
        }
    }
    let name = s.dbname.clone();
    Ok(Utility::Database(DatabaseStatement::Create { name, template, options }))
}

pub(super) fn alter(s: &protobuf::AlterDatabaseStmt) -> Result<Utility> {
    let mut options = DatabaseOptions::default();
    for element in distinct(&s.options)? {
        match element.defname.as_str() {
            // The grammar allows no option beside it.
            "tablespace" => {
                let (name, tablespace) = (s.dbname.clone(), string_of(element).unwrap_or_default());
                return Ok(Utility::Database(DatabaseStatement::Tablespace { name, tablespace }));
            }
            _ => common(element, &mut options)?,
        }
    }
    Ok(Utility::Database(DatabaseStatement::Alter { name: s.dbname.clone(), options }))
}

pub(super) fn set(s: &protobuf::AlterDatabaseSetStmt) -> Result<Utility> {
    let command = s.setstmt.as_ref().ok_or_else(|| unexpected("ALTER DATABASE"))?;
    let command = variable_set(command)?;
    Ok(Utility::Database(DatabaseStatement::Set { name: s.dbname.clone(), command }))
}

pub(super) fn drop(s: &protobuf::DropdbStmt) -> Utility {
    let force = elements(&s.options).any(|element| element.defname == "force");
    let (name, if_exists) = (s.dbname.clone(), s.missing_ok);
    Utility::Database(DatabaseStatement::Drop { name, if_exists, force })
}

pub(super) fn rename(s: &protobuf::RenameStmt) -> Utility {
    let (name, to) = (s.subname.clone(), s.newname.clone());
    Utility::Database(DatabaseStatement::Rename { name, to })
}

pub(super) fn owner(s: &protobuf::AlterOwnerStmt) -> Result<Utility> {
    let name = match s.object.as_deref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::String(name)) => name.sval.clone(),
        _ => return Err(unexpected("ALTER DATABASE")),
    };
    let role = role_name(s.newowner.as_ref())?;
    Ok(Utility::Database(DatabaseStatement::Owner { name, role }))
}

/// Returns the options; refuses duplicates.
fn distinct(options: &[Node]) -> Result<Vec<&DefElem>> {
    let found: Vec<&DefElem> = elements(options).collect();
    for (at, element) in found.iter().enumerate() {
        if found[..at].iter().any(|before| before.defname == element.defname) {
            return Err(SqlError::new("42601", "conflicting or redundant options"));
        }
    }
    Ok(found)
}

/// Reads an option that both CREATE and ALTER have.
fn common(element: &DefElem, options: &mut DatabaseOptions) -> Result<()> {
    match element.defname.as_str() {
        "allow_connections" => options.allow_connections = Some(switch_of(element)?),
        "is_template" => options.is_template = Some(switch_of(element)?),
        "connection_limit" => {
            let limit = int_of(element).unwrap_or(-1);
            let invalid = || SqlError::new("22023", format!("invalid connection limit: {limit}"));
            options.connection_limit = Some(match limit {
                -1 => None,
                _ => Some(u32::try_from(limit).map_err(|_| invalid())?),
            });
        }
        other => {
            let message = format!("option \"{other}\" not recognized");
            return Err(SqlError::new("42601", message));
        }
    }
    Ok(())
}

/// Checks the encoding: all texts are UTF-8.
fn check_encoding(name: &str) -> Result<()> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" | "6" => Ok(()),
        _ => Err(SqlError::unsupported(format!("encoding \"{name}\""))
            .with_hint("texts are stored in UTF-8")),
    }
}

/// Checks the locale: texts are ordered by their bytes.
fn check_locale(option: &str, name: &str) -> Result<()> {
    match name.to_ascii_lowercase().as_str() {
        "c" | "posix" | "c.utf-8" | "c.utf8" => Ok(()),
        _ => Err(SqlError::unsupported(format!("{option} \"{name}\""))
            .with_hint("texts are ordered by their bytes: name the locale \"C.UTF-8\"")),
    }
}

/// Fails for a tablespace that no database can have.
///
/// # Errors
/// 42704, as no tablespace can be made; 22023 for `pg_global`.
pub fn check_database_tablespace(name: &str) -> Result<()> {
    if name == GLOBAL_TABLESPACE {
        return Err(SqlError::new("22023", "pg_global cannot be used as default tablespace"));
    }
    default_tablespace(name)
}
