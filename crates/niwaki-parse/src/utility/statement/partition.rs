//! Partitioning in statements: PARTITION BY, FOR VALUES, ATTACH and DETACH PARTITION.

use niwaki_catalog::{Oid, PartitionStrategy};

use super::Name;

/// PARTITION BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionBy {
    /// The strategy.
    pub strategy: PartitionStrategy,
    /// The key columns: name, collation if given, and error position.
    pub columns: Vec<(String, Option<Oid>, Option<u32>)>,
}

/// One value of FROM or TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeValueSpec {
    /// MINVALUE
    Min,
    /// MAXVALUE
    Max,
    /// An expression, as SQL text.
    Value(String),
}

/// FOR VALUES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundSpec {
    /// DEFAULT
    Default,
    /// IN, with expressions as SQL text.
    List(Vec<String>),
    /// FROM, TO
    Range(Vec<RangeValueSpec>, Vec<RangeValueSpec>),
    /// WITH (MODULUS, REMAINDER)
    Hash(i32, i32),
}

/// PARTITION OF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOfSpec {
    /// The partitioned table.
    pub parent: Name,
    /// The partition bound.
    pub bound: BoundSpec,
}
