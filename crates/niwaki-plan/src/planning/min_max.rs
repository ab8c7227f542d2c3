//! `min` and `max` of a whole table, read as the first row in an index order.
//!
//! ```text
//! SELECT min(a), max(b) FROM t WHERE …
//!
//! becomes
//!
//! SELECT (SELECT a FROM t WHERE … AND a IS NOT NULL ORDER BY a LIMIT 1),
//!        (SELECT b FROM t WHERE … AND b IS NOT NULL ORDER BY b DESC LIMIT 1)
//! ```

use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::function::AggregateKind;
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::{
    AggregateCall, Body, Distinct, From, Grouping, OrderKey, Query, Select, Windowing, has_query,
    is_volatile,
};
use niwaki_settings::planner_settings::PlannerSettings;
use niwaki_types::{Datum, TypeOid};

use super::estimate;
use super::scan::is_disabled;

/// The queries that compute `min` and `max` aggregates.
pub(super) struct Extremes {
    /// One pair for each aggregate: ordered with NULLs last, and ordered with NULLs first.
    pub(super) queries: Vec<[Query; 2]>,
    /// True if the table's conditions contain nested queries.
    pub(super) nested: bool,
}

/// Returns the queries if all aggregates are `min` or `max` over the rows of one stored table.
pub(super) fn extremes(from: &From, grouping: &Grouping) -> Option<Extremes> {
    let one_table = from.only_table().is_some() && !from.conditions.iter().any(is_volatile);
    let one_group = grouping.groups.is_empty() && grouping.sets.sets.is_empty();
    if !one_table || !one_group || !grouping.sets.calls.is_empty() || grouping.calls.is_empty() {
        return None;
    }
    let queries: Option<Vec<_>> = grouping.calls.iter().map(|call| extreme(from, call)).collect();
    Some(Extremes { queries: queries?, nested: from.conditions.iter().any(has_query) })
}

fn extreme(from: &From, call: &AggregateCall) -> Option<[Query; 2]> {
    let descending = match call.kind {
        AggregateKind::Min => false,
        AggregateKind::Max => true,
        _ => return None,
    };
    let [argument] = call.arguments.as_slice() else { return None };
    let plain = call.filter.is_none() && call.order.is_empty();
    if !plain || has_query(argument) || is_volatile(argument) {
        return None;
    }
    let query = |nulls_first: bool| {
        let mut from = from.clone();
        let value = Box::new(argument.clone());
        let is_null = ExprKind::IsNull { argument: value, negated: true };
        from.conditions.push(Expr::new(is_null, TypeOid::BOOL, -1));
        let select = Select {
            from,
            grouping: None,
            windowing: Windowing::default(),
            targets: vec![argument.clone()],
            sets: Vec::new(),
            distinct: Distinct::None,
            locks: Vec::new(),
        };
        let mut query = Query {
            body: Body::Select(Box::new(select)),
            columns: vec![ColumnInfo::computed(call.name.as_str(), argument.column_type())],
            order: vec![OrderKey { target: 0, descending, nulls_first }],
            limit: Some(Expr::constant(Datum::Int8(1), TypeOid::INT8, -1)),
            offset: None,
        };
        // The query becomes a nested query, one level below the rows around it.
        query.outer_slots_mut(1, &mut |slot, _| {
            if let ExprKind::Slot { depth, .. } = &mut slot.kind {
                *depth += 1;
            }
        });
        query
    };
    Some([query(false), query(true)])
}

/// Returns whether the step returns its rows in the requested order without a sort.
pub(super) fn comes_in_order(node: &PlanNode) -> bool {
    match node {
        PlanNode::Limit { input, .. }
        | PlanNode::Project { input, .. }
        | PlanNode::Filter { input, .. }
        | PlanNode::Gate { input, .. } => comes_in_order(input),
        PlanNode::Scan(_) | PlanNode::Append(_) => true,
        _ => false,
    }
}

/// Returns the cost of computing `calls` aggregates over all rows.
pub(super) fn cost_of_all(rows: &PlanNode, calls: usize, settings: &PlannerSettings) -> f64 {
    if is_disabled(rows, settings) {
        return f64::INFINITY;
    }
    let rows = estimate(rows);
    rows.total + rows.rows * calls as f64 * settings.costs.cpu_operator_cost
}
