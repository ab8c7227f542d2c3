//! Backward scans: decides which plans PostgreSQL can read backward.
//!
//! A cursor over such a plan moves backward without being declared SCROLL.

use niwaki_env::stack;

use super::{PathPlan, PlanNode};
use crate::query::SetKind;

impl PlanNode {
    /// Returns whether PostgreSQL's step of this kind can return its rows in either direction. The
    /// inputs must be able to, too.
    pub fn goes_backward(&self) -> bool {
        match self {
            Self::Scan(scan) => !matches!(scan.path, PathPlan::Bitmap(_)),
            Self::Append(append) => {
                append.merge.is_empty() && append.members.iter().all(|it| it.scan.goes_backward())
            }
            // PostgreSQL plans a single VALUES row as a Result, not as a scan.
            Self::Values { rows } => rows.len() > 1,
            Self::Virtual { .. }
            | Self::Shared { .. }
            | Self::Function { .. }
            | Self::Single { .. }
            | Self::Sort { presorted: 0, .. } => true,
            Self::SubQuery { plan, .. } => stack::room(0, || plan.root.goes_backward()),
            Self::Filter { input, .. }
            | Self::Gate { input, .. }
            | Self::Limit { input, .. }
            | Self::With { input, .. } => input.goes_backward(),
            Self::Project { input, sets, .. } => sets.is_empty() && input.goes_backward(),
            Self::SetOperation { kind: SetKind::Union, all: true, left, right, .. } => {
                left.goes_backward() && right.goes_backward()
            }
            Self::Result
            | Self::Sort { .. }
            | Self::Gather { .. }
            | Self::Join(_)
            | Self::Aggregate { .. }
            | Self::Window { .. }
            | Self::Distinct { .. }
            | Self::First { .. }
            | Self::Unique { .. }
            | Self::LockRows { .. }
            | Self::SetOperation { .. }
            | Self::Modify(_)
            | Self::Merge(_)
            | Self::Recursive(_)
            | Self::Working(_) => false,
        }
    }
}
