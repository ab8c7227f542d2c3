//! Snapshots: the commits that a statement sees, and the versions that must stay for it.
//!
//! The order: commands inside a transaction (`command`), slots, snapshots and the horizon
//! (`snapshot`).

pub(crate) mod command;
pub(crate) mod snapshot;
