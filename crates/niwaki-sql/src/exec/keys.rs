//! Values into bounds of an index scan.

use std::ops::Bound;

use niwaki_catalog::Relation;
use niwaki_storage::Tid;
use niwaki_types::{Datum, KeyOrder, MARKER_VALUE, TypeOid, encode_key};

use crate::error::{Result, SqlError};
use crate::expr::{Expr, Runtime};
use crate::plan::KeyCondition;

/// A range of encoded keys.
pub(super) type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A value as a value of the column's own type, if the type has it.
pub(super) enum Fit {
    Value(Datum),
    /// Smaller than all values of the type.
    Below,
    /// Greater than all values of the type.
    Above,
    Null,
}

/// Turns an integer of another width into the column's width.
pub(super) fn fit(value: &Datum, column: TypeOid) -> Fit {
    let integer = match value {
        Datum::Null => return Fit::Null,
        Datum::Int2(v) if column != TypeOid::INT2 => i64::from(*v),
        Datum::Int4(v) if column != TypeOid::INT4 => i64::from(*v),
        Datum::Int8(v) if column != TypeOid::INT8 => *v,
        value => return Fit::Value(value.clone()),
    };
    let fitted = match column {
        TypeOid::INT2 => i16::try_from(integer).ok().map(Datum::Int2),
        TypeOid::INT4 => i32::try_from(integer).ok().map(Datum::Int4),
        TypeOid::INT8 => Some(Datum::Int8(integer)),
        _ => Some(value.clone()),
    };
    match fitted {
        Some(value) => Fit::Value(value),
        None if integer < 0 => Fit::Below,
        None => Fit::Above,
    }
}

/// How a key column of an index orders its values.
pub(super) fn key_order(relation: &Relation, index: usize, column: usize) -> KeyOrder {
    let key = &relation.indexes[index].definition.key[column];
    KeyOrder {
        oid: relation.columns[usize::from(key.column)].column_type().oid,
        descending: key.descending,
        nulls_first: key.nulls_first,
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of one index condition")]
/// The ranges of keys that satisfy the conditions, in the order of the scan, without overlap.
pub(super) fn key_ranges(
    relation: &Relation,
    index: usize,
    equal: &[KeyCondition],
    lower: Option<&(Expr, bool)>,
    upper: Option<&(Expr, bool)>,
    forward: bool,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Vec<KeyRange>> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for (column, condition) in equal.iter().enumerate() {
        let order = key_order(relation, index, column);
        let values = match condition {
            KeyCondition::Equal(expr) => vec![expr.eval(row, rt)?],
            KeyCondition::Any(expr) => match expr.eval(row, rt)? {
                Datum::Array(_, values) => values.to_vec(),
                _ => Vec::new(),
            },
        };
        let mut next = Vec::with_capacity(prefixes.len() * values.len());
        for value in &values {
            // A value outside the type, or NULL, equals nothing.
            let Fit::Value(value) = fit(value, order.oid) else { continue };
            for prefix in &prefixes {
                let mut key = prefix.clone();
                encode_key(&value, order, &mut key);
                next.push(key);
            }
        }
        prefixes = next;
    }
    prefixes.sort_unstable();
    prefixes.dedup();
    if !forward {
        prefixes.reverse();
    }
    if lower.is_none() && upper.is_none() {
        return Ok(prefixes
            .into_iter()
            .map(|prefix| {
                if prefix.is_empty() {
                    (Bound::Unbounded, Bound::Unbounded)
                } else {
                    (Bound::Included(prefix.clone()), Bound::Included(prefix))
                }
            })
            .collect());
    }
    let order = key_order(relation, index, equal.len());
    let low = side(lower, order, true, row, rt)?;
    let high = side(upper, order, false, row, rt)?;
    let (Some(low), Some(high)) = (low, high) else { return Ok(Vec::new()) };
    // In a descending column the encoded bounds change places.
    let (low, high) = if order.descending { (high, low) } else { (low, high) };
    Ok(prefixes
        .into_iter()
        .map(|prefix| {
            let whole = |bound: &Bound<Vec<u8>>| {
                let with = |bytes: &Vec<u8>| [prefix.as_slice(), bytes].concat();
                match bound {
                    Bound::Included(bytes) => Bound::Included(with(bytes)),
                    Bound::Excluded(bytes) => Bound::Excluded(with(bytes)),
                    // No bound of the column, but neither NULLs nor other prefixes.
                    Bound::Unbounded => Bound::Included(with(&vec![MARKER_VALUE])),
                }
            };
            (whole(&low), whole(&high))
        })
        .collect())
}

/// One bound of the range column: `None` when nothing can satisfy it, `Unbounded` when all values do.
fn side(
    bound: Option<&(Expr, bool)>,
    order: KeyOrder,
    is_lower: bool,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<Bound<Vec<u8>>>> {
    let Some((expr, inclusive)) = bound else { return Ok(Some(Bound::Unbounded)) };
    Ok(match fit(&expr.eval(row, rt)?, order.oid) {
        Fit::Null => None,
        Fit::Below => is_lower.then_some(Bound::Unbounded),
        Fit::Above => (!is_lower).then_some(Bound::Unbounded),
        Fit::Value(value) => {
            let mut bytes = Vec::new();
            encode_key(&value, order, &mut bytes);
            Some(if *inclusive { Bound::Included(bytes) } else { Bound::Excluded(bytes) })
        }
    })
}

/// The addresses in a value of type tid or an array of them, each once.
pub(super) fn addresses(value: &Datum) -> Result<Vec<Tid>> {
    let mut tids = match value {
        Datum::Null => Vec::new(),
        Datum::Tid(block, offset) => vec![Tid::new(*block, *offset)],
        Datum::Array(_, values) => {
            let mut tids = Vec::with_capacity(values.len());
            for value in values.iter() {
                tids.extend(addresses(value)?);
            }
            tids
        }
        _ => return Err(SqlError::internal("a ctid condition with another type")),
    };
    tids.sort_unstable();
    tids.dedup();
    Ok(tids)
}
