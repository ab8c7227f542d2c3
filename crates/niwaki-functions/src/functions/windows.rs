//! The signatures of window functions, which the executor computes.

use super::{Function, WindowFunction as W, functions};

// The strictness is as in PostgreSQL's catalog, although a window is asked for its rows whatever
// the arguments are.
pub(super) const FUNCTIONS: &[Function] = functions! {
    "row_number" () INT8 nullable single immutable Window(W::RowNumber);
    "rank" () INT8 nullable single immutable Window(W::Rank);
    "dense_rank" () INT8 nullable single immutable Window(W::DenseRank);
    "percent_rank" () FLOAT8 nullable single immutable Window(W::PercentRank);
    "cume_dist" () FLOAT8 nullable single immutable Window(W::CumeDist);
    "ntile" (INT4) INT4 strict single immutable Window(W::Ntile);
    "lag" (ELEMENT) ELEMENT strict single immutable Window(W::Lag);
    "lag" (ELEMENT, INT4) ELEMENT strict single immutable Window(W::Lag);
    "lag" (COMPATIBLE, INT4, COMPATIBLE) COMPATIBLE strict single immutable Window(W::Lag);
    "lead" (ELEMENT) ELEMENT strict single immutable Window(W::Lead);
    "lead" (ELEMENT, INT4) ELEMENT strict single immutable Window(W::Lead);
    "lead" (COMPATIBLE, INT4, COMPATIBLE) COMPATIBLE strict single immutable Window(W::Lead);
    "first_value" (ELEMENT) ELEMENT strict single immutable Window(W::FirstValue);
    "last_value" (ELEMENT) ELEMENT strict single immutable Window(W::LastValue);
    "nth_value" (ELEMENT, INT4) ELEMENT strict single immutable Window(W::NthValue);
};
