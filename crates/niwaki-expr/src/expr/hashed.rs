//! Recognizes `left = ANY (query)` for an uncorrelated query, whose values are then hashed once
//! (`expr/nested/hashed_values.rs`).

use std::slice::from_ref;

use niwaki_types::{Datum, TypeOid};

use super::{Expr, Quantifier, SubQuery, SubQueryKind};
use crate::function::Function;
use crate::plan::SubPlan;

/// A look-up among the rows of a query.
#[derive(Clone, Copy)]
pub(crate) struct LookUp<'e> {
    /// The values to look up, over the row around the query.
    pub left: &'e [Expr],
    /// The values to compare with, over the query's rows. There are as many as in `left`.
    pub right: &'e [Expr],
    /// Set for `left <> ALL (query)`, which is true if no row of the query is equal.
    pub negated: bool,
}

/// Decides whether a look-up can answer the comparison: an equality of values with the same keys.
pub fn is_hashed(sub: &SubQuery, plan: &SubPlan) -> bool {
    look_up(sub, plan).is_some()
}

/// Returns the look-up that answers the comparison, if there is one.
pub(crate) fn look_up<'e>(sub: &'e SubQuery, plan: &SubPlan) -> Option<LookUp<'e>> {
    let (functions, any, left, right): (&[&Function], bool, &[Expr], &[Expr]) = match &sub.kind {
        SubQueryKind::Compare { function, any, left, right_cast } => {
            (from_ref(function), *any, from_ref(left), from_ref(right_cast))
        }
        SubQueryKind::CompareRows(rows) if rows.with != Quantifier::Only => {
            (&rows.functions, rows.with == Quantifier::Any, &rows.left, &rows.right)
        }
        _ => return None,
    };
    // Rows that differ in one part are not equal, so `<> ALL` asks that none is equal.
    let wanted = if any { "=" } else { "<>" };
    let fits = !plan.correlated
        && functions.iter().all(|function| function.name == wanted)
        && left.iter().zip(right).all(|(left, right)| key_type(left.ty, right.ty).is_some());
    fits.then_some(LookUp { left, right, negated: !any })
}

/// Returns the type whose keys represent values of two types, if equal values have equal keys.
pub(crate) fn key_type(left: TypeOid, right: TypeOid) -> Option<TypeOid> {
    let integer = |ty| matches!(ty, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8);
    match left == right {
        // Rows of no declared type may have fields that cannot be compared.
        true if left == TypeOid::RECORD => None,
        true => Some(left),
        false => (integer(left) && integer(right)).then_some(TypeOid::INT8),
    }
}

/// Converts a value to the type from `key_type`.
pub(crate) fn for_key(value: Datum, ty: TypeOid) -> Datum {
    match (value, ty) {
        (Datum::Int2(value), TypeOid::INT8) => Datum::Int8(value.into()),
        (Datum::Int4(value), TypeOid::INT8) => Datum::Int8(value.into()),
        (value, _) => value,
    }
}
