//! CREATE TABLE AS and SELECT INTO. CREATE MATERIALIZED VIEW is in `view/materialized.rs`.
//!
//! The table is created with the columns of the planned query, and filled with its rows. The plan
//! is older than the table. So a name in the query keeps its meaning, as in `CREATE TEMP TABLE t AS
//! SELECT * FROM t`.

use niwaki_catalog::Oid;
use niwaki_session::ResultSink;
use niwaki_session::Session;
use niwaki_session::shown_type;
use niwaki_session::statement_of;
use niwaki_sql::parse::ParsedStatement;
use niwaki_sql::utility::{ColumnSpec, CreateAsForm, CreateTableAs, RowsOf};
use niwaki_sql::{ColumnInfo, Result, SqlError};
use niwaki_table::InsertOptions;
use niwaki_types::{Datum, TypeOid, UserTypes};

use crate::collation::undetermined;
use crate::definer::Definer;

/// Runs CREATE TABLE AS or CREATE MATERIALIZED VIEW, whose text is `source`. `parameters` are
/// types and values of the parameters in its query. Returns the number of rows, or `None` if
/// the statement stores no rows.
pub(crate) fn create_table_as(
    session: &mut Session,
    spec: &CreateTableAs,
    source: &str,
    parameters: &[(TypeOid, Datum)],
    out: &mut dyn ResultSink,
) -> Result<Option<u64>> {
    if spec.form == CreateAsForm::MaterializedView {
        if !parameters.is_empty() {
            let message = "materialized views may not be defined using bound parameters";
            return Err(SqlError::new("0A000", message));
        }
        return Definer { session, out }.create_materialized_view(spec, source);
    }
    let (query, parameters) = match &spec.rows {
        RowsOf::Query(query) => (statement_of(query, source), parameters.to_vec()),
        RowsOf::Execute { name, parameters } => session.query_by_name(name, parameters)?,
    };
    let rows = create_filled(session, spec, &query, parameters, out)?;
    // With EXECUTE and WITH NO DATA, the tag counts 0 rows.
    let none = matches!(spec.rows, RowsOf::Execute { .. }) && !spec.with_data;
    Ok(rows.or(none.then_some(0)))
}

/// Creates a table and fills it with the rows of a query.
fn create_filled(
    session: &mut Session,
    spec: &CreateTableAs,
    query: &ParsedStatement,
    parameters: Vec<(TypeOid, Datum)>,
    out: &mut dyn ResultSink,
) -> Result<Option<u64>> {
    let (types, values): (Vec<TypeOid>, Vec<Datum>) = parameters.into_iter().unzip();
    let planned = session.plan_locked(query, &types)?;
    let mut table = spec.table.clone();
    let mut definer = Definer { session, out };
    table.columns = columns(&planned.columns(), &spec.columns, &definer.session.types())?;
    let Some(oid) = definer.create_table(&table)? else { return Ok(None) };
    if !spec.with_data {
        return Ok(None);
    }
    definer.fill(&planned, values, oid, InsertOptions::default()).map(Some)
}

/// Returns the columns of a table for rows of a query. `names` are names for the first columns.
fn columns(given: &[ColumnInfo], names: &[String], types: &UserTypes) -> Result<Vec<ColumnSpec>> {
    if names.len() > given.len() {
        return Err(SqlError::new("42601", "too many column names were specified"));
    }
    let mut columns = Vec::with_capacity(given.len());
    for (at, column) in given.iter().enumerate() {
        let name = names.get(at).unwrap_or(&column.name);
        let oid = column.column_type.oid;
        if oid.element().unwrap_or(oid) == TypeOid::RECORD {
            let array = if oid == TypeOid::RECORD { "" } else { "[]" };
            let message = format!("column \"{name}\" has pseudo-type record{array}");
            return Err(SqlError::new("42P16", message));
        }
        if column.collation == Some(Oid::INVALID) {
            let shown = shown_type(types, oid);
            return Err(undetermined(format!(
                "no collation was derived for column \"{name}\" with collatable type {shown}"
            )));
        }
        let new = ColumnSpec::new(name.clone(), column.column_type);
        columns.push(ColumnSpec { collation: column.collation, ..new });
    }
    Ok(columns)
}
