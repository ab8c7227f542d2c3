//! Bounds of partitions in comparable form.

use std::cmp::Ordering;

use niwaki_types::{Datum, InputContext, KeyOrder, TextSettings, TypeOid, encode_key};

use crate::definition::cached;
use crate::definition::partition_key::{PartitionBound, PartitionKey, RangeValue};
use crate::definition::relation_definition::RelationDefinition;

/// One value of a range's bound in comparable form: the bytes of index keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// Below all values.
    Min,
    /// The key of a value.
    Key(Vec<u8>),
    /// Above all values.
    Max,
}

/// A partition's bound in the form that is compared with rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// DEFAULT.
    Default,
    /// IN.
    List {
        /// Keys of the values, in order.
        values: Vec<Vec<u8>>,
        /// True when NULL is listed.
        null: bool,
    },
    /// FROM, TO.
    Range {
        /// The lower bound, inclusive.
        lower: Vec<Edge>,
        /// The upper bound, exclusive.
        upper: Vec<Edge>,
    },
    /// WITH.
    Hash {
        /// Divisor of the hash.
        modulus: u32,
        /// Remainder of the division.
        remainder: u32,
    },
}

/// Compares bounds up to the first MINVALUE or MAXVALUE. The values behind one do not count.
pub fn compare_edges(left: &[Edge], right: &[Edge]) -> Ordering {
    for (left, right) in left.iter().zip(right) {
        match left.cmp(right) {
            Ordering::Equal if !matches!(left, Edge::Key(_)) => return Ordering::Equal,
            Ordering::Equal => {}
            other => return other,
        }
    }
    Ordering::Equal
}

/// Decodes a bound. Returns `None` if a value cannot be read, which was written from a value of the
/// column's type.
pub fn decode_bound(
    table: &RelationDefinition,
    key: &PartitionKey,
    bound: &PartitionBound,
) -> Option<Bound> {
    // A partition without its bound is invisible, for as long as its table is open.
    let _spared = cached::spared();
    let orders = key_orders(table, key);
    let encoded = |text: &str, number: usize| {
        let column = table.columns.get(usize::from(*key.columns.get(number)?))?;
        let settings = TextSettings::default();
        let context = InputContext { settings: &settings, now: 0 };
        let value = niwaki_types::input(column.column_type(), text, &context).ok()?;
        Some(key_of(&value, *orders.get(number)?))
    };
    let edges = |values: &[RangeValue]| {
        let edge = |(number, value): (usize, &RangeValue)| {
            Some(match value {
                RangeValue::Min => Edge::Min,
                RangeValue::Max => Edge::Max,
                RangeValue::Value(text) => Edge::Key(encoded(text, number)?),
            })
        };
        values.iter().enumerate().map(edge).collect::<Option<Vec<Edge>>>()
    };
    Some(match bound {
        PartitionBound::Default => Bound::Default,
        PartitionBound::List(values) => {
            let null = values.contains(&None);
            let keys = values.iter().flatten().map(|text| encoded(text, 0));
            let mut values = keys.collect::<Option<Vec<Vec<u8>>>>()?;
            values.sort();
            Bound::List { values, null }
        }
        PartitionBound::Range { from, to } => {
            Bound::Range { lower: edges(from)?, upper: edges(to)? }
        }
        PartitionBound::Hash { modulus, remainder } => {
            Bound::Hash { modulus: *modulus, remainder: *remainder }
        }
    })
}

pub(crate) fn key_orders(table: &RelationDefinition, key: &PartitionKey) -> Vec<KeyOrder> {
    let order = |column: &u16| {
        let column = table.columns.get(usize::from(*column));
        let oid = column.map_or(TypeOid::UNKNOWN, |c| c.column_type().oid);
        KeyOrder { oid, descending: false, nulls_first: false }
    };
    key.columns.iter().map(order).collect()
}

pub(crate) fn key_of(value: &Datum, order: KeyOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(value, order, &mut bytes);
    bytes
}

/// Compares partitions by their bounds. The one for NULL alone and the default one come last.
pub(crate) fn order_of(left: &Bound, right: &Bound) -> Ordering {
    let rank = |bound: &Bound| match bound {
        Bound::Default => 2,
        Bound::List { values, .. } if values.is_empty() => 1,
        Bound::List { .. } | Bound::Range { .. } | Bound::Hash { .. } => 0,
    };
    rank(left).cmp(&rank(right)).then_with(|| match (left, right) {
        (Bound::List { values: left, .. }, Bound::List { values: right, .. }) => left.cmp(right),
        (Bound::Range { lower: left, .. }, Bound::Range { lower: right, .. }) => {
            compare_edges(left, right)
        }
        (
            Bound::Hash { modulus: left, remainder },
            Bound::Hash { modulus: right, remainder: other },
        ) => (left, remainder).cmp(&(right, other)),
        _ => Ordering::Equal,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use niwaki_types::{ColumnType, TypeError, work};

    use super::*;
    use crate::definition::partition_key::PartitionStrategy;
    use crate::definition::relation_definition::{Column, RelationKind};
    use crate::rows::oid::Oid;

    /// A cancel while a table was opened made a partition invisible, as if its bound were damaged.
    #[test]
    fn a_bound_is_read_whatever_the_session_is_told() {
        let json = ColumnType::new(TypeOid::JSONB);
        let table = RelationDefinition {
            columns: vec![Column::new("a", json)],
            ..RelationDefinition::new(Oid(20_000), Oid(2_200), "t".into(), RelationKind::Table)
        };
        let key = PartitionKey {
            strategy: PartitionStrategy::List,
            columns: vec![0],
            collations: Vec::new(),
        };
        let text = format!("[{}]", vec!["1"; 1000].join(","));
        let bound = PartitionBound::List(vec![Some(text.clone())]);
        let cancelled = || Err(TypeError::new("57014", "cancelled"));
        let _asking = work::asking(Some(Arc::new(cancelled)));
        let settings = TextSettings::default();
        let context = InputContext { settings: &settings, now: 0 };
        let mut reads = (0..1000).map(|_| niwaki_types::input(json, &text, &context));
        assert!(reads.any(|read| read.is_err()), "others are cancelled");
        assert!((0..1000).all(|_| decode_bound(&table, &key, &bound).is_some()));
    }
}
