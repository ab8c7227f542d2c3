//! Definitions of types.
//!
//! - `user_type`: types of any kind, and enums.
//! - `composites`, `domains`: the other kinds.

pub(crate) mod composites;
pub(crate) mod domains;
pub(crate) mod user_type;
