//! What the catalogs of all databases of one directory share: the list of databases, and the counter that numbers come from.

use std::sync::Arc;

use arc_swap::ArcSwap;
use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_table::Engine;

use crate::database::{DatabaseList, DatabaseView, FIRST_DATABASE, table_number};
use crate::definition::Oid;
use crate::objects::{CatalogFiles, OBJECTS_TABLE, Objects};
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
        let number = table_number(FIRST_DATABASE, OBJECTS_TABLE);
        Arc::new(Self {
            objects: Objects::open(engine, number, CatalogFiles::FIRST),
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

    /// The databases, as statements of this one see them.
    pub(crate) fn view_of(&self, database: Oid) -> DatabaseView {
        DatabaseView::new(database, &self.databases)
    }

    /// Shows changes of databases to everybody.
    pub(crate) fn publish(&self, changes: &[Change]) {
        let of_databases =
            |c: &Change| matches!(c, Change::PutDatabase(_) | Change::RemoveDatabase(_));
        if !changes.iter().any(of_databases) {
            return;
        }
        // Those of the other catalogs publish at the same time.
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
