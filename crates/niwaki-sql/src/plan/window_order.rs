//! In which order windows are computed, and what is sorted for them.
//!
//! Windows whose input is sorted alike share the sort, and so do those whose order begins another's: the longest comes
//! first. Apart from that the order is PostgreSQL's, from which the order of the rows follows where nobody asks for one:
//! expressions are numbered as ORDER BY, GROUP BY, DISTINCT and the windows name them, and a window over a later one
//! is computed earlier.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_types::{ColumnType, TypeOid};

use super::window::is_constant;
use super::{PlanNode, SortKey, WindowCalls, WindowPlan, Windowing};
use crate::expr::{Expr, ExprKind};

/// The steps above a row, and what is known of what they give.
pub(super) struct Windowed {
    pub(super) node: PlanNode,
    /// Values of its rows.
    pub(super) width: usize,
    /// What its rows are sorted by.
    pub(super) order: Vec<SortKey>,
    /// What is computed for all windows, and the slot of the first of it.
    computed: Vec<Expr>,
    first_computed: usize,
}

impl Windowed {
    /// Lets an expression over the row below read the row above: results in the place of calls, and what is computed
    /// there already.
    pub(super) fn place(&self, expr: &mut Expr) {
        place_computed(expr, &self.computed, self.first_computed);
        place_results(expr, self.first_computed + self.computed.len());
    }
}

/// The numbers of the windows in the order in which they are computed. `named` are the expressions that other clauses
/// sort or compare by, in PostgreSQL's order.
pub(super) fn window_order(windowing: &Windowing, named: &[Expr]) -> Vec<usize> {
    let mut numbered: Vec<Expr> = Vec::new();
    let mut number = |expr: &Expr| match numbered.iter().position(|known| known.same(expr)) {
        Some(number) => number,
        None => {
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

/// What the first window that is computed wants its rows sorted by.
pub(super) fn first_order(windowing: &Windowing, order: &[usize]) -> Vec<SortKey> {
    order.first().map_or_else(Vec::new, |first| windowing.windows[*first].sort_keys())
}

/// Puts the windows' steps above `node`, whose rows have as many values as `used`, which says of each whether the windows or what is
/// above them read it, and are sorted by `sorted`.
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
    // Results of windows that are computed first stand in the row already while the others are.
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

/// Computes what the windows divide and sort by, so that it is computed once and the same for all that look at it: behind
/// the row's own values, which stay where they are. Returns what is computed, too.
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
    // The own values are passed on as they are, whatever their types.
    let own = (0..width).map(|slot| Expr::slot(slot, ColumnType::new(TypeOid::UNKNOWN)));
    let exprs: Vec<Expr> = own.chain(found.iter().cloned()).collect();
    let sets = Vec::new();
    (PlanNode::Project { input: Arc::new(node), input_width: width, exprs, sets }, found)
}

fn place_computed(expr: &mut Expr, computed: &[Expr], first: usize) {
    if let Some(number) = computed.iter().position(|known| known.same(expr)) {
        expr.kind = ExprKind::Slot { depth: 0, slot: first + number };
    }
    // Cannot fail: the visit does not.
    let _ = expr.for_each_child_mut(&mut |child| {
        place_computed(child, computed, first);
        Ok(())
    });
}

fn place_results(expr: &mut Expr, results: usize) {
    if let ExprKind::Window(number) = expr.kind {
        expr.kind = ExprKind::Slot { depth: 0, slot: results + number };
    }
    // Cannot fail: the visit does not.
    let _ = expr.for_each_child_mut(&mut |child| {
        place_results(child, results);
        Ok(())
    });
}
