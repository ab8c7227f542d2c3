//! CREATE TABLE AS, SELECT INTO and CREATE MATERIALIZED VIEW: relations filled by a query.

use niwaki_catalog::CheckOption;

use super::{CreateTable, Name, Persistence};
use crate::tree::SyntaxTree;

/// CREATE VIEW
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Name.
    pub name: Name,
    /// OR REPLACE
    pub replace: bool,
    /// TEMPORARY.
    pub persistence: Persistence,
    /// Names of the first columns.
    pub columns: Vec<String>,
    /// The query, a `SelectStmt`.
    pub query: SyntaxTree,
    /// WITH options.
    pub options: Vec<(String, Option<String>)>,
    /// WITH CHECK OPTION
    pub check: Option<CheckOption>,
}

/// CREATE TABLE AS, SELECT INTO, CREATE MATERIALIZED VIEW
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    /// The table, without its columns.
    pub table: CreateTable,
    /// Names of the first columns.
    pub columns: Vec<String>,
    /// The source of the rows.
    pub rows: RowsOf,
    /// True if the query's rows are inserted (WITH DATA).
    pub with_data: bool,
    /// The kind of statement.
    pub form: CreateAsForm,
}

/// The statements that create a relation from a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateAsForm {
    /// CREATE TABLE AS
    Table,
    /// SELECT INTO
    SelectInto,
    /// CREATE MATERIALIZED VIEW
    MaterializedView,
}

/// The source of a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum RowsOf {
    /// A query, a `SelectStmt`.
    Query(SyntaxTree),
    /// EXECUTE of a prepared statement.
    Execute {
        /// Its name.
        name: String,
        /// Values, as SQL text of constant expressions.
        parameters: Vec<String>,
    },
}

impl CreateTableAs {
    /// Returns the statement's words in messages.
    pub fn word(&self) -> &'static str {
        match self.form {
            CreateAsForm::Table => "CREATE TABLE AS",
            CreateAsForm::SelectInto => "SELECT INTO",
            CreateAsForm::MaterializedView => "CREATE MATERIALIZED VIEW",
        }
    }
}
