#![doc = include_str!("../README.md")]

pub mod bugs;
pub mod clock;
pub mod critical;
mod environment;
pub mod failpoints;
#[doc(hidden)]
pub mod hostile;
pub mod outside;
pub mod rng;
pub mod stack;
pub mod sync;
pub mod vfs;

pub use environment::{AbortHook, Crashed, Env};
