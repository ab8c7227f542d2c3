//! Functions that convert JSON objects to rows.
//!
//! Examples are `jsonb_to_recordset(…) AS t (a int, b text)` and `jsonb_populate_record(row, …)`.
//! The functions that populate a row determine its type, so they may also appear outside of FROM.

use std::sync::Arc;

use niwaki_expr::context::{ColumnInfo, RecordFields};
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::function::Function;
use niwaki_expr::query::{ItemKind, JoinTree, JsonRecords, SetFunction};
use niwaki_functions::functions::{functions_named, of_json_objects, takes_json};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::CastContext;
use niwaki_types::{ColumnType, TypeOid};
use pg_query::{NodeEnum, protobuf};

use crate::analyze::Analyzer;
use crate::analyze::expression::call::choose;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::Place;

/// Returns the function that a call names, if it converts JSON objects to rows.
pub(crate) fn function_of_objects(call: &protobuf::FuncCall) -> Option<&'static Function> {
    match names_of(&call.funcname)[..] {
        [name] | ["pg_catalog", name] => of_json_objects(name),
        _ => None,
    }
}

impl Analyzer<'_> {
    pub(crate) fn json_records(
        &mut self,
        range: &protobuf::RangeFunction,
        call: &protobuf::FuncCall,
        function: &'static Function,
    ) -> Result<JoinTree> {
        let (name, location) = (function.name, call.location);
        let place = self.scope()?.place;
        self.set_place(Place::From)?;
        let arguments = self.arguments_for_objects(call, function);
        self.set_place(place)?;
        let arguments = arguments?;
        let listed = function.arguments.len() == 1;
        let fields = match arguments.as_slice() {
            [row, _] if range.coldeflist.is_empty() => self.fields_to_populate(row, name)?,
            [row, _] => {
                self.fields_to_populate(row, name)?;
                let message = "a column definition list is redundant for a function returning a named composite type";
                return Err(self.error("42601", message, row.location));
            }
            _ => self.listed_fields(range, location)?,
        };
        if listed && range.ordinality {
            let message = "WITH ORDINALITY cannot be used with a column definition list";
            return Err(self
                .error("42601", message, location)
                .with_hint("Put the column definition list inside ROWS FROM()."));
        }
        let records = self.records_of(function, fields, &arguments)?;
        let alias = range.alias.as_ref();
        let item = alias.map_or(name, |alias| alias.aliasname.as_str()).to_owned();
        self.check_alias(&item)?;
        let column = |(name, kind): &(Arc<str>, ColumnType)| ColumnInfo::computed(&**name, *kind);
        let mut columns: Vec<ColumnInfo> = records.fields.iter().map(column).collect();
        if range.ordinality {
            columns.push(ColumnInfo::computed("ordinality", ColumnType::new(TypeOid::INT8)));
        }
        let columns = self.renamed(columns, alias, &item)?;
        let kind = ItemKind::Function {
            function: SetFunction::Records(Arc::new(records)),
            arguments,
            ordinality: range.ordinality,
        };
        let scope = self.scope()?;
        let start = scope.add_columns(&item, &columns);
        Ok(scope.add_source(kind, item, start, alias, None))
    }

    /// Analyzes a call outside of FROM.
    pub(crate) fn value_of_objects(
        &mut self,
        call: &protobuf::FuncCall,
        function: &'static Function,
    ) -> Result<Expr> {
        let arguments = self.arguments_for_objects(call, function)?;
        self.refuse_over(call, function.name)?;
        let [row, _] = arguments.as_slice() else {
            let message = format!("could not determine row type for result of {}", function.name);
            let hint = "Provide a non-null record argument, or call the function in the FROM clause using a column definition list.";
            return Err(SqlError::new("0A000", message).with_hint(hint));
        };
        // As in PostgreSQL, evaluating the call raises the error for an argument that is no row.
        let fields = if row.ty.is_record() {
            self.fields_to_populate(row, function.name)?
        } else {
            RecordFields::from([])
        };
        let records = Arc::new(self.records_of(function, fields, &arguments)?);
        let (kind, location) = (row.ty, call.location);
        if function.returns_set() {
            let set = SetFunction::Records(records);
            return self.set_call(set, arguments, ColumnType::new(kind), location);
        }
        Ok(Expr::new(ExprKind::Populated { records, arguments }, kind, location))
    }

    fn arguments_for_objects(
        &mut self,
        call: &protobuf::FuncCall,
        function: &'static Function,
    ) -> Result<Vec<Expr>> {
        let (name, location) = (function.name, call.location);
        self.refuse_aggregate_syntax(call, name)?;
        let arguments = self.exprs(&call.args)?;
        let types: Vec<TypeOid> = arguments.iter().map(|argument| argument.ty).collect();
        let resolved = choose(functions_named(name), &types)
            .map_err(|reason| self.function_error(name, &types, location, &reason))?;
        if matches!(types.as_slice(), [TypeOid::UNKNOWN, _]) {
            return Err(self.polymorphic_unknown(location));
        }
        let wanted = arguments.into_iter().zip(&resolved.arguments);
        wanted.map(|(argument, ty)| self.to_common(argument, *ty, name)).collect()
    }

    /// Builds rows with these fields from the last argument.
    fn records_of(
        &mut self,
        function: &'static Function,
        fields: RecordFields,
        arguments: &[Expr],
    ) -> Result<JsonRecords> {
        let json = arguments.last().map_or(TypeOid::JSONB, |argument| argument.ty);
        let values = fields.iter().map(|(_, column)| self.value_of_key(*column, json));
        let values = values.collect::<Result<Vec<_>>>()?;
        Ok(JsonRecords { function, fields, values, listed: function.arguments.len() == 1 })
    }

    /// Returns the columns of the column definition list.
    fn listed_fields(
        &self,
        range: &protobuf::RangeFunction,
        location: i32,
    ) -> Result<RecordFields> {
        if range.coldeflist.is_empty() {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(self.error("42601", message, location));
        }
        let mut fields: Vec<(Arc<str>, ColumnType)> = Vec::new();
        for node in &range.coldeflist {
            let Some(NodeEnum::ColumnDef(column)) = &node.node else { continue };
            let Some(type_name) = &column.type_name else {
                return Err(SqlError::internal("a column without a type"));
            };
            let name = column.colname.as_str();
            if fields.iter().any(|(known, _)| &**known == name) {
                let message = format!("column name \"{name}\" specified more than once");
                return Err(self.error("42701", message, column.location));
            }
            if type_name.setof {
                let message = format!("column \"{name}\" cannot be declared SETOF");
                return Err(self.error("42P16", message, column.location));
            }
            fields.push((Arc::from(name), self.type_name(type_name)?));
        }
        Ok(fields.into())
    }

    /// Returns the columns of the row to populate.
    fn fields_to_populate(&self, row: &Expr, name: &str) -> Result<RecordFields> {
        if row.ty == TypeOid::RECORD {
            return Err(self.unsupported("a row without a type that is populated", row.location));
        }
        let Some(fields) = self.fields_of(row.ty, row.location)? else {
            let message = format!("first argument of {name} must be a row type");
            return Err(self.error("42804", message, row.location));
        };
        Ok(fields.into_iter().map(|(name, column)| (Arc::from(name), column)).collect())
    }

    /// Returns the expression that converts an object's field, in slot 0, to a column. The field is
    /// text, or JSON of the type `json`.
    fn value_of_key(&mut self, column: ColumnType, json: TypeOid) -> Result<Expr> {
        let given = if takes_json(column) { json } else { TypeOid::TEXT };
        let field = Expr::slot(0, ColumnType::new(given));
        let Some(value) = self.coerce(field, column.oid, CastContext::Explicit)? else {
            let shown = self.format_oid(column.oid);
            return Err(self.unsupported(format!("a field of an object as {shown}"), -1));
        };
        let value = Self::with_typmod(value, column.typmod, false);
        self.as_domain(value, column.domain)
    }
}
