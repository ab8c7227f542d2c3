//! Relations that only one session has: temporary tables, their indexes and sequences.
//!
//! Temporary relations are not rows of the catalog's table. A session keeps the definitions that
//! its transactions committed, and puts them over the committed state. So even a million of them
//! leave the catalog unchanged, whatever snapshots are open, and no other session ever reads them.
//! A crash forgets them, and leaves files that no relation names. The next opening removes these
//! files.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::hash::HashSet;
use niwaki_storage::RelFileId;
use niwaki_table::Engine;

use crate::change::apply::Change;
use crate::definition::schema::SchemaEntry;
use crate::opening::build;
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;
use crate::state::relation::Relation;

/// A session's relations beyond the committed state.
#[derive(Debug, Default)]
pub(crate) struct Temporary {
    /// The schema of the relations; set from the first temporary relation on.
    schema: Option<SchemaEntry>,
    /// Relations of the session's committed transactions.
    relations: BTreeMap<Oid, Arc<Relation>>,
    /// Version that grows with every change.
    pub(crate) version: u64,
}

impl Temporary {
    /// Decides whether the committed state needs no overlay.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.schema.is_none()
    }

    /// Returns the schema. Calls `new` for the first one.
    pub(crate) fn schema(&mut self, new: impl FnOnce() -> SchemaEntry) -> Oid {
        let version = &mut self.version;
        let schema = self.schema.get_or_insert_with(|| {
            *version += 1;
            new()
        });
        schema.oid
    }

    /// Decides whether this is the schema of the session's own relations.
    pub(crate) fn is_schema(&self, oid: Oid) -> bool {
        self.schema.as_ref().is_some_and(|schema| schema.oid == oid)
    }

    /// Iterates over the relations in the order of their creation.
    pub(crate) fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values()
    }

    pub(crate) fn lay_over(&self, state: &mut CatalogState) {
        if let Some(schema) = &self.schema {
            state.put_temporary_schema(schema.clone());
        }
        for relation in self.relations.values() {
            state.put(Arc::clone(relation));
        }
    }

    /// Separates the changes of the session's own relations from the others, each in their
    /// order.
    pub(crate) fn split(&self, changes: Vec<Change>) -> (Vec<Change>, Vec<Change>) {
        let mut own: HashSet<Oid> = self.relations.keys().copied().collect();
        own.extend(changes.iter().filter_map(|change| match change {
            Change::Put(definition) if self.is_schema(definition.schema) => Some(definition.oid),
            _ => None,
        }));
        changes.into_iter().partition(|change| match change {
            Change::Put(definition) => own.contains(&definition.oid),
            Change::Remove(oid) => own.contains(oid),
            Change::PutView(_)
            | Change::PutSchema(_)
            | Change::RemoveSchema(_)
            | Change::PutType(_)
            | Change::RemoveType(_)
            | Change::PutFunction(_)
            | Change::RemoveFunction(_)
            | Change::PutDatabase(_)
            | Change::RemoveDatabase(_) => false,
        })
    }

    /// Takes over the changes of a transaction that has committed. `state` is the state that its
    /// statements saw last.
    pub(crate) fn committed(&mut self, engine: &Engine, changes: &[Change], state: &CatalogState) {
        for change in changes {
            // Adding or dropping an index creates a new relation of its table.
            let (oid, table) = match change {
                Change::Put(definition) => {
                    if definition.index.is_some() {
                        let options = build::index_options(&definition.options);
                        engine.set_index_options(RelFileId(definition.file), options);
                    }
                    (definition.oid, definition.index.as_ref().map(|index| index.table))
                }
                Change::Remove(oid) => {
                    let before = self.relations.get(oid);
                    (*oid, before.and_then(|r| r.index.as_ref()).map(|index| index.table))
                }
                _ => continue,
            };
            for oid in [Some(oid), table].into_iter().flatten() {
                let now = state.relation(oid);
                let before = match now {
                    Some(now) => self.relations.insert(oid, Arc::clone(now)),
                    None => self.relations.remove(&oid),
                };
                if let Some(before) = before
                    && now.is_none_or(|now| now.file != before.file)
                {
                    engine.forget(RelFileId(before.file));
                }
            }
        }
        self.version += 1;
    }
}
