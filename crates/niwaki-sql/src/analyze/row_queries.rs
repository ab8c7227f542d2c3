//! Rows of a query beside rows that are written out.
//!
//! `SET (a, b) = (SELECT x, y …)`: each column gets `(SELECT x FROM (SELECT x, y …))`.
//!
//! `(a, b) = ANY (SELECT x, y …)` and its like: the row of expressions is computed once, then
//! compared with each row of the query, which says nothing of the row and so may be asked once for
//! all rows.

use std::cmp::Ordering;

use pg_query::protobuf::{self, RowExpr};
use pg_query::{Node, NodeEnum};

use super::Analyzer;
use super::expr::asked;
use crate::context::ColumnInfo;
use crate::error::{Result, SqlError};
use crate::expr::{ComparedRows, Expr, ExprKind, Nested, Quantifier, SubQuery, SubQueryKind};
use crate::plan::{SlotRange, Windowing};
use crate::query::{Body, Distinct, From, FromItem, ItemKind, JoinTree, Query, Select};

/// The name of the FROM item whose columns are assigned, which has no alias in any text.
const ASSIGNED: &str = "assigned";

impl Analyzer<'_> {
    /// What compares `parts` with the rows of a query that has as many `columns`.
    pub(super) fn rows_compared(
        &mut self,
        name: &str,
        parts: &[Node],
        columns: &[ColumnInfo],
        with: Quantifier,
        location: i32,
    ) -> Result<SubQueryKind> {
        let (mut functions, mut pairs) = (Vec::new(), Vec::new());
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (number, (part, column)) in parts.iter().zip(columns).enumerate() {
            // The operator says what types the two are to have.
            let (part, value) = (self.expr(part)?, column.at_slot(number));
            let probe = self.operator(name, Some(part), value, location)?;
            let ExprKind::Call { function, arguments } = probe.kind else {
                return Err(SqlError::internal("an operator that is no call"));
            };
            let operands: std::result::Result<[Expr; 2], _> = arguments.try_into();
            let Ok([part, value]) = operands else {
                return Err(SqlError::internal("an operator without operands"));
            };
            let slot = ExprKind::Slot { depth: 0, slot: number };
            let slot = Expr { kind: slot, own_syntax: false, ..part.clone() };
            pairs.push((slot, value.shifted(parts.len())));
            functions.push(function);
            left.push(part);
            right.push(value);
        }
        let compared = self.compared_pairs(name, pairs, location)?;
        self.check_collation(&compared)?;
        let compared = ComparedRows { with, functions, left, right, compared };
        Ok(SubQueryKind::CompareRows(Box::new(compared)))
    }

    /// `(a, b) op (SELECT …)`: the comparison with the only row of a query.
    pub(super) fn row_beside_query(
        &mut self,
        name: &str,
        row: &RowExpr,
        link: &protobuf::SubLink,
        location: i32,
    ) -> Result<Expr> {
        let query = self.query_of(link)?;
        let few = match query.columns.len().cmp(&row.args.len()) {
            Ordering::Less => Some("few"),
            Ordering::Greater => Some("many"),
            Ordering::Equal => None,
        };
        if let Some(word) = few {
            let message = format!("subquery has too {word} columns");
            return Err(self.error("42601", message, location));
        }
        let columns = &query.columns;
        let kind = self.rows_compared(name, &row.args, columns, Quantifier::Only, location)?;
        Ok(asked(kind, query, location))
    }

    /// The query that a syntax node for a nested one has.
    pub(super) fn query_of(&mut self, link: &protobuf::SubLink) -> Result<Query> {
        let select = link.subselect.as_ref().and_then(|node| node.node.as_ref());
        let Some(NodeEnum::SelectStmt(select)) = select else {
            return Err(SqlError::internal("a nested query that is no SELECT"));
        };
        self.within("a subquery", |this| this.nested_query(select, None))
    }

    /// One of the `columns` that are assigned at once what the row of a query has.
    pub(super) fn column_of_row(
        &mut self,
        link: &protobuf::SubLink,
        column: usize,
        columns: usize,
    ) -> Result<Expr> {
        let query = self.query_of(link)?;
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
    let item = FromItem::new(ItemKind::Query(Box::new(query)), ASSIGNED.to_owned(), slots);
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
