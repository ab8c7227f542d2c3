//! ORDER BY of queries in FROM whose rows nobody meets in an order: `SELECT count(*) FROM (SELECT … ORDER BY …) t`.
//!
//! Query builders count so what they show page by page. PostgreSQL sorts the rows first.

use niwaki_types::TypeOid;

use crate::aggregates::AggregateKind;
use crate::expr::{Expr, ExprKind};
use crate::plan::AggregateCall;
use crate::query::{Body, Distinct, ItemKind, Query, Select, volatile_inside};

/// Takes the order from queries whose rows are grouped at once, by what gives the same in any order.
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
            // What rows were only sorted by.
            if let Body::Select(inside) = &mut query.body {
                inside.targets.truncate(query.columns.len());
            }
        }
    }
}

/// Whether nothing but the order of its rows depends on ORDER BY.
fn has_order_only(query: &Query) -> bool {
    let by_order = match &query.body {
        Body::Select(select) => {
            // What rows are only sorted by may fail.
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

/// Whether values that are equal look the same, so that it does not matter which of them comes first.
fn looks_one_way(value: &Expr) -> bool {
    use TypeOid as T;
    let ty = value.ty;
    matches!(ty, T::BOOL | T::INT2 | T::INT4 | T::INT8 | T::OID | T::DATE | T::TEXT | T::VARCHAR)
        || matches!(ty, T::TIMESTAMP | T::TIMESTAMPTZ | T::UUID)
}

/// Whether an aggregate gives the same in whatever order the rows come.
fn gives_the_same(call: &AggregateCall) -> bool {
    use AggregateKind as K;
    let exact = match call.kind {
        K::CountRows | K::Count | K::SumInt | K::BoolAnd | K::BoolOr => true,
        K::BitAnd | K::BitOr | K::BitXor => true,
        // Of values that are equal, DISTINCT takes the first.
        K::SumNumeric | K::AverageNumeric => {
            !call.distinct || call.arguments.iter().all(looks_one_way)
        }
        K::Min | K::Max => call.arguments.iter().all(looks_one_way),
        _ => false,
    };
    exact && !call.arguments.iter().chain(&call.filter).any(volatile_inside)
}
