//! Definitions of partitioned tables, and of what partitions get from them.

pub(crate) mod alter_only;
pub(crate) mod alter_partitioned;
pub(crate) mod attach;
pub(crate) mod bound;
pub(crate) mod part_foreign_keys;
pub(crate) mod part_indexes;
pub(crate) mod part_triggers;
