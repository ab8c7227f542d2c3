//! Equality of queries: for expressions with nested queries that are repeated in ORDER BY or GROUP
//! BY, and for copies of conditions.
//!
//! Constructs that are rare in ORDER BY and GROUP BY (set operations, windows, locks, data changes)
//! are never equal there.

use super::{
    AggregateCall, Body, From, FromItem, Grouping, ItemKind, JoinTree, LockTarget, OrderKey, Query,
    Select, SetOperation, SetSide,
};
use crate::expr::{Expr, Likeness, Nested, SubQuery, SubQueryKind};

impl SubQuery {
    /// Returns whether both are the same kind of test of the same query, not planned yet; for
    /// copies, also of the same plan.
    pub(crate) fn is_like(&self, other: &Self, how: Likeness) -> bool {
        use SubQueryKind as K;
        let asks = match (&self.kind, &other.kind) {
            (K::Exists, K::Exists) | (K::Scalar, K::Scalar) | (K::Array, K::Array) => true,
            (
                K::Compare { function: f, any: m, left: a, right_cast: b },
                K::Compare { function: g, any: n, left: c, right_cast: d },
            ) => std::ptr::eq(*f, *g) && m == n && a.is_like(c, how) && b.is_like(d, how),
            (K::CompareRows(a), K::CompareRows(b)) => {
                a.with == b.with
                    && all(&a.functions, &b.functions, |f, g| std::ptr::eq(*f, *g))
                    && same_all(&a.left, &b.left, how)
                    && same_all(&a.right, &b.right, how)
                    && a.compared.is_like(&b.compared, how)
            }
            (K::Assigned { place: p, column: c }, K::Assigned { place: q, column: d }) => {
                how == Likeness::Copy && p == q && c == d
            }
            _ => false,
        };
        asks && match (&self.query, &other.query) {
            (Nested::Query(a), Nested::Query(b)) => a.is_like(b, how),
            (Nested::Plan(a), Nested::Plan(b)) => how == Likeness::Copy && a.is(b),
            _ => false,
        }
    }
}

impl Query {
    /// Returns whether both have the same names and expressions.
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        let bodies = match (&self.body, &other.body) {
            (Body::Select(a), Body::Select(b)) => a.is_like(b, how),
            (Body::Values(a), Body::Values(b)) => all(a, b, |a, b| same_all(a, b, how)),
            (Body::Set(a), Body::Set(b)) => how == Likeness::Copy && a.is_copy_of(b),
            _ => false,
        };
        bodies
            && all(&self.columns, &other.columns, |a, b| {
                a.name == b.name
                    && a.column_type == b.column_type
                    && (how == Likeness::Value || a == b)
            })
            && all(&self.order, &other.order, OrderKey::same)
            && same_option(self.limit.as_ref(), other.limit.as_ref(), how)
            && same_option(self.offset.as_ref(), other.offset.as_ref(), how)
    }
}

impl SetOperation {
    fn is_copy_of(&self, other: &Self) -> bool {
        let sides = |a: &SetSide, b: &SetSide| {
            a.query.is_like(&b.query, Likeness::Copy)
                && same_all(&a.exprs, &b.exprs, Likeness::Copy)
        };
        self.kind == other.kind
            && self.all == other.all
            && self.types == other.types
            && self.recursive == other.recursive
            && sides(&self.left, &other.left)
            && sides(&self.right, &other.right)
    }
}

impl OrderKey {
    fn same(&self, other: &Self) -> bool {
        (self.target, self.descending, self.nulls_first)
            == (other.target, other.descending, other.nulls_first)
    }
}

impl Select {
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        let grouped = match (&self.grouping, &other.grouping) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_like(b, how),
            _ => false,
        };
        let simple = |it: &Self| it.windowing.is_empty() && it.locks.is_empty();
        let rare = match how {
            Likeness::Value => simple(self) && simple(other),
            Likeness::Copy => {
                self.windowing.is_copy_of(&other.windowing)
                    && all(&self.locks, &other.locks, LockTarget::is_copy_of)
            }
        };
        grouped
            && rare
            && self.distinct == other.distinct
            && same_all(&self.targets, &other.targets, how)
            && all(&self.sets, &other.sets, |a, b| a.is_like(b, how))
            && self.from.is_like(&other.from, how)
    }
}

impl LockTarget {
    fn is_copy_of(&self, other: &Self) -> bool {
        (self.relation.oid, self.start, self.lock, self.wait)
            == (other.relation.oid, other.start, other.lock, other.wait)
    }
}

impl AggregateCall {
    pub(super) fn is_like(&self, other: &Self, how: Likeness) -> bool {
        self.kind == other.kind
            && self.name == other.name
            && self.distinct == other.distinct
            && self.direct == other.direct
            && same_all(&self.arguments, &other.arguments, how)
            && same_option(self.filter.as_ref(), other.filter.as_ref(), how)
            && all(&self.order, &other.order, |(a, descending, first), (b, d, f)| {
                a.is_like(b, how) && descending == d && first == f
            })
    }
}

impl Grouping {
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        self.written == other.written
            && self.sets.sets == other.sets.sets
            && self.sets.calls == other.sets.calls
            && same_all(&self.groups, &other.groups, how)
            && all(&self.calls, &other.calls, |a, b| a.is_like(b, how))
            && same_option(self.having.as_ref(), other.having.as_ref(), how)
    }
}

impl From {
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        let trees = match (&self.tree, &other.tree) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_like(b, how),
            _ => false,
        };
        trees
            && self.width == other.width
            && match (&self.recheck, &other.recheck) {
                (None, None) => true,
                (Some(a), Some(b)) => how == Likeness::Copy && same_all(a, b, how),
                _ => false,
            }
            && all(&self.items, &other.items, |a, b| a.is_like(b, how))
            && same_all(&self.conditions, &other.conditions, how)
    }
}

impl FromItem {
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        let kinds = match (&self.kind, &other.kind) {
            (ItemKind::Table(a), ItemKind::Table(b)) | (ItemKind::View(a), ItemKind::View(b)) => {
                a.oid == b.oid
            }
            (ItemKind::Query(a), ItemKind::Query(b)) => a.is_like(b, how),
            (ItemKind::Shared { number: a }, ItemKind::Shared { number: b }) => a == b,
            (
                ItemKind::Single { expr: a, ordinality: m },
                ItemKind::Single { expr: b, ordinality: n },
            ) => m == n && a.is_like(b, how),
            (ItemKind::Working { number: a }, ItemKind::Working { number: b }) => {
                how == Likeness::Copy && a == b
            }
            (
                ItemKind::Function { function: f, arguments: a, ordinality: m },
                ItemKind::Function { function: g, arguments: b, ordinality: n },
            ) => how == Likeness::Copy && f.is_copy_of(g) && m == n && same_all(a, b, how),
            _ => false,
        };
        let view = |it: &Self| it.view.as_ref().map(|view| view.oid);
        kinds
            && self.name == other.name
            && self.aliased == other.aliased
            && self.aliases == other.aliases
            && view(self) == view(other)
            && self.only == other.only
            && (how == Likeness::Value || self.of_function == other.of_function)
            && (self.slots.start, self.slots.end) == (other.slots.start, other.slots.end)
    }
}

impl JoinTree {
    fn is_like(&self, other: &Self, how: Likeness) -> bool {
        match (self, other) {
            (Self::Item(a), Self::Item(b)) => a == b,
            (Self::Join(a), Self::Join(b)) => {
                a.kind == b.kind
                    && a.form == b.form
                    && same_all(&a.on, &b.on, how)
                    && a.left.is_like(&b.left, how)
                    && a.right.is_like(&b.right, how)
            }
            _ => false,
        }
    }
}

pub(super) fn all<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn same_all(a: &[Expr], b: &[Expr], how: Likeness) -> bool {
    all(a, b, |a, b| a.is_like(b, how))
}

fn same_option(a: Option<&Expr>, b: Option<&Expr>, how: Likeness) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_like(b, how),
        _ => false,
    }
}
