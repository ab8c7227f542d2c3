//! Stored definitions of partitioned tables and their partitions (`docs/internals/format.md`,
//! catalog).

use serde::{Deserialize, Serialize};

use crate::rows::oid::Oid;

/// Method of assigning rows to partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionStrategy {
    /// PARTITION BY LIST: by the values that a partition lists.
    List,
    /// PARTITION BY RANGE: by bounds around the values.
    Range,
    /// PARTITION BY HASH: by the remainder of a hash of the values.
    Hash,
}

impl PartitionStrategy {
    /// Returns the word of PARTITION BY.
    pub fn word(self) -> &'static str {
        match self {
            Self::List => "LIST",
            Self::Range => "RANGE",
            Self::Hash => "HASH",
        }
    }
    /// Returns PostgreSQL's letter for `pg_partitioned_table.partstrat`.
    pub fn letter(self) -> &'static str {
        match self {
            Self::List => "l",
            Self::Range => "r",
            Self::Hash => "h",
        }
    }
}

/// PARTITION BY.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionKey {
    /// Method of partitioning.
    pub strategy: PartitionStrategy,
    /// Positions of the key's columns in the table.
    pub columns: Vec<u16>,
    /// Collations of the key's columns where they differ from the columns' own; empty when none
    /// does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collations: Vec<Option<Oid>>,
}

/// One value of a bound of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangeValue {
    /// MINVALUE.
    Min,
    /// MAXVALUE.
    Max,
    /// A value, as text in the default settings.
    Value(String),
}

/// FOR VALUES.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionBound {
    /// DEFAULT: rows that no other partition takes.
    Default,
    /// IN: values as text in the default settings, `None` for NULL.
    List(Vec<Option<String>>),
    /// FROM, which is inclusive, and TO, which is exclusive.
    Range {
        /// FROM.
        from: Vec<RangeValue>,
        /// TO.
        to: Vec<RangeValue>,
    },
    /// WITH.
    Hash {
        /// MODULUS, above 0.
        modulus: u32,
        /// REMAINDER, below the modulus.
        remainder: u32,
    },
}

/// Place of a partition in its partitioned table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionOf {
    /// The partitioned table.
    pub parent: Oid,
    /// Bound of the rows that the partition takes.
    pub bound: PartitionBound,
}
