//! Analysis of expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_catalog::type_collation;
use niwaki_env::stack;
use niwaki_expr::expr::collation::is_collated;
use niwaki_expr::expr::{
    BoolTest, Collation, Expr, ExprKind, Nested, Quantifier, SubQuery, SubQueryKind,
};
use niwaki_expr::query::{Query, SealedQuery, nodes};
use niwaki_functions::functions::functions_named;
use niwaki_parse::collation::{collation_named, refuse_uncollated};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{CastContext, array_of, cast_path, element_of};
use niwaki_types::{ColumnType, Datum, Numeric, TypeOid};
use pg_query::protobuf::{
    self, BoolExprType, BoolTestType, MinMaxOp, NullTestType, SqlValueFunctionOp, SubLinkType,
    a_const,
};
use pg_query::{Node, NodeEnum};

use crate::analyze::expression::rows::row_of;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::Place;
use crate::analyze::{Analyzer, IndexPart};

/// Work units of analyzing one expression node: about the bytes of its memory, one or two
/// kilobytes.
pub(crate) const EXPRESSION_UNITS: usize = 2048;

impl Analyzer<'_> {
    /// Analyzes the expression in an optional node.
    pub(crate) fn expr_of(&mut self, node: Option<&Node>) -> Result<Expr> {
        match node {
            Some(node) => self.expr(node),
            None => Err(SqlError::internal("expression expected")),
        }
    }

    pub(crate) fn exprs(&mut self, nodes: &[Node]) -> Result<Vec<Expr>> {
        nodes.iter().map(|node| self.expr(node)).collect()
    }

    pub(crate) fn expr(&mut self, node: &Node) -> Result<Expr> {
        niwaki_types::work::tick(EXPRESSION_UNITS)?;
        let value = stack::deeper(|| self.any_expr(node))?;
        self.check_collation(&value)?;
        Ok(value)
    }

    fn any_expr(&mut self, node: &Node) -> Result<Expr> {
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
            NodeEnum::NullTest(test) => self.null_test(test),
            NodeEnum::BooleanTest(test) => self.bool_test(test),
            NodeEnum::CaseExpr(case) => {
                let value = self.case(case)?;
                self.refuse_sets_in(value, "CASE")
            }
            NodeEnum::CoalesceExpr(coalesce) => {
                let arguments = self.exprs(&coalesce.args)?;
                let arguments = self.unify(arguments, "COALESCE")?;
                let (ty, domain) = (arguments[0].ty, arguments[0].domain);
                let kind = ExprKind::Coalesce(arguments);
                let value = Expr { domain, ..Expr::new(kind, ty, coalesce.location) };
                self.refuse_sets_in(value, "COALESCE")
            }
            NodeEnum::MinMaxExpr(expr) => self.min_max(expr),
            NodeEnum::SqlvalueFunction(function) => self.value_function(function),
            NodeEnum::GroupingFunc(call) => self.grouping_call(call),
            NodeEnum::SubLink(link) => self.sub_link(link),
            NodeEnum::AArrayExpr(array) => self.array(array, None),
            NodeEnum::AIndirection(indirection) => {
                self.indirection(indirection, &indirection.indirection)
            }
            NodeEnum::CollateClause(collate) => self.collate(collate),
            NodeEnum::SetToDefault(default) => {
                Err(self.error("42601", "DEFAULT is not allowed in this context", default.location))
            }
            NodeEnum::RowExpr(row) => self.row_constructor(row),
            NodeEnum::CurrentOfExpr(_) => Err(SqlError::internal("CURRENT OF outside of WHERE")),
            NodeEnum::XmlExpr(_) | NodeEnum::XmlSerialize(_) => Err(SqlError::unsupported("XML")),
            NodeEnum::MultiAssignRef(_) => {
                Err(SqlError::unsupported("assignment of several columns at once"))
            }
            _ => Err(SqlError::unsupported("this kind of expression")),
        }
    }

    /// Analyzes IS NULL and IS NOT NULL.
    #[inline(never)]
    fn null_test(&mut self, test: &protobuf::NullTest) -> Result<Expr> {
        if let Some(row) = row_of(test.arg.as_deref()) {
            let negated = test.nulltesttype() == NullTestType::IsNotNull;
            return self.row_null_test(row, negated, test.location);
        }
        let argument = self.expr_of(test.arg.as_deref())?;
        let argument = Box::new(self.to_output(argument)?);
        let negated = test.nulltesttype() == NullTestType::IsNotNull;
        let kind = if argument.ty.is_record() {
            ExprKind::RowNull { argument, negated }
        } else {
            ExprKind::IsNull { argument, negated }
        };
        Ok(Expr::new(kind, TypeOid::BOOL, test.location))
    }

    /// Analyzes IS TRUE and its like.
    #[inline(never)]
    fn bool_test(&mut self, test: &protobuf::BooleanTest) -> Result<Expr> {
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

    /// Analyzes GREATEST and LEAST.
    #[inline(never)]
    fn min_max(&mut self, expr: &protobuf::MinMaxExpr) -> Result<Expr> {
        let greatest = expr.op() == MinMaxOp::IsGreatest;
        let arguments = self.exprs(&expr.args)?;
        let arguments = self.unify(arguments, if greatest { "GREATEST" } else { "LEAST" })?;
        let (ty, domain) = (arguments[0].ty, arguments[0].domain);
        if !self.is_ordered("<", &arguments[0]) {
            return Err(self.error(
                "42883",
                format!(
                    "could not identify a comparison function for type {}",
                    self.format_oid(ty)
                ),
                expr.location,
            ));
        }
        let kind = ExprKind::MinMax { greatest, arguments };
        Ok(Expr { domain, ..Expr::new(kind, ty, expr.location) })
    }

    /// Analyzes COLLATE.
    #[inline(never)]
    fn collate(&mut self, collate: &protobuf::CollateClause) -> Result<Expr> {
        let mut value = self.expr_of(collate.arg.as_deref())?;
        if value.ty != TypeOid::UNKNOWN && type_collation(value.ty).is_none() {
            let refused = refuse_uncollated(&self.format_oid(value.declared()));
            return Err(refused.with_position(self.at(collate.location)));
        }
        let collation = collation_named(&names_of(&collate.collname));
        let collation =
            collation.map_err(|error| error.with_position(self.at(collate.location)))?;
        value.collation = Some(collation);
        value.derived = Collation::Explicit(collation, collate.location);
        Ok(value)
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
            // The parser omits the value of a zero integer.
            None => (Datum::Int4(0), TypeOid::INT4),
        };
        Ok(Expr::constant(value, ty, location))
    }

    pub(crate) fn param(&mut self, number: i32, location: i32) -> Result<Expr> {
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
        let column = self.context.text.types.column_type(self.params[index]);
        let derived = match self.input_collation {
            Some(_) if is_collated(column.oid) => {
                Collation::of_column(self.input_collation, column.oid)
            }
            _ => Collation::of_type(column.oid),
        };
        let value = Expr { derived, ..Expr::new(ExprKind::Param(index), column.oid, location) };
        if column.domain.is_none() {
            return Ok(value);
        }
        let value = Self::with_typmod(value, column.typmod, false);
        self.as_domain(value, column.domain)
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
                Some(Box::new(self.to_output(operand)?))
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
                    let placeholder = Expr { derived: operand.derived.settled(), ..placeholder };
                    let equal = self.operator("=", Some(placeholder), condition, when.location)?;
                    self.check_collation(&equal)?;
                    equal
                }
                None => self.to_bool(condition, "CASE/WHEN")?,
            };
            conditions.push(condition);
            results.push(self.expr_of(when.result.as_deref())?);
        }
        let has_default = case.defresult.is_some();
        // PostgreSQL considers the default first when it chooses the common type.
        let mut all = Vec::with_capacity(results.len() + 1);
        if let Some(default) = &case.defresult {
            all.push(self.expr(default)?);
        }
        all.extend(results);
        let mut all = self.unify(all, "CASE")?;
        let default = has_default.then(|| Box::new(all.remove(0)));
        let (ty, domain) = all.first().map_or((TypeOid::TEXT, None), |e| (e.ty, e.domain));
        let branches = conditions.into_iter().zip(all).collect();
        let kind = ExprKind::Case { operand, branches, default };
        Ok(Expr { domain, ..Expr::new(kind, ty, case.location) })
    }

    /// Analyzes `(value)[subscript].field…`, with `steps` in place of all steps.
    pub(crate) fn indirection<'n>(
        &mut self,
        indirection: &'n protobuf::AIndirection,
        mut steps: &'n [Node],
    ) -> Result<Expr> {
        let mut value = self.expr_of(indirection.arg.as_deref())?;
        while let Some(step) = steps.first() {
            if value.ty == TypeOid::JSONB {
                return self.json_subscripts(value, steps);
            }
            match &step.node {
                Some(NodeEnum::AIndices(_)) => {}
                Some(NodeEnum::String(name)) => {
                    value = self.field(value, &name.sval)?;
                    steps = &steps[1..];
                    continue;
                }
                _ => {
                    let message = "row expansion via \"*\" is not supported here";
                    return Err(self.error("42601", message, value.location));
                }
            }
            let indices = |step: &&Node| matches!(step.node, Some(NodeEnum::AIndices(_)));
            let (subscripts, rest) = steps.split_at(steps.iter().take_while(indices).count());
            value = self.subscripted(value, subscripts)?;
            steps = rest;
        }
        Ok(value)
    }

    /// Analyzes `value['key'][0]…`: the element, or NULL if it does not exist.
    fn json_subscripts(&mut self, value: Expr, steps: &[Node]) -> Result<Expr> {
        let location = value.location;
        let mut arguments = vec![value];
        for step in steps {
            let indices = match &step.node {
                Some(NodeEnum::AIndices(indices)) => indices,
                Some(NodeEnum::String(name)) => {
                    let message = format!(
                        "column notation .{} applied to type jsonb, which is not a composite type",
                        name.sval
                    );
                    return Err(self.error("42809", message, location));
                }
                _ => {
                    let message = "row expansion via \"*\" is not supported here";
                    return Err(self.error("42601", message, location));
                }
            };
            if indices.is_slice {
                let place = indices.uidx.as_ref().or(indices.lidx.as_ref());
                let location = match place {
                    Some(node) => self.expr(node)?.location,
                    None => location,
                };
                return Err(self.error(
                    "42804",
                    "jsonb subscript does not support slices",
                    location,
                ));
            }
            let index = self.expr_of(indices.uidx.as_deref())?;
            let (from, place) = (index.ty, index.location);
            let fits = |ty| cast_path(from, ty, CastContext::Implicit).is_some();
            if from != TypeOid::UNKNOWN && fits(TypeOid::INT4) == fits(TypeOid::TEXT) {
                return Err(self
                    .error(
                        "42804",
                        format!("subscript type {} is not supported", self.format_oid(from)),
                        place,
                    )
                    .with_hint("jsonb subscript must be coercible to either integer or text."));
            }
            let index = if from != TypeOid::UNKNOWN && fits(TypeOid::INT4) {
                self.to_common(index, TypeOid::INT4, "subscript")?
            } else {
                index
            };
            arguments.push(self.cast(index, ColumnType::new(TypeOid::TEXT), place)?);
        }
        let function = functions_named("jsonb_extract_path")
            .first()
            .copied()
            .ok_or_else(|| SqlError::internal("no function jsonb_extract_path"))?;
        Ok(niwaki_functions::functions::call(function, arguments, TypeOid::JSONB, location))
    }

    fn type_cast(&mut self, cast: &protobuf::TypeCast) -> Result<Expr> {
        let name =
            cast.type_name.as_ref().ok_or_else(|| SqlError::internal("cast without a type"))?;
        let target = self.type_name(name)?;
        // `ARRAY[…]::type[]` gives the elements their type, even if there are none.
        if let Some(NodeEnum::AArrayExpr(array)) = cast.arg.as_ref().and_then(|a| a.node.as_ref())
            && let Some(element) = element_of(target.oid)
        {
            let array = self.array(array, Some(ColumnType::with_typmod(element, target.typmod)))?;
            return self.as_domain(array, target.domain);
        }
        let argument = self.expr_of(cast.arg.as_deref())?;
        let location = if cast.location >= 0 { cast.location } else { argument.location };
        self.cast(argument, target, location)
    }

    fn value_function(&mut self, function: &protobuf::SqlValueFunction) -> Result<Expr> {
        let location = function.location;
        let (name, typmod) = match function.op() {
            SqlValueFunctionOp::SvfopCurrentDate => ("current_date", -1),
            SqlValueFunctionOp::SvfopCurrentTimestamp => ("now", -1),
            SqlValueFunctionOp::SvfopCurrentTimestampN => ("now", function.typmod),
            SqlValueFunctionOp::SvfopLocaltimestamp => ("localtimestamp", -1),
            SqlValueFunctionOp::SvfopLocaltimestampN => ("localtimestamp", function.typmod),
            SqlValueFunctionOp::SvfopCurrentTime => ("current_time", -1),
            SqlValueFunctionOp::SvfopCurrentTimeN => ("current_time", function.typmod),
            SqlValueFunctionOp::SvfopLocaltime => ("localtime", -1),
            SqlValueFunctionOp::SvfopLocaltimeN => ("localtime", function.typmod),
            SqlValueFunctionOp::SvfopCurrentRole
            | SqlValueFunctionOp::SvfopCurrentUser
            | SqlValueFunctionOp::SvfopUser => ("current_user", -1),
            SqlValueFunctionOp::SvfopSessionUser => ("session_user", -1),
            SqlValueFunctionOp::SvfopCurrentCatalog => ("current_database", -1),
            SqlValueFunctionOp::SvfopCurrentSchema => ("current_schema", -1),
            SqlValueFunctionOp::SqlvalueFunctionOpUndefined => {
                return Err(SqlError::internal("value function without a kind"));
            }
        };
        let function = functions_named(name)
            .first()
            .copied()
            .ok_or_else(|| SqlError::internal(format!("no function {name}")))?;
        let call =
            niwaki_functions::functions::call(function, Vec::new(), function.result, location);
        // A precision above 6 digits means 6 digits.
        Ok(Self::with_typmod(call, typmod.min(6), true))
    }

    fn sub_link(&mut self, link: &protobuf::SubLink) -> Result<Expr> {
        let location = link.location;
        let part = match self.scope()?.place {
            Place::IndexExpression => Some(IndexPart::Key.one()),
            Place::IndexPredicate => Some(IndexPart::Predicate.one()),
            Place::Generation => Some("column generation expression"),
            Place::Check => Some("check constraint"),
            Place::TriggerWhen => Some("trigger WHEN condition"),
            Place::CopyWhere => Some("COPY FROM WHERE condition"),
            Place::ExecuteParameter => Some("EXECUTE parameter"),
            Place::PartitionBound => Some("partition bound"),
            _ => None,
        };
        if let Some(part) = part {
            let message = format!("cannot use subquery in {part}");
            return Err(self.error("0A000", message, location));
        }
        let kind = link.sub_link_type();
        let query = self.query_of(link)?;
        let one_column = |this: &Self| match query.columns.as_slice() {
            [only] => Ok(only.column_type),
            _ => Err(this.error("42601", "subquery must return only one column", location)),
        };
        let (kind, ty, (typmod, domain)) = match kind {
            SubLinkType::ExistsSublink => (SubQueryKind::Exists, TypeOid::BOOL, (-1, None)),
            SubLinkType::ExprSublink => {
                let column = one_column(self)?;
                (SubQueryKind::Scalar, column.oid, (column.typmod, column.domain))
            }
            SubLinkType::ArraySublink => {
                let column = one_column(self)?;
                // Array values form an array with one more dimension.
                let array = element_of(column.oid)
                    .map_or_else(|| array_of(column.oid), |_| Some(column.oid));
                let array =
                    array.ok_or_else(|| self.unsupported("an array of this type", location))?;
                (SubQueryKind::Array, array, (-1, None))
            }
            SubLinkType::AnySublink | SubLinkType::AllSublink => {
                let names = names_of(&link.oper_name);
                let name = names.last().copied().unwrap_or("=");
                let any = kind == SubLinkType::AnySublink;
                let mut parts = match row_of(link.testexpr.as_deref()) {
                    Some(row) => {
                        self.refuse_long_row(row.args.len(), row.location)?;
                        self.exprs(&row.args)?
                    }
                    None => row_parts(self.expr_of(link.testexpr.as_deref())?),
                };
                let few = match query.columns.len().cmp(&parts.len()) {
                    Ordering::Less => Some("few"),
                    Ordering::Greater => Some("many"),
                    Ordering::Equal => None,
                };
                if let Some(word) = few {
                    let message = format!("subquery has too {word} columns");
                    return Err(self.error("42601", message, location));
                }
                // A row of one field is that field.
                let left = match parts.pop() {
                    Some(only) if parts.is_empty() => only,
                    last => {
                        parts.extend(last);
                        let with = if any { Quantifier::Any } else { Quantifier::All };
                        let kind =
                            self.rows_compared(name, parts, &query.columns, with, location)?;
                        return Ok(asked(kind, query, location));
                    }
                };
                let right = query.columns.first().map(|column| column.at_slot(0));
                let right = right.unwrap_or_else(|| Expr::slot(0, TypeOid::BOOL.into()));
                let compared = self.operator(name, Some(left), right, location)?;
                self.check_collation(&compared)?;
                let ExprKind::Call { function, arguments } = compared.kind else {
                    return Err(SqlError::internal("an operator that is no call"));
                };
                let mut arguments = arguments.into_iter();
                let (Some(left), Some(right_cast)) = (arguments.next(), arguments.next()) else {
                    return Err(SqlError::internal("an operator without operands"));
                };
                let kind = SubQueryKind::Compare { function, any, left, right_cast };
                (kind, TypeOid::BOOL, (-1, None))
            }
            _ => return Err(self.unsupported("this kind of nested query", location)),
        };
        let query = Nested::Query(SealedQuery::new(query));
        let kind = ExprKind::SubQuery(Box::new(SubQuery { kind, query }));
        Ok(Expr { typmod, domain, ..Expr::new(kind, ty, location) })
    }

    pub(crate) fn set_place(&mut self, place: Place) -> Result<()> {
        self.scope()?.place = place;
        Ok(())
    }
}

/// Copies an expression, and counts the copy as work. Where such expressions nest, each level
/// doubles the size of the inner ones.
pub(crate) fn copy_of(expr: &Expr) -> Result<Expr> {
    niwaki_types::work::tick(nodes(expr).saturating_mul(EXPRESSION_UNITS))?;
    Ok(expr.clone())
}

/// Returns the expressions that are compared with the columns of a query: the fields of a row
/// constructor, or the value itself.
fn row_parts(value: Expr) -> Vec<Expr> {
    match value.kind {
        ExprKind::Row(row) if row.of_item.is_none() => row.fields,
        kind => vec![Expr { kind, ..value }],
    }
}

/// Returns a condition that evaluates a nested query.
pub(crate) fn asked(kind: SubQueryKind, query: Query, location: i32) -> Expr {
    let query = Nested::Query(SealedQuery::new(query));
    let kind = ExprKind::SubQuery(Box::new(SubQuery { kind, query }));
    Expr::new(kind, TypeOid::BOOL, location)
}

/// Returns the value and type of a number that the grammar does not read as int4. The least int4 is
/// such a number, because it is written as minus a number beyond int4. Otherwise the type is int8
/// if the number fits, else numeric.
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
    if let Ok(value) = digits.parse::<i32>() {
        return Ok((Datum::Int4(value), TypeOid::INT4));
    }
    if let Ok(value) = digits.parse::<i64>() {
        return Ok((Datum::Int8(value), TypeOid::INT8));
    }
    Ok((Datum::Numeric(Arc::new(Numeric::parse(&digits)?)), TypeOid::NUMERIC))
}
