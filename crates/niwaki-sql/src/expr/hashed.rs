//! `left = ANY (query)` where the query reads nothing around it: its values are hashed once (`exec/hashed_values.rs`).

use super::{SubQuery, SubQueryKind};
use crate::plan::SubPlan;

/// Whether the answer can be looked up: an equality of values of one type.
pub(crate) fn is_hashed(sub: &SubQuery, plan: &SubPlan) -> bool {
    match &sub.kind {
        SubQueryKind::Compare { function, any: true, left, right_cast } => {
            function.name == "=" && left.ty == right_cast.ty && !plan.correlated
        }
        _ => false,
    }
}
