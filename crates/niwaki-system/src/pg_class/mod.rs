//! `pg_class` and the catalogs around it.
//!
//! - `relations`: `pg_class`, `pg_attribute`, `pg_index` and other catalogs of relations.
//! - `partitions`: bounds of partitions.
//! - `objects`: schemas, databases, roles, views and indexes.
//! - `routines`: functions, operators and triggers.

pub(crate) mod objects;
pub(crate) mod partitions;
pub(crate) mod relations;
pub(crate) mod routines;
