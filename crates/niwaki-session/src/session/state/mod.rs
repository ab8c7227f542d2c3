//! Parts of a session's state. Each part keeps its fields to itself.
//!
//! - `transaction_block`: the transaction block with its savepoints.
//! - `checks`: checks of constraints that wait.
//! - `portals`, `statements`: open portals, and prepared statements.

pub(crate) mod checks;
pub(crate) mod portals;
pub(crate) mod statements;
pub(crate) mod transaction_block;
