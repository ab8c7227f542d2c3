//! Check for rows that refer to a missing row.

use niwaki_catalog::{CatalogState, Oid, Relation, collation_name};
use niwaki_sql::types::are_one_family;
use niwaki_sql::{Result, SqlError};
use niwaki_types::{ColumnType, Datum, quote_identifier};

use crate::session::handle::Session;
use crate::session::type_names::type_in_sql;

impl Session {
    /// Returns the message about the first such row, if one exists.
    ///
    /// # Errors
    /// Read errors.
    pub fn orphan(&mut self, state: &CatalogState, constraint: Oid) -> Result<Option<String>> {
        self.ensure_transaction()?;
        let found = self.orphan_key(state, constraint)?;
        let said = found.map(|key| self.refused_reference(state, constraint, &key));
        self.end_implicit()?;
        Ok(said.map(|error| error.detail.clone().unwrap_or_else(|| error.message.clone())))
    }

    /// Finds a row of the referencing table that names a missing row, or has NULLs that MATCH FULL
    /// forbids. Returns its key.
    ///
    /// # Errors
    /// Read errors.
    pub fn orphan_key(
        &mut self,
        state: &CatalogState,
        constraint: Oid,
    ) -> Result<Option<Vec<Datum>>> {
        let Some((table, key)) = state.foreign_key(constraint) else { return Ok(None) };
        let Some(referenced) = state.relation(key.references) else { return Ok(None) };
        let column = |relation: &Relation, at: u16| -> Result<(String, ColumnType, Option<Oid>)> {
            let column = relation.columns.get(usize::from(at));
            let column = column.ok_or_else(|| SqlError::internal("a foreign key's column"))?;
            let collation = state.column_collation(column);
            Ok((quote_identifier(&column.name), column.column_type(), collation))
        };
        let (mut wanted, mut equal, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for (own, other) in key.columns.iter().zip(&key.referenced) {
            let (own, own_type, own_collation) = column(table, *own)?;
            let (other, other_type, collation) = column(referenced, *other)?;
            let mut value = if are_one_family(own_type.oid, other_type.oid) {
                format!("c.{own}")
            } else {
                let plain = ColumnType::new(other_type.oid);
                format!("CAST(c.{own} AS {})", type_in_sql(state, plain))
            };
            // Keys are compared with the collation of the referenced table.
            if let Some(name) =
                collation.filter(|_| collation != own_collation).and_then(collation_name)
            {
                value = format!("{value} COLLATE {}", quote_identifier(name));
            }
            equal.push(format!("p.{other} = {value}"));
            given.push(format!("c.{own} IS NOT NULL"));
            wanted.push(format!("c.{own}"));
        }
        let (first, ..) = column(referenced, key.referenced.first().copied().unwrap_or(0))?;
        let any = if key.match_full { " OR " } else { " AND " };
        let (own, other) = (self.qualified_name(table), self.qualified_name(referenced));
        let sql = format!(
            "SELECT {} FROM {own} c LEFT JOIN {other} p ON {} WHERE p.{first} IS NULL AND ({}) LIMIT 1",
            wanted.join(", "),
            equal.join(" AND "),
            given.join(any)
        );
        Ok(self.internal_query(&sql)?.into_iter().next())
    }
}
