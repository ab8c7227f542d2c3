//! Parts of a session's state. Each part keeps its fields to itself.
//!
//! - `portals`, `statements`: open portals, and prepared statements.

pub(crate) mod portals;
pub(crate) mod statements;
