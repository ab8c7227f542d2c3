//! Names: columns, types, and the scopes in which they are looked up.

pub(super) mod columns;
pub(super) mod parts;
pub(super) mod rule;
pub(super) mod scope;
pub(super) mod similar_names;
pub(super) mod type_names;
