//! Types: their numbers, their names, and the types that users define.
//!
//! The order: columns and names of types (`column`, `object_types`), names in SQL (`identifier`),
//! enums, domains and composite types (`user_types`).

pub(crate) mod column;
pub(crate) mod identifier;
pub(crate) mod object_types;
pub(crate) mod user_types;
