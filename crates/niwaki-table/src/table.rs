//! The runtime form of a table: its definition, its heap, its indexes.

use std::sync::Arc;

use niwaki_heap::{Heap, HeapRelation, RowRef};
use niwaki_nbtree::{Index, IndexStats};
use niwaki_storage::Tid;
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, RowView, encode_key, form_row};

use crate::definition::{IndexDefinition, TableDefinition};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::stats::{Counters, TableStats};

/// One index with its handle.
#[derive(Debug)]
pub(crate) struct TableIndex {
    pub(crate) definition: IndexDefinition,
    pub(crate) handle: Arc<Index>,
    /// Types of the INCLUDE columns.
    pub(crate) include: Vec<ColumnType>,
    /// Columns whose values decide the key.
    pub(crate) key_mask: ColumnMask,
    /// Types and order of the key columns.
    pub(crate) order: Vec<KeyOrder>,
}

/// A table that statements read and write. Immutable; DDL opens another one, which finds the same
/// in-memory state by the numbers of the files.
#[derive(Debug)]
pub struct Table {
    pub(crate) engine: Arc<Engine>,
    pub(crate) definition: TableDefinition,
    pub(crate) relation: HeapRelation,
    pub(crate) indexes: Vec<TableIndex>,
    pub(crate) counters: Arc<Counters>,
}

impl Table {
    /// Opens a table; cheap, no I/O.
    pub fn open(engine: &Arc<Engine>, definition: TableDefinition) -> Arc<Self> {
        let relation = engine.heap(&definition);
        let indexes = definition
            .indexes
            .iter()
            .map(|index| {
                let mut key_mask = ColumnMask::default();
                for key in &index.key {
                    key_mask.insert(key.column);
                }
                TableIndex {
                    definition: index.clone(),
                    handle: engine.index(index),
                    include: index.include.iter().map(|&c| definition.columns[c]).collect(),
                    key_mask,
                    order: index.key.iter().map(|key| key.order).collect(),
                }
            })
            .collect();
        let counters = engine.counters(definition.id);
        Arc::new(Self { engine: Arc::clone(engine), definition, relation, indexes, counters })
    }

    /// What the catalog said.
    pub fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    /// The engine it belongs to.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What happened to the table since the database was opened.
    pub fn stats(&self) -> TableStats {
        self.counters.read()
    }

    /// What happened to an index since the database was opened.
    pub fn index_stats(&self, index: usize) -> IndexStats {
        self.indexes[index].handle.stats()
    }

    /// Blocks of the heap.
    ///
    /// # Errors
    /// Storage's.
    pub fn blocks(&self) -> Result<u32> {
        Ok(self.heap().blocks()?)
    }

    /// The heap's operations.
    #[inline]
    pub fn heap(&self) -> Heap<'_> {
        Heap::new(self.engine.storage(), self.engine.transactions(), &self.relation)
    }

    /// An index's operations.
    #[expect(clippy::should_implement_trait, reason = "no part of the table, and nothing to index")]
    pub fn index(&self, index: usize) -> &Index {
        &self.indexes[index].handle
    }

    /// Appends the key that an index has for a row (all columns).
    #[inline]
    pub fn encode_index_key(&self, index: usize, row: &[Datum], out: &mut Vec<u8>) {
        for key in &self.indexes[index].definition.key {
            encode_key(&row[key.column], key.order, out);
        }
    }

    /// Appends the INCLUDE payload that an index has for a row: a byte that tells whether a null
    /// bitmap follows, then the stored form of the columns; nothing without such columns.
    pub(crate) fn encode_payload(&self, index: usize, row: &[Datum], out: &mut Vec<u8>) {
        let index = &self.indexes[index];
        if index.include.is_empty() {
            return;
        }
        let values: Vec<Datum> =
            index.definition.include.iter().map(|&column| row[column].clone()).collect();
        let at = out.len();
        out.push(0);
        out[at] = form_row(&index.include, &values, out).into();
    }

    /// Whether some key column of the row is NULL: such keys never equal each other.
    #[inline]
    pub(crate) fn key_has_null(&self, index: usize, row: &[Datum]) -> bool {
        let key = &self.indexes[index].definition.key;
        key.iter().any(|key| matches!(row[key.column], Datum::Null))
    }

    /// Writes the `needed` columns of a stored row into `out` (as wide as the table); columns that
    /// the row does not have yet get what the table says they have in old rows.
    ///
    /// # Errors
    /// [`Error::Type`] (XX001) when the bytes are damaged.
    #[inline]
    pub fn deform(&self, row: RowRef<'_>, needed: &ColumnMask, out: &mut [Datum]) -> Result<()> {
        self.deform_parts(row.natts, row.has_nulls, row.bytes, needed, out)
    }

    /// [`Table::deform`], of a copied version.
    ///
    /// # Errors
    /// As [`Table::deform`].
    pub fn deform_parts(
        &self,
        natts: u16,
        has_nulls: bool,
        bytes: &[u8],
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<()> {
        let natts = usize::from(natts);
        let mut view = RowView::new(&self.definition.columns, natts, has_nulls, bytes)?;
        let stored = view.deform_into(out, needed)?;
        for (column, place) in out.iter_mut().enumerate().skip(stored) {
            *place = self.definition.missing.get(column).cloned().unwrap_or(Datum::Null);
        }
        Ok(())
    }

    /// Whether a stored version has this key in an index. Compares normalized keys only, so it may
    /// be called under latches (rule 9b.16).
    pub(crate) fn has_key(&self, index: usize, row: RowRef<'_>, key: &[u8]) -> bool {
        let mut encoded = Vec::with_capacity(key.len());
        self.row_key(index, row, &mut encoded).is_ok() && encoded == key
    }

    /// Appends the key that a stored version has in an index.
    pub(crate) fn row_key(&self, index: usize, row: RowRef<'_>, out: &mut Vec<u8>) -> Result<()> {
        let columns = &self.definition.columns;
        let mut view = RowView::new(columns, row.natts.into(), row.has_nulls, row.bytes)?;
        for key in &self.indexes[index].definition.key {
            match view.get(key.column)? {
                Some(value) => encode_key(&value, key.order, out),
                None => {
                    let missing = self.definition.missing.get(key.column);
                    encode_key(missing.unwrap_or(&Datum::Null), key.order, out);
                }
            }
        }
        Ok(())
    }

    /// The error for a key that is there already.
    #[cold]
    pub(crate) fn unique_violation(&self, index: usize, row: &[Datum]) -> Error {
        let definition = &self.indexes[index].definition;
        Error::UniqueViolation(Box::new(crate::UniqueViolation {
            index,
            index_name: definition.name.clone(),
            key: definition.key.iter().map(|key| (key.column, row[key.column].clone())).collect(),
        }))
    }

    /// Whether the heap can have a row at this address.
    ///
    /// # Errors
    /// Storage's.
    pub fn has_block(&self, tid: Tid) -> Result<bool> {
        Ok(self.heap().has_block(tid)?)
    }
}
