//! Names of catalog objects as values: the input and output of `regclass`, `regtype`, `regproc` and
//! similar types.

use niwaki_catalog::{
    CatalogState, Oid, SearchPath, builtin_functions, builtin_operators, builtin_types,
    collation_name,
};
use niwaki_parse::collation::collation_named;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{array_of, format_oid, type_by_name};
use niwaki_types::{Datum, TypeOid, quote_identifier};
use pg_query::NodeEnum;

use super::cast::{regclass_input, split_identifier};
use crate::context::ExecContext;

/// The roles: the owner of everything, and the role that stands for the database's owner.
pub const ROLES: [(u32, &str); 2] = [(10, "postgres"), (6171, "pg_database_owner")];

/// Reads the name (or the number) of an object of this kind.
///
/// # Errors
/// `42P01`, `42704`, `42883` or `3F000`, by kind, when no object has this name; `42725` when there
/// are several.
pub fn object_input(
    text: &str,
    kind: TypeOid,
    catalog: &CatalogState,
    path: &SearchPath,
) -> Result<Datum> {
    if kind == TypeOid::REGCLASS {
        return regclass_input(text, catalog, path);
    }
    let trimmed = text.trim();
    if trimmed == "-" {
        return Ok(Datum::Oid(0));
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return trimmed.parse().map(Datum::Oid).map_err(|_| {
            SqlError::new("22003", format!("value \"{trimmed}\" is out of range for type oid"))
        });
    }
    let found = match kind {
        TypeOid::REGTYPE => regtype(text, catalog, path)?,
        TypeOid::REGPROC => regproc(trimmed, catalog, path)?,
        TypeOid::REGPROCEDURE => regprocedure(trimmed, catalog, path)?,
        TypeOid::REGOPER => regoper(trimmed, catalog)?,
        TypeOid::REGOPERATOR => regoperator(trimmed, catalog, path)?,
        TypeOid::REGROLE => regrole(trimmed)?,
        TypeOid::REGNAMESPACE => regnamespace(trimmed, catalog)?,
        TypeOid::REGCOLLATION => regcollation(trimmed)?,
        _ => return Err(SqlError::internal("an object of no known kind")),
    };
    Ok(Datum::Oid(found))
}

/// Returns an object's name as its type shows it, or its number when there is no such object.
pub fn object_name(number: u32, kind: TypeOid, exec: &ExecContext<'_>) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let known = match kind {
        TypeOid::REGCLASS => relation_name(number, exec),
        TypeOid::REGTYPE => {
            let builtin = || builtin_types().by_oid(number).map(|_| format_oid(TypeOid(number)));
            let of_rows = || row_type_name(TypeOid(number), exec);
            exec.text.types.shown(TypeOid(number)).or_else(builtin).or_else(of_rows)
        }
        TypeOid::REGPROC => known_function(number, exec).then(|| function_name(number, exec)),
        TypeOid::REGPROCEDURE if exec.catalog.function(Oid(number)).is_some() => {
            exec.catalog.function(Oid(number)).map(|function| {
                let shown = |oid: &u32| type_name(TypeOid(*oid), exec);
                let arguments: Vec<String> = function.arguments.iter().map(shown).collect();
                let first = exec.catalog.resolve_function(
                    exec.path,
                    None,
                    &function.name,
                    &function.arguments,
                );
                let visible = first.is_some_and(|first| first.oid == function.oid);
                let schema = function.schema;
                format!(
                    "{}({})",
                    qualified(&function.name, schema, visible, exec),
                    arguments.join(",")
                )
            })
        }
        TypeOid::REGPROCEDURE => builtin_functions().by_oid(number).map(|function| {
            let arguments: Vec<String> =
                function.arguments.iter().map(|kind| format_oid(*kind)).collect();
            format!("{}({})", quote_identifier(function.name), arguments.join(","))
        }),
        TypeOid::REGOPER => {
            builtin_operators().by_oid(number).map(|operator| operator.name.to_owned())
        }
        TypeOid::REGOPERATOR => builtin_operators().by_oid(number).map(|operator| {
            let side = |kind: u32| match kind {
                0 => "NONE".to_owned(),
                kind => format_oid(TypeOid(kind)),
            };
            format!("{}({},{})", operator.name, side(operator.left), side(operator.right))
        }),
        TypeOid::REGROLE => {
            ROLES.iter().find(|(oid, _)| *oid == number).map(|(_, name)| quote_identifier(name))
        }
        TypeOid::REGNAMESPACE => {
            exec.catalog.schema(Oid(number)).map(|schema| quote_identifier(&schema.name))
        }
        TypeOid::REGCOLLATION => collation_name(Oid(number)).map(quote_identifier),
        _ => None,
    };
    known.unwrap_or_else(|| number.to_string())
}

/// Returns the name of a type without a modifier, with its schema if the search path does not find
/// the type.
pub fn type_name(oid: TypeOid, exec: &ExecContext<'_>) -> String {
    let of_user = exec.text.types.shown(oid).or_else(|| row_type_name(oid, exec));
    of_user.unwrap_or_else(|| format_oid(oid))
}

/// Returns the name of a relation's row type, or of an array of that type.
pub fn row_type_name(oid: TypeOid, exec: &ExecContext<'_>) -> Option<String> {
    let inner = oid.element().unwrap_or(oid);
    let number = inner.user_number().filter(|_| inner.is_composite())?;
    let name = relation_name(number, exec)?;
    Some(if inner == oid { name } else { format!("{name}[]") })
}

fn known_function(number: u32, exec: &ExecContext<'_>) -> bool {
    exec.catalog.function(Oid(number)).is_some() || builtin_functions().by_oid(number).is_some()
}

/// Returns the name of a function, with its schema if the name alone does not identify the
/// function.
pub fn function_name(number: u32, exec: &ExecContext<'_>) -> String {
    let Some(function) = exec.catalog.function(Oid(number)) else {
        let found = builtin_functions().by_oid(number);
        return found.map_or_else(|| number.to_string(), |found| quote_identifier(found.name));
    };
    let mut others = exec
        .catalog
        .functions_named(&function.name)
        .filter(|other| other.oid != function.oid && exec.path.schemas.contains(&other.schema));
    let alone = others.next().is_none()
        && exec.path.schemas.contains(&function.schema)
        && builtin_functions().named(&function.name).next().is_none();
    qualified(&function.name, function.schema, alone, exec)
}

/// Returns a name, with its schema unless `found` says that the name is found without it.
fn qualified(name: &str, schema: Oid, found: bool, exec: &ExecContext<'_>) -> String {
    let name = quote_identifier(name);
    match exec.catalog.schema(schema).filter(|_| !found) {
        Some(schema) => format!("{}.{name}", quote_identifier(&schema.name)),
        None => name,
    }
}

fn relation_name(number: u32, exec: &ExecContext<'_>) -> Option<String> {
    let Some(relation) = exec.catalog.relation(Oid(number)) else {
        // A composite type is a relation to PostgreSQL.
        return exec.text.types.shown(TypeOid::of_composite(number));
    };
    Some(exec.catalog.shown_relation(exec.path, relation))
}

/// Returns the name without its schema, if the schema holds built-in objects.
fn builtin_part(text: &str, kind: &str) -> Result<String> {
    let parts =
        split_identifier(text).ok_or_else(|| SqlError::new("42602", "invalid name syntax"))?;
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "pg_catalog" => Ok(name.clone()),
        [schema, _] if schema != "public" && schema != "information_schema" => {
            Err(SqlError::undefined_schema(schema))
        }
        _ => Err(SqlError::new("42883", format!("{kind} \"{text}\" does not exist"))),
    }
}

/// Returns the type that an SQL type name means, even a type that Niwaki does not have.
fn regtype(text: &str, catalog: &CatalogState, path: &SearchPath) -> Result<u32> {
    let syntax = || SqlError::new("42601", format!("invalid type name \"{text}\""));
    let parsed =
        niwaki_parse::parse::parse(&format!("SELECT NULL::{text}")).map_err(|_| syntax())?;
    let Some(NodeEnum::SelectStmt(select)) = parsed.first().map(|statement| &*statement.node)
    else {
        return Err(syntax());
    };
    let target = select.target_list.first().and_then(|node| node.node.as_ref());
    let Some(NodeEnum::ResTarget(target)) = target else { return Err(syntax()) };
    let value = target.val.as_ref().and_then(|value| value.node.as_ref());
    let Some(NodeEnum::TypeCast(cast)) = value else { return Err(syntax()) };
    let name = cast.type_name.as_ref().ok_or_else(syntax)?;
    let strings: Vec<&str> = name
        .names
        .iter()
        .filter_map(|node| match node.node.as_ref() {
            Some(NodeEnum::String(string)) => Some(string.sval.as_str()),
            _ => None,
        })
        .collect();
    let missing = || SqlError::new("42704", format!("type \"{}\" does not exist", text.trim()));
    let (schema, base) = match strings.as_slice() {
        [base] => (None, *base),
        [schema, base] => (Some(*schema), *base),
        _ => return Err(missing()),
    };
    let undefined = || match schema.filter(|schema| catalog.schema_by_name(schema).is_none()) {
        Some(schema) => SqlError::undefined_schema(schema),
        None => missing(),
    };
    let builtin = || {
        let known = type_by_name(base).map(|oid| oid.0);
        known.or_else(|| builtin_types().named(base).next().map(|kind| kind.oid))
    };
    // The type of a relation's rows has the relation's name.
    let of_rows = |name: &str| {
        let relation = catalog.resolve(path, schema, name).ok()?;
        relation.kind.has_row_type().then(|| TypeOid::of_composite(relation.oid.0))
    };
    let named = |name: &str| {
        let found = catalog.resolve_type(path, schema, name).map(|found| found.type_oid());
        found.or_else(|| of_rows(name))
    };
    // The array types have the same names behind an underscore.
    let array_named = || named(base.strip_prefix('_')?)?.array();
    let of_user = || named(base).or_else(array_named).map(|found| found.0);
    let found = match schema {
        None | Some("pg_catalog") => builtin().or_else(of_user),
        Some(_) => of_user(),
    };
    let found = found.ok_or_else(undefined)?;
    if name.array_bounds.is_empty() {
        return Ok(found);
    }
    let array = builtin_types().by_oid(found).map(|kind| kind.array).filter(|array| *array != 0);
    array.or_else(|| array_of(TypeOid(found)).map(|array| array.0)).ok_or_else(undefined)
}

fn only<T>(
    mut found: impl Iterator<Item = T>,
    missing: impl FnOnce() -> SqlError,
    several: impl FnOnce() -> SqlError,
) -> Result<T> {
    let first = found.next().ok_or_else(missing)?;
    if found.next().is_some() { Err(several()) } else { Ok(first) }
}

/// Fails unless there is a schema of this name.
fn schema_exists(schema: &str, catalog: &CatalogState) -> Result<()> {
    // These schemas exist, whatever the given catalog contains.
    const SYSTEM: [&str; 3] = ["pg_catalog", "public", "information_schema"];
    if SYSTEM.contains(&schema) || catalog.schema_by_name(schema).is_some() {
        Ok(())
    } else {
        Err(SqlError::undefined_schema(schema))
    }
}

/// Finds the functions that a name means, with the types of their arguments.
fn functions_meant(
    text: &str,
    catalog: &CatalogState,
    path: &SearchPath,
) -> Result<Vec<(u32, Vec<TypeOid>)>> {
    let parts =
        split_identifier(text).ok_or_else(|| SqlError::new("42602", "invalid name syntax"))?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        _ => (None, parts.last().ok_or_else(|| SqlError::new("42602", "invalid name syntax"))?),
    };
    if let Some(schema) = schema {
        schema_exists(schema, catalog)?;
    }
    let mut found = Vec::new();
    if schema.is_none_or(|schema| schema == "pg_catalog") {
        let named = builtin_functions().named(name);
        found.extend(named.map(|function| (function.oid, function.arguments.clone())));
    }
    let meant = |of: Oid| match schema {
        Some(schema) => catalog.schema_by_name(schema).map(|schema| schema.oid) == Some(of),
        None => path.schemas.contains(&of),
    };
    let of_users = catalog.functions_named(name).filter(|function| meant(function.schema));
    found.extend(of_users.map(|function| {
        (function.oid.0, function.arguments.iter().copied().map(TypeOid).collect())
    }));
    Ok(found)
}

fn regproc(text: &str, catalog: &CatalogState, path: &SearchPath) -> Result<u32> {
    let found = functions_meant(text, catalog, path)?;
    let missing = || SqlError::new("42883", format!("function \"{text}\" does not exist"));
    let several = || SqlError::new("42725", format!("more than one function named \"{text}\""));
    only(found.into_iter().map(|(oid, _)| oid), missing, several)
}

/// Reads the types between the parentheses of `name(type, …)`.
fn signature<'t>(
    text: &'t str,
    catalog: &CatalogState,
    path: &SearchPath,
) -> Result<(&'t str, Vec<TypeOid>)> {
    let (name, rest) = text
        .split_once('(')
        .ok_or_else(|| SqlError::new("22P02", "expected a left parenthesis"))?;
    let inner = rest
        .trim_end()
        .strip_suffix(')')
        .ok_or_else(|| SqlError::new("22P02", "expected a right parenthesis"))?;
    // Commas inside parentheses belong to a type.
    let mut depth = 0i32;
    let parts = inner.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    let kinds = parts.map(|part| match part {
        "NONE" | "none" => Ok(TypeOid(0)),
        part => regtype(part, catalog, path).map(TypeOid),
    });
    Ok((name.trim(), kinds.collect::<Result<Vec<_>>>()?))
}

fn regprocedure(text: &str, catalog: &CatalogState, path: &SearchPath) -> Result<u32> {
    let (name, arguments) = signature(text, catalog, path)?;
    let all = functions_meant(name, catalog, path)?;
    all.into_iter()
        .find(|(_, own)| *own == arguments)
        .map(|(oid, _)| oid)
        .ok_or_else(|| SqlError::new("42883", format!("function \"{text}\" does not exist")))
}

fn operator_name(text: &str) -> &str {
    text.strip_prefix("pg_catalog.").unwrap_or(text)
}

fn regoper(text: &str, catalog: &CatalogState) -> Result<u32> {
    // No operator has a point in its name.
    if let Some((schema, _)) = text.split_once('.') {
        schema_exists(schema, catalog)?;
    }
    let missing = || SqlError::new("42883", format!("operator does not exist: {text}"));
    let several = || SqlError::new("42725", format!("more than one operator named {text}"));
    let all = builtin_operators().named(operator_name(text));
    only(all.map(|operator| operator.oid), missing, several)
}

fn regoperator(text: &str, catalog: &CatalogState, path: &SearchPath) -> Result<u32> {
    let (name, arguments) = signature(text, catalog, path)?;
    let [left, right] = arguments.as_slice() else {
        return Err(SqlError::new("22P02", "expected two argument types of an operator"));
    };
    let mut all = builtin_operators().named(operator_name(name));
    all.find(|operator| (operator.left, operator.right) == (left.0, right.0))
        .map(|operator| operator.oid)
        .ok_or_else(|| SqlError::new("42883", format!("operator does not exist: {text}")))
}

fn single(text: &str) -> Result<String> {
    let mut parts =
        split_identifier(text).ok_or_else(|| SqlError::new("42602", "invalid name syntax"))?;
    match (parts.pop(), parts.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(SqlError::new("42602", "invalid name syntax")),
    }
}

fn regrole(text: &str) -> Result<u32> {
    let name = single(text)?;
    let found = ROLES.iter().find(|(_, role)| *role == name).map(|(oid, _)| *oid);
    found.ok_or_else(|| SqlError::new("42704", format!("role \"{name}\" does not exist")))
}

fn regnamespace(text: &str, catalog: &CatalogState) -> Result<u32> {
    let name = single(text)?;
    let found = catalog.schema_by_name(&name).map(|schema| schema.oid.0);
    found.ok_or_else(|| SqlError::undefined_schema(name))
}

fn regcollation(text: &str) -> Result<u32> {
    let name = builtin_part(text, "collation")?;
    collation_named(&[&name]).map(|oid| oid.0)
}
