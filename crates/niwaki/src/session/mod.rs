//! The session: its handle, its state, and its transaction.

pub(crate) mod errors;
pub(crate) mod handle;
pub(crate) mod noted;
pub(crate) mod portal;
pub(crate) mod transaction;
pub(crate) mod type_names;
