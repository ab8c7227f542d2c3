//! A partitioned table as the scans of its partitions.

use std::sync::Arc;

use niwaki_catalog::{ColumnMap, Relation};
use niwaki_types::Datum;

use super::conditions::{conjunction, is_volatile, reads_only};
use super::estimate::{Estimate, estimate};
use super::pruning::possible_leaves;
use super::scan::{ScanContext, plan_scan};
use super::{PlanNode, ScanPlan, SlotRange};
use crate::expr::{Expr, ExprKind};
use crate::query::reads_slots;
use crate::types::element_of;

/// The rows of some partitions of a table, one partition after the other.
#[derive(Clone, Debug)]
pub(crate) struct AppendPlan {
    /// The partitioned table.
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    /// First slot of its columns.
    pub(crate) start: usize,
    pub(crate) members: Vec<AppendMember>,
    /// Conditions that may leave out partitions when their values are known.
    pub(crate) prune: Vec<Expr>,
    pub(crate) estimate: Estimate,
}

/// The scan of one partition.
#[derive(Clone, Debug)]
pub(crate) struct AppendMember {
    /// Number of the leaf among the table's.
    pub(crate) leaf: usize,
    pub(crate) scan: Arc<PlanNode>,
    /// Where the scan's values go, if its columns stand elsewhere: slots of its own row, and of the table's.
    pub(crate) copies: Vec<(usize, usize)>,
    /// What is judged only then.
    pub(crate) filter: Option<Expr>,
}

impl AppendPlan {
    /// The slots of the table.
    pub(crate) fn slots(&self) -> SlotRange {
        let end = self.start + self.relation.columns.len() + SYSTEM;
        SlotRange { start: self.start, end }
    }

    /// Whether conditions that say nothing before the rows around the scans are known say something then: which partitions,
    /// or, as `of_scan` tells, which rows of all of them.
    pub(crate) fn uses_values(&self, of_scan: &dyn Fn(&ScanPlan) -> bool) -> bool {
        let used = |member: &AppendMember| match &*member.scan {
            PlanNode::Scan(scan) => of_scan(scan),
            _ => false,
        };
        !self.prune.is_empty() || !self.members.is_empty() && self.members.iter().all(used)
    }
}

/// System columns behind a table's own.
const SYSTEM: usize = 3;

/// Plans the scans of a partitioned table's partitions under conditions, as [`plan_scan`] does for a table.
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
        prune: Vec::new(),
        estimate: Estimate::default(),
    };
    let Some(partitions) = &relation.partitions else {
        return (PlanNode::Append(node), 0);
    };
    let slots = node.slots();
    let slot_of = |column: usize| (column < width).then_some(start + column);
    let possible = possible_leaves(relation, &slot_of, conditions, &mut constant);
    // Whatever is known before the scan may say more then.
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
    let alone = chosen.len() == 1;
    let mut ordered = if chosen.is_empty() { context.order.len() } else { 0 };
    for (number, leaf) in chosen.iter().enumerate() {
        let below = &partitions.leaves[*leaf];
        let name = if alone { name.to_owned() } else { format!("{name}_{}", number + 1) };
        let child = ScanContext {
            order: if alone { context.order } else { &[] },
            forced: alone && context.forced,
            limit: context.limit.filter(|_| alone || context.order.is_empty()),
            ..*context
        };
        let mut member = AppendMember {
            leaf: *leaf,
            scan: Arc::new(PlanNode::Result),
            copies: Vec::new(),
            filter: None,
        };
        if below.columns.is_same() {
            let conditions = conditions.to_vec();
            let (plan, in_order) =
                plan_scan(&below.relation, &name, start, used, conditions, &child);
            if alone {
                ordered = in_order;
            }
            member.scan = Arc::new(PlanNode::Scan(plan));
        } else {
            let own = Own { start: used.len(), table: start, width, columns: &below.columns };
            let child = ScanContext { order: &[], forced: false, ..child };
            own.plan(&below.relation, &name, used, conditions, &child, &mut member);
        }
        node.members.push(member);
    }
    for member in &node.members {
        let below = estimate(&member.scan);
        node.estimate.rows += below.rows;
        node.estimate.total += below.total;
        node.estimate.width = node.estimate.width.max(below.width);
    }
    (PlanNode::Append(node), ordered)
}

/// The slots of a partition whose columns do not stand where the table's do.
struct Own<'m> {
    /// First one of the partition.
    start: usize,
    /// First one of the table.
    table: usize,
    /// Columns of the table.
    width: usize,
    /// From the table's columns to the partition's.
    columns: &'m ColumnMap,
}

impl Own<'_> {
    /// The slot of the partition for one of the table's; `below` is the partition's number of columns.
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
    ) {
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
            let nested = condition.any(&mut |part| matches!(part.kind, ExprKind::SubQuery(_)));
            let mut fits = !nested;
            reads_slots(condition, &mut |slot| {
                let own = (self.table..self.table + self.width + SYSTEM).contains(&slot);
                fits = fits && (!own || self.slot(slot, below).is_some());
            });
            match fits {
                true => inside.push(self.moved(condition, below)),
                false => above.push(condition.clone()),
            }
        }
        let (plan, _) = plan_scan(relation, name, self.start, &own_used, inside, context);
        member.scan = Arc::new(PlanNode::Scan(plan));
        member.filter = conjunction(above);
    }

    /// A condition over the table's slots, over the partition's.
    fn moved(&self, expr: &Expr, below: usize) -> Expr {
        let mut expr = expr.clone();
        self.move_slots(&mut expr, below);
        expr
    }

    fn move_slots(&self, expr: &mut Expr, below: usize) {
        if let ExprKind::Slot { depth: 0, slot } = &mut expr.kind
            && let Some(own) = self.slot(*slot, below)
        {
            *slot = own;
        }
        // Cannot fail: the visit does not.
        let _ = expr.for_each_child_mut(&mut |child| {
            self.move_slots(child, below);
            Ok(())
        });
    }
}

/// The value of a constant, or an array of them.
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

/// Whether a value that pruning asks for may be computed before the scan.
pub(crate) fn is_early(expr: &Expr, plan: &AppendPlan) -> bool {
    let slots = plan.slots();
    !is_volatile(expr) && reads_only(expr, &mut |slot| !slots.contains(slot))
}
