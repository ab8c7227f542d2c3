//! Large values: compressed in their row, or out of line in a heap of their own.
//!
//! ```text
//!  heap of the table                    value heap
//!  v1 │ 7 │ pointer p │ ···             piece 1 ──► piece 2 ──► piece 3      all of transaction 40
//!  v2 │ 8 │ pointer p │ ···  (kept)       ▲
//!  v3 │ 8 │ pointer q │ ···  (replaced)   └─ p: first piece, transaction 40, lengths, method
//! ```
//!
//! - `placement`: decides which values of a row are compressed or go out of line.
//! - `pieces`: stores the bytes of an out-of-line value as a list of rows (TOAST chunks).
//! - `pointers`: the pointers of a row to such values, and the ends of the values.
//! - `resolve`: reads rows with such values.
//! - `check`: checks versions against pieces.
//!
//! `row/form_row.rs` writes rows with such values. `cleaning/value_cleanup.rs` frees the space of
//! removed pieces.
//!
//! **A piece lives as long as the versions that name it.** The transaction that writes the first of
//! them inserts the piece. The transaction that ends the last of them ends the piece. The README
//! says why no snapshot misses a piece.

pub(crate) mod check;
#[cfg(test)]
mod format_tests;
pub(crate) mod pieces;
pub(crate) mod placement;
pub(crate) mod pointers;
pub(crate) mod resolve;
