//! Derives the collation of an expression from the expression's parts, as PostgreSQL does.

use niwaki_catalog::{Oid, collation_name, type_collation};
use niwaki_types::{ColumnType, TypeOid};

use super::{Expr, ExprKind, Nested, SubQueryKind};
use crate::context::ColumnInfo;
use crate::function::{Function, T};

/// The collation `default` of text types, for values without another collation.
pub const DEFAULT: Oid = Oid(100);
/// The collation "C" of type `name`.
const C: Oid = Oid(950);

/// The collation of an expression, with its origin. Later variants win over earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collation {
    /// A column of a nested query for which no collation could be derived.
    Lost,
    /// The database's collation, or no collation because the values are not texts.
    #[default]
    Default,
    /// The collation of a column, a domain or another part.
    Implicit(Oid),
    /// No collation: parts of the expression have these two, and neither wins.
    Unclear(Oid, Oid),
    /// The collation of a COLLATE clause, with the clause's place in the query text.
    Explicit(Oid, i32),
    /// An error: two COLLATE clauses contradict each other. The place is the second clause's.
    Mismatch(Oid, Oid, i32),
    /// An error: the named operation needs a collation, and there is none.
    Needed(&'static str),
}

impl Collation {
    /// Returns the collation of a column. `given` is the column's own collation, if it differs from
    /// its type's collation.
    pub fn of_column(given: Option<Oid>, ty: TypeOid) -> Self {
        match given {
            Some(Oid::INVALID) => Self::Lost,
            Some(oid) => Self::Implicit(oid),
            None => Self::of_type(ty),
        }
    }

    /// Returns the collation of values without parts that have a collation.
    pub fn of_type(ty: TypeOid) -> Self {
        match ty {
            TypeOid::NAME | TypeOid::NAME_ARRAY => Self::Implicit(C),
            _ => Self::Default,
        }
    }

    /// Returns the collation of a column of PostgreSQL's system tables. The texts of these tables
    /// belong to no language.
    pub fn of_system(ty: TypeOid) -> Self {
        if is_collated(ty) { Self::Implicit(C) } else { Self::Default }
    }

    /// Returns the collation to store for a column of these values, if it differs from the type's
    /// collation. [`Oid::INVALID`] means no collation.
    pub fn as_column(self, column: ColumnType) -> Option<Oid> {
        if self == Self::Default && column.domain.is_none() && column.oid != TypeOid::NAME {
            return None;
        }
        let of_type = type_collation(column.oid)?;
        match self.oid() {
            None => Some(Oid::INVALID),
            Some(oid) if oid == of_type && column.domain.is_none() => None,
            given => given,
        }
    }

    /// Returns the collation that a function is called with; `None` for the default collation.
    pub fn as_input(self) -> Option<Oid> {
        match self.oid() {
            Some(DEFAULT) => None,
            // If there is no collation, the function is called with the default one, as in
            // PostgreSQL.
            given => given,
        }
    }

    /// Returns the collation, if there is one.
    pub fn oid(self) -> Option<Oid> {
        match self {
            Self::Default => Some(DEFAULT),
            Self::Implicit(oid) | Self::Explicit(oid, _) => Some(oid),
            Self::Lost | Self::Unclear(..) | Self::Mismatch(..) | Self::Needed(_) => None,
        }
    }

    /// Returns the collation as a nested query's column passes it on: COLLATE no longer counts as
    /// explicit.
    pub fn settled(self) -> Self {
        match self {
            Self::Explicit(oid, _) => Self::Implicit(oid),
            Self::Unclear(..) => Self::Lost,
            other => other,
        }
    }

    /// Decides whether only ASCII characters are letters, digits and so on, and only ASCII letters
    /// have cases.
    pub fn is_ascii(self) -> bool {
        let named = match self {
            Self::Implicit(oid) | Self::Explicit(oid, _) => collation_name(oid),
            _ => None,
        };
        matches!(named, Some("C" | "POSIX" | "ucs_basic"))
    }

    pub(crate) fn is_error(self) -> bool {
        matches!(self, Self::Mismatch(..) | Self::Needed(_))
    }

    fn rank(self) -> u8 {
        match self {
            Self::Lost => 0,
            Self::Default | Self::Implicit(DEFAULT) => 1,
            Self::Implicit(_) => 2,
            Self::Unclear(..) => 3,
            Self::Explicit(..) => 4,
            Self::Mismatch(..) | Self::Needed(_) => 5,
        }
    }

    /// Combines the collations of two parts.
    pub fn with(self, other: Self) -> Self {
        if self.rank() != other.rank() {
            return if self.rank() > other.rank() { self } else { other };
        }
        match (self, other) {
            (Self::Implicit(one), Self::Implicit(two)) if one != two && self.rank() > 1 => {
                Self::Unclear(one, two)
            }
            (Self::Explicit(one, _), Self::Explicit(two, at)) if one != two => {
                Self::Mismatch(one, two, at)
            }
            _ => self,
        }
    }

    /// Returns the combined collation of a function's arguments.
    pub fn of_all<'e>(parts: impl IntoIterator<Item = &'e Expr>) -> Self {
        parts.into_iter().map(|part| part.derived).reduce(Self::with).unwrap_or_default()
    }

    /// Returns the collation of the result of a function with these arguments and this result type.
    pub fn of_call(arguments: &[Expr], ty: TypeOid) -> Self {
        match Self::of_all(arguments) {
            Self::Default | Self::Lost => Self::of_type(ty),
            error if error.is_error() => error,
            known if is_collated(ty) => known,
            _ => Self::Default,
        }
    }

    /// Returns the collation of an expression of this kind and type.
    pub(super) fn derived(kind: &ExprKind, ty: TypeOid) -> Self {
        let parts = Self::of_parts(kind);
        let inside = match (parts, kind) {
            (
                Self::Unclear(..) | Self::Lost,
                ExprKind::Call { function, .. }
                | ExprKind::Distinct { equal: function, .. }
                | ExprKind::ArrayCompare { function, .. },
            ) => needs_collation(function).map_or(parts, Self::Needed),
            (Self::Unclear(..) | Self::Lost, ExprKind::MinMax { .. }) => {
                Self::Needed(STRING_COMPARISON)
            }
            _ => parts,
        };
        match inside {
            Self::Default => {
                let leaf = || {
                    let mut found = false;
                    // An expression without a part that has a collation gets the collation of its
                    // type.
                    each_part(kind, &mut |part| found |= is_collated(part.ty));
                    !found
                };
                let own = Self::of_type(ty);
                if own != Self::Default && leaf() { own } else { Self::Default }
            }
            error if error.is_error() => error,
            Self::Lost if matches!(kind, ExprKind::Call { .. } | ExprKind::UserCall { .. }) => {
                Self::of_type(ty)
            }
            known if is_collated(ty) => known,
            _ => Self::Default,
        }
    }

    fn of_parts(kind: &ExprKind) -> Self {
        if let ExprKind::SubQuery(sub) = kind {
            let Nested::Query(query) = &sub.query else { return Self::Default };
            let number = match &sub.kind {
                SubQueryKind::Assigned { column, .. } => *column,
                _ => 0,
            };
            let column = query.columns.get(number);
            let column = column.map_or(Self::Default, |column| {
                Self::of_column(column.collation, column.column_type.oid)
            });
            return match &sub.kind {
                // Each pair of a row comparison has its own collation.
                SubQueryKind::Exists | SubQueryKind::CompareRows(_) => Self::Default,
                SubQueryKind::Scalar | SubQueryKind::Array | SubQueryKind::Assigned { .. } => {
                    column
                }
                SubQueryKind::Compare { function, left, .. } => match left.derived.with(column) {
                    Self::Unclear(..) | Self::Lost => {
                        needs_collation(function).map_or(Self::Default, Self::Needed)
                    }
                    together => together,
                },
            };
        }
        let mut all: Option<Self> = None;
        each_part(kind, &mut |part| {
            all = Some(all.map_or(part.derived, |all| all.with(part.derived)));
        });
        all.unwrap_or_default()
    }
}

/// The operation that error messages name when texts are compared without a collation.
pub const STRING_COMPARISON: &str = "string comparison";

/// Decides whether values of a type have a collation.
pub fn is_collated(ty: TypeOid) -> bool {
    ty == TypeOid::UNKNOWN || type_collation(ty).is_some()
}

/// Visits the parts whose collations make up the collation of an expression.
fn each_part(kind: &ExprKind, visit: &mut dyn FnMut(&Expr)) {
    match kind {
        ExprKind::Case { branches, default, .. } => {
            branches.iter().for_each(|(_, result)| visit(result));
            if let Some(default) = default {
                visit(default);
            }
        }
        // The values in a row have their own collations, and so has a nested query.
        ExprKind::Row(_)
        | ExprKind::Field { .. }
        | ExprKind::AssignField { .. }
        | ExprKind::AssignPart { .. }
        | ExprKind::Grouping(_)
        | ExprKind::SubQuery(_) => {}
        ExprKind::Subscript { array, .. } => visit(array),
        ExprKind::NullIf { equal, .. } if equal.derived.is_error() => visit(equal),
        ExprKind::NullIf { equal, .. } => equal.for_each_child(&mut |part| visit(part)),
        _ => kind.for_each_child(&mut |part| visit(part)),
    }
}

/// Returns the name for the error message of a function that fails when no collation can be
/// determined.
pub(crate) fn needs_collation(function: &Function) -> Option<&'static str> {
    let compares =
        |ty: &_| matches!(*ty, T::TEXT | T::BPCHAR | T::NAME | T::ARRAY | T::COMPATIBLES);
    match function.name {
        "lower" => Some("lower() function"),
        "upper" => Some("upper() function"),
        "initcap" => Some("initcap() function"),
        "~~*" | "!~~*" => Some("ILIKE"),
        "~" | "~*" | "!~" | "!~*" => Some("regular expression"),
        "substring" if function.arguments.get(1) == Some(&T::TEXT) => Some("regular expression"),
        name if name.starts_with("regexp_") => Some("regular expression"),
        "=" | "<>" | "<" | "<=" | ">" | ">=" | "@>" | "<@" | "&&"
            if function.arguments.iter().any(compares) =>
        {
            Some(STRING_COMPARISON)
        }
        "position" | "strpos" | "replace" | "split_part" | "starts_with" | "^@"
        | "string_to_array" | "string_to_table" | "array_position" | "array_positions"
        | "array_remove" | "array_replace" => Some(STRING_COMPARISON),
        _ => None,
    }
}

impl ColumnInfo {
    /// Returns the same column with the collation of an expression.
    pub fn collated(self, derived: Collation) -> Self {
        Self { collation: derived.as_column(self.column_type), ..self }
    }

    /// Returns the column as an expression over a slot.
    pub fn at_slot(&self, slot: usize) -> Expr {
        let derived = Collation::of_column(self.collation, self.column_type.oid);
        Expr { derived, ..Expr::slot(slot, self.column_type) }
    }
}
