#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod definition;
mod error;
mod relation;
mod state;
mod system;

pub use definition::{
    Check, Column, Constraint, ConstraintKind, Identity, IndexColumn, IndexDefinition, Oid,
    RelationDefinition, RelationKind, RelationOptions, RelationStats, SequenceDefinition,
};
pub use error::{Error, Result};
pub use relation::{IndexEntry, Relation};
pub use state::{
    CatalogState, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA, SchemaEntry, SearchPath,
};
pub use system::{SystemSource, VirtualTable};
