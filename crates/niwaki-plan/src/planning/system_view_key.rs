//! The key of a system relation's scan: the one column value that the scan wants.
//!
//! With a key, the scan need not compute all rows of the relation.

use niwaki_catalog::Relation;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{is_volatile, reads_only};
use niwaki_types::TypeOid;

/// Returns the column (by position) and its wanted value. Both come from the first condition
/// `column = value` whose value is known before the scan starts. The condition must still be
/// evaluated: the relation may return more rows.
pub(crate) fn system_view_key(
    relation: &Relation,
    start: usize,
    conditions: &[Expr],
    available: &dyn Fn(usize) -> bool,
) -> Option<(usize, Expr)> {
    let view = relation.view.as_ref()?;
    conditions.iter().find_map(|condition| {
        let ExprKind::Call { function, arguments } = &condition.kind else { return None };
        let [left, right] = arguments.as_slice() else { return None };
        if function.name != "=" {
            return None;
        }
        [(left, right), (right, left)].into_iter().find_map(|(column, value)| {
            let column = column_of(column)?.checked_sub(start)?;
            let known = !is_volatile(value)
                && reads_only(value, &mut |slot| available(slot))
                && is_plain(value.ty);
            let has_key = column < relation.columns.len() && view.has_key(column);
            (known && has_key).then(|| (column, value.clone()))
        })
    })
}

/// Returns the slot of a column. The column may be cast, to be compared as text or as a number.
fn column_of(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Slot { depth: 0, slot } => Some(*slot),
        ExprKind::Cast { argument, from, .. } if is_plain(*from) && is_plain(expr.ty) => {
            column_of(argument)
        }
        _ => None,
    }
}

/// Returns whether the type is plain: equal values have equal images, also under any other plain
/// type.
fn is_plain(kind: TypeOid) -> bool {
    matches!(kind, TypeOid::OID | TypeOid::NAME | TypeOid::TEXT) || kind.is_object_name()
}
