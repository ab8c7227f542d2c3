//! Schemas: their numbers, their definitions, and paths through them.

use crate::rows::oid::Oid;

/// Oid of schema `pg_catalog`, as in PostgreSQL.
pub const PG_CATALOG: Oid = Oid(11);
/// Oid of schema `public`, as in PostgreSQL.
pub const PUBLIC_SCHEMA: Oid = Oid(2200);
/// Oid of schema `information_schema`.
pub const INFORMATION_SCHEMA: Oid = Oid(13000);

/// A schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaEntry {
    /// Number.
    pub oid: Oid,
    /// Name.
    pub name: String,
    /// COMMENT ON SCHEMA.
    pub comment: Option<String>,
}

impl SchemaEntry {
    /// Creates a schema without a comment.
    pub fn new(oid: Oid, name: impl Into<String>) -> Self {
        Self { oid, name: name.into(), comment: None }
    }
}

/// Schemas in which an unqualified name is looked up, in order. The session's temporary relations
/// come first, then `pg_catalog`, unless the path lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// Schemas that exist, in order, `pg_catalog` included.
    pub schemas: Vec<Oid>,
    /// Schema in which CREATE puts new objects: the first listed schema that exists.
    pub creation: Option<Oid>,
}
