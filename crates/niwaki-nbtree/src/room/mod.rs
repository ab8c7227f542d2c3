//! Room on a full leaf, before it is split.
//!
//! The order: the entries of a leaf by heap block, the blocks to visit, the passes that delete or
//! merge entries, the ladder of these passes, then room on right siblings. Last comes the count of
//! leaves that are split all the same, because of an old snapshot.

pub(crate) mod bottom_up;
pub(crate) mod by_block;
pub(crate) mod dedup;
pub(crate) mod make_room;
pub(crate) mod shift;
pub(crate) mod siblings;
pub(crate) mod simple_delete;
pub(crate) mod snapshot_blocked;
pub(crate) mod visits;
