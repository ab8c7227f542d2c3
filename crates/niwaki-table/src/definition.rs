//! What the catalog tells about a table: everything needed to read and write it.

use std::sync::Arc;

use niwaki_nbtree::IndexOptions;
use niwaki_storage::RelFile;
use niwaki_txn::TableId;
use niwaki_types::{ColumnType, Datum, KeyOrder, key_equal_is_image_equal};

use crate::expression::{KeyExpression, KeySource};

/// One key column of an index.
#[derive(Clone, Debug)]
pub struct KeyColumn {
    /// Where its values come from.
    pub source: KeySource,
    /// Type and order.
    pub order: KeyOrder,
}

impl KeyColumn {
    /// A column of the table as it is: its position, from 0, dropped ones counted.
    pub fn column(column: usize, order: KeyOrder) -> Self {
        Self { source: KeySource::Column(column), order }
    }
}

/// When a unique index refuses equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UniqueCheckTime {
    /// When the entry is inserted.
    #[default]
    AtOnce,
    /// DEFERRABLE: the entry is inserted anyway, and what may be a violation is noted
    /// ([`crate::Workspace::take_deferred`]) for [`crate::Table::check_deferred`].
    Later,
}

/// Which updates make a heap-only version, if that fits on the page (design section 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeapOnlyUpdates {
    /// All: each index whose key changed gets an entry for the root, which becomes `mixed`; the other
    /// indexes are not touched (WARM without a limit).
    #[default]
    AnyKey,
    /// Those that change no index key, predicate or payload: as PostgreSQL's HOT.
    SameKeys,
    /// None: every update makes a new root, with an entry in every index.
    Off,
}

/// One index of a table.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// The index's own number.
    pub id: TableId,
    /// Name: what messages call it.
    pub name: String,
    /// Its files.
    pub file: RelFile,
    /// Key columns in order.
    pub key: Vec<KeyColumn>,
    /// INCLUDE columns: positions in the table's columns.
    pub include: Vec<usize>,
    /// The rows of a partial index: those for which this gives true.
    pub predicate: Option<Arc<dyn KeyExpression>>,
    /// Whether equal keys are refused.
    pub unique: bool,
    /// NULLS NOT DISTINCT: keys with a NULL can equal each other. Else they never do.
    pub nulls_not_distinct: bool,
    /// When a unique index refuses.
    pub check_time: UniqueCheckTime,
    /// Whether it holds the primary key.
    pub primary: bool,
    /// Whether it takes entries. While it does not (a concurrent build has not filled it yet),
    /// updates compare its keys all the same (rule 9b.12).
    pub ready: bool,
    /// Whether scans may use it. Writers keep it up as soon as it is ready.
    pub valid: bool,
    /// Settings of the index.
    pub options: IndexOptions,
}

impl IndexDefinition {
    /// A plain index over these key columns: not unique, ready and valid, with default settings.
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

    /// Whether entries with equal keys hold the same image, so that a posting list may keep it once:
    /// no INCLUDE column, and no key column whose equal values can look different (numeric 1.0 and
    /// 1.00, float -0 and 0).
    pub fn equal_is_image(&self) -> bool {
        self.include.is_empty()
            && self.key.iter().all(|column| key_equal_is_image_equal(column.order.oid))
    }
}

/// A table as the catalog describes it. Immutable: DDL makes another one.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// The table's number; names its table lock.
    pub id: TableId,
    /// Name, for messages.
    pub name: String,
    /// Its files.
    pub file: RelFile,
    /// The files of its large values. Without them a row must fit a page: tables that have no column for such
    /// values, and those of before there were any.
    pub values: Option<RelFile>,
    /// How full, in percent (10..=100), insertions leave a page.
    pub fillfactor: u8,
    /// Which updates are heap-only.
    pub heap_only_updates: HeapOnlyUpdates,
    /// All columns, dropped ones included, in the order of their numbers.
    pub columns: Vec<ColumnType>,
    /// What rows older than a column have in it; shorter than `columns` (or empty) means NULL.
    pub missing: Vec<Datum>,
    /// Indexes, ready or not.
    pub indexes: Vec<IndexDefinition>,
}
