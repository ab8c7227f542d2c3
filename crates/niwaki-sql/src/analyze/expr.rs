//! Expressions.

use std::sync::Arc;

use niwaki_types::{ColumnType, Datum, Numeric, TypeOid};
use pg_query::protobuf::{
    self, AExprKind, BoolExprType, BoolTestType, MinMaxOp, NullTestType, SqlValueFunctionOp,
    SubLinkType, a_const,
};
use pg_query::{Node, NodeEnum};

use super::call::{NoMatch, choose};
use super::scope::{ItemColumn, Place, system_column};
use super::{Analyzer, IndexPart, names_of};
use crate::error::{Result, SqlError};
use crate::expr::{BoolTest, Expr, ExprKind, SubQuery, SubQueryKind};
use crate::functions::{Function, compare_function, functions_named};
use crate::plan::{AggregateCall, SetCall};
use crate::types::{CastContext, array_of, element_of, encode_typmod, format_oid, type_by_name};

impl Analyzer<'_> {
    /// The expression in an optional node.
    pub(super) fn expr_of(&mut self, node: Option<&Node>) -> Result<Expr> {
        match node {
            Some(node) => self.expr(node),
            None => Err(SqlError::internal("expression expected")),
        }
    }

    pub(super) fn exprs(&mut self, nodes: &[Node]) -> Result<Vec<Expr>> {
        nodes.iter().map(|node| self.expr(node)).collect()
    }

    pub(super) fn expr(&mut self, node: &Node) -> Result<Expr> {
        self.check_stack()?;
        let Some(node) = node.node.as_ref() else {
            return Err(SqlError::internal("empty syntax node"));
        };
        match node {
            NodeEnum::AConst(constant) => self.constant(constant),
            NodeEnum::ColumnRef(column) => self.column(column),
            NodeEnum::ParamRef(param) => self.param(param.number, param.location),
            NodeEnum::AExpr(expr) => self.operator_expr(expr),
            NodeEnum::BoolExpr(expr) => self.bool_expr(expr),
            NodeEnum::FuncCall(call) => self.function_call(call),
            NodeEnum::TypeCast(cast) => self.type_cast(cast),
            NodeEnum::NullTest(test) => {
                let argument = self.expr_of(test.arg.as_deref())?;
                let argument = self.to_output(argument)?;
                let negated = test.nulltesttype() == NullTestType::IsNotNull;
                let kind = ExprKind::IsNull { argument: Box::new(argument), negated };
                Ok(Expr::new(kind, TypeOid::BOOL, test.location))
            }
            NodeEnum::BooleanTest(test) => {
                let (kind, name) = match test.booltesttype() {
                    BoolTestType::IsTrue => (BoolTest::True, "IS TRUE"),
                    BoolTestType::IsNotTrue => (BoolTest::NotTrue, "IS NOT TRUE"),
                    BoolTestType::IsFalse => (BoolTest::False, "IS FALSE"),
                    BoolTestType::IsNotFalse => (BoolTest::NotFalse, "IS NOT FALSE"),
                    BoolTestType::IsUnknown => (BoolTest::Unknown, "IS UNKNOWN"),
                    BoolTestType::IsNotUnknown => (BoolTest::NotUnknown, "IS NOT UNKNOWN"),
                    BoolTestType::Undefined => {
                        return Err(SqlError::internal("boolean test without a kind"));
                    }
                };
                let argument = self.expr_of(test.arg.as_deref())?;
                let argument = self.to_bool(argument, name)?;
                let kind = ExprKind::BoolTest { argument: Box::new(argument), test: kind };
                Ok(Expr::new(kind, TypeOid::BOOL, test.location))
            }
            NodeEnum::CaseExpr(case) => self.case(case),
            NodeEnum::CoalesceExpr(coalesce) => {
                let arguments = self.exprs(&coalesce.args)?;
                let arguments = self.unify(arguments, "COALESCE")?;
                let ty = arguments[0].ty;
                Ok(Expr::new(ExprKind::Coalesce(arguments), ty, coalesce.location))
            }
            NodeEnum::MinMaxExpr(expr) => {
                let greatest = expr.op() == MinMaxOp::IsGreatest;
                let arguments = self.exprs(&expr.args)?;
                let arguments =
                    self.unify(arguments, if greatest { "GREATEST" } else { "LEAST" })?;
                let ty = arguments[0].ty;
                if compare_function("<", ty).is_none() {
                    return Err(self.error(
                        "42883",
                        format!(
                            "could not identify a comparison function for type {}",
                            format_oid(ty)
                        ),
                        expr.location,
                    ));
                }
                Ok(Expr::new(ExprKind::MinMax { greatest, arguments }, ty, expr.location))
            }
            NodeEnum::SqlvalueFunction(function) => self.value_function(function),
            NodeEnum::SubLink(link) => self.sub_link(link),
            NodeEnum::AArrayExpr(array) => self.array(array, None),
            NodeEnum::AIndirection(indirection) => self.indirection(indirection),
            NodeEnum::CollateClause(collate) => {
                let names = names_of(&collate.collname);
                match names.last() {
                    Some(&("C" | "POSIX" | "default" | "C.UTF-8" | "ucs_basic")) => {
                        self.expr_of(collate.arg.as_deref())
                    }
                    Some(name) => Err(self.error(
                        "42704",
                        format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
                        collate.location,
                    )),
                    None => Err(SqlError::internal("COLLATE without a name")),
                }
            }
            NodeEnum::SetToDefault(default) => {
                Err(self.error("42601", "DEFAULT is not allowed in this context", default.location))
            }
            NodeEnum::RowExpr(row) => Err(self.unsupported("a row constructor", row.location)),
            NodeEnum::CurrentOfExpr(_) => Err(SqlError::unsupported("WHERE CURRENT OF")),
            NodeEnum::GroupingFunc(f) => Err(self.unsupported("GROUPING()", f.location)),
            NodeEnum::XmlExpr(_) | NodeEnum::XmlSerialize(_) => Err(SqlError::unsupported("XML")),
            NodeEnum::MultiAssignRef(_) => {
                Err(SqlError::unsupported("assignment of several columns at once"))
            }
            _ => Err(SqlError::unsupported("this kind of expression")),
        }
    }

    fn constant(&self, constant: &protobuf::AConst) -> Result<Expr> {
        let location = constant.location;
        if constant.isnull {
            return Ok(Expr::constant(Datum::Null, TypeOid::UNKNOWN, location));
        }
        let (value, ty) = match &constant.val {
            Some(a_const::Val::Ival(integer)) => (Datum::Int4(integer.ival), TypeOid::INT4),
            Some(a_const::Val::Fval(number)) => number_constant(&number.fval)?,
            Some(a_const::Val::Boolval(value)) => (Datum::Bool(value.boolval), TypeOid::BOOL),
            Some(a_const::Val::Sval(string)) => (Datum::text(&string.sval), TypeOid::UNKNOWN),
            Some(a_const::Val::Bsval(_)) => {
                return Err(self.unsupported("a bit string", location));
            }
            // The parser leaves a zero integer out.
            None => (Datum::Int4(0), TypeOid::INT4),
        };
        Ok(Expr::constant(value, ty, location))
    }

    fn param(&mut self, number: i32, location: i32) -> Result<Expr> {
        let index = usize::try_from(number)
            .ok()
            .and_then(|n| n.checked_sub(1))
            .filter(|n| *n < 65_535)
            .ok_or_else(|| {
                self.error("42P02", format!("there is no parameter ${number}"), location)
            })?;
        if self.params.len() <= index {
            if !self.infer_params {
                return Err(self.error(
                    "42P02",
                    format!("there is no parameter ${number}"),
                    location,
                ));
            }
            self.params.resize(index + 1, TypeOid::UNKNOWN);
        }
        Ok(Expr::new(ExprKind::Param(index), self.params[index], location))
    }

    /// A column, possibly of an enclosing query.
    fn column(&mut self, column: &protobuf::ColumnRef) -> Result<Expr> {
        let location = column.location;
        if column.fields.iter().any(|f| matches!(f.node, Some(NodeEnum::AStar(_)))) {
            return Err(self.error(
                "42601",
                "row expansion via \"*\" is not supported here",
                location,
            ));
        }
        let names = names_of(&column.fields);
        let (schema, table, name) = match names.as_slice() {
            [name] => (None, None, *name),
            [table, name] => (None, Some(*table), *name),
            [schema, table, name] => (Some(*schema), Some(*table), *name),
            _ => return Err(self.error("42601", "improper qualified name", location)),
        };
        let mut table_seen = false;
        for depth in 0..self.scopes.len() {
            let level = self.scopes.len() - 1 - depth;
            let found = match self.lookup(level, schema, table, name, location)? {
                Lookup::Found(found) => found,
                Lookup::NoColumn => {
                    table_seen = true;
                    break;
                }
                Lookup::Nothing => continue,
            };
            return Ok(self.use_column(found, depth, location));
        }
        if let Some(table) = table
            && !table_seen
        {
            if self.scopes.iter().any(|s| s.out_of_sight.iter().any(|name| name == table)) {
                return Err(self
                    .error(
                        "42P01",
                        format!("invalid reference to FROM-clause entry for table \"{table}\""),
                        location,
                    )
                    .with_hint(format!(
                        "There is an entry for table \"{table}\", but it cannot be referenced \
                         from this part of the query."
                    )));
            }
            return Err(self.error(
                "42P01",
                format!("missing FROM-clause entry for table \"{table}\""),
                location,
            ));
        }
        if matches!(name, "xmin" | "xmax" | "cmin" | "cmax") && !self.scopes.is_empty() {
            return Err(self.unsupported(format!("system column {name}"), location));
        }
        let shown = table.map_or_else(|| format!("\"{name}\""), |t| format!("{t}.{name}"));
        Err(self.error("42703", format!("column {shown} does not exist"), location))
    }

    /// Marks the slots of a column as read and moves it to the depth it is read from.
    pub(super) fn use_column(&mut self, mut found: Expr, depth: usize, location: i32) -> Expr {
        let level = self.scopes.len() - 1 - depth;
        mark_used(&found, &mut self.scopes[level].used);
        if depth > 0 {
            for scope in &mut self.scopes[level + 1..] {
                scope.reads_outer = true;
            }
            self.scopes[level].correlated_inside = true;
            shift_depth(&mut found, depth);
        }
        found.location = location;
        found
    }

    fn lookup(
        &self,
        level: usize,
        schema: Option<&str>,
        table: Option<&str>,
        name: &str,
        location: i32,
    ) -> Result<Lookup> {
        let ambiguous =
            || self.error("42702", format!("column reference \"{name}\" is ambiguous"), location);
        let scope = &self.scopes[level];
        let Some(table) = table else {
            let mut found: Option<&ItemColumn> = None;
            for column in scope.items.iter().flat_map(|item| &item.columns) {
                if column.bare && !column.hidden && column.name == name {
                    if found.is_some() {
                        return Err(ambiguous());
                    }
                    found = Some(column);
                }
            }
            if let Some(found) = found {
                return Ok(Lookup::Found(found.expr.clone()));
            }
            let mut system = scope.items.iter().filter_map(|item| system_column(item, name));
            if let Some(found) = system.next() {
                if system.next().is_some() {
                    return Err(ambiguous());
                }
                return Ok(Lookup::Found(found));
            }
            return Ok(Lookup::Nothing);
        };
        let mut items = scope.items.iter().filter(|item| {
            item.name == table && schema.is_none_or(|s| item.schema.as_deref() == Some(s))
        });
        let Some(item) = items.next() else { return Ok(Lookup::Nothing) };
        if items.next().is_some() {
            return Err(self.error(
                "42P09",
                format!("table reference \"{table}\" is ambiguous"),
                location,
            ));
        }
        let mut columns = item.columns.iter().filter(|c| !c.hidden && c.name == name);
        match columns.next() {
            Some(_) if columns.next().is_some() => Err(ambiguous()),
            Some(column) => Ok(Lookup::Found(column.expr.clone())),
            None => Ok(system_column(item, name).map_or(Lookup::NoColumn, Lookup::Found)),
        }
    }

    fn operator_expr(&mut self, expr: &protobuf::AExpr) -> Result<Expr> {
        let location = expr.location;
        let names = names_of(&expr.name);
        let name = names.last().copied().unwrap_or("=");
        match expr.kind() {
            AExprKind::AexprOp | AExprKind::AexprLike | AExprKind::AexprIlike => {
                for side in [&expr.lexpr, &expr.rexpr].into_iter().flatten() {
                    if let Some(NodeEnum::RowExpr(row)) = &side.node {
                        return self.row_comparison(name, expr, row.location);
                    }
                }
                let left = match &expr.lexpr {
                    Some(left) => Some(self.expr(left)?),
                    None => None,
                };
                let right = self.expr_of(expr.rexpr.as_deref())?;
                // -5 is a constant, so that it can be a bound of an index or a typed literal.
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
                let left = self.expr_of(expr.lexpr.as_deref())?;
                let right = self.expr_of(expr.rexpr.as_deref())?;
                let negated = expr.kind() == AExprKind::AexprNotDistinct;
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
            AExprKind::AexprNullif => {
                let left = self.expr_of(expr.lexpr.as_deref())?;
                let right = self.expr_of(expr.rexpr.as_deref())?;
                let equal = self.operator("=", Some(left), right, location)?;
                let ExprKind::Call { arguments, .. } = &equal.kind else {
                    return Err(SqlError::internal("an operator that is no call"));
                };
                let result = arguments[0].clone();
                let (ty, typmod) = (result.ty, result.typmod);
                let kind = ExprKind::NullIf { result: Box::new(result), equal: Box::new(equal) };
                Ok(Expr { kind, ty, typmod, location })
            }
            AExprKind::AexprIn => self.in_list(expr, name),
            AExprKind::AexprBetween | AExprKind::AexprNotBetween => {
                let bounds = list_items(expr.rexpr.as_deref());
                let [low, high] = bounds else {
                    return Err(SqlError::internal("BETWEEN without two bounds"));
                };
                let negated = expr.kind() == AExprKind::AexprNotBetween;
                let value = self.expr_of(expr.lexpr.as_deref())?;
                let again = self.expr_of(expr.lexpr.as_deref())?;
                let (low, high) = (self.expr(low)?, self.expr(high)?);
                let (first, second) = if negated { ("<", ">") } else { (">=", "<=") };
                let low = self.operator(first, Some(value), low, location)?;
                let high = self.operator(second, Some(again), high, location)?;
                let parts = vec![low, high];
                let kind = if negated { ExprKind::Or(parts) } else { ExprKind::And(parts) };
                Ok(Expr::new(kind, TypeOid::BOOL, location))
            }
            AExprKind::AexprBetweenSym | AExprKind::AexprNotBetweenSym => {
                Err(self.unsupported("BETWEEN SYMMETRIC", location))
            }
            AExprKind::AexprSimilar => Err(self.unsupported("SIMILAR TO", location)),
            AExprKind::Undefined => Err(SqlError::internal("operator without a kind")),
        }
    }

    /// `(a, b) = (c, d)` and `<>`, column by column.
    fn row_comparison(
        &mut self,
        name: &str,
        expr: &protobuf::AExpr,
        location: i32,
    ) -> Result<Expr> {
        let (Some(NodeEnum::RowExpr(left)), Some(NodeEnum::RowExpr(right))) = (
            expr.lexpr.as_ref().and_then(|n| n.node.as_ref()),
            expr.rexpr.as_ref().and_then(|n| n.node.as_ref()),
        ) else {
            return Err(self.unsupported("a row constructor", location));
        };
        if !matches!(name, "=" | "<>") {
            return Err(self.unsupported(format!("row comparison with {name}"), location));
        }
        if left.args.len() != right.args.len() {
            return Err(self.error(
                "42601",
                "unequal number of entries in row expressions",
                expr.location,
            ));
        }
        let mut parts = Vec::with_capacity(left.args.len());
        for (l, r) in left.args.iter().zip(&right.args) {
            let (l, r) = (self.expr(l)?, self.expr(r)?);
            parts.push(self.operator(name, Some(l), r, expr.location)?);
        }
        let kind = if name == "=" { ExprKind::And(parts) } else { ExprKind::Or(parts) };
        Ok(Expr::new(kind, TypeOid::BOOL, expr.location))
    }

    /// `a IN (…)`: an array comparison where the types allow it, else alternatives.
    fn in_list(&mut self, expr: &protobuf::AExpr, name: &str) -> Result<Expr> {
        let location = expr.location;
        let negated = name == "<>";
        let items = list_items(expr.rexpr.as_deref());
        let left = self.expr_of(expr.lexpr.as_deref())?;
        let values = self.exprs(items)?;
        let simple =
            values.iter().all(|v| matches!(v.kind, ExprKind::Const(_) | ExprKind::Param(_)));
        if simple && values.len() > 1 {
            let mut types = vec![(left.ty, left.location)];
            types.extend(values.iter().map(|v| (v.ty, v.location)));
            if let Ok(common) = self.common_type(&types, "IN")
                && let Some(array) = array_of(common)
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

    /// `left op ANY (array)` or ALL
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
                    format_oid(left.ty),
                    format_oid(element)
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
        let left = self.to_common(left, resolved.arguments[0], "ANY")?;
        let array = array_of(resolved.arguments[1])
            .ok_or_else(|| self.unsupported("ANY over this type", location))?;
        let right = self.to_common(right, array, "ANY")?;
        let kind = ExprKind::ArrayCompare {
            function: resolved.function,
            any,
            left: Box::new(left),
            right: Box::new(right),
        };
        Ok(Expr::new(kind, TypeOid::BOOL, location))
    }

    fn bool_expr(&mut self, expr: &protobuf::BoolExpr) -> Result<Expr> {
        let name = match expr.boolop() {
            BoolExprType::AndExpr => "AND",
            BoolExprType::OrExpr => "OR",
            _ => "NOT",
        };
        let mut parts = Vec::with_capacity(expr.args.len());
        for node in &expr.args {
            let part = self.expr(node)?;
            parts.push(self.to_bool(part, name)?);
        }
        let kind = match (expr.boolop(), parts.len()) {
            (BoolExprType::AndExpr, _) => ExprKind::And(parts),
            (BoolExprType::OrExpr, _) => ExprKind::Or(parts),
            (_, 1) => ExprKind::Not(Box::new(parts.remove(0))),
            _ => return Err(SqlError::internal("NOT without one operand")),
        };
        Ok(Expr::new(kind, TypeOid::BOOL, expr.location))
    }

    fn case(&mut self, case: &protobuf::CaseExpr) -> Result<Expr> {
        let operand = match &case.arg {
            Some(arg) => {
                let operand = self.expr(arg)?;
                let operand = self.to_output(operand)?;
                self.case_types.push(operand.ty);
                Some(Box::new(operand))
            }
            None => None,
        };
        let mut conditions = Vec::new();
        let mut results = Vec::new();
        for node in &case.args {
            let Some(NodeEnum::CaseWhen(when)) = &node.node else { continue };
            let condition = self.expr_of(when.expr.as_deref())?;
            let condition = match &operand {
                Some(operand) => {
                    let placeholder = Expr::new(ExprKind::CaseOperand, operand.ty, case.location);
                    self.operator("=", Some(placeholder), condition, when.location)?
                }
                None => self.to_bool(condition, "CASE/WHEN")?,
            };
            conditions.push(condition);
            results.push(self.expr_of(when.result.as_deref())?);
        }
        if operand.is_some() {
            self.case_types.pop();
        }
        let has_default = case.defresult.is_some();
        // PostgreSQL looks at the default first when it chooses the common type.
        let mut all = Vec::with_capacity(results.len() + 1);
        if let Some(default) = &case.defresult {
            all.push(self.expr(default)?);
        }
        all.extend(results);
        let mut all = self.unify(all, "CASE")?;
        let default = has_default.then(|| Box::new(all.remove(0)));
        let ty = all.first().map_or(TypeOid::TEXT, |e| e.ty);
        let branches = conditions.into_iter().zip(all).collect();
        Ok(Expr::new(ExprKind::Case { operand, branches, default }, ty, case.location))
    }

    fn array(&mut self, array: &protobuf::AArrayExpr, wanted: Option<TypeOid>) -> Result<Expr> {
        let elements = self.exprs(&array.elements)?;
        if elements.is_empty() && wanted.is_none() {
            return Err(self
                .error("42P18", "cannot determine type of empty array", array.location)
                .with_hint(
                    "Explicitly cast to the desired type, for example ARRAY[]::integer[].",
                ));
        }
        let elements = match wanted {
            Some(element) => elements
                .into_iter()
                .map(|e| self.cast(e, ColumnType::new(element), array.location))
                .collect::<Result<Vec<Expr>>>()?,
            None => self.unify(elements, "ARRAY")?,
        };
        let element = wanted.or_else(|| elements.first().map(|e| e.ty)).unwrap_or(TypeOid::TEXT);
        if element_of(element).is_some() {
            return Err(self.unsupported("an array of arrays", array.location));
        }
        let ty = array_of(element).ok_or_else(|| {
            self.error(
                "42704",
                format!("could not find array type for data type {}", format_oid(element)),
                array.location,
            )
        })?;
        Ok(Expr::new(ExprKind::Array(elements), ty, array.location))
    }

    fn indirection(&mut self, indirection: &protobuf::AIndirection) -> Result<Expr> {
        let mut value = self.expr_of(indirection.arg.as_deref())?;
        for step in &indirection.indirection {
            match &step.node {
                Some(NodeEnum::AIndices(indices)) if !indices.is_slice => {
                    let index = self.expr_of(indices.uidx.as_deref())?;
                    let location = index.location;
                    let element = element_of(value.ty).ok_or_else(|| {
                        self.error(
                            "42804",
                            format!(
                                "cannot subscript type {} because it does not support subscripting",
                                format_oid(value.ty)
                            ),
                            value.location,
                        )
                    })?;
                    let from = index.ty;
                    let index = self
                        .coerce(index, TypeOid::INT4, CastContext::Assignment)?
                        .ok_or_else(|| {
                            self.error(
                                "42804",
                                format!(
                                    "array subscript must have type integer, not {}",
                                    format_oid(from)
                                ),
                                location,
                            )
                        })?;
                    let kind =
                        ExprKind::Subscript { array: Box::new(value), index: Box::new(index) };
                    value = Expr::new(kind, element, location);
                }
                Some(NodeEnum::AIndices(_)) => {
                    return Err(SqlError::unsupported("an array slice"));
                }
                _ => return Err(SqlError::unsupported("a field of a composite value")),
            }
        }
        Ok(value)
    }

    fn type_cast(&mut self, cast: &protobuf::TypeCast) -> Result<Expr> {
        let name =
            cast.type_name.as_ref().ok_or_else(|| SqlError::internal("cast without a type"))?;
        let target = self.type_name(name)?;
        // ARRAY[…]::type[] types the elements, which may be none.
        if let Some(NodeEnum::AArrayExpr(array)) = cast.arg.as_ref().and_then(|a| a.node.as_ref())
            && let Some(element) = element_of(target.oid)
        {
            return self.array(array, Some(element));
        }
        let argument = self.expr_of(cast.arg.as_deref())?;
        let location = if cast.location >= 0 { cast.location } else { argument.location };
        self.cast(argument, target, location)
    }

    /// The type that a type name means.
    pub(super) fn type_name(&self, name: &protobuf::TypeName) -> Result<ColumnType> {
        let names = names_of(&name.names);
        let location = name.location;
        let (schema, base) = match names.as_slice() {
            [base] => (None, *base),
            [schema, base] => (Some(*schema), *base),
            _ => return Err(self.error("42601", "improper qualified type name", location)),
        };
        let undefined = || {
            let shown = schema.map_or_else(|| base.to_owned(), |s| format!("{s}.{base}"));
            self.error("42704", format!("type \"{shown}\" does not exist"), location)
        };
        if schema.is_some_and(|s| s != "pg_catalog") {
            return Err(undefined());
        }
        let mut oid = type_by_name(base).ok_or_else(|| {
            if KNOWN_TYPES.contains(&base) {
                self.unsupported(format!("type {base}"), location)
            } else {
                undefined()
            }
        })?;
        let mut arguments = Vec::new();
        for node in &name.typmods {
            match node.node.as_ref() {
                Some(NodeEnum::AConst(constant)) => match &constant.val {
                    Some(a_const::Val::Ival(value)) => arguments.push(i64::from(value.ival)),
                    None => arguments.push(0),
                    _ => {
                        return Err(self.error(
                            "42601",
                            "type modifiers must be simple constants or identifiers",
                            location,
                        ));
                    }
                },
                _ => {
                    return Err(self.error(
                        "42601",
                        "type modifiers must be simple constants or identifiers",
                        location,
                    ));
                }
            }
        }
        let typmod = if arguments.is_empty() {
            name.typemod
        } else if oid == TypeOid::INTERVAL {
            return Err(self.unsupported("an interval with fields or precision", location));
        } else {
            encode_typmod(oid, &arguments)
                .map_err(|message| self.error("22023", message, location))?
        };
        if !name.array_bounds.is_empty() {
            if name.array_bounds.len() > 1 {
                return Err(self.unsupported("an array of several dimensions", location));
            }
            oid = array_of(oid).ok_or_else(undefined)?;
        }
        Ok(ColumnType { oid, typmod })
    }

    fn value_function(&mut self, function: &protobuf::SqlValueFunction) -> Result<Expr> {
        let location = function.location;
        let (name, typmod) = match function.op() {
            SqlValueFunctionOp::SvfopCurrentDate => ("current_date", -1),
            SqlValueFunctionOp::SvfopCurrentTimestamp => ("now", -1),
            SqlValueFunctionOp::SvfopCurrentTimestampN => ("now", function.typmod),
            SqlValueFunctionOp::SvfopLocaltimestamp => ("localtimestamp", -1),
            SqlValueFunctionOp::SvfopLocaltimestampN => ("localtimestamp", function.typmod),
            SqlValueFunctionOp::SvfopCurrentRole
            | SqlValueFunctionOp::SvfopCurrentUser
            | SqlValueFunctionOp::SvfopUser => ("current_user", -1),
            SqlValueFunctionOp::SvfopSessionUser => ("session_user", -1),
            SqlValueFunctionOp::SvfopCurrentCatalog => ("current_database", -1),
            SqlValueFunctionOp::SvfopCurrentSchema => ("current_schema", -1),
            _ => return Err(self.unsupported("type time", location)),
        };
        let function = functions_named(name)
            .first()
            .copied()
            .ok_or_else(|| SqlError::internal(format!("no function {name}")))?;
        let call = Expr::call(function, Vec::new(), function.result, location);
        Self::with_typmod(call, typmod, true)
    }

    fn sub_link(&mut self, link: &protobuf::SubLink) -> Result<Expr> {
        let location = link.location;
        let part = match self.scope()?.place {
            Place::IndexExpression => Some(IndexPart::Key),
            Place::IndexPredicate => Some(IndexPart::Predicate),
            _ => None,
        };
        if let Some(part) = part {
            let message = format!("cannot use subquery in {}", part.one());
            return Err(self.error("0A000", message, location));
        }
        let Some(NodeEnum::SelectStmt(select)) =
            link.subselect.as_ref().and_then(|node| node.node.as_ref())
        else {
            return Err(SqlError::internal("a nested query that is no SELECT"));
        };
        let kind = link.sub_link_type();
        let plan = Arc::new(self.nested_query(select, None)?);
        let one_column = |this: &Self| match plan.columns.as_slice() {
            [only] => Ok(only.column_type),
            _ => Err(this.error("42601", "subquery must return only one column", location)),
        };
        let (query, ty, typmod) = match kind {
            SubLinkType::ExistsSublink => (SubQueryKind::Exists, TypeOid::BOOL, -1),
            SubLinkType::ExprSublink => {
                let column = one_column(self)?;
                (SubQueryKind::Scalar, column.oid, column.typmod)
            }
            SubLinkType::ArraySublink => {
                let column = one_column(self)?;
                let array = array_of(column.oid)
                    .ok_or_else(|| self.unsupported("an array of this type", location))?;
                (SubQueryKind::Array, array, -1)
            }
            SubLinkType::AnySublink | SubLinkType::AllSublink => {
                let left = self.expr_of(link.testexpr.as_deref())?;
                let [column] = plan.columns.as_slice() else {
                    return Err(self.error("42601", "subquery has too many columns", location));
                };
                let names = names_of(&link.oper_name);
                let name = names.last().copied().unwrap_or("=");
                let right = Expr::slot(0, column.column_type);
                let compared = self.operator(name, Some(left), right, location)?;
                let ExprKind::Call { function, arguments } = compared.kind else {
                    return Err(SqlError::internal("an operator that is no call"));
                };
                let mut arguments = arguments.into_iter();
                let (Some(left), Some(right_cast)) = (arguments.next(), arguments.next()) else {
                    return Err(SqlError::internal("an operator without operands"));
                };
                let any = kind == SubLinkType::AnySublink;
                (SubQueryKind::Compare { function, any, left, right_cast }, TypeOid::BOOL, -1)
            }
            _ => return Err(self.unsupported("this kind of nested query", location)),
        };
        Ok(Expr {
            kind: ExprKind::SubQuery(Box::new(SubQuery { kind: query, plan })),
            ty,
            typmod,
            location,
        })
    }

    fn function_call(&mut self, call: &protobuf::FuncCall) -> Result<Expr> {
        let location = call.location;
        let names = names_of(&call.funcname);
        let Some(name) = names.last().copied() else {
            return Err(SqlError::internal("call without a name"));
        };
        let shown = names.join(".");
        if call.over.is_some() {
            return Err(self.unsupported("a window function", location));
        }
        if call.agg_within_group {
            return Err(self.unsupported("WITHIN GROUP", location));
        }
        if call.func_variadic {
            return Err(self.unsupported("VARIADIC", location));
        }
        if names.len() > 1 && names[0] != "pg_catalog" {
            let types = self.argument_types(&call.args)?;
            return Err(self.function_error(&shown, &types, location, &NoMatch::None));
        }
        if crate::aggregates::is_aggregate(name) {
            return self.aggregate(call, name);
        }
        if call.agg_star
            || call.agg_distinct
            || call.agg_filter.is_some()
            || !call.agg_order.is_empty()
        {
            return Err(self.error(
                "42809",
                format!("{shown} is not an aggregate function"),
                location,
            ));
        }
        if let Some(named) =
            call.args.iter().find(|a| matches!(a.node, Some(NodeEnum::NamedArgExpr(_))))
        {
            let _ = named;
            return Err(self.unsupported("a named argument", location));
        }
        let mut arguments = self.exprs(&call.args)?;
        let types: Vec<TypeOid> = arguments.iter().map(|a| a.ty).collect();
        if name == "pg_typeof" && arguments.len() == 1 {
            return Ok(Expr::constant(Datum::text(&format_oid(types[0])), TypeOid::TEXT, location));
        }
        let resolved = match choose(functions_named(name), &types) {
            Ok(resolved) => resolved,
            Err(reason) => {
                // text(x), int4(x): a type's name as a function is a cast.
                if let (Some(oid), [_]) = (type_by_name(name), types.as_slice())
                    && let Some(argument) = arguments.pop()
                {
                    return self.cast(argument, ColumnType::new(oid), location);
                }
                return Err(self.function_error(&shown, &types, location, &reason));
            }
        };
        let mut converted = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.into_iter().zip(&resolved.arguments) {
            converted
                .push(self.coerce(argument, *ty, CastContext::Implicit)?.ok_or_else(|| {
                    self.function_error(&shown, &types, location, &NoMatch::None)
                })?);
        }
        if resolved.function.returns_set() {
            return self.set_call(resolved.function, converted, resolved.result, location);
        }
        Ok(Expr::call(resolved.function, converted, resolved.result, location))
    }

    fn argument_types(&mut self, nodes: &[Node]) -> Result<Vec<TypeOid>> {
        Ok(self.exprs(nodes)?.iter().map(|e| e.ty).collect())
    }

    fn set_call(
        &mut self,
        function: &'static Function,
        arguments: Vec<Expr>,
        result: TypeOid,
        location: i32,
    ) -> Result<Expr> {
        let place = self.scope()?.place;
        if !place.allows_sets() {
            return Err(self.error(
                "0A000",
                format!("set-returning functions are not allowed in {}", place.name()),
                location,
            ));
        }
        if function.columns().is_some() && place != Place::From {
            return Err(self.error(
                "0A000",
                format!("{} has several columns, and is allowed in FROM only", function.name),
                location,
            ));
        }
        let scope = self.scope()?;
        if scope.in_aggregate {
            return Err(self.error(
                "0A000",
                "aggregate function calls cannot contain set-returning function calls",
                location,
            ));
        }
        let number = scope.sets.len();
        scope.sets.push(SetCall { function, arguments });
        Ok(Expr::new(ExprKind::SetReturning(number), result, location))
    }

    fn aggregate(&mut self, call: &protobuf::FuncCall, name: &str) -> Result<Expr> {
        let location = call.location;
        let place = self.scope()?.place;
        if !place.allows_aggregates() {
            return Err(self.error(
                "42803",
                format!("aggregate functions are not allowed in {}", place.name()),
                location,
            ));
        }
        if self.scope()?.in_aggregate {
            return Err(self.error("42803", "aggregate function calls cannot be nested", location));
        }
        self.scope()?.in_aggregate = true;
        let inside = self.aggregate_parts(call);
        self.scope()?.in_aggregate = false;
        let (arguments, filter, order) = inside?;
        let types: Vec<TypeOid> = arguments.iter().map(|a| a.ty).collect();
        let Some(resolved) = crate::aggregates::resolve(name, &types, call.agg_star) else {
            if call.args.is_empty() && !call.agg_star && name == "count" {
                return Err(self.error(
                    "42809",
                    "count(*) must be used to call a parameterless aggregate function",
                    location,
                ));
            }
            return Err(self.function_error(name, &types, location, &NoMatch::None));
        };
        let mut converted = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.into_iter().zip(&resolved.arguments) {
            converted.push(self.to_common(argument, *ty, name)?);
        }
        if call.agg_distinct && !order.is_empty() {
            return Err(self.unsupported("an aggregate with both DISTINCT and ORDER BY", location));
        }
        let scope = self.scope()?;
        let number = scope.aggregates.len();
        scope.aggregates.push(AggregateCall {
            kind: resolved.kind,
            name: name.to_owned(),
            arguments: converted,
            distinct: call.agg_distinct,
            filter,
            order,
        });
        Ok(Expr::new(ExprKind::Aggregate(number), resolved.result, location))
    }

    #[expect(clippy::type_complexity, reason = "used once, just above")]
    fn aggregate_parts(
        &mut self,
        call: &protobuf::FuncCall,
    ) -> Result<(Vec<Expr>, Option<Expr>, Vec<(Expr, bool, bool)>)> {
        let arguments = self.exprs(&call.args)?;
        let filter = match &call.agg_filter {
            Some(filter) => {
                let filter = self.expr(filter)?;
                Some(self.to_bool(filter, "FILTER")?)
            }
            None => None,
        };
        let mut order = Vec::new();
        for node in &call.agg_order {
            let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
            let expr = self.expr_of(sort.node.as_deref())?;
            let expr = self.to_output(expr)?;
            let (descending, nulls_first) = self.sort_direction(sort)?;
            order.push((expr, descending, nulls_first));
        }
        Ok((arguments, filter, order))
    }

    pub(super) fn set_place(&mut self, place: Place) -> Result<()> {
        self.scope()?.place = place;
        Ok(())
    }
}

enum Lookup {
    Found(Expr),
    /// The table is there, the column is not.
    NoColumn,
    Nothing,
}

/// Types that PostgreSQL has and Niwaki does not: their absence is said as such.
const KNOWN_TYPES: &[&str] = &[
    "json",
    "jsonb",
    "uuid",
    "time",
    "timetz",
    "bit",
    "varbit",
    "money",
    "inet",
    "cidr",
    "macaddr",
    "xml",
    "point",
    "line",
    "lseg",
    "box",
    "path",
    "polygon",
    "circle",
    "tsvector",
    "tsquery",
    "int4range",
    "int8range",
    "numrange",
    "daterange",
    "tsrange",
    "tstzrange",
    "regproc",
    "regprocedure",
    "regoper",
    "regtype",
    "regnamespace",
    "regrole",
    "cstring",
    "oidvector",
    "int2vector",
    "xid8",
    "cid",
    "jsonpath",
    "hstore",
    "citext",
];

/// The type of a number that is no int4: int8 if it fits, else numeric.
fn number_constant(text: &str) -> Result<(Datum, TypeOid)> {
    let digits = text.replace('_', "");
    let lower = digits.to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(rest) = lower.strip_prefix(prefix) {
            return i64::from_str_radix(rest, radix)
                .map(|value| (Datum::Int8(value), TypeOid::INT8))
                .map_err(|_| SqlError::unsupported("a non-decimal integer beyond bigint"));
        }
    }
    if let Ok(value) = digits.parse::<i64>() {
        return Ok((Datum::Int8(value), TypeOid::INT8));
    }
    Ok((Datum::Numeric(Arc::new(Numeric::parse(&digits)?)), TypeOid::NUMERIC))
}

/// Minus a constant, where the type stays the same.
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

fn mark_used(expr: &Expr, used: &mut [bool]) {
    if let ExprKind::Slot { depth: 0, slot } = &expr.kind
        && let Some(flag) = used.get_mut(*slot)
    {
        *flag = true;
    }
    expr.for_each_child(&mut |child| mark_used(child, used));
}

fn shift_depth(expr: &mut Expr, by: usize) {
    if let ExprKind::Slot { depth, .. } = &mut expr.kind {
        *depth += by;
    }
    // The visitor cannot fail.
    let _ = expr.for_each_child_mut(&mut |child| {
        shift_depth(child, by);
        Ok(())
    });
}
