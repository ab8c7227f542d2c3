#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod context;
pub mod definitions;
pub mod expr;
pub mod function;
pub mod plan;
pub mod query;
pub mod regexp;
pub mod seeded_random;
pub mod sessionless;
pub mod spool;
pub mod store;
