//! What the catalogs of all databases of one directory share: the list of databases, and the counter that numbers come from.

use std::sync::Arc;

use arc_swap::ArcSwap;
use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_table::Engine;

use crate::database::{CatalogFiles, DatabaseDefinition, DatabaseList, FIRST_DATABASE};
use crate::definition::Oid;
use crate::objects::{OBJECTS_TABLE, Objects};
use crate::overlay::Change;

/// What all catalogs of one directory share.
pub struct SharedCatalog {
    /// The first database's, among whose rows databases are.
    objects: Objects,
    databases: Arc<ArcSwap<DatabaseList>>,
    next_oid: AtomicU32,
}

impl std::fmt::Debug for SharedCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedCatalog").field("databases", &self.databases).finish_non_exhaustive()
    }
}

impl SharedCatalog {
    /// Before the first database's catalog is opened, which says what there is.
    pub fn new(engine: &Arc<Engine>) -> Arc<Self> {
        Arc::new(Self {
            objects: Objects::open(engine, OBJECTS_TABLE.0.into(), CatalogFiles::FIRST),
            databases: Arc::default(),
            next_oid: AtomicU32::new(Oid::FIRST_USER.0),
        })
    }

    /// The databases that there are now.
    pub fn databases(&self) -> Arc<DatabaseList> {
        self.databases.load_full()
    }

    /// A number for a new object.
    pub fn new_oid(&self) -> Oid {
        // Relaxed: only the number's uniqueness matters.
        Oid(self.next_oid.fetch_add(1, Ordering::Relaxed))
    }

    /// Some object has this number.
    pub(crate) fn note_oid(&self, oid: Oid) {
        self.next_oid.fetch_max(oid.0.saturating_add(1), Ordering::Relaxed);
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Shows changes of databases to everybody.
    pub(crate) fn publish(&self, changes: &[Change]) {
        let of_databases =
            |c: &Change| matches!(c, Change::PutDatabase(_) | Change::RemoveDatabase(_));
        if !changes.iter().any(of_databases) {
            return;
        }
        self.databases.rcu(|list| {
            let mut list = DatabaseList::clone(list);
            changes.iter().for_each(|change| list.apply(change));
            list
        });
    }
}

/// The databases, as statements of one of them see them.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseView {
    /// The one that they are statements of.
    current: Oid,
    committed: Arc<ArcSwap<DatabaseList>>,
    /// With changes of a transaction that has not committed.
    own: Option<Arc<DatabaseList>>,
}

impl Default for DatabaseView {
    /// There is the first one alone.
    fn default() -> Self {
        Self { current: FIRST_DATABASE, committed: Arc::default(), own: None }
    }
}

impl DatabaseView {
    pub(crate) fn new(shared: &SharedCatalog, database: &DatabaseDefinition) -> Self {
        Self { current: database.oid, committed: Arc::clone(&shared.databases), own: None }
    }

    pub(crate) fn current(&self) -> Oid {
        self.current
    }

    pub(crate) fn list(&self) -> Arc<DatabaseList> {
        self.own.clone().unwrap_or_else(|| self.committed.load_full())
    }

    /// Lays a change of a transaction over what is committed.
    pub(crate) fn lay_over(&mut self, change: &Change) {
        let mut list = DatabaseList::clone(&self.list());
        list.apply(change);
        self.own = Some(Arc::new(list));
    }

    /// What was laid over it is committed.
    pub(crate) fn committed(&mut self) {
        self.own = None;
    }
}
