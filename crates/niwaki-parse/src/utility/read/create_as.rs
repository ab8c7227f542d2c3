//! CREATE TABLE AS, SELECT INTO and CREATE MATERIALIZED VIEW: relations filled by a query.

use pg_query::NodeEnum;
use pg_query::protobuf::{CreateTableAsStmt, IntoClause, ObjectType, SelectStmt};

use super::nodes::{
    default_tablespace, expression_text, options, persistence, relation_name, strings, unexpected,
};
use super::table::on_commit;
use crate::error::{Result, SqlError};
use crate::parse::part;
use crate::utility::statement::{
    CreateAsForm, CreateTable, CreateTableAs, Persistence, RowsOf, Utility,
};

pub(super) fn create_table_as(s: &CreateTableAsStmt, source: &str) -> Result<Utility> {
    let form = match s.objtype() {
        ObjectType::ObjectTable => CreateAsForm::Table,
        ObjectType::ObjectMatview => CreateAsForm::MaterializedView,
        _ => return Err(unexpected("CREATE TABLE AS")),
    };
    let query = s.query.as_ref().and_then(|node| node.node.as_ref());
    let rows = match query.ok_or_else(|| unexpected("CREATE TABLE AS"))? {
        query @ NodeEnum::SelectStmt(_) => RowsOf::Query(part(query, source)),
        NodeEnum::ExecuteStmt(execute) => RowsOf::Execute {
            name: execute.name.clone(),
            parameters: execute.params.iter().map(expression_text).collect::<Result<_>>()?,
        },
        _ => return Err(unexpected("CREATE TABLE AS")),
    };
    let into = s.into.as_deref().ok_or_else(|| unexpected("CREATE TABLE AS"))?;
    let created = make(into, rows, source)?;
    let table = CreateTable { if_not_exists: s.if_not_exists, ..created.table };
    if form == CreateAsForm::MaterializedView && table.persistence == Persistence::Unlogged {
        return Err(SqlError::new("0A000", "materialized views cannot be unlogged"));
    }
    Ok(Utility::CreateTableAs(Box::new(CreateTableAs { table, form, ..created })))
}

/// Reads SELECT INTO; returns `None` for a SELECT without INTO. In a set operation, the first query
/// has the clause.
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
    let rows = RowsOf::Query(part(&NodeEnum::SelectStmt(Box::new(query)), source));
    let created = CreateTableAs { form: CreateAsForm::SelectInto, ..make(&into, rows, source)? };
    Ok(Some(Utility::CreateTableAs(Box::new(created))))
}

fn make(into: &IntoClause, rows: RowsOf, source: &str) -> Result<CreateTableAs> {
    default_tablespace(&into.table_space_name)?;
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
        form: CreateAsForm::Table,
    })
}
