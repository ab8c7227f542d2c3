//! Steps that find equal rows: groups, DISTINCT and set operations.

pub(crate) mod aggregate;
pub(crate) mod distinct;
pub(crate) mod groups;
pub(crate) mod ordered_input;
pub(crate) mod parallel_groups;
pub(crate) mod sorted_aggregate;
pub(crate) mod states;
pub(crate) mod unique;
