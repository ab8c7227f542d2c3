//! The catalog of one open database: the committed state, and how it changes.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_storage::{RelFile, RelFileId};
use niwaki_table::Engine;
use niwaki_txn::{TableId, Transaction};

use crate::build;
use crate::compile::ExpressionCompiler;
use crate::database::{DatabaseDefinition, table_number};
use crate::definition::{Oid, RelationDefinition};
use crate::error::{Error, Result};
use crate::function::FunctionDefinition;
use crate::objects::{CatalogFiles, OBJECTS_TABLE, Object, ObjectKind, Objects, damaged};
use crate::overlay::{Change, apply, relation_object};
use crate::relation::Relation;
use crate::remark::{definition_of, remark};
use crate::shared::SharedCatalog;
use crate::state::{CatalogState, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA, SchemaEntry};
use crate::types::TypeDefinition;

/// The catalog of one open database. Statements take [`Catalog::state`]; transactions with DDL go
/// through a [`crate::CatalogTransaction`].
pub struct Catalog {
    engine: Arc<Engine>,
    compiler: Arc<dyn ExpressionCompiler>,
    shared: Arc<SharedCatalog>,
    database: Oid,
    files: CatalogFiles,
    pub(crate) objects: Objects,
    state: ArcSwap<CatalogState>,
    /// The version of `state`, readable without touching it.
    version: AtomicU64,
    /// Held while a change is published: changes are applied one after the other.
    publishing: Mutex<()>,
}

/// The relation that a stored object is.
fn relation_of(object: &Object) -> Result<RelationDefinition> {
    let definition: RelationDefinition = serde_json::from_str(&object.definition)
        .map_err(|e| damaged(object.oid.0, &e.to_string()))?;
    let same = definition.oid == object.oid
        && definition.schema == object.schema
        && definition.name == object.name;
    if !same {
        return Err(damaged(object.oid.0, "row and definition differ"));
    }
    Ok(definition)
}

/// The table of a database's definitions.
fn objects_of(engine: &Arc<Engine>, database: &DatabaseDefinition) -> Objects {
    Objects::open(engine, table_number(database.oid, OBJECTS_TABLE), database.files)
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Fills the catalog of a new database, whose files exist already and are empty.
    ///
    /// # Errors
    /// Storage errors.
    pub fn bootstrap(
        engine: &Arc<Engine>,
        database: &DatabaseDefinition,
        transaction: &Transaction,
    ) -> Result<()> {
        objects_of(engine, database).insert(
            transaction,
            &Object {
                oid: PUBLIC_SCHEMA,
                schema: Oid::INVALID,
                name: "public".to_owned(),
                kind: ObjectKind::Schema,
                definition: definition_of(Some("standard public schema")),
            },
        )
    }

    /// Fills the catalog of a new database, whose files exist already and are empty, with what this one has. `file` says which files a relation has
    /// there in place of those that it has here.
    ///
    /// # Errors
    /// Storage errors; those of `file`.
    pub fn copy_to<E: From<Error>>(
        &self,
        database: &DatabaseDefinition,
        transaction: &Transaction,
        file: &mut dyn FnMut(&RelationDefinition, RelFile) -> std::result::Result<RelFile, E>,
    ) -> std::result::Result<(), E> {
        let copy = objects_of(&self.engine, database);
        for object in self.objects.read_all(transaction)? {
            match object.kind {
                ObjectKind::Database => {}
                ObjectKind::Relation => {
                    let mut relation = relation_of(&object)?;
                    let logged = relation.logged;
                    let mut other = |number: u64| {
                        let here = RelFile { id: RelFileId(number), logged };
                        Ok::<_, E>(file(&relation, here)?.id.0)
                    };
                    // Views, partitioned tables and their indexes have number 0: none.
                    let own = if relation.file == 0 { 0 } else { other(relation.file)? };
                    let values = relation.values.map(other).transpose()?;
                    (relation.file, relation.values) = (own, values);
                    copy.insert(transaction, &relation_object(&relation)?)?;
                }
                ObjectKind::Schema | ObjectKind::Type | ObjectKind::Function => {
                    copy.insert(transaction, &object)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the catalog of the first database was filled: false after a crash in the middle of
    /// [`Catalog::bootstrap`].
    ///
    /// # Errors
    /// Storage errors.
    pub fn is_filled(engine: &Arc<Engine>, transaction: &Transaction) -> Result<bool> {
        let first = objects_of(engine, &DatabaseDefinition::first());
        Ok(!first.read_all(transaction)?.is_empty())
    }

    /// Reads the catalog of a database; that of the first one says which others there are. `views` are the system views, which
    /// are not stored; `compiler` reads the expressions of indexes. The transaction is for reading alone.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`], or storage errors.
    pub fn open(
        engine: &Arc<Engine>,
        shared: &Arc<SharedCatalog>,
        database: &DatabaseDefinition,
        transaction: &Transaction,
        views: Vec<Relation>,
        compiler: Arc<dyn ExpressionCompiler>,
    ) -> Result<Arc<Self>> {
        let objects = objects_of(engine, database);
        let mut changes = vec![
            Change::PutSchema(SchemaEntry::new(PG_CATALOG, "pg_catalog")),
            Change::PutSchema(SchemaEntry::new(INFORMATION_SCHEMA, "information_schema")),
        ];
        changes.extend(views.into_iter().map(|v| Change::PutView(Arc::new(v))));
        for object in objects.read_all(transaction)? {
            shared.note_oid(object.oid);
            changes.push(match object.kind {
                ObjectKind::Schema => Change::PutSchema(SchemaEntry {
                    comment: remark(&object)?,
                    ..SchemaEntry::new(object.oid, object.name)
                }),
                ObjectKind::Database if database.is_first() => {
                    Change::PutDatabase(Arc::new(DatabaseDefinition::of_object(&object)?))
                }
                ObjectKind::Database => {
                    return Err(damaged(object.oid.0, "a database in another one's catalog"));
                }
                ObjectKind::Type => Change::PutType(Arc::new(TypeDefinition::of_object(&object)?)),
                ObjectKind::Function => {
                    Change::PutFunction(Arc::new(FunctionDefinition::of_object(&object)?))
                }
                ObjectKind::Relation => {
                    let definition = relation_of(&object)?;
                    definition.foreign_keys.iter().for_each(|key| shared.note_oid(key.oid));
                    definition.triggers.iter().for_each(|trigger| shared.note_oid(trigger.oid));
                    Change::Put(Arc::new(definition))
                }
            });
        }
        let mut state = CatalogState::of_database(shared.view_of(database.oid));
        apply(engine, &*compiler, &mut state, &changes);
        shared.publish(&changes);
        state.databases.committed();
        state.set_version(1);
        Ok(Arc::new(Self {
            engine: Arc::clone(engine),
            compiler,
            shared: Arc::clone(shared),
            database: database.oid,
            files: database.files,
            objects,
            state: ArcSwap::from_pointee(state),
            version: AtomicU64::new(1),
            publishing: Mutex::new(()),
        }))
    }

    /// The committed state now.
    #[inline]
    pub fn state(&self) -> Guard<Arc<CatalogState>> {
        self.state.load()
    }

    /// The committed state now, to be kept.
    #[inline]
    pub fn state_arc(&self) -> Arc<CatalogState> {
        self.state.load_full()
    }

    /// Version of the committed state: one atomic load, to see whether a plan is still right.
    #[inline]
    pub fn version(&self) -> u64 {
        // Acquire pairs with the release in `publish`: who sees the version loads that state.
        self.version.load(Ordering::Acquire)
    }

    /// What reads the expressions of indexes.
    pub fn compiler(&self) -> &dyn ExpressionCompiler {
        &*self.compiler
    }

    /// The tables' engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The table in which definitions are stored, for `check` and VACUUM.
    pub fn own_table(&self) -> &Arc<niwaki_table::Table> {
        self.objects.table()
    }

    /// Number of its database.
    pub fn database_oid(&self) -> Oid {
        self.database
    }

    /// The number by which locks know a relation ([`table_number`]).
    pub fn table_number(&self, oid: Oid) -> TableId {
        table_number(self.database, oid)
    }

    /// What it shares with the catalogs of the other databases.
    pub fn shared(&self) -> &Arc<SharedCatalog> {
        &self.shared
    }

    /// A number for a new object.
    pub fn new_oid(&self) -> Oid {
        self.shared.new_oid()
    }

    /// Numbers of the files of this database, its catalog's among them, and whether each is logged: after recovery a file that belongs to no database is an
    /// orphan. One that belongs to several relations is there several times.
    pub fn files(&self) -> Vec<RelFile> {
        let state = self.state();
        let of_relations = state.relations().flat_map(|relation| {
            let logged = relation.logged;
            relation.files().map(move |id| RelFile { id: RelFileId(id), logged })
        });
        self.files.all().into_iter().chain(of_relations).collect()
    }

    /// The database was dropped: whoever still looks at it finds nothing.
    fn clear(&self) {
        let _one_at_a_time = self.publishing.lock();
        for file in self.files() {
            self.engine.forget(file.id);
        }
        self.replace(self.state.load().emptied());
    }

    /// Makes committed changes visible to all sessions. Called after the commit is published and
    /// before its locks are released.
    pub(crate) fn publish(&self, changes: &[Change]) {
        let _one_at_a_time = self.publishing.lock();
        let old = self.state.load();
        let mut state = CatalogState::clone(&old);
        apply(&self.engine, &*self.compiler, &mut state, changes);
        self.shared.publish(changes);
        state.databases.committed();
        // What the engine remembers of files that nothing names any more.
        for change in changes {
            let oid = match change {
                Change::Put(definition) => definition.oid,
                Change::Remove(oid) => *oid,
                _ => continue,
            };
            if let Some(before) = old.relation(oid)
                && state.relation(oid).is_none_or(|now| now.file != before.file)
                // Two relations may have exchanged their files.
                && !state.relations().any(|other| other.file == before.file)
            {
                self.engine.forget(RelFileId(before.file));
            }
            if let Change::Put(definition) = change
                && definition.index.is_some()
                && definition.file != 0
            {
                let options = build::index_options(&definition.options);
                self.engine.set_index_options(RelFileId(definition.file), options);
            }
        }
        self.replace(state);
        for change in changes {
            if let Change::RemoveDatabase(dropped) = change {
                dropped.clear();
            }
        }
    }

    /// The caller is the one who publishes.
    fn replace(&self, mut state: CatalogState) {
        let version = self.version() + u64::from(!seeded_bug!("definition_unannounced"));
        state.set_version(version);
        self.state.store(Arc::new(state));
        self.version.store(version, Ordering::Release);
    }
}
