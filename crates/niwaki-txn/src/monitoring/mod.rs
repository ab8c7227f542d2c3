//! Sessions, snapshots and locks, as monitoring shows them.
//!
//! The order: registered snapshots (`registered_snapshots`), the xmin of a snapshot
//! (`snapshot_xmin`), locks held and awaited (`lock_list`).

pub(crate) mod lock_list;
pub(crate) mod registered_snapshots;
pub(crate) mod snapshot_xmin;
