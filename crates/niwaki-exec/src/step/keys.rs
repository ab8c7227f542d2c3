//! Turns the values of conditions into the keys of an index scan.

use std::ops::Bound;

use niwaki_catalog::Relation;
use niwaki_expr::expr::{Expr, Fit, Runtime, fit};
use niwaki_expr::plan::{BitmapPlan, IndexPath, KeyCondition};
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::Tid;
use niwaki_table::{BitmapSource, ColumnKeys, ScanKeys};
use niwaki_types::{Datum, KeyOrder, MARKER_VALUE, encode_key};

/// Returns the order of an index's key column.
pub(crate) fn key_order(relation: &Relation, index: usize, column: usize) -> KeyOrder {
    let key = &relation.indexes[index].definition.key[column];
    KeyOrder {
        oid: key.type_oid(relation),
        descending: key.descending,
        nulls_first: key.nulls_first,
    }
}

/// Returns the keys that satisfy the conditions on an index's leading columns; `None` when no key
/// can.
pub(crate) fn scan_keys(
    relation: &Relation,
    path: &IndexPath,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<ScanKeys>> {
    let mut columns = Vec::with_capacity(path.keys.len());
    for (column, condition) in path.keys.iter().enumerate() {
        let order = key_order(relation, path.index, column);
        columns.push(match condition {
            KeyCondition::Free => ColumnKeys::Any,
            KeyCondition::Equal(expr) => {
                let mut values = Vec::new();
                add_value(&expr.eval(row, rt)?, order, &mut values);
                ColumnKeys::Values(values)
            }
            KeyCondition::Any(expr) => {
                let mut values = Vec::new();
                if let Datum::Array(_, elements) = expr.eval(row, rt)? {
                    elements.iter().for_each(|value| add_value(value, order, &mut values));
                }
                ColumnKeys::values(values)
            }
            KeyCondition::Null => {
                let mut key = Vec::new();
                encode_key(&Datum::Null, order, &mut key);
                ColumnKeys::Values(vec![key])
            }
            KeyCondition::Range { lower, upper } => {
                let low = side(lower.as_ref(), order, true, row, rt)?;
                let high = side(upper.as_ref(), order, false, row, rt)?;
                let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
                // In a descending column the encoded bounds change places.
                let (lower, upper) = if order.descending { (high, low) } else { (low, high) };
                ColumnKeys::Range { lower, upper }
            }
        });
    }
    let keys = ScanKeys { columns, bounding: path.bounding };
    Ok((!keys.is_empty()).then_some(keys))
}

/// Returns the scan source of a bitmap; `None` when no row can satisfy its conditions.
pub(crate) fn bitmap_source(
    relation: &Relation,
    plan: &BitmapPlan,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<BitmapSource>> {
    Ok(match plan {
        BitmapPlan::Index(path) => scan_keys(relation, path, row, rt)?
            .map(|keys| BitmapSource::Index { index: path.index, keys }),
        BitmapPlan::And(plans) => {
            let mut sources = Vec::with_capacity(plans.len());
            for plan in plans {
                let Some(source) = bitmap_source(relation, plan, row, rt)? else { return Ok(None) };
                sources.push(source);
            }
            Some(BitmapSource::And(sources))
        }
        BitmapPlan::Or(plans) => {
            let mut sources = Vec::with_capacity(plans.len());
            for plan in plans {
                sources.extend(bitmap_source(relation, plan, row, rt)?);
            }
            (!sources.is_empty()).then_some(BitmapSource::Or(sources))
        }
    })
}

/// Appends the encoding of a value. A NULL, or a value outside the type, equals nothing.
fn add_value(value: &Datum, order: KeyOrder, out: &mut Vec<Vec<u8>>) {
    if let Fit::Value(value) = fit(value, order.oid) {
        let mut key = Vec::new();
        encode_key(&value, order, &mut key);
        out.push(key);
    }
}

/// Returns one bound of a range, or `None` when nothing can satisfy the bound.
/// If all values satisfy the bound, it is the marker of values, so that NULLs stay outside.
fn side(
    bound: Option<&(Expr, bool)>,
    order: KeyOrder,
    is_lower: bool,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<Bound<Vec<u8>>>> {
    let all = || Bound::Included(vec![MARKER_VALUE]);
    let Some((expr, inclusive)) = bound else { return Ok(Some(all())) };
    Ok(match fit(&expr.eval(row, rt)?, order.oid) {
        Fit::Null => None,
        Fit::Below => is_lower.then(all),
        Fit::Above => (!is_lower).then(all),
        Fit::Value(value) => {
            let mut bytes = Vec::new();
            encode_key(&value, order, &mut bytes);
            Some(if *inclusive { Bound::Included(bytes) } else { Bound::Excluded(bytes) })
        }
    })
}

/// Returns the addresses in a value of type tid or an array of that type, each once.
pub(crate) fn addresses(value: &Datum) -> Result<Vec<Tid>> {
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
