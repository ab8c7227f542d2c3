//! The target list: output columns with their names and origins.

use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_parse::error::{Result, SqlError};
use pg_query::{Node, NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::expression::composite::FIELDS_MAX;
use crate::analyze::names::parts::names_of;

/// An output column, or an expression that is only a sort key.
pub(crate) struct Target {
    pub(crate) expr: Expr,
    pub(crate) name: String,
    pub(crate) origin: (u32, i16),
    /// True if the target is not part of the result.
    pub(crate) junk: bool,
}

impl Analyzer<'_> {
    /// Returns the output columns; `*` expands to all visible columns.
    pub(crate) fn target_list(&mut self, nodes: &[Node]) -> Result<Vec<Target>> {
        let mut targets = Vec::new();
        for node in nodes {
            let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
            let value = target.val.as_deref();
            if let Some(NodeEnum::ColumnRef(column)) = value.and_then(|v| v.node.as_ref())
                && column.fields.last().is_some_and(|f| matches!(f.node, Some(NodeEnum::AStar(_))))
            {
                self.star(column, &mut targets)?;
                continue;
            }
            if let Some(NodeEnum::AIndirection(indirection)) = value.and_then(|v| v.node.as_ref())
                && let Some((last, steps)) = indirection.indirection.split_last()
                && matches!(last.node, Some(NodeEnum::AStar(_)))
            {
                for (name, expr) in self.all_fields(indirection, steps)? {
                    let origin = self.origin_of(&expr);
                    targets.push(Target { expr, name, origin, junk: false });
                }
                continue;
            }
            let expr = self.expr_of(value)?;
            let origin = self.origin_of(&expr);
            let name = if target.name.is_empty() {
                value.and_then(figure_name).unwrap_or_else(|| "?column?".to_owned())
            } else {
                target.name.clone()
            };
            targets.push(Target { expr, name, origin, junk: false });
        }
        if targets.len() > FIELDS_MAX {
            let message = format!("target lists can have at most {FIELDS_MAX} entries");
            return Err(SqlError::new("54011", message));
        }
        Ok(targets)
    }

    pub(crate) fn star(
        &mut self,
        column: &protobuf::ColumnRef,
        targets: &mut Vec<Target>,
    ) -> Result<()> {
        let names = names_of(&column.fields);
        let location = column.location;
        let mut found = Vec::new();
        let mut depth = 0;
        match names.as_slice() {
            [] => {
                let scope = self.scope()?;
                if scope.items.is_empty() {
                    return Err(self.error(
                        "42601",
                        "SELECT * with no tables specified is not valid",
                        location,
                    ));
                }
                for column in scope.items.iter().flat_map(|item| &item.columns) {
                    if column.bare && !column.hidden {
                        found.push(column.clone());
                    }
                }
            }
            [.., table] => {
                let items =
                    self.scopes.iter().rev().enumerate().flat_map(|(depth, scope)| {
                        scope.items.iter().map(move |item| (depth, item))
                    });
                let mut named = items.filter(|(_, item)| item.name == *table);
                let Some((at, item)) = named.next() else {
                    return Err(self.error(
                        "42P01",
                        format!("missing FROM-clause entry for table \"{table}\""),
                        location,
                    ));
                };
                depth = at;
                found.extend(item.columns.iter().filter(|c| !c.hidden).cloned());
            }
        }
        for column in found {
            let expr = self.use_column(column.expr, depth, location)?;
            targets.push(Target { expr, name: column.name, origin: column.origin, junk: false });
        }
        Ok(())
    }

    /// Returns the table and attribute that an expression shows unchanged.
    fn origin_of(&self, expr: &Expr) -> (u32, i16) {
        let ExprKind::Slot { depth: 0, slot } = expr.kind else { return (0, 0) };
        let Some(scope) = self.scopes.last() else { return (0, 0) };
        for item in &scope.items {
            for column in &item.columns {
                if matches!(column.expr.kind, ExprKind::Slot { slot: s, .. } if s == slot)
                    && column.expr.ty == expr.ty
                {
                    return column.origin;
                }
            }
            if let Some(relation) = &item.relation {
                let first = item.start + relation.columns.len();
                if let Some(system) = slot
                    .checked_sub(first)
                    .and_then(|n| crate::analyze::names::scope::SYSTEM_COLUMNS.get(n))
                {
                    return (relation.oid.0, system.2);
                }
            }
        }
        (0, 0)
    }
}

/// Returns the row description of an output column.
pub(crate) fn column_info(target: &Target) -> ColumnInfo {
    ColumnInfo {
        name: target.name.clone(),
        column_type: target.expr.column_type(),
        table: target.origin.0,
        attribute: target.origin.1,
        fields: None,
        collation: target.expr.derived.as_column(target.expr.column_type()),
    }
}

/// Returns the name of an output column without AS.
pub(crate) fn figure_name(node: &Node) -> Option<String> {
    figure(node).map(|(name, _)| name)
}

/// Returns the name of an output column without AS, and whether an enclosing cast or CASE takes the
/// name over. It does not if the name itself comes from a cast or a CASE.
fn figure(node: &Node) -> Option<(String, bool)> {
    let own = |name: &str| Some((name.to_owned(), true));
    match node.node.as_ref()? {
        NodeEnum::ColumnRef(column) => own(names_of(&column.fields).last()?),
        NodeEnum::FuncCall(call) => own(names_of(&call.funcname).last()?),
        NodeEnum::TypeCast(cast) => {
            cast.arg.as_deref().and_then(figure).filter(|(_, own)| *own).or_else(|| {
                let names = names_of(&cast.type_name.as_ref()?.names);
                Some((names.last()?.to_string(), false))
            })
        }
        NodeEnum::AIndirection(indirection) => match names_of(&indirection.indirection).last() {
            Some(field) => own(field),
            None => figure(indirection.arg.as_deref()?),
        },
        NodeEnum::CollateClause(collate) => figure(collate.arg.as_deref()?),
        NodeEnum::CaseExpr(case) => {
            let found = case.defresult.as_deref().and_then(figure).filter(|(_, own)| *own);
            found.or_else(|| Some(("case".to_owned(), false)))
        }
        NodeEnum::CoalesceExpr(_) => own("coalesce"),
        NodeEnum::MinMaxExpr(expr) => {
            own(if expr.op() == protobuf::MinMaxOp::IsGreatest { "greatest" } else { "least" })
        }
        NodeEnum::AExpr(expr) if expr.kind() == protobuf::AExprKind::AexprNullif => own("nullif"),
        NodeEnum::GroupingFunc(_) => own("grouping"),
        NodeEnum::AArrayExpr(_) => own("array"),
        NodeEnum::RowExpr(_) => own("row"),
        NodeEnum::SubLink(link) => match link.sub_link_type() {
            protobuf::SubLinkType::ExistsSublink => own("exists"),
            protobuf::SubLinkType::ArraySublink => own("array"),
            protobuf::SubLinkType::ExprSublink => {
                let Some(NodeEnum::SelectStmt(select)) = link.subselect.as_ref()?.node.as_ref()
                else {
                    return None;
                };
                Some((first_column(select)?, true))
            }
            _ => None,
        },
        NodeEnum::SqlvalueFunction(function) => {
            use protobuf::SqlValueFunctionOp as Op;
            own(match function.op() {
                Op::SvfopCurrentDate => "current_date",
                Op::SvfopCurrentTimestamp | Op::SvfopCurrentTimestampN => "current_timestamp",
                Op::SvfopLocaltimestamp | Op::SvfopLocaltimestampN => "localtimestamp",
                Op::SvfopCurrentTime | Op::SvfopCurrentTimeN => "current_time",
                Op::SvfopLocaltime | Op::SvfopLocaltimeN => "localtime",
                Op::SvfopCurrentRole => "current_role",
                Op::SvfopCurrentUser => "current_user",
                Op::SvfopUser => "user",
                Op::SvfopSessionUser => "session_user",
                Op::SvfopCurrentCatalog => "current_catalog",
                Op::SvfopCurrentSchema => "current_schema",
                Op::SqlvalueFunctionOpUndefined => return None,
            })
        }
        _ => None,
    }
}

/// Returns the name of a query's first column. In an expression, the query has the same name.
fn first_column(select: &protobuf::SelectStmt) -> Option<String> {
    if let Some(left) = &select.larg {
        return first_column(left);
    }
    if !select.values_lists.is_empty() {
        return Some("column1".to_owned());
    }
    match select.target_list.first()?.node.as_ref()? {
        NodeEnum::ResTarget(target) if !target.name.is_empty() => Some(target.name.clone()),
        NodeEnum::ResTarget(target) => {
            let named = target.val.as_deref().and_then(figure_name);
            Some(named.unwrap_or_else(|| "?column?".to_owned()))
        }
        _ => None,
    }
}
