//! The runtime form of a table: definition, heap and indexes.

use std::sync::Arc;

use niwaki_heap::{Heap, HeapRelation, KeyObserver};
use niwaki_nbtree::{Index, IndexStats};
use niwaki_storage::{RelFileId, Tid};
use niwaki_types::ColumnMask;

use crate::error::Result;
use crate::relation::definition::{HeapOnlyUpdates, IndexDefinition, TableDefinition};
use crate::relation::engine::{Engine, OpenIndex};
use crate::relation::observer::Observer;
use crate::relation::stats::{Counters, TableStats};
use crate::relation::table_index::TableIndex;

/// A table that statements read and write. Immutable: DDL opens another one. The new one finds the
/// same in-memory state by the numbers of the files.
#[derive(Debug)]
pub struct Table {
    pub(crate) engine: Arc<Engine>,
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) relation: HeapRelation,
    /// The heap of the table's large values, if the table can have some.
    pub(crate) values: Option<HeapRelation>,
    /// Columns that indexes hold as they are, in keys or payloads.
    pub(crate) indexed_columns: ColumnMask,
    pub(crate) indexes: Arc<[TableIndex]>,
    /// The files of the indexes that are kept up. They distinguish these indexes from earlier and
    /// later ones of the table.
    pub(crate) index_files: Arc<[RelFileId]>,
    pub(crate) counters: Arc<Counters>,
    /// The key-loss callback: answers questions of heap passes about keys.
    pub(crate) keys: Arc<Observer>,
    /// The same object, as the heap knows it.
    pub(crate) observer: Arc<dyn KeyObserver>,
}

impl Table {
    /// Opens a table. Cheap, no I/O.
    pub fn open(engine: &Arc<Engine>, definition: TableDefinition) -> Arc<Self> {
        let counters = engine.counters(definition.id);
        let any_key = definition.heap_only_updates == HeapOnlyUpdates::AnyKey;
        let relation = engine.heap(&definition).counting(Arc::clone(&counters.heap));
        let changes = Arc::clone(&counters.changes);
        let relation = relation.reporting_moves(any_key).reporting_changes(changes);
        let values = engine.value_heap(&definition);
        let indexes: Arc<[TableIndex]> = definition
            .indexes
            .iter()
            .map(|index| {
                let mut key_mask = ColumnMask::default();
                for key in &index.key {
                    key.source.add_columns(&mut key_mask);
                }
                if let Some(predicate) = &index.predicate {
                    predicate.columns().iter().for_each(|column| key_mask.insert(column));
                }
                let expression = index.key.iter().any(|key| key.source.column().is_none());
                let OpenIndex { handle, suspects, expired, .. } =
                    engine.index(definition.id, index);
                TableIndex {
                    definition: index.clone(),
                    handle,
                    suspects,
                    expired,
                    include: index.include.iter().map(|&c| definition.columns[c]).collect(),
                    key_mask,
                    order: index.key.iter().map(|key| key.order).collect(),
                    computed: expression || index.predicate.is_some(),
                }
            })
            .collect();
        let plain = |index: &IndexDefinition| {
            let keys = index.key.iter().filter_map(|key| key.source.column());
            keys.chain(index.include.iter().copied()).collect::<Vec<_>>()
        };
        let indexed_columns = definition.indexes.iter().flat_map(plain).collect();
        let ready_indexes = indexes.iter().filter(|index| index.definition.ready);
        let index_files = ready_indexes.map(|index| index.handle.file().id).collect();
        indexes.iter().for_each(|index| index.assert_state(&definition));
        debug_assert_eq!(indexes.len(), definition.indexes.len(), "a handle for each index");
        let engine = Arc::clone(engine);
        let definition = Arc::new(definition);
        let keys = Arc::new(Observer::new(&definition, &indexes, &counters));
        Arc::new(Self {
            engine,
            definition,
            relation,
            values,
            indexed_columns,
            indexes,
            index_files,
            counters,
            observer: Arc::clone(&keys) as Arc<dyn KeyObserver>,
            keys,
        })
    }

    /// Returns the catalog's definition.
    pub fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    /// Returns the engine of the table.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns statistics of the table since the database was opened.
    pub fn stats(&self) -> TableStats {
        self.counters.read()
    }

    /// Returns statistics of an index since the database was opened.
    pub fn index_stats(&self, index: usize) -> IndexStats {
        self.indexes[index].handle.stats()
    }

    /// Returns the number of blocks of the heap.
    ///
    /// # Errors
    /// Storage's.
    pub fn blocks(&self) -> Result<u32> {
        Ok(self.heap().blocks()?)
    }

    /// Returns the number of heap blocks that the visibility map calls all-visible.
    ///
    /// # Errors
    /// Storage's.
    pub fn all_visible_pages(&self) -> Result<u32> {
        Ok(self.heap().all_visible_pages()?)
    }

    /// Returns the number of blocks of the heap of large values; 0 without such a heap.
    ///
    /// # Errors
    /// Storage's.
    pub fn value_blocks(&self) -> Result<u32> {
        match self.value_heap() {
            Some(heap) => Ok(heap.blocks()?),
            None => Ok(0),
        }
    }

    /// Returns the operations of the heap.
    #[inline]
    pub fn heap(&self) -> Heap<'_> {
        Heap::new(self.engine.storage(), self.engine.transactions(), &self.relation)
    }

    /// Returns the operations of the heap of large values, if the table has one.
    #[inline]
    pub fn value_heap(&self) -> Option<Heap<'_>> {
        let relation = self.values.as_ref()?;
        Some(Heap::new(self.engine.storage(), self.engine.transactions(), relation))
    }

    /// Reports to the heap that an index deleted its entries for `roots`. Roots in `mixed` may have
    /// other entries in the index, so they are left out.
    pub(crate) fn note_unreferenced(&self, index: usize, roots: &[Tid], mixed: &[Tid]) {
        let file = self.indexes[index].handle.file().id;
        let Some(position) = self.index_files.iter().position(|of| *of == file) else { return };
        debug_assert!(self.indexes[index].definition.ready, "index {index} is not kept up");
        if mixed.is_empty() {
            return self.heap().note_unreferenced(&self.index_files, position, roots);
        }
        let alone: Vec<Tid> = roots.iter().copied().filter(|root| !mixed.contains(root)).collect();
        self.heap().note_unreferenced(&self.index_files, position, &alone);
    }

    /// Returns the indexes that take entries, with their numbers. The other indexes are neither
    /// read nor written. A build gives such an index another file. The file of an index that is not
    /// kept up may be dropped beside transactions that know it as such.
    pub(crate) fn ready_indexes(&self) -> impl Iterator<Item = (usize, &TableIndex)> {
        self.indexes.iter().enumerate().filter(|(_, index)| index.definition.ready)
    }

    /// Returns true when the key of an index, or its predicate, depends on a column of the table.
    pub fn index_reads(&self, index: usize, column: usize) -> bool {
        self.indexes[index].key_mask.contains(column)
    }

    /// Returns the operations of an index.
    #[expect(clippy::should_implement_trait, reason = "no part of the table, and nothing to index")]
    pub fn index(&self, index: usize) -> &Index {
        &self.indexes[index].handle
    }
}
