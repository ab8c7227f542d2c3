//! Traversal of expressions and queries: finds the slots that they read, at any query level.

use niwaki_catalog::FunctionVolatility;

use super::{
    AggregateCall, Body, From, FromItem, ItemKind, JoinTree, JoinType, ModifyQuery, ModifySource,
    Query, StatementBody, StatementQuery,
};
use crate::expr::{Expr, ExprKind, Nested};

/// Defines the traversal of one query level, and of the slots of the levels around it. Shared and
/// mutable parts have one definition, so each part is named once.
macro_rules! walks {
    (
        $for_each_expr:ident, $for_each_item_query:ident, $outer_slots:ident,
        $expr_outer_slots:ident, $for_each_child:ident, $exprs:ident, $row_exprs:ident,
        $offsets:ident, $iter:ident $([$lifetime:lifetime])? $(, $mutable:ident)?
    ) => {
        impl Query {
            /// Calls `visit` with every expression of this level. It does not enter queries in FROM
            /// or inside expressions.
            pub fn $for_each_expr $(<$lifetime>)? (
                &$($lifetime)? $($mutable)? self,
                visit: &mut dyn FnMut(&$($lifetime)? $($mutable)? Expr),
            ) {
                match & $($mutable)? self.body {
                    Body::Select(select) => {
                        select.from.$for_each_expr(visit);
                        if let Some(grouping) = & $($mutable)? select.grouping {
                            grouping.groups.$iter().for_each(&mut *visit);
                            let calls = grouping.calls.$iter();
                            calls.flat_map(AggregateCall::$exprs).for_each(&mut *visit);
                            grouping.having.$iter().for_each(&mut *visit);
                        }
                        select.windowing.$row_exprs().for_each(&mut *visit);
                        select.windowing.$offsets().for_each(&mut *visit);
                        select.targets.$iter().for_each(&mut *visit);
                        let sets = select.sets.$iter();
                        sets.flat_map(|set| set.arguments.$iter()).for_each(&mut *visit);
                    }
                    Body::Values(rows) => rows.$iter().flatten().for_each(&mut *visit),
                    // It reads no rows of queries around it, and nothing moves into or out of its
                    // level.
                    Body::Modify(_) => {}
                    Body::Set(set) => {
                        for side in [& $($mutable)? set.left, & $($mutable)? set.right] {
                            side.query.$for_each_expr(visit);
                            side.exprs.$iter().for_each(&mut *visit);
                        }
                    }
                }
                self.limit.$iter().chain(self.offset.$iter()).for_each(visit);
            }

            /// Calls `visit` with every query among the FROM items.
            pub fn $for_each_item_query $(<$lifetime>)? (
                &$($lifetime)? $($mutable)? self,
                visit: &mut dyn FnMut(&$($lifetime)? $($mutable)? Query),
            ) {
                match & $($mutable)? self.body {
                    Body::Select(select) => select.from.$for_each_item_query(visit),
                    Body::Values(_) | Body::Modify(_) => {}
                    Body::Set(set) => {
                        set.left.query.$for_each_item_query(visit);
                        set.right.query.$for_each_item_query(visit);
                    }
                }
            }

            /// Calls `visit` with every inner slot that reads a row `level` or more levels up.
            ///
            /// The second argument is the query level of the slot's place. The slot's depth minus
            /// this level says which enclosing row it reads. `level` is the level of the query's
            /// own row: 1 if the query is nested directly in the row in question.
            pub fn $outer_slots(
                & $($mutable)? self,
                level: usize,
                visit: &mut dyn FnMut(& $($mutable)? Expr, usize),
            ) {
                self.$for_each_expr(&mut |expr| $expr_outer_slots(expr, level, visit));
                self.$for_each_item_query(&mut |query| query.$outer_slots(level + 1, visit));
            }
        }

        impl From {
            /// Calls `visit` with every expression of FROM and WHERE over their row.
            pub fn $for_each_expr $(<$lifetime>)? (
                &$($lifetime)? $($mutable)? self,
                visit: &mut dyn FnMut(&$($lifetime)? $($mutable)? Expr),
            ) {
                for item in & $($mutable)? self.items {
                    match & $($mutable)? item.kind {
                        ItemKind::Function { arguments, .. } => {
                            arguments.$iter().for_each(&mut *visit);
                        }
                        ItemKind::Single { expr, .. } => visit(expr),
                        ItemKind::Table(_)
                        | ItemKind::View(_)
                        | ItemKind::Query(_)
                        | ItemKind::Shared { .. }
                        | ItemKind::Working { .. } => {}
                    }
                }
                if let Some(tree) = & $($mutable)? self.tree {
                    tree.$for_each_expr(visit);
                }
                self.conditions.$iter().for_each(&mut *visit);
                self.recheck.$iter().flatten().for_each(visit);
            }

            /// Calls `visit` with each nested query of FROM.
            pub fn $for_each_item_query $(<$lifetime>)? (
                &$($lifetime)? $($mutable)? self,
                visit: &mut dyn FnMut(&$($lifetime)? $($mutable)? Query),
            ) {
                for item in & $($mutable)? self.items {
                    if let ItemKind::Query(query) = & $($mutable)? item.kind {
                        visit(query);
                    }
                }
            }
        }

        impl JoinTree {
            fn $for_each_expr $(<$lifetime>)? (
                &$($lifetime)? $($mutable)? self,
                visit: &mut dyn FnMut(&$($lifetime)? $($mutable)? Expr),
            ) {
                if let Self::Join(join) = self {
                    join.left.$for_each_expr(visit);
                    join.right.$for_each_expr(visit);
                    join.on.$iter().for_each(visit);
                }
            }
        }

        /// Does the work of [`Query::outer_slots`] for an expression whose own row is `level`
        /// levels down.
        pub fn $expr_outer_slots(
            expr: & $($mutable)? Expr,
            level: usize,
            visit: &mut dyn FnMut(& $($mutable)? Expr, usize),
        ) {
            if let ExprKind::Slot { depth, .. } = &expr.kind {
                if *depth >= level {
                    visit(expr, level);
                }
                return;
            }
            if let ExprKind::SubQuery(sub) = & $($mutable)? expr.kind
                && let Nested::Query(query) = & $($mutable)? sub.query
            {
                query.$outer_slots(level + 1, visit);
            }
            expr.$for_each_child(&mut |child| $expr_outer_slots(child, level, visit));
        }
    };
}

walks! {
    for_each_expr, for_each_item_query, outer_slots, expr_outer_slots, for_each_child, exprs,
    row_exprs, offsets, iter ['q]
}

walks! {
    for_each_expr_mut, for_each_item_query_mut, outer_slots_mut, expr_outer_slots_mut,
    for_each_child_mut, exprs_mut, row_exprs_mut, offsets_mut, iter_mut, mut
}

impl StatementQuery {
    /// Returns whether the statement contains anything volatile. A data change is volatile.
    pub fn is_volatile(&self) -> bool {
        match &self.body {
            StatementBody::Modify(_) | StatementBody::Merge(_) => true,
            StatementBody::Select(query) => {
                query.is_volatile() || self.shared.iter().any(|shared| shared.query.is_volatile())
            }
        }
    }

    /// Counts the references to each WITH query. The analysis counted references as written. If it
    /// copied an expression, such as a part of a row, the copies contain further references.
    pub fn count_named(&mut self) {
        let mut counts = vec![0_usize; self.shared.len()];
        let mut visit = |number: usize| {
            if let Some(count) = counts.get_mut(number) {
                *count += 1;
            }
        };
        match &self.body {
            StatementBody::Select(query) => query.named_shared(&mut visit),
            StatementBody::Modify(modify) => modify.named_shared(&mut visit),
            StatementBody::Merge(merge) => {
                merge.from.named_shared(&mut visit);
                for action in &merge.actions {
                    action.condition.iter().for_each(|expr| named_inside(expr, &mut visit));
                    action.change.iter().for_each(|change| change.named_shared(&mut visit));
                }
            }
        }
        self.shared.iter().for_each(|shared| shared.query.named_shared(&mut visit));
        for (shared, count) in self.shared.iter_mut().zip(counts) {
            shared.references = shared.references.max(count);
        }
    }
}

impl ModifyQuery {
    /// Does the work of [`Query::named_shared`].
    fn named_shared(&self, visit: &mut dyn FnMut(usize)) {
        let update = self.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        let update =
            update.into_iter().flat_map(|it| it.values.iter().flatten().chain(&it.condition));
        let checks = self.view_checks.iter().map(|(_, condition)| condition);
        let own = self.values.iter().flatten().chain(&self.returning);
        own.chain(checks).chain(update).for_each(|expr| named_inside(expr, visit));
        match &self.source {
            ModifySource::Row => {}
            ModifySource::Rows(rows) => {
                rows.iter().flatten().for_each(|expr| named_inside(expr, visit));
            }
            ModifySource::Query(query) => query.named_shared(visit),
            ModifySource::From(from) => from.named_shared(visit),
        }
    }
}

impl Query {
    /// Returns whether the query reads rows of queries around it.
    pub fn is_correlated(&self) -> bool {
        let mut found = false;
        self.outer_slots(1, &mut |_, _| found = true);
        found
    }

    /// Returns the slots of the directly enclosing row that the query reads.
    pub fn reads(&self) -> Vec<usize> {
        let mut slots = Vec::new();
        self.outer_slots(1, &mut |expr, level| {
            if let ExprKind::Slot { depth, slot } = expr.kind
                && depth == level
            {
                slots.push(slot);
            }
        });
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Returns whether the query contains anything volatile, at any level.
    pub fn is_volatile(&self) -> bool {
        let own = match &self.body {
            Body::Modify(_) => true,
            Body::Select(select) => {
                let volatile = |item: &FromItem| matches!(&item.kind, ItemKind::Function { function, .. } if function.is_volatile());
                select.sets.iter().any(|set| set.function.is_volatile())
                    || select.from.items.iter().any(volatile)
            }
            Body::Set(_) | Body::Values(_) => false,
        };
        own || self.any_part(&Self::is_volatile, &volatile_inside)
    }

    /// Returns whether the query, or a query inside it, is a recursive UNION.
    pub fn has_recursion(&self) -> bool {
        let own = match &self.body {
            Body::Set(set) => set.recursive.is_some(),
            Body::Select(_) | Body::Values(_) | Body::Modify(_) => false,
        };
        let inside = |expr: &Expr| {
            expr.any(&mut |part| match &part.kind {
                ExprKind::SubQuery(sub) => match &sub.query {
                    Nested::Query(query) => query.has_recursion(),
                    Nested::Plan(_) => false,
                },
                _ => false,
            })
        };
        own || self.any_part(&Self::has_recursion, &inside)
    }

    /// Returns whether a query among the FROM items or a set-operation side satisfies `query`, or
    /// an expression of this level satisfies `expr`. Sides check their own parts, so each part is
    /// checked once.
    fn any_part(&self, query: &dyn Fn(&Self) -> bool, expr: &dyn Fn(&Expr) -> bool) -> bool {
        if let Body::Set(set) = &self.body {
            let mut sides = [&set.left, &set.right].into_iter();
            return sides.any(|side| query(&side.query) || side.exprs.iter().any(expr))
                || self.limit.iter().chain(&self.offset).any(expr);
        }
        let mut found = false;
        self.for_each_expr(&mut |part| found = found || expr(part));
        self.for_each_item_query(&mut |item| found = found || query(item));
        found
    }

    /// Calls `visit` with the number of a WITH query for each reference to it, anywhere inside.
    pub(crate) fn named_shared(&self, visit: &mut dyn FnMut(usize)) {
        match &self.body {
            Body::Select(select) => select.from.items_shared(visit),
            Body::Values(_) => {}
            Body::Modify(modify) => modify.named_shared(visit),
            Body::Set(set) => {
                for side in [&set.left, &set.right] {
                    side.query.named_shared(visit);
                    side.exprs.iter().for_each(|expr| named_inside(expr, visit));
                }
                let own = self.limit.iter().chain(&self.offset);
                return own.for_each(|expr| named_inside(expr, visit));
            }
        }
        self.for_each_expr(&mut |expr| named_inside(expr, visit));
        self.for_each_item_query(&mut |query| query.named_shared(visit));
    }
}

/// Does the work of [`Query::named_shared`] for the queries inside an expression.
fn named_inside(expr: &Expr, visit: &mut dyn FnMut(usize)) {
    expr.any(&mut |part| {
        if let ExprKind::SubQuery(sub) = &part.kind
            && let Nested::Query(query) = &sub.query
        {
            query.named_shared(visit);
        }
        false
    });
}

impl From {
    /// Does the work of [`Query::named_shared`].
    fn named_shared(&self, visit: &mut dyn FnMut(usize)) {
        self.items_shared(visit);
        self.for_each_expr(&mut |expr| named_inside(expr, visit));
        self.for_each_item_query(&mut |query| query.named_shared(visit));
    }

    fn items_shared(&self, visit: &mut dyn FnMut(usize)) {
        for item in &self.items {
            if let ItemKind::Shared { number } = item.kind {
                visit(number);
            }
        }
    }
}

impl JoinTree {
    /// Returns whether some join of the tree can fill the item with NULLs.
    pub fn is_nullable(&self, item: usize) -> bool {
        let Self::Join(join) = self else { return false };
        match join.kind {
            JoinType::Full => join.left.has(item) || join.right.has(item),
            JoinType::Left | JoinType::Anti if join.right.has(item) => true,
            _ => join.left.is_nullable(item) || join.right.is_nullable(item),
        }
    }

    fn has(&self, item: usize) -> bool {
        match self {
            Self::Item(number) => *number == item,
            Self::Join(join) => join.left.has(item) || join.right.has(item),
        }
    }

    /// Appends the numbers of the tree's items, in order.
    pub fn items(&self, out: &mut Vec<usize>) {
        match self {
            Self::Item(number) => out.push(*number),
            Self::Join(join) => {
                join.left.items(out);
                join.right.items(out);
            }
        }
    }
}

/// Calls `visit` with every slot of the current row that the expression, or a query inside it,
/// reads.
pub fn reads_slots(expr: &Expr, visit: &mut dyn FnMut(usize)) {
    match &expr.kind {
        ExprKind::Slot { depth: 0, slot } => visit(*slot),
        ExprKind::SubQuery(sub) => {
            match &sub.query {
                Nested::Query(query) => query.reads().into_iter().for_each(&mut *visit),
                Nested::Plan(plan) => plan.reads.iter().copied().for_each(&mut *visit),
            }
            expr.for_each_child(&mut |child| reads_slots(child, visit));
        }
        _ => expr.for_each_child(&mut |child| reads_slots(child, visit)),
    }
}

/// Shifts an expression to a place `by` levels further down.
pub fn shift_depth(expr: &mut Expr, by: usize) {
    expr_outer_slots_mut(expr, 0, &mut |slot, _| {
        if let ExprKind::Slot { depth, .. } = &mut slot.kind {
            *depth += by;
        }
    });
}

/// Returns whether the expression contains a query.
pub fn has_query(expr: &Expr) -> bool {
    expr.any(&mut |part| matches!(part.kind, ExprKind::SubQuery(_)))
}

/// Returns whether the expression is volatile, including queries inside it.
pub fn volatile_inside(expr: &Expr) -> bool {
    expr.any(&mut |part| match &part.kind {
        ExprKind::Call { function, .. } => function.volatility == FunctionVolatility::Volatile,
        ExprKind::UserCall { function, .. } => function.volatility == FunctionVolatility::Volatile,
        ExprKind::Domain { rules, .. } => rules.volatile,
        ExprKind::SubQuery(sub) => match &sub.query {
            Nested::Query(query) => query.is_volatile(),
            Nested::Plan(plan) => plan.volatile,
        },
        _ => false,
    })
}
