//! The runtime form of a table: its definition, its heap, its indexes.

use std::sync::Arc;

use niwaki_heap::{Heap, HeapRelation, KeyObserver, RowRef};
use niwaki_nbtree::{Index, IndexStats};
use niwaki_storage::{RelFileId, Tid};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder};

use crate::definition::{HeapOnlyUpdates, IndexDefinition, TableDefinition};
use crate::engine::{Engine, OpenIndex};
use crate::error::Result;
use crate::observer::Observer;
use crate::over::OverLeaves;
use crate::stats::{Counters, TableStats};
use crate::suspects::Suspects;

/// One index with its handle.
#[derive(Debug)]
pub(crate) struct TableIndex {
    pub(crate) definition: IndexDefinition,
    pub(crate) handle: Arc<Index>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) over: Arc<OverLeaves>,
    /// Types of the INCLUDE columns.
    pub(crate) include: Vec<ColumnType>,
    /// Columns whose values decide the key, and whether there is an entry at all.
    pub(crate) key_mask: ColumnMask,
    /// Types and order of the key columns.
    pub(crate) order: Vec<KeyOrder>,
    /// Keys or predicate are expressions, which are never evaluated under a latch (rule 9b.16).
    pub(crate) computed: bool,
}

/// A table that statements read and write. Immutable; DDL opens another one, which finds the same
/// in-memory state by the numbers of the files.
#[derive(Debug)]
pub struct Table {
    pub(crate) engine: Arc<Engine>,
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) relation: HeapRelation,
    /// The heap of its large values, if it can have some.
    pub(crate) values: Option<HeapRelation>,
    /// Columns that indexes have as they are, in keys or payloads.
    pub(crate) indexed_columns: ColumnMask,
    pub(crate) indexes: Arc<[TableIndex]>,
    /// The files of the indexes that are kept up: what tells these indexes from those that the
    /// table had, or will have.
    pub(crate) index_files: Arc<[RelFileId]>,
    pub(crate) counters: Arc<Counters>,
    /// What passes over the heap ask about keys.
    pub(crate) keys: Arc<Observer>,
    /// The same, as the heap knows it.
    pub(crate) observer: Arc<dyn KeyObserver>,
}

impl Table {
    /// Opens a table; cheap, no I/O.
    pub fn open(engine: &Arc<Engine>, definition: TableDefinition) -> Arc<Self> {
        let counters = engine.counters(definition.id);
        let any_key = definition.heap_only_updates == HeapOnlyUpdates::AnyKey;
        let relation = engine.heap(&definition).counting(Arc::clone(&counters.heap));
        let changes = Arc::clone(&counters.changes);
        let relation = relation.telling_moves(any_key).telling_changes(changes);
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
                let OpenIndex { handle, suspects, over, .. } = engine.index(definition.id, index);
                TableIndex {
                    definition: index.clone(),
                    handle,
                    suspects,
                    over,
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
        let kept_up = indexes.iter().filter(|index| index.definition.ready);
        let index_files = kept_up.map(|index| index.handle.file().id).collect();
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

    /// Of those, how many the visibility map says that all see all of.
    ///
    /// # Errors
    /// Storage's.
    pub fn all_visible_pages(&self) -> Result<u32> {
        Ok(self.heap().all_visible_pages()?)
    }

    /// Blocks of the heap of its large values; 0 without one.
    ///
    /// # Errors
    /// Storage's.
    pub fn value_blocks(&self) -> Result<u32> {
        match self.value_heap() {
            Some(heap) => Ok(heap.blocks()?),
            None => Ok(0),
        }
    }

    /// The heap's operations.
    #[inline]
    pub fn heap(&self) -> Heap<'_> {
        Heap::new(self.engine.storage(), self.engine.transactions(), &self.relation)
    }

    /// An index has deleted its entries for these roots, of which those in `mixed` may have others.
    pub(crate) fn note_unindexed(&self, index: usize, roots: &[Tid], mixed: &[Tid]) {
        let file = self.indexes[index].handle.file().id;
        let Some(position) = self.index_files.iter().position(|of| *of == file) else { return };
        if mixed.is_empty() {
            return self.heap().note_unindexed(&self.index_files, position, roots);
        }
        let alone: Vec<Tid> = roots.iter().copied().filter(|root| !mixed.contains(root)).collect();
        self.heap().note_unindexed(&self.index_files, position, &alone);
    }

    /// The indexes that take entries, with their numbers. What the others hold nobody reads: a
    /// build gives them another file. Nobody writes there, since the file of an index that is not
    /// kept up may be dropped beside those who know it so.
    pub(crate) fn kept_up(&self) -> impl Iterator<Item = (usize, &TableIndex)> {
        self.indexes.iter().enumerate().filter(|(_, index)| index.definition.ready)
    }

    /// Whether the key of an index, or its predicate, depends on a column of the table.
    pub fn index_reads(&self, index: usize, column: usize) -> bool {
        self.indexes[index].key_mask.contains(column)
    }

    /// An index's operations.
    #[expect(clippy::should_implement_trait, reason = "no part of the table, and nothing to index")]
    pub fn index(&self, index: usize) -> &Index {
        &self.indexes[index].handle
    }

    /// [`Table::deform_parts`], of a row that a scan has copied out.
    ///
    /// # Errors
    /// As [`Table::deform_parts`].
    #[inline]
    pub fn deform(&self, row: RowRef<'_>, needed: &ColumnMask, out: &mut [Datum]) -> Result<usize> {
        self.deform_parts(row.natts, row.has_nulls, row.bytes, needed, out)
    }
}
