//! Definitions of indexes.

pub(crate) mod concurrent;
pub(crate) mod create_index;
pub(crate) mod new_index;
pub(crate) mod operator_class;
