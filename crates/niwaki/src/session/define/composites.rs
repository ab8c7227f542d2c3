//! CREATE TYPE … AS (…): composite types.
//!
//! What a value of one is made of stands in the value, so that stored rows and keys are read without the type. Values keep the
//! fields that they were made with; that is why attributes are not added, taken away or changed.

use niwaki_catalog::{StoredAttribute, TypeDefinition, TypeKind};
use niwaki_sql::SqlError;
use niwaki_sql::utility::{AttributeSpec, Name, Persistence};
use niwaki_types::{RECORD_DEPTH_MAX, TypeOid};

use super::{Definer, no_transaction};
use crate::Result;

/// Most attributes of a type, as columns of a table.
const ATTRIBUTES_MAX: usize = 1600;

impl Definer<'_> {
    pub(super) fn create_composite(
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
            // Values that stand in one another are read by a function that calls itself.
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
        let transaction = self.session.transaction.as_ref().ok_or_else(no_transaction)?;
        Ok(self.session.catalog.create_type(transaction, definition)?)
    }
}
