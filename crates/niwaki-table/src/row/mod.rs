//! Changes of rows: insertions, updates, deletions and locks.
//!
//! - `outcome`: the outcomes that callers see.
//! - `row_queue`: waits for rows that others change or lock.
//! - `deferred`: unique checks at the end of a statement or of the transaction.
//! - `workspace`: the buffers of a session.
//! - `insert`: puts a row into the heap, and its entries into the indexes.
//! - `form_row`: forms rows, and replaces versions.
//! - `back_pressure`: delays updates while an old snapshot makes indexes grow.
//! - `update`: updates, deletes and locks a row.
//! - `conflict`: inserts a row, or locks the row that has its key (ON CONFLICT).

pub(crate) mod back_pressure;
pub(crate) mod conflict;
pub(crate) mod deferred;
pub(crate) mod form_row;
pub(crate) mod insert;
pub(crate) mod outcome;
pub(crate) mod row_queue;
pub(crate) mod update;
pub(crate) mod workspace;
