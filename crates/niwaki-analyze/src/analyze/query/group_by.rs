//! GROUP BY: analyzes the group expressions and the grouping sets.

use niwaki_env::stack;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{CUBE_MAX, GroupingClause, GroupingItem, SETS_MAX, expr_outer_slots};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::TypeOid;
use pg_query::protobuf::{self, CoercionForm, GroupingSetKind, RowExpr};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::names::scope::{Place, Within};
use crate::analyze::query::targets::Target;

/// Exclusive limit for the number of arguments of GROUPING: the int4 result has one bit for each.
const ARGUMENTS_END: usize = 32;

/// The analyzed GROUP BY clause.
#[derive(Default)]
pub(crate) struct GroupBy {
    /// The group expressions, without duplicates.
    pub(crate) groups: Vec<Expr>,
    /// The clause as written, unless it is a plain list of all group expressions.
    pub(crate) clause: Option<GroupingClause>,
    /// The grouping sets, the shortest first. Empty if there is only one set, with all group
    /// expressions.
    pub(crate) sets: Vec<Vec<usize>>,
    /// Targets that the clause names, with their groups. Two targets with the same expression may
    /// belong to different sets.
    pub(crate) named: Vec<(usize, usize)>,
}

impl GroupBy {
    /// Returns whether every set has the group expression.
    pub(crate) fn in_all_sets(&self, group: usize) -> bool {
        self.sets.iter().all(|set| set.contains(&group))
    }

    /// Adds a group expression that the other group expressions of every set determine.
    pub(crate) fn add_dependent(&mut self, expr: Expr) {
        let number = self.groups.len();
        self.groups.push(expr);
        self.sets.iter_mut().for_each(|set| set.push(number));
    }
}

impl Analyzer<'_> {
    pub(crate) fn group_clause(
        &mut self,
        select: &protobuf::SelectStmt,
        targets: &[Target],
    ) -> Result<GroupBy> {
        self.set_place(Place::GroupBy)?;
        let mut nodes = Vec::new();
        select.group_clause.iter().for_each(|node| listed(node, &mut nodes));
        let mut by = GroupBy::default();
        let mut items = Vec::new();
        let mut has_sets = false;
        let mut single = Vec::new();
        for node in nodes {
            if let Some(NodeEnum::GroupingSet(set)) = &node.node {
                has_sets = true;
                // Next to other items, an empty set adds nothing.
                if set.kind() != GroupingSetKind::GroupingSetEmpty {
                    items.push(self.grouping_set(set, targets, &mut by)?);
                }
                continue;
            }
            let group = self.group(node, targets, &mut by)?;
            if !single.contains(&group) {
                single.push(group);
                items.push(GroupingItem::Simple(vec![group]));
            }
        }
        if has_sets && items.is_empty() {
            items.push(GroupingItem::Simple(Vec::new()));
        }
        let distinct = select.group_distinct;
        let mut clause = GroupingClause { items, distinct };
        if has_sets {
            by.sets = clause.expand().ok_or_else(|| {
                let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                SqlError::new("54001", message)
            })?;
        }
        // A single set is a plain list.
        if by.sets.len() == 1 && !by.groups.is_empty() {
            by.sets.clear();
            let groups = 0..by.groups.len();
            clause.items = groups.map(|group| GroupingItem::Simple(vec![group])).collect();
            has_sets = false;
        }
        by.clause = (has_sets || distinct).then_some(clause);
        Ok(by)
    }

    /// Analyzes GROUPING SETS, ROLLUP or CUBE.
    fn grouping_set(
        &mut self,
        set: &protobuf::GroupingSet,
        targets: &[Target],
        by: &mut GroupBy,
    ) -> Result<GroupingItem> {
        stack::deeper(|| self.grouping_set_here(set, targets, by))
    }

    fn grouping_set_here(
        &mut self,
        set: &protobuf::GroupingSet,
        targets: &[Target],
        by: &mut GroupBy,
    ) -> Result<GroupingItem> {
        let mut parts = Vec::new();
        for node in &set.content {
            match &node.node {
                Some(NodeEnum::GroupingSet(inner)) => {
                    match self.grouping_set(inner, targets, by)? {
                        GroupingItem::Sets(inner) => parts.extend(inner),
                        item => parts.push(item),
                    }
                }
                Some(NodeEnum::RowExpr(row)) if is_list(row) => {
                    let mut nodes = Vec::new();
                    listed(node, &mut nodes);
                    let mut numbers = Vec::new();
                    for node in nodes {
                        let group = self.group(node, targets, by)?;
                        if !numbers.contains(&group) {
                            numbers.push(group);
                        }
                    }
                    parts.push(GroupingItem::Simple(numbers));
                }
                _ => {
                    let group = self.group(node, targets, by)?;
                    parts.push(GroupingItem::Simple(vec![group]));
                }
            }
        }
        match set.kind() {
            GroupingSetKind::GroupingSetCube if parts.len() > CUBE_MAX => {
                let message = format!("CUBE is limited to {CUBE_MAX} elements");
                Err(self.error("54011", message, set.location))
            }
            GroupingSetKind::GroupingSetCube => Ok(GroupingItem::Cube(parts)),
            GroupingSetKind::GroupingSetRollup => Ok(GroupingItem::Rollup(parts)),
            GroupingSetKind::GroupingSetSets => Ok(GroupingItem::Sets(parts)),
            GroupingSetKind::GroupingSetEmpty => Ok(GroupingItem::Simple(Vec::new())),
            _ => Err(SqlError::internal("a grouping set of another kind")),
        }
    }

    /// Returns the number of a group expression, and adds it if it is new.
    fn group(&mut self, node: &Node, targets: &[Target], by: &mut GroupBy) -> Result<usize> {
        let target = self.named_target(node, targets, "GROUP BY", false)?;
        let known = by.named.iter().find(|(known, _)| Some(*known) == target);
        if let Some((_, group)) = known {
            return Ok(*group);
        }
        let expr = match target {
            Some(target) => targets[target].expr.clone(),
            None => self.expr(node)?,
        };
        let of_groups = |e: &Expr| matches!(e.kind, ExprKind::Aggregate(_) | ExprKind::Grouping(_));
        if expr.any(&mut |e| of_groups(e)) {
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
        if !self.is_ordered("=", &expr) {
            return Err(self.error(
                "42883",
                format!(
                    "could not identify an equality operator for type {}",
                    self.format_oid(expr.ty)
                ),
                expr.location,
            ));
        }
        self.check_order_collation(&expr)?;
        // If another target has the same expression, it is a separate group.
        let free = |group: usize| target.is_none() || by.named.iter().all(|(_, own)| *own != group);
        let known =
            (0..by.groups.len()).find(|group| by.groups[*group].same(&expr) && free(*group));
        let group = known.unwrap_or(by.groups.len());
        if known.is_none() {
            by.groups.push(expr);
        }
        by.named.extend(target.map(|target| (target, group)));
        Ok(group)
    }

    /// Analyzes GROUPING (…). It belongs to the innermost query whose columns it names.
    pub(crate) fn grouping_call(&mut self, call: &protobuf::GroupingFunc) -> Result<Expr> {
        let location = call.location;
        if call.args.len() >= ARGUMENTS_END {
            let message = format!("GROUPING must have fewer than {ARGUMENTS_END} arguments");
            return Err(self.error("54023", message, location));
        }
        // LIMIT cannot see columns.
        if self.scope()?.place == Place::Limit {
            let message = "grouping operations are not allowed in LIMIT";
            return Err(self.error("42803", message, location));
        }
        let mut arguments = Vec::with_capacity(call.args.len());
        for argument in self.exprs(&call.args)? {
            arguments.push(self.to_output(argument)?);
        }
        let nested = |e: &Expr| matches!(e.kind, ExprKind::Aggregate(_) | ExprKind::Grouping(_));
        if arguments.iter().any(|argument| argument.any(&mut |e| nested(e))) {
            return Err(self.error("42803", "aggregate function calls cannot be nested", location));
        }
        let level = level_of(&arguments);
        let number = self.scopes.len().checked_sub(level + 1);
        let Some(scope) = number.and_then(|number| self.scopes.get_mut(number)) else {
            return Err(SqlError::internal("GROUPING of a query that is not there"));
        };
        let (place, within) = (scope.place, scope.within);
        scope.asks_for_sets = true;
        if !place.allows_aggregates() {
            let place = match place {
                Place::From if level > 0 => "FROM clause of their own query level",
                place => place.name(),
            };
            let message = format!("grouping operations are not allowed in {place}");
            return Err(self.error("42803", message, location));
        }
        if within == Within::Aggregate {
            return Err(self.error("42803", "aggregate function calls cannot be nested", location));
        }
        Ok(Expr::new(ExprKind::Grouping(arguments), TypeOid::INT4, location))
    }
}

/// Returns the level of an aggregate or GROUPING with these arguments. The level is the number of
/// queries that the call's own query is further out.
pub(crate) fn level_of<'e>(arguments: impl IntoIterator<Item = &'e Expr>) -> usize {
    let mut found: Option<usize> = None;
    for argument in arguments {
        expr_outer_slots(argument, 0, &mut |slot, level| {
            if let ExprKind::Slot { depth, .. } = slot.kind {
                found = Some(found.map_or(depth - level, |known| known.min(depth - level)));
            }
        });
    }
    found.unwrap_or(0)
}

/// Returns whether a row constructor stands for the list in its parentheses.
fn is_list(row: &RowExpr) -> bool {
    row.row_format() == CoercionForm::CoerceImplicitCast
}

/// Collects the expressions in parentheses, however deeply these nest.
fn listed<'n>(node: &'n Node, out: &mut Vec<&'n Node>) {
    match &node.node {
        Some(NodeEnum::RowExpr(row)) if is_list(row) => {
            row.args.iter().for_each(|node| listed(node, out));
        }
        _ => out.push(node),
    }
}
