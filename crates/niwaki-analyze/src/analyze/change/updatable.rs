//! Updatable views: those whose rows are rows of one table.

use std::sync::Arc;

use niwaki_catalog::{Relation, RelationKind};
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{Body, Distinct, ItemKind, Query};
use pg_query::protobuf;

/// The base relation of an updatable view.
pub(crate) struct Base<'q> {
    /// The relation that the view selects from.
    pub(crate) relation: &'q Arc<Relation>,
    /// The query of the relation, if it is a view itself.
    pub(crate) query: Option<&'q Query>,
    /// First slot of the relation's columns.
    pub(crate) start: usize,
    /// The view's columns, as expressions over the relation's row.
    pub(crate) targets: &'q [Expr],
    /// The view's WHERE conditions.
    pub(crate) conditions: &'q [Expr],
}

impl Base<'_> {
    /// Returns the base relation's column that a view column shows unchanged.
    pub(crate) fn column(&self, number: usize) -> Option<usize> {
        let ExprKind::Slot { depth: 0, slot } = self.targets.get(number)?.kind else { return None };
        let column = slot.checked_sub(self.start)?;
        let definition = self.relation.columns.get(column)?;
        let shown = self.targets[number].declared();
        (definition.column_type().declared() == shown).then_some(column)
    }
}

/// Returns the base relation of a view. `select` is the view's query as written.
///
/// # Errors
/// The reason why there is no base relation, in PostgreSQL's words.
pub(crate) fn base<'q>(
    select: &protobuf::SelectStmt,
    query: &'q Query,
) -> Result<Base<'q>, &'static str> {
    let from_one =
        "Views that do not select from a single table or view are not automatically updatable.";
    let inside = match &query.body {
        Body::Select(inside) => inside,
        Body::Set(_) => {
            return Err(
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.",
            );
        }
        Body::Values(_) | Body::Modify(_) => return Err(from_one),
    };
    if inside.distinct != Distinct::None {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    if !select.group_clause.is_empty() {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having_clause.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    if select.with_clause.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    if query.limit.is_some() || query.offset.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    if inside.grouping.is_some() {
        return Err("Views that return aggregate functions are not automatically updatable.");
    }
    if !inside.windowing.is_empty() {
        return Err("Views that return window functions are not automatically updatable.");
    }
    if !inside.sets.is_empty() {
        return Err("Views that return set-returning functions are not automatically updatable.");
    }
    let [item] = inside.from.items.as_slice() else { return Err(from_one) };
    let (relation, nested) = match (&item.kind, &item.view) {
        (ItemKind::Query(query), Some(view)) => (view, Some(&**query)),
        (ItemKind::Table(relation), _) if relation.kind == RelationKind::Table => (relation, None),
        (ItemKind::View(relation), _) if relation.kind == RelationKind::View => (relation, None),
        _ => return Err(from_one),
    };
    Ok(Base {
        relation,
        query: nested,
        start: item.slots.start,
        targets: inside.targets.get(..query.columns.len()).unwrap_or(&inside.targets),
        conditions: &inside.from.conditions,
    })
}

/// Returns the reason why a view is not updatable, in PostgreSQL's words. Returns `None` if at
/// least some columns are updatable.
pub(crate) fn not_updatable(select: &protobuf::SelectStmt, query: &Query) -> Option<&'static str> {
    match base(select, query) {
        Err(reason) => Some(reason),
        Ok(base) => {
            let any = (0..base.targets.len()).any(|number| base.column(number).is_some());
            (!any)
                .then_some("Views that have no updatable columns are not automatically updatable.")
        }
    }
}
