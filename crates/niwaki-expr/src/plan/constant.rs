//! Plans whose rows are the same at any time.

use super::PlanNode;
use crate::expr::Expr;
use crate::query::{has_query, is_volatile};

impl PlanNode {
    /// Returns whether the rows are the same at any time. PostgreSQL computes such rows when it
    /// plans.
    pub fn is_constant(&self) -> bool {
        let constant = |expr: &Expr| !is_volatile(expr) && !has_query(expr);
        match self {
            Self::Result => true,
            Self::Project { input, exprs, sets, .. } => {
                sets.is_empty() && input.is_constant() && exprs.iter().all(constant)
            }
            Self::Filter { input, condition } => input.is_constant() && constant(condition),
            _ => false,
        }
    }
}
