//! Unneeded ORDER BY in FROM queries: `SELECT count(*) FROM (SELECT … ORDER BY …) t`.
//!
//! Query builders produce such counts for paginated lists. PostgreSQL sorts the rows first.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::function::AggregateKind;
use niwaki_expr::query::{AggregateCall, Body, Distinct, ItemKind, Query, Select, volatile_inside};
use niwaki_types::TypeOid;

/// Removes the order of FROM queries whose rows are only grouped. Groups and aggregates must not
/// depend on the order.
pub(super) fn leave_out(select: &mut Select) {
    let Some(grouping) = &select.grouping else { return };
    let any_order = grouping.groups.iter().all(looks_one_way)
        && grouping.calls.iter().all(gives_the_same)
        && !select.from.conditions.iter().any(volatile_inside);
    if !any_order {
        return;
    }
    for item in &mut select.from.items {
        if let ItemKind::Query(query) = &mut item.kind
            && has_order_only(query)
        {
            query.order.clear();
            // The sort-only values.
            if let Body::Select(inside) = &mut query.body {
                inside.targets.truncate(query.columns.len());
            }
        }
    }
}

/// Returns whether ORDER BY affects nothing but the order of the query's rows.
fn has_order_only(query: &Query) -> bool {
    let by_order = match &query.body {
        Body::Select(select) => {
            // Computing a sort-only value may fail.
            let mut only_sorted_by = select.targets.iter().skip(query.columns.len());
            !select.locks.is_empty()
                || matches!(select.distinct, Distinct::On { .. })
                || !only_sorted_by.all(|key| matches!(key.kind, ExprKind::Slot { .. }))
        }
        Body::Set(_) | Body::Values(_) => false,
        Body::Modify(_) => true,
    };
    !query.order.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && !by_order
        && !query.is_volatile()
}

/// Returns whether equal values of the type also look the same. Then it does not matter which of
/// them comes first.
fn looks_one_way(value: &Expr) -> bool {
    use TypeOid as T;
    let ty = value.ty;
    matches!(ty, T::BOOL | T::INT2 | T::INT4 | T::INT8 | T::OID | T::DATE | T::TEXT | T::VARCHAR)
        || matches!(ty, T::TIMESTAMP | T::TIMESTAMPTZ | T::UUID)
}

/// Returns whether an aggregate has the same result for any order of its rows.
fn gives_the_same(call: &AggregateCall) -> bool {
    use AggregateKind as K;
    let exact = match call.kind {
        K::CountRows | K::Count | K::SumInt | K::BoolAnd | K::BoolOr => true,
        K::BitAnd | K::BitOr | K::BitXor => true,
        // DISTINCT takes the first of equal values.
        K::SumNumeric | K::AverageNumeric => {
            !call.distinct || call.arguments.iter().all(looks_one_way)
        }
        K::Min | K::Max => call.arguments.iter().all(looks_one_way),
        _ => false,
    };
    exact && !call.arguments.iter().chain(&call.filter).any(volatile_inside)
}
