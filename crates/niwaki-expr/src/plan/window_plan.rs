//! Window functions: their windows, frames and calls.

use crate::expr::{Expr, ExprKind};
use crate::query::{Window, WindowBody, expr_outer_slots_mut};

/// A step that adds the results of functions over one window. Its input is sorted by
/// [`Window::sort_keys`].
#[derive(Clone, Debug)]
pub struct WindowPlan {
    /// Number of values of an input row. The results follow them, or follow other windows' results.
    pub input_width: usize,
    /// The calls as the statement has them, for EXPLAIN and cost estimates.
    pub over_input: WindowCalls,
    /// The values of a row that are kept: those that a function or a step above reads. Of a join
    /// with many columns these are few, so more rows fit in memory.
    pub kept: Vec<usize>,
    /// The same calls over the kept values: slots are positions in `kept`.
    pub over_kept: WindowCalls,
}

/// A window and its functions, over a given row layout.
#[derive(Clone, Debug)]
pub struct WindowCalls {
    /// The window.
    pub window: Window,
    /// The slot of each result.
    pub calls: Vec<(usize, WindowBody)>,
}

impl WindowPlan {
    /// Builds the step over rows of `input_width` values. `wanted` marks the values that its
    /// functions or the steps above read. Queries inside expressions read whole rows.
    pub fn new(input_width: usize, wanted: &[bool], over_input: WindowCalls) -> Self {
        let mut over_kept = over_input.clone();
        let mut exprs = over_kept.exprs_mut();
        let is_query = |part: &Expr| matches!(part.kind, ExprKind::SubQuery(_));
        let whole = exprs.iter().any(|expr| expr.any(&mut |part| is_query(part)));
        let wanted = |slot: &usize| whole || wanted.get(*slot).is_none_or(|wanted| *wanted);
        let kept: Vec<usize> = (0..input_width).filter(wanted).collect();
        let mut put = |part: &mut Expr, _: usize| {
            if let ExprKind::Slot { depth: 0, slot } = &mut part.kind {
                // Every slot read is in `kept`. A missing one would fail when it is read.
                *slot = kept.binary_search(slot).unwrap_or(usize::MAX);
            }
        };
        exprs.iter_mut().for_each(|expr| expr_outer_slots_mut(expr, 0, &mut put));
        Self { input_width, over_input, kept, over_kept }
    }
}

impl WindowCalls {
    /// Returns the expressions over the rows, mutable.
    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let keys = self.window.keys_mut();
        keys.chain(self.calls.iter_mut().flat_map(|(_, body)| body.exprs_mut())).collect()
    }
}
