//! Steps that sort, or that merge sorted inputs.

pub(crate) mod distinct_on;
pub(crate) mod incremental_sort;
pub(crate) mod merge_append;
pub(crate) mod sort;
