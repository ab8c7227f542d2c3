//! Values of any type, and their order.
//!
//! The order: a value (`datum`) with its containers (`array`, `record`), the order of a column
//! (`key_order`), and comparison (`compare`).

pub(crate) mod array;
pub(crate) mod compare;
pub(crate) mod datum;
pub(crate) mod key_order;
pub(crate) mod record;
