//! Relations of `information_schema`, and what catalogs show of domains.
//!
//! - `information_schema`: tables, columns, views and routines.
//! - `domains`: domains and their constraints.
//! - `composites`: attributes of composite types.

pub(crate) mod composites;
pub(crate) mod domains;
pub(crate) mod information_schema;
