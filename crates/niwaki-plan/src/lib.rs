#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod ahead;
pub mod planning;
pub mod rewrite;
