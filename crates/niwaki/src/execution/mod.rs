//! Execution: queries of a session, with all that ends a statement.

pub(crate) mod at_end;
pub(crate) mod constraints;
pub(crate) mod current_row;
pub(crate) mod environment;
pub(crate) mod foreign_keys;
pub(crate) mod opened;
pub(crate) mod orphans;
pub(crate) mod planning;
pub(crate) mod query;
pub(crate) mod reference_query;
pub(crate) mod source;
pub(crate) mod statement_end;
pub(crate) mod store;
