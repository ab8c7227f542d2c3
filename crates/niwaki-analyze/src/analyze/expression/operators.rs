//! Operators, including comparisons of rows, lists and arrays.

use std::sync::Arc;

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{array_of, converts_implicitly, element_of};
use niwaki_types::{Datum, TypeOid};
use pg_query::protobuf::{self, AExprKind};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::expression::call::compared;
use crate::analyze::expression::expr::copy_of;
use crate::analyze::expression::rows::{compares_rows, row_of};
use crate::analyze::names::parts::names_of;

impl Analyzer<'_> {
    pub(crate) fn operator_expr(&mut self, expr: &protobuf::AExpr) -> Result<Expr> {
        let location = expr.location;
        let names = names_of(&expr.name);
        let name = names.last().copied().unwrap_or("=");
        match expr.kind() {
            // The grammar wraps the pattern of SIMILAR TO in a function that converts it to a
            // regular expression.
            AExprKind::AexprOp
            | AExprKind::AexprLike
            | AExprKind::AexprIlike
            | AExprKind::AexprSimilar => {
                let (left, right) = (expr.lexpr.as_deref(), expr.rexpr.as_deref());
                if compares_rows(left, right) {
                    return self.row_comparison(name, left, right, location);
                }
                let left = match &expr.lexpr {
                    Some(left) => Some(self.expr(left)?),
                    None => None,
                };
                let right = self.expr_of(expr.rexpr.as_deref())?;
                // -5 becomes a constant, so that it can be an index bound or a typed literal.
                if left.is_none()
                    && name == "-"
                    && let ExprKind::Const(value) = &right.kind
                    && let Some(negated) = negated(value)
                {
                    return Ok(Expr::constant(negated, right.ty, location));
                }
                self.operator(name, left, right, location)
            }
            AExprKind::AexprOpAny | AExprKind::AexprOpAll => {
                let left = self.expr_of(expr.lexpr.as_deref())?;
                let right = self.expr_of(expr.rexpr.as_deref())?;
                let any = expr.kind() == AExprKind::AexprOpAny;
                self.array_compare(name, any, left, right, location)
            }
            AExprKind::AexprDistinct | AExprKind::AexprNotDistinct => {
                let negated = expr.kind() == AExprKind::AexprNotDistinct;
                let (left, right) = (expr.lexpr.as_deref(), expr.rexpr.as_deref());
                if compares_rows(left, right) {
                    return self.row_distinct(left, right, negated, location);
                }
                let (left, right) = (self.expr_of(left)?, self.expr_of(right)?);
                self.distinct(left, right, negated, location)
            }
            AExprKind::AexprNullif => {
                let left = self.expr_of(expr.lexpr.as_deref())?;
                let right = self.expr_of(expr.rexpr.as_deref())?;
                // A composite value is compared as a record, but the result keeps its own type.
                let composite = left.ty.is_record().then(|| copy_of(&left)).transpose()?;
                let mut equal = self.operator("=", Some(left), right, location)?;
                let ExprKind::Call { arguments, .. } = &mut equal.kind else {
                    return Err(SqlError::internal("an operator that is no call"));
                };
                let result = composite.unwrap_or_else(|| once(&mut arguments[0]));
                let (ty, typmod) = (result.ty, result.typmod);
                let kind = ExprKind::NullIf { result: Box::new(result), equal: Box::new(equal) };
                Ok(Expr { typmod, ..Expr::new(kind, ty, location) })
            }
            AExprKind::AexprIn => self.in_list(expr, name),
            AExprKind::AexprBetween
            | AExprKind::AexprNotBetween
            | AExprKind::AexprBetweenSym
            | AExprKind::AexprNotBetweenSym => self.between(expr),
            AExprKind::Undefined => Err(SqlError::internal("operator without a kind")),
        }
    }

    /// Analyzes `value [NOT] BETWEEN [SYMMETRIC] low AND high`. With SYMMETRIC the bounds may be in
    /// either order.
    fn between(&mut self, expr: &protobuf::AExpr) -> Result<Expr> {
        let [low, high] = list_items(expr.rexpr.as_deref()) else {
            return Err(SqlError::internal("BETWEEN without two bounds"));
        };
        let (negated, symmetric) = match expr.kind() {
            AExprKind::AexprNotBetween => (true, false),
            AExprKind::AexprBetweenSym => (false, true),
            AExprKind::AexprNotBetweenSym => (true, true),
            _ => (false, false),
        };
        let within = self.against_bounds(expr, low, high, negated)?;
        if !symmetric {
            return Ok(within);
        }
        let parts = vec![within, self.against_bounds(expr, high, low, negated)?];
        let kind = if negated { ExprKind::And(parts) } else { ExprKind::Or(parts) };
        Ok(Expr::new(kind, TypeOid::BOOL, expr.location))
    }

    /// Compares the value of a BETWEEN with its bounds in this order. The value is analyzed once
    /// for each bound, since the bounds may require different types.
    fn against_bounds(
        &mut self,
        expr: &protobuf::AExpr,
        low: &Node,
        high: &Node,
        negated: bool,
    ) -> Result<Expr> {
        let value = self.expr_of(expr.lexpr.as_deref())?;
        let again = self.expr_of(expr.lexpr.as_deref())?;
        let (low, high) = (self.expr(low)?, self.expr(high)?);
        let (first, second) = if negated { ("<", ">") } else { (">=", "<=") };
        let low = self.operator(first, Some(value), low, expr.location)?;
        let high = self.operator(second, Some(again), high, expr.location)?;
        let parts = vec![low, high];
        let kind = if negated { ExprKind::Or(parts) } else { ExprKind::And(parts) };
        Ok(Expr::new(kind, TypeOid::BOOL, expr.location))
    }

    /// Analyzes `left IS [NOT] DISTINCT FROM right`.
    pub(crate) fn distinct(
        &mut self,
        left: Expr,
        right: Expr,
        negated: bool,
        location: i32,
    ) -> Result<Expr> {
        let equal = self.operator("=", Some(left), right, location)?;
        let ExprKind::Call { function, arguments } = equal.kind else {
            return Err(SqlError::internal("an operator that is no call"));
        };
        let mut arguments = arguments.into_iter();
        let (Some(left), Some(right)) = (arguments.next(), arguments.next()) else {
            return Err(SqlError::internal("an operator without operands"));
        };
        let kind = ExprKind::Distinct {
            equal: function,
            left: Box::new(left),
            right: Box::new(right),
            negated,
        };
        Ok(Expr::new(kind, TypeOid::BOOL, location))
    }

    /// Analyzes `a IN (…)`: an array comparison if the types allow it, otherwise alternatives.
    fn in_list(&mut self, expr: &protobuf::AExpr, name: &str) -> Result<Expr> {
        let location = expr.location;
        let negated = name == "<>";
        let items = list_items(expr.rexpr.as_deref());
        if row_of(expr.lexpr.as_deref()).is_some() {
            return self.row_in_list(name, expr.lexpr.as_deref(), items, location);
        }
        let left = self.expr_of(expr.lexpr.as_deref())?;
        let values = self.exprs(items)?;
        let simple =
            values.iter().all(|v| matches!(v.kind, ExprKind::Const(_) | ExprKind::Param(_)));
        if simple && values.len() > 1 {
            let mut types = vec![(left.ty, left.location)];
            types.extend(values.iter().map(|v| (v.ty, v.location)));
            if let Ok(common) = self.common_type(&types, "IN")
                && let Some(array) = array_of(common)
                && types.iter().all(|(ty, _)| converts_implicitly(*ty, common))
            {
                let values = values
                    .into_iter()
                    .map(|v| self.to_common(v, common, "IN"))
                    .collect::<Result<Vec<Expr>>>()?;
                let array = Expr::new(ExprKind::Array(values), array, location);
                return self.array_compare(name, !negated, left, array, location);
            }
        }
        let mut parts = Vec::with_capacity(values.len());
        for (number, value) in values.into_iter().enumerate() {
            let left =
                if number == 0 { left.clone() } else { self.expr_of(expr.lexpr.as_deref())? };
            parts.push(self.operator(name, Some(left), value, location)?);
        }
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return Ok(only);
        }
        let kind = if negated { ExprKind::And(parts) } else { ExprKind::Or(parts) };
        Ok(Expr::new(kind, TypeOid::BOOL, location))
    }

    /// Analyzes `left op ANY (array)` and `left op ALL (array)`.
    fn array_compare(
        &mut self,
        name: &str,
        any: bool,
        left: Expr,
        right: Expr,
        location: i32,
    ) -> Result<Expr> {
        let right = if right.ty == TypeOid::UNKNOWN {
            let element = if left.ty == TypeOid::UNKNOWN { TypeOid::TEXT } else { left.ty };
            let array = array_of(element)
                .ok_or_else(|| self.unsupported("ANY over this type", location))?;
            self.to_common(right, array, "ANY")?
        } else {
            right
        };
        let Some(element) = element_of(right.ty) else {
            return Err(self.error(
                "42809",
                "op ANY/ALL (array) requires array on right side",
                location,
            ));
        };
        let resolved = self.choose_operator(name, &[left.ty, element]).map_err(|_| {
            self.error(
                "42883",
                format!(
                    "operator does not exist: {} {name} {}",
                    self.format_oid(left.ty),
                    self.format_oid(element)
                ),
                location,
            )
            .with_hint(
                "No operator matches the given name and argument types. \
                 You might need to add explicit type casts.",
            )
        })?;
        if resolved.result != TypeOid::BOOL {
            return Err(self.error(
                "42809",
                "op ANY/ALL (array) requires operator to yield boolean",
                location,
            ));
        }
        let from = left.ty;
        let left = compared(self.to_common(left, resolved.arguments[0], "ANY")?, from);
        let array = array_of(resolved.arguments[1])
            .ok_or_else(|| self.unsupported("ANY over this type", location))?;
        let right = self.to_common(right, array, "ANY")?;
        let kind = ExprKind::ArrayCompare {
            function: niwaki_functions::functions::under(
                resolved.function,
                left.derived.with(right.derived),
            ),
            any,
            left: Box::new(left),
            right: Box::new(right),
            list: None,
        };
        Ok(Expr::new(kind, TypeOid::BOOL, location))
    }
}

/// Negates a constant, if the result has the same type.
fn negated(value: &Datum) -> Option<Datum> {
    match value {
        Datum::Int4(v) => v.checked_neg().map(Datum::Int4),
        // The least int4 is written as minus a number beyond int4.
        Datum::Int8(v) => v.checked_neg().map(Datum::Int8),
        Datum::Numeric(v) => Some(Datum::Numeric(Arc::new(v.neg()))),
        _ => None,
    }
}

fn list_items(node: Option<&Node>) -> &[Node] {
    match node.and_then(|n| n.node.as_ref()) {
        Some(NodeEnum::List(list)) => &list.items,
        _ => &[],
    }
}

/// Takes the left side of a comparison, and leaves a placeholder for its value. A copy would double
/// the nested expressions at each level, and would be computed twice.
fn once(left: &mut Expr) -> Expr {
    let mut composed = false;
    left.for_each_child(&mut |_| composed = true);
    if !composed && !matches!(left.kind, ExprKind::SubQuery(_)) {
        return left.clone();
    }
    let operand = Expr::new(ExprKind::CaseOperand, left.ty, left.location);
    let operand = Expr { typmod: left.typmod, derived: left.derived, ..operand };
    std::mem::replace(left, operand)
}
