//! Data definition statements: CREATE, ALTER, DROP, TRUNCATE.
//!
//! - `definer`: the context of a running statement, and the dispatch of statements.
//! - `names`, `options`, `column_rules`, `collation`: parts of many statements.
//! - `object`, `named`, `depend`: dependents of objects.
//! - `index`, `partition`, `table`, `view`, `types`, `routine`: definitions by the kind of object.
//! - `sequence`, `schema`, `temporary`: sequences, schemas and temporary relations.
//! - `comment`, `rename`, `drop`: statements about objects of all kinds.

pub(crate) mod collation;
pub(crate) mod column_rules;
pub(crate) mod comment;
pub(crate) mod definer;
pub(crate) mod depend;
pub(crate) mod drop;
pub(crate) mod index;
pub(crate) mod named;
pub(crate) mod names;
pub(crate) mod object;
pub(crate) mod options;
pub(crate) mod partition;
pub(crate) mod rename;
pub(crate) mod routine;
pub(crate) mod schema;
pub(crate) mod sequence;
pub(crate) mod table;
pub(crate) mod temporary;
pub(crate) mod types;
pub(crate) mod view;
