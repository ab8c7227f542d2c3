//! Operations on values: arithmetic, and conversions between types.
//!
//! The order: arithmetic (`arith`), then conversions (`jsonb_cast`, `cast`).

pub mod arith;
pub(crate) mod cast;
pub(crate) mod jsonb_cast;
