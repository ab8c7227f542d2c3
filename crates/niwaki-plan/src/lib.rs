#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Values computed ahead of execution.
pub mod early_evaluation;
// Equivalent queries with better plans.
pub mod rewrite;
// The choice of a plan.
pub mod planning;
