//! What the catalog tells about a table: everything needed to read and write it.

use niwaki_nbtree::IndexOptions;
use niwaki_storage::RelFile;
use niwaki_types::{ColumnType, Datum, KeyOrder};

/// One key column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Position in the table's columns, from 0, dropped ones counted.
    pub column: usize,
    /// Type and order.
    pub order: KeyOrder,
}

/// One index of a table.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// The index's own number in the catalog.
    pub id: u64,
    /// Name: what messages call it.
    pub name: String,
    /// Its files.
    pub file: RelFile,
    /// Key columns in order.
    pub key: Vec<KeyColumn>,
    /// INCLUDE columns: positions in the table's columns.
    pub include: Vec<usize>,
    /// Whether equal keys are refused. Keys with a NULL never equal each other.
    pub unique: bool,
    /// Whether it holds the primary key.
    pub primary: bool,
    /// Whether scans may use it. Writers keep it up in any case (rule 9b.12).
    pub valid: bool,
    /// Settings of the index.
    pub options: IndexOptions,
}

/// A table as the catalog describes it. Immutable: DDL makes another one.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// The table's number in the catalog; names its table lock.
    pub id: u64,
    /// Name, for messages.
    pub name: String,
    /// Its files.
    pub file: RelFile,
    /// How full, in percent (10..=100), insertions leave a page.
    pub fillfactor: u8,
    /// All columns, dropped ones included, in the order of their numbers.
    pub columns: Vec<ColumnType>,
    /// What rows older than a column have in it; shorter than `columns` (or empty) means NULL.
    pub missing: Vec<Datum>,
    /// Indexes, ready or not.
    pub indexes: Vec<IndexDefinition>,
}
