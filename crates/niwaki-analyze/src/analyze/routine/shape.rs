//! Result shapes of functions: derives them, and converts the results of bodies.

use std::sync::Arc;

use niwaki_catalog::FunctionDefinition;
use niwaki_expr::context::{ColumnInfo, CommandTag};
use niwaki_expr::expr::Expr;
use niwaki_expr::query::{Body, Query, ResultShape};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{CastContext, is_polymorphic};
use niwaki_types::{ColumnType, TypeOid};

use crate::analyze::Analyzer;
use crate::analyze::expression::call::Concrete;

/// The result of a body for each row of its last statement.
pub(super) struct BodyResult {
    pub(super) values: Vec<Expr>,
    /// True if the single value is itself the composite value to return.
    pub(super) whole: bool,
}

impl Analyzer<'_> {
    /// Returns the result shape of a function for these actual types; `None` if the arguments do
    /// not determine a polymorphic type.
    pub(super) fn shape_of(
        &self,
        definition: &FunctionDefinition,
        concrete: Concrete,
    ) -> Result<Option<ResultShape>> {
        let returns = TypeOid(definition.returns);
        if returns == TypeOid::VOID {
            return Ok(Some(ResultShape::Void));
        }
        let row = |kind: TypeOid, fields: Vec<(String, ColumnType)>| ResultShape::Row {
            kind,
            fields: fields.iter().map(|(_, kind)| *kind).collect(),
            names: fields.iter().map(|(name, _)| Arc::from(name.as_str())).collect(),
        };
        if returns == TypeOid::RECORD {
            let mut fields = Vec::new();
            for (number, output) in definition.outputs().enumerate() {
                let Some(kind) = concrete.of_type(TypeOid(output.kind), None) else {
                    return Ok(None);
                };
                let name = match output.name.as_str() {
                    "" => format!("column{}", number + 1),
                    name => name.to_owned(),
                };
                fields.push((name, self.context.text.types.column_type(kind)));
            }
            if fields.is_empty() {
                return Err(SqlError::unsupported("a function that returns record"));
            }
            return Ok(Some(row(returns, fields)));
        }
        let Some(returns) = concrete.of_type(returns, None) else { return Ok(None) };
        if returns.is_composite() {
            let fields = self.fields_of(returns, -1)?.unwrap_or_default();
            return Ok(Some(row(returns, fields)));
        }
        Ok(Some(ResultShape::Value(self.context.text.types.column_type(returns))))
    }

    /// Returns the declared type of a shape.
    pub(super) fn type_of_shape(shape: &ResultShape) -> ColumnType {
        match shape {
            ResultShape::Void => ColumnType::new(TypeOid::VOID),
            ResultShape::Value(kind) => *kind,
            ResultShape::Row { kind, .. } => ColumnType::new(*kind),
        }
    }

    /// Returns the result over the rows of a body's last statement. `last` has the statement's
    /// columns and tag.
    pub(super) fn result_of_body(
        &mut self,
        shape: &ResultShape,
        last: Option<(&[ColumnInfo], CommandTag)>,
    ) -> Result<BodyResult> {
        let parts = |values| Ok(BodyResult { values, whole: false });
        let declared = match shape {
            ResultShape::Void => return parts(Vec::new()),
            _ => self.format_oid(Self::type_of_shape(shape).declared()),
        };
        let mismatch = |detail: String| {
            let message = format!("return type mismatch in function declared to return {declared}");
            SqlError::new("42P13", message).with_detail(detail)
        };
        let given = last.filter(|(columns, tag)| *tag == CommandTag::Select || !columns.is_empty());
        let Some((columns, _)) = given else {
            let detail =
                "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.";
            return Err(mismatch(detail.to_owned()));
        };
        let value = |number: usize| Expr::slot(number, columns[number].column_type);
        match shape {
            ResultShape::Void => parts(Vec::new()),
            ResultShape::Value(kind) if is_polymorphic(kind.oid) => {
                let message = format!("return type {declared} is not supported for SQL functions");
                Err(SqlError::new("42P13", message))
            }
            ResultShape::Value(kind) => {
                if columns.len() != 1 {
                    return Err(mismatch(
                        "Final statement must return exactly one column.".to_owned(),
                    ));
                }
                let given = self.format_oid(columns[0].column_type.declared());
                let result = self.as_result(value(0), *kind)?;
                let result =
                    result.ok_or_else(|| mismatch(format!("Actual return type is {given}.")))?;
                parts(vec![result])
            }
            ResultShape::Row { kind, fields, .. } => {
                if let [only] = columns
                    && only.column_type.oid.is_record()
                    && (only.column_type.oid == *kind || *kind == TypeOid::RECORD)
                {
                    return Ok(BodyResult { values: vec![value(0)], whole: true });
                }
                if let [ColumnInfo { column_type: ColumnType { oid: TypeOid::RECORD, .. }, .. }] =
                    columns
                {
                    let row = self.row_as(value(0), *kind, CastContext::Assignment)?;
                    return Ok(BodyResult { values: vec![row], whole: true });
                }
                let mut results = Vec::with_capacity(fields.len());
                for (number, field) in fields.iter().enumerate() {
                    if number >= columns.len() {
                        return Err(mismatch(
                            "Final statement returns too few columns.".to_owned(),
                        ));
                    }
                    let given = self.format_oid(columns[number].column_type.declared());
                    let wanted = self.format_oid(field.declared());
                    let detail = format!(
                        "Final statement returns {given} instead of {wanted} at column {}.",
                        number + 1
                    );
                    let result = self.as_result(value(number), *field)?;
                    results.push(result.ok_or_else(|| mismatch(detail))?);
                }
                if columns.len() > fields.len() {
                    return Err(mismatch("Final statement returns too many columns.".to_owned()));
                }
                parts(results)
            }
        }
    }

    /// Converts the single row that a body selects to the composite type that the function returns.
    pub(super) fn row_of_body(&mut self, query: &mut Query, shape: &ResultShape) -> Result<()> {
        let ResultShape::Row { kind, .. } = shape else { return Ok(()) };
        let (Body::Select(select), [column]) = (&mut query.body, query.columns.as_mut_slice())
        else {
            return Ok(());
        };
        let [target] = select.targets.as_mut_slice() else { return Ok(()) };
        if *kind == TypeOid::RECORD || target.ty != TypeOid::RECORD {
            return Ok(());
        }
        *target = self.row_as(target.clone(), *kind, CastContext::Assignment)?;
        column.column_type = target.column_type();
        column.fields = None;
        Ok(())
    }

    /// Converts a value to a result type with an assignment cast; returns `None` if there is no
    /// such cast.
    fn as_result(&mut self, value: Expr, wanted: ColumnType) -> Result<Option<Expr>> {
        if wanted.domain.is_some() && value.domain == wanted.domain {
            return Ok(Some(value));
        }
        let Some(value) = self.coerce(value, wanted.oid, CastContext::Assignment)? else {
            return Ok(None);
        };
        let value = Self::with_typmod(value, wanted.typmod, false);
        self.as_domain(value, wanted.domain).map(Some)
    }
}
