//! Definitions of the databases of one directory.
//!
//! All databases but the first are rows of the first one's catalog. The first database always
//! exists.

use niwaki_txn::TableId;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::rows::objects::{CatalogFiles, Object, ObjectKind, damaged};
use crate::rows::oid::Oid;

/// The number of the first database, which always exists (PostgreSQL's number of `postgres`).
pub const FIRST_DATABASE: Oid = Oid(5);
/// The name of the first database.
pub const FIRST_DATABASE_NAME: &str = "postgres";

/// Returns the number by which locks, counters and the log of changes know a table. Tables of two
/// databases never share a number. For locks, a database is a table of the first database.
pub fn table_number(database: Oid, table: Oid) -> TableId {
    let base = if database == FIRST_DATABASE { 0 } else { u64::from(database.0) << 32 };
    TableId(base | u64::from(table.0))
}

/// Splits a table's number into its database and the table's number there.
pub fn of_table_number(number: TableId) -> (Oid, Oid) {
    let [a, b, c, d, e, f, g, h] = number.0.to_be_bytes();
    let (database, table) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let database = Some(Oid(database)).filter(|database| *database != Oid::INVALID);
    (database.unwrap_or(FIRST_DATABASE), Oid(table))
}

/// Number in place of a schema in rows of databases. No schema has it, so a database's name
/// collides with no relation's.
const IN_PLACE_OF_SCHEMA: Oid = Oid(1);
/// The number under which the first database is stored once it has properties. Its row has no name.
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
    /// Files of the database's catalog.
    #[serde(default = "CatalogFiles::first", skip_serializing_if = "CatalogFiles::is_first")]
    pub files: CatalogFiles,
    /// ALTER DATABASE SET: settings at the start of a session, in the order in which they were
    /// given.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "set")]
    pub settings: Vec<(String, String)>,
    /// `ALLOW_CONNECTIONS` false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "closed")]
    pub refuses_connections: bool,
    /// CONNECTION LIMIT: the most sessions; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "most")]
    pub connection_limit: Option<u32>,
    /// `IS_TEMPLATE`: the database cannot be dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "template")]
    pub is_template: bool,
    /// COMMENT ON DATABASE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl DatabaseDefinition {
    /// Creates a database's definition without any properties.
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

    /// Returns the definition of the first database before any change of it.
    pub fn first() -> Self {
        let (name, files) = (FIRST_DATABASE_NAME.to_owned(), CatalogFiles::FIRST);
        // PostgreSQL's comment.
        let comment = Some("default administrative connection database".to_owned());
        Self { comment, ..Self::new(FIRST_DATABASE, name, files) }
    }

    /// Decides whether this is the first database, which always exists.
    pub fn is_first(&self) -> bool {
        self.oid == FIRST_DATABASE
    }

    /// Returns the row of the database.
    pub(crate) fn object(&self) -> Result<Object> {
        let (oid, name) = if self.is_first() {
            (ROW_OF_FIRST, String::new())
        } else {
            (self.oid, self.name.clone())
        };
        let definition =
            serde_json::to_string(self).map_err(|e| damaged(self.oid.0, &e.to_string()))?;
        let (schema, kind) = (IN_PLACE_OF_SCHEMA, ObjectKind::Database);
        Ok(Object { oid, schema, name, kind, definition })
    }

    /// Reads the database that a row describes.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] when the row describes no database.
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
        (read.oid, read.name) = if is_first {
            (FIRST_DATABASE, FIRST_DATABASE_NAME.to_owned())
        } else {
            (object.oid, object.name.clone())
        };
        Ok(read)
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
        // Older versions stored only a comment, and only of the first database.
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
