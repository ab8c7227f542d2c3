//! Queries with aggregates: what lies above the grouping reads groups and results, not rows.

use super::Analyzer;
use crate::error::Result;
use crate::expr::{Expr, ExprKind};

impl Analyzer<'_> {
    /// Rewrites an expression over the query's rows to one over the rows that grouping makes: group
    /// expressions first, aggregate results behind them.
    pub(super) fn grouped(&self, expr: &mut Expr, groups: &[Expr]) -> Result<()> {
        if let Some(number) = groups.iter().position(|group| group.same(expr)) {
            expr.kind = ExprKind::Slot { depth: 0, slot: number };
            return Ok(());
        }
        match &expr.kind {
            ExprKind::Aggregate(number) => {
                let slot = groups.len() + number;
                expr.kind = ExprKind::Slot { depth: 0, slot };
                return Ok(());
            }
            ExprKind::Slot { depth: 0, slot } => {
                let (slot, location) = (*slot, expr.location);
                return Err(self.ungrouped(slot, location));
            }
            ExprKind::SubQuery(sub) if sub.plan.correlated => {
                return Err(self.unsupported(
                    "a nested query that reads the outer row in a query with aggregates",
                    expr.location,
                ));
            }
            _ => {}
        }
        expr.for_each_child_mut(&mut |child| self.grouped(child, groups))
    }

    fn ungrouped(&self, slot: usize, location: i32) -> crate::SqlError {
        let name = self.scopes.last().and_then(|scope| {
            scope.items.iter().filter(|item| !item.name.is_empty()).find_map(|item| {
                item.columns
                    .iter()
                    .find(|c| matches!(c.expr.kind, ExprKind::Slot { slot: s, .. } if s == slot))
                    .map(|c| format!("{}.{}", item.name, c.name))
            })
        });
        let name = name.unwrap_or_else(|| "ctid".to_owned());
        self.error(
            "42803",
            format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
            location,
        )
    }

    /// Columns that a grouped primary key determines are groups too: their values are the same in all
    /// rows of a group.
    pub(super) fn add_dependent_groups(&self, groups: &mut Vec<Expr>) {
        let Some(scope) = self.scopes.last() else { return };
        for item in &scope.items {
            let Some(relation) = &item.relation else { continue };
            let Some(key) = relation.primary_key() else { continue };
            // A deferrable key can be there twice for a while.
            if !relation.indexes[key].definition.is_unique_at_once() {
                continue;
            }
            let grouped = |column: usize| {
                groups.iter().any(|g| {
                    matches!(g.kind, ExprKind::Slot { depth: 0, slot } if slot == item.start + column)
                })
            };
            let all =
                relation.indexes[key].definition.key.iter().all(|k| grouped(usize::from(k.column)));
            if !all {
                continue;
            }
            let more: Vec<Expr> = item
                .columns
                .iter()
                .filter(|c| !c.hidden)
                .filter(|c| match c.expr.kind {
                    ExprKind::Slot { slot, .. } => {
                        scope.used.get(slot).copied().unwrap_or(false)
                            && !groups.iter().any(|g| g.same(&c.expr))
                    }
                    _ => false,
                })
                .map(|c| c.expr.clone())
                .collect();
            groups.extend(more);
        }
    }
}
