//! The catalog of one open database: its committed state and the changes of that state.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use niwaki_env::seeded_bug;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_storage::{RelFile, RelFileId};
use niwaki_table::Engine;
use niwaki_txn::{TableId, Transaction};

use crate::change::apply::{Change, apply};
use crate::change::shared::SharedCatalog;
use crate::definition::database::{DatabaseDefinition, table_number};
use crate::definition::function_definition::FunctionDefinition;
use crate::definition::relation_definition::RelationDefinition;
use crate::definition::relation_object::{relation_object, relation_of};
use crate::definition::remark::{definition_of, remark};
use crate::definition::schema::{INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA, SchemaEntry};
use crate::definition::type_definition::TypeDefinition;
use crate::error::{Error, Result};
use crate::opening::build;
use crate::opening::compile::ExpressionCompiler;
use crate::rows::objects::{CatalogFiles, OBJECTS_TABLE, Object, ObjectKind, Objects, damaged};
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;
use crate::state::relation::Relation;

/// The catalog of one open database. Statements read [`Catalog::state`]. Transactions with DDL use
/// a [`crate::CatalogTransaction`].
pub struct Catalog {
    engine: Arc<Engine>,
    compiler: Arc<dyn ExpressionCompiler>,
    shared: Arc<SharedCatalog>,
    database: Oid,
    files: CatalogFiles,
    pub(crate) objects: Objects,
    state: ArcSwap<CatalogState>,
    /// The version of `state`, readable without loading the state.
    version: AtomicU64,
    /// Held while a change is published, so that changes are applied one after the other.
    publishing: Mutex<()>,
}

/// Returns the table of a database's definitions.
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

    /// Fills the catalog of a new database with a copy of this one. The new catalog's files exist
    /// already and are empty. `file` copies a file of a relation and returns the file that takes
    /// its place.
    ///
    /// # Errors
    /// Storage errors; the errors of `file`.
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
                    // Views, partitioned tables and their indexes have file number 0, which means
                    // no file.
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

    /// Decides whether the catalog of the first database was filled. Returns false after a crash in
    /// the middle of [`Catalog::bootstrap`].
    ///
    /// # Errors
    /// Storage errors.
    pub fn is_filled(engine: &Arc<Engine>, transaction: &Transaction) -> Result<bool> {
        let first = objects_of(engine, &DatabaseDefinition::first());
        Ok(!first.read_all(transaction)?.is_empty())
    }

    /// Reads the catalog of a database. The first database's catalog also lists the other
    /// databases. `views` are the system views, which are not stored. `compiler` reads the
    /// expressions of indexes. The transaction is only for reading.
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

    /// Returns the present committed state.
    #[inline]
    pub fn state(&self) -> Guard<Arc<CatalogState>> {
        self.state.load()
    }

    /// Returns the present committed state as an `Arc` to keep.
    #[inline]
    pub fn state_arc(&self) -> Arc<CatalogState> {
        self.state.load_full()
    }

    /// Returns the version of the committed state: one atomic load, which shows whether a plan is
    /// still valid.
    #[inline]
    pub fn version(&self) -> u64 {
        // Acquire pairs with the release in `replace`: a thread that sees the version also loads
        // that state.
        self.version.load(Ordering::Acquire)
    }

    /// Returns the reader of index expressions.
    pub fn compiler(&self) -> &dyn ExpressionCompiler {
        &*self.compiler
    }

    /// Returns the engine of the tables.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the table that stores the definitions, for `check` and VACUUM.
    pub fn own_table(&self) -> &Arc<niwaki_table::Table> {
        self.objects.table()
    }

    /// Returns the number of the catalog's database.
    pub fn database_oid(&self) -> Oid {
        self.database
    }

    /// Returns the number by which locks know a relation ([`table_number`]).
    pub fn table_number(&self, oid: Oid) -> TableId {
        table_number(self.database, oid)
    }

    /// Returns the state shared with the catalogs of the other databases.
    pub fn shared(&self) -> &Arc<SharedCatalog> {
        &self.shared
    }

    /// Returns a number for a new object.
    pub fn new_oid(&self) -> Oid {
        self.shared.new_oid()
    }

    /// Returns the files of this database, the catalog's included, each with whether it is logged.
    /// After recovery, a file that belongs to no database is an orphan. A file that belongs to
    /// several relations is listed several times.
    pub fn files(&self) -> Vec<RelFile> {
        let state = self.state();
        let of_relations = state.relations().flat_map(|relation| {
            let logged = relation.logged;
            relation.files().map(move |id| RelFile { id: RelFileId(id), logged })
        });
        self.files.all().into_iter().chain(of_relations).collect()
    }

    /// Empties the catalog after its database was dropped. A late reader then finds no objects.
    fn clear(&self) {
        let _one_at_a_time = self.publishing.lock();
        for file in self.files() {
            self.engine.forget(file.id);
        }
        self.replace(self.state.load().emptied());
    }

    /// Makes committed changes visible to all sessions. The caller has published the commit, and
    /// still holds the transaction's locks.
    pub(crate) fn publish(&self, changes: &[Change]) {
        let _one_at_a_time = self.publishing.lock();
        let old = self.state.load();
        let mut state = CatalogState::clone(&old);
        apply(&self.engine, &*self.compiler, &mut state, changes);
        self.shared.publish(changes);
        state.databases.committed();
        // Forget the engine's state of files that no relation names any more.
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

    /// Stores the new state. The caller holds `publishing`.
    fn replace(&self, mut state: CatalogState) {
        let version = self.version() + u64::from(!seeded_bug!("definition_unannounced"));
        state.set_version(version);
        self.state.store(Arc::new(state));
        self.version.store(version, Ordering::Release);
    }
}
