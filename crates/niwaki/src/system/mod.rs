//! System relations: `pg_catalog` and `information_schema`, over the catalog and the running
//! database.
//!
//! - `roles`, `class_numbers`: roles, and numbers of the catalogs themselves.
//! - `monitor`: the running database, with views of Niwaki's own.
//! - `table`: a system relation, with the functions that make its values.
//! - `names`, `stored_types`: names of objects, and the properties of types.
//! - `relations`, `partitions`, `objects`, `routines`: `pg_class` and the catalogs around it.
//! - `information_schema`, `domains`, `composites`: relations of `information_schema`, and what
//!   catalogs show of domains.
//! - `constraints`, `keys`, `depend`, `descriptions`, `types`: catalogs over the files above.
//! - `own`: views that the running database fills.
//! - `catalogs`: all system relations.

pub(crate) mod catalogs;
pub(crate) mod class_numbers;
pub(crate) mod composites;
pub(crate) mod constraints;
pub(crate) mod depend;
pub(crate) mod descriptions;
pub(crate) mod domains;
pub(crate) mod information_schema;
pub(crate) mod keys;
pub(crate) mod monitor;
pub(crate) mod names;
pub(crate) mod objects;
pub(crate) mod own;
pub(crate) mod partitions;
pub(crate) mod relations;
pub(crate) mod roles;
pub(crate) mod routines;
pub(crate) mod stored_types;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod types;
