//! State that the catalogs of all databases of one directory share: the list of databases, and the
//! counter for new object numbers.

use std::sync::Arc;

use arc_swap::ArcSwap;
use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_table::Engine;

use crate::definition::database::{FIRST_DATABASE, table_number};
use crate::rows::objects::{CatalogFiles, OBJECTS_TABLE, Objects};
use crate::rows::oid::Oid;
use crate::state::databases::{DatabaseList, DatabaseView};

/// State that all catalogs of one directory share.
pub struct SharedCatalog {
    /// Definitions of the first database, which also store the databases.
    objects: Objects,
    pub(super) databases: Arc<ArcSwap<DatabaseList>>,
    next_oid: AtomicU32,
}

impl std::fmt::Debug for SharedCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedCatalog").field("databases", &self.databases).finish_non_exhaustive()
    }
}

impl SharedCatalog {
    /// Creates the shared state before the first database's catalog is opened, which lists the
    /// databases.
    pub fn new(engine: &Arc<Engine>) -> Arc<Self> {
        let number = table_number(FIRST_DATABASE, OBJECTS_TABLE);
        Arc::new(Self {
            objects: Objects::open(engine, number, CatalogFiles::FIRST),
            databases: Arc::default(),
            next_oid: AtomicU32::new(Oid::FIRST_USER.0),
        })
    }

    /// Returns the present databases.
    pub fn databases(&self) -> Arc<DatabaseList> {
        self.databases.load_full()
    }

    /// Returns a number for a new object.
    pub fn new_oid(&self) -> Oid {
        // Relaxed: only the uniqueness of the number matters.
        Oid(self.next_oid.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes that an object has this number, so that no new object gets it.
    pub(crate) fn note_oid(&self, oid: Oid) {
        self.next_oid.fetch_max(oid.0.saturating_add(1), Ordering::Relaxed);
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the list of databases as the statements of this database see it.
    pub(crate) fn view_of(&self, database: Oid) -> DatabaseView {
        DatabaseView::new(database, &self.databases)
    }
}
