//! Definitions of tables, their columns and their constraints.
//!
//! - `create_table`, `like`, `create_as`: new tables.
//! - `foreign_key`, `identity`: foreign keys, and columns that get their values.
//! - `alter`, `alter_column`, `column_type`, `refused_actions`: ALTER TABLE.
//! - `rewrite`, `truncate`: new files for a table.

pub(crate) mod alter;
pub(crate) mod alter_column;
pub(crate) mod column_type;
pub(crate) mod create_as;
pub(crate) mod create_table;
pub(crate) mod foreign_key;
pub(crate) mod identity;
pub(crate) mod like;
pub(crate) mod refused_actions;
pub(crate) mod rewrite;
pub(crate) mod truncate;
