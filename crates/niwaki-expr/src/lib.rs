#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// PostgreSQL's regular expressions.
pub mod regexp;
// Random numbers from a seed.
pub mod seeded_random;
// Questions about stored definitions.
pub mod definitions;
// What a statement asks of tables.
pub mod store;
// What a statement gets from its session.
pub mod context;
// A function: its signature and implementation.
pub mod function;
// Tuplestores, and tables of keys.
pub mod spool;
// The analyzed query.
pub mod query;
// Trees of plans.
pub mod plan;
// What analysis and planning get from the session.
pub mod analysis;
// Evaluation without a session.
pub mod sessionless;
// Expressions and their evaluation.
pub mod expr;
