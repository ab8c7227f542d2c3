//! Window functions of a query: their windows, frames and calls.

use super::equality::all;
use super::{AggregateCall, SortKey};
use crate::expr::{Expr, ExprKind, Likeness};
use crate::function::WindowFunction;

/// The window functions of a query level.
#[derive(Clone, Debug, Default)]
pub struct Windowing {
    /// The windows.
    pub windows: Vec<Window>,
    /// The calls, numbered as in [`ExprKind::Window`].
    pub calls: Vec<WindowCall>,
}

/// One window: its partition keys, its order, and its frame.
#[derive(Clone, Debug)]
pub struct Window {
    /// PARTITION BY.
    pub partition: Vec<Expr>,
    /// ORDER BY.
    pub order: Vec<SortKey>,
    /// The frame.
    pub frame: Frame,
}

/// One call of a function over a window.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// Number of the window.
    pub window: usize,
    /// The function.
    pub body: WindowBody,
}

/// The computation of a call.
#[derive(Clone, Debug)]
pub enum WindowBody {
    /// A pure window function, with its arguments.
    Function(WindowFunction, Vec<Expr>),
    /// An aggregate over the rows of the frame, without DISTINCT and ORDER BY.
    Aggregate(Box<AggregateCall>),
}

/// The frame: the part of its partition that a row's functions see.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The unit of the bounds.
    pub mode: FrameMode,
    /// The first row.
    pub start: Bound,
    /// The last row.
    pub end: Bound,
    /// The rows that are left out.
    pub exclusion: Exclusion,
}

/// The unit of a frame's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameMode {
    /// Rows are counted.
    Rows,
    /// Distance in the value that the rows are ordered by.
    Range,
    /// Groups of rows that are equal in the order (peer groups).
    Groups,
}

/// The start or end of a frame, relative to the current row.
#[derive(Clone, Debug)]
pub enum Bound {
    /// The first row of the partition.
    UnboundedPreceding,
    /// A distance before the current row.
    Preceding(Expr),
    /// The current row.
    CurrentRow,
    /// A distance behind the current row.
    Following(Expr),
    /// The last row of the partition.
    UnboundedFollowing,
}

/// The rows around the current row that the frame excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// No row is left out.
    None,
    /// The current row is left out.
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row, without the row itself.
    Ties,
}

impl Bound {
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && match (self.offset(), other.offset()) {
                (Some(a), Some(b)) => {
                    let repeats = how == Likeness::Copy || !crate::query::is_volatile(a);
                    a.is_like(b, how) && repeats
                }
                _ => true,
            }
    }
}

impl Frame {
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        self.mode == other.mode
            && self.exclusion == other.exclusion
            && self.start.is_like(&other.start, how)
            && self.end.is_like(&other.end, how)
    }
}

impl Window {
    /// Returns whether both windows are the same: same rows, same order, same frame.
    pub fn same(&self, other: &Self) -> bool {
        self.is_like(other, Likeness::Value)
    }

    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        let partitions = self.partition.len() == other.partition.len()
            && self.partition.iter().zip(&other.partition).all(|(a, b)| a.is_like(b, how));
        let orders = self.order.len() == other.order.len()
            && self.order.iter().zip(&other.order).all(|(a, b)| a.is_like(b, how));
        partitions && orders && self.frame.is_like(&other.frame, how)
    }

    /// Returns the sort keys of the window's input: the partition keys, then the order keys, each
    /// once. Constant keys are left out.
    pub fn sort_keys(&self) -> Vec<SortKey> {
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
}

/// Returns whether an expression has the same value for all rows of its level.
pub fn is_constant(expr: &Expr) -> bool {
    !crate::query::is_volatile(expr)
        && !expr.any(&mut |part| match part.kind {
            ExprKind::Slot { depth, .. } => depth == 0,
            ExprKind::SubQuery(_) | ExprKind::Aggregate(_) | ExprKind::Window(_) => true,
            _ => false,
        })
}

/// Defines the expressions of windows and of their calls. Shared and mutable ones have one
/// definition, so each part is named once.
macro_rules! exprs_of_windows {
    (
        $offset:ident, $keys:ident, $exprs:ident, $row_exprs:ident, $offsets:ident,
        $iter:ident $(, $mutable:ident)?
    ) => {
        impl Bound {
            /// Returns the distance, if the bound has one.
            pub fn $offset(& $($mutable)? self) -> Option<& $($mutable)? Expr> {
                match self {
                    Self::Preceding(expr) | Self::Following(expr) => Some(expr),
                    Self::UnboundedPreceding | Self::CurrentRow | Self::UnboundedFollowing => None,
                }
            }
        }

        impl Window {
            /// Returns the partition and order expressions.
            pub(crate) fn $keys(& $($mutable)? self) -> impl Iterator<Item = & $($mutable)? Expr> {
                let order = self.order.$iter().map(|key| & $($mutable)? key.expr);
                self.partition.$iter().chain(order)
            }
        }

        impl WindowBody {
            /// Returns the call's arguments and its FILTER.
            pub fn $exprs(& $($mutable)? self) -> impl Iterator<Item = & $($mutable)? Expr> {
                let (arguments, call) = match self {
                    Self::Function(_, arguments) => (Some(arguments), None),
                    Self::Aggregate(call) => (None, Some(call)),
                };
                let of_aggregate = call.into_iter().flat_map(|call| call.$exprs());
                arguments.into_iter().flatten().chain(of_aggregate)
            }
        }

        impl Windowing {
            /// Returns every expression over the rows of the level. The offsets of frames read no
            /// row, so they are left out.
            pub fn $row_exprs(& $($mutable)? self) -> impl Iterator<Item = & $($mutable)? Expr> {
                let keys = self.windows.$iter().flat_map(Window::$keys);
                keys.chain(self.calls.$iter().flat_map(|call| call.body.$exprs()))
            }

            /// Returns the offsets of the frames.
            pub fn $offsets(& $($mutable)? self) -> impl Iterator<Item = & $($mutable)? Expr> {
                let frames = self.windows.$iter().map(|window| & $($mutable)? window.frame);
                frames.flat_map(|frame| {
                    frame.start.$offset().into_iter().chain(frame.end.$offset())
                })
            }
        }
    };
}

exprs_of_windows!(offset, keys, exprs, row_exprs, offsets, iter);
exprs_of_windows!(offset_mut, keys_mut, exprs_mut, row_exprs_mut, offsets_mut, iter_mut, mut);

impl Windowing {
    /// Decides whether both are copies of the same windows and calls.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        const HOW: Likeness = Likeness::Copy;
        let bodies = |a: &WindowBody, b: &WindowBody| match (a, b) {
            (WindowBody::Function(f, a), WindowBody::Function(g, b)) => {
                f == g && all(a, b, |a, b| a.is_like(b, HOW))
            }
            (WindowBody::Aggregate(a), WindowBody::Aggregate(b)) => a.is_like(b, HOW),
            _ => false,
        };
        all(&self.windows, &other.windows, |a, b| a.is_like(b, HOW))
            && all(&self.calls, &other.calls, |a, b| {
                a.window == b.window && bodies(&a.body, &b.body)
            })
    }

    /// Decides whether there are no windows.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns whether every window is partitioned by `expr`. Then a condition on it may be
    /// evaluated before or after the windows.
    pub fn all_divide_by(&self, expr: &Expr) -> bool {
        self.windows
            .iter()
            .all(|window| window.partition.iter().any(|partition| partition.same(expr)))
    }

    /// Removes the windows that no function uses.
    pub fn forget_unused(&mut self) {
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
