//! CREATE TABLE AS and SELECT INTO; CREATE MATERIALIZED VIEW is in [`super::materialized`].
//!
//! The table is created with the columns that the query is planned to give, and filled by an INSERT of the query. Meanwhile it
//! has a name that no query has: one in the query means what it meant before, as in `CREATE TEMP TABLE t AS SELECT * FROM t`.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, RelationDefinition};
use niwaki_sql::parse::ParsedStatement;
use niwaki_sql::utility::{ColumnSpec, CreateAsForm, CreateTableAs, RowsOf};
use niwaki_sql::{ColumnInfo, SqlError};
use niwaki_types::{Datum, TypeOid};
use pg_query::NodeEnum;
use pg_query::protobuf::{InsertStmt, Node, OverridingKind, RangeVar};

use super::Definer;
use super::collation::undetermined;
use crate::Result;
use crate::result::ResultSink;
use crate::session::type_names::shown_type;
use crate::session::{Session, cursor};

/// How the name begins that a table has while it is filled.
pub(super) const UNNAMED: &str = "\u{1}created ";

impl Session {
    /// Runs CREATE TABLE AS or CREATE MATERIALIZED VIEW, which stands in `source`; `parameters` are types and values of those in its query. The number of rows;
    /// `None` if it is not to put rows anywhere.
    pub(in crate::session) fn create_table_as(
        &mut self,
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
            return Definer { session: self, out }.create_materialized_view(spec, source);
        }
        let (query, parameters) = match &spec.rows {
            RowsOf::Query(query) => (cursor::statement_of(query, source), parameters.to_vec()),
            RowsOf::Execute { name, parameters } => self.query_by_name(name, parameters)?,
        };
        let rows = create_filled(self, spec, &query, parameters, out)?;
        // Of no rows the tag is that of the EXECUTE.
        let none = matches!(spec.rows, RowsOf::Execute { .. }) && !spec.with_data;
        Ok(rows.or(none.then_some(0)))
    }
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
    table.columns = columns(&planned.columns(), &spec.columns, &definer.state())?;
    let Some(oid) = definer.create_table(&table)? else { return Ok(None) };
    if !spec.with_data {
        return Ok(None);
    }
    let mut created = definer.current(oid)?.definition.clone();
    let schema = definer.state().schema(created.schema).map(|schema| schema.name.to_string());
    let name = std::mem::replace(&mut created.name, format!("{UNNAMED}{}", oid.0));
    definer.update(created.clone())?;
    session.next_command()?;
    let mut select = (*query.node).clone();
    // WITH queries that change data stand at the top of a statement.
    let with_clause = match &mut select {
        NodeEnum::SelectStmt(select) => select.with_clause.take(),
        _ => None,
    };
    let insert = InsertStmt {
        relation: Some(RangeVar {
            schemaname: schema.unwrap_or_default(),
            relname: created.name,
            inh: true,
            relpersistence: "p".to_owned(),
            ..RangeVar::default()
        }),
        select_stmt: Some(Box::new(Node { node: Some(select) })),
        with_clause,
        r#override: OverridingKind::OverridingNotSet as i32,
        ..InsertStmt::default()
    };
    let insert = Arc::new(NodeEnum::InsertStmt(Box::new(insert)));
    let insert = cursor::statement_of(&insert, &query.source);
    let planned = session.plan_locked(&insert, &types)?;
    let mut nowhere: Vec<Vec<Datum>> = Vec::new();
    let rows = session.run_planned(&planned, &values, &mut nowhere)?.rows;
    let mut definer = Definer { session, out };
    let filled = definer.current(oid)?;
    definer.update(RelationDefinition { name, ..filled.definition.clone() })?;
    session.next_command()?;
    Ok(Some(rows))
}

/// The columns of a table for such rows, of which the first have these names.
fn columns(
    given: &[ColumnInfo],
    names: &[String],
    state: &CatalogState,
) -> Result<Vec<ColumnSpec>> {
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
            let shown = shown_type(state, oid);
            return Err(undetermined(format!(
                "no collation was derived for column \"{name}\" with collatable type {shown}"
            )));
        }
        let new = ColumnSpec::new(name.clone(), column.column_type);
        columns.push(ColumnSpec { collation: column.collation, ..new });
    }
    Ok(columns)
}
