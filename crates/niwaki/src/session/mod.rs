//! The session: its handle, its state, and its transaction.

pub(crate) mod block;
pub(crate) mod connect;
pub(crate) mod deferred;
pub(crate) mod epoch;
pub(crate) mod errors;
pub(crate) mod handle;
pub(crate) mod noted;
pub(crate) mod plan_costs;
pub(crate) mod portal;
pub(crate) mod reference_plans;
pub(crate) mod running;
pub(crate) mod sequence_values;
pub(crate) mod statement;
pub(crate) mod terminator;
pub(crate) mod transaction;
pub(crate) mod type_names;
