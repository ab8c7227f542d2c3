//! The databases of the directory, as a state sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::definition::database::{DatabaseDefinition, FIRST_DATABASE};
use crate::rows::oid::Oid;

/// All databases at one moment.
#[derive(Clone, Debug)]
pub struct DatabaseList {
    by_oid: BTreeMap<Oid, Arc<DatabaseDefinition>>,
}

impl Default for DatabaseList {
    /// Returns the list of the first database alone.
    fn default() -> Self {
        let first = Arc::new(DatabaseDefinition::first());
        Self { by_oid: BTreeMap::from([(first.oid, first)]) }
    }
}

impl DatabaseList {
    /// Returns the database with this number.
    pub fn get(&self, oid: Oid) -> Option<&Arc<DatabaseDefinition>> {
        self.by_oid.get(&oid)
    }

    /// Returns the database with this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<DatabaseDefinition>> {
        self.iter().find(|database| database.name == name)
    }

    /// Iterates over all databases in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DatabaseDefinition>> {
        self.by_oid.values()
    }

    pub(crate) fn put(&mut self, database: &Arc<DatabaseDefinition>) {
        self.by_oid.insert(database.oid, Arc::clone(database));
    }

    pub(crate) fn remove(&mut self, oid: Oid) {
        self.by_oid.remove(&oid);
    }
}

/// List of databases as the statements of one database see it.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseView {
    /// The database of the statements.
    current: Oid,
    committed: Arc<ArcSwap<DatabaseList>>,
    /// The list with the changes of an uncommitted transaction.
    own: Option<Arc<DatabaseList>>,
}

impl Default for DatabaseView {
    /// Returns a view of the first database alone.
    fn default() -> Self {
        Self::new(FIRST_DATABASE, &Arc::default())
    }
}

impl DatabaseView {
    pub(crate) fn new(current: Oid, committed: &Arc<ArcSwap<DatabaseList>>) -> Self {
        Self { current, committed: Arc::clone(committed), own: None }
    }

    pub(crate) fn current(&self) -> Oid {
        self.current
    }

    pub(crate) fn list(&self) -> Arc<DatabaseList> {
        self.own.clone().unwrap_or_else(|| self.committed.load_full())
    }

    /// Puts an uncommitted change over the committed list.
    pub(crate) fn put(&mut self, database: &Arc<DatabaseDefinition>) {
        self.lay_over(|list| list.put(database));
    }

    pub(crate) fn remove(&mut self, oid: Oid) {
        self.lay_over(|list| list.remove(oid));
    }

    fn lay_over(&mut self, change: impl FnOnce(&mut DatabaseList)) {
        let mut list = DatabaseList::clone(&self.list());
        change(&mut list);
        self.own = Some(Arc::new(list));
    }

    /// Drops the overlay after its changes were committed.
    pub(crate) fn committed(&mut self) {
        self.own = None;
    }
}
