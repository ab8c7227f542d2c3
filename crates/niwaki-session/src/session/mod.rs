//! The session: its handle, its state, and its transaction.
//!
//! - `epoch`, `errors`, `type_names`: times, errors and types as clients see them.
//! - `sequence_values`, `after_trigger_queue`: values of sequences, and the after-trigger queue.
//! - `reference_plans`, `plan_costs`: plans that the session keeps.
//! - `statement`, `running_query`, `portal`: prepared statements, begun queries, and portals.
//! - `state`: parts of the session's state, each with private fields.
//! - `definitions`: the statements that define, as a session calls them.
//! - `terminator`: ends a session from another thread.
//! - `handle`: the session, with the state above.
//! - `lookup`, `reports`: relations by name, and what the client is told beside rows.
//! - `transaction`: transaction blocks and savepoints.
//! - `files`, `temporary`: files of relations, and temporary relations, at the end.
//! - `connect`: opens sessions.

pub(crate) mod after_trigger_queue;
pub(crate) mod connect;
pub(crate) mod definitions;
pub(crate) mod epoch;
pub(crate) mod errors;
pub(crate) mod files;
pub(crate) mod handle;
pub(crate) mod lookup;
pub(crate) mod plan_costs;
pub(crate) mod portal;
pub(crate) mod reference_plans;
pub(crate) mod reports;
pub(crate) mod running_query;
pub(crate) mod sequence_values;
pub(crate) mod state;
pub(crate) mod statement;
pub(crate) mod temporary;
pub(crate) mod terminator;
pub(crate) mod transaction;
pub(crate) mod type_names;
