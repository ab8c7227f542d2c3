#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Errors, with their SQLSTATEs.
pub mod error;
// Types: names, categories, casts.
pub mod types;
// Collations by name.
pub mod collation;
// Names of the kinds of nodes.
mod kind_name;
// Syntax trees with owners in other crates.
pub mod tree;
// Text to syntax trees.
pub mod parse;
// Visits of the nodes of a tree.
pub mod walk;
// Renames of columns in stored texts.
pub mod column_names;
// Numbers in place of names.
pub mod stored_references;
// Names with a database.
pub mod database_name;
// Definitions and commands.
pub mod utility;
// The formats of COPY.
pub mod copy;
