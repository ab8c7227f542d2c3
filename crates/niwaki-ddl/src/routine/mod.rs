//! Definitions of functions and triggers.
//!
//! - `function`: functions.
//! - `trigger`: triggers, which call functions.

pub(crate) mod function;
pub(crate) mod trigger;
