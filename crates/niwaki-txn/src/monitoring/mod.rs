//! Sessions, snapshots and locks, as monitoring shows them.
//!
//! The order: registered snapshots (`holders`), the oldest transaction that one does not see
//! (`unseen`), locks held and awaited (`info`).

pub(crate) mod holders;
pub(crate) mod info;
pub(crate) mod unseen;
