#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing imports only from the wings before it in this list. The methods
// of `Definer` stand in all of them, and call each other.

// Parts of many statements.
mod column_rules;
mod generated_names;
mod options;

// The context of a running statement, and the dispatch of statements.
mod definer;

// Errors about collations.
mod collation;

// Dependents of objects.
mod object;

mod expression_dependents;

mod depend;

// Indexes, and the constraints that use them.
mod index;

mod constraint;

// Enums, composite types and domains.
mod types;

// Functions and triggers.
mod routine;

// Partitioned tables, and what partitions get from them.
mod partition;

// Tables and their columns.
mod table;

// Views and materialized views.
mod view;

// Sequences, schemas and temporary relations.
mod schema;

mod sequence;

mod temporary;

// Statements about objects of all kinds.
mod comment;

mod drop;

mod rename;

// The statements, as a session calls them.
mod statements;

pub use statements::DataDefinition;
