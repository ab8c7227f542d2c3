//! Types: their numbers, their names, and the types that users define.
//!
//! The order: the number (`oid`), types with their modifiers and the types of catalog columns
//! (`column`, `object_types`), names in SQL (`identifier`), enums, domains and composite types
//! (`user_types`).

pub(crate) mod column;
pub(crate) mod identifier;
pub(crate) mod object_types;
pub(crate) mod oid;
pub(crate) mod user_types;
