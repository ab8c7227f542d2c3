//! Type names: resolves them, and formats types for messages.

use niwaki_catalog::Oid;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::stored_references::REFERENCES_SCHEMA;
use niwaki_parse::types::{
    array_of, encode_typmod, format_oid, format_type, is_absent_type, type_by_name,
};
use niwaki_types::{ColumnType, TypeOid};
use pg_query::NodeEnum;
use pg_query::protobuf::{self, a_const};

use crate::analyze::Analyzer;

use crate::analyze::names::parts::names_of;

impl Analyzer<'_> {
    /// Returns the name of a type without modifier, as shown in messages.
    pub(crate) fn format_oid(&self, oid: TypeOid) -> String {
        let shown = self.context.text.types.shown(oid).or_else(|| self.row_type(oid));
        shown.unwrap_or_else(|| format_oid(oid))
    }

    /// Returns the name of a relation's row type.
    fn row_type(&self, oid: TypeOid) -> Option<String> {
        let number = oid.user_number().filter(|_| oid.is_composite())?;
        let relation = self.context.catalog.relation(Oid(number))?;
        Some(self.context.catalog.shown_relation(self.context.path, relation))
    }

    /// Returns the name of a type with its modifier, as shown in messages.
    pub(crate) fn format_column_type(&self, column: ColumnType) -> String {
        let shown = self.context.text.types.shown(column.declared());
        shown.unwrap_or_else(|| format_type(column))
    }

    /// Resolves a type name.
    pub(crate) fn type_name(&self, name: &protobuf::TypeName) -> Result<ColumnType> {
        let names = names_of(&name.names);
        let location = name.location;
        let (schema, base) = match names.as_slice() {
            [base] => (None, *base),
            [schema, base] => (Some(*schema), *base),
            _ => return Err(self.error("42601", "improper qualified type name", location)),
        };
        let undefined = || {
            let catalog = self.context.catalog;
            if let Some(schema) = schema.filter(|of| catalog.schema_by_name(of).is_none()) {
                return SqlError::undefined_schema(schema).with_position(self.at(location));
            }
            let shown = schema.map_or_else(|| base.to_owned(), |s| format!("{s}.{base}"));
            self.error("42704", format!("type \"{shown}\" does not exist"), location)
        };
        let own = self.user_type(location, schema, base);
        // Built-in types take precedence, unless the search path says otherwise.
        let builtin = match schema {
            None | Some("pg_catalog") => type_by_name(base),
            Some(_) => None,
        };
        let mut found = builtin.map(ColumnType::new).or(own);
        if let Some(found) = found {
            self.note_type(location, found.declared())?;
        } else if schema != Some("pg_catalog") && !is_absent_type(base) {
            found = self.row_type_named(schema, base, location)?;
        }
        if found.is_none() && schema == Some(REFERENCES_SCHEMA) && self.reads_numbers() {
            return Err(SqlError::unsupported("a type where its definition is not at hand"));
        }
        if found.is_none() && schema.is_some_and(|s| s != "pg_catalog") {
            return Err(undefined());
        }
        let mut found = found.ok_or_else(|| {
            if is_absent_type(base) {
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
        if !arguments.is_empty() && found.declared().user_number().is_some() {
            let message = format!("type modifier is not allowed for type \"{base}\"");
            return Err(self.error("42601", message, location));
        }
        if found.domain.is_some() {
            if !name.array_bounds.is_empty() {
                return Err(self.unsupported("an array of a domain", location));
            }
            return Ok(found);
        }
        found.typmod = if arguments.is_empty() {
            name.typemod
        } else {
            encode_typmod(found.oid, &arguments).map_err(|message| {
                let none = message.starts_with("type modifier is not allowed");
                self.error(if none { "42601" } else { "22023" }, message, location)
            })?
        };
        if !name.array_bounds.is_empty() {
            found.oid = array_of(found.oid).ok_or_else(undefined)?;
        }
        Ok(found)
    }
}
