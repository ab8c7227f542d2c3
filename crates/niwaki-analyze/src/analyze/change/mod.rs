//! Changes: INSERT, UPDATE, DELETE and MERGE, also of views.

pub(super) mod conflict;
pub(super) mod current_of;
pub(super) mod dml;
pub(super) mod insert;
pub(super) mod merge;
pub(super) mod partitions;
pub(super) mod updatable;
pub(super) mod write_view;
