//! Equality of queries, for expressions with nested queries that are repeated in ORDER BY or GROUP
//! BY.
//!
//! Constructs that are rare there (set operations, windows, locks, data changes) are never equal.

use super::{
    AggregateCall, Body, From, FromItem, Grouping, ItemKind, JoinTree, OrderKey, Query, Select,
    SetCall,
};
use crate::expr::{Expr, Nested, SubQuery, SubQueryKind};

impl SubQuery {
    /// Returns whether both are the same kind of test of the same query, not planned yet.
    pub fn same(&self, other: &Self) -> bool {
        use SubQueryKind as K;
        let asks = match (&self.kind, &other.kind) {
            (K::Exists, K::Exists) | (K::Scalar, K::Scalar) | (K::Array, K::Array) => true,
            (
                K::Compare { function: f, any: m, left: a, right_cast: b },
                K::Compare { function: g, any: n, left: c, right_cast: d },
            ) => std::ptr::eq(*f, *g) && m == n && a.same(c) && b.same(d),
            (K::CompareRows(a), K::CompareRows(b)) => {
                a.with == b.with
                    && all(&a.functions, &b.functions, |f, g| std::ptr::eq(*f, *g))
                    && same_all(&a.left, &b.left)
                    && same_all(&a.right, &b.right)
                    && a.compared.same(&b.compared)
            }
            _ => false,
        };
        asks && match (&self.query, &other.query) {
            (Nested::Query(a), Nested::Query(b)) => a.same(b),
            _ => false,
        }
    }
}

impl Query {
    /// Returns whether both have the same names and expressions; locations are ignored.
    pub fn same(&self, other: &Self) -> bool {
        let bodies = match (&self.body, &other.body) {
            (Body::Select(a), Body::Select(b)) => a.same(b),
            (Body::Values(a), Body::Values(b)) => all(a, b, |a, b| same_all(a, b)),
            _ => false,
        };
        bodies
            && all(&self.columns, &other.columns, |a, b| {
                a.name == b.name && a.column_type == b.column_type
            })
            && all(&self.order, &other.order, OrderKey::same)
            && same_option(self.limit.as_ref(), other.limit.as_ref())
            && same_option(self.offset.as_ref(), other.offset.as_ref())
    }
}

impl OrderKey {
    fn same(&self, other: &Self) -> bool {
        (self.target, self.descending, self.nulls_first)
            == (other.target, other.descending, other.nulls_first)
    }
}

impl Select {
    fn same(&self, other: &Self) -> bool {
        let grouped = match (&self.grouping, &other.grouping) {
            (None, None) => true,
            (Some(a), Some(b)) => a.same(b),
            _ => false,
        };
        let simple = |it: &Self| it.windowing.is_empty() && it.locks.is_empty();
        grouped
            && simple(self)
            && simple(other)
            && self.distinct == other.distinct
            && same_all(&self.targets, &other.targets)
            && all(&self.sets, &other.sets, SetCall::same)
            && self.from.same(&other.from)
    }
}

impl Grouping {
    fn same(&self, other: &Self) -> bool {
        let calls = |a: &AggregateCall, b: &AggregateCall| {
            a.kind == b.kind
                && a.name == b.name
                && a.distinct == b.distinct
                && a.direct == b.direct
                && same_all(&a.arguments, &b.arguments)
                && same_option(a.filter.as_ref(), b.filter.as_ref())
                && all(&a.order, &b.order, |(a, descending, first), (b, d, f)| {
                    a.same(b) && descending == d && first == f
                })
        };
        self.written == other.written
            && self.sets.sets == other.sets.sets
            && self.sets.calls == other.sets.calls
            && same_all(&self.groups, &other.groups)
            && all(&self.calls, &other.calls, calls)
            && same_option(self.having.as_ref(), other.having.as_ref())
    }
}

impl From {
    fn same(&self, other: &Self) -> bool {
        let trees = match (&self.tree, &other.tree) {
            (None, None) => true,
            (Some(a), Some(b)) => a.same(b),
            _ => false,
        };
        trees
            && self.width == other.width
            && self.recheck.is_none()
            && other.recheck.is_none()
            && all(&self.items, &other.items, FromItem::same)
            && same_all(&self.conditions, &other.conditions)
    }
}

impl FromItem {
    fn same(&self, other: &Self) -> bool {
        let kinds = match (&self.kind, &other.kind) {
            (ItemKind::Table(a), ItemKind::Table(b)) | (ItemKind::View(a), ItemKind::View(b)) => {
                a.oid == b.oid
            }
            (ItemKind::Query(a), ItemKind::Query(b)) => a.same(b),
            (ItemKind::Shared { number: a }, ItemKind::Shared { number: b }) => a == b,
            (
                ItemKind::Single { expr: a, ordinality: m },
                ItemKind::Single { expr: b, ordinality: n },
            ) => m == n && a.same(b),
            _ => false,
        };
        let view = |it: &Self| it.view.as_ref().map(|view| view.oid);
        kinds
            && self.name == other.name
            && self.aliased == other.aliased
            && self.aliases == other.aliases
            && view(self) == view(other)
            && self.only == other.only
            && (self.slots.start, self.slots.end) == (other.slots.start, other.slots.end)
    }
}

impl JoinTree {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Item(a), Self::Item(b)) => a == b,
            (Self::Join(a), Self::Join(b)) => {
                a.kind == b.kind
                    && a.form == b.form
                    && same_all(&a.on, &b.on)
                    && a.left.same(&b.left)
                    && a.right.same(&b.right)
            }
            _ => false,
        }
    }
}

fn all<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn same_all(a: &[Expr], b: &[Expr]) -> bool {
    all(a, b, Expr::same)
}

fn same_option(a: Option<&Expr>, b: Option<&Expr>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.same(b),
        _ => false,
    }
}
