//! Partitioned tables in the form that routes rows.

use std::cmp::Ordering;
use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_types::{Datum, InputContext, KeyOrder, TextSettings, TypeOid, encode_key};

use crate::definition::lasting;
use crate::definition::partition_key::{
    PartitionBound, PartitionKey, PartitionStrategy, RangeValue,
};
use crate::definition::relation_definition::RelationDefinition;
use crate::partition::partition_hash::hash_of_row;
use crate::postgres::collation::collation_name;
use crate::rows::oid::Oid;
use crate::state::relation::Relation;

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

/// Map from the columns of one table to the columns of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnMap {
    /// Position in the second table of each column of the first; `None` for a dropped column.
    /// Absent when all columns have the same positions.
    to: Option<Vec<Option<usize>>>,
    /// Number of columns of the second table.
    width: usize,
}

impl ColumnMap {
    /// Maps the columns of `from` to the columns of `to` with the same names.
    pub fn between(from: &RelationDefinition, to: &RelationDefinition) -> Self {
        let width = to.columns.len();
        let same = from.columns.len() == width
            && from
                .columns
                .iter()
                .zip(&to.columns)
                .all(|(a, b)| a.dropped == b.dropped && (a.dropped || a.name == b.name));
        if same {
            return Self { to: None, width };
        }
        let place = |name: &str| to.columns.iter().position(|c| !c.dropped && c.name == name);
        let places = from.columns.iter().map(|column| match column.dropped {
            true => None,
            false => place(&column.name),
        });
        Self { to: Some(places.collect()), width }
    }

    /// Returns the map that applies this one, then `next`.
    pub fn then(&self, next: &Self) -> Self {
        let Some(first) = &self.to else { return next.clone() };
        let to = first.iter().map(|place| place.and_then(|place| next.place(place))).collect();
        Self { to: Some(to), width: next.width }
    }

    /// Decides whether all columns have the same positions.
    pub fn is_same(&self) -> bool {
        self.to.is_none()
    }

    /// Returns the position of a column in the second table.
    pub fn place(&self, column: usize) -> Option<usize> {
        match &self.to {
            None => (column < self.width).then_some(column),
            Some(to) => to.get(column).copied().flatten(),
        }
    }

    /// Converts a row of the first table to one of the second. Columns only in the second are NULL.
    pub fn forward(&self, row: &[Datum]) -> Vec<Datum> {
        let Some(to) = &self.to else { return row.to_vec() };
        let mut out = vec![Datum::Null; self.width];
        for (value, place) in row.iter().zip(to) {
            if let Some(place) = place {
                out[*place] = value.clone();
            }
        }
        out
    }

    /// Converts a row of the second table to one of the first.
    pub fn backward(&self, row: &[Datum]) -> Vec<Datum> {
        let Some(to) = &self.to else { return row.to_vec() };
        let value = |place: &Option<usize>| place.and_then(|place| row.get(place)).cloned();
        to.iter().map(|place| value(place).unwrap_or(Datum::Null)).collect()
    }
}

/// One partition of a table.
#[derive(Debug)]
pub struct Partition {
    /// The partition, which may be partitioned itself.
    pub relation: Arc<Relation>,
    /// Bound of the rows that the partition takes.
    pub bound: Bound,
    /// Map from the columns of the partitioned table to the partition's.
    pub columns: ColumnMap,
    /// Range of the partition's own leaves among the table's leaves.
    pub leaves: std::ops::Range<usize>,
}

/// A table below a partitioned one that has rows of its own.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The table.
    pub relation: Arc<Relation>,
    /// Map from the columns of the partitioned table to the leaf's.
    pub columns: ColumnMap,
}

/// Failure to find a partition for a row.
#[derive(Debug)]
pub struct NoPartition<'p> {
    /// The table of the tree that has no partition for the row.
    pub table: &'p Arc<Relation>,
    /// The row in that table's columns.
    pub row: Vec<Datum>,
}

/// The partitions of a table, ready to route rows.
#[derive(Debug)]
pub struct Partitions {
    /// PARTITION BY.
    pub key: PartitionKey,
    orders: Vec<KeyOrder>,
    /// Partitions in the order of their bounds. The one for NULL alone and the default one come
    /// last.
    pub members: Vec<Partition>,
    /// All leaves, in the order of the members.
    pub leaves: Vec<Leaf>,
    by_oid: HashMap<Oid, usize>,
    /// Keys of listed values, each with the partition that lists it.
    values: Vec<(Vec<u8>, usize)>,
    null: Option<usize>,
    default: Option<usize>,
}

/// Decodes a bound. Returns `None` if a value cannot be read, which was written from a value of the
/// column's type.
pub fn decode_bound(
    table: &RelationDefinition,
    key: &PartitionKey,
    bound: &PartitionBound,
) -> Option<Bound> {
    // A partition without its bound is invisible, for as long as its table is open.
    let _spared = lasting::spared();
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

fn key_orders(table: &RelationDefinition, key: &PartitionKey) -> Vec<KeyOrder> {
    let order = |column: &u16| {
        let column = table.columns.get(usize::from(*column));
        let oid = column.map_or(TypeOid::UNKNOWN, |c| c.column_type().oid);
        KeyOrder { oid, descending: false, nulls_first: false }
    };
    key.columns.iter().map(order).collect()
}

fn key_of(value: &Datum, order: KeyOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(value, order, &mut bytes);
    bytes
}

/// Compares partitions by their bounds. The one for NULL alone and the default one come last.
fn order_of(left: &Bound, right: &Bound) -> Ordering {
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

impl Partitions {
    /// Builds the partitions of a table, given all tables that name it as their parent.
    pub(crate) fn of(
        table: &RelationDefinition,
        key: &PartitionKey,
        children: &[Arc<Relation>],
    ) -> Self {
        let mut members: Vec<Partition> = Vec::with_capacity(children.len());
        for relation in children {
            let Some(of) = &relation.partition_of else { continue };
            // A partition whose bound cannot be read takes no rows, and its rows are invisible.
            // `niwaki check` reports that.
            let Some(bound) = decode_bound(table, key, &of.bound) else { continue };
            members.push(Partition {
                columns: ColumnMap::between(table, &relation.definition),
                relation: Arc::clone(relation),
                bound,
                leaves: 0..0,
            });
        }
        members.sort_by(|a, b| order_of(&a.bound, &b.bound));
        let mut found = Self {
            key: key.clone(),
            orders: key_orders(table, key),
            members: Vec::new(),
            leaves: Vec::new(),
            by_oid: HashMap::default(),
            values: Vec::new(),
            null: None,
            default: None,
        };
        for (number, member) in members.iter_mut().enumerate() {
            let first = found.leaves.len();
            match &member.relation.partitions {
                Some(below) => found.leaves.extend(below.leaves.iter().map(|leaf| Leaf {
                    relation: Arc::clone(&leaf.relation),
                    columns: member.columns.then(&leaf.columns),
                })),
                None => found.leaves.push(Leaf {
                    relation: Arc::clone(&member.relation),
                    columns: member.columns.clone(),
                }),
            }
            member.leaves = first..found.leaves.len();
            match &member.bound {
                Bound::Default => found.default = Some(number),
                Bound::List { values, null } => {
                    found.values.extend(values.iter().map(|value| (value.clone(), number)));
                    if *null {
                        found.null = Some(number);
                    }
                }
                Bound::Range { .. } | Bound::Hash { .. } => {}
            }
        }
        found.values.sort();
        found.by_oid = found.leaves.iter().enumerate().map(|(n, l)| (l.relation.oid, n)).collect();
        found.members = members;
        found
    }

    /// Returns the comparison orders of the key's columns.
    pub fn orders(&self) -> &[KeyOrder] {
        &self.orders
    }

    /// Returns the default partition, which takes the rows that no other one does.
    pub fn default_member(&self) -> Option<usize> {
        self.default
    }

    /// Returns the partition for NULL.
    pub fn null_member(&self) -> Option<usize> {
        self.null
    }

    /// Returns the listed values, as keys in order, each with the partition that lists it.
    pub fn listed(&self) -> &[(Vec<u8>, usize)] {
        &self.values
    }

    /// Returns the number of a leaf.
    pub fn leaf_of(&self, oid: Oid) -> Option<usize> {
        self.by_oid.get(&oid).copied()
    }

    /// Returns the partition, one level down, that takes a row of the partitioned table.
    pub fn member_of(&self, row: &[Datum]) -> Option<usize> {
        let value = |column: &u16| row.get(usize::from(*column)).unwrap_or(&Datum::Null);
        match self.key.strategy {
            PartitionStrategy::List => {
                let value = value(self.key.columns.first()?);
                let listed = match value.is_null() {
                    true => self.null,
                    false => {
                        let key = key_of(value, *self.orders.first()?);
                        let at = self.values.binary_search_by(|(other, _)| other.cmp(&key));
                        at.ok().map(|at| self.values[at].1)
                    }
                };
                listed.or(self.default)
            }
            PartitionStrategy::Range => {
                let mut edges = Vec::with_capacity(self.orders.len());
                for (column, order) in self.key.columns.iter().zip(&self.orders) {
                    let value = value(column);
                    if value.is_null() {
                        return self.default;
                    }
                    edges.push(Edge::Key(key_of(value, *order)));
                }
                // Find the last partition that begins at the row or before it.
                let at = self.members.partition_point(|member| match &member.bound {
                    Bound::Range { lower, .. } => compare_edges(lower, &edges).is_le(),
                    _ => false,
                });
                let found = at.checked_sub(1).filter(|at| match &self.members[*at].bound {
                    Bound::Range { upper, .. } => compare_edges(&edges, upper).is_lt(),
                    _ => false,
                });
                found.or(self.default)
            }
            PartitionStrategy::Hash => {
                let hash = hash_of_row(self.key.columns.iter().map(value));
                self.members.iter().position(|member| match member.bound {
                    Bound::Hash { modulus, remainder } => {
                        hash % u64::from(modulus.max(1)) == u64::from(remainder)
                    }
                    _ => false,
                })
            }
        }
    }

    /// Returns the leaf that takes a row of `table`, whose partitions these are.
    ///
    /// # Errors
    /// [`NoPartition`].
    pub fn route<'p>(
        &'p self,
        table: &'p Arc<Relation>,
        row: &[Datum],
    ) -> Result<usize, NoPartition<'p>> {
        let number = self.member_of(row);
        let Some(member) = number.and_then(|number| self.members.get(number)) else {
            return Err(NoPartition { table, row: row.to_vec() });
        };
        match &member.relation.partitions {
            None => Ok(member.leaves.start),
            Some(below) => {
                let row = member.columns.forward(row);
                Ok(member.leaves.start + below.route(&member.relation, &row)?)
            }
        }
    }
}

impl Relation {
    /// Decides whether the table is partitioned, so that its rows are in its partitions.
    pub fn is_partitioned(&self) -> bool {
        self.definition.partition_key.is_some()
    }
}

/// Returns PARTITION BY as PostgreSQL shows it: `RANGE (a, b)`.
pub fn partition_key_text(table: &RelationDefinition) -> Option<String> {
    let key = table.partition_key.as_ref()?;
    let shown = |(at, column): (usize, &u16)| {
        let column = table.columns.get(usize::from(*column))?;
        let name = niwaki_types::quote_identifier(&column.name);
        let collation = key.collations.get(at).copied().flatten().and_then(collation_name);
        Some(match collation {
            Some(of) => format!("{name} COLLATE {}", niwaki_types::quote_identifier(of)),
            None => name,
        })
    };
    let names: Vec<String> = key.columns.iter().enumerate().filter_map(shown).collect();
    Some(format!("{} ({})", key.strategy.word(), names.join(", ")))
}

/// Returns a bound as PostgreSQL shows it: `FOR VALUES FROM (1) TO (10)`.
pub fn bound_text(table: &RelationDefinition, bound: &PartitionBound) -> String {
    match bound {
        PartitionBound::Default => "DEFAULT".to_owned(),
        PartitionBound::List(values) => {
            let value = |value: &Option<String>| match value {
                Some(text) => value_text(table, 0, text),
                None => "NULL".to_owned(),
            };
            let values: Vec<String> = values.iter().map(value).collect();
            format!("FOR VALUES IN ({})", values.join(", "))
        }
        PartitionBound::Range { from, to } => {
            format!("FOR VALUES FROM {} TO {}", range_text(table, from), range_text(table, to))
        }
        PartitionBound::Hash { modulus, remainder } => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
    }
}

/// Returns the values of one side of a range, in brackets.
pub fn range_text(table: &RelationDefinition, values: &[RangeValue]) -> String {
    let value = |(number, value): (usize, &RangeValue)| match value {
        RangeValue::Min => "MINVALUE".to_owned(),
        RangeValue::Max => "MAXVALUE".to_owned(),
        RangeValue::Value(text) => value_text(table, number, text),
    };
    let values: Vec<String> = values.iter().enumerate().map(value).collect();
    format!("({})", values.join(", "))
}

/// Returns a value of a key's column as a constant without its type.
fn value_text(table: &RelationDefinition, number: usize, text: &str) -> String {
    let column = table.partition_key.as_ref().and_then(|key| key.columns.get(number));
    let column = column.and_then(|column| table.columns.get(usize::from(*column)));
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    match column.map(|column| column.column_type().oid) {
        Some(TypeOid::INT4) if digits => text.to_owned(),
        Some(TypeOid::NUMERIC) if digits && text.contains(['e', 'E', '.']) => text.to_owned(),
        Some(TypeOid::BOOL) if text.starts_with('t') => "true".to_owned(),
        Some(TypeOid::BOOL) => "false".to_owned(),
        _ if text.contains('\\') => {
            format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
        }
        _ => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use niwaki_types::{ColumnType, TypeError, work};

    use super::*;
    use crate::definition::relation_definition::{Column, RelationKind};

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
