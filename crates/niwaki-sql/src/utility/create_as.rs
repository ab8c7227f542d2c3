//! CREATE TABLE AS and SELECT INTO: a table made of a query's rows.

use std::sync::Arc;

use pg_query::NodeEnum;
use pg_query::protobuf::{CreateTableAsStmt, IntoClause, ObjectType, SelectStmt};

use super::read::{expression_text, options, persistence, relation_name, strings, unexpected};
use super::read_table::on_commit;
use super::statement::Utility;
use super::table::CreateTable;
use crate::error::{Result, SqlError};

/// CREATE TABLE AS, SELECT INTO
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    /// The table, without its columns.
    pub table: CreateTable,
    /// Names of the first columns.
    pub columns: Vec<String>,
    /// What gives the rows.
    pub rows: RowsOf,
    /// The query's rows are put into the table.
    pub with_data: bool,
    /// It is SELECT INTO.
    pub is_select: bool,
}

/// What gives the rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum RowsOf {
    /// A query, a `SelectStmt`.
    Query(Arc<NodeEnum>),
    /// EXECUTE of a prepared statement.
    Execute {
        /// Its name.
        name: String,
        /// Values, as SQL text of constant expressions.
        parameters: Vec<String>,
    },
}

impl CreateTableAs {
    /// What the statement begins with.
    pub fn word(&self) -> &'static str {
        if self.is_select { "SELECT INTO" } else { "CREATE TABLE AS" }
    }
}

pub(super) fn create_table_as(s: &CreateTableAsStmt, source: &str) -> Result<Utility> {
    if s.objtype() != ObjectType::ObjectTable {
        return Err(SqlError::unsupported("statement CREATE MATERIALIZED VIEW"));
    }
    let query = s.query.as_ref().and_then(|node| node.node.as_ref());
    let rows = match query.ok_or_else(|| unexpected("CREATE TABLE AS"))? {
        query @ NodeEnum::SelectStmt(_) => RowsOf::Query(Arc::new(query.clone())),
        NodeEnum::ExecuteStmt(execute) => RowsOf::Execute {
            name: execute.name.clone(),
            parameters: execute.params.iter().map(expression_text).collect::<Result<_>>()?,
        },
        _ => return Err(unexpected("CREATE TABLE AS")),
    };
    let into = s.into.as_deref().ok_or_else(|| unexpected("CREATE TABLE AS"))?;
    let created = make(into, rows, source)?;
    let table = CreateTable { if_not_exists: s.if_not_exists, ..created.table };
    Ok(Utility::CreateTableAs(Box::new(CreateTableAs { table, ..created })))
}

/// SELECT INTO; `None` for a SELECT without. Of a set operation its first query has the clause.
pub(super) fn select_into(s: &SelectStmt, source: &str) -> Result<Option<Utility>> {
    let mut first = s;
    while let Some(left) = &first.larg {
        first = left;
    }
    let Some(into) = first.into_clause.clone() else { return Ok(None) };
    let mut query = s.clone();
    let mut first = &mut query;
    while first.larg.is_some() {
        let Some(left) = &mut first.larg else { break };
        first = left;
    }
    first.into_clause = None;
    let rows = RowsOf::Query(Arc::new(NodeEnum::SelectStmt(Box::new(query))));
    let created = CreateTableAs { is_select: true, ..make(&into, rows, source)? };
    Ok(Some(Utility::CreateTableAs(Box::new(created))))
}

fn make(into: &IntoClause, rows: RowsOf, source: &str) -> Result<CreateTableAs> {
    if !into.table_space_name.is_empty() && into.table_space_name != "pg_default" {
        return Err(SqlError::unsupported("TABLESPACE"));
    }
    if !matches!(into.access_method.as_str(), "" | "heap") {
        let method = format!("table access method \"{}\"", into.access_method);
        return Err(SqlError::unsupported(method));
    }
    let table = CreateTable {
        name: relation_name(into.rel.as_ref(), source)?,
        if_not_exists: false,
        persistence: persistence(into.rel.as_ref()),
        on_commit: on_commit(into.on_commit),
        columns: Vec::new(),
        constraints: Vec::new(),
        likes: Vec::new(),
        options: options(&into.options),
        partition_by: None,
        partition_of: None,
    };
    Ok(CreateTableAs {
        table,
        columns: strings(&into.col_names),
        rows,
        with_data: !into.skip_data,
        is_select: false,
    })
}
