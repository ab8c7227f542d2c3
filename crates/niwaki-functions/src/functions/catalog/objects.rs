//! Functions on the catalog: visibility of names, numbers of named objects, places and sizes of
//! files.

use niwaki_catalog::{
    Oid, RelationKind, builtin_functions, builtin_operators, builtin_rows, builtin_types,
    builtin_value,
};
use niwaki_expr::context::ExecContext;
use niwaki_expr::definitions::Writable;
use niwaki_expr::expr::object_input;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};

use crate::functions::{EmitRow, Function, RowsFunction, T, functions};

fn wrong() -> SqlError {
    SqlError::internal("a catalog function was given values of other types")
}

fn oid(value: &Datum) -> Result<u32> {
    match value {
        Datum::Oid(number) => Ok(*number),
        _ => Err(wrong()),
    }
}

/// Returns true for an existing object, NULL for a missing one. No other schema can hide the
/// objects of `pg_catalog`.
fn visible(values: &[Datum], exists: impl Fn(u32) -> bool) -> Result<Datum> {
    let [number] = values else { return Err(wrong()) };
    Ok(if exists(oid(number)?) { Datum::Bool(true) } else { Datum::Null })
}

fn recorded(catalog: &str, number: u32) -> bool {
    let number = number.to_string();
    let rows = builtin_rows(catalog).into_iter().flat_map(|rows| rows.rows());
    rows.into_iter().any(|mut row| row.next().flatten() == Some(number.as_str()))
}

/// Decides whether a type has this number, PostgreSQL's or a user's.
pub(crate) fn type_exists(exec: &ExecContext<'_>, number: u32) -> bool {
    builtin_types().by_oid(number).is_some() || exec.text.types.shown(TypeOid(number)).is_some()
}

fn type_is_visible(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    if let [Datum::Oid(number)] = values
        && let Some(number) = TypeOid(*number).user_number()
    {
        let Some(found) = exec.catalog.user_type(Oid(number)) else {
            // The row type of a relation is visible where the relation is.
            let Some(relation) = exec.catalog.relation(Oid(number)) else { return Ok(Datum::Null) };
            let visible = exec.catalog.resolve(exec.path, None, &relation.name);
            return Ok(Datum::Bool(visible.is_ok_and(|visible| visible.oid == relation.oid)));
        };
        let visible = exec.catalog.resolve_type(exec.path, None, &found.name);
        return Ok(Datum::Bool(visible.is_some_and(|visible| visible.oid == found.oid)));
    }
    visible(values, |number| builtin_types().by_oid(number).is_some())
}
fn function_is_visible(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    if let [Datum::Oid(number)] = values
        && let Some(found) = exec.catalog.function(Oid(*number))
    {
        let first = exec.catalog.resolve_function(exec.path, None, &found.name, &found.arguments);
        return Ok(Datum::Bool(first.is_some_and(|first| first.oid == found.oid)));
    }
    visible(values, |number| builtin_functions().by_oid(number).is_some())
}
fn operator_is_visible(values: &[Datum]) -> Result<Datum> {
    visible(values, |number| builtin_operators().by_oid(number).is_some())
}
fn class_is_visible(values: &[Datum]) -> Result<Datum> {
    visible(values, |number| recorded("pg_opclass", number))
}
fn family_is_visible(values: &[Datum]) -> Result<Datum> {
    visible(values, |number| recorded("pg_opfamily", number))
}
fn collation_is_visible(values: &[Datum]) -> Result<Datum> {
    visible(values, |number| recorded("pg_collation", number))
}
/// Returns NULL: no objects of these kinds exist.
fn nothing_is_visible(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::Null)
}

/// `to_reg…(name)`: NULL for an unknown name.
fn to_object(exec: &ExecContext<'_>, values: &[Datum], kind: TypeOid) -> Result<Datum> {
    let [Datum::Text(name)] = values else { return Err(wrong()) };
    match object_input(name, kind, exec.catalog, exec.path) {
        Ok(found) => Ok(found),
        Err(error) if matches!(error.sqlstate, "42P01" | "42704" | "42883" | "42725" | "3F000") => {
            Ok(Datum::Null)
        }
        Err(error) => Err(error),
    }
}

fn to_regtype(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGTYPE)
}
fn to_regproc(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGPROC)
}
fn to_regprocedure(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGPROCEDURE)
}
fn to_regoper(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGOPER)
}
fn to_regoperator(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGOPERATOR)
}
fn to_regnamespace(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGNAMESPACE)
}
fn to_regrole(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGROLE)
}
fn to_regcollation(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    to_object(exec, values, TypeOid::REGCOLLATION)
}

/// Returns NULL for facts about replication; there is no standby.
fn null(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::Null)
}

fn never(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::Bool(false))
}

fn relation<'e>(
    exec: &'e ExecContext<'_>,
    value: &Datum,
) -> Result<Option<&'e std::sync::Arc<niwaki_catalog::Relation>>> {
    Ok(exec.catalog.relation(Oid(oid(value)?)))
}

fn is_publishable(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let own = exec.catalog.temporary_schema();
    let found = relation(exec, &values[0])?;
    Ok(found.map_or(Datum::Null, |relation| {
        let stored = relation.kind == RelationKind::Table;
        Datum::Bool(stored && relation.logged && Some(relation.schema) != own)
    }))
}

/// The bit of DELETE.
const DELETE: i32 = 16;
/// The bits of INSERT, UPDATE and DELETE.
const CHANGES: i32 = 8 + 4 + DELETE;

fn is_updatable(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let found = relation(exec, &values[0])?;
    let writable =
        found.map_or_else(Writable::default, |r| exec.definitions.writable(r, exec.catalog));
    Ok(Datum::Int4(match writable.values() {
        true => CHANGES,
        false if writable.rows => DELETE,
        false => 0,
    }))
}

fn column_is_updatable(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [_, Datum::Int2(number), _] = values else { return Err(wrong()) };
    let found = relation(exec, &values[0])?;
    let writable =
        found.map_or_else(Writable::default, |r| exec.definitions.writable(r, exec.catalog));
    let place = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
    let column = place.and_then(|place| writable.columns.get(place)).copied().unwrap_or(false);
    Ok(Datum::Bool(writable.rows && column))
}

fn file_number(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let found = relation(exec, &values[0])?.map(|relation| relation.file);
    let number = found.filter(|file| *file != 0).and_then(|file| u32::try_from(file).ok());
    Ok(number.map_or(Datum::Null, Datum::Oid))
}

fn last_value(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let found = relation(exec, &values[0])?;
    let Some(generator) = found.and_then(|relation| relation.number_generator.as_ref()) else {
        return Ok(Datum::Null);
    };
    let (value, is_called) = generator.state().map_err(niwaki_catalog::Error::from)?;
    Ok(if is_called { Datum::Int8(value) } else { Datum::Null })
}

/// Returns the database of this name.
pub(crate) fn database_named(exec: &ExecContext<'_>, name: &str) -> Result<Oid> {
    match exec.catalog.databases().by_name(name) {
        Some(database) => Ok(database.oid),
        None => Err(SqlError::new("3D000", format!("database \"{name}\" does not exist"))),
    }
}

fn database_size(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let database = match values {
        [Datum::Oid(number)] if exec.catalog.databases().get(Oid(*number)).is_some() => {
            Oid(*number)
        }
        [Datum::Oid(number)] => {
            let message = format!("database with OID {number} does not exist");
            return Err(SqlError::new("42704", message));
        }
        [Datum::Text(name)] => database_named(exec, name)?,
        _ => return Err(wrong()),
    };
    let bytes = exec.source.database_bytes(database)?;
    Ok(Datum::Int8(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

/// Returns the empty path: both tablespaces are in the database's directory.
fn tablespace_location(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Oid(1663 | 1664 | 0)] => Ok(Datum::text("")),
        _ => Ok(Datum::Null),
    }
}

static OPTIONS: RowsFunction =
    RowsFunction { columns: &[("option_name", T::TEXT), ("option_value", T::TEXT)], body: options };

/// Splits each `name=value` into name and value.
fn options(_: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let [Datum::Array(_, items)] = values else { return Err(wrong()) };
    for item in items.iter() {
        let Datum::Text(item) = item else { continue };
        let (name, value) = match item.split_once('=') {
            Some((name, value)) => (name, Datum::text(value)),
            None => (&**item, Datum::Null),
        };
        emit(vec![Datum::text(name), value])?;
    }
    Ok(())
}

static KEYWORDS: RowsFunction = RowsFunction {
    columns: &[
        ("word", T::TEXT),
        ("catcode", T::CHAR),
        ("barelabel", T::BOOL),
        ("catdesc", T::TEXT),
        ("baredesc", T::TEXT),
    ],
    body: keywords,
};

/// Lists the keywords of the grammar, each with the places where it may be a name.
fn keywords(_: &mut ExecContext<'_>, _: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let kinds = [TypeOid::TEXT, TypeOid::CHAR, TypeOid::BOOL, TypeOid::TEXT, TypeOid::TEXT];
    for row in builtin_rows("pg_get_keywords").into_iter().flat_map(|rows| rows.rows()) {
        emit(row.zip(kinds).map(|(text, kind)| builtin_value(text, kind)).collect())?;
    }
    Ok(())
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pg_get_keywords" () RECORD strict single stable Rows(&KEYWORDS);
    "pg_type_is_visible" (OID) BOOL strict single stable Context(type_is_visible);
    "pg_function_is_visible" (OID) BOOL strict single stable Context(function_is_visible);
    "pg_operator_is_visible" (OID) BOOL strict single stable Pure(operator_is_visible);
    "pg_opclass_is_visible" (OID) BOOL strict single stable Pure(class_is_visible);
    "pg_opfamily_is_visible" (OID) BOOL strict single stable Pure(family_is_visible);
    "pg_collation_is_visible" (OID) BOOL strict single stable Pure(collation_is_visible);
    "pg_conversion_is_visible" (OID) BOOL strict single stable Pure(nothing_is_visible);
    "pg_statistics_obj_is_visible" (OID) BOOL strict single stable Pure(nothing_is_visible);
    "pg_ts_config_is_visible" (OID) BOOL strict single stable Pure(nothing_is_visible);
    "pg_ts_dict_is_visible" (OID) BOOL strict single stable Pure(nothing_is_visible);
    "pg_ts_parser_is_visible" (OID) BOOL strict single stable Pure(nothing_is_visible);
    "pg_ts_template_is_visible" (OID) BOOL strict single stable Pure(nothing_is_visible);
    "to_regtype" (TEXT) REGTYPE strict single stable Context(to_regtype);
    "to_regproc" (TEXT) REGPROC strict single stable Context(to_regproc);
    "to_regprocedure" (TEXT) REGPROCEDURE strict single stable Context(to_regprocedure);
    "to_regoper" (TEXT) REGOPER strict single stable Context(to_regoper);
    "to_regoperator" (TEXT) REGOPERATOR strict single stable Context(to_regoperator);
    "to_regnamespace" (TEXT) REGNAMESPACE strict single stable Context(to_regnamespace);
    "to_regrole" (TEXT) REGROLE strict single stable Context(to_regrole);
    "to_regcollation" (TEXT) REGCOLLATION strict single stable Context(to_regcollation);
    "pg_get_replica_identity_index" (REGCLASS) REGCLASS strict single stable Context(identity_index);
    "pg_relation_is_publishable" (REGCLASS) BOOL strict single stable Context(is_publishable);
    "pg_relation_is_updatable" (REGCLASS, BOOL) INT4 strict single stable Context(is_updatable);
    "pg_column_is_updatable" (REGCLASS, INT2, BOOL) BOOL strict single stable Context(column_is_updatable);
    "pg_relation_filenode" (REGCLASS) OID strict single stable Context(file_number);
    "pg_sequence_last_value" (REGCLASS) INT8 strict single volatile Context(last_value);
    "pg_database_size" (OID) INT8 strict single volatile Context(database_size);
    "pg_database_size" (NAME) INT8 strict single volatile Context(database_size);
    "pg_tablespace_location" (OID) TEXT strict single stable Pure(tablespace_location);
    "pg_options_to_table" (TEXTS) RECORD strict single stable Rows(&OPTIONS);
    "row_security_active" (OID) BOOL strict single stable Pure(never);
    "row_security_active" (TEXT) BOOL strict single stable Pure(never);
    "pg_last_wal_receive_lsn" () LSN strict single volatile Pure(null);
    "pg_last_wal_replay_lsn" () LSN strict single volatile Pure(null);
    "pg_last_xact_replay_timestamp" () TIMESTAMPTZ strict single volatile Pure(null);
    "pg_is_wal_replay_paused" () BOOL strict single volatile Pure(not_recovering);
};

/// Returns the primary key's index: no other replica identity can be chosen.
fn identity_index(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let found = relation(exec, &values[0])?;
    let key = found.and_then(|relation| relation.indexes.get(relation.primary_key()?));
    Ok(key.map_or(Datum::Null, |index| Datum::Oid(index.oid.0)))
}

fn not_recovering(_: &[Datum]) -> Result<Datum> {
    Err(SqlError::new("55000", "recovery is not in progress")
        .with_hint("Recovery control functions can only be executed during recovery."))
}
