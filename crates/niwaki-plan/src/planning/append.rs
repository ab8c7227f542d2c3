//! Scans of a partitioned table: one scan for each partition.

use std::sync::Arc;

use niwaki_catalog::{Bound, ColumnMap, PartitionStrategy, Partitions, Relation};
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::{AppendMember, AppendPlan, Estimate, PlanNode, SYSTEM, possible_leaves};
use niwaki_expr::query::{SortKey, conjunction, has_query, is_volatile, reads_only, reads_slots};
use niwaki_parse::types::element_of;
use niwaki_settings::planner_settings::CostSettings;
use niwaki_types::Datum;

use super::estimate::estimate;

use super::cost;
use super::index_path::UNKNOWN_GROUPS;
use super::scan::{ScanContext, is_disabled, plan_scan};

/// Plans the scans of a table's partitions under conditions, as [`plan_scan`] does for a plain
/// table. Returns the step and the number of leading keys of the wanted order that hold.
pub(crate) fn plan_append(
    relation: &Arc<Relation>,
    name: &str,
    start: usize,
    used: &[bool],
    conditions: &[Expr],
    context: &ScanContext<'_>,
) -> (PlanNode, usize) {
    let width = relation.columns.len();
    let mut node = AppendPlan {
        relation: Arc::clone(relation),
        name: name.to_owned(),
        start,
        members: Vec::new(),
        merge: Vec::new(),
        prune: Vec::new(),
        estimate: Estimate::default(),
    };
    let Some(partitions) = &relation.partitions else {
        return (PlanNode::Append(node), 0);
    };
    let slots = node.slots();
    let slot_of = |column: usize| (column < width).then_some(start + column);
    let possible = possible_leaves(relation, &slot_of, conditions, &mut constant);
    // Conditions whose values are known only before the scan may prune more at execution.
    let mut later = false;
    let mut known = |expr: &Expr| {
        let before = !is_volatile(expr)
            && reads_only(expr, &mut |slot| !slots.contains(slot) && (context.available)(slot));
        later = later || before && constant(expr).is_none();
        None
    };
    possible_leaves(relation, &slot_of, conditions, &mut known);
    if later {
        node.prune = conditions.to_vec();
    }
    let chosen: Vec<usize> = (0..partitions.leaves.len()).filter(|leaf| possible[*leaf]).collect();
    let scans = Scans { partitions, name, start, width, used, conditions, chosen: &chosen };
    let wanted = context.order.len();
    if chosen.len() < 2 {
        let (members, ordered) = scans.plan(context);
        node.estimate = one_after_the_other(&members);
        node.members = members;
        return (PlanNode::Append(node), if chosen.is_empty() { wanted } else { ordered });
    }
    let plain = ScanContext {
        order: &[],
        forced: false,
        limit: context.limit.filter(|_| wanted == 0),
        ..*context
    };
    let (members, _) = scans.plan(&plain);
    node.estimate = one_after_the_other(&members);
    node.members = members;
    if wanted == 0 {
        return (PlanNode::Append(node), 0);
    }
    match scans.in_order(context, &node) {
        Some(Ordered { keys, members, merge, estimate }) => {
            (PlanNode::Append(AppendPlan { members, merge, estimate, ..node }), keys)
        }
        None => (PlanNode::Append(node), 0),
    }
}

/// Scans whose rows are in order.
struct Ordered {
    /// Number of leading keys of the wanted order that hold.
    keys: usize,
    members: Vec<AppendMember>,
    merge: Vec<SortKey>,
    estimate: Estimate,
}

/// Returns the sum of the scans' estimates.
fn one_after_the_other(members: &[AppendMember]) -> Estimate {
    let mut sum = Estimate::default();
    for (number, member) in members.iter().enumerate() {
        let below = estimate(&member.scan);
        if number == 0 {
            sum.startup = below.startup;
        }
        sum.rows += below.rows;
        sum.total += below.total;
        sum.width = sum.width.max(below.width);
    }
    sum
}

/// Returns the estimate of a merge. The first row needs a first row of each scan. Each row needs
/// comparisons.
fn merged(members: &[AppendMember], costs: &CostSettings) -> Estimate {
    let mut sum = one_after_the_other(members);
    sum.startup = members.iter().map(|member| estimate(&member.scan).startup).sum();
    let comparisons = 2.0 * (members.len() as f64).log2();
    sum.total += sum.rows * comparisons * costs.cpu_operator_cost;
    sum
}

/// The direction in which ordered partitions are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

/// The input for planning the scans of partitions.
struct Scans<'a> {
    partitions: &'a Partitions,
    /// Alias or name of the table.
    name: &'a str,
    /// First slot of the table's columns.
    start: usize,
    /// Number of columns of the table.
    width: usize,
    used: &'a [bool],
    conditions: &'a [Expr],
    /// Numbers of the leaves that may have rows.
    chosen: &'a [usize],
}

impl Scans<'_> {
    /// Plans the scans. Returns them, and the number of leading keys of the context's order that
    /// hold in each scan.
    fn plan(&self, context: &ScanContext<'_>) -> (Vec<AppendMember>, usize) {
        let alone = self.chosen.len() == 1;
        let mut members = Vec::with_capacity(self.chosen.len());
        let mut ordered = context.order.len();
        for (number, leaf) in self.chosen.iter().enumerate() {
            let below = &self.partitions.leaves[*leaf];
            let name =
                if alone { self.name.to_owned() } else { format!("{}_{}", self.name, number + 1) };
            let mut member = AppendMember {
                leaf: *leaf,
                scan: Arc::new(PlanNode::Result),
                copies: Vec::new(),
                filter: None,
            };
            let in_order = if below.columns.is_same() {
                let conditions = self.conditions.to_vec();
                let (start, used) = (self.start, self.used);
                let (plan, in_order) =
                    plan_scan(&below.relation, &name, start, used, conditions, context);
                member.scan = Arc::new(PlanNode::Scan(plan));
                in_order
            } else {
                let own = Own {
                    start: self.used.len(),
                    table: self.start,
                    width: self.width,
                    columns: &below.columns,
                };
                let conditions = self.conditions;
                own.plan(&below.relation, &name, self.used, conditions, context, &mut member)
            };
            ordered = ordered.min(in_order);
            members.push(member);
        }
        (members, ordered)
    }

    /// Plans the scans with ordered rows, as far as possible. Returns `None` if no order is
    /// possible. The same holds if the order is optional, and a sort of the `unordered` rows costs
    /// less.
    fn in_order(&self, context: &ScanContext<'_>, unordered: &AppendPlan) -> Option<Ordered> {
        let wanted = context.order.len();
        let some_do = !context.forced && context.settings.enable_incremental_sort;
        let least = if some_do { 1 } else { wanted };
        let (keys, mut members) = (least..=wanted).rev().find_map(|keys| {
            let order = &context.order[..keys];
            let (members, held) = self.plan(&ScanContext { order, forced: true, ..*context });
            (held == keys).then_some((keys, members))
        })?;
        let (order, costs) = (&context.order[..keys], &context.settings.costs);
        let direction = self.direction(order);
        let estimate = match direction {
            Some(_) => one_after_the_other(&members),
            None => merged(&members, costs),
        };
        // Rows that are equal in these keys are sorted by the remaining keys, group by group.
        let groups = if keys == wanted { estimate.rows } else { UNKNOWN_GROUPS }.max(1.0);
        let of_group = estimate.rows / groups;
        let sorts = if keys == wanted { 0.0 } else { groups * cost::sort(of_group, costs) };
        let part = context
            .limit
            .map_or(1.0, |limit| (limit.max(of_group) / estimate.rows.max(1.0)).min(1.0));
        let total = estimate.startup + (estimate.total - estimate.startup + sorts) * part;
        let forbidden = |member: &AppendMember| is_disabled(&member.scan, &context.settings);
        let sorted = unordered.estimate.total + cost::sort(unordered.estimate.rows, costs);
        let may_be_sorted = !context.forced && !unordered.members.iter().any(forbidden);
        if may_be_sorted && total > sorted {
            return None;
        }
        let mut merge = Vec::new();
        match direction {
            Some(Direction::Ascending) => {}
            Some(Direction::Descending) => members.reverse(),
            None => merge = order.to_vec(),
        }
        Some(Ordered { keys, members, merge, estimate })
    }

    /// Returns the direction in which appended partitions keep the `order` that each partition's
    /// rows have. `None`: appending does not keep the order.
    ///
    /// Range partitions follow one another. So do their rows, in the order of the bounds' columns
    /// or of the first ones among these. Rows that are equal in all key columns are in one
    /// partition. NULL is only in the default partition.
    fn direction(&self, order: &[SortKey]) -> Option<Direction> {
        if self.partitions.key.strategy != PartitionStrategy::Range {
            return None;
        }
        let follows = self.chosen.iter().all(|leaf| {
            let of = self.partitions.members.iter().find(|member| member.leaves.contains(leaf));
            of.is_some_and(|member| {
                matches!(member.bound, Bound::Range { .. }) && member.relation.partitions.is_none()
            })
        });
        let descending = order.first()?.descending;
        let by_bounds = order.iter().zip(&self.partitions.key.columns).all(|(key, column)| {
            let slot = self.start + usize::from(*column);
            key.descending == descending
                && matches!(key.expr.kind, ExprKind::Slot { depth: 0, slot: found } if found == slot)
        });
        let direction = if descending { Direction::Descending } else { Direction::Ascending };
        (follows && by_bounds).then_some(direction)
    }
}

/// The slots of a partition whose columns have other positions than the table's.
struct Own<'m> {
    /// First slot of the partition.
    start: usize,
    /// First slot of the table.
    table: usize,
    /// Number of columns of the table.
    width: usize,
    /// Maps the table's columns to the partition's.
    columns: &'m ColumnMap,
}

impl Own<'_> {
    /// Returns the partition's slot for a slot of the table. `below` is the partition's number of
    /// columns.
    fn slot(&self, slot: usize, below: usize) -> Option<usize> {
        let place = slot.checked_sub(self.table)?;
        if place < self.width {
            return self.columns.place(place).map(|place| self.start + place);
        }
        (place < self.width + SYSTEM).then(|| self.start + below + (place - self.width))
    }

    fn plan(
        &self,
        relation: &Arc<Relation>,
        name: &str,
        used: &[bool],
        conditions: &[Expr],
        context: &ScanContext<'_>,
        member: &mut AppendMember,
    ) -> usize {
        let below = relation.columns.len();
        let mut own_used = used.to_vec();
        own_used.resize(self.start + below + SYSTEM, false);
        for slot in self.table..self.table + self.width + SYSTEM {
            if let Some(own) = self.slot(slot, below)
                && used.get(slot).copied().unwrap_or(false)
            {
                own_used[own] = true;
                member.copies.push((own, slot));
            }
        }
        let (mut inside, mut above) = (Vec::new(), Vec::new());
        for condition in conditions {
            // Nested queries read the row around them as it is.
            if !has_query(condition) && self.has_all_of(condition, below) {
                inside.push(self.moved(condition, below));
            } else {
                above.push(condition.clone());
            }
        }
        let has_order = context.order.iter().all(|key| self.has_all_of(&key.expr, below));
        let order: Vec<SortKey> = if has_order {
            context.order.iter().map(|key| self.moved_key(key, below)).collect()
        } else {
            Vec::new()
        };
        let context =
            ScanContext { order: &order, forced: context.forced && has_order, ..*context };
        let (plan, ordered) = plan_scan(relation, name, self.start, &own_used, inside, &context);
        member.scan = Arc::new(PlanNode::Scan(plan));
        member.filter = conjunction(above);
        ordered
    }

    /// Returns whether the partition has every column of the table that the expression reads.
    fn has_all_of(&self, expr: &Expr, below: usize) -> bool {
        let mut all = true;
        reads_slots(expr, &mut |slot| {
            let own = (self.table..self.table + self.width + SYSTEM).contains(&slot);
            all = all && (!own || self.slot(slot, below).is_some());
        });
        all
    }

    /// Rewrites an expression over the table's slots into one over the partition's slots.
    fn moved(&self, expr: &Expr, below: usize) -> Expr {
        let mut expr = expr.clone();
        self.move_slots(&mut expr, below);
        expr
    }

    fn moved_key(&self, key: &SortKey, below: usize) -> SortKey {
        SortKey { expr: self.moved(&key.expr, below), ..*key }
    }

    fn move_slots(&self, expr: &mut Expr, below: usize) {
        if let ExprKind::Slot { depth: 0, slot } = &mut expr.kind
            && let Some(own) = self.slot(*slot, below)
        {
            *slot = own;
        }
        expr.for_each_child_mut(&mut |child| self.move_slots(child, below));
    }
}

/// Returns the value of a constant, or of an array of constants.
fn constant(expr: &Expr) -> Option<Datum> {
    match &expr.kind {
        ExprKind::Const(value) => Some(value.clone()),
        ExprKind::Array(elements) => {
            let element = element_of(expr.ty)?;
            let values = elements.iter().map(constant).collect::<Option<Vec<Datum>>>()?;
            Some(Datum::array(element, values))
        }
        _ => None,
    }
}
