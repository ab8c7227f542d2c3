//! Traversal of stored expressions: visits every node.
//!
//! The parser's own iteration skips some children, for example the argument of CASE. Decisions
//! about an expression, such as the columns that it reads, must be based on all nodes.

use pg_query::NodeEnum;
use pg_query::protobuf::Node;

use crate::error::{Result, SqlError};
use crate::kind_name::kind_name;

/// Calls `visit` for each node of a scalar expression, parents before children. Does not enter
/// subqueries: only their `SubLink` is visited.
///
/// # Errors
/// `42601` if the text is no expression; `0A000` for an unknown construct, so that no node is
/// skipped silently.
pub fn each_node(expression: &str, mut visit: impl FnMut(&NodeEnum)) -> Result<()> {
    each_node_here(expression, &mut visit)
}

/// Does the work of [`each_node`]. Not generic, so that other crates need no code for trees.
fn each_node_here(expression: &str, visit: &mut dyn FnMut(&NodeEnum)) -> Result<()> {
    let statements = crate::parse::parse(&format!("SELECT {expression}"))?;
    let mut waiting: Vec<&Node> = Vec::new();
    for statement in &statements {
        if let NodeEnum::SelectStmt(select) = &*statement.node {
            for target in &select.target_list {
                if let Some(NodeEnum::ResTarget(target)) = &target.node {
                    waiting.extend(target.val.as_deref());
                }
            }
        }
    }
    // Ends: an expression is a finite tree, and each of its nodes is taken once.
    while let Some(node) = waiting.pop() {
        let Some(node) = &node.node else { continue };
        visit(node);
        children(node, &mut waiting)?;
    }
    Ok(())
}

/// Appends the children of `node` to `into`.
fn children<'n>(node: &'n NodeEnum, into: &mut Vec<&'n Node>) -> Result<()> {
    let mut one = |node: &'n Option<Box<Node>>| into.extend(node.as_deref());
    match node {
        NodeEnum::ColumnRef(_)
        | NodeEnum::AConst(_)
        | NodeEnum::ParamRef(_)
        | NodeEnum::SqlvalueFunction(_)
        | NodeEnum::SetToDefault(_)
        | NodeEnum::SubLink(_)
        | NodeEnum::String(_)
        | NodeEnum::AStar(_) => {}
        NodeEnum::AExpr(n) => {
            one(&n.lexpr);
            one(&n.rexpr);
        }
        NodeEnum::CaseExpr(n) => {
            one(&n.arg);
            one(&n.defresult);
            into.extend(&n.args);
        }
        NodeEnum::CaseWhen(n) => {
            one(&n.expr);
            one(&n.result);
        }
        NodeEnum::AIndices(n) => {
            one(&n.lidx);
            one(&n.uidx);
        }
        NodeEnum::AIndirection(n) => {
            one(&n.arg);
            into.extend(&n.indirection);
        }
        NodeEnum::FuncCall(n) => {
            one(&n.agg_filter);
            if let Some(over) = &n.over {
                one(&over.start_offset);
                one(&over.end_offset);
            }
            into.extend(&n.args);
            into.extend(&n.agg_order);
            if let Some(over) = &n.over {
                into.extend(&over.partition_clause);
                into.extend(&over.order_clause);
            }
        }
        NodeEnum::NamedArgExpr(n) => one(&n.arg),
        NodeEnum::NullTest(n) => one(&n.arg),
        NodeEnum::BooleanTest(n) => one(&n.arg),
        NodeEnum::TypeCast(n) => one(&n.arg),
        NodeEnum::CollateClause(n) => one(&n.arg),
        NodeEnum::SortBy(n) => one(&n.node),
        NodeEnum::BoolExpr(n) => into.extend(&n.args),
        NodeEnum::CoalesceExpr(n) => into.extend(&n.args),
        NodeEnum::MinMaxExpr(n) => into.extend(&n.args),
        NodeEnum::AArrayExpr(n) => into.extend(&n.elements),
        NodeEnum::RowExpr(n) => into.extend(&n.args),
        NodeEnum::List(n) => into.extend(&n.items),
        NodeEnum::GroupingFunc(n) => into.extend(&n.args),
        other => {
            let name = kind_name(other);
            return Err(SqlError::new(
                "0A000",
                format!("{name} is not supported in an expression"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_an_expression_is_seen() {
        let expression = "CASE c1 WHEN c2 THEN c3 ELSE c4 END + (ARRAY[c5, c6])[c7] \
             + coalesce(c8, greatest(c9, c10)) + CAST(c11 AS int) + lower(c12 COLLATE \"C\") \
             + count(c13 ORDER BY c14) FILTER (WHERE c15) + (c16 IS NULL) + (NOT c17 AND c18) \
             + (c19 IN (c20, c21)) + (c22 BETWEEN c23 AND c24) + ROW(c25) + (c26 IS TRUE) \
             + lag(c27) OVER (PARTITION BY c28 ORDER BY c29 ROWS BETWEEN c30 PRECEDING AND c31 FOLLOWING)";
        let mut seen = Vec::new();
        each_node(expression, |node| {
            if let NodeEnum::ColumnRef(column) = node {
                seen.push(column.location);
            }
        })
        .unwrap();
        assert_eq!(seen.len(), 31);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let refused = each_node("xmlconcat(a, b)", |_| {}).unwrap_err();
        assert_eq!(refused.sqlstate, "0A000");
    }
}
