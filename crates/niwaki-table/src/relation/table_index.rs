//! The handle of an index of a table.

use std::sync::Arc;

use niwaki_nbtree::Index;
use niwaki_types::{ColumnMask, ColumnType, KeyOrder};

use crate::relation::definition::{IndexDefinition, TableDefinition};
use crate::relation::expired_prefix::ExpiredPrefixes;
use crate::relation::suspects::Suspects;

/// One index with its handle.
#[derive(Debug)]
pub(crate) struct TableIndex {
    pub(crate) definition: IndexDefinition,
    pub(crate) handle: Arc<Index>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) expired: Arc<ExpiredPrefixes>,
    /// Types of the INCLUDE columns.
    pub(crate) include: Vec<ColumnType>,
    /// Columns whose values decide the key, or whether the row has an entry at all.
    pub(crate) key_mask: ColumnMask,
    /// Types and order of the key columns.
    pub(crate) order: Vec<KeyOrder>,
    /// True when keys or predicate are expressions, which are never evaluated under a latch
    /// (rule `bytes-under-latch`).
    pub(crate) computed: bool,
}

impl TableIndex {
    /// Asserts that what was derived from the definition agrees with it, and with its table's.
    pub(crate) fn assert_state(&self, table: &TableDefinition) {
        let Self { definition, handle, include, key_mask, order, computed, .. } = self;
        let IndexDefinition { file, key, .. } = definition;
        debug_assert_eq!(handle.file().id, file.id, "the handle is of another index");
        debug_assert_eq!(include.len(), definition.include.len(), "a type for each INCLUDE column");
        debug_assert_eq!(order.len(), key.len(), "an order for each key column");
        debug_assert!(
            key.iter().filter_map(|key| key.source.column()).all(|at| key_mask.contains(at)),
            "a key column is missing from the columns that decide the key",
        );
        debug_assert!(
            definition.include.iter().all(|at| *at < table.columns.len()),
            "an INCLUDE column is no column of the table",
        );
        debug_assert!(
            *computed || key.iter().all(|key| key.source.column().is_some()),
            "an index with an expression counts as one of plain columns",
        );
        debug_assert!(
            *computed || definition.predicate.is_none(),
            "a partial index counts as one of plain columns",
        );
    }
}
