//! Functions on the session, its settings, sequences and the catalog.

use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::row_type_name;
use niwaki_parse::error::{Result, Severity, SqlError};
use niwaki_storage::Corruption;
use niwaki_types::{ColumnType, Datum, Numeric, TypeOid};

use crate::functions::{Function, functions};

fn wrong() -> SqlError {
    SqlError::internal("a system function was given values of other types")
}

fn oid(value: &Datum) -> Result<u32> {
    match value {
        Datum::Oid(number) => Ok(*number),
        _ => Err(wrong()),
    }
}

fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(text) => Ok(text),
        _ => Err(wrong()),
    }
}

fn string(text: String) -> Datum {
    Datum::Text(text.into())
}

fn nextval(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    exec.environment.nextval(oid(&values[0])?).map(Datum::Int8)
}

fn currval(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    exec.environment.currval(oid(&values[0])?).map(Datum::Int8)
}

fn lastval(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    exec.environment.lastval().map(Datum::Int8)
}

fn setval(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let (sequence, value, is_called) = match values {
        [sequence, Datum::Int8(value)] => (sequence, *value, true),
        [sequence, Datum::Int8(value), Datum::Bool(is_called)] => (sequence, *value, *is_called),
        _ => return Err(wrong()),
    };
    exec.environment.setval(oid(sequence)?, value, is_called).map(Datum::Int8)
}

fn current_setting(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let name = text(&values[0])?;
    match exec.environment.setting(name) {
        Some(value) => Ok(string(value)),
        None if matches!(values.get(1), Some(Datum::Bool(true))) => Ok(Datum::Null),
        None => {
            Err(SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\"")))
        }
    }
}

fn set_config(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [name, value, local] = values else { return Err(wrong()) };
    if name.is_null() {
        return Err(SqlError::new("22004", "SET requires parameter name"));
    }
    // NULL means the default, and NULL as third argument the session.
    let value = if value.is_null() { None } else { Some(text(value)?) };
    let local = matches!(local, Datum::Bool(true));
    exec.environment.set_setting(text(name)?, value, local).map(string)
}

fn version(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let number = exec.environment.setting("server_version").unwrap_or_default();
    Ok(string(format!("PostgreSQL {number} (Niwaki {})", env!("CARGO_PKG_VERSION"))))
}

fn current_user(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(string(exec.environment.current_user()))
}

fn session_user(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(string(exec.environment.session_user()))
}

fn current_database(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(match exec.catalog.database() {
        Some(database) => Datum::text(&database.name),
        None => Datum::Null,
    })
}

/// `niwaki_check(table)`: visits a table and its indexes while no session writes to the table.
/// Fails with the first violated invariants, and returns the number of visited blocks otherwise.
fn check_table(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    const SHOWN_MAX: usize = 10;
    let oid = Oid(oid(&values[0])?);
    let Some(relation) = exec.catalog.relation(oid).cloned() else { return Ok(Datum::Null) };
    let Some(table) = &relation.table else {
        return Err(SqlError::new("42809", format!("\"{}\" is not a table", relation.name))
            .with_hint("The check of a table visits its indexes too."));
    };
    exec.environment.lock_against_writers(oid.0)?;
    let report = table.check()?;
    if report.corruptions.is_empty() {
        return Ok(Datum::Int8(report.blocks.cast_signed()));
    }
    let show = |found: &Corruption| {
        let place = |name: &str, number: Option<u32>| {
            number.map_or_else(String::new, |number| format!(", {name} {number}"))
        };
        let (block, item) = (place("block", found.block), place("item", found.item.map(u32::from)));
        format!("{}: {}{block}{item}: {}", found.invariant, found.file, found.detail)
    };
    let shown: Vec<String> = report.corruptions.iter().take(SHOWN_MAX).map(show).collect();
    let message =
        format!("table \"{}\" is damaged in {} places", relation.name, report.corruptions.len());
    Err(SqlError::new("XX001", message).with_detail(shown.join("\n")).with_hint(
        "REINDEX mends indexes. Copy the data directory before anything else is tried on a damaged table.",
    ))
}

/// Returns the existing schemas of the search path, in order. The implicit schemas come before the
/// listed ones; they are included only if `implicit`.
fn schemas(exec: &ExecContext<'_>, implicit: bool) -> Vec<String> {
    let path = exec.path;
    let listed = path.schemas.iter().skip_while(|schema| Some(**schema) != path.creation);
    let all = path.schemas.iter();
    let wanted: Vec<Oid> =
        if implicit { all.copied().collect() } else { listed.copied().collect() };
    let found = wanted.into_iter().filter_map(|schema| exec.catalog.schema(schema));
    found.map(|schema| schema.name.clone()).collect()
}

fn current_schema(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(schemas(exec, false).into_iter().next().map_or(Datum::Null, string))
}

fn current_schemas(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Bool(implicit)] = values else { return Err(wrong()) };
    let names: Vec<Datum> = schemas(exec, *implicit).into_iter().map(string).collect();
    Ok(Datum::array(TypeOid::NAME, names))
}

fn backend_pid(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(exec.source.session_id()))
}

fn pg_sleep(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Float8(seconds)] = values else { return Err(wrong()) };
    if *seconds > 0.0 {
        // A year is long enough; the conversion saturates.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounded to a year, and positive"
        )]
        exec.environment.sleep((seconds.min(31_536_000.0) * 1e6) as u64)?;
    }
    // A void function shows an empty string.
    Ok(Datum::text(""))
}

/// `pg_get_indexdef(index [, column, pretty])`.
fn index_definition(exec: &mut ExecContext<'_>, arguments: &[Datum]) -> Result<Datum> {
    let Some(Datum::Oid(oid)) = arguments.first() else { return Ok(Datum::Null) };
    let Some(relation) = exec.catalog.relation(Oid(*oid)) else { return Ok(Datum::Null) };
    let (pretty, path) = (matches!(arguments.get(2), Some(Datum::Bool(true))), exec.path);
    let text = match arguments.get(1) {
        Some(Datum::Int4(number)) if *number != 0 => {
            usize::try_from(*number).ok().and_then(|number| {
                exec.definitions.index_column(exec.catalog, relation, number, path, pretty)
            })
        }
        _ => exec.definitions.index(exec.catalog, relation, path, pretty),
    };
    // A missing column has an empty text; a relation that is not an index has no definition.
    let is_column = matches!(arguments.get(1), Some(Datum::Int4(number)) if *number != 0);
    let nothing = if is_column && relation.index.is_some() { Datum::text("") } else { Datum::Null };
    Ok(text.map_or(nothing, |text| Datum::Text(text.into())))
}

fn table_is_visible(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let number = oid(&values[0])?;
    let Some(relation) = exec.catalog.relation(Oid(number)) else {
        // A composite type is a relation, too.
        let composite = exec.catalog.user_type(Oid(number));
        let composite = composite.filter(|found| found.attributes().is_some());
        return Ok(composite.map_or(Datum::Null, |found| {
            let visible = exec.catalog.resolve_type(exec.path, None, &found.name);
            Datum::Bool(visible.is_some_and(|visible| visible.oid == found.oid))
        }));
    };
    let found = exec.catalog.resolve(exec.path, None, &relation.name);
    Ok(Datum::Bool(found.is_ok_and(|f| f.oid == relation.oid)))
}

/// Returns the schema of the session's temporary relations; 0 before the first one.
fn my_temp_schema(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::Oid(exec.catalog.temporary_schema().map_or(0, |schema| schema.0)))
}

/// Returns false: a session sees no temporary schema of another session.
fn is_other_temp_schema(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::Bool(false))
}

fn relation_bytes(exec: &ExecContext<'_>, relation: u32, forks: &[&str]) -> Result<Option<i64>> {
    if exec.catalog.relation(Oid(relation)).is_none() {
        return Ok(None);
    }
    let mut sum = 0u64;
    for fork in forks {
        sum += exec.source.relation_bytes(exec.catalog, Oid(relation), fork)?;
    }
    i64::try_from(sum).map(Some).map_err(|_| crate::functions::number::operators::range("bigint"))
}

fn size(value: Option<i64>) -> Datum {
    value.map_or(Datum::Null, Datum::Int8)
}

/// PostgreSQL's names of forks; a relation here has no `init` fork.
pub(crate) const FORKS: [&str; 4] = ["main", "fsm", "vm", "init"];

pub(crate) fn fork_name(fork: &str) -> Result<&'static str> {
    FORKS.into_iter().find(|name| *name == fork).ok_or_else(|| {
        SqlError::new("22023", "invalid fork name")
            .with_hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")
    })
}

fn relation_size(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let fork = match values.get(1) {
        Some(fork) => text(fork)?,
        None => "main",
    };
    relation_bytes(exec, oid(&values[0])?, &[fork_name(fork)?]).map(size)
}

/// The files of a table without its indexes: its forks, and its large values.
const TABLE_PARTS: &[&str] = &["main", "fsm", "vm", "values"];

fn table_size(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    relation_bytes(exec, oid(&values[0])?, TABLE_PARTS).map(size)
}

fn all_indexes_size(exec: &ExecContext<'_>, relation: u32) -> Result<Option<i64>> {
    let Some(table) = exec.catalog.relation(Oid(relation)).cloned() else { return Ok(None) };
    let mut sum = 0;
    for index in &table.indexes {
        sum += relation_bytes(exec, index.oid.0, &["main"])?.unwrap_or(0);
    }
    Ok(Some(sum))
}

fn indexes_size(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    all_indexes_size(exec, oid(&values[0])?).map(size)
}

fn total_relation_size(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let relation = oid(&values[0])?;
    let table = relation_bytes(exec, relation, TABLE_PARTS)?;
    let indexes = all_indexes_size(exec, relation)?.unwrap_or(0);
    Ok(size(table.map(|t| t + indexes)))
}

fn wal_insert_lsn(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::Lsn(exec.source.wal_insert_lsn()))
}

fn wal_flush_lsn(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::Lsn(exec.source.wal_flushed_lsn()))
}

fn wal_lsn_diff(a: &Datum, b: &Datum) -> Result<Datum> {
    let (Datum::Lsn(a), Datum::Lsn(b)) = (a, b) else { return Err(wrong()) };
    let difference = i128::from(*a) - i128::from(*b);
    Ok(Datum::Numeric(Arc::new(Numeric::parse(&difference.to_string())?)))
}

fn lsn_of_bytes(bytes: &Datum) -> Result<Datum> {
    let Datum::Numeric(bytes) = bytes else { return Err(wrong()) };
    Ok(Datum::Lsn(niwaki_types::numeric_to_lsn(bytes)?))
}

fn lsn_larger(a: &Datum, b: &Datum) -> Result<Datum> {
    let (Datum::Lsn(a), Datum::Lsn(b)) = (a, b) else { return Err(wrong()) };
    Ok(Datum::Lsn(*a.max(b)))
}

fn lsn_smaller(a: &Datum, b: &Datum) -> Result<Datum> {
    let (Datum::Lsn(a), Datum::Lsn(b)) = (a, b) else { return Err(wrong()) };
    Ok(Datum::Lsn(*a.min(b)))
}

fn warn(exec: &mut ExecContext<'_>, message: String) {
    exec.environment.queue_notice(SqlError::new("01000", message).with_severity(Severity::Warning));
}

/// Returns whether a session was found; warns if it was not.
fn whether_found(exec: &mut ExecContext<'_>, session: i32, is_found: bool) -> Datum {
    if !is_found {
        warn(exec, format!("PID {session} is not a PostgreSQL backend process"));
    }
    Datum::Bool(is_found)
}

fn cancel_backend(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Int4(session)] = values else { return Err(wrong()) };
    let is_found = exec.source.cancel(*session);
    Ok(whether_found(exec, *session, is_found))
}

/// `pg_terminate_backend(session [, timeout])`: ends a session. With a timeout, in milliseconds,
/// the result says whether the session ended in time.
fn terminate_backend(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    /// Microseconds between two checks, as in PostgreSQL.
    const NAP_US: u64 = 100_000;
    let (session, timeout) = match values {
        [Datum::Int4(session)] => (*session, 0),
        [Datum::Int4(session), Datum::Int8(timeout)] => (*session, *timeout),
        _ => return Err(wrong()),
    };
    let Ok(milliseconds) = u64::try_from(timeout) else {
        return Err(SqlError::new("22003", "\"timeout\" must not be negative"));
    };
    if !exec.source.terminate(session) {
        return Ok(whether_found(exec, session, false));
    }
    let mut left = milliseconds.saturating_mul(1_000);
    // Ends: each turn reduces the remaining time, and sleeps for the difference.
    while left > 0 && exec.source.is_session(session) {
        let nap = left.min(NAP_US);
        exec.environment.sleep(nap)?;
        left -= nap;
    }
    if milliseconds == 0 || !exec.source.is_session(session) {
        return Ok(Datum::Bool(true));
    }
    let unit = if milliseconds == 1 { "millisecond" } else { "milliseconds" };
    warn(
        exec,
        format!("backend with PID {session} did not terminate within {milliseconds} {unit}"),
    );
    Ok(Datum::Bool(false))
}

/// Returns the time when the database was opened, which happens at server start.
fn postmaster_start_time(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::TimestampTz(exec.source.opened_us()))
}

/// Does nothing: PostgreSQL rereads its configuration files here, and Niwaki has none.
fn reload_conf(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let message = "settings are read when the server starts, so nothing was changed";
    exec.environment.queue_notice(SqlError::new("00000", message).with_severity(Severity::Notice));
    Ok(Datum::Bool(true))
}

fn stat_reset(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    exec.source.reset_statistics(exec.catalog);
    // A void function shows an empty string.
    Ok(Datum::text(""))
}

/// `age(xid)`: returns the number of transactions from this one to the next. As in PostgreSQL, only
/// 32 bits count, and the special transaction numbers are infinitely old.
fn age_of_xid(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    const FIRST_NORMAL: u32 = 3;
    let xid = oid(&values[0])?;
    if xid < FIRST_NORMAL {
        return Ok(Datum::Int4(i32::MAX));
    }
    let next = exec.source.next_xid() & u64::from(u32::MAX);
    let next = u32::try_from(next).map_err(|_| wrong())?;
    Ok(Datum::Int4(next.wrapping_sub(xid).cast_signed()))
}

fn blocking_pids(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Int4(session)] = values else { return Err(wrong()) };
    let pids: Vec<Datum> = exec.source.blocking(*session).into_iter().map(Datum::Int4).collect();
    Ok(Datum::array(TypeOid::INT4, pids))
}

fn is_in_recovery(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::Bool(false))
}

fn user_by_id(values: &[Datum]) -> Result<Datum> {
    let number = oid(&values[0])?;
    let role = niwaki_expr::expr::ROLES.iter().find(|(oid, _)| *oid == number);
    Ok(string(match role {
        Some((_, name)) => (*name).to_owned(),
        None => format!("unknown (OID={number})"),
    }))
}

fn format_type(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [number, typmod] = values else { return Err(wrong()) };
    if number.is_null() {
        return Ok(Datum::Null);
    }
    let typmod = match typmod {
        Datum::Int4(typmod) => *typmod,
        _ => -1,
    };
    let oid = TypeOid(oid(number)?);
    let shown = exec.text.types.shown(oid).or_else(|| row_type_name(oid, exec));
    if let Some(shown) = shown {
        return Ok(string(shown));
    }
    // With a NULL modifier, char means the same as the SQL name.
    if values[1].is_null() {
        return Ok(string(niwaki_parse::types::format_oid(oid)));
    }
    Ok(string(niwaki_parse::types::format_type(ColumnType::with_typmod(oid, typmod))))
}

fn to_regclass(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    match niwaki_expr::expr::cast_value(&values[0], TypeOid::TEXT, TypeOid::REGCLASS, true, exec) {
        Ok(found) => Ok(found),
        Err(error) if error.sqlstate == "42P01" || error.sqlstate == "3F000" => Ok(Datum::Null),
        Err(error) => Err(error),
    }
}

fn described(comment: Option<&str>) -> Datum {
    comment.map_or(Datum::Null, Datum::text)
}

/// Returns the comment of an object (COMMENT ON). A constraint of an index has the index's number;
/// `class` tells them apart.
fn comment_of(exec: &ExecContext<'_>, object: u32, class: Option<&str>) -> Datum {
    let (state, oid) = (exec.catalog, Oid(object));
    let is = |name: &str| class.is_none_or(|class| class == name);
    if is("pg_class")
        && let Some(relation) = state.relation(oid)
    {
        return described(relation.comment.as_deref());
    }
    if is("pg_namespace")
        && let Some(schema) = state.schema(oid)
    {
        return described(schema.comment.as_deref());
    }
    if is("pg_constraint")
        && let Some(constraint) = state.constraint(oid)
    {
        return described(constraint.comment());
    }
    if is("pg_constraint")
        && let Some((_, check)) = state.domain_check(oid)
    {
        return described(check.comment.as_deref());
    }
    if is("pg_type")
        && let Some(number) = TypeOid(object).user_number()
        && TypeOid(object).element().is_none()
        && let Some(definition) = state.user_type(Oid(number))
    {
        return described(definition.comment.as_deref());
    }
    if is("pg_proc")
        && let Some(function) = state.function(oid)
    {
        return described(function.comment.as_deref());
    }
    if is("pg_trigger")
        && let Some((_, trigger)) = state.trigger(oid)
    {
        return described(trigger.comment.as_deref());
    }
    Datum::Null
}

fn obj_description(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let class = values.get(1).map(text).transpose()?;
    Ok(comment_of(exec, oid(&values[0])?, class))
}

/// `shobj_description(database, 'pg_database')`: returns the comment of a database; roles have no
/// comments.
fn shared_description(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    if text(&values[1])? != "pg_database" {
        return Ok(Datum::Null);
    }
    let databases = exec.catalog.databases();
    let database = databases.get(Oid(oid(&values[0])?));
    Ok(described(database.and_then(|database| database.comment.as_deref())))
}

fn col_description(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let (table, Some(Datum::Int4(number))) = (oid(&values[0])?, values.get(1)) else {
        return Err(wrong());
    };
    let Some(relation) = exec.catalog.relation(Oid(table)) else { return Ok(Datum::Null) };
    let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
    let column = at.and_then(|at| relation.columns.get(at));
    Ok(described(column.and_then(|column| column.comment.as_deref())))
}

fn txid_current(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let id = exec.environment.transaction_id()?;
    i64::try_from(id).map(Datum::Int8).map_err(|_| wrong())
}

/// Decides whether the session waits for one of the listed sessions; PostgreSQL's isolation tester
/// calls this.
fn is_blocked(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Int4(session), Datum::Array(_, others)] = values else { return Err(wrong()) };
    let blocking = exec.source.blocking(*session);
    let found = others.iter().any(|o| matches!(o, Datum::Int4(o) if blocking.contains(o)));
    Ok(Datum::Bool(found))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "nextval" (REGCLASS) INT8 strict single volatile Context(nextval);
    "currval" (REGCLASS) INT8 strict single volatile Context(currval);
    "lastval" () INT8 strict single volatile Context(lastval);
    "setval" (REGCLASS, INT8) INT8 strict single volatile Context(setval);
    "setval" (REGCLASS, INT8, BOOL) INT8 strict single volatile Context(setval);
    "current_setting" (TEXT) TEXT strict single stable Context(current_setting);
    "current_setting" (TEXT, BOOL) TEXT strict single stable Context(current_setting);
    "set_config" (TEXT, TEXT, BOOL) TEXT nullable single volatile Context(set_config);
    "version" () TEXT strict single stable Context(version);
    "current_user" () NAME strict single stable Context(current_user);
    "user" () NAME strict single stable Context(current_user);
    "session_user" () NAME strict single stable Context(session_user);
    "current_database" () NAME strict single stable Context(current_database);
    "current_schema" () NAME strict single stable Context(current_schema);
    "current_schemas" (BOOL) NAMES strict single stable Context(current_schemas);
    "pg_backend_pid" () INT4 strict single stable Context(backend_pid);
    "pg_sleep" (FLOAT8) VOID strict single volatile Context(pg_sleep);
    "niwaki_check" (REGCLASS) INT8 strict single volatile Context(check_table);
    "pg_table_is_visible" (OID) BOOL strict single stable Context(table_is_visible);
    "pg_my_temp_schema" () OID strict single stable Context(my_temp_schema);
    "pg_is_other_temp_schema" (OID) BOOL strict single stable Pure(is_other_temp_schema);
    "pg_relation_size" (REGCLASS) INT8 strict single volatile Context(relation_size);
    "pg_relation_size" (REGCLASS, TEXT) INT8 strict single volatile Context(relation_size);
    "pg_table_size" (REGCLASS) INT8 strict single volatile Context(table_size);
    "pg_indexes_size" (REGCLASS) INT8 strict single volatile Context(indexes_size);
    "pg_total_relation_size" (REGCLASS) INT8 strict single volatile Context(total_relation_size);
    "pg_current_wal_insert_lsn" () LSN strict single volatile Context(wal_insert_lsn);
    "pg_current_wal_lsn" () LSN strict single volatile Context(wal_insert_lsn);
    "pg_current_wal_flush_lsn" () LSN strict single volatile Context(wal_flush_lsn);
    "pg_wal_lsn_diff" (LSN, LSN) NUMERIC strict single immutable Binary(wal_lsn_diff);
    "pg_lsn" (NUMERIC) LSN strict single immutable Unary(lsn_of_bytes);
    "pg_lsn_larger" (LSN, LSN) LSN strict single immutable Binary(lsn_larger);
    "pg_lsn_smaller" (LSN, LSN) LSN strict single immutable Binary(lsn_smaller);
    "pg_cancel_backend" (INT4) BOOL strict single volatile Context(cancel_backend);
    "pg_terminate_backend" (INT4) BOOL strict single volatile Context(terminate_backend);
    "pg_terminate_backend" (INT4, INT8) BOOL strict single volatile Context(terminate_backend);
    "pg_postmaster_start_time" () TIMESTAMPTZ strict single stable Context(postmaster_start_time);
    "pg_reload_conf" () BOOL strict single volatile Context(reload_conf);
    "pg_stat_reset" () VOID nullable single volatile Context(stat_reset);
    "age" (XID) INT4 strict single stable Context(age_of_xid);
    "pg_blocking_pids" (INT4) INTS strict single volatile Context(blocking_pids);
    "txid_current" () INT8 strict single stable Context(txid_current);
    "pg_isolation_test_session_is_blocked" (INT4, INTS) BOOL strict single volatile Context(is_blocked);
    "pg_is_in_recovery" () BOOL strict single volatile Pure(is_in_recovery);
    "pg_get_indexdef" (OID) TEXT strict single stable Context(index_definition);
    "pg_get_indexdef" (OID, INT4, BOOL) TEXT strict single stable Context(index_definition);
    "pg_get_userbyid" (OID) NAME strict single stable Pure(user_by_id);
    "format_type" (OID, INT4) TEXT nullable single stable Context(format_type);
    "to_regclass" (TEXT) REGCLASS strict single stable Context(to_regclass);
    "obj_description" (OID) TEXT strict single stable Context(obj_description);
    "obj_description" (OID, NAME) TEXT strict single stable Context(obj_description);
    "col_description" (OID, INT4) TEXT strict single stable Context(col_description);
    "shobj_description" (OID, NAME) TEXT strict single stable Context(shared_description);
};
