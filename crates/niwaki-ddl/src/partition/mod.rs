//! Definitions of partitioned tables, and of what partitions get from them.
//!
//! - `bound`: the rows that a partition takes.
//! - `attach`: partition keys, and partitions that are made, attached and detached.
//! - `part_indexes`, `part_foreign_keys`, `part_triggers`: parts that a partition gets.
//! - `alter_partitioned`, `alter_only`: ALTER TABLE with and without the partitions.

pub(crate) mod alter_only;
pub(crate) mod alter_partitioned;
pub(crate) mod attach;
pub(crate) mod bound;
pub(crate) mod part_foreign_keys;
pub(crate) mod part_indexes;
pub(crate) mod part_triggers;
