//! Expressions: operators, calls, conversions and their types.

pub(super) mod array;
pub(super) mod assigned_value;
pub(super) mod call;
pub(super) mod coerce;
pub(super) mod collations;
pub(super) mod composite;
pub(super) mod domain;
pub(super) mod expr;
pub(super) mod function_call;
pub(super) mod json_records;
pub(super) mod named_arguments;
pub(super) mod operators;
pub(super) mod row_queries;
pub(super) mod rows;
