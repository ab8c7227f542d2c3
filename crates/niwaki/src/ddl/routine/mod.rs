//! Definitions of functions and triggers.

pub(crate) mod function;
pub(crate) mod trigger;
