//! The computation order of windows, with the sorts that they need.
//!
//! Windows whose input is sorted alike share the sort. So do windows whose order is a prefix of
//! another's: the longest comes first. Otherwise the order is PostgreSQL's. It determines the order
//! of the rows when the query has no ORDER BY. PostgreSQL numbers expressions as ORDER BY, GROUP
//! BY, DISTINCT and the windows name them. A window over a later expression is computed earlier.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::{PlanNode, WindowCalls, WindowPlan};
use niwaki_expr::query::{SortKey, Windowing, is_constant};
use niwaki_types::{ColumnType, TypeOid};

/// The window steps above a row source, with the properties of their output.
pub(super) struct Windowed {
    pub(super) node: PlanNode,
    /// Number of values of the node's rows.
    pub(super) width: usize,
    /// The sort order of the node's rows.
    pub(super) order: Vec<SortKey>,
    /// Expressions computed once for all windows. `first_computed` is the slot of the first one.
    computed: Vec<Expr>,
    first_computed: usize,
}

impl Windowed {
    /// Rewrites an expression over the row below for the row above. Calls become result slots, and
    /// computed expressions become their slots.
    pub(super) fn place(&self, expr: &mut Expr) {
        place_computed(expr, &self.computed, self.first_computed);
        place_results(expr, self.first_computed + self.computed.len());
    }
}

/// Returns the numbers of the windows in computation order. `named` are the expressions that other
/// clauses sort or compare by, in PostgreSQL's order.
pub(super) fn window_order(windowing: &Windowing, named: &[Expr]) -> Vec<usize> {
    let mut numbered: Vec<Expr> = Vec::new();
    let mut number = |expr: &Expr| {
        if let Some(number) = numbered.iter().position(|known| known.same(expr)) {
            number
        } else {
            numbered.push(expr.clone());
            numbered.len() - 1
        }
    };
    named.iter().for_each(|expr| {
        number(expr);
    });
    for window in &windowing.windows {
        window.order.iter().for_each(|key| {
            number(&key.expr);
        });
        window.partition.iter().for_each(|expr| {
            number(expr);
        });
    }
    let keys: Vec<Vec<(usize, bool, bool)>> = windowing
        .windows
        .iter()
        .map(|window| {
            let keys = window.sort_keys();
            keys.iter().map(|key| (number(&key.expr), key.descending, key.nulls_first)).collect()
        })
        .collect();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&keys[*a], &keys[*b]);
        let differ = a.iter().zip(b).map(|(a, b)| b.cmp(a)).find(|o| *o != Ordering::Equal);
        differ.unwrap_or_else(|| b.len().cmp(&a.len()))
    });
    order
}

/// Returns the sort keys of the window that is computed first.
pub(super) fn first_order(windowing: &Windowing, order: &[usize]) -> Vec<SortKey> {
    order.first().map_or_else(Vec::new, |first| windowing.windows[*first].sort_keys())
}

/// Puts the windows' steps above `node`.
///
/// The node's rows have one value for each element of `used`, and are sorted by `sorted`. An
/// element of `used` is true if the windows or the steps above them read the value.
pub(super) fn windowed(
    mut windowing: Windowing,
    order: &[usize],
    node: PlanNode,
    used: &[bool],
    mut sorted: Vec<SortKey>,
) -> Windowed {
    let width = used.len();
    let first_computed = width;
    let (mut node, computed) = computed(&mut windowing, &mut sorted, node, width);
    let width = width + computed.len();
    let Windowing { windows, calls } = windowing;
    // While later windows are computed, the row already has the results of the earlier ones.
    let total = width + calls.len();
    let mut input_width = width;
    for number in order {
        let window = windows[*number].clone();
        let keys = window.sort_keys();
        let is_sorted =
            keys.len() <= sorted.len() && keys.iter().zip(&sorted).all(|(a, b)| a.same(b));
        if !is_sorted {
            node = PlanNode::Sort { input: Arc::new(node), keys: keys.clone(), presorted: 0 };
            sorted = keys;
        }
        let own = calls.iter().enumerate().filter(|(_, call)| call.window == *number);
        let calls = own.map(|(call, found)| (width + call, found.body.clone())).collect();
        let over_input = WindowCalls { window, calls };
        let plan = Box::new(WindowPlan::new(input_width, used, over_input));
        node = PlanNode::Window { input: Arc::new(node), plan };
        input_width = total;
    }
    Windowed { node, width: total, order: sorted, computed, first_computed }
}

/// Computes the partition and order expressions once, so that all windows see the same values.
///
/// The computed values follow the row's own values, which stay in place. Returns the new node and
/// the computed expressions.
fn computed(
    windowing: &mut Windowing,
    sorted: &mut [SortKey],
    node: PlanNode,
    width: usize,
) -> (PlanNode, Vec<Expr>) {
    let mut found: Vec<Expr> = Vec::new();
    for window in &mut windowing.windows {
        let order = window.order.iter_mut().map(|key| &mut key.expr);
        for expr in window.partition.iter_mut().chain(order) {
            if matches!(expr.kind, ExprKind::Slot { .. }) || is_constant(expr) {
                continue;
            }
            let known = found.iter().position(|known| known.same(expr));
            let number = known.unwrap_or(found.len());
            if known.is_none() {
                found.push(expr.clone());
            }
            expr.kind = ExprKind::Slot { depth: 0, slot: width + number };
        }
    }
    if found.is_empty() {
        return (node, found);
    }
    sorted.iter_mut().for_each(|key| place_computed(&mut key.expr, &found, width));
    // The row's own values are passed on unchanged, whatever their types.
    let own = (0..width).map(|slot| Expr::slot(slot, ColumnType::new(TypeOid::UNKNOWN)));
    let exprs: Vec<Expr> = own.chain(found.iter().cloned()).collect();
    let sets = Vec::new();
    (PlanNode::Project { input: Arc::new(node), input_width: width, exprs, sets }, found)
}

fn place_computed(expr: &mut Expr, computed: &[Expr], first: usize) {
    if let Some(number) = computed.iter().position(|known| known.same(expr)) {
        expr.kind = ExprKind::Slot { depth: 0, slot: first + number };
    }
    expr.for_each_child_mut(&mut |child| place_computed(child, computed, first));
}

fn place_results(expr: &mut Expr, results: usize) {
    if let ExprKind::Window(number) = expr.kind {
        expr.kind = ExprKind::Slot { depth: 0, slot: results + number };
    }
    expr.for_each_child_mut(&mut |child| place_results(child, results));
}
