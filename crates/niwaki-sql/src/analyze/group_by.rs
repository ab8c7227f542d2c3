//! GROUP BY.

use pg_query::{Node, NodeEnum};

use super::Analyzer;
use super::scope::Place;
use super::targets::Target;
use crate::error::Result;
use crate::expr::{Expr, ExprKind};
use crate::functions::compare_function;

impl Analyzer<'_> {
    fn group_clause(&mut self, nodes: &[Node], targets: &[Target]) -> Result<Vec<Expr>> {
        self.set_place(Place::GroupBy)?;
        let mut groups: Vec<Expr> = Vec::new();
        for node in nodes {
            if let Some(NodeEnum::GroupingSet(set)) = &node.node {
                return Err(self.unsupported("GROUPING SETS, ROLLUP and CUBE", set.location));
            }
            let expr = match self.named_target(node, targets, "GROUP BY", false)? {
                Some(target) => targets[target].expr.clone(),
                None => self.expr(node)?,
            };
            if expr.any(&mut |e| matches!(e.kind, ExprKind::Aggregate(_))) {
                return Err(self.error(
                    "42803",
                    "aggregate functions are not allowed in GROUP BY",
                    expr.location,
                ));
            }
            if expr.any(&mut |e| matches!(e.kind, ExprKind::Window(_))) {
                return Err(self.error(
                    "42P20",
                    "window functions are not allowed in GROUP BY",
                    expr.location,
                ));
            }
            if expr.any(&mut |e| matches!(e.kind, ExprKind::SetReturning(_))) {
                return Err(self.unsupported("GROUP BY of a set-returning function", expr.location));
            }
            let expr = self.to_output(expr)?;
            if compare_function("=", expr.ty).is_none() {
                return Err(self.error(
                    "42883",
                    format!(
                        "could not identify an equality operator for type {}",
                        self.format_oid(expr.ty)
                    ),
                    expr.location,
                ));
            }
            if !groups.iter().any(|g| g.same(&expr)) {
                groups.push(expr);
            }
        }
        Ok(groups)
    }
}
