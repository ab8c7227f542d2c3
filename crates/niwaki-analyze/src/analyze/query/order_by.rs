//! ORDER BY, DISTINCT and LIMIT.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{Distinct, OrderKey};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::CastContext;
use niwaki_types::{Datum, TypeOid};
use pg_query::protobuf::{self, LimitOption, SortByDir, SortByNulls, a_const};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::Place;
use crate::analyze::query::targets::Target;

impl Analyzer<'_> {
    /// Analyzes ORDER BY. Each key has the number of its target; a key that is no output column is
    /// added as a target.
    pub(crate) fn sort_clause(
        &mut self,
        nodes: &[Node],
        targets: &mut Vec<Target>,
    ) -> Result<Vec<OrderKey>> {
        self.set_place(Place::OrderBy)?;
        let mut order: Vec<OrderKey> = Vec::new();
        for node in nodes {
            let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
            let (descending, nulls_first) = self.sort_direction(sort)?;
            let Some(key) = sort.node.as_deref() else { continue };
            let target = self.key_target(key, targets, "ORDER BY")?;
            let ty = targets[target].expr.ty;
            if !self.is_ordered("<", &targets[target].expr) {
                return Err(self
                    .error(
                        "42883",
                        format!(
                            "could not identify an ordering operator for type {}",
                            self.format_oid(ty)
                        ),
                        targets[target].expr.location,
                    )
                    .with_hint("Use an explicit ordering operator or modify the query."));
            }
            self.check_order_collation(&targets[target].expr)?;
            if !order.iter().any(|key| key.target == target) {
                order.push(OrderKey { target, descending, nulls_first });
            }
        }
        Ok(order)
    }

    /// Returns the target of a key of ORDER BY or DISTINCT ON. A key that is no output column is
    /// added as a target.
    pub(crate) fn key_target(
        &mut self,
        key: &Node,
        targets: &mut Vec<Target>,
        clause: &str,
    ) -> Result<usize> {
        let target = if let Some(target) = self.named_target(key, targets, clause, true)? {
            target
        } else {
            let sets_before = self.scope()?.sets.len();
            let expr = self.expr(key)?;
            let place = |expr: &Expr| {
                let known = |t: &Target| t.expr.same(expr) && t.expr.collation == expr.collation;
                targets.iter().position(known)
            };
            let mut known = place(&expr);
            if known.is_none() && self.scope()?.sets.len() > sets_before {
                // A set-returning call repeated as a key is the one of the target list.
                known = place(&self.over_known_sets(&expr, sets_before)?);
                if known.is_some() {
                    self.scope()?.sets.truncate(sets_before);
                }
            }
            if let Some(target) = known {
                target
            } else {
                let (name, origin, junk) = (String::new(), (0, 0), true);
                targets.push(Target { expr, name, origin, junk });
                targets.len() - 1
            }
        };
        let expr = std::mem::replace(
            &mut targets[target].expr,
            Expr::constant(Datum::Null, TypeOid::TEXT, -1),
        );
        targets[target].expr = self.to_output(expr)?;
        Ok(target)
    }

    /// Rewrites an expression to use the first `known` set-returning calls of the query where they
    /// are the same.
    fn over_known_sets(&mut self, expr: &Expr, known: usize) -> Result<Expr> {
        let sets = &self.scope()?.sets;
        let earlier = |number: usize| {
            let call = sets.get(number)?;
            sets.iter().take(known).position(|earlier| earlier.same(call))
        };
        let mut expr = expr.clone();
        renumber_sets(&mut expr, &earlier);
        Ok(expr)
    }

    pub(crate) fn sort_direction(&self, sort: &protobuf::SortBy) -> Result<(bool, bool)> {
        let descending = match sort.sortby_dir() {
            SortByDir::SortbyDesc => true,
            SortByDir::SortbyUsing => {
                return Err(self.unsupported("ORDER BY … USING", sort.location));
            }
            _ => false,
        };
        let nulls_first = match sort.sortby_nulls() {
            SortByNulls::SortbyNullsFirst => true,
            SortByNulls::SortbyNullsLast => false,
            _ => descending,
        };
        Ok((descending, nulls_first))
    }

    /// Returns the output column that an unqualified name or a position means.
    pub(crate) fn named_target(
        &mut self,
        key: &Node,
        targets: &[Target],
        clause: &str,
        names_first: bool,
    ) -> Result<Option<usize>> {
        match key.node.as_ref() {
            Some(NodeEnum::AConst(constant)) => {
                let position = match &constant.val {
                    Some(a_const::Val::Ival(integer)) => integer.ival,
                    None if !constant.isnull => 0,
                    _ => {
                        return Err(self.error(
                            "42601",
                            format!("non-integer constant in {clause}"),
                            constant.location,
                        ));
                    }
                };
                let visible = targets.iter().filter(|t| !t.junk).count();
                usize::try_from(position)
                    .ok()
                    .and_then(|p| p.checked_sub(1))
                    .filter(|p| *p < visible)
                    .map(Some)
                    .ok_or_else(|| {
                        self.error(
                            "42P10",
                            format!("{clause} position {position} is not in select list"),
                            constant.location,
                        )
                    })
            }
            Some(NodeEnum::ColumnRef(column)) => {
                let names = names_of(&column.fields);
                let [name] = names.as_slice() else { return Ok(None) };
                // GROUP BY prefers a column of FROM over an output column.
                if !names_first {
                    let in_from = self.scope()?.items.iter().any(|item| {
                        item.columns.iter().any(|c| c.bare && !c.hidden && c.name == *name)
                    });
                    if in_from {
                        return Ok(None);
                    }
                }
                let mut found: Option<usize> = None;
                for (number, target) in targets.iter().enumerate() {
                    if target.junk || target.name != *name {
                        continue;
                    }
                    match found {
                        Some(first) if !targets[first].expr.same(&target.expr) => {
                            return Err(self.error(
                                "42702",
                                format!("{clause} \"{name}\" is ambiguous"),
                                column.location,
                            ));
                        }
                        Some(_) => {}
                        None => found = Some(number),
                    }
                }
                Ok(found)
            }
            _ => Ok(None),
        }
    }

    /// Analyzes DISTINCT and DISTINCT ON. The expressions of DISTINCT ON become targets and sort
    /// keys.
    pub(crate) fn distinct_clause(
        &mut self,
        select: &protobuf::SelectStmt,
        targets: &mut Vec<Target>,
        order: &mut Vec<OrderKey>,
    ) -> Result<Distinct> {
        if select.distinct_clause.is_empty() {
            return Ok(Distinct::None);
        }
        let mut on: Vec<usize> = Vec::new();
        self.set_place(Place::DistinctOn)?;
        for node in select.distinct_clause.iter().filter(|node| node.node.is_some()) {
            let target = self.key_target(node, targets, "DISTINCT ON")?;
            if !on.contains(&target) {
                on.push(target);
            }
        }
        if on.is_empty() {
            if let Some(key) = order.iter().find(|key| targets[key.target].junk) {
                return Err(self.error(
                    "42P10",
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    targets[key.target].expr.location,
                ));
            }
            for target in targets.iter() {
                self.needs_equality(&target.expr)?;
            }
            return Ok(Distinct::Rows);
        }
        for target in &on {
            self.needs_equality(&targets[*target].expr)?;
        }
        let behind = order.iter().skip_while(|key| on.contains(&key.target));
        let matching = order.iter().take_while(|key| on.contains(&key.target)).count();
        // The leading ORDER BY keys must be the DISTINCT ON expressions, until all of these are
        // present.
        if matching < on.len()
            && let Some(key) = behind.into_iter().next()
        {
            return Err(self.error(
                "42P10",
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                targets[key.target].expr.location,
            ));
        }
        let ordered = !order.is_empty();
        for target in &on {
            if !order.iter().any(|key| key.target == *target) {
                let (descending, nulls_first) = (false, false);
                order.push(OrderKey { target: *target, descending, nulls_first });
            }
        }
        Ok(Distinct::On { targets: on, ordered })
    }

    fn needs_equality(&self, expr: &Expr) -> Result<()> {
        if self.is_ordered("=", expr) {
            return self.check_order_collation(expr);
        }
        let message = format!(
            "could not identify an equality operator for type {}",
            self.format_oid(expr.ty)
        );
        Err(self.error("42883", message, expr.location))
    }

    /// Analyzes LIMIT and OFFSET.
    pub(crate) fn limit(
        &mut self,
        select: &protobuf::SelectStmt,
    ) -> Result<(Option<Expr>, Option<Expr>)> {
        if select.limit_option() == LimitOption::WithTies {
            return Err(SqlError::unsupported("WITH TIES"));
        }
        let bound =
            |this: &mut Self, node: &Option<Box<Node>>, name: &str| -> Result<Option<Expr>> {
                let Some(node) = node else { return Ok(None) };
                // LIMIT sees no columns of its own query.
                let items = std::mem::take(&mut this.scope()?.items);
                this.set_place(Place::Limit)?;
                let expr = this.expr(node);
                this.scope()?.items = items;
                let expr = expr.map_err(|error| {
                    if error.sqlstate == "42703" {
                        let mut error = error;
                        error.sqlstate = "42P10";
                        error.message = format!("argument of {name} must not contain variables");
                        error
                    } else {
                        error
                    }
                })?;
                if expr.is_null_const() {
                    return Ok(None);
                }
                let (from, location) = (expr.ty, expr.location);
                let expr = this.coerce(expr, TypeOid::INT8, CastContext::Assignment)?;
                expr.map(Some).ok_or_else(|| {
                    this.error(
                        "42804",
                        format!(
                            "argument of {name} must be type bigint, not type {}",
                            this.format_oid(from)
                        ),
                        location,
                    )
                })
            };
        let count = bound(self, &select.limit_count, "LIMIT")?;
        let offset = bound(self, &select.limit_offset, "OFFSET")?;
        Ok((count, offset))
    }
}

fn renumber_sets(expr: &mut Expr, number_of: &dyn Fn(usize) -> Option<usize>) {
    if let ExprKind::SetReturning(number) = &mut expr.kind {
        *number = number_of(*number).unwrap_or(*number);
        return;
    }
    expr.for_each_child_mut(&mut |child| renumber_sets(child, number_of));
}
