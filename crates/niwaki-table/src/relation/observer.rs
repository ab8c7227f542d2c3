//! The key-loss callback: finds the index entries that a pruned version leaves behind, from stored
//! bytes alone (niwaki-heap's `observer.rs`).
//!
//! An index is left alone where a remaining version has the key. That version is reported when it
//! goes itself. Mostly its bytes in all the index's columns are the same, or the encoded keys are
//! equal (1.0 and 1.00). The entries in the other indexes become suspects (stale-entry candidates).
//!
//! Under a latch nothing can be said where an expression decides, or a value that is compressed or
//! out of line (rule `bytes-under-latch`). The gardener decides these cases later.

use std::fmt;
use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_env::{seeded_bug, sometimes};
use niwaki_heap::{KeyObserver, KeysLeft, RecordId, RootChangeCount, RowRef};
use niwaki_storage::Tid;
use niwaki_types::{ColumnMask, form_tells};

use crate::error::Result;
use crate::relation::count::count;
use crate::relation::definition::TableDefinition;
use crate::relation::plain_key::{HasKey, Stored};
use crate::relation::stats::Counters;
use crate::relation::suspects::Found;
use crate::relation::table_index::TableIndex;

/// The indexes of a table, as passes over its heap ask about them.
pub(crate) struct Observer {
    definition: Arc<TableDefinition>,
    indexes: Arc<[TableIndex]>,
    counters: Arc<Counters>,
    /// Columns on which some index depends.
    columns: ColumnMask,
    /// For each index: the columns on which it depends, and its plain key columns.
    depends: Box<[(ColumnMask, ColumnMask)]>,
    /// The indexes that are kept up, in the order of their first columns: a row is read from its
    /// front.
    in_order: Box<[usize]>,
    /// The index that the next writer looks at first.
    turn: AtomicUsize,
}

impl fmt::Debug for Observer {
    // Not the definitions and counters: code that shows these would be in the program for this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Observer");
        shown.field("columns", &self.columns).finish_non_exhaustive()
    }
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
        // The other indexes have no entries that are read, and never get any for removed versions.
        // A build pauses clearing and freeing, and its end ends all records.
        let is_ready =
            |at: &usize| indexes[*at].definition.ready || seeded_bug!("tended-while-dropped");
        debug_assert!(u16::try_from(indexes.len()).is_ok(), "numbers of indexes are 16 bits long");
        debug_assert_eq!(indexes.len(), definition.indexes.len(), "a handle for each index");
        let mut in_order: Box<[usize]> = (0..indexes.len()).filter(is_ready).collect();
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

    /// Returns the numbers of the indexes that are kept up, beginning with another one each time.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = usize> {
        let (count, first) = (self.in_order.len(), self.turn.fetch_add(1, Ordering::Relaxed));
        (0..count).map(move |at| self.in_order[(first % count + at) % count])
    }

    /// Compares the stored bytes of two versions. Adds to `kept` the indexes in which `stays` has
    /// the key of `gone`: most indexes, as a rule. Adds to `unsure` the indexes in which `stays`
    /// may have the key, by other bytes.
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
                // Mostly no later column differs: one comparison spares a look at each of them.
                if here.goes_on_as(&there) {
                    break;
                }
            }
        }
        debug_assert!(unequal.is_empty() || changed.meets(&unequal), "unequal, and not changed");
        debug_assert_eq!(self.depends.len(), self.indexes.len(), "columns of each index");
        for (at, (on, plain)) in self.depends.iter().enumerate() {
            if !changed.meets(on) {
                kept.insert(at);
            } else if !unequal.meets(plain) {
                unsure.insert(at);
            }
        }
        Ok(())
    }

    /// Returns true when these stored forms of a column, which differ, belong to unequal values.
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
        debug_assert!(stay.iter().all(|stays| stays.root == gone.root), "versions of two chains");
        // Ends: each turn keeps another index.
        while self.add_left(gone, &kept, left)? {
            let mut all_left = true;
            // Other bytes may make the same key (1.0 and 1.00), which is kept then.
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

    /// Adds the keys of `gone` to `left`, except for kept indexes. Returns false when stored bytes
    /// do not tell a key.
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
        // Damage is reported where the bytes are read for an answer.
        self.find(gone, stay, left).unwrap_or(false)
    }

    fn suspect(
        &self,
        left: &KeysLeft,
        root: Tid,
        record: Option<RecordId>,
        root_change_count: RootChangeCount,
    ) {
        let several = left.are_several();
        for (index, key) in left.iter() {
            debug_assert!(
                self.in_order.contains(&usize::from(index)),
                "a suspect of index {index}, which is not kept up",
            );
            let suspects = &self.indexes[usize::from(index)].suspects;
            let found = Found { root, record, root_change_count: Some(root_change_count) };
            // Simulations lose some suspects.
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
