//! Checks the expressions of a body when the function is created.

use niwaki_expr::function::Eval;
use niwaki_functions::aggregates::aggregates_named;
use niwaki_functions::functions::functions_named;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::walk::each_node;
use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, SelectStmt};

/// Refuses a text that is not an expression, and an expression that would have to run as a query.
///
/// # Errors
/// Errors of the grammar; `0A000` for queries, aggregates, and questions about the running trigger.
pub(super) fn check_expression(text: &str) -> Result<()> {
    let statements =
        niwaki_parse::parse::parse(&format!("SELECT {text}")).map_err(without_position)?;
    match statements.as_slice() {
        [one] => match &*one.node {
            NodeEnum::SelectStmt(select) if is_plain(select) => {}
            _ => return Err(query()),
        },
        _ => return Err(query()),
    }
    let mut refused = None;
    each_node(text, |node| {
        let error = match node {
            NodeEnum::SubLink(_) => Some(query()),
            NodeEnum::FuncCall(call) => refused_call(call),
            _ => None,
        };
        if refused.is_none() {
            refused = error;
        }
    })
    .map_err(without_position)?;
    refused.map_or(Ok(()), Err)
}

fn without_position(mut error: SqlError) -> SqlError {
    error.position = None;
    error
}

fn query() -> SqlError {
    SqlError::unsupported("a query in a PL/pgSQL expression")
}

/// Returns true if a SELECT is only one expression.
fn is_plain(select: &SelectStmt) -> bool {
    let SelectStmt {
        distinct_clause,
        into_clause,
        target_list,
        from_clause,
        where_clause,
        group_clause,
        having_clause,
        window_clause,
        values_lists,
        sort_clause,
        limit_offset,
        limit_count,
        locking_clause,
        with_clause,
        larg,
        ..
    } = select;
    target_list.len() == 1
        && distinct_clause.is_empty()
        && into_clause.is_none()
        && from_clause.is_empty()
        && where_clause.is_none()
        && group_clause.is_empty()
        && having_clause.is_none()
        && window_clause.is_empty()
        && values_lists.is_empty()
        && sort_clause.is_empty()
        && limit_offset.is_none()
        && limit_count.is_none()
        && locking_clause.is_empty()
        && with_clause.is_none()
        && larg.is_none()
}

/// Returns the reason why a call cannot stand in a body.
fn refused_call(call: &FuncCall) -> Option<SqlError> {
    let name = match call.funcname.last().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::String(name)) => name.sval.as_str(),
        _ => return None,
    };
    let of_many = call.agg_star
        || call.agg_distinct
        || call.over.is_some()
        || call.agg_filter.is_some()
        || !call.agg_order.is_empty()
        || !aggregates_named(name).is_empty()
        || functions_named(name).iter().any(|found| matches!(found.eval, Eval::Window(_)));
    if of_many {
        return Some(SqlError::unsupported("an aggregate in a PL/pgSQL expression"));
    }
    if functions_named(name).iter().any(|found| found.returns_set()) {
        return Some(SqlError::unsupported("a set of rows in a PL/pgSQL expression"));
    }
    None
}
