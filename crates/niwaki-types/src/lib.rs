#![doc = include_str!("../README.md")]

mod datum;

pub use datum::*;

mod placeholder;
pub use placeholder::*;
