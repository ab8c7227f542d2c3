//! Analysis of UNION, INTERSECT and EXCEPT.

use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{Collation, Expr, ExprKind};
use niwaki_expr::query::{Body, OrderKey, Query, SetKind, SetOperation as SetBody, SetSide};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::ColumnType;
use pg_query::NodeEnum;
use pg_query::protobuf::{self, SetOperation};

use crate::analyze::Analyzer;
use crate::analyze::query::targets::Target;

impl Analyzer<'_> {
    pub(crate) fn set_operation(&mut self, select: &protobuf::SelectStmt) -> Result<Query> {
        let (kind, _) = operation(select);
        let (Some(left), Some(right)) = (&select.larg, &select.rarg) else {
            return Err(SqlError::internal("a set operation with one side"));
        };
        if right.into_clause.is_some() {
            let message = "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT";
            return Err(SqlError::new("42601", message));
        }
        // A recursive query must not name itself where its rows could remove other rows.
        let (outside, inside) = match (kind, select.all) {
            (SetKind::Union, _) | (SetKind::Intersect, false) => (None, None),
            (SetKind::Intersect, true) => (Some("INTERSECT"), Some("INTERSECT")),
            (SetKind::Except, all) => (all.then_some("EXCEPT"), Some("EXCEPT")),
        };
        let left = match outside {
            Some(part) => self.within(part, |this| this.set_side(left, false))?,
            None => self.set_side(left, false)?,
        };
        let right = match inside {
            Some(part) => self.within(part, |this| this.set_side(right, false))?,
            None => self.set_side(right, false)?,
        };
        let (set, columns) = self.united(select, left, right)?;
        self.order_and_limit(select, Body::Set(Box::new(set)), columns)
    }

    /// Brings the sides of a set operation to common types.
    pub(crate) fn united(
        &mut self,
        select: &protobuf::SelectStmt,
        left: Query,
        right: Query,
    ) -> Result<(SetBody, Vec<ColumnInfo>)> {
        let (kind, name) = operation(select);
        if left.columns.len() != right.columns.len() {
            return Err(SqlError::new(
                "42601",
                format!("each {name} query must have the same number of columns"),
            ));
        }
        let mut columns = Vec::with_capacity(left.columns.len());
        let mut exprs: [Vec<Expr>; 2] = [Vec::new(), Vec::new()];
        for (number, (l, r)) in left.columns.iter().zip(&right.columns).enumerate() {
            let types = [(l.column_type.oid, -1), (r.column_type.oid, -1)];
            let common = self.common_type(&types, name)?;
            for (side, column) in [l, r].into_iter().enumerate() {
                let expr = column.at_slot(number);
                exprs[side].push(self.to_common(expr, common, name)?);
            }
            if !select.all && !self.is_ordered_type("=", common) {
                return Err(SqlError::new(
                    "42883",
                    format!(
                        "could not identify an equality operator for type {}",
                        self.format_oid(common)
                    ),
                ));
            }
            let same = l.column_type == r.column_type;
            let column_type = if same { l.column_type } else { ColumnType::new(common) };
            let sides = [side_collation(&left, number), side_collation(&right, number)];
            let needed = kind != SetKind::Union || !select.all;
            let derived = self.column_of_values(sides, needed, -1)?;
            columns.push(ColumnInfo::computed(l.name.clone(), column_type).collated(derived));
        }
        let [left_exprs, right_exprs] = exprs;
        let body = SetBody {
            kind,
            all: select.all,
            left: SetSide { query: left, exprs: left_exprs },
            right: SetSide { query: right, exprs: right_exprs },
            types: columns.iter().map(|c| c.column_type).collect(),
            recursive: None,
        };
        Ok((body, columns))
    }

    /// Analyzes one side of a set operation. The side is on the query level of the operation.
    pub(crate) fn set_side(
        &mut self,
        select: &protobuf::SelectStmt,
        to_text: bool,
    ) -> Result<Query> {
        let mut query = self.query(select, None, to_text)?;
        // The operation's own level has no row.
        query.outer_slots_mut(1, &mut |slot, _| {
            if let ExprKind::Slot { depth, .. } = &mut slot.kind {
                *depth -= 1;
            }
        });
        Ok(query)
    }

    /// Analyzes ORDER BY and LIMIT of VALUES and of set operations. Their sort keys can only be
    /// output columns.
    pub(crate) fn order_and_limit(
        &mut self,
        select: &protobuf::SelectStmt,
        body: Body,
        columns: Vec<ColumnInfo>,
    ) -> Result<Query> {
        if !select.locking_clause.is_empty() {
            return Err(SqlError::unsupported("FOR UPDATE with VALUES or a set operation"));
        }
        let targets: Vec<Target> = columns
            .iter()
            .enumerate()
            .map(|(number, column)| Target {
                expr: column.at_slot(number),
                name: column.name.clone(),
                origin: (0, 0),
                junk: false,
            })
            .collect();
        let mut order = Vec::new();
        for sort_node in &select.sort_clause {
            let Some(NodeEnum::SortBy(sort)) = &sort_node.node else { continue };
            let (descending, nulls_first) = self.sort_direction(sort)?;
            let Some(key) = sort.node.as_deref() else { continue };
            let Some(target) = self.named_target(key, &targets, "ORDER BY", true)? else {
                return Err(self
                    .error("0A000", "invalid UNION/INTERSECT/EXCEPT ORDER BY clause", sort.location)
                    .with_detail("Only result column names can be used, not expressions or functions.")
                    .with_hint(
                        "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
                    ));
            };
            order.push(OrderKey { target, descending, nulls_first });
        }
        let (limit, offset) = self.limit(select)?;
        Ok(Query { body, columns, order, limit, offset })
    }
}

/// Returns the collation of a side's column. A COLLATE in the side itself counts as explicit.
fn side_collation(query: &Query, number: usize) -> Collation {
    let target = match &query.body {
        Body::Select(select) => select.targets.get(number).map(|target| target.derived),
        _ => None,
    };
    target
        .or_else(|| query.columns.get(number).map(|column| column.at_slot(0).derived))
        .unwrap_or_default()
}

/// Returns the kind of the set operation, and its name.
fn operation(select: &protobuf::SelectStmt) -> (SetKind, &'static str) {
    match select.op() {
        SetOperation::SetopUnion => (SetKind::Union, "UNION"),
        SetOperation::SetopIntersect => (SetKind::Intersect, "INTERSECT"),
        _ => (SetKind::Except, "EXCEPT"),
    }
}
