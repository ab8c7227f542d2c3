//! Definitions of objects, as the catalog stores them.

pub(crate) mod constraint;
pub(crate) mod database;
pub(crate) mod foreign_key;
pub(crate) mod function_definition;
pub(crate) mod lasting;
pub(crate) mod omitted;
pub(crate) mod partition_key;
pub(crate) mod relation_definition;
pub(crate) mod relation_object;
pub(crate) mod remark;
pub(crate) mod schema;
pub(crate) mod trigger;
pub(crate) mod type_definition;
pub(crate) mod view;
