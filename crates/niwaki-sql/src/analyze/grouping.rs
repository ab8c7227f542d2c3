//! Queries with aggregates: what lies above the grouping reads groups and results, not rows.

use super::Analyzer;
use crate::error::Result;
use crate::expr::{Expr, ExprKind, Nested};
use crate::query::{Query, shift_depth};

impl Analyzer<'_> {
    /// Rewrites an expression over the query's rows to one over the rows that grouping makes: group
    /// expressions first, aggregate results behind them.
    pub(super) fn grouped(&self, expr: &mut Expr, groups: &[Expr]) -> Result<()> {
        self.grouped_at(expr, groups, 0)
    }

    /// The same for an expression `level` levels below the grouping, where the groups look like `groups`.
    fn grouped_at(&self, expr: &mut Expr, groups: &[Expr], level: usize) -> Result<()> {
        // Inside a nested query PostgreSQL recognizes columns only.
        let is_group = |group: &Expr| {
            (level == 0 || matches!(group.kind, ExprKind::Slot { .. })) && group.same(expr)
        };
        if let Some(slot) = groups.iter().position(is_group) {
            expr.kind = ExprKind::Slot { depth: level, slot };
            return Ok(());
        }
        match &mut expr.kind {
            ExprKind::Aggregate(number) if level == 0 => {
                let slot = groups.len() + *number;
                expr.kind = ExprKind::Slot { depth: 0, slot };
                return Ok(());
            }
            ExprKind::Slot { depth, slot } if *depth == level => {
                let (slot, location) = (*slot, expr.location);
                return Err(self.ungrouped(slot, location, level > 0));
            }
            ExprKind::SubQuery(sub) => {
                if let Nested::Query(query) = &mut sub.query {
                    self.grouped_query(query, &one_level_down(groups), level + 1)?;
                }
            }
            _ => {}
        }
        expr.for_each_child_mut(&mut |child| self.grouped_at(child, groups, level))
    }

    fn grouped_query(&self, query: &mut Query, groups: &[Expr], level: usize) -> Result<()> {
        let mut result = Ok(());
        query.for_each_expr_mut(&mut |expr| {
            if result.is_ok() {
                result = self.grouped_at(expr, groups, level);
            }
        });
        result?;
        let below = one_level_down(groups);
        let mut result = Ok(());
        query.for_each_item_query_mut(&mut |query| {
            if result.is_ok() {
                result = self.grouped_query(query, &below, level + 1);
            }
        });
        result
    }

    fn ungrouped(&self, slot: usize, location: i32, nested: bool) -> crate::SqlError {
        let name = self.scopes.last().and_then(|scope| {
            scope.items.iter().filter(|item| !item.name.is_empty()).find_map(|item| {
                item.columns
                    .iter()
                    .find(|c| matches!(c.expr.kind, ExprKind::Slot { slot: s, .. } if s == slot))
                    .map(|c| format!("{}.{}", item.name, c.name))
            })
        });
        let name = name.unwrap_or_else(|| "ctid".to_owned());
        if nested {
            let message = format!("subquery uses ungrouped column \"{name}\" from outer query");
            return self.error("42803", message, location);
        }
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
            if !more.is_empty() {
                self.note_key(relation.indexes[key].oid);
            }
            groups.extend(more);
        }
    }
}

/// The group expressions as a query nested in the place sees them.
fn one_level_down(groups: &[Expr]) -> Vec<Expr> {
    let mut groups = groups.to_vec();
    groups.iter_mut().for_each(|group| shift_depth(group, 1));
    groups
}
