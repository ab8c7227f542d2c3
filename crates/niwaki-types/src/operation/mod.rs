//! Operations on values: arithmetic, and conversions between types.
//!
//! The order: arithmetic (`checked_arithmetic`), then conversions (`jsonb_cast`, `cast`).

pub(crate) mod cast;
pub mod checked_arithmetic;
pub(crate) mod jsonb_cast;
