//! Definitions of tables, their columns and their constraints.

pub(crate) mod alter;
pub(crate) mod alter_column;
pub(crate) mod column_type;
pub(crate) mod constraint;
pub(crate) mod create_as;
pub(crate) mod create_table;
pub(crate) mod foreign_key;
pub(crate) mod identity;
pub(crate) mod like;
pub(crate) mod refused_actions;
pub(crate) mod rewrite;
pub(crate) mod truncate;
