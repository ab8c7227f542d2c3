#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The row of a sequence.
pub mod sequence_row;
// Bodies in PL/pgSQL.
pub mod plpgsql;
// Syntax trees to queries.
pub mod analyze;
// Queries and definitions as text.
pub mod deparse;
// Generated columns and other expressions over a row.
pub mod generated;
// Expressions and predicates of indexes.
pub mod index_expression;
