//! Bottom-up deletion: a full leaf that versions filled gets room from versions that died.
//!
//! Nothing is known to be dead, but much is likely to be: an update that leaves an index's key alone
//! still needs an entry when its row moves, and the entry that it makes superfluous lies next to it. So
//! before such an update, or a unique check that met old versions, splits the page, the table is asked
//! about the few heap blocks on which most of the leaf's duplicates lie (`visits.rs`). One visit that
//! finds nothing ends the pass: where it cannot help it costs one heap page. What it finds need not
//! be much; the next pass will find more, just when it is needed.
//!
//! ```text
//! hint or duplicates ──► choose blocks ──► visit one ──► freed nothing there? ──► end
//!                                              ▲                 │ no
//!                                              └── wanted more ◄─┘      wanted: 512 bytes, halved for each
//!                                                                       block behind the favourable ones
//! ```
//!
//! A pass is not tried where it is known to be in vain: on duplicates of the running transaction (the
//! table says so), where a glance at the blocks shows nothing that ended, and on a leaf whose last pass
//! failed under the same oldest snapshot and that has hardly any entry more.
//!
//! Source: thread 000; design section 6.

use std::collections::{BTreeMap, BTreeSet};

use niwaki_env::sync::Mutex;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::{PAGE_SIZE, Page};
use niwaki_storage::{BlockNumber, Csn};

use crate::error::Result;
use crate::index::Index;
use crate::insert::NewEntry;
use crate::make_room::Deletion;
use crate::page::{IndexPage, LINE_POINTER};
use crate::stats::{count, count_max};
use crate::table::RemovedInterval;
use crate::tuple::LeafTuple;
use crate::visits::Visits;

/// Bytes that a pass wants to free at least.
const WANTED_BYTES: usize = PAGE_SIZE / 16;
/// Free bytes with which it counts as a success: the page need not be looked at again at once.
const ENOUGH_BYTES: usize = PAGE_SIZE / 24;
/// Of how many leaves it is remembered that a pass failed.
const FAILURES_MAX: usize = 1024;
/// Of how many leaves it is remembered that they took in versions.
const HINTED_MAX: usize = 1 << 16;
/// A leaf is looked at again under the same oldest snapshot when it has this part of its entries more.
const GROWTH_PART: usize = 8;

/// Leaves on which the last pass freed nothing. Lost with the handle, and forgotten when there are
/// many: then a pass is made that may be in vain.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<BTreeMap<BlockNumber, Failure>>);

/// A pass that freed nothing.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// What held versions back.
    oldest: Csn,
    /// Entries of the leaf then.
    entries: usize,
}

impl Failures {
    /// Whether another pass would find what the last one found: nothing. `entries` counts the leaf's, where
    /// that matters.
    fn again(&self, block: BlockNumber, oldest: Csn, entries: impl FnOnce() -> usize) -> bool {
        let last = self.0.lock().get(&block).copied();
        last.filter(|last| last.oldest == oldest).is_some_and(|last| {
            (last.entries..last.entries + last.entries / GROWTH_PART + 1).contains(&entries())
        })
    }

    fn note(&self, block: BlockNumber, oldest: Csn, entries: usize) {
        let mut failures = self.0.lock();
        if failures.len() >= FAILURES_MAX {
            failures.clear();
        }
        failures.insert(block, Failure { oldest, entries });
    }

    /// The leaf has other entries than it had.
    pub(crate) fn forget(&self, block: BlockNumber) {
        self.0.lock().remove(&block);
    }
}

/// Leaves that took in versions since their last pass or split, for
/// [`VersionHint::Page`](crate::VersionHint::Page). Lost with the handle, and forgotten when there are many.
#[derive(Debug, Default)]
pub(crate) struct Hinted(Mutex<BTreeSet<BlockNumber>>);

impl Hinted {
    pub(crate) fn note(&self, block: BlockNumber) {
        let mut leaves = self.0.lock();
        if leaves.len() >= HINTED_MAX {
            leaves.clear();
        }
        leaves.insert(block);
    }

    /// Whether it was noted; it is forgotten.
    pub(crate) fn take(&self, block: BlockNumber) -> bool {
        self.0.lock().remove(&block)
    }
}

/// What a pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BottomUp {
    /// It waits for heap blocks to be read in.
    ReadIn(Vec<BlockNumber>),
    /// It was not made: it would have been in vain.
    Spared,
    /// It freed too little.
    Failed,
    /// It freed enough, or there is no duplicate that another way could make room of.
    Done,
}

impl Index {
    /// Makes room on a full leaf for an entry of `tuple_bytes`.
    pub(crate) fn bottom_up_delete(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        tuple_bytes: usize,
        deletion: &Deletion<'_>,
    ) -> Result<BottomUp> {
        let oracle = deletion.oracle;
        let Some(oldest) = oracle.prospect() else { return Ok(BottomUp::Spared) };
        let block = leaf.id().block;
        if self.failures.again(block, oldest, || tids_on(leaf)) {
            return Ok(BottomUp::Spared);
        }
        let by_block = self.by_block(leaf, block)?;
        let entries = by_block.len();
        let needed = tuple_bytes + LINE_POINTER;
        let mut wanted = WANTED_BYTES.max(needed);
        let mut visits = Visits::promising(&by_block, oracle);
        // A pass may end before it comes to blocks that are not favourable.
        if let Some(absent) = deletion.absent(&visits.list[..visits.favourable]) {
            return Ok(BottomUp::ReadIn(absent));
        }
        let mut freed = 0;
        let mut visited = 0;
        let mut removes: RemovedInterval = None;
        for (number, visit) in visits.list.iter_mut().enumerate() {
            if number >= visits.favourable && !visit.was_seen {
                wanted /= 2;
            }
            if number > 0 && freed >= wanted {
                break;
            }
            removes = union(removes, oracle.judge(&mut visit.candidates)?);
            visited += 1;
            let here = visit.freed_bytes();
            if here == 0 {
                break;
            }
            freed += here;
        }
        let gone = visits.judged_deletable();
        let duplicates = by_block.blocks.iter().any(|on| on.promising > 0);
        oracle.end(!gone.is_empty());
        if visited == 0 {
            // A glance was enough.
            self.failures.note(block, oldest, entries);
            return Ok(BottomUp::Spared);
        }
        let counters = &self.counters;
        count(&counters.bottom_up_deletions, 1);
        count(&counters.bottom_up_heap_blocks, visited);
        count_max(&counters.bottom_up_heap_blocks_max, visited);
        if gone.is_empty() {
            count(&counters.bottom_up_useless, 1);
            count(&counters.bottom_up_useless_blocks, visited);
            self.failures.note(block, oldest, entries);
            return Ok(BottomUp::Failed);
        }
        self.failures.forget(block);
        let bytes = self.delete_allowed(leaf, &gone, entry.xid, removes, oracle)?;
        count(&counters.bottom_up_wal_bytes, bytes as u64);
        count(&counters.bottom_up_deleted_entries, gone.len() as u64);
        let enough = leaf.room() >= ENOUGH_BYTES.max(needed);
        Ok(if enough || !duplicates { BottomUp::Done } else { BottomUp::Failed })
    }
}

/// How many entries a leaf has, those of posting lists each for itself.
pub(crate) fn tids_on(leaf: &Page) -> usize {
    let items = (leaf.first_entry()..=leaf.item_count()).map(|offset| leaf.tuple(offset));
    items.filter_map(LeafTuple::decode).map(|item| item.tids.len()).sum()
}

/// The smallest interval that holds both.
pub(crate) fn union(a: RemovedInterval, b: RemovedInterval) -> RemovedInterval {
    match (a, b) {
        (Some((from, to)), Some((begin, end))) => Some((from.min(begin), to.max(end))),
        (one, None) | (None, one) => one,
    }
}
