#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod build;
mod catalog;
mod compile;
mod definition;
mod error;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod objects;
mod overlay;
mod relation;
mod scan;
mod state;
mod system;
mod temporary;
mod types;

pub use build::missing_text;
pub use catalog::Catalog;
pub use compile::ExpressionCompiler;
pub use overlay::{CatalogChanges, CatalogTransaction};

pub use definition::{
    Check, Column, ColumnStats, Constraint, ConstraintKind, ConstraintTime, Identity, IndexColumn,
    IndexDefinition, KeyBytes, Oid, RelationDefinition, RelationKind, RelationOptions,
    RelationStats, SequenceDefinition, StoredExpression,
};
pub use error::{Error, Result};
pub use relation::{IndexEntry, Relation};
pub use state::{
    CatalogState, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA, SchemaEntry, SearchPath,
};
pub use system::{SystemSource, VirtualTable};
pub use types::{StoredLabel, TypeDefinition, TypeKind};
