//! Errors of table operations.

use std::error::Error as StdError;
use std::sync::Arc;

use niwaki_types::{Datum, TypeError};

/// Errors of table operations.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Storage failed, or something on disk is damaged.
    #[error(transparent)]
    Storage(#[from] niwaki_storage::Error),
    /// Waits, interrupts, serialization failures, read-only transactions.
    #[error(transparent)]
    Transaction(#[from] niwaki_txn::Error),
    /// A value cannot be read or written.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// The row does not fit on a page (54000).
    #[error("row is too big: size {size}, maximum size {max}")]
    RowTooBig {
        /// Bytes of the row, header included.
        size: usize,
        /// Largest size allowed.
        max: usize,
    },
    /// A value exceeds the largest storable size (54000).
    #[error("value is too large: {size} bytes, at most {max} can be stored")]
    ValueTooBig {
        /// Bytes of the value's stored form.
        size: usize,
        /// Most bytes allowed.
        max: usize,
    },
    /// The key does not fit in an index (54000).
    #[error("index row size {size} exceeds maximum {max} for index \"{index}\"")]
    KeyTooBig {
        /// Bytes of the entry.
        size: usize,
        /// Largest size allowed.
        max: usize,
        /// Name of the index.
        index: String,
    },
    /// The expression of an index, or its predicate, has no value for a row.
    #[error("{0}")]
    Expression(ExpressionError),
    /// Another row has this key (23505).
    #[error("duplicate key value violates unique constraint \"{}\"", .0.index_name)]
    UniqueViolation(Box<UniqueViolation>),
    /// `NOWAIT`, and another transaction holds the row (55P03).
    #[error("could not obtain lock on row in relation \"{table}\"")]
    RowNotAvailable {
        /// Name of the table.
        table: String,
    },
    /// Another transaction has taken the row to another table (40001).
    #[error("tuple to be locked was already moved to another partition due to concurrent update")]
    RowMoved,
    /// A sequence is at its end (2200H).
    #[error("nextval: reached {which} value of sequence ({limit})")]
    SequenceLimit {
        /// `maximum` or `minimum`.
        which: &'static str,
        /// The limit that was reached.
        limit: i64,
    },
    /// The session's temporary files would be larger than `temp_file_limit` (53400).
    #[error("temporary file size exceeds temp_file_limit ({kilobytes}kB)")]
    TempFileLimit {
        /// The limit.
        kilobytes: u64,
    },
    /// A limit of the heap (54000).
    #[error("{0}")]
    Limit(String),
}

/// The error of an expression that has no value for a row. The layer that made the expression knows
/// its real type.
pub type ExpressionError = Arc<dyn StdError + Send + Sync>;

/// The existing key behind a unique violation.
#[derive(Clone, Debug)]
pub struct UniqueViolation {
    /// Position of the index in the table's list.
    pub index: usize,
    /// Name of the index, which is also the constraint's.
    pub index_name: String,
    /// The values of the key's columns, in the order of the index.
    pub key: Vec<Datum>,
}

/// Result of table operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<niwaki_heap::Error> for Error {
    fn from(error: niwaki_heap::Error) -> Self {
        match error {
            niwaki_heap::Error::Storage(error) => Self::Storage(error),
            niwaki_heap::Error::Transaction(error) => Self::Transaction(error),
            niwaki_heap::Error::RowTooBig { size, max } => Self::RowTooBig { size, max },
            limit => Self::Limit(limit.to_string()),
        }
    }
}

impl From<niwaki_nbtree::Error> for Error {
    fn from(error: niwaki_nbtree::Error) -> Self {
        match error {
            niwaki_nbtree::Error::Storage(error) => Self::Storage(error),
            niwaki_nbtree::Error::RowTooLarge { size, max, index } => {
                Self::KeyTooBig { size, max, index }
            }
            other @ niwaki_nbtree::Error::NotSorted { .. } => Self::Limit(other.to_string()),
        }
    }
}
