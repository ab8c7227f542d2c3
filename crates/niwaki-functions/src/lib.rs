#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Functions and operators, by subject.
pub mod functions;
// Aggregates.
pub mod aggregates;
// The functions and operators that the catalog shows.
pub mod catalog_functions;
