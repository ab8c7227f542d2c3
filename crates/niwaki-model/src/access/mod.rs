//! Access to the shared state, under latches.

pub(crate) mod durable;
pub(crate) mod locks;
