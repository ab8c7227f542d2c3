//! Prepared statements.

use std::sync::Arc;

use niwaki_sql::parse::ParsedStatement;
use niwaki_sql::utility::Utility;
use niwaki_sql::{ColumnInfo, Planned, SqlError, SyntaxTree};
use niwaki_types::TypeOid;

use crate::session::plan_costs::CustomPlans;

/// A prepared statement, as Describe shows it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Types of the parameters `$1`, `$2`, ….
    pub parameters: Arc<[TypeOid]>,
    /// Columns of the result. `None` when the statement returns no rows.
    pub columns: Option<Arc<[ColumnInfo]>>,
}

/// A prepared statement.
pub struct Statement {
    pub(crate) described: Prepared,
    pub(crate) parsed: Option<ParsedStatement>,
    /// Parameter types that the client gave, kept for making the plan again.
    pub(crate) given_types: Vec<TypeOid>,
    pub(crate) action: Action,
    /// Versions of catalog and settings that the plan depends on.
    pub(crate) version: (u64, u64),
    /// Plans made for particular values of the parameters.
    pub(crate) custom: CustomPlans,
}

impl Statement {
    /// Makes a statement of a query and its plan, which depends on `version`.
    pub(crate) fn of_query(
        parsed: ParsedStatement,
        given_types: Vec<TypeOid>,
        planned: Arc<Planned>,
        version: (u64, u64),
    ) -> Self {
        Self {
            described: Prepared {
                parameters: Arc::from(planned.params()),
                columns: planned.returns_rows().then(|| Arc::from(planned.columns())),
            },
            parsed: Some(parsed),
            given_types,
            action: Action::Query(planned),
            version,
            custom: CustomPlans::default(),
        }
    }

    /// Returns the statement as Describe shows it.
    #[inline]
    pub fn described(&self) -> &Prepared {
        &self.described
    }

    /// Returns the query text that contains the statement. Positions refer to this text.
    pub(crate) fn text(&self) -> &str {
        self.parsed.as_ref().map_or("", |parsed| &parsed.source)
    }
}

/// Action that a statement does.
#[derive(Clone)]
pub(crate) enum Action {
    Empty,
    Query(Arc<Planned>),
    Utility(Arc<Utility>),
}

/// A prepared statement with a name.
pub(crate) struct Named {
    pub(crate) statement: Arc<Statement>,
    /// Time of preparation, in microseconds since 1970.
    pub(crate) prepared_us: i64,
    /// Set for PREPARE, and not for a Parse message.
    pub(crate) from_sql: bool,
    /// Number of executions.
    pub(crate) runs: u64,
}

/// Returns the error 26000.
pub(crate) fn no_statement(name: &str) -> SqlError {
    if name.is_empty() {
        return SqlError::new("26000", "unnamed prepared statement does not exist");
    }
    SqlError::new("26000", format!("prepared statement \"{name}\" does not exist"))
}

/// Returns a statement inside another one, with the positions of the whole text.
pub fn statement_of(node: &SyntaxTree, source: &str) -> ParsedStatement {
    let source: Arc<str> = Arc::from(source);
    let end = source.len();
    ParsedStatement { node: node.clone(), source, start: 0, end }
}
