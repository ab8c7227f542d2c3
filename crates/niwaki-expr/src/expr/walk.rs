//! Visits the parts of expressions.

use niwaki_types::{Datum, TextSettings, TypeOid, to_text};

use super::{Expr, ExprKind, SubQueryKind};

impl ExprKind {
    /// Calls `visit` for every direct part, as [`Expr::for_each_child`] does.
    pub fn for_each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        match self {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Slot { .. }
            | ExprKind::CaseOperand
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::SetReturning(_)
            | ExprKind::CurrentOf { .. } => {}
            ExprKind::Call { arguments, .. }
            | ExprKind::UserCall { arguments, .. }
            | ExprKind::Populated { arguments, .. }
            | ExprKind::And(arguments)
            | ExprKind::Or(arguments)
            | ExprKind::Coalesce(arguments)
            | ExprKind::MinMax { arguments, .. }
            | ExprKind::Grouping(arguments)
            | ExprKind::Array(arguments) => arguments.iter().for_each(visit),
            ExprKind::Cast { argument, .. }
            | ExprKind::Length { argument, .. }
            | ExprKind::Domain { argument, .. }
            | ExprKind::Not(argument)
            | ExprKind::IsNull { argument, .. }
            | ExprKind::Field { argument, .. }
            | ExprKind::RowNull { argument, .. }
            | ExprKind::BoolTest { argument, .. } => visit(argument),
            ExprKind::Row(row) => row.exprs().for_each(visit),
            ExprKind::AssignField { record, value, .. } => {
                visit(record);
                visit(value);
            }
            ExprKind::Case { operand, branches, default } => {
                if let Some(operand) = operand {
                    visit(operand);
                }
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                if let Some(default) = default {
                    visit(default);
                }
            }
            ExprKind::NullIf { result, equal } => {
                visit(result);
                visit(equal);
            }
            ExprKind::Distinct { left, right, .. } | ExprKind::ArrayCompare { left, right, .. } => {
                visit(left);
                visit(right);
            }
            ExprKind::Subscript { array, subscripts } => {
                visit(array);
                subscripts.exprs().for_each(visit);
            }
            ExprKind::AssignPart { array, subscripts, value } => {
                visit(array);
                subscripts.exprs().for_each(&mut *visit);
                visit(value);
            }
            ExprKind::SubQuery(sub) => match &sub.kind {
                SubQueryKind::Compare { left, .. } => visit(left),
                SubQueryKind::CompareRows(rows) => rows.left.iter().for_each(visit),
                SubQueryKind::Exists
                | SubQueryKind::Scalar
                | SubQueryKind::Array
                | SubQueryKind::Assigned { .. } => {}
            },
        }
    }
}

impl Expr {
    /// Calls `visit` for every direct part that is evaluated over the same row.
    pub fn for_each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        self.kind.for_each_child(visit);
    }

    /// Calls `visit` for the same parts, with the right to change them.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn for_each_child_mut(
        &mut self,
        visit: &mut dyn FnMut(&mut Expr) -> niwaki_parse::error::Result<()>,
    ) -> niwaki_parse::error::Result<()> {
        match &mut self.kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Slot { .. }
            | ExprKind::CaseOperand
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::SetReturning(_)
            | ExprKind::CurrentOf { .. } => Ok(()),
            ExprKind::Call { arguments, .. }
            | ExprKind::UserCall { arguments, .. }
            | ExprKind::Populated { arguments, .. }
            | ExprKind::And(arguments)
            | ExprKind::Or(arguments)
            | ExprKind::Coalesce(arguments)
            | ExprKind::MinMax { arguments, .. }
            | ExprKind::Grouping(arguments)
            | ExprKind::Array(arguments) => arguments.iter_mut().try_for_each(visit),
            ExprKind::Cast { argument, .. }
            | ExprKind::Length { argument, .. }
            | ExprKind::Domain { argument, .. }
            | ExprKind::Not(argument)
            | ExprKind::IsNull { argument, .. }
            | ExprKind::Field { argument, .. }
            | ExprKind::RowNull { argument, .. }
            | ExprKind::BoolTest { argument, .. } => visit(argument),
            ExprKind::Row(row) => row.exprs_mut().try_for_each(visit),
            ExprKind::AssignField { record, value, .. } => {
                visit(record)?;
                visit(value)
            }
            ExprKind::Case { operand, branches, default } => {
                if let Some(operand) = operand {
                    visit(operand)?;
                }
                for (condition, result) in branches {
                    visit(condition)?;
                    visit(result)?;
                }
                default.as_mut().map_or(Ok(()), |d| visit(d))
            }
            ExprKind::NullIf { result, equal } => {
                visit(result)?;
                visit(equal)
            }
            ExprKind::Distinct { left, right, .. } | ExprKind::ArrayCompare { left, right, .. } => {
                visit(left)?;
                visit(right)
            }
            ExprKind::Subscript { array, subscripts } => {
                visit(array)?;
                subscripts.exprs_mut().try_for_each(visit)
            }
            ExprKind::AssignPart { array, subscripts, value } => {
                visit(array)?;
                subscripts.exprs_mut().try_for_each(&mut *visit)?;
                visit(value)
            }
            ExprKind::SubQuery(sub) => match &mut sub.kind {
                SubQueryKind::Compare { left, .. } => visit(left),
                SubQueryKind::CompareRows(rows) => rows.left.iter_mut().try_for_each(visit),
                SubQueryKind::Exists
                | SubQueryKind::Scalar
                | SubQueryKind::Array
                | SubQueryKind::Assigned { .. } => Ok(()),
            },
        }
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
        // The visit cannot fail.
        let _ = self.for_each_child_mut(&mut |child| {
            child.shift(start);
            Ok(())
        });
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
        if self.ty != other.ty {
            return false;
        }
        let same_all =
            |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(y));
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
            | (ExprKind::Not(a), ExprKind::Not(b)) => a.same(b),
            (ExprKind::Length { argument: a, .. }, ExprKind::Length { argument: b, .. }) => {
                self.typmod == other.typmod && a.same(b)
            }
            (
                ExprKind::Domain { argument: a, rules: m },
                ExprKind::Domain { argument: b, rules: n },
            ) => m.oid == n.oid && a.same(b),
            (
                ExprKind::IsNull { argument: a, negated: n },
                ExprKind::IsNull { argument: b, negated: m },
            ) => n == m && a.same(b),
            (
                ExprKind::RowNull { argument: a, negated: n },
                ExprKind::RowNull { argument: b, negated: m },
            ) => n == m && a.same(b),
            (
                ExprKind::Field { argument: a, field: m, .. },
                ExprKind::Field { argument: b, field: n, .. },
            ) => m == n && a.same(b),
            (ExprKind::Row(a), ExprKind::Row(b)) => {
                same_optional(a.present.as_ref(), b.present.as_ref())
                    && a.names == b.names
                    && same_all(&a.fields, &b.fields)
            }
            (
                ExprKind::BoolTest { argument: a, test: t },
                ExprKind::BoolTest { argument: b, test: u },
            ) => t == u && a.same(b),
            (
                ExprKind::Case { operand: o, branches: b, default: d },
                ExprKind::Case { operand: p, branches: c, default: e },
            ) => {
                same_optional(o.as_deref(), p.as_deref())
                    && same_optional(d.as_deref(), e.as_deref())
                    && b.len() == c.len()
                    && b.iter().zip(c).all(|((w, x), (y, z))| w.same(y) && x.same(z))
            }
            (ExprKind::CaseOperand, ExprKind::CaseOperand) => true,
            (
                ExprKind::ArrayCompare { function: f, any: m, left: a, right: b, .. },
                ExprKind::ArrayCompare { function: g, any: n, left: c, right: d, .. },
            ) => std::ptr::eq(*f, *g) && m == n && a.same(c) && b.same(d),
            (
                ExprKind::Distinct { equal: f, left: a, right: b, negated: m },
                ExprKind::Distinct { equal: g, left: c, right: d, negated: n },
            ) => std::ptr::eq(*f, *g) && m == n && a.same(c) && b.same(d),
            (
                ExprKind::NullIf { result: a, equal: b },
                ExprKind::NullIf { result: c, equal: d },
            ) => a.same(c) && b.same(d),
            (
                ExprKind::Subscript { array: a, subscripts: m },
                ExprKind::Subscript { array: b, subscripts: n },
            ) => a.same(b) && m.same(n),
            (ExprKind::SubQuery(a), ExprKind::SubQuery(b)) => a.same(b),
            _ => false,
        }
    }
}

/// Decides whether both expressions are absent, or compute the same value from the same row.
#[inline]
fn same_optional(a: Option<&Expr>, b: Option<&Expr>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.same(b),
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
