//! Definitions of indexes.
//!
//! - `operator_class`: operator classes.
//! - `new_index`: an index before it is stored.
//! - `create_index`: CREATE INDEX, and the steps that make any index.
//! - `concurrent`: statements with CONCURRENTLY, in several transactions.

pub(crate) mod concurrent;
pub(crate) mod create_index;
pub(crate) mod new_index;
pub(crate) mod operator_class;
