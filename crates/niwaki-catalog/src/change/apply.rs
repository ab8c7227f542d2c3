//! Changes of a catalog, and the state that they make.

use std::sync::Arc;

use niwaki_env::hash::HashSet;
use niwaki_table::{Engine, Sequence, Table};

use crate::change::catalog::Catalog;
use crate::change::shared::SharedCatalog;
use crate::definition::database::DatabaseDefinition;
use crate::definition::function_definition::FunctionDefinition;
use crate::definition::relation_definition::{RelationDefinition, RelationKind};
use crate::definition::schema::SchemaEntry;
use crate::definition::type_definition::TypeDefinition;
use crate::opening::build;
use crate::opening::compile::ExpressionCompiler;
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;
use crate::state::databases::DatabaseList;
use crate::state::partitions::Partitions;
use crate::state::relation::{IndexEntry, Relation};

/// One change of the catalog.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(Arc<RelationDefinition>),
    Remove(Oid),
    PutView(Arc<Relation>),
    PutSchema(SchemaEntry),
    RemoveSchema(Oid),
    PutType(Arc<TypeDefinition>),
    RemoveType(Oid),
    PutFunction(Arc<FunctionDefinition>),
    RemoveFunction(Oid),
    PutDatabase(Arc<DatabaseDefinition>),
    RemoveDatabase(Arc<Catalog>),
}

impl SharedCatalog {
    /// Makes changes of databases visible to all sessions.
    pub(crate) fn publish(&self, changes: &[Change]) {
        let of_databases =
            |c: &Change| matches!(c, Change::PutDatabase(_) | Change::RemoveDatabase(_));
        if !changes.iter().any(of_databases) {
            return;
        }
        // The catalogs of other databases may publish at the same time.
        self.databases.rcu(|list| {
            let mut list = DatabaseList::clone(list);
            for change in changes {
                match change {
                    Change::PutDatabase(database) => list.put(database),
                    Change::RemoveDatabase(dropped) => list.remove(dropped.database_oid()),
                    _ => {}
                }
            }
            list
        });
    }
}

/// Applies changes in order. Tables are opened at the end, once each, when all their indexes are
/// known.
pub(crate) fn apply(
    engine: &Arc<Engine>,
    compiler: &dyn ExpressionCompiler,
    state: &mut CatalogState,
    changes: &[Change],
) {
    let mut touched: HashSet<Oid> = HashSet::default();
    let mut types_changed = false;
    for change in changes {
        match change {
            Change::PutSchema(schema) => {
                state.put_schema(schema.clone());
                // Types are shown with the names of their schemas.
                types_changed = true;
            }
            Change::RemoveSchema(oid) => state.remove_schema(*oid),
            Change::PutDatabase(database) => state.databases.put(database),
            Change::RemoveDatabase(dropped) => state.databases.remove(dropped.database_oid()),
            Change::PutView(view) => state.put(Arc::clone(view)),
            Change::PutType(definition) => {
                state.types.put(Arc::clone(definition));
                types_changed = true;
            }
            Change::RemoveType(oid) => {
                state.types.remove(*oid);
                types_changed = true;
            }
            Change::PutFunction(definition) => state.functions.put(Arc::clone(definition)),
            Change::RemoveFunction(oid) => state.functions.remove(*oid),
            Change::Remove(oid) => {
                touched.insert(*oid);
                let before = state.relation(*oid);
                if let Some(index) = before.and_then(|r| r.index.as_ref()) {
                    touched.insert(index.table);
                }
                touched.extend(parent_of(before));
                state.remove(*oid);
            }
            Change::Put(definition) => {
                touched.insert(definition.oid);
                if let Some(index) = &definition.index {
                    touched.insert(index.table);
                }
                touched.extend(parent_of(state.relation(definition.oid)));
                let unopened = Relation::unopened(RelationDefinition::clone(definition));
                state.put(Arc::new(unopened));
            }
        }
    }
    if types_changed {
        state.types_changed();
    }
    // A partitioned table holds the relations below it, so it changes with them.
    let mut above: Vec<Oid> = touched.iter().copied().collect();
    while let Some(oid) = above.pop() {
        above.extend(parent_of(state.relation(oid)).filter(|parent| touched.insert(*parent)));
    }
    // Indexes of the touched tables.
    let mut indexes: Vec<IndexEntry> = state
        .relations()
        .filter_map(|r| {
            let definition = r.index.as_ref().filter(|i| touched.contains(&i.table))?.clone();
            Some(IndexEntry { oid: r.oid, name: r.name.clone(), definition })
        })
        .collect();
    indexes.sort_by_key(|i| i.oid);
    let mut touched: Vec<Oid> = touched.into_iter().collect();
    touched.sort_by_cached_key(|oid| std::cmp::Reverse(depth(state, *oid)));
    for oid in touched {
        let Some(relation) = state.relation(oid) else { continue };
        let mut relation = Relation::unopened(relation.definition.clone());
        match relation.kind {
            RelationKind::Table | RelationKind::MaterializedView => {
                relation.indexes =
                    indexes.iter().filter(|i| i.definition.table == oid).cloned().collect();
                if let Some(key) = &relation.definition.partition_key {
                    let parts = state.partitions_of(oid).iter();
                    let parts: Vec<Arc<Relation>> =
                        parts.filter_map(|part| state.relation(*part)).cloned().collect();
                    let found = Partitions::of(&relation.definition, key, &parts);
                    relation.partitions = Some(Arc::new(found));
                    state.put(Arc::new(relation));
                    continue;
                }
                let files = |index: Oid| state.relation(index).map(|r| r.definition.clone());
                let definition = build::table_definition(
                    compiler,
                    state.database_oid(),
                    &relation.definition,
                    &relation.indexes,
                    &files,
                );
                relation.table = Some(Table::open(engine, definition));
            }
            RelationKind::Sequence => {
                if let Some(sequence) = &relation.definition.sequence {
                    let file = build::file_of(&relation.definition);
                    let options = build::sequence_options(sequence);
                    relation.number_generator =
                        Some(Arc::new(Sequence::open(engine, file, options)));
                }
            }
            RelationKind::Index | RelationKind::View => {}
        }
        state.put(Arc::new(relation));
    }
}

/// Returns the table that a relation is a partition of.
fn parent_of(relation: Option<&Arc<Relation>>) -> Option<Oid> {
    relation?.partition_of.as_ref().map(|of| of.parent)
}

/// Counts the partitioned tables above a relation. Ends: no statement closes the chain of parents
/// to a circle. In a damaged catalog, the count of relations bounds the loop.
fn depth(state: &CatalogState, oid: Oid) -> usize {
    let mut depth = 0;
    let mut at = oid;
    while let Some(parent) = parent_of(state.relation(at)) {
        depth += 1;
        at = parent;
        if depth > state.relation_count() {
            break;
        }
    }
    depth
}
