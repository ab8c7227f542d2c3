//! Values of any type, and their order.
//!
//! The order: a value (`datum`) with its containers (`array`, `record`), and comparison
//! (`compare`).

pub(crate) mod array;
pub(crate) mod compare;
pub(crate) mod datum;
pub(crate) mod record;
