//! Open relations: tables, their indexes and sequences, with the memory that belongs to them.
//!
//! - `expression`, `definition`: what the catalog says of a table and its indexes.
//! - `count`, `update_stats`, `learned_fillfactor`, `stats`: counters, and the lessons from them.
//! - `baseline`: these counters at the last VACUUM and ANALYZE.
//! - `suspects`, `expired_prefix`: what memory knows about the entries of an index.
//! - `sequence_state`: the position of a sequence, in memory and on its page.
//! - `engine`: finds the state of each open relation.
//! - `sequence`: numbers that are given out once.
//! - `table_index`: the handle of an index of a table.
//! - `plain_key`: keys of stored versions, read from their bytes.
//! - `observer`: answers questions of heap passes about the keys of a table.
//! - `table`: the handle of a table.

pub(crate) mod baseline;
pub(crate) mod count;
pub(crate) mod definition;
pub(crate) mod engine;
pub(crate) mod expired_prefix;
pub(crate) mod expression;
pub(crate) mod learned_fillfactor;
pub(crate) mod observer;
pub(crate) mod plain_key;
pub(crate) mod sequence;
pub(crate) mod sequence_state;
pub(crate) mod stats;
pub(crate) mod suspects;
pub(crate) mod table;
pub(crate) mod table_index;
pub(crate) mod update_stats;
