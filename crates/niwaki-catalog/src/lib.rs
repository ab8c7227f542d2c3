#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod build;
mod builtin;
mod catalog;
mod collation;
mod compile;
mod database;
mod definition;
mod error;
mod foreign_key;
mod function;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod lasting;
mod numbering;
mod objects;
mod overlay;
mod partition;
mod partition_hash;
mod relation;
mod remark;
mod scan;
mod shared;
mod state;
mod system;
mod temporary;
mod trigger;
mod types;
mod view;

pub use build::missing_text;
pub use builtin::{
    BuiltinColumn, BuiltinFunction, BuiltinOperator, BuiltinOperatorClass, BuiltinRelation,
    BuiltinRows, BuiltinType, Builtins, builtin_functions, builtin_kind, builtin_operator_classes,
    builtin_operators, builtin_relations, builtin_rows, builtin_types, builtin_value,
};
pub use catalog::Catalog;
pub use collation::{collation_name, collations, type_collation};
pub use compile::ExpressionCompiler;
pub use database::{
    DatabaseDefinition, DatabaseList, FIRST_DATABASE, FIRST_DATABASE_NAME, of_table_number,
    table_number,
};
pub use objects::CatalogFiles;
pub use overlay::{CatalogChanges, CatalogTransaction};

pub use definition::{
    Check, Column, ColumnStats, Constraint, ConstraintKind, ConstraintTime, Identity, IndexColumn,
    IndexDefinition, KeyBytes, Oid, RelationDefinition, RelationKind, RelationOptions,
    RelationStats, SequenceDefinition, StoredExpression,
};
pub use error::{Error, Result};
pub use foreign_key::{ForeignKey, ReferentialAction};
pub use function::{
    FunctionDefinition, FunctionLanguage, FunctionParallel, FunctionParameter, FunctionTraits,
    FunctionVolatility, ParameterMode, TRIGGER_TYPE,
};
pub use numbering::{
    CHECKS_MAX, NumberedConstraint, SEQUENCE_COLUMNS, TableConstraint, check_oid, default_oid,
    label_oid, rule_oid,
};
pub use partition::{
    Bound, ColumnMap, Edge, Leaf, NoPartition, Partition, PartitionBound, PartitionKey,
    PartitionOf, PartitionStrategy, Partitions, RangeValue, bound_text, compare_edges,
    decode_bound, partition_key_text, range_text,
};
pub use partition_hash::is_hashable_key;
pub use relation::{IndexEntry, Relation};
pub use shared::SharedCatalog;
pub use state::{
    CatalogState, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA, SchemaEntry, SearchPath,
};
pub use system::{Key, SystemSource, VirtualTable};
pub use trigger::{Trigger, TriggerEvent, TriggerMode, TriggerTime};
pub use types::{DomainDefinition, StoredAttribute, StoredLabel, TypeDefinition, TypeKind};
pub use view::{BoundName, CheckOption, LiteralSettings, Meaning, ViewDefinition, ViewSource};
