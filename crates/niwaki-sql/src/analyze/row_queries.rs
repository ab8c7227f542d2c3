//! Rows of a query beside rows that are written out.
//!
//! `SET (a, b) = (SELECT x, y …)`: each column gets `(SELECT x FROM (SELECT x, y …))`.
//!
//! `(a, b) = ANY (SELECT x, y …)` becomes `true = ANY (SELECT (a, b) = (x, y) FROM (SELECT x, y …))`, which is true, false or unknown where PostgreSQL's is.

use niwaki_types::TypeOid;
use pg_query::{Node, NodeEnum, protobuf};

use super::Analyzer;
use crate::context::ColumnInfo;
use crate::error::Result;
use crate::expr::{Expr, ExprKind, Nested, SubQuery, SubQueryKind};
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
        query: Query,
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
        // They are a level further down now.
        left.iter_mut().for_each(|part| shift_depth(part, 1));
        let right = query.columns.iter().enumerate();
        let right = right.map(|(number, column)| column.at_slot(number));
        let pairs = left.into_iter().zip(right).collect();
        let compared = self.compared_pairs(name, pairs, location)?;
        self.check_collation(&compared)?;
        let column = ColumnInfo::computed("?column?", TypeOid::BOOL.into());
        Ok(computed_from(query, compared, column))
    }

    /// One of the `columns` that are assigned at once what the row of a query has.
    pub(super) fn column_of_row(
        &mut self,
        link: &protobuf::SubLink,
        column: usize,
        columns: usize,
    ) -> Result<Expr> {
        let select = link.subselect.as_ref().and_then(|node| node.node.as_ref());
        let Some(NodeEnum::SelectStmt(select)) = select else {
            return Err(crate::SqlError::internal("a nested query that is no SELECT"));
        };
        let query = self.within("a subquery", |this| this.nested_query(select, None))?;
        let info = match query.columns.get(column) {
            Some(info) if query.columns.len() == columns => info.clone(),
            _ => {
                let message = "number of columns does not match number of values";
                return Err(self.error("42601", message, link.location));
            }
        };
        // It is computed for each column.
        if query.is_volatile() {
            let what = "a query with volatile functions for several columns at once";
            return Err(self.unsupported(what, link.location));
        }
        let (value, ty) = (info.at_slot(column), info.column_type);
        let query = Nested::Query(Box::new(computed_from(query, value, info)));
        let kind = ExprKind::SubQuery(Box::new(SubQuery { kind: SubQueryKind::Scalar, query }));
        let (typmod, domain) = (ty.typmod, ty.domain);
        Ok(Expr { typmod, domain, ..Expr::new(kind, ty.oid, link.location) })
    }
}

/// A query of one column that is computed from each row of another one.
fn computed_from(mut query: Query, target: Expr, column: ColumnInfo) -> Query {
    // It is a level further down now.
    query.outer_slots_mut(1, &mut |slot, _| {
        if let ExprKind::Slot { depth, .. } = &mut slot.kind {
            *depth += 1;
        }
    });
    let width = query.columns.len();
    let slots = SlotRange { start: 0, end: width };
    let item = FromItem::new(ItemKind::Query(Box::new(query)), COMPARED.to_owned(), slots);
    let (items, tree) = (vec![item], Some(JoinTree::Item(0)));
    let select = Select {
        from: From { items, tree, conditions: Vec::new(), width, recheck: None },
        grouping: None,
        windowing: Windowing::default(),
        targets: vec![target],
        sets: Vec::new(),
        distinct: Distinct::None,
        locks: Vec::new(),
    };
    Query {
        body: Body::Select(Box::new(select)),
        columns: vec![column],
        order: Vec::new(),
        limit: None,
        offset: None,
    }
}
