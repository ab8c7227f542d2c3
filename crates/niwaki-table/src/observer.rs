//! Which index entries a version leaves behind that pruning removes, told by stored bytes alone (niwaki-heap's
//! `observer.rs`).
//!
//! An index is left alone where some version that stays has the key: it is told of in its turn. Mostly it has the same bytes
//! in all the index's columns, or a look at the key itself says so (1.0 and 1.00). The others' entries are suspected. Where an expression decides, or a value that
//! does not stand in the row as it is, nothing can be said under a latch (rule 9b.16): the gardener says it later.

use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_env::{seeded_bug, sometimes};
use niwaki_heap::{Arrived, KeyObserver, KeysLeft, RecordId, RowRef};
use niwaki_storage::Tid;
use niwaki_types::{ColumnMask, form_tells};

use crate::definition::TableDefinition;
use crate::error::Result;
use crate::row_key::{HasKey, Stored};
use crate::stats::{Counters, count};
use crate::suspects::Found;
use crate::table::TableIndex;

/// A table's indexes, as passes over its heap ask about them.
#[derive(Debug)]
pub(crate) struct Observer {
    definition: Arc<TableDefinition>,
    indexes: Arc<[TableIndex]>,
    counters: Arc<Counters>,
    /// Columns on which some index depends.
    columns: ColumnMask,
    /// Of each index: those on which it depends, and those that it has as they are.
    depends: Box<[(ColumnMask, ColumnMask)]>,
    /// The indexes that are kept up, in the order of their first columns: a row is gone through
    /// from its front.
    in_order: Box<[usize]>,
    /// Which index the next writer looks at first.
    turn: AtomicUsize,
}

impl Observer {
    pub(crate) fn new(
        definition: &Arc<TableDefinition>,
        indexes: &Arc<[TableIndex]>,
        counters: &Arc<Counters>,
    ) -> Self {
        let first_column = |at: &usize| {
            let first = indexes[*at].definition.key.first();
            first.and_then(|key| key.source.column())
        };
        // The others have no entries that anybody reads, nor ever get some for versions that are
        // gone: a build pauses clearing and freeing, and its end ends all records.
        let kept_up =
            |at: &usize| indexes[*at].definition.ready || seeded_bug!("tended-while-dropped");
        let mut in_order: Box<[usize]> = (0..indexes.len()).filter(kept_up).collect();
        in_order.sort_by_key(first_column);
        Self {
            in_order,
            turn: AtomicUsize::default(),
            definition: Arc::clone(definition),
            indexes: Arc::clone(indexes),
            counters: Arc::clone(counters),
            columns: indexes.iter().flat_map(|index| index.key_mask.iter()).collect(),
            depends: indexes
                .iter()
                .map(|index| {
                    let plain = index.definition.key.iter().filter_map(|key| key.source.column());
                    (index.key_mask.clone(), plain.collect())
                })
                .collect(),
        }
    }

    /// The numbers of the indexes that are kept up, beginning with another one each time.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = usize> {
        let (count, first) = (self.in_order.len(), self.turn.fetch_add(1, Ordering::Relaxed));
        (0..count).map(move |at| self.in_order[(first % count + at) % count])
    }

    /// Adds to `kept` the indexes of which `stays` has the key of `gone`, told by the stored bytes of their columns alone:
    /// most of them, as a rule. To `unsure` those of which it may have, by other bytes.
    pub(crate) fn add_kept(
        &self,
        gone: Stored<'_>,
        stays: Stored<'_>,
        kept: &mut ColumnMask,
        unsure: &mut ColumnMask,
    ) -> Result<()> {
        let (mut here, mut there) = (stays.view(&self.definition)?, gone.view(&self.definition)?);
        let (mut changed, mut unequal) = (ColumnMask::none(), ColumnMask::none());
        for column in self.columns.iter() {
            let (stored, its) = (here.get_stored(column)?, there.get_stored(column)?);
            if stored != its {
                changed.insert(column);
                if let (Some(stored), Some(its)) = (stored, its)
                    && self.are_unequal(column, stored, its)
                {
                    unequal.insert(column);
                }
                // Mostly that was all: one comparison spares a look at each column behind it.
                if here.goes_on_as(&there) {
                    break;
                }
            }
        }
        for (at, (on, plain)) in self.depends.iter().enumerate() {
            if !changed.meets(on) {
                kept.insert(at);
            } else if !unequal.meets(plain) {
                unsure.insert(at);
            }
        }
        Ok(())
    }

    /// Whether these stored forms of a column, which differ, are those of unequal values.
    fn are_unequal(&self, column: usize, one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
        let oid = self.definition.columns[column].oid;
        // NULL is equal to no value, and is a key of its own.
        [one, other].into_iter().flatten().all(|form| form_tells(oid, form))
    }

    fn find(&self, gone: RowRef<'_>, stay: &[RowRef<'_>], left: &mut KeysLeft) -> Result<bool> {
        let (mut kept, mut unsure) = (ColumnMask::none(), ColumnMask::none());
        for stays in stay {
            self.add_kept(gone.into(), (*stays).into(), &mut kept, &mut unsure)?;
        }
        // Ends: each turn keeps another index.
        while self.add_left(gone, &kept, left)? {
            let mut all_left = true;
            // Other bytes may make the same key (1.0 and 1.00), which stays then.
            for stays in stay.iter().filter(|_| !unsure.is_empty()) {
                let mut view = Stored::from(*stays).view(&self.definition)?;
                for (at, key) in left.iter().filter(|(at, _)| unsure.contains((*at).into())) {
                    let index = &self.indexes[usize::from(at)];
                    match index.is_plain_key_of(&self.definition, &mut view, key)? {
                        HasKey::No => {}
                        HasKey::Yes => {
                            kept.insert(at.into());
                            all_left = false;
                        }
                        HasKey::Unknown => return Ok(false),
                    }
                }
            }
            if all_left {
                return Ok(true);
            }
            left.clear();
        }
        Ok(false)
    }

    /// Adds the keys of `gone` to `left`, but of indexes that are kept; false: stored bytes do not tell.
    fn add_left(&self, gone: RowRef<'_>, kept: &ColumnMask, left: &mut KeysLeft) -> Result<bool> {
        let mut view = Stored::from(gone).view(&self.definition)?;
        for &at in &self.in_order {
            let index = &self.indexes[at];
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

    fn suspect(&self, left: &KeysLeft, root: Tid, record: Option<RecordId>, arrived: Arrived) {
        let several = left.are_several();
        for (index, key) in left.iter() {
            let suspects = &self.indexes[usize::from(index)].suspects;
            let found = Found { root, record, arrived: Some(arrived) };
            // Simulations lose some.
            let kept = !(SIMULATED && sometimes!(1, 16)) && suspects.push(key, found, several);
            count(&self.counters.suspects_forgotten, u64::from(!kept));
        }
    }

    fn is_busy(&self) -> bool {
        self.in_order.iter().any(|at| self.indexes[*at].suspects.is_half_full())
    }

    fn payloads_right(&self) -> bool {
        self.in_order.iter().all(|at| self.indexes[*at].definition.include.is_empty())
    }
}
