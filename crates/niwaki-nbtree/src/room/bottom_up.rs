//! Bottom-up deletion: a full leaf that versions filled gets room from versions that died.
//!
//! No entry is known to be dead, but many are likely to be. An update that leaves an index's key
//! alone still needs an entry when its row moves. The entry that becomes superfluous lies next to
//! the new one. Such an update, or a unique check that met old versions, may be about to split the
//! page. Then the index first asks the table about the few heap blocks on which most of the leaf's
//! duplicates lie (`visits.rs`). The first visit that finds nothing ends the pass: a useless pass
//! costs one heap page. A pass need not free much; the next pass will free more, just when it is
//! needed.
//!
//! ```text
//! hint or duplicates ──► choose blocks ──► visit one ──► freed nothing there? ──► end
//!                                              ▲                 │ no
//!                                              └── wanted more ◄─┘
//!
//! wanted: 512 bytes, halved for each block behind the favourable ones that was not in memory
//! ```
//!
//! The index does not try a pass that is known to be in vain. The table reports duplicates of the
//! running transaction. A glance (optimistic read) at the blocks may show no version that ended. A
//! leaf's last pass may have failed under the same oldest snapshot, and the leaf has hardly any
//! entry more.
//!
//! Source: thread `bottom-up-deletion`; docs/internals/design.md, "Bottom-up deletion".

use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::PAGE_SIZE;

use crate::error::Result;
use crate::memory::stats::{count, count_max};
use crate::page::entry::NewEntry;
use crate::page::layout::{IndexPage, LINE_POINTER};
use crate::page::tuple::tids_on;
use crate::room::visits::{BOTTOM_UP_BLOCKS_MAX, Deletion, Visits};
use crate::table::{RemovedInterval, union};
use crate::tree::index::Index;

/// Bytes that a pass wants to free at least.
const WANTED_BYTES: usize = PAGE_SIZE / 16;
/// Free bytes with which a pass counts as a success: the page need not be looked at again at once.
const ENOUGH_BYTES: usize = PAGE_SIZE / 24;
const _: () = assert!(ENOUGH_BYTES < WANTED_BYTES);

/// The result of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BottomUp {
    /// The pass waits until these heap blocks are in memory.
    ReadIn(Vec<BlockNumber>),
    /// The pass was not made: it would have been in vain.
    Spared,
    /// The pass freed too little.
    Failed,
    /// The pass freed enough, or the leaf has no duplicates from which deduplication could make
    /// room.
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
        if self.failures.would_fail_again(block, oldest, || tids_on(leaf)) {
            return Ok(BottomUp::Spared);
        }
        let by_block = self.by_block(leaf, block)?;
        let entries = by_block.len();
        let needed = tuple_bytes + LINE_POINTER;
        let mut wanted = WANTED_BYTES.max(needed);
        let mut visits = Visits::promising(&by_block, oracle);
        // A pass may end before it comes to blocks that are not favourable, so these may be absent.
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
            removes = union(removes, visit.judge(oracle)?);
            visited += 1;
            let here = visit.freed_bytes();
            if here == 0 {
                break;
            }
            freed += here;
        }
        debug_assert!(visited <= BOTTOM_UP_BLOCKS_MAX as u64, "a pass visits few blocks");
        let gone = visits.judged_deletable();
        debug_assert!(freed == 0 || !gone.is_empty(), "bytes are freed by entries that go");
        debug_assert!(gone.len() <= entries, "the entries that go are on the leaf");
        let duplicates = by_block.blocks.iter().any(|on| on.promising > 0);
        oracle.end(!gone.is_empty());
        if visited == 0 {
            // The glance at the blocks was enough.
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
        let room = leaf.room();
        let bytes = self.delete_allowed(leaf, &gone, entry.xid, removes, oracle)?;
        debug_assert!(leaf.room() > room, "entries that went left room");
        count(&counters.bottom_up_wal_bytes, bytes as u64);
        count(&counters.bottom_up_deleted_entries, gone.len() as u64);
        let enough = leaf.room() >= ENOUGH_BYTES.max(needed);
        Ok(if enough || !duplicates { BottomUp::Done } else { BottomUp::Failed })
    }
}
