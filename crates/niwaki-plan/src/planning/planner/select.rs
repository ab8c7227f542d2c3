//! Plans a SELECT: its input, then groups, windows, targets, sorts and duplicate elimination.

use std::sync::Arc;

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::{OuterCheck, PlanNode};
use niwaki_expr::query::{
    AggregateCall, Distinct, From, FromItem, Grouping, JoinTree, JoinType, LockTarget, OrderKey,
    Select, SetCall, SortKey, Windowing, conjunction, is_volatile, mark,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::ColumnType;

use super::{Planner, asking, sorted};
use crate::planning::cost;
use crate::planning::estimate::estimate;
use crate::planning::group_count::group_count;
use crate::planning::min_max::{Extremes, extremes};
use crate::planning::parallel::{gather_inner, workers};
use crate::planning::window_order::{Windowed, first_order, window_order, windowed};

/// The rows of FROM that satisfy WHERE, as the steps above read them.
struct Input {
    node: PlanNode,
    /// Number of leading keys of the wanted order that hold.
    ordered: usize,
    /// True if the rows of each group are adjacent.
    sorted_groups: bool,
}

/// The result of a SELECT, over the row of its groups or of FROM.
struct Output<'o> {
    order: &'o [OrderKey],
    /// Number of targets that are columns of the result. The others are only sorted by.
    columns: usize,
    /// Types of the targets.
    types: Vec<ColumnType>,
    targets: Vec<Expr>,
    /// Set-returning functions of the targets.
    sets: Vec<SetCall>,
    distinct: Distinct,
}

impl Planner<'_> {
    /// Plans a SELECT with `columns` columns, whose caller reads at most about `wanted_rows` rows.
    pub(super) fn select(
        &mut self,
        select: Select,
        columns: usize,
        order: &[OrderKey],
        wanted_rows: Option<f64>,
    ) -> Result<PlanNode> {
        let Select {
            mut from,
            mut grouping,
            mut windowing,
            mut targets,
            mut sets,
            distinct,
            locks,
        } = select;
        self.asking = asking(&from);
        let grouped = grouping.as_ref().filter(|_| locks.is_empty());
        let extremes = grouped.and_then(|grouping| extremes(&from, grouping));
        self.exprs_of_output(&mut targets, &mut sets, &mut windowing)?;
        let types = targets.iter().map(Expr::column_type).collect();
        let mut output = Output { order, columns, types, targets, sets, distinct };
        let windows = window_order(&windowing, &output.named_keys(grouping.as_ref()));
        // An index may supply the order if rows go one by one from the scan to the result. If
        // DISTINCT drops rows, the number of rows to read is unknown.
        let row_by_row = grouping.is_none()
            && windowing.is_empty()
            && output.distinct != Distinct::Rows
            && output.sets.is_empty();
        let limit = wanted_rows.filter(|_| row_by_row && output.distinct == Distinct::None);
        let wanted_order: Vec<SortKey> = if row_by_row {
            output.sort_keys()
        } else if grouping.is_none() {
            first_order(&windowing, &windows)
        } else {
            Vec::new()
        };
        let mut used = vec![false; from.width];
        if let Some(grouping) = &mut grouping {
            self.exprs_of_groups(grouping, &mut used)?;
        } else {
            windowing.row_exprs().for_each(|expr| mark(expr, &mut used));
            output.exprs().for_each(|expr| mark(expr, &mut used));
        }
        mark_addresses(&locks, &mut used);
        let width = from.width;
        let above = used.clone();
        let (recheck, outer) = self.rechecks(&mut from, &locks, &mut used)?;
        let plain =
            windowing.is_empty() && output.distinct == Distinct::None && output.sets.is_empty();
        let by_groups = grouping.as_ref().filter(|_| plain);
        let by_groups =
            by_groups.and_then(|grouping| group_order(grouping, order, &output.targets));
        let groups = grouping.as_ref().zip(by_groups.as_ref());
        let Input { mut node, ordered, sorted_groups } =
            self.input(from, &mut used, groups, wanted_rows, &wanted_order, limit)?;
        gather_inner(&mut node, &self.settings);
        let in_order = ordered >= wanted_order.len();
        let mut sort_done = row_by_row && in_order;
        // Number of leading ORDER BY keys by which the rows are sorted.
        let presorted = if row_by_row { ordered } else { 0 };
        if !locks.is_empty() {
            if !sort_done && !wanted_order.is_empty() {
                let (input, keys) = (Arc::new(node), wanted_order.clone());
                node = PlanNode::Sort { input, keys, presorted };
            }
            sort_done = true;
            node = PlanNode::LockRows { input: Arc::new(node), targets: locks, outer, recheck };
        }
        let grouped = grouping.is_some();
        let below = if in_order && !grouped { wanted_order } else { Vec::new() };
        let mut input_width = width;
        if let Some(grouping) = grouping {
            sort_done |= sorted_groups && by_groups.is_some_and(|by_groups| by_groups.ordered);
            (node, input_width) =
                self.aggregated(node, width, grouping, sorted_groups, extremes)?;
        }
        if !windowing.is_empty() {
            // Over groups, every value of the row counts as read.
            let read = if grouped { vec![true; input_width] } else { above };
            let done = windowed(windowing, &windows, node, &read, below);
            output.place(&done);
            sort_done = output.is_in_order_of(&done);
            (node, input_width) = (done.node, done.width);
        }
        output.steps(node, input_width, sort_done, presorted)
    }

    /// Plans the queries inside the expressions of the result and of the windows.
    fn exprs_of_output(
        &mut self,
        targets: &mut [Expr],
        sets: &mut [SetCall],
        windowing: &mut Windowing,
    ) -> Result<()> {
        for expr in targets.iter_mut().chain(sets.iter_mut().flat_map(|set| &mut set.arguments)) {
            self.expr(expr)?;
        }
        for expr in windowing.row_exprs_mut() {
            self.expr(expr)?;
        }
        for expr in windowing.offsets_mut() {
            self.expr(expr)?;
        }
        Ok(())
    }

    /// Plans the queries inside the expressions of the groups. Marks the slots that they read.
    fn exprs_of_groups(&mut self, grouping: &mut Grouping, used: &mut [bool]) -> Result<()> {
        for expr in grouping.groups.iter_mut().chain(&mut grouping.having) {
            self.expr(expr)?;
        }
        for call in &mut grouping.calls {
            for expr in call.exprs_mut() {
                self.expr(expr)?;
                mark(expr, used);
            }
        }
        grouping.groups.iter().for_each(|group| mark(group, used));
        Ok(())
    }

    /// Plans the conditions that recheck newer versions of locked rows: the condition of the whole
    /// row, and the left joins from the inside out. Marks the slots that the condition reads.
    fn rechecks(
        &mut self,
        from: &mut From,
        locks: &[LockTarget],
        used: &mut [bool],
    ) -> Result<(Option<Expr>, Vec<OuterCheck>)> {
        let mut outer = Vec::new();
        if locks.is_empty() {
            return Ok((None, outer));
        }
        refuse_nullable(from, locks)?;
        let recheck = self.recheck(from)?;
        recheck.iter().for_each(|expr| mark(expr, used));
        if let Some(tree) = &mut from.tree {
            self.outer_checks(tree, &from.items, &mut outer)?;
        }
        Ok((recheck, outer))
    }

    /// Plans FROM and WHERE. `groups` are set if the groups may be computed one after the other.
    /// Otherwise the rows should come in the wanted order, and the caller reads about `limit` rows.
    fn input(
        &mut self,
        from: From,
        used: &mut Vec<bool>,
        groups: Option<(&Grouping, &GroupOrder)>,
        wanted_rows: Option<f64>,
        wanted_order: &[SortKey],
        limit: Option<f64>,
    ) -> Result<Input> {
        match groups {
            Some((_, by_groups)) if !self.settings.enable_hashagg => {
                let (node, presorted) = self.from(from, used, &by_groups.keys, None)?;
                let node = sorted_by(node, &by_groups.keys, presorted);
                Ok(Input { node, ordered: 0, sorted_groups: true })
            }
            Some((grouping, by_groups)) if wanted_rows.is_some() && by_groups.ordered => {
                let limit = wanted_rows.unwrap_or(f64::INFINITY);
                let (node, sorted_groups) = self.grouped(from, used, grouping, by_groups, limit)?;
                Ok(Input { node, ordered: 0, sorted_groups })
            }
            _ => {
                let (node, ordered) = self.from(from, used, wanted_order, limit)?;
                Ok(Input { node, ordered, sorted_groups: false })
            }
        }
    }

    /// Plans FROM for a grouped query that reads only the first `limit` groups in an order.
    ///
    /// The rows come in that order if some path gives it and the part read costs less than grouping
    /// all rows. The flag says whether they do.
    fn grouped(
        &mut self,
        from: From,
        used: &mut Vec<bool>,
        grouping: &Grouping,
        by_groups: &GroupOrder,
        limit: f64,
    ) -> Result<(PlanNode, bool)> {
        let mut used_in_order = used.clone();
        let (all, _) = self.from(from.clone(), used, &[], None)?;
        let expected = estimate(&all);
        let groups = group_count(&all, expected.rows, &grouping.groups);
        let part = (limit / groups).min(1.0);
        let wanted = Some(expected.rows * part);
        let keys = &by_groups.keys;
        let in_order = self.second_way(|this| this.from(from, &mut used_in_order, keys, wanted))?;
        let Some((in_order, _)) = in_order.filter(|(_, found)| *found >= keys.len()) else {
            return Ok((all, false));
        };
        let costs = &self.settings.costs;
        let grouping = |rows: f64| rows * (costs.cpu_tuple_cost + costs.cpu_operator_cost);
        let hashed = expected.total + grouping(expected.rows) + cost::sort(groups, costs);
        let streamed = estimate(&in_order);
        let run = streamed.total - streamed.startup + grouping(streamed.rows);
        if streamed.startup + run * part >= hashed {
            return Ok((all, false));
        }
        *used = used_in_order;
        Ok((in_order, true))
    }

    /// Collects the left joins whose left side may get a newer row version, from the inside out.
    fn outer_checks(
        &mut self,
        tree: &mut JoinTree,
        items: &[FromItem],
        out: &mut Vec<OuterCheck>,
    ) -> Result<()> {
        let JoinTree::Join(join) = tree else { return Ok(()) };
        match join.kind {
            JoinType::Inner => {
                self.outer_checks(&mut join.left, items, out)?;
                self.outer_checks(&mut join.right, items, out)
            }
            JoinType::Semi | JoinType::Anti => self.outer_checks(&mut join.left, items, out),
            JoinType::Left => {
                self.outer_checks(&mut join.left, items, out)?;
                for part in &mut join.on {
                    self.expr(part)?;
                }
                let on = join.on.clone();
                let mut numbers = Vec::new();
                join.right.items(&mut numbers);
                let slots = numbers.into_iter().map(|number| items[number].slots).collect();
                out.extend(conjunction(on).map(|on| OuterCheck { slots, on }));
                Ok(())
            }
            JoinType::Full => Ok(()),
        }
    }

    /// Puts the computation of groups above rows of `width` values. Returns also the number of
    /// values of a row of groups.
    fn aggregated(
        &mut self,
        node: PlanNode,
        width: usize,
        grouping: Grouping,
        sorted: bool,
        extremes: Option<Extremes>,
    ) -> Result<(PlanNode, usize)> {
        let workers = if sorted { 0 } else { workers(&node, &grouping, &self.settings) };
        let sets = grouping.sets;
        let output_width = grouping.groups.len() + grouping.calls.len() + sets.calls.len();
        let by_index = match extremes {
            Some(extremes) => self.by_index(extremes, &node)?,
            None => None,
        };
        let node = match by_index {
            Some(exprs) => {
                let input = Arc::new(PlanNode::Result);
                PlanNode::Project { input, input_width: 0, exprs, sets: Vec::new() }
            }
            None => PlanNode::Aggregate {
                input: Arc::new(node),
                input_width: width,
                groups: grouping.groups,
                written: grouping.written,
                sets,
                calls: grouping.calls,
                sorted,
                workers,
            },
        };
        let node = match grouping.having {
            Some(condition) => PlanNode::Filter { input: Arc::new(node), condition },
            None => node,
        };
        Ok((node, output_width))
    }
}

impl Output<'_> {
    /// Returns the expressions of the result.
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.targets.iter().chain(self.sets.iter().flat_map(|set| &set.arguments))
    }

    /// Returns the key of ORDER BY over the row below the result.
    fn sort_key(&self, wanted: &OrderKey) -> SortKey {
        SortKey {
            expr: self.targets[wanted.target].clone(),
            descending: wanted.descending,
            nulls_first: wanted.nulls_first,
        }
    }

    /// Returns the keys of ORDER BY over the row below the result.
    fn sort_keys(&self) -> Vec<SortKey> {
        self.order.iter().map(|wanted| self.sort_key(wanted)).collect()
    }

    /// Returns the expressions that ORDER BY, GROUP BY and DISTINCT name, in this order, over the
    /// input row of the windows.
    fn named_keys(&self, grouping: Option<&Grouping>) -> Vec<Expr> {
        let mut named: Vec<Expr> =
            self.order.iter().map(|key| self.targets[key.target].clone()).collect();
        for (slot, group) in grouping.iter().flat_map(|grouping| &grouping.groups).enumerate() {
            named.push(Expr::slot(slot, group.column_type()));
        }
        match &self.distinct {
            Distinct::None => {}
            Distinct::Rows => named.extend(self.targets[..self.columns].iter().cloned()),
            Distinct::On { targets: on, .. } => {
                named.extend(on.iter().map(|target| self.targets[*target].clone()));
            }
        }
        named
    }

    /// Rewrites the expressions for the row above the windows.
    fn place(&mut self, done: &Windowed) {
        let arguments = self.sets.iter_mut().flat_map(|set| &mut set.arguments);
        self.targets.iter_mut().chain(arguments).for_each(|expr| done.place(expr));
    }

    /// Decides whether the rows above the windows are in the order of the result.
    fn is_in_order_of(&self, done: &Windowed) -> bool {
        let known = |(wanted, by): (&OrderKey, &SortKey)| self.sort_key(wanted).same(by);
        self.sets.is_empty()
            && self.distinct != Distinct::Rows
            && self.order.len() <= done.order.len()
            && self.order.iter().zip(&done.order).all(known)
    }

    /// Decides whether the targets are computed after the sort. Volatile targets are computed late,
    /// as in PostgreSQL: in the result's order, and not for rows that LIMIT drops. Targets that the
    /// rows are sorted by are an exception.
    fn is_late(&self) -> bool {
        let by_volatile = self.order.iter().any(|wanted| is_volatile(&self.targets[wanted.target]));
        self.distinct == Distinct::None
            && self.sets.is_empty()
            && !by_volatile
            && self.targets.iter().any(is_volatile)
    }

    /// Decides whether set-returning functions expand the rows after the sort and after DISTINCT
    /// ON. As in PostgreSQL they do, unless these use a set.
    fn has_sets_last(&self) -> bool {
        let (on, ordered) = match &self.distinct {
            Distinct::On { targets, ordered } => (targets.as_slice(), *ordered),
            _ => (&[][..], !self.order.is_empty()),
        };
        let mut by = self.order.iter().map(|wanted| wanted.target).chain(on.iter().copied());
        !self.sets.is_empty()
            && ordered
            && self.distinct != Distinct::Rows
            && !by.any(|target| has_set(&self.targets[target]))
    }

    /// Puts the steps of the result above rows of `input_width` values. The rows are sorted by
    /// `presorted` leading keys of ORDER BY, or by all keys if the sort is done.
    fn steps(
        mut self,
        mut node: PlanNode,
        input_width: usize,
        mut sort_done: bool,
        presorted: usize,
    ) -> Result<PlanNode> {
        let sets_last = self.has_sets_last();
        if (self.is_late() && !self.order.is_empty() || sets_last) && !sort_done {
            let keys = self.sort_keys();
            node = PlanNode::Sort { input: Arc::new(node), keys, presorted };
            sort_done = true;
        }
        if let Distinct::On { targets: on, .. } = &self.distinct
            && sets_last
            && !on.is_empty()
        {
            let keys = on.iter().map(|target| self.targets[*target].clone()).collect();
            node = PlanNode::First { input: Arc::new(node), keys };
        }
        self.targets.iter_mut().for_each(|target| place_sets(target, input_width));
        let Output { order, columns, types, targets: exprs, sets, distinct } = self;
        node = PlanNode::Project { input: Arc::new(node), input_width, exprs, sets };
        if distinct == Distinct::Rows {
            let columns = types[..columns].to_vec();
            node = PlanNode::Distinct { input: Arc::new(node), columns };
        }
        if !sort_done {
            node = sorted(node, order, &types, presorted);
        }
        if let Distinct::On { targets, .. } = distinct
            && !sets_last
        {
            let keys =
                targets.into_iter().map(|target| Expr::slot(target, types[target])).collect();
            node = PlanNode::First { input: Arc::new(node), keys };
        }
        Ok(node)
    }
}

/// Marks the slots with the addresses of locked rows: the row's TID, and its partition.
fn mark_addresses(locks: &[LockTarget], used: &mut [bool]) {
    for lock in locks {
        let address = lock.start + lock.relation.columns.len();
        used[address] = true;
        used[address + 1] |= lock.relation.is_partitioned();
    }
}

/// Refuses to lock rows of the nullable side of an outer join.
fn refuse_nullable(from: &From, locks: &[LockTarget]) -> Result<()> {
    for lock in locks {
        let number = from.items.iter().position(|item| item.slots.start == lock.start);
        if let (Some(tree), Some(number)) = (&from.tree, number)
            && tree.is_nullable(number)
        {
            let message = format!(
                "{} cannot be applied to the nullable side of an outer join",
                lock.lock.clause()
            );
            return Err(SqlError::new("0A000", message));
        }
    }
    Ok(())
}

/// An order in which the rows of each group are adjacent.
struct GroupOrder {
    /// Keys over the row that is grouped.
    keys: Vec<SortKey>,
    /// True if the groups come in the query's order.
    ordered: bool,
}

/// Returns the order for computing groups one after the other; `None` where that is impossible.
fn group_order(grouping: &Grouping, order: &[OrderKey], targets: &[Expr]) -> Option<GroupOrder> {
    let groups = &grouping.groups;
    let plain = |call: &AggregateCall| !call.distinct && call.order.is_empty();
    let possible = grouping.sets.sets.is_empty()
        && !groups.is_empty()
        && groups.iter().all(|group| !is_volatile(group))
        && grouping.calls.iter().all(plain);
    if !possible {
        return None;
    }
    let (mut keys, mut left) = (Vec::new(), (0..groups.len()).collect::<Vec<usize>>());
    let mut ordered = grouping.having.is_none();
    for wanted in order {
        let group = match targets[wanted.target].kind {
            ExprKind::Slot { depth: 0, slot } => groups.get(slot).map(|group| (slot, group)),
            _ => None,
        };
        let Some((slot, group)) = group else {
            ordered = false;
            break;
        };
        // A repeated key orders nothing.
        if left.contains(&slot) {
            left.retain(|other| *other != slot);
            let (descending, nulls_first) = (wanted.descending, wanted.nulls_first);
            keys.push(SortKey { expr: group.clone(), descending, nulls_first });
        }
    }
    let rest = left.into_iter().map(|slot| groups[slot].clone());
    keys.extend(rest.map(|expr| SortKey { expr, descending: false, nulls_first: false }));
    Some(GroupOrder { keys, ordered })
}

/// Sorts by expressions over the rows. `presorted` is the number of leading keys by which the rows
/// are already sorted.
fn sorted_by(node: PlanNode, keys: &[SortKey], presorted: usize) -> PlanNode {
    if presorted >= keys.len() {
        node
    } else {
        PlanNode::Sort { input: Arc::new(node), keys: keys.to_vec(), presorted }
    }
}

/// Returns whether the expression contains a set-returning function.
fn has_set(expr: &Expr) -> bool {
    expr.any(&mut |part| matches!(part.kind, ExprKind::SetReturning(_)))
}

/// Makes the set-returning functions inside an expression slots, from the slot `first` on. The step
/// that runs the functions puts their values there.
fn place_sets(expr: &mut Expr, first: usize) {
    expr.for_each_child_mut(&mut |child| {
        let ExprKind::SetReturning(number) = child.kind else { return place_sets(child, first) };
        child.kind = ExprKind::Slot { depth: 0, slot: first + number };
    });
}
