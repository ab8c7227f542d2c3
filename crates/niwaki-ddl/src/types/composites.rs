//! CREATE TYPE … AS (…), for composite types.
//!
//! A composite value contains the types of its fields, so that stored rows and keys are read
//! without the type. Values keep the fields that they were made with. Therefore attributes cannot
//! be added, removed or changed.

use niwaki_catalog::{StoredAttribute, TypeDefinition, TypeKind};
use niwaki_sql::utility::{AttributeSpec, Name, Persistence};
use niwaki_sql::{Result, SqlError};
use niwaki_types::{RECORD_DEPTH_MAX, TypeOid};

use crate::definer::Definer;

/// Greatest number of attributes of a type, the same as for columns of a table.
const ATTRIBUTES_MAX: usize = 1600;

impl Definer<'_> {
    pub(crate) fn create_composite(
        &mut self,
        name: &Name,
        attributes: &[AttributeSpec],
    ) -> Result<()> {
        let schema = self.creation_schema(name, Persistence::Permanent)?;
        self.type_name_is_free(schema, &name.name)?;
        if attributes.len() > ATTRIBUTES_MAX {
            let message = format!("tables can have at most {ATTRIBUTES_MAX} columns");
            return Err(SqlError::new("54011", message));
        }
        let mut stored = Vec::with_capacity(attributes.len());
        for attribute in attributes {
            let column = match &attribute.user_type {
                Some(wanted) => self.column_type_of(wanted)?,
                None => attribute.column_type,
            };
            if column.domain.is_some() {
                return Err(SqlError::unsupported("an attribute of a domain"));
            }
            // Nested values are read by a recursive function.
            if self.state().depth_of(column.oid) >= RECORD_DEPTH_MAX {
                let what = "composite types that stand in one another so deeply";
                return Err(SqlError::unsupported(what));
            }
            stored.push(StoredAttribute {
                name: attribute.name.clone(),
                type_oid: column.oid.0,
                typmod: column.typmod,
                collation: self.collation(attribute.collation, column)?,
            });
        }
        let oid = self.session.new_oid();
        if TypeOid::of_composite(oid.0).user_number() != Some(oid.0) {
            return Err(SqlError::new("54000", "no number is left for another type"));
        }
        let definition = TypeDefinition {
            oid,
            schema,
            name: name.name.clone(),
            kind: TypeKind::Composite(stored),
            comment: None,
        };
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        Ok(catalog.create_type(transaction, definition)?)
    }
}
