//! Large values: compressed in their row, or out of line in a heap of their own.
//!
//! ```text
//!  heap of the table                    value heap
//!  v1 │ 7 │ pointer p │ ···             piece 1 ──► piece 2 ──► piece 3      all of transaction 40
//!  v2 │ 8 │ pointer p │ ···  (kept)       ▲
//!  v3 │ 8 │ pointer q │ ···  (replaced)   └─ p: first piece, transaction 40, lengths, method
//! ```
//!
//! - `form`: which values of a row are compressed, and which go out of line.
//! - `pieces`: the bytes of a value out of line, as a list of rows.
//! - `row`: rows written with such values.
//! - `resolve`: rows read with them.
//! - `tend`: the room of pieces that went.
//! - `check`: that versions and pieces fit each other.
//!
//! **A piece lives as long as the versions that name it.** It is inserted by the transaction that writes the first
//! of them, and ended by the one that ends the last: the README says why no snapshot misses one.

mod check;
mod form;
#[cfg(test)]
mod format_tests;
mod pieces;
mod resolve;
mod row;
mod tend;

pub use form::can_have_large_values;
pub(crate) use resolve::Reading;
