//! Threads, locks and atomics: real ones, or those of the deterministic scheduler (feature
//! `shuttle`) or of the model checker (feature `loom`). No poisoning: a panic inside a critical
//! section ends the process, any other panic ends one session.
//!
//! `std::sync::{Arc, Weak, OnceLock}` are fine to use beside these, with one care: nothing inside
//! `OnceLock::get_or_init` may wait, since the schedulers know nothing of that lock.

mod parker;

#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod real;
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
pub use real::*;

pub use parker::Parker;
pub use std::sync::Arc;

/// Atomics that are never a scheduling point: statistics, and bytes of pages, where a switch at
/// each access would cost much and show nothing.
pub use std::sync::atomic as plain_atomic;
