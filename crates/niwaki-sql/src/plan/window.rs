//! Window functions: their windows, frames and calls.

use super::{AggregateCall, SortKey};
use crate::expr::{Expr, ExprKind};
use crate::functions::WindowFunction;
use crate::query::expr_outer_slots_mut;

/// The window functions of a query level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windowing {
    pub(crate) windows: Vec<Window>,
    /// The calls, numbered as in [`ExprKind::Window`].
    pub(crate) calls: Vec<WindowCall>,
}

/// One window: its partition keys, its order, and its frame.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) partition: Vec<Expr>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) frame: Frame,
}

/// One call of a function over a window.
#[derive(Clone, Debug)]
pub(crate) struct WindowCall {
    /// Number of the window.
    pub(crate) window: usize,
    pub(crate) body: WindowBody,
}

/// The computation of a call.
#[derive(Clone, Debug)]
pub(crate) enum WindowBody {
    /// A pure window function, with its arguments.
    Function(WindowFunction, Vec<Expr>),
    /// An aggregate over the rows of the frame, without DISTINCT and ORDER BY.
    Aggregate(Box<AggregateCall>),
}

/// The frame: the part of its partition that a row's functions see.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) mode: FrameMode,
    pub(crate) start: Bound,
    pub(crate) end: Bound,
    pub(crate) exclusion: Exclusion,
}

/// The unit of a frame's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameMode {
    Rows,
    /// Distance in the value that the rows are ordered by.
    Range,
    /// Groups of rows that are equal in the order (peer groups).
    Groups,
}

/// The start or end of a frame, relative to the current row.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

/// The rows around the current row that the frame excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclusion {
    None,
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row, without the row itself.
    Ties,
}

impl Bound {
    pub(crate) fn offset(&self) -> Option<&Expr> {
        match self {
            Self::Preceding(expr) | Self::Following(expr) => Some(expr),
            _ => None,
        }
    }

    fn offset_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Self::Preceding(expr) | Self::Following(expr) => Some(expr),
            _ => None,
        }
    }

    fn same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && match (self.offset(), other.offset()) {
                (Some(a), Some(b)) => a.same(b) && !super::is_volatile(a),
                _ => true,
            }
    }
}

impl Frame {
    fn same(&self, other: &Self) -> bool {
        self.mode == other.mode
            && self.exclusion == other.exclusion
            && self.start.same(&other.start)
            && self.end.same(&other.end)
    }
}

impl SortKey {
    /// Returns whether both keys sort alike.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.expr.same(&other.expr)
            && self.descending == other.descending
            && self.nulls_first == other.nulls_first
    }
}

impl Window {
    /// Returns whether both windows are the same: same rows, same order, same frame.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let partitions = self.partition.len() == other.partition.len()
            && self.partition.iter().zip(&other.partition).all(|(a, b)| a.same(b));
        let orders = self.order.len() == other.order.len()
            && self.order.iter().zip(&other.order).all(|(a, b)| a.same(b));
        partitions && orders && self.frame.same(&other.frame)
    }

    /// Returns the sort keys of the window's input: the partition keys, then the order keys, each
    /// once. Constant keys are left out.
    pub(crate) fn sort_keys(&self) -> Vec<SortKey> {
        let mut keys: Vec<SortKey> = Vec::new();
        let partition = self.partition.iter().map(|expr| {
            // If the order names the same expression, use its direction.
            let ordered = self.order.iter().find(|key| key.expr.same(expr));
            ordered.cloned().unwrap_or_else(|| SortKey {
                expr: expr.clone(),
                descending: false,
                nulls_first: false,
            })
        });
        for key in partition.chain(self.order.iter().cloned()) {
            let known = keys.iter().any(|known| known.expr.same(&key.expr));
            if !known && !is_constant(&key.expr) {
                keys.push(key);
            }
        }
        keys
    }

    /// Calls `visit` with the partition and order expressions.
    pub(crate) fn for_each_key<'w>(&'w self, visit: &mut dyn FnMut(&'w Expr)) {
        self.partition.iter().for_each(&mut *visit);
        self.order.iter().for_each(|key| visit(&key.expr));
    }

    fn keys_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.partition.iter_mut().chain(self.order.iter_mut().map(|key| &mut key.expr))
    }
}

/// Returns whether an expression has the same value for all rows of its level.
pub(super) fn is_constant(expr: &Expr) -> bool {
    !super::is_volatile(expr)
        && !expr.any(&mut |part| match part.kind {
            ExprKind::Slot { depth, .. } => depth == 0,
            ExprKind::SubQuery(_) | ExprKind::Aggregate(_) | ExprKind::Window(_) => true,
            _ => false,
        })
}

impl WindowBody {
    /// Calls `visit` with the call's arguments and its FILTER.
    pub(crate) fn for_each_expr<'w>(&'w self, visit: &mut dyn FnMut(&'w Expr)) {
        match self {
            Self::Function(_, arguments) => arguments.iter().for_each(visit),
            Self::Aggregate(call) => {
                call.arguments.iter().chain(&call.filter).for_each(visit);
            }
        }
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Self::Function(_, arguments) => arguments.iter_mut().collect(),
            Self::Aggregate(call) => call.arguments.iter_mut().chain(&mut call.filter).collect(),
        }
    }
}

impl Windowing {
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Calls `visit` with every expression over the rows of the level. The offsets of frames read
    /// no row, so they are left out.
    pub(crate) fn for_each_row_expr<'w>(&'w self, visit: &mut dyn FnMut(&'w Expr)) {
        self.windows.iter().for_each(|window| window.for_each_key(visit));
        self.calls.iter().for_each(|call| call.body.for_each_expr(visit));
    }

    /// Returns the same expressions, mutable.
    pub(crate) fn row_exprs_mut(&mut self) -> Vec<&mut Expr> {
        let keys = self.windows.iter_mut().flat_map(Window::keys_mut);
        keys.chain(self.calls.iter_mut().flat_map(|call| call.body.exprs_mut())).collect()
    }

    /// Returns the offsets of the frames.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = &Expr> {
        let frames = self.windows.iter().map(|window| &window.frame);
        frames.flat_map(|frame| frame.start.offset().into_iter().chain(frame.end.offset()))
    }

    /// Returns the same offsets, mutable.
    pub(crate) fn offsets_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let frames = self.windows.iter_mut().map(|window| &mut window.frame);
        frames.flat_map(|frame| frame.start.offset_mut().into_iter().chain(frame.end.offset_mut()))
    }

    /// Returns whether every window is partitioned by `expr`. Then a condition on it may be
    /// evaluated before or after the windows.
    pub(crate) fn all_divide_by(&self, expr: &Expr) -> bool {
        self.windows
            .iter()
            .all(|window| window.partition.iter().any(|partition| partition.same(expr)))
    }

    /// Removes the windows that no function uses.
    pub(crate) fn forget_unused(&mut self) {
        let mut places = Vec::new();
        let mut kept = Vec::new();
        for (number, window) in std::mem::take(&mut self.windows).into_iter().enumerate() {
            let used = self.calls.iter().any(|call| call.window == number);
            places.push(kept.len());
            if used {
                kept.push(window);
            }
        }
        for call in &mut self.calls {
            call.window = places[call.window];
        }
        self.windows = kept;
    }
}

/// A step that adds the results of functions over one window. Its input is sorted by
/// [`Window::sort_keys`].
#[derive(Clone, Debug)]
pub(crate) struct WindowPlan {
    /// Number of values of an input row. The results follow them, or follow other windows' results.
    pub(crate) input_width: usize,
    /// The calls as the statement has them, for EXPLAIN and cost estimates.
    pub(crate) over_input: WindowCalls,
    /// The values of a row that are kept: those that a function or a step above reads. Of a join
    /// with many columns these are few, so more rows fit in memory.
    pub(crate) kept: Vec<usize>,
    /// The same calls over the kept values: slots are positions in `kept`.
    pub(crate) over_kept: WindowCalls,
}

/// A window and its functions, over a given row layout.
#[derive(Clone, Debug)]
pub(crate) struct WindowCalls {
    pub(crate) window: Window,
    /// The slot of each result.
    pub(crate) calls: Vec<(usize, WindowBody)>,
}

impl WindowPlan {
    /// Builds the step over rows of `input_width` values. `wanted` marks the values that its
    /// functions or the steps above read. Queries inside expressions read whole rows.
    pub(super) fn new(input_width: usize, wanted: &[bool], over_input: WindowCalls) -> Self {
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
