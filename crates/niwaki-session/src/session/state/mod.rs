//! Parts of a session's state. Each part keeps its fields to itself. Only the records in `block`
//! have open fields.
//!
//! - `block`, `deferred`: states of a block, and deferred checks.
//! - `identity`: the session as others know it.
//! - `command`: the running command.
//! - `transaction_block`: the transaction block with its savepoints.
//! - `checks`: checks of constraints that wait.
//! - `messages`: messages between sessions.
//! - `portals`, `statements`: open portals, and prepared statements.
//! - `text_form`: how values are shown as text.
//! - `path_cache`: the resolved search path.
//! - `buffers`: memory of statements.

pub(crate) mod block;
pub(crate) mod buffers;
pub(crate) mod checks;
pub(crate) mod command;
pub(crate) mod deferred;
pub(crate) mod identity;
pub(crate) mod messages;
pub(crate) mod path_cache;
pub(crate) mod portals;
pub(crate) mod statements;
pub(crate) mod text_form;
pub(crate) mod transaction_block;
