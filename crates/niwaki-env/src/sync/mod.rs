//! Threads, locks and atomics: real ones, or simulated ones in test builds.
//!
//! The deterministic scheduler (feature `shuttle`) or the model checker (feature `loom`) provides
//! the simulated ones. There is no poisoning: a panic inside a critical section ends the process,
//! any other panic ends one session.
//!
//! `std::sync::{Arc, Weak, OnceLock}` are fine to use beside these, with one care. Code inside
//! `OnceLock::get_or_init` must not wait, since the schedulers do not know that lock.

#[cfg(feature = "shuttle")]
pub mod bursts;
#[cfg(any(feature = "shuttle", feature = "loom"))]
mod modelled;
mod parker;
mod signal;
#[cfg(test)]
mod tests;

#[cfg(any(feature = "shuttle", feature = "loom"))]
pub use modelled::*;

#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod real;
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
pub use real::*;

pub use parker::Parker;
pub use signal::Signal;
pub use std::sync::Arc;

/// True if the deterministic scheduler chooses the interleaving. Tables of atomics are small then.
pub const SCHEDULED: bool = cfg!(feature = "shuttle");
/// True if the model checker chooses the interleaving. Tables of atomics are tiny then.
pub const MODEL_CHECKED: bool = cfg!(all(feature = "loom", not(feature = "shuttle")));

/// Atomics that are never a scheduling point: for statistics and bytes of pages, where a switch at
/// each access would cost much and reveal nothing.
pub use std::sync::atomic as plain_atomic;

/// Declares thread-local values. The deterministic scheduler's threads are not the machine's
/// threads, so `std::thread_local!` would give all of them one value.
#[macro_export]
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
macro_rules! thread_local {
    ($($declarations:tt)*) => { ::std::thread_local! { $($declarations)* } };
}

/// Declares thread-local values of the scheduler's threads.
#[macro_export]
#[cfg(feature = "shuttle")]
macro_rules! thread_local {
    ($($declarations:tt)*) => { $crate::sync::__shuttle::thread_local! { $($declarations)* } };
}

/// Declares thread-local values of the scheduler's threads.
#[macro_export]
#[cfg(all(feature = "loom", not(feature = "shuttle")))]
macro_rules! thread_local {
    ($($declarations:tt)*) => { $crate::sync::__loom::thread_local! { $($declarations)* } };
}

#[doc(hidden)]
#[cfg(feature = "shuttle")]
pub use shuttle as __shuttle;

#[doc(hidden)]
#[cfg(all(feature = "loom", not(feature = "shuttle")))]
pub use loom as __loom;
