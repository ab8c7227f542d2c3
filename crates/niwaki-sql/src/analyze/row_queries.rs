//! `(a, b) = ANY (SELECT x, y …)`: a row compared with those of a query.
//!
//! It becomes `true = ANY (SELECT (a, b) = (x, y) FROM (SELECT x, y …))`, which is true, false or unknown where PostgreSQL's is.

use niwaki_types::TypeOid;
use pg_query::Node;

use super::Analyzer;
use crate::context::ColumnInfo;
use crate::error::Result;
use crate::expr::{Expr, ExprKind};
use crate::plan::{SlotRange, Windowing};
use crate::query::{
    Body, Distinct, From, FromItem, ItemKind, JoinTree, Query, Select, shift_depth,
};

/// The FROM item that such a query has, which has no alias in any text.
pub(crate) const COMPARED: &str = "compared";

impl Analyzer<'_> {
    /// A query whose rows say of each row of `query` how `parts`, which are as many as its columns, compare with it.
    pub(super) fn rows_compared(
        &mut self,
        name: &str,
        parts: &[Node],
        mut query: Query,
        location: i32,
    ) -> Result<Query> {
        let left: Result<Vec<Expr>> = parts.iter().map(|part| self.expr(part)).collect();
        let mut left = left?;
        let computed_later = |part: &Expr| {
            use ExprKind as K;
            matches!(
                part.kind,
                K::Aggregate(_) | K::Grouping(_) | K::Window(_) | K::SetReturning(_)
            )
        };
        if left.iter().any(|part| part.any(&mut |inner| computed_later(inner))) {
            let what = "an aggregate in a row that is compared with those of a query";
            return Err(self.unsupported(what, location));
        }
        // Both are a level further down now.
        left.iter_mut().for_each(|part| shift_depth(part, 1));
        query.outer_slots_mut(1, &mut |slot, _| {
            if let ExprKind::Slot { depth, .. } = &mut slot.kind {
                *depth += 1;
            }
        });
        let right = query.columns.iter().enumerate();
        let right = right.map(|(number, column)| column.at_slot(number));
        let pairs = left.into_iter().zip(right).collect();
        let compared = self.compared_pairs(name, pairs, location)?;
        self.check_collation(&compared)?;
        let width = query.columns.len();
        let slots = SlotRange { start: 0, end: width };
        let item = FromItem::new(ItemKind::Query(Box::new(query)), COMPARED.to_owned(), slots);
        let (items, tree) = (vec![item], Some(JoinTree::Item(0)));
        let select = Select {
            from: From { items, tree, conditions: Vec::new(), width, recheck: None },
            grouping: None,
            windowing: Windowing::default(),
            targets: vec![compared],
            sets: Vec::new(),
            distinct: Distinct::None,
            locks: Vec::new(),
        };
        Ok(Query {
            body: Body::Select(Box::new(select)),
            columns: vec![ColumnInfo::computed("?column?", TypeOid::BOOL.into())],
            order: Vec::new(),
            limit: None,
            offset: None,
        })
    }
}
