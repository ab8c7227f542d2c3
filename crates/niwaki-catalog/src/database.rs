//! The databases of one directory: what is known of each, and where its catalog is.
//!
//! All but the first, which is always there, are rows of the first one's catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use niwaki_txn::TableId;
use serde::{Deserialize, Serialize};

use crate::definition::Oid;
use crate::error::Result;
use crate::objects::{CatalogFiles, Object, ObjectKind, damaged};

/// The number of the database that is always there (PostgreSQL's of `postgres`).
pub const FIRST_DATABASE: Oid = Oid(5);
/// Its name.
pub const FIRST_DATABASE_NAME: &str = "postgres";

/// The number by which locks, counters and the log of changes know a table: those of two databases are never the same. A database, for
/// locks, is a table of the first one.
pub fn table_number(database: Oid, table: Oid) -> TableId {
    let base = if database == FIRST_DATABASE { 0 } else { u64::from(database.0) << 32 };
    TableId(base | u64::from(table.0))
}

/// The database of a table's number, and the table's number in it.
pub fn of_table_number(number: TableId) -> (Oid, Oid) {
    let [a, b, c, d, e, f, g, h] = number.0.to_be_bytes();
    let (database, table) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let database = Some(Oid(database)).filter(|database| *database != Oid::INVALID);
    (database.unwrap_or(FIRST_DATABASE), Oid(table))
}

/// In place of a schema, in rows of databases: a number that no schema has, so that names are in no schema's way.
const IN_PLACE_OF_SCHEMA: Oid = Oid(1);
/// The number under which the first one is stored, once there is something to say of it. Its row has no name.
const ROW_OF_FIRST: Oid = Oid(1);

/// A database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseDefinition {
    /// Number.
    #[serde(skip)]
    pub oid: Oid,
    /// Name.
    #[serde(skip)]
    pub name: String,
    /// Where its catalog is.
    #[serde(default = "CatalogFiles::first", skip_serializing_if = "CatalogFiles::is_first")]
    pub files: CatalogFiles,
    /// ALTER DATABASE SET: what settings are at the start of a session, in the order in which that was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "set")]
    pub settings: Vec<(String, String)>,
    /// ALLOW_CONNECTIONS false
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "closed")]
    pub refuses_connections: bool,
    /// CONNECTION LIMIT: how many sessions it may have; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "most")]
    pub connection_limit: Option<u32>,
    /// IS_TEMPLATE: it cannot be dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "template")]
    pub is_template: bool,
    /// COMMENT ON DATABASE
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl DatabaseDefinition {
    /// A database of which nothing is said.
    pub fn new(oid: Oid, name: String, files: CatalogFiles) -> Self {
        Self {
            oid,
            name,
            files,
            settings: Vec::new(),
            refuses_connections: false,
            connection_limit: None,
            is_template: false,
            comment: None,
        }
    }

    /// The one that is always there, as long as nothing was said of it.
    pub fn first() -> Self {
        let (name, files) = (FIRST_DATABASE_NAME.to_owned(), CatalogFiles::FIRST);
        // PostgreSQL's remark.
        let comment = Some("default administrative connection database".to_owned());
        Self { comment, ..Self::new(FIRST_DATABASE, name, files) }
    }

    /// Whether it is the one that is always there.
    pub fn is_first(&self) -> bool {
        self.oid == FIRST_DATABASE
    }

    /// Its row.
    pub(crate) fn object(&self) -> Result<Object> {
        let (oid, name) = match self.is_first() {
            true => (ROW_OF_FIRST, String::new()),
            false => (self.oid, self.name.clone()),
        };
        let definition =
            serde_json::to_string(self).map_err(|e| damaged(self.oid.0, &e.to_string()))?;
        let (schema, kind) = (IN_PLACE_OF_SCHEMA, ObjectKind::Database);
        Ok(Object { oid, schema, name, kind, definition })
    }

    /// The database that a row is about.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] when it is about none.
    pub(crate) fn of_object(object: &Object) -> Result<Self> {
        let wrong = |detail: &str| damaged(object.oid.0, detail);
        let mut read: Self =
            serde_json::from_str(&object.definition).map_err(|e| wrong(&e.to_string()))?;
        let is_first = object.oid == ROW_OF_FIRST;
        if is_first != read.files.is_first() {
            return Err(wrong("a database with the files of another"));
        }
        if object.schema != IN_PLACE_OF_SCHEMA || is_first != object.name.is_empty() {
            return Err(wrong("a row of a database with the name or schema of something else"));
        }
        (read.oid, read.name) = match is_first {
            true => (FIRST_DATABASE, FIRST_DATABASE_NAME.to_owned()),
            false => (object.oid, object.name.clone()),
        };
        Ok(read)
    }
}

/// All databases, at one moment.
#[derive(Clone, Debug)]
pub struct DatabaseList {
    by_oid: BTreeMap<Oid, Arc<DatabaseDefinition>>,
}

impl Default for DatabaseList {
    /// The first one alone.
    fn default() -> Self {
        let first = Arc::new(DatabaseDefinition::first());
        Self { by_oid: BTreeMap::from([(first.oid, first)]) }
    }
}

impl DatabaseList {
    /// The one with this number.
    pub fn get(&self, oid: Oid) -> Option<&Arc<DatabaseDefinition>> {
        self.by_oid.get(&oid)
    }

    /// The one of this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<DatabaseDefinition>> {
        self.iter().find(|database| database.name == name)
    }

    /// All, in the order of their numbers.
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

    /// Lays changes of a transaction over what is committed.
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

    /// What was laid over it is committed.
    pub(crate) fn committed(&mut self) {
        self.own = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other() -> DatabaseDefinition {
        let files = CatalogFiles { objects: 20, by_oid: 21, by_name: 22 };
        DatabaseDefinition {
            settings: vec![("work_mem".to_owned(), "8MB".to_owned())],
            connection_limit: Some(3),
            ..DatabaseDefinition::new(Oid(16_400), "shop".to_owned(), files)
        }
    }

    #[test]
    fn a_row_says_what_it_was_made_of() {
        let first =
            DatabaseDefinition { comment: Some("c".to_owned()), ..DatabaseDefinition::first() };
        for database in [first, other()] {
            let row = database.object().unwrap();
            assert_eq!(DatabaseDefinition::of_object(&row).unwrap(), database);
        }
        // Before there were other databases, a comment was all that was said of the one.
        let row = Object {
            definition: r#"{"comment":"old"}"#.to_owned(),
            ..DatabaseDefinition::first().object().unwrap()
        };
        let read = DatabaseDefinition::of_object(&row).unwrap();
        assert_eq!(read.comment.as_deref(), Some("old"));
        assert!(read.is_first());
    }

    #[test]
    fn tables_are_known_by_their_database() {
        for database in [FIRST_DATABASE, Oid(16_384), Oid(u32::MAX)] {
            for table in [Oid(2), Oid(16_384), Oid(u32::MAX)] {
                let number = table_number(database, table);
                assert_eq!(of_table_number(number), (database, table));
            }
        }
        assert_eq!(table_number(FIRST_DATABASE, Oid(16_384)), TableId(16_384));
    }

    #[test]
    fn no_database_has_the_files_of_the_first() {
        let row = other().object().unwrap();
        let first = DatabaseDefinition::first().object().unwrap();
        let bad = [
            Object { definition: first.definition.clone(), ..row.clone() },
            Object { definition: row.definition.clone(), ..first.clone() },
            Object { name: String::new(), ..row.clone() },
            Object { name: "named".to_owned(), ..first },
            Object { schema: Oid(2200), ..row.clone() },
            Object { definition: "[]".to_owned(), ..row },
        ];
        for row in bad {
            assert!(DatabaseDefinition::of_object(&row).is_err(), "{row:?}");
        }
    }
}
