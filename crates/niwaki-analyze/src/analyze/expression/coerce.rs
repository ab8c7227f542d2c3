//! Coercions: conversion of expressions to the types that their context requires.

use niwaki_catalog::type_collation;
use niwaki_expr::expr::{CastPurpose, Expr, ExprKind, object_input, path_input, shows_names};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{
    CastContext, CastPath, cast_path, category, converts_implicitly, is_preferred,
};
use niwaki_types::{ColumnType, Datum, InputContext, TypeOid};

use crate::analyze::Analyzer;

impl Analyzer<'_> {
    /// Converts to a type if the context allows it; returns `None` otherwise.
    pub(crate) fn coerce(
        &mut self,
        mut expr: Expr,
        to: TypeOid,
        context: CastContext,
    ) -> Result<Option<Expr>> {
        if expr.ty == to {
            // The result has the base type, without the domain. The value stays unchanged.
            return Ok(Some(Expr { domain: None, ..expr }));
        }
        if let Some(collation) = expr.collation.take() {
            // As in PostgreSQL, the conversion applies to the operand of COLLATE.
            let given = expr.derived;
            let value = self.coerce(expr, to, context)?;
            let collation = type_collation(to).map(|_| collation);
            return Ok(value.map(|value| {
                let derived = if collation.is_some() { given } else { value.derived };
                Expr { collation, derived, ..value }
            }));
        }
        if expr.ty == TypeOid::UNKNOWN {
            return self.coerce_unknown(expr, to).map(Some);
        }
        if expr.ty == TypeOid::RECORD && to.is_composite() {
            return self.row_as(expr, to, context).map(Some);
        }
        let Some(path) = cast_path(expr.ty, to, context) else {
            // An array constructor's elements may be convertible although the arrays are not.
            return Ok(None);
        };
        let location = expr.location;
        // An existing cast keeps its type: with another type, the cast would become another cast. A
        // cast of a type to itself would become no cast. It would then keep the blanks that char(n)
        // loses on its way to text and back.
        let is_cast = matches!(expr.kind, ExprKind::Cast { .. } | ExprKind::Length { .. })
            && (shows_names(expr.ty) || shows_names(to))
            || matches!(expr.kind, ExprKind::Cast { from, .. } if from == to)
            || to == TypeOid::RECORD;
        if path == CastPath::Relabel && !is_cast {
            if matches!(expr.kind, ExprKind::Const(_)) {
                expr.ty = to;
                expr.typmod = -1;
                expr.domain = None;
                return Ok(Some(expr));
            }
            // Only the static type changes. A parameter keeps its inferred type.
            return Ok(Some(Expr { ty: to, typmod: -1, domain: None, ..expr }));
        }
        let from = expr.ty;
        // Integer constants are converted now, so that index conditions see plain constants.
        if let ExprKind::Const(Datum::Int4(value)) = &expr.kind {
            let value = *value;
            let constant = match to {
                TypeOid::INT8 => Some(Datum::Int8(i64::from(value))),
                TypeOid::INT2 => i16::try_from(value).ok().map(Datum::Int2),
                TypeOid::NUMERIC => {
                    Some(Datum::Numeric(std::sync::Arc::new(i64::from(value).into())))
                }
                TypeOid::FLOAT8 => Some(Datum::Float8(f64::from(value))),
                TypeOid::OID => Some(Datum::Oid(value.cast_unsigned())),
                _ => None,
            };
            if let Some(constant) = constant {
                return Ok(Some(Expr::constant(constant, to, location)));
            }
        }
        Ok(Some(Expr::new(
            ExprKind::Cast {
                argument: Box::new(expr),
                from,
                purpose: match context {
                    CastContext::Explicit => CastPurpose::Written,
                    _ => CastPurpose::Implied,
                },
            },
            to,
            location,
        )))
    }

    /// Gives an untyped literal or parameter its type.
    fn coerce_unknown(&mut self, expr: Expr, to: TypeOid) -> Result<Expr> {
        let location = expr.location;
        match &expr.kind {
            ExprKind::Const(Datum::Null) => Ok(Expr::constant(Datum::Null, to, location)),
            ExprKind::Const(Datum::Text(text)) => {
                let value = match to {
                    to if to.is_object_name() || to.is_enum() => {
                        self.naming_literal(text, to, location)
                    }
                    _ => self.input(text, to),
                };
                let value = value.map_err(|error| error.with_position(self.at(location)))?;
                Ok(Expr::constant(value, to, location))
            }
            ExprKind::Param(number) => {
                let number = *number;
                if let Some(known) = self.params.get(number).copied() {
                    if known == TypeOid::UNKNOWN {
                        self.params[number] = to;
                    } else if known != to {
                        let detail =
                            format!("{} versus {}", self.format_oid(known), self.format_oid(to));
                        return Err(self
                            .error(
                                "42P08",
                                format!("inconsistent types deduced for parameter ${}", number + 1),
                                location,
                            )
                            .with_detail(detail));
                    }
                }
                Ok(Expr::new(ExprKind::Param(number), to, location))
            }
            // NULL from a nested query and similar expressions: there is no literal to read.
            _ => Ok(Expr::new(
                ExprKind::Cast {
                    argument: Box::new(expr),
                    from: TypeOid::TEXT,
                    purpose: CastPurpose::Written,
                },
                to,
                location,
            )),
        }
    }

    /// Parses a literal.
    pub(crate) fn input(&self, text: &str, to: TypeOid) -> Result<Datum> {
        match to {
            to if to.is_object_name() => {
                object_input(text, to, self.context.catalog, self.context.path)
            }
            TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::BPCHAR | TypeOid::UNKNOWN => {
                Ok(Datum::text(text))
            }
            TypeOid::JSONPATH => path_input(text),
            _ => {
                if category(to) == 'P' && to != TypeOid::RECORD {
                    return Err(SqlError::unsupported(format!(
                        "a literal of type {}",
                        self.format_oid(to)
                    )));
                }
                let context = InputContext { settings: self.context.text, now: self.context.now };
                Ok(niwaki_types::input(ColumnType::new(to), text, &context)?)
            }
        }
    }

    /// Fits a value to a length or precision after a conversion. A constant that does not fit stays
    /// unchanged until the whole statement is analyzed. Then the rewriter fails, so errors in the
    /// rest of the statement are reported first.
    pub(crate) fn with_typmod(expr: Expr, typmod: i32, explicit: bool) -> Expr {
        if typmod < 0 || expr.typmod == typmod {
            return expr;
        }
        let (ty, location) = (expr.ty, expr.location);
        let column = ColumnType::with_typmod(ty, typmod);
        if let ExprKind::Const(value) = &expr.kind
            && let Ok(value) = niwaki_expr::expr::coerce_length(value.clone(), column, explicit)
        {
            return Expr { typmod, ..Expr::constant(value, ty, location) };
        }
        let kind = ExprKind::Length { argument: Box::new(expr), explicit };
        Expr { typmod, ..Expr::new(kind, ty, location) }
    }

    /// Parses an interval literal, if the expression is one. The fields of the target type give the
    /// unit of a bare number.
    pub(crate) fn interval_literal(&self, expr: &Expr, to: ColumnType) -> Result<Option<Expr>> {
        let ExprKind::Const(Datum::Text(text)) = &expr.kind else { return Ok(None) };
        if expr.ty != TypeOid::UNKNOWN || to.oid != TypeOid::INTERVAL || to.typmod < 0 {
            return Ok(None);
        }
        let context = InputContext { settings: self.context.text, now: self.context.now };
        let value = niwaki_types::input(to, text, &context)
            .map_err(|error| SqlError::from(error).with_position(self.at(expr.location)))?;
        let literal = Expr::constant(value, to.oid, expr.location);
        Ok(Some(Expr { typmod: to.typmod, ..literal }))
    }

    /// Analyzes an explicit cast.
    pub(crate) fn cast(&mut self, expr: Expr, to: ColumnType, location: i32) -> Result<Expr> {
        if to.domain.is_some() && expr.domain == to.domain {
            return Ok(expr);
        }
        if let Some(literal) = self.interval_literal(&expr, to)? {
            return self.as_domain(literal, to.domain);
        }
        let from = expr.declared();
        let untyped = self.untyped_param(&expr);
        let Some(mut cast) = self.coerce(expr, to.oid, CastContext::Explicit)? else {
            return Err(self.error(
                "42846",
                format!(
                    "cannot cast type {} to {}",
                    self.format_oid(from),
                    self.format_oid(to.declared())
                ),
                location,
            ));
        };
        self.declare_param(untyped, to);
        if cast.location < 0 {
            cast.location = location;
        }
        // A parameter of a domain type is read as a domain value, so nothing is truncated.
        let explicit = untyped.is_none() || to.domain.is_none();
        let cast = Self::with_typmod(cast, to.typmod, explicit);
        self.as_domain(cast, to.domain)
    }

    /// Returns the number of a parameter whose type is still unknown, if the expression is one.
    fn untyped_param(&self, expr: &Expr) -> Option<usize> {
        let ExprKind::Param(number) = expr.kind else { return None };
        (self.params.get(number) == Some(&TypeOid::UNKNOWN)).then_some(number)
    }

    /// Gives a parameter the domain's type if coercion to the domain gave the parameter its base
    /// type.
    fn declare_param(&mut self, untyped: Option<usize>, to: ColumnType) {
        if let (Some(number), Some(domain)) = (untyped, to.domain) {
            self.params[number] = domain;
        }
    }

    /// Converts a value for storage in a column.
    pub(crate) fn assign(
        &mut self,
        expr: Expr,
        column: ColumnType,
        name: &str,
        location: i32,
    ) -> Result<Expr> {
        if column.domain.is_some() && expr.domain == column.domain {
            return Ok(expr);
        }
        if let Some(literal) = self.interval_literal(&expr, column)? {
            return self.as_domain(literal, column.domain);
        }
        let from = expr.declared();
        let untyped = self.untyped_param(&expr);
        let location = if expr.location >= 0 { expr.location } else { location };
        match self.coerce(expr, column.oid, CastContext::Assignment)? {
            Some(expr) => {
                // The length of a literal is checked when the row is stored, as in PostgreSQL for
                // all values but constants. PostgreSQL reports a constant at once and without a
                // position.
                self.declare_param(untyped, column);
                let expr = Self::with_typmod(expr, column.typmod, false);
                self.as_domain(expr, column.domain)
            }
            None => Err(self
                .error(
                    "42804",
                    format!(
                        "column \"{name}\" is of type {} but expression is of type {}",
                        self.format_oid(column.declared()),
                        self.format_oid(from)
                    ),
                    location,
                )
                .with_hint("You will need to rewrite or cast the expression.")),
        }
    }

    /// Converts a condition to boolean.
    pub(crate) fn to_bool(&mut self, expr: Expr, construct: &str) -> Result<Expr> {
        let (from, location) = (expr.ty, expr.location);
        match self.coerce(expr, TypeOid::BOOL, CastContext::Implicit)? {
            Some(expr) => Ok(expr),
            None => Err(self.error(
                "42804",
                format!(
                    "argument of {construct} must be type boolean, not type {}",
                    self.format_oid(from)
                ),
                location,
            )),
        }
    }

    /// Converts an output column: untyped literals become text.
    pub(crate) fn to_output(&mut self, expr: Expr) -> Result<Expr> {
        if expr.ty == TypeOid::UNKNOWN {
            let (collation, derived) = (expr.collation, expr.derived);
            let value = self.coerce_unknown(expr, TypeOid::TEXT)?;
            return Ok(Expr { collation, derived, ..value });
        }
        Ok(expr)
    }

    /// Returns the type to which all these types convert, by PostgreSQL's rules for UNION, CASE and
    /// similar constructs.
    pub(crate) fn common_type(&self, types: &[(TypeOid, i32)], construct: &str) -> Result<TypeOid> {
        let known: Vec<(TypeOid, i32)> =
            types.iter().copied().filter(|(t, _)| *t != TypeOid::UNKNOWN).collect();
        let Some((first, _)) = known.first().copied() else { return Ok(TypeOid::TEXT) };
        if known.len() == types.len() && known.iter().all(|(t, _)| *t == first) {
            return Ok(first);
        }
        let mut chosen = first;
        for (ty, location) in known.iter().copied().skip(1) {
            if ty == chosen {
                continue;
            }
            if category(ty) != category(chosen) {
                return Err(self.error(
                    "42804",
                    format!(
                        "{construct} types {} and {} cannot be matched",
                        self.format_oid(chosen),
                        self.format_oid(ty)
                    ),
                    location,
                ));
            }
            let to_new = converts_implicitly(chosen, ty);
            let to_old = converts_implicitly(ty, chosen);
            if !is_preferred(chosen) && to_new && !to_old {
                chosen = ty;
            }
        }
        Ok(chosen)
    }

    /// Converts to a type found by [`common_type`](Self::common_type).
    pub(crate) fn to_common(&mut self, expr: Expr, to: TypeOid, construct: &str) -> Result<Expr> {
        let (from, location) = (expr.ty, expr.location);
        self.coerce(expr, to, CastContext::Implicit)?.ok_or_else(|| {
            self.error(
                "42846",
                format!(
                    "{construct} could not convert type {} to {}",
                    self.format_oid(from),
                    self.format_oid(to)
                ),
                location,
            )
        })
    }

    /// Converts several expressions to their common type.
    pub(crate) fn unify(&mut self, exprs: Vec<Expr>, construct: &str) -> Result<Vec<Expr>> {
        let types: Vec<(TypeOid, i32)> = exprs.iter().map(|e| (e.ty, e.location)).collect();
        let common = self.common_type(&types, construct)?;
        // Values of one domain keep the domain. Any other mixture has the base type.
        let domain = Self::common_domain(&exprs);
        let unified = exprs.into_iter().map(|e| {
            let expr = self.to_common(e, common, construct)?;
            Ok(Expr { domain, ..expr })
        });
        unified.collect()
    }
}
