//! Definitions of tables and indexes, as the catalog hands them to this crate.
//!
//! They hold everything needed to read and write a table.

use std::sync::Arc;

use niwaki_nbtree::IndexOptions;
use niwaki_storage::RelFile;
use niwaki_txn::TableId;
use niwaki_types::{ColumnType, Datum, KeyOrder, key_equal_is_image_equal};

use crate::relation::expression::{KeyExpression, KeySource};

/// One key column of an index.
#[derive(Clone, Debug)]
pub struct KeyColumn {
    /// The source of the column's values.
    pub source: KeySource,
    /// Type and order.
    pub order: KeyOrder,
}

impl KeyColumn {
    /// Makes a key column from a plain table column. `column` is its position, counted from 0 with
    /// dropped columns included.
    pub fn column(column: usize, order: KeyOrder) -> Self {
        Self { source: KeySource::Column(column), order }
    }
}

/// The moment at which a unique index refuses equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UniqueCheckTime {
    /// When the entry is inserted.
    #[default]
    AtOnce,
    /// DEFERRABLE: the entry is inserted anyway. A possible violation is noted
    /// ([`crate::Workspace::take_deferred`]) for [`crate::Table::check_deferred`].
    Later,
}

/// The updates that make a heap-only version, if the version fits on the page
/// (docs/internals/design.md, "Switches").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeapOnlyUpdates {
    /// All updates. Each index whose key changed gets an entry for the chain root, which becomes
    /// `mixed` (a root with several keys). The other indexes are not touched (WARM without a
    /// limit).
    #[default]
    AnyKey,
    /// Updates that change no index key, predicate or payload, as PostgreSQL's HOT.
    SameKeys,
    /// No update. Each one makes a new root, with an entry in every index.
    Off,
}

/// One index of a table.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// The index's own number.
    pub id: TableId,
    /// The name of the index, for messages.
    pub name: String,
    /// Its files.
    pub file: RelFile,
    /// Key columns in order.
    pub key: Vec<KeyColumn>,
    /// INCLUDE columns: positions in the table's columns.
    pub include: Vec<usize>,
    /// The predicate of a partial index: the index holds the rows for which it gives true.
    pub predicate: Option<Arc<dyn KeyExpression>>,
    /// True when the index refuses equal keys.
    pub unique: bool,
    /// NULLS NOT DISTINCT: keys with a NULL can equal each other. Otherwise they never do.
    pub nulls_not_distinct: bool,
    /// The moment at which a unique index refuses equal keys.
    pub check_time: UniqueCheckTime,
    /// True for the index of the primary key.
    pub primary: bool,
    /// True once the index takes entries. Before that (a concurrent build has not filled the index
    /// yet), updates compare its keys all the same (rule `index-build`).
    pub ready: bool,
    /// True once scans may use the index. Writers keep the index up as soon as it is ready.
    pub valid: bool,
    /// Settings of the index.
    pub options: IndexOptions,
}

impl IndexDefinition {
    /// Makes a plain index over these key columns: not unique, ready and valid, with default
    /// settings.
    pub fn new(id: TableId, name: &str, file: RelFile, key: Vec<KeyColumn>) -> Self {
        Self {
            id,
            name: name.to_owned(),
            file,
            key,
            include: Vec::new(),
            predicate: None,
            unique: false,
            nulls_not_distinct: false,
            check_time: UniqueCheckTime::AtOnce,
            primary: false,
            ready: true,
            valid: true,
            options: IndexOptions::default(),
        }
    }

    /// Returns true when entries with equal keys hold the same image, so that a posting list may
    /// keep the image once.
    ///
    /// This requires no INCLUDE column, and no key column whose equal values can look different
    /// (numeric 1.0 and 1.00, float -0 and 0).
    pub fn equal_is_image(&self) -> bool {
        self.include.is_empty()
            && self.key.iter().all(|column| key_equal_is_image_equal(column.order.oid))
    }
}

/// A table as the catalog describes it. Immutable: DDL makes another definition.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// The table's number. It also names the table lock.
    pub id: TableId,
    /// Name, for messages.
    pub name: String,
    /// Its files.
    pub file: RelFile,
    /// The files of the table's large values. Without them a row must fit a page. Tables without a
    /// column for such values have none, nor do tables from before large values existed.
    pub values: Option<RelFile>,
    /// The fill level, in percent (10..=100), at which insertions leave a page.
    pub fillfactor: u8,
    /// The updates that are heap-only.
    pub heap_only_updates: HeapOnlyUpdates,
    /// All columns, dropped ones included, in the order of their numbers.
    pub columns: Vec<ColumnType>,
    /// Values of columns for rows older than the column. A missing position, or an empty list,
    /// means NULL.
    pub missing: Vec<Datum>,
    /// Indexes, ready or not.
    pub indexes: Vec<IndexDefinition>,
}
