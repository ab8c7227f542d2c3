//! Partitioned tables in the form that routes rows.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_types::{Datum, KeyOrder};

use crate::definition::partition_key::{PartitionKey, PartitionStrategy};
use crate::definition::relation_definition::RelationDefinition;
use crate::partition::bound::{
    Bound, Edge, compare_edges, decode_bound, key_of, key_orders, order_of,
};
use crate::partition::column_map::ColumnMap;
use crate::partition::partition_hash::hash_of_row;
use crate::rows::oid::Oid;
use crate::state::relation::Relation;

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
                let listed = if value.is_null() {
                    self.null
                } else {
                    let key = key_of(value, *self.orders.first()?);
                    let at = self.values.binary_search_by(|(other, _)| other.cmp(&key));
                    at.ok().map(|at| self.values[at].1)
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
