#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it.
//
// Errors of the catalog.
mod error;
// Objects as rows, and the table that has these rows.
mod rows;
// Definitions of relations, types, functions, schemas and databases.
mod definition;
// Facts that PostgreSQL has built in.
mod postgres;
// Bounds of partitions in the form that is compared with rows.
mod partition;
// All objects as one moment has them.
mod state;
// Opening of the tables that definitions describe.
mod opening;
// The catalog of a database, and the transactions that change it.
mod change;
// Fuzz targets of the decoders.
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;

pub use change::catalog::Catalog;
pub use change::overlay::{CatalogChanges, CatalogTransaction};
pub use change::shared::SharedCatalog;
pub use definition::constraint::{Check, Constraint, ConstraintKind, ConstraintTime};
pub use definition::database::{
    DatabaseDefinition, FIRST_DATABASE, FIRST_DATABASE_NAME, of_table_number, table_number,
};
pub use definition::foreign_key::{ForeignKey, ReferentialAction};
pub use definition::function_definition::{
    FunctionDefinition, FunctionLanguage, FunctionParallel, FunctionParameter, FunctionTraits,
    FunctionVolatility, ParameterMode, TRIGGER_TYPE,
};
pub use definition::partition_key::{
    PartitionBound, PartitionKey, PartitionOf, PartitionStrategy, RangeValue,
};
pub use definition::relation_definition::{
    Column, ColumnStats, Identity, IndexColumn, IndexDefinition, KeyBytes, RelationDefinition,
    RelationKind, RelationOptions, RelationStats, SequenceDefinition, StoredExpression,
};
pub use definition::schema::{
    INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA, SchemaEntry, SearchPath,
};
pub use definition::trigger::{Trigger, TriggerEvent, TriggerMode, TriggerTime};
pub use definition::type_definition::{
    DomainDefinition, StoredAttribute, StoredLabel, TypeDefinition, TypeKind,
};
pub use definition::view::{
    BoundName, CheckOption, LiteralSettings, Meaning, ViewDefinition, ViewSource,
};
pub use error::{Error, Result};
pub use opening::build::missing_text;
pub use opening::compile::ExpressionCompiler;
pub use partition::bound::{Bound, Edge, compare_edges, decode_bound};
pub use partition::bound_text::{bound_text, partition_key_text, range_text};
pub use partition::column_map::ColumnMap;
pub use partition::partition_hash::is_hashable_key;
pub use postgres::builtin::{
    BuiltinColumn, BuiltinFunction, BuiltinOperator, BuiltinOperatorClass, BuiltinRelation,
    BuiltinRows, BuiltinType, Builtins, builtin_functions, builtin_kind, builtin_operator_classes,
    builtin_operators, builtin_relations, builtin_rows, builtin_types, builtin_value,
};
pub use postgres::collation::{collation_name, collations, type_collation};
pub use rows::objects::CatalogFiles;
pub use rows::oid::Oid;
pub use state::catalog_state::CatalogState;
pub use state::databases::DatabaseList;
pub use state::numbering::{
    CHECKS_MAX, NumberedConstraint, SEQUENCE_COLUMNS, TableConstraint, check_oid, default_oid,
    label_oid, rule_oid,
};
pub use state::partitions::{Leaf, NoPartition, Partition, Partitions};
pub use state::relation::{IndexEntry, Relation};
pub use state::system::{Key, NoSystem, SystemSource, VirtualTable};
