//! The catalog of one open database: the committed state, and how it changes.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use hashbrown::HashSet;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use niwaki_storage::RelFileId;
use niwaki_table::Engine;
use niwaki_txn::Transaction;

use crate::build;
use crate::compile::ExpressionCompiler;
use crate::definition::{Oid, RelationDefinition};
use crate::error::Result;
use crate::function::FunctionDefinition;
use crate::objects::{
    OBJECTS_BY_NAME_FILE, OBJECTS_BY_OID_FILE, OBJECTS_FILE, Object, ObjectKind, Objects, damaged,
};
use crate::overlay::{Change, apply};
use crate::relation::Relation;
use crate::remark::{definition_of, remark};
use crate::state::{CatalogState, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA, SchemaEntry};
use crate::types::TypeDefinition;

/// The catalog of one open database. Statements take [`Catalog::state`]; transactions with DDL go
/// through a [`crate::CatalogTransaction`].
pub struct Catalog {
    engine: Arc<Engine>,
    compiler: Arc<dyn ExpressionCompiler>,
    pub(crate) objects: Objects,
    state: ArcSwap<CatalogState>,
    /// The version of `state`, readable without touching it.
    version: AtomicU64,
    /// Held while a change is published: changes are applied one after the other.
    publishing: Mutex<()>,
    next_oid: AtomicU32,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Numbers of the catalog's own files, which a new database must create, empty, before
    /// [`Catalog::bootstrap`].
    pub const OWN_FILES: [u64; 3] = [OBJECTS_FILE, OBJECTS_BY_OID_FILE, OBJECTS_BY_NAME_FILE];

    /// Fills the catalog of a new database, whose files exist already and are empty.
    ///
    /// # Errors
    /// Storage errors.
    pub fn bootstrap(engine: &Arc<Engine>, transaction: &Transaction) -> Result<()> {
        let objects = Objects::open(engine);
        objects.insert(
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

    /// Whether the catalog of this database was filled: false after a crash in the middle of
    /// [`Catalog::bootstrap`].
    ///
    /// # Errors
    /// Storage errors.
    pub fn is_filled(engine: &Arc<Engine>, transaction: &Transaction) -> Result<bool> {
        Ok(!Objects::open(engine).read_all(transaction)?.is_empty())
    }

    /// Reads the catalog. `views` are the system views, which are not stored; `compiler` reads the
    /// expressions of indexes. The transaction is for
    /// reading alone.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`], or storage errors.
    pub fn open(
        engine: &Arc<Engine>,
        transaction: &Transaction,
        views: Vec<Relation>,
        compiler: Arc<dyn ExpressionCompiler>,
    ) -> Result<Arc<Self>> {
        let objects = Objects::open(engine);
        let mut next_oid = Oid::FIRST_USER.0;
        let mut changes = vec![
            Change::PutSchema(SchemaEntry::new(PG_CATALOG, "pg_catalog")),
            Change::PutSchema(SchemaEntry::new(INFORMATION_SCHEMA, "information_schema")),
        ];
        changes.extend(views.into_iter().map(|v| Change::PutView(Arc::new(v))));
        for object in objects.read_all(transaction)? {
            next_oid = next_oid.max(object.oid.0.saturating_add(1));
            changes.push(match object.kind {
                ObjectKind::Schema => Change::PutSchema(SchemaEntry {
                    comment: remark(&object)?,
                    ..SchemaEntry::new(object.oid, object.name)
                }),
                ObjectKind::Database => Change::DescribeDatabase(remark(&object)?),
                ObjectKind::Type => Change::PutType(Arc::new(TypeDefinition::of_object(&object)?)),
                ObjectKind::Function => {
                    Change::PutFunction(Arc::new(FunctionDefinition::of_object(&object)?))
                }
                ObjectKind::Relation => {
                    let definition: RelationDefinition =
                        serde_json::from_str(&object.definition)
                            .map_err(|e| damaged(object.oid.0, &e.to_string()))?;
                    let same = definition.oid == object.oid
                        && definition.schema == object.schema
                        && definition.name == object.name;
                    if !same {
                        return Err(damaged(object.oid.0, "row and definition differ"));
                    }
                    for key in &definition.foreign_keys {
                        next_oid = next_oid.max(key.oid.0.saturating_add(1));
                    }
                    for trigger in &definition.triggers {
                        next_oid = next_oid.max(trigger.oid.0.saturating_add(1));
                    }
                    Change::Put(Arc::new(definition))
                }
            });
        }
        let mut state = CatalogState::default();
        apply(engine, &*compiler, &mut state, &changes);
        state.set_version(1);
        Ok(Arc::new(Self {
            engine: Arc::clone(engine),
            compiler,
            objects,
            state: ArcSwap::from_pointee(state),
            version: AtomicU64::new(1),
            publishing: Mutex::new(()),
            next_oid: AtomicU32::new(next_oid),
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

    /// A number for a new object.
    pub fn new_oid(&self) -> Oid {
        // Relaxed: only the number's uniqueness matters.
        Oid(self.next_oid.fetch_add(1, Ordering::Relaxed))
    }

    /// Numbers of all files that belong to something: after recovery every other file is an orphan.
    pub fn referenced_files(&self) -> HashSet<u64> {
        let state = self.state();
        Self::OWN_FILES
            .into_iter()
            .chain(state.relations().flat_map(|relation| relation.files()))
            .collect()
    }

    /// Makes committed changes visible to all sessions. Called after the commit is published and
    /// before its locks are released.
    pub(crate) fn publish(&self, changes: &[Change]) {
        let _one_at_a_time = self.publishing.lock();
        let old = self.state.load();
        let mut state = CatalogState::clone(&old);
        apply(&self.engine, &*self.compiler, &mut state, changes);
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
        let version = self.version() + 1;
        state.set_version(version);
        self.state.store(Arc::new(state));
        self.version.store(version, Ordering::Release);
    }
}
