//! Which index entries a version leaves behind that pruning removes, told by stored bytes alone (niwaki-heap's
//! `observer.rs`).
//!
//! An index is left alone where some version that stays has the same bytes in all its columns: it has the key, and is
//! told of in its turn. Of the others the key is encoded and suspected. Where an expression decides, or a value that
//! does not stand in the row as it is, nothing can be said under a latch (rule 9b.16): the gardener says it later.

use std::sync::Arc;

use niwaki_env::failpoints::SIMULATED;
use niwaki_env::sometimes;
use niwaki_heap::{KeyObserver, KeysLeft, RecordId, RowRef};
use niwaki_storage::Tid;
use niwaki_types::ColumnMask;

use crate::definition::TableDefinition;
use crate::error::Result;
use crate::row_key::Stored;
use crate::stats::{Counters, count};
use crate::table::TableIndex;

/// A table's indexes, as passes over its heap ask about them.
#[derive(Debug)]
pub(crate) struct Observer {
    definition: Arc<TableDefinition>,
    indexes: Arc<[TableIndex]>,
    counters: Arc<Counters>,
    /// Columns on which some index depends.
    columns: ColumnMask,
}

impl Observer {
    pub(crate) fn new(
        definition: &Arc<TableDefinition>,
        indexes: &Arc<[TableIndex]>,
        counters: &Arc<Counters>,
    ) -> Self {
        Self {
            definition: Arc::clone(definition),
            indexes: Arc::clone(indexes),
            counters: Arc::clone(counters),
            columns: indexes.iter().flat_map(|index| index.key_mask.iter()).collect(),
        }
    }

    /// Adds to `kept` the indexes of which `stays` has the key of `gone`, told by the stored bytes of their columns alone:
    /// most of them, as a rule.
    pub(crate) fn add_kept(
        &self,
        gone: Stored<'_>,
        stays: Stored<'_>,
        kept: &mut ColumnMask,
    ) -> Result<()> {
        let (mut here, mut there) = (stays.view(&self.definition)?, gone.view(&self.definition)?);
        let mut changed = ColumnMask::none();
        for column in self.columns.iter() {
            if here.get_stored(column)? != there.get_stored(column)? {
                changed.insert(column);
                // Mostly that was all: one comparison spares a look at each column behind it.
                if here.goes_on_as(&there) {
                    break;
                }
            }
        }
        for (at, index) in self.indexes.iter().enumerate() {
            if !changed.iter().any(|column| index.key_mask.contains(column)) {
                kept.insert(at);
            }
        }
        Ok(())
    }

    fn find(&self, gone: RowRef<'_>, stay: &[RowRef<'_>], left: &mut KeysLeft) -> Result<bool> {
        let mut kept = ColumnMask::none();
        for stays in stay {
            self.add_kept(gone.into(), (*stays).into(), &mut kept)?;
        }
        let mut view = Stored::from(gone).view(&self.definition)?;
        for (at, index) in self.indexes.iter().enumerate() {
            // The build sees to what it makes.
            if !index.definition.valid {
                left.misses = true;
                continue;
            }
            if kept.contains(at) {
                continue;
            }
            let plain = |out: &mut Vec<u8>| index.plain_key_of(&self.definition, &mut view, out);
            if index.computed || !left.add(at as u16, plain)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl KeyObserver for Observer {
    fn keys_left(&self, gone: RowRef<'_>, stay: &[RowRef<'_>], left: &mut KeysLeft) -> bool {
        // What is damaged is told of where it is read for an answer.
        self.find(gone, stay, left).unwrap_or(false)
    }

    fn suspect(&self, left: &KeysLeft, root: Tid, record: Option<RecordId>) {
        let several = left.len() > 1;
        for (index, key) in left.iter() {
            let suspects = &self.indexes[usize::from(index)].suspects;
            // Simulations lose some.
            let kept =
                !(SIMULATED && sometimes!(1, 16)) && suspects.push(key, root, record, several);
            count(&self.counters.suspects_forgotten, u64::from(!kept));
        }
    }

    fn payloads_right(&self) -> bool {
        self.indexes.iter().all(|index| index.definition.include.is_empty())
    }
}
