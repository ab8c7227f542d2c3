//! Which collation an expression has, derived from its parts as PostgreSQL does.

use niwaki_catalog::{Oid, collation_name, type_collation};
use niwaki_types::{ColumnType, TypeOid};

use super::{Expr, ExprKind, Nested, SubQueryKind};
use crate::functions::collated::needs_collation;

/// The collation of values of types of texts, until something else is said.
pub(crate) const DEFAULT: Oid = Oid(100);
/// The collation of names.
const C: Oid = Oid(950);

/// The collation of an expression, and what it follows from: what is further down here wins over what is above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Collation {
    /// A column of a nested query, of which none could be derived there.
    Lost,
    /// That of the database; or there is none, because the values are no texts.
    #[default]
    Default,
    /// That of a column, a domain or another part.
    Implicit(Oid),
    /// None: parts have these two, and neither wins.
    Unclear(Oid, Oid),
    /// That of COLLATE, which stands in the query text at this place.
    Explicit(Oid, i32),
    /// An error: two COLLATE contradict each other, the second at this place.
    Mismatch(Oid, Oid, i32),
    /// An error: what is told here has to know a collation where there is none.
    Needed(&'static str),
}

impl Collation {
    /// That of a column: `given`, if it is not that of its type.
    pub(crate) fn of_column(given: Option<Oid>, ty: TypeOid) -> Self {
        match given {
            Some(Oid::INVALID) => Self::Lost,
            Some(oid) => Self::Implicit(oid),
            None => Self::of_type(ty),
        }
    }

    /// That of values that are made of nothing with a collation.
    pub(crate) fn of_type(ty: TypeOid) -> Self {
        match ty {
            TypeOid::NAME | TypeOid::NAME_ARRAY => Self::Implicit(C),
            _ => Self::Default,
        }
    }

    /// That of a column of one of PostgreSQL's own tables, whose texts are of no language.
    pub(crate) fn of_system(ty: TypeOid) -> Self {
        if is_collated(ty) { Self::Implicit(C) } else { Self::Default }
    }

    /// What a column of these values is given, if it is not the collation of the type; [`Oid::INVALID`] for none.
    pub(crate) fn as_column(self, column: ColumnType) -> Option<Oid> {
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

    /// What a function is called with: `None` for the collation that everything has of which nothing is said.
    pub(crate) fn as_input(self) -> Option<Oid> {
        match self.oid() {
            Some(DEFAULT) => None,
            // Where there is none, PostgreSQL calls it with that one, too.
            given => given,
        }
    }

    /// What it is, if there is one.
    pub(crate) fn oid(self) -> Option<Oid> {
        match self {
            Self::Default => Some(DEFAULT),
            Self::Implicit(oid) | Self::Explicit(oid, _) => Some(oid),
            Self::Lost | Self::Unclear(..) | Self::Mismatch(..) | Self::Needed(_) => None,
        }
    }

    /// The same of a value that is taken as it is, COLLATE or not: the column of a nested query.
    pub(crate) fn settled(self) -> Self {
        match self {
            Self::Explicit(oid, _) => Self::Implicit(oid),
            Self::Unclear(..) => Self::Lost,
            other => other,
        }
    }

    /// Whether only ASCII letters have cases, and only ASCII characters are letters, digits and so on.
    pub(crate) fn is_ascii(self) -> bool {
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

    /// That of what two parts make together.
    pub(crate) fn with(self, other: Self) -> Self {
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

    /// That which a function is called with: of its arguments together.
    pub(crate) fn of_all<'e>(parts: impl IntoIterator<Item = &'e Expr>) -> Self {
        parts.into_iter().map(|part| part.derived).reduce(Self::with).unwrap_or_default()
    }

    /// That of what a function of these arguments gives, if it gives this type.
    pub(crate) fn of_call(arguments: &[Expr], ty: TypeOid) -> Self {
        match Self::of_all(arguments) {
            Self::Default | Self::Lost => Self::of_type(ty),
            error if error.is_error() => error,
            known if is_collated(ty) => known,
            _ => Self::Default,
        }
    }

    /// That of an expression of this kind and type.
    pub(super) fn derived(kind: &ExprKind, ty: TypeOid) -> Self {
        let parts = Self::of_parts(kind);
        let inside = match (parts, kind) {
            (Self::Unclear(..) | Self::Lost, ExprKind::Call { function, .. })
            | (Self::Unclear(..) | Self::Lost, ExprKind::Distinct { equal: function, .. })
            | (Self::Unclear(..) | Self::Lost, ExprKind::ArrayCompare { function, .. }) => {
                needs_collation(function).map_or(parts, Self::Needed)
            }
            (Self::Unclear(..) | Self::Lost, ExprKind::MinMax { .. }) => {
                Self::Needed(STRING_COMPARISON)
            }
            _ => parts,
        };
        match inside {
            Self::Default => {
                let leaf = || {
                    let mut found = false;
                    // What has no part with a collation has that of its type.
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
                // Each pair of a comparison of rows has its own.
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

/// What fails where texts are compared and there is no collation.
pub(crate) const STRING_COMPARISON: &str = "string comparison";

/// Whether values of a type have a collation.
pub(crate) fn is_collated(ty: TypeOid) -> bool {
    ty == TypeOid::UNKNOWN || type_collation(ty).is_some()
}

/// The parts whose collations make that of an expression.
fn each_part(kind: &ExprKind, visit: &mut dyn FnMut(&Expr)) {
    match kind {
        ExprKind::Case { branches, default, .. } => {
            branches.iter().for_each(|(_, result)| visit(result));
            if let Some(default) = default {
                visit(default);
            }
        }
        // What is in a row has its own, and so has a nested query.
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
