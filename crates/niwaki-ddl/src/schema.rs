//! ALTER SCHEMA … RENAME TO, and ALTER … SET SCHEMA.

use std::sync::Arc;

use niwaki_catalog::{Oid, PG_CATALOG, PUBLIC_SCHEMA, Relation, RelationKind, SchemaEntry};
use niwaki_sql::utility::{Name, alter_tag};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;

use crate::definer::{Definer, is_not, refuse_system, wrong_kind};

impl Definer<'_> {
    /// Runs ALTER SCHEMA … RENAME TO.
    pub(crate) fn rename_schema(&mut self, name: &str, to: &str) -> Result<()> {
        let state = self.state();
        let schema = state.schema_by_name(name).ok_or_else(|| SqlError::undefined_schema(name))?;
        if state.schema_by_name(to).is_some() {
            return Err(SqlError::new("42P06", format!("schema \"{to}\" already exists")));
        }
        let is_system = schema.oid < Oid::FIRST_USER && schema.oid != PUBLIC_SCHEMA;
        if is_system || state.temporary_schema() == Some(schema.oid) {
            return Err(SqlError::new("42501", format!("permission denied for schema {name}")));
        }
        if to.starts_with("pg_") {
            return Err(SqlError::new("42939", format!("unacceptable schema name \"{to}\""))
                .with_detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        let renamed = SchemaEntry { name: to.to_owned(), ..schema.clone() };
        let oid = schema.oid;
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        catalog.update_schema(transaction, renamed)?;
        let state = self.state();
        let inside = |relation: &&Arc<Relation>| {
            relation.schema == oid && relation.kind == RelationKind::Sequence
        };
        let sequences: Vec<Arc<Relation>> =
            state.in_order().into_iter().filter(inside).cloned().collect();
        for sequence in sequences {
            self.number_in_default(&sequence)?;
        }
        Ok(())
    }

    /// Locks the schema into which an object is moved, and returns it.
    pub(crate) fn target_schema(&mut self, schema: &str) -> Result<Oid> {
        let find = |definer: &mut Self| definer.schema_to_move_to(schema);
        self.lock_found(TableLockMode::AccessShare, find, |schema: &Oid| vec![*schema])
    }

    fn schema_to_move_to(&mut self, schema: &str) -> Result<Oid> {
        let state = self.state();
        let target =
            state.schema_by_name(schema).ok_or_else(|| SqlError::undefined_schema(schema))?.oid;
        if state.temporary_schema() == Some(target) {
            return Err(temporary());
        }
        if target == PG_CATALOG || target == niwaki_catalog::INFORMATION_SCHEMA {
            return Err(SqlError::new("42501", format!("permission denied for schema {schema}")));
        }
        Ok(target)
    }

    /// Runs ALTER … SET SCHEMA.
    pub(crate) fn set_schema(
        &mut self,
        name: &Name,
        kind: RelationKind,
        schema: &str,
        if_exists: bool,
    ) -> Result<&'static str> {
        let tag = alter_tag(kind);
        let mode = TableLockMode::AccessExclusive;
        let found = self.lock_relation(name, "relation", mode, if_exists)?;
        let Some(relation) = found else { return Ok(tag) };
        refuse_system(&relation)?;
        if relation.kind == RelationKind::Index
            || (kind != RelationKind::Table && relation.kind != kind)
        {
            return Err(match kind {
                RelationKind::View | RelationKind::MaterializedView => is_not(&relation, kind),
                kind => wrong_kind(&relation, kind),
            });
        }
        let state = self.state();
        if let Some((table, position)) = relation.sequence.as_ref().and_then(|s| s.owned_by)
            && let Some(owner) = state.relation(table)
            && owner.columns.get(usize::from(position)).is_some()
        {
            let message = "cannot move an owned sequence into another schema";
            let detail =
                format!("Sequence \"{}\" is linked to table \"{}\".", relation.name, owner.name);
            return Err(SqlError::new("0A000", message).with_detail(detail));
        }
        let target = self.target_schema(schema)?;
        if state.temporary_schema() == Some(relation.schema) {
            return Err(temporary());
        }
        if target == relation.schema {
            return Ok(tag);
        }
        if relation.kind.has_rows() {
            self.refuse_pending(&relation, tag)?;
        }
        let mut moved: Vec<Arc<Relation>> = vec![Arc::clone(&relation)];
        let belongs = |other: &&Arc<Relation>| {
            other.index.as_ref().is_some_and(|index| index.table == relation.oid)
                || other
                    .sequence
                    .as_ref()
                    .and_then(|s| s.owned_by)
                    .is_some_and(|(table, _)| table == relation.oid)
        };
        moved.extend(state.in_order().into_iter().filter(belongs).cloned());
        for each in &moved {
            if state.lookup(target, &each.name).is_some() {
                let message =
                    format!("relation \"{}\" already exists in schema \"{schema}\"", each.name);
                return Err(SqlError::new("42P07", message));
            }
        }
        for each in &moved {
            let mut definition = self.definition_to_change(each.oid)?;
            definition.schema = target;
            self.update(definition)?;
        }
        for each in moved.iter().filter(|each| each.kind == RelationKind::Sequence) {
            let now = self.current(each.oid)?;
            self.number_in_default(&now)?;
        }
        Ok(tag)
    }
}

fn temporary() -> SqlError {
    SqlError::new("0A000", "cannot move objects into or out of temporary schemas")
}
