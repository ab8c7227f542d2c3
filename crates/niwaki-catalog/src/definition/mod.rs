//! Definitions of objects, as the catalog stores them.
//!
//! - `omitted`: values that a definition leaves out.
//! - `constraint`, `foreign_key`, `trigger`, `view`, `partition_key`: the parts of a relation.
//! - `relation_definition`: relations: their columns, indexes, sequences, options and statistics.
//! - `relation_object`: relations as stored objects.
//! - `type_definition`, `function_definition`: types and functions.
//! - `remark`, `schema`: schemas, and paths through them.
//! - `database`: databases, and the numbers of their tables.
//! - `cached`: reading of a definition that an opened relation keeps.

pub(crate) mod cached;
pub(crate) mod constraint;
pub(crate) mod database;
pub(crate) mod foreign_key;
pub(crate) mod function_definition;
pub(crate) mod omitted;
pub(crate) mod partition_key;
pub(crate) mod relation_definition;
pub(crate) mod relation_object;
pub(crate) mod remark;
pub(crate) mod schema;
pub(crate) mod trigger;
pub(crate) mod type_definition;
pub(crate) mod view;
