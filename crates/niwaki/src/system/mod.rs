//! What `pg_catalog` and `information_schema` show: relations of the catalog and of the running
//! database.

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
