//! The session, the catalog, and what is stored.

pub(super) mod advisory;
pub(super) mod column_size;
pub(super) mod definitions;
pub(super) mod information;
pub(super) mod inspect;
pub(super) mod objects;
pub(super) mod partition_constraint;
pub(super) mod partitions;
pub(super) mod prewarm;
pub(super) mod privileges;
pub(super) mod routines;
pub(super) mod sizes;
pub(super) mod system;
