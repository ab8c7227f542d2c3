//! Values outside of a query: EXECUTE parameters, partition bounds, defaults of new columns.

use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::context::{ColumnInfo, CommandTag};
use niwaki_expr::expr::Expr;
use niwaki_expr::query::{
    Body, Distinct, From, Query, Select, StatementBody, StatementQuery, Windowing,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::parse::ParsedStatement;
use niwaki_parse::types::CastContext;
use niwaki_types::{ColumnType, TypeOid};
use pg_query::NodeEnum;

use crate::analyze::names::scope::{Place, Scope};
use crate::analyze::{Analyzed, Analyzer};

/// The use of a value, which decides what its expression may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFor {
    /// A parameter of a prepared statement.
    Parameter,
    /// A bound of a partition.
    PartitionBound,
    /// The value of a new column with a default, for the existing rows.
    Default,
}

/// Analyzes `SELECT value`, with an assignment cast of the value to the type `wanted`. An object's
/// name becomes its OID.
///
/// # Errors
/// As `niwaki_sql::analyze`; the error of `refused` for a value of another type.
pub fn assigned_value(
    statement: &ParsedStatement,
    context: &AnalyzeContext<'_>,
    what: ValueFor,
    wanted: ColumnType,
    refused: &dyn Fn(&str) -> SqlError,
) -> Result<Analyzed> {
    let NodeEnum::SelectStmt(select) = &*statement.node else {
        return Err(SqlError::internal("a value that is not selected"));
    };
    let value = match select.target_list.as_slice() {
        [target] => target.node.as_ref(),
        _ => None,
    };
    let Some(NodeEnum::ResTarget(value)) = value else {
        return Err(SqlError::internal("not one value"));
    };
    let mut analyzer = Analyzer::new(context, &statement.source, Vec::new());
    let place = match what {
        ValueFor::Parameter => Place::ExecuteParameter,
        ValueFor::PartitionBound => Place::PartitionBound,
        ValueFor::Default => Place::Default,
    };
    analyzer.scopes.push(Scope { place, ..Scope::default() });
    let value = analyzer.expr_of(value.val.as_deref())?;
    let value = analyzer.assigned_to(value, wanted, refused)?;
    analyzer.scopes.pop();
    let columns = vec![ColumnInfo::computed("value", value.column_type())];
    let body = StatementBody::Select(query_of(value, columns.clone()));
    let shared = std::mem::take(&mut analyzer.shared);
    let statement = StatementQuery { body, shared };
    Ok(analyzer.with_findings(statement, columns, CommandTag::Select))
}

impl Analyzer<'_> {
    fn assigned_to(
        &mut self,
        value: Expr,
        wanted: ColumnType,
        refused: &dyn Fn(&str) -> SqlError,
    ) -> Result<Expr> {
        if wanted.domain.is_some() && value.domain == wanted.domain {
            return Ok(value);
        }
        if let Some(literal) = self.interval_literal(&value, wanted)? {
            return self.as_domain(literal, wanted.domain);
        }
        let (from, location) = (value.declared(), value.location);
        let Some(value) = self.coerce(value, wanted.oid, CastContext::Assignment)? else {
            return Err(refused(&self.format_oid(from)).with_position(self.at(location)));
        };
        let value = Self::with_typmod(value, wanted.typmod, false);
        let value = self.as_domain(value, wanted.domain)?;
        if !wanted.oid.is_object_name() {
            return Ok(value);
        }
        let number = self.coerce(value, TypeOid::OID, CastContext::Explicit)?;
        number.ok_or_else(|| SqlError::internal("a name without a number"))
    }
}

/// Returns a query of one value without FROM.
fn query_of(value: Expr, columns: Vec<ColumnInfo>) -> Query {
    let from =
        From { items: Vec::new(), tree: None, conditions: Vec::new(), width: 0, recheck: None };
    let select = Select {
        from,
        grouping: None,
        windowing: Windowing::default(),
        targets: vec![value],
        sets: Vec::new(),
        distinct: Distinct::None,
        locks: Vec::new(),
    };
    Query {
        body: Body::Select(Box::new(select)),
        columns,
        order: Vec::new(),
        limit: None,
        offset: None,
    }
}
