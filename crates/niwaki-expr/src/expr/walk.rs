//! Visits the parts of expressions.

use std::convert::Infallible;

use niwaki_types::{Datum, TextSettings, TypeOid, to_text};

use super::{Expr, ExprKind, SubQueryKind};

/// Defines the visit of an expression's direct parts. Shared and mutable parts have one definition,
/// so each part is named once.
macro_rules! try_each_child {
    ($name:ident, $iter:ident $(, $mutable:ident)?) => {
        /// Calls `visit` for every direct part, up to the first error.
        #[inline]
        fn $name<'e, E>(
            &'e $($mutable)? self,
            mut visit: impl FnMut(&'e $($mutable)? Expr) -> Result<(), E>,
        ) -> Result<(), E> {
            match self {
                Self::Const(_)
                | Self::Param(_)
                | Self::Slot { .. }
                | Self::CaseOperand
                | Self::Aggregate(_)
                | Self::Window(_)
                | Self::SetReturning(_)
                | Self::CurrentOf { .. } => Ok(()),
                Self::Call { arguments, .. }
                | Self::UserCall { arguments, .. }
                | Self::Populated { arguments, .. }
                | Self::And(arguments)
                | Self::Or(arguments)
                | Self::Coalesce(arguments)
                | Self::MinMax { arguments, .. }
                | Self::Grouping(arguments)
                | Self::Array(arguments) => arguments.$iter().try_for_each(visit),
                Self::Cast { argument, .. }
                | Self::Length { argument, .. }
                | Self::Domain { argument, .. }
                | Self::Not(argument)
                | Self::IsNull { argument, .. }
                | Self::Field { argument, .. }
                | Self::RowNull { argument, .. }
                | Self::BoolTest { argument, .. } => visit(argument),
                Self::Row(row) => {
                    row.fields.$iter().try_for_each(&mut visit)?;
                    row.present.$iter().try_for_each(visit)
                }
                Self::AssignField { record, value, .. } => {
                    visit(record)?;
                    visit(value)
                }
                Self::Case { operand, branches, default } => {
                    if let Some(operand) = operand {
                        visit(operand)?;
                    }
                    for (condition, result) in branches {
                        visit(condition)?;
                        visit(result)?;
                    }
                    if let Some(default) = default {
                        visit(default)?;
                    }
                    Ok(())
                }
                Self::NullIf { result, equal } => {
                    visit(result)?;
                    visit(equal)
                }
                Self::Distinct { left, right, .. } | Self::ArrayCompare { left, right, .. } => {
                    visit(left)?;
                    visit(right)
                }
                Self::Subscript { array, subscripts } => {
                    visit(array)?;
                    subscripts.bounds.$iter().flatten().flatten().try_for_each(visit)
                }
                Self::AssignPart { array, subscripts, value } => {
                    visit(array)?;
                    subscripts.bounds.$iter().flatten().flatten().try_for_each(&mut visit)?;
                    visit(value)
                }
                Self::SubQuery(sub) => match & $($mutable)? sub.kind {
                    SubQueryKind::Compare { left, .. } => visit(left),
                    SubQueryKind::CompareRows(rows) => rows.left.$iter().try_for_each(visit),
                    SubQueryKind::Exists
                    | SubQueryKind::Scalar
                    | SubQueryKind::Array
                    | SubQueryKind::Assigned { .. } => Ok(()),
                },
            }
        }
    };
}

/// The degree to which two expressions are alike.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// They compute the same value from the same row. Rare constructs of nested queries never do.
    Value,
    /// They are copies of one expression, with any construct.
    Copy,
}

impl ExprKind {
    try_each_child!(try_each_child, iter);
    try_each_child!(try_each_child_mut, iter_mut, mut);

    /// Calls `visit` for every direct part, as [`Expr::for_each_child`] does.
    pub fn for_each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        let Ok(()) = self.try_each_child(|part| {
            visit(part);
            Ok::<(), Infallible>(())
        });
    }
}

impl Expr {
    /// Calls `visit` for every direct part that is evaluated over the same row.
    pub fn for_each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        self.kind.for_each_child(visit);
    }

    /// Calls `visit` for the same parts, mutable.
    pub fn for_each_child_mut<'e>(&'e mut self, visit: &mut dyn FnMut(&'e mut Expr)) {
        let Ok(()) = self.kind.try_each_child_mut(|part| {
            visit(part);
            Ok::<(), Infallible>(())
        });
    }

    /// Calls `visit` for the same parts, mutable, up to the first error.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn try_for_each_child_mut<'e, E>(
        &'e mut self,
        visit: &mut dyn FnMut(&'e mut Expr) -> Result<(), E>,
    ) -> Result<(), E> {
        self.kind.try_each_child_mut(visit)
    }

    /// Returns the same expression over a row whose table columns begin at slot `start`. The
    /// expression has no nested queries.
    pub fn shifted(&self, start: usize) -> Self {
        let mut expr = self.clone();
        expr.shift(start);
        expr
    }

    fn shift(&mut self, start: usize) {
        if let ExprKind::Slot { depth: 0, slot } = &mut self.kind {
            *slot += start;
        }
        self.for_each_child_mut(&mut |child| child.shift(start));
    }

    /// Decides whether the expression or any part of it satisfies `test`.
    pub fn any(&self, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.for_each_child(&mut |child| found = found || child.any(test));
        found
    }

    /// Decides whether both expressions compute the same value from the same row. GROUP BY matches
    /// expressions this way.
    pub fn same(&self, other: &Expr) -> bool {
        self.is_like(other, Likeness::Value)
    }

    /// Decides whether both expressions are unchanged copies of one expression of the statement.
    pub fn is_copy_of(&self, other: &Expr) -> bool {
        self.is_like(other, Likeness::Copy)
    }

    /// Decides whether both expressions are this much alike.
    pub(crate) fn is_like(&self, other: &Expr, how: Likeness) -> bool {
        if self.ty != other.ty || (how == Likeness::Copy && !self.is_at_place_of(other)) {
            return false;
        }
        let same_all = |a: &[Expr], b: &[Expr]| {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.is_like(y, how))
        };
        match (&self.kind, &other.kind) {
            (ExprKind::Const(a), ExprKind::Const(b)) => same_image(a, b, self.ty),
            (ExprKind::Param(a), ExprKind::Param(b))
            | (ExprKind::Aggregate(a), ExprKind::Aggregate(b))
            | (ExprKind::Window(a), ExprKind::Window(b))
            | (ExprKind::SetReturning(a), ExprKind::SetReturning(b)) => a == b,
            (ExprKind::Slot { depth: d, slot: s }, ExprKind::Slot { depth: e, slot: t }) => {
                d == e && s == t
            }
            (
                ExprKind::Call { function: f, arguments: a },
                ExprKind::Call { function: g, arguments: b },
            ) => std::ptr::eq(*f, *g) && same_all(a, b),
            (
                ExprKind::UserCall { function: f, arguments: a },
                ExprKind::UserCall { function: g, arguments: b },
            ) => f.key == g.key && same_all(a, b),
            (
                ExprKind::Populated { records: f, arguments: a },
                ExprKind::Populated { records: g, arguments: b },
            ) => f.function.name == g.function.name && same_all(a, b),
            (ExprKind::And(a), ExprKind::And(b))
            | (ExprKind::Or(a), ExprKind::Or(b))
            | (ExprKind::Coalesce(a), ExprKind::Coalesce(b))
            | (ExprKind::Grouping(a), ExprKind::Grouping(b))
            | (ExprKind::Array(a), ExprKind::Array(b)) => same_all(a, b),
            (
                ExprKind::MinMax { greatest: g, arguments: a },
                ExprKind::MinMax { greatest: h, arguments: b },
            ) => g == h && same_all(a, b),
            (ExprKind::Cast { argument: a, .. }, ExprKind::Cast { argument: b, .. })
            | (ExprKind::Not(a), ExprKind::Not(b)) => a.is_like(b, how),
            (ExprKind::Length { argument: a, .. }, ExprKind::Length { argument: b, .. }) => {
                self.typmod == other.typmod && a.is_like(b, how)
            }
            (
                ExprKind::Domain { argument: a, rules: m },
                ExprKind::Domain { argument: b, rules: n },
            ) => m.oid == n.oid && a.is_like(b, how),
            (
                ExprKind::IsNull { argument: a, negated: n },
                ExprKind::IsNull { argument: b, negated: m },
            ) => n == m && a.is_like(b, how),
            (
                ExprKind::RowNull { argument: a, negated: n },
                ExprKind::RowNull { argument: b, negated: m },
            ) => n == m && a.is_like(b, how),
            (
                ExprKind::Field { argument: a, field: m, .. },
                ExprKind::Field { argument: b, field: n, .. },
            ) => m == n && a.is_like(b, how),
            (ExprKind::Row(a), ExprKind::Row(b)) => {
                same_optional(a.present.as_ref(), b.present.as_ref(), how)
                    && a.names == b.names
                    && same_all(&a.fields, &b.fields)
            }
            (
                ExprKind::BoolTest { argument: a, test: t },
                ExprKind::BoolTest { argument: b, test: u },
            ) => t == u && a.is_like(b, how),
            (
                ExprKind::Case { operand: o, branches: b, default: d },
                ExprKind::Case { operand: p, branches: c, default: e },
            ) => {
                same_optional(o.as_deref(), p.as_deref(), how)
                    && same_optional(d.as_deref(), e.as_deref(), how)
                    && b.len() == c.len()
                    && b.iter()
                        .zip(c)
                        .all(|((w, x), (y, z))| w.is_like(y, how) && x.is_like(z, how))
            }
            (ExprKind::CaseOperand, ExprKind::CaseOperand) => true,
            (
                ExprKind::ArrayCompare { function: f, any: m, left: a, right: b, .. },
                ExprKind::ArrayCompare { function: g, any: n, left: c, right: d, .. },
            ) => std::ptr::eq(*f, *g) && m == n && a.is_like(c, how) && b.is_like(d, how),
            (
                ExprKind::Distinct { equal: f, left: a, right: b, negated: m },
                ExprKind::Distinct { equal: g, left: c, right: d, negated: n },
            ) => std::ptr::eq(*f, *g) && m == n && a.is_like(c, how) && b.is_like(d, how),
            (
                ExprKind::NullIf { result: a, equal: b },
                ExprKind::NullIf { result: c, equal: d },
            ) => a.is_like(c, how) && b.is_like(d, how),
            (
                ExprKind::Subscript { array: a, subscripts: m },
                ExprKind::Subscript { array: b, subscripts: n },
            ) => a.is_like(b, how) && m.is_like(n, how),
            (ExprKind::SubQuery(a), ExprKind::SubQuery(b)) => a.is_like(b, how),
            _ => false,
        }
    }

    /// Compares what two expressions of the same value may differ in: the place in the text, and
    /// what is shown.
    fn is_at_place_of(&self, other: &Expr) -> bool {
        (self.location, self.typmod, self.own_syntax)
            == (other.location, other.typmod, other.own_syntax)
            && (self.domain, self.collation) == (other.domain, other.collation)
            && self.derived == other.derived
    }
}

/// Decides whether both expressions are absent, or compute the same value from the same row.
#[inline]
fn same_optional(a: Option<&Expr>, b: Option<&Expr>, how: Likeness) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_like(b, how),
        _ => false,
    }
}

/// Decides whether two values of a type are the same in every respect. 1.0 and 1.00 are equal, but
/// expressions over them may differ.
fn same_image(a: &Datum, b: &Datum, oid: TypeOid) -> bool {
    match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => {
            let settings = TextSettings::default();
            to_text(a, oid, &settings) == to_text(b, oid, &settings)
        }
        _ => false,
    }
}
