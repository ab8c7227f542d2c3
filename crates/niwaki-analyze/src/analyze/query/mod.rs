//! Queries: the clauses of SELECT, set operations and WITH.

pub(super) mod cte;
pub(super) mod from;
pub(super) mod group_by;
pub(super) mod grouping;
pub(super) mod locking;
pub(super) mod order_by;
pub(super) mod select;
pub(super) mod set_operation;
pub(super) mod targets;
pub(super) mod values;
pub(super) mod window;
pub(super) mod with;
