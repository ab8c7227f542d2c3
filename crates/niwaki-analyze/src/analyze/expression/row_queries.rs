//! Comparison and assignment of rows with the rows of a nested query.
//!
//! `SET (a, b) = (SELECT x, y …)`: each column has the query, which runs once for all of them.
//!
//! `(a, b) = ANY (SELECT x, y …)` and similar: the row of expressions is computed once, then
//! compared with each row of the query. The query does not depend on the row, so it may run once
//! for all rows.

use std::cmp::Ordering;

use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{ComparedRows, Expr, ExprKind, Nested, Quantifier, SubQuery, SubQueryKind};
use niwaki_expr::query::{Query, SealedQuery};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::ColumnType;
use pg_query::NodeEnum;
use pg_query::protobuf::{self, RowExpr};

use crate::analyze::Analyzer;
use crate::analyze::expression::expr::asked;

impl Analyzer<'_> {
    /// Returns the comparison of `parts` with the rows of a query. `columns` are the query's
    /// columns, as many as the parts.
    pub(crate) fn rows_compared(
        &mut self,
        name: &str,
        parts: Vec<Expr>,
        columns: &[ColumnInfo],
        with: Quantifier,
        location: i32,
    ) -> Result<SubQueryKind> {
        let (mut functions, mut pairs) = (Vec::new(), Vec::new());
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let count = parts.len();
        for (number, (part, column)) in parts.into_iter().zip(columns).enumerate() {
            // The operator determines the types of both operands.
            let value = column.at_slot(number);
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
            pairs.push((slot, value.shifted(count)));
            functions.push(function);
            left.push(part);
            right.push(value);
        }
        let compared = self.compared_pairs(name, pairs, location)?;
        self.check_collation(&compared)?;
        let compared = ComparedRows { with, functions, left, right, compared };
        Ok(SubQueryKind::CompareRows(Box::new(compared)))
    }

    /// Analyzes `(a, b) op (SELECT …)`: the comparison with the only row of a query.
    pub(crate) fn row_beside_query(
        &mut self,
        name: &str,
        row: &RowExpr,
        link: &protobuf::SubLink,
        location: i32,
    ) -> Result<Expr> {
        self.refuse_long_row(row.args.len(), row.location)?;
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
        let parts = self.exprs(&row.args)?;
        let kind = self.rows_compared(name, parts, &query.columns, Quantifier::Only, location)?;
        Ok(asked(kind, query, location))
    }

    /// Analyzes the query of a nested-query syntax node.
    pub(crate) fn query_of(&mut self, link: &protobuf::SubLink) -> Result<Query> {
        let select = link.subselect.as_ref().and_then(|node| node.node.as_ref());
        let Some(NodeEnum::SelectStmt(select)) = select else {
            return Err(SqlError::internal("a nested query that is no SELECT"));
        };
        self.within("a subquery", |this| this.nested_query(select, None))
    }

    /// Returns one of the `columns` that are assigned together from the row of a query.
    pub(crate) fn column_of_row(
        &mut self,
        link: &protobuf::SubLink,
        column: usize,
        columns: usize,
    ) -> Result<Expr> {
        let query = self.query_of(link)?;
        let ty = match query.columns.get(column) {
            Some(info) if query.columns.len() == columns => info.column_type,
            _ => {
                let message = "number of columns does not match number of values";
                return Err(self.error("42601", message, link.location));
            }
        };
        let query = Nested::Query(SealedQuery::new(query));
        let kind = SubQueryKind::Assigned { place: link.location, column };
        let kind = ExprKind::SubQuery(Box::new(SubQuery { kind, query }));
        let ColumnType { oid, typmod, domain } = ty;
        Ok(Expr { typmod, domain, ..Expr::new(kind, oid, link.location) })
    }
}
