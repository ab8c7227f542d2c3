//! Answers privilege inquiries. One role may do everything, so the answer only says whether the
//! object exists.

use std::sync::Arc;

use niwaki_catalog::{Oid, builtin_functions, builtin_rows};
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::{ROLES, object_input};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};

use crate::functions::{EmitRow, Function, RowsFunction, T, functions};

fn wrong() -> SqlError {
    SqlError::internal("a privilege function was given values of other types")
}

/// A kind of object that privileges apply to.
struct Kind {
    /// The privileges of this kind.
    privileges: &'static [&'static str],
    /// Looks an object up by number; a missing object makes the answer NULL.
    exists: fn(&ExecContext<'_>, u32) -> bool,
    /// Looks an object up by name.
    named: fn(&ExecContext<'_>, &str) -> Result<()>,
}

fn named_object(exec: &ExecContext<'_>, name: &str, kind: TypeOid) -> Result<()> {
    object_input(name, kind, exec.catalog, exec.path).map(|_| ())
}

fn relation_exists(exec: &ExecContext<'_>, number: u32) -> bool {
    exec.catalog.relation(Oid(number)).is_some()
}

fn relation_named(exec: &ExecContext<'_>, name: &str) -> Result<()> {
    named_object(exec, name, TypeOid::REGCLASS)
}

const TABLE: Kind = Kind {
    privileges: &[
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "REFERENCES",
        "TRIGGER",
        "RULE",
    ],
    exists: relation_exists,
    named: relation_named,
};

const COLUMNS: Kind = Kind {
    privileges: &["SELECT", "INSERT", "UPDATE", "REFERENCES"],
    exists: relation_exists,
    named: relation_named,
};

const SEQUENCE: Kind = Kind {
    privileges: &["USAGE", "SELECT", "UPDATE"],
    exists: relation_exists,
    named: relation_named,
};

const SCHEMA: Kind = Kind {
    privileges: &["CREATE", "USAGE"],
    exists: |exec, number| exec.catalog.schema(Oid(number)).is_some(),
    named: |exec, name| match exec.catalog.schema_by_name(name) {
        Some(_) => Ok(()),
        None => Err(SqlError::undefined_schema(name)),
    },
};

const DATABASE: Kind = Kind {
    privileges: &["CREATE", "CONNECT", "TEMPORARY", "TEMP"],
    exists: |exec, number| exec.catalog.databases().get(Oid(number)).is_some(),
    named: |exec, name| crate::functions::catalog::objects::database_named(exec, name).map(drop),
};

const FUNCTION: Kind = Kind {
    privileges: &["EXECUTE"],
    exists: |_, number| builtin_functions().by_oid(number).is_some(),
    named: |exec, name| named_object(exec, name, TypeOid::REGPROCEDURE),
};

const TYPE: Kind = Kind {
    privileges: &["USAGE"],
    exists: crate::functions::catalog::objects::type_exists,
    named: |exec, name| named_object(exec, name, TypeOid::REGTYPE),
};

/// Decides whether a recorded catalog has a row with this number, or this name.
fn recorded(catalog: &str, number: Option<u32>, name: Option<&str>) -> bool {
    let number = number.map(|number| number.to_string());
    builtin_rows(catalog).into_iter().flat_map(|rows| rows.rows()).any(|mut row| {
        let (oid, own) = (row.next().flatten(), row.next().flatten());
        (number.is_some() && oid == number.as_deref()) || (name.is_some() && own == name)
    })
}

const LANGUAGE: Kind = Kind {
    privileges: &["USAGE"],
    exists: |_, number| recorded("pg_language", Some(number), None),
    named: |_, name| {
        if recorded("pg_language", None, Some(name)) {
            return Ok(());
        }
        Err(SqlError::new("42704", format!("language \"{name}\" does not exist")))
    },
};

const TABLESPACE: Kind = Kind {
    privileges: &["CREATE"],
    exists: |_, number| recorded("pg_tablespace", Some(number), None),
    named: |_, name| {
        if recorded("pg_tablespace", None, Some(name)) {
            return Ok(());
        }
        Err(SqlError::new("42704", format!("tablespace \"{name}\" does not exist")))
    },
};

/// Returns the number of a role; `None` for a number that no role has.
fn role(value: &Datum) -> Result<Option<u32>> {
    match value {
        Datum::Oid(number) => Ok(ROLES.iter().any(|(oid, _)| oid == number).then_some(*number)),
        Datum::Text(name) if &**name == "public" => Ok(Some(0)),
        Datum::Text(name) => match ROLES.iter().find(|(_, role)| **role == **name) {
            Some((oid, _)) => Ok(Some(*oid)),
            None => Err(SqlError::new("42704", format!("role \"{name}\" does not exist"))),
        },
        _ => Err(wrong()),
    }
}

/// Refuses a list with a privilege that this kind of object does not have.
fn check_privileges(kind: &Kind, list: &str) -> Result<()> {
    for item in list.split(',') {
        let item = item.trim();
        let word = item.to_ascii_uppercase();
        let word = word.strip_suffix(" WITH GRANT OPTION").unwrap_or(&word);
        if !kind.privileges.contains(&word) {
            return Err(SqlError::new("22023", format!("unrecognized privilege type: \"{item}\"")));
        }
    }
    Ok(())
}

/// `has_…_privilege([role,] object, privileges)`.
fn may(kind: &Kind, exec: &ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let (user, object, list) = match values {
        [object, Datum::Text(list)] => (None, object, list),
        [user, object, Datum::Text(list)] => (Some(user), object, list),
        _ => return Err(wrong()),
    };
    let user = match user.map(role).transpose()? {
        Some(None) => return Ok(Datum::Bool(false)),
        Some(Some(number)) => number,
        None => ROLES[0].0,
    };
    match object {
        Datum::Oid(number) => {
            check_privileges(kind, list)?;
            if !(kind.exists)(exec, *number) {
                return Ok(Datum::Null);
            }
        }
        Datum::Text(name) => {
            (kind.named)(exec, name)?;
            check_privileges(kind, list)?;
        }
        _ => return Err(wrong()),
    }
    if user != ROLES[0].0 {
        return Err(SqlError::unsupported("privileges of another role than the owner's"));
    }
    Ok(Datum::Bool(true))
}

fn table(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&TABLE, exec, values)
}
fn any_column(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&COLUMNS, exec, values)
}
fn sequence(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&SEQUENCE, exec, values)
}
fn schema(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&SCHEMA, exec, values)
}
fn database(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&DATABASE, exec, values)
}
fn function(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&FUNCTION, exec, values)
}
fn any_type(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&TYPE, exec, values)
}
fn language(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&LANGUAGE, exec, values)
}
fn tablespace(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    may(&TABLESPACE, exec, values)
}

/// `has_column_privilege(table, column, privileges)`; the column must be there.
fn column(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [before @ .., column, list] = values else { return Err(wrong()) };
    let mut without: Vec<Datum> = before.to_vec();
    without.push(list.clone());
    let allowed = may(&COLUMNS, exec, &without)?;
    let Some(object) = before.last() else { return Err(wrong()) };
    let oid = match object {
        Datum::Oid(oid) => *oid,
        Datum::Text(name) => {
            match object_input(name, TypeOid::REGCLASS, exec.catalog, exec.path)? {
                Datum::Oid(oid) => oid,
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    };
    let Some(relation) = exec.catalog.relation(Oid(oid)).map(Arc::clone) else {
        return Ok(allowed);
    };
    let found = match column {
        Datum::Text(name) => {
            if relation.column_position(name).is_none() {
                let message =
                    format!("column \"{name}\" of relation \"{}\" does not exist", relation.name);
                return Err(SqlError::new("42703", message));
            }
            true
        }
        Datum::Int2(number) => usize::try_from(*number)
            .ok()
            .and_then(|number| number.checked_sub(1))
            .is_some_and(|at| relation.columns.get(at).is_some_and(|column| !column.dropped)),
        _ => return Err(wrong()),
    };
    Ok(if found { allowed } else { Datum::Null })
}

/// `pg_has_role([user,] role, privilege)`: the owner is a member of both roles.
fn has_role(values: &[Datum]) -> Result<Datum> {
    let (user, other, list) = match values {
        [other, Datum::Text(list)] => (None, other, list),
        [user, other, Datum::Text(list)] => (Some(user), other, list),
        _ => return Err(wrong()),
    };
    let known = ["USAGE", "MEMBER"];
    for item in list.split(',').map(str::trim) {
        let word = item.to_ascii_uppercase();
        let word = word.strip_suffix(" WITH GRANT OPTION").unwrap_or(&word);
        let word = word.strip_suffix(" WITH ADMIN OPTION").unwrap_or(word);
        if !known.contains(&word) {
            return Err(SqlError::new("22023", format!("unrecognized privilege type: \"{item}\"")));
        }
    }
    let user = user.map_or(Ok(Some(ROLES[0].0)), role)?;
    let other = role(other)?;
    Ok(Datum::Bool(match (user, other) {
        (Some(user), Some(other)) => user == ROLES[0].0 || user == other,
        _ => false,
    }))
}

/// Returns the privileges of the owner and of PUBLIC on an object before any GRANT.
fn default_privileges(values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(kind), Datum::Oid(owner)] = values else { return Err(wrong()) };
    let name = match ROLES.iter().find(|(oid, _)| oid == owner) {
        Some((_, name)) => (*name).to_owned(),
        None => owner.to_string(),
    };
    let (everybody, own) = match &**kind {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        _ => {
            return Err(SqlError::new(
                "XX000",
                format!("unrecognized object type abbreviation: {kind}"),
            ));
        }
    };
    let mut items = Vec::new();
    if !everybody.is_empty() {
        items.push(Datum::text(&format!("={everybody}/{name}")));
    }
    if !own.is_empty() {
        items.push(Datum::text(&format!("{name}={own}/{name}")));
    }
    Ok(Datum::array(TypeOid::ACLITEM, items))
}

/// The words that the letters of an `aclitem` stand for.
const LETTERS: &[(char, &str)] = &[
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
    ('s', "SET"),
    ('A', "ALTER SYSTEM"),
];

static EXPLODE: RowsFunction = RowsFunction {
    columns: &[
        ("grantor", T::OID),
        ("grantee", T::OID),
        ("privilege_type", T::TEXT),
        ("is_grantable", T::BOOL),
    ],
    body: explode,
};

fn explode(_: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let [Datum::Array(_, items)] = values else { return Err(wrong()) };
    let number = |name: &str| {
        let found = ROLES.iter().find(|(_, role)| *role == name);
        Datum::Oid(found.map_or(0, |(oid, _)| *oid))
    };
    for item in items.iter() {
        let Datum::Text(item) = item else { continue };
        let Some((grantee, rest)) = item.split_once('=') else { return Err(wrong()) };
        let (letters, grantor) = rest.split_once('/').ok_or_else(wrong)?;
        for (at, letter) in letters.char_indices() {
            let Some((_, word)) = LETTERS.iter().find(|(own, _)| *own == letter) else { continue };
            let grantable =
                letters.get(at + letter.len_utf8()..).is_some_and(|r| r.starts_with('*'));
            emit(vec![
                number(grantor),
                number(grantee),
                Datum::text(word),
                Datum::Bool(grantable),
            ])?;
        }
    }
    Ok(())
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "has_table_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(table);
    "has_table_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(table);
    "has_table_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(table);
    "has_table_privilege" (OID, OID, TEXT) BOOL strict single stable Context(table);
    "has_table_privilege" (TEXT, TEXT) BOOL strict single stable Context(table);
    "has_table_privilege" (OID, TEXT) BOOL strict single stable Context(table);
    "has_any_column_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(any_column);
    "has_any_column_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(any_column);
    "has_any_column_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(any_column);
    "has_any_column_privilege" (OID, OID, TEXT) BOOL strict single stable Context(any_column);
    "has_any_column_privilege" (TEXT, TEXT) BOOL strict single stable Context(any_column);
    "has_any_column_privilege" (OID, TEXT) BOOL strict single stable Context(any_column);
    "has_sequence_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(sequence);
    "has_sequence_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(sequence);
    "has_sequence_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(sequence);
    "has_sequence_privilege" (OID, OID, TEXT) BOOL strict single stable Context(sequence);
    "has_sequence_privilege" (TEXT, TEXT) BOOL strict single stable Context(sequence);
    "has_sequence_privilege" (OID, TEXT) BOOL strict single stable Context(sequence);
    "has_schema_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(schema);
    "has_schema_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(schema);
    "has_schema_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(schema);
    "has_schema_privilege" (OID, OID, TEXT) BOOL strict single stable Context(schema);
    "has_schema_privilege" (TEXT, TEXT) BOOL strict single stable Context(schema);
    "has_schema_privilege" (OID, TEXT) BOOL strict single stable Context(schema);
    "has_database_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(database);
    "has_database_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(database);
    "has_database_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(database);
    "has_database_privilege" (OID, OID, TEXT) BOOL strict single stable Context(database);
    "has_database_privilege" (TEXT, TEXT) BOOL strict single stable Context(database);
    "has_database_privilege" (OID, TEXT) BOOL strict single stable Context(database);
    "has_function_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(function);
    "has_function_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(function);
    "has_function_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(function);
    "has_function_privilege" (OID, OID, TEXT) BOOL strict single stable Context(function);
    "has_function_privilege" (TEXT, TEXT) BOOL strict single stable Context(function);
    "has_function_privilege" (OID, TEXT) BOOL strict single stable Context(function);
    "has_type_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(any_type);
    "has_type_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(any_type);
    "has_type_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(any_type);
    "has_type_privilege" (OID, OID, TEXT) BOOL strict single stable Context(any_type);
    "has_type_privilege" (TEXT, TEXT) BOOL strict single stable Context(any_type);
    "has_type_privilege" (OID, TEXT) BOOL strict single stable Context(any_type);
    "has_language_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(language);
    "has_language_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(language);
    "has_language_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(language);
    "has_language_privilege" (OID, OID, TEXT) BOOL strict single stable Context(language);
    "has_language_privilege" (TEXT, TEXT) BOOL strict single stable Context(language);
    "has_language_privilege" (OID, TEXT) BOOL strict single stable Context(language);
    "has_tablespace_privilege" (NAME, TEXT, TEXT) BOOL strict single stable Context(tablespace);
    "has_tablespace_privilege" (NAME, OID, TEXT) BOOL strict single stable Context(tablespace);
    "has_tablespace_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(tablespace);
    "has_tablespace_privilege" (OID, OID, TEXT) BOOL strict single stable Context(tablespace);
    "has_tablespace_privilege" (TEXT, TEXT) BOOL strict single stable Context(tablespace);
    "has_tablespace_privilege" (OID, TEXT) BOOL strict single stable Context(tablespace);
    "has_column_privilege" (NAME, TEXT, TEXT, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (NAME, TEXT, INT2, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (NAME, OID, TEXT, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (NAME, OID, INT2, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (OID, TEXT, TEXT, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (OID, TEXT, INT2, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (OID, OID, TEXT, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (OID, OID, INT2, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (TEXT, TEXT, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (TEXT, INT2, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (OID, TEXT, TEXT) BOOL strict single stable Context(column);
    "has_column_privilege" (OID, INT2, TEXT) BOOL strict single stable Context(column);
    "pg_has_role" (NAME, NAME, TEXT) BOOL strict single stable Pure(has_role);
    "pg_has_role" (NAME, OID, TEXT) BOOL strict single stable Pure(has_role);
    "pg_has_role" (OID, NAME, TEXT) BOOL strict single stable Pure(has_role);
    "pg_has_role" (OID, OID, TEXT) BOOL strict single stable Pure(has_role);
    "pg_has_role" (NAME, TEXT) BOOL strict single stable Pure(has_role);
    "pg_has_role" (OID, TEXT) BOOL strict single stable Pure(has_role);
    "acldefault" (CHAR, OID) ACL strict single immutable Pure(default_privileges);
    "aclexplode" (ACL) RECORD strict single stable Rows(&EXPLODE);
};
