//! Queries with aggregates: rewrites expressions above the grouping to read its output row.

use niwaki_expr::expr::{Expr, ExprKind, Nested};
use niwaki_expr::query::{AggregateCall, Query, shift_depth};
use niwaki_parse::error::Result;

use crate::analyze::Analyzer;
use crate::analyze::query::group_by::{GroupBy, level_of};

/// The output row of a grouping: group expressions, then aggregate results, then GROUPING results.
pub(crate) struct GroupedRow<'g> {
    /// The group expressions.
    pub(crate) groups: &'g [Expr],
    /// Number of group expressions that GROUP BY has. These determine the remaining ones.
    pub(crate) written: usize,
    /// Number of aggregates.
    pub(crate) aggregates: usize,
    /// The arguments of each GROUPING call found so far.
    pub(crate) calls: Vec<Vec<usize>>,
    /// True while a direct argument of WITHIN GROUP is rewritten.
    pub(crate) direct: bool,
}

impl Analyzer<'_> {
    /// Rewrites an expression over the query's rows into one over the grouping's output rows.
    pub(crate) fn grouped(&self, expr: &mut Expr, row: &mut GroupedRow<'_>) -> Result<()> {
        self.grouped_at(expr, row.groups, 0, row)
    }

    /// Checks the direct arguments of WITHIN GROUP: they must be the same for all rows of a group.
    pub(crate) fn check_direct_arguments(
        &self,
        calls: &[AggregateCall],
        sets: &[Vec<usize>],
        row: &mut GroupedRow<'_>,
    ) -> Result<()> {
        row.direct = true;
        for call in calls {
            for argument in &call.arguments[..call.direct.unwrap_or(0)] {
                let mut grouped = argument.clone();
                self.grouped(&mut grouped, row)?;
                // In the other sets the column would be NULL, but the argument is computed from
                // input rows.
                let in_some_sets = |part: &Expr| match part.kind {
                    ExprKind::Slot { depth: 0, slot } => {
                        !sets.iter().all(|set| set.contains(&slot))
                    }
                    _ => false,
                };
                if grouped.any(&mut |part| in_some_sets(part)) {
                    let what = "a column that some grouping sets have, as a direct argument";
                    return Err(self.unsupported(what, argument.location));
                }
            }
        }
        row.direct = false;
        Ok(())
    }

    /// Does the same for an expression `level` query levels below the grouping. `groups` are the
    /// group expressions as seen from there.
    fn grouped_at(
        &self,
        expr: &mut Expr,
        groups: &[Expr],
        level: usize,
        row: &mut GroupedRow<'_>,
    ) -> Result<()> {
        // Inside a nested query, PostgreSQL recognizes only columns.
        let group_of = |expr: &Expr| {
            groups.iter().position(|group| {
                let is_column = matches!(group.kind, ExprKind::Slot { .. });
                // A group with another type label over the same bytes still matches.
                let recast = group.ty != expr.ty && (is_column || group.made_type().is_some());
                let same = if recast {
                    group.same(&Expr { ty: group.ty, ..expr.clone() })
                } else {
                    group.same(expr)
                };
                (level == 0 || is_column) && same
            })
        };
        if let Some(slot) = group_of(expr) {
            expr.kind = ExprKind::Slot { depth: level, slot };
            // The group already has its collation, so the expression need not repeat it.
            expr.collation = expr.collation.filter(|own| groups[slot].collation != Some(*own));
            return Ok(());
        }
        match &mut expr.kind {
            ExprKind::Aggregate(number) if level == 0 => {
                let slot = groups.len() + *number;
                expr.kind = ExprKind::Slot { depth: 0, slot };
                return Ok(());
            }
            ExprKind::Grouping(arguments) => {
                // A call that belongs to an outer query is rewritten there.
                if level_of(arguments.iter()) > level {
                    return Ok(());
                }
                let mut numbers = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let number = group_of(argument).filter(|number| *number < row.written);
                    numbers.push(number.ok_or_else(|| {
                        let message = "arguments to GROUPING must be grouping expressions of the associated query level";
                        self.error("42803", message, argument.location)
                    })?);
                }
                let known = row.calls.iter().position(|known| *known == numbers);
                let call = known.unwrap_or(row.calls.len());
                if known.is_none() {
                    row.calls.push(numbers);
                }
                let slot = groups.len() + row.aggregates + call;
                expr.kind = ExprKind::Slot { depth: level, slot };
                return Ok(());
            }
            ExprKind::Slot { depth, slot } if *depth == level => {
                let (slot, location) = (*slot, expr.location);
                let error = self.ungrouped(slot, location, level > 0);
                return Err(if row.direct && level == 0 {
                    error.with_detail(
                    "Direct arguments of an ordered-set aggregate must use only grouped columns.",
                )
                } else {
                    error
                });
            }
            ExprKind::SubQuery(sub) => {
                if let Nested::Query(query) = &mut sub.query {
                    self.grouped_query(query, &one_level_down(groups), level + 1, row)?;
                }
            }
            _ => {}
        }
        expr.try_for_each_child_mut(&mut |child| self.grouped_at(child, groups, level, row))
    }

    fn grouped_query(
        &self,
        query: &mut Query,
        groups: &[Expr],
        level: usize,
        row: &mut GroupedRow<'_>,
    ) -> Result<()> {
        let mut result = Ok(());
        query.for_each_expr_mut(&mut |expr| {
            if result.is_ok() {
                result = self.grouped_at(expr, groups, level, row);
            }
        });
        result?;
        let below = one_level_down(groups);
        let mut result = Ok(());
        query.for_each_item_query_mut(&mut |query| {
            if result.is_ok() {
                result = self.grouped_query(query, &below, level + 1, row);
            }
        });
        result
    }

    fn ungrouped(&self, slot: usize, location: i32, nested: bool) -> niwaki_parse::error::SqlError {
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

    /// Adds functionally dependent columns as groups. If every set groups by a primary key, its
    /// table's columns have the same values in all rows of a group.
    pub(crate) fn add_dependent_groups(&self, by: &mut GroupBy) {
        let Some(scope) = self.scopes.last() else { return };
        for item in &scope.items {
            let Some(relation) = &item.relation else { continue };
            let Some(key) = relation.primary_key() else { continue };
            // A deferrable key may have duplicates for a while.
            if !relation.indexes[key].definition.is_unique_at_once() {
                continue;
            }
            let grouped = |column: usize| {
                by.groups.iter().enumerate().any(|(number, group)| {
                    matches!(group.kind, ExprKind::Slot { depth: 0, slot } if slot == item.start + column)
                        && by.in_all_sets(number)
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
                            && !by.groups.iter().any(|g| g.same(&c.expr))
                    }
                    _ => false,
                })
                .map(|c| c.expr.clone())
                .collect();
            if !more.is_empty() {
                self.note_key(relation.indexes[key].oid);
            }
            more.into_iter().for_each(|expr| by.add_dependent(expr));
        }
    }
}

/// Returns the group expressions as seen from a nested query.
fn one_level_down(groups: &[Expr]) -> Vec<Expr> {
    let mut groups = groups.to_vec();
    groups.iter_mut().for_each(|group| shift_depth(group, 1));
    groups
}
