#![doc = include_str!("../README.md")]

pub mod bugs;
pub mod clock;
pub mod critical;
mod environment;
pub mod hash;
#[doc(hidden)]
pub mod hostile;
mod invariant;
pub mod memory;
pub mod outside;
pub mod rare;
pub mod rng;
pub mod stack;
pub mod sync;
pub mod vfs;

pub use environment::{AbortHook, Crashed, Env, SIMULATED};
