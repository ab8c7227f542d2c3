//! The handle of an index of a table.

use std::sync::Arc;

use niwaki_nbtree::Index;
use niwaki_types::{ColumnMask, ColumnType, KeyOrder};

use crate::relation::definition::IndexDefinition;
use crate::relation::over::OverLeaves;
use crate::relation::suspects::Suspects;

/// One index with its handle.
#[derive(Debug)]
pub(crate) struct TableIndex {
    pub(crate) definition: IndexDefinition,
    pub(crate) handle: Arc<Index>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) over: Arc<OverLeaves>,
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
