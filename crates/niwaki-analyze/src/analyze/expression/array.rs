//! Arrays in expressions: constructors and subscripts.

use niwaki_expr::expr::{Expr, ExprKind, Subscripts};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{CastContext, array_of, element_of};
use niwaki_types::{ARRAY_DIMENSIONS_MAX, ColumnType, Datum, TypeOid};
use pg_query::protobuf;
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;

impl Analyzer<'_> {
    /// Analyzes `ARRAY[…]`. Arrays as elements make one more dimension. `wanted` is the element
    /// type that a cast asks for.
    pub(crate) fn array(
        &mut self,
        array: &protobuf::AArrayExpr,
        wanted: Option<ColumnType>,
    ) -> Result<Expr> {
        let location = array.location;
        let mut nested = false;
        let mut elements = Vec::with_capacity(array.elements.len());
        for node in &array.elements {
            let element = match &node.node {
                Some(NodeEnum::AArrayExpr(inner)) => self.array(inner, wanted)?,
                _ => self.expr(node)?,
            };
            nested |= element_of(element.ty).is_some();
            elements.push(element);
        }
        let no_array = |this: &Self, element: TypeOid| {
            let message =
                format!("could not find array type for data type {}", this.format_oid(element));
            this.error("42704", message, location)
        };
        if let Some(element) = wanted {
            let ty = array_of(element.oid).ok_or_else(|| no_array(self, element.oid))?;
            let to = if nested { ColumnType::with_typmod(ty, element.typmod) } else { element };
            let elements = elements
                .into_iter()
                .map(|element| self.cast(element, to, location))
                .collect::<Result<Vec<Expr>>>()?;
            return Ok(Expr::new(ExprKind::Array(elements), ty, location));
        }
        let elements = self.unify(elements, "ARRAY")?;
        let Some(element) = elements.first().map(|element| element.ty) else {
            return Err(self
                .error("42P18", "cannot determine type of empty array", location)
                .with_hint(
                    "Explicitly cast to the desired type, for example ARRAY[]::integer[].",
                ));
        };
        let ty = if nested { Some(element) } else { array_of(element) };
        let ty = ty.ok_or_else(|| no_array(self, element))?;
        Ok(Expr::new(ExprKind::Array(elements), ty, location))
    }

    /// Analyzes the subscripts or slices of an array: all adjacent brackets at once.
    pub(crate) fn subscripted(&mut self, array: Expr, steps: &[Node]) -> Result<Expr> {
        let location = array.location;
        if let (TypeOid::NAME, [Node { node: Some(NodeEnum::AIndices(only)) }]) = (array.ty, steps)
            && !only.is_slice
        {
            return self.letter_of_name(array, only);
        }
        let (subscripts, ty, _) = self.subscripts(array.ty, steps, location)?;
        let kind = ExprKind::Subscript { array: Box::new(array), subscripts: Box::new(subscripts) };
        Ok(Expr::new(kind, ty, location))
    }

    /// Analyzes `name[n]`: a character, counted from 0. Names are text here, so only the first
    /// character is supported.
    fn letter_of_name(&mut self, value: Expr, indices: &protobuf::AIndices) -> Result<Expr> {
        let location = value.location;
        let index = self.expr_of(indices.uidx.as_deref())?;
        let ExprKind::Const(Datum::Int4(0)) = index.kind else {
            return Err(self.unsupported("a letter of a name other than the first", location));
        };
        self.cast(value, ColumnType::new(TypeOid::CHAR), location)
    }

    /// Returns the subscripts of an array of type `array`, the type of the selected value, and the
    /// location of the first subscript.
    fn subscripts(
        &mut self,
        array: TypeOid,
        steps: &[Node],
        location: i32,
    ) -> Result<(Subscripts, TypeOid, i32)> {
        let element = element_of(array).ok_or_else(|| {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                self.format_oid(array)
            );
            self.error("42804", message, location)
        })?;
        let mut given = Vec::with_capacity(steps.len());
        for step in steps {
            match &step.node {
                Some(NodeEnum::AIndices(indices)) => given.push(indices),
                _ => return Err(self.unsupported("a field of an array's element", location)),
            }
        }
        if given.len() > ARRAY_DIMENSIONS_MAX {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({ARRAY_DIMENSIONS_MAX})",
                given.len()
            );
            return Err(self.error("54000", message, -1));
        }
        let slice = given.iter().any(|indices| indices.is_slice);
        let mut bounds = Vec::with_capacity(given.len());
        let mut first = None;
        for indices in given {
            let mut bound = |node: Option<&Node>| {
                let bound = node.map(|node| self.subscript_number(node)).transpose()?;
                first = first.or(bound.as_ref().map(|bound| bound.location));
                Ok::<_, SqlError>(bound)
            };
            let lower = bound(indices.lidx.as_deref())?;
            let upper = bound(indices.uidx.as_deref())?;
            // A plain number next to slices means a slice from 1.
            let one = || Expr::constant(Datum::Int4(1), TypeOid::INT4, -1);
            let lower = if slice && !indices.is_slice { Some(one()) } else { lower };
            bounds.push([lower, upper]);
        }
        let ty = match slice {
            // A slice of a vector starts at 1, like an array.
            true if array.is_vector() => array_of(element).unwrap_or(array),
            true => array,
            false => element,
        };
        Ok((Subscripts { slice, bounds }, ty, first.unwrap_or(location)))
    }

    fn subscript_number(&mut self, node: &Node) -> Result<Expr> {
        let index = self.expr(node)?;
        let location = index.location;
        self.coerce(index, TypeOid::INT4, CastContext::Assignment)?
            .ok_or_else(|| self.error("42804", "array subscript must have type integer", location))
    }

    /// Returns the new value of a column when a part is assigned: `old` with `value` at the place
    /// that `steps` name.
    pub(crate) fn assigned_part(
        &mut self,
        old: Expr,
        steps: &[Node],
        value: Expr,
        column: (ColumnType, &str),
        location: i32,
    ) -> Result<Expr> {
        let (column_type, name) = column;
        if matches!(steps.first(), Some(Node { node: Some(NodeEnum::String(_)) })) {
            return self.assigned_field(old, steps, value, column, location);
        }
        // Between two assignments to parts, the column's value need not satisfy the domain.
        let old = match old.kind {
            ExprKind::Domain { argument, .. }
                if matches!(argument.kind, ExprKind::AssignPart { .. }) =>
            {
                *argument
            }
            _ => old,
        };
        let fields = |step: &Node| !matches!(step.node, Some(NodeEnum::AIndices(_)));
        if steps.iter().any(fields) {
            return Err(self.unsupported("assignment to a field of a column", location));
        }
        if column_type.oid == TypeOid::JSONB {
            return Err(self.unsupported("assignment to a part of a jsonb column", location));
        }
        let (subscripts, ty, _) = self.subscripts(column_type.oid, steps, location)?;
        let (from, place) = (value.ty, value.location);
        let value = self.coerce(value, ty, CastContext::Assignment)?.ok_or_else(|| {
            let message = format!(
                "subscripted assignment to \"{name}\" requires type {} but expression is of type {}",
                self.format_oid(ty),
                self.format_oid(from)
            );
            self.error("42804", message, place)
                .with_hint("You will need to rewrite or cast the expression.")
        })?;
        let value = Self::with_typmod(value, column_type.typmod, false);
        let kind = ExprKind::AssignPart {
            array: Box::new(old),
            subscripts: Box::new(subscripts),
            value: Box::new(value),
        };
        let whole = Expr::new(kind, column_type.oid, location);
        self.as_domain(Expr { typmod: column_type.typmod, ..whole }, column_type.domain)
    }
}
