//! Definitions of types.

pub(crate) mod composites;
pub(crate) mod domains;
pub(crate) mod user_type;
