//! Deduplication: equal keys of a full leaf share one copy of the key.
//!
//! Runs of items with one key become posting lists. All their TIDs are cut anew into lists of seven
//! eighths of the greatest size. So lists that splits and deletions left short are filled up again,
//! and have room for versions of their rows. The pass runs only where the alternative is to split
//! the page, and only if it makes the room that is needed. So keys with few duplicates cost
//! nothing, and a page is rewritten once per many insertions.
//!
//! Marked items stay as they are, since a list has one mark for all its TIDs. Items with a payload
//! stay: lists have none. This module does not know whether equal bytes of a key mean the same
//! image. Where they do not, the caller says so ([`Index::without_posting_lists`]).
//!
//! A page with one single value is packed so that the split that must come leaves that page full
//! behind:
//!
//! ```text
//! | k 196 TIDs | k 196 TIDs | ... | k 180 TIDs | k | k | k | k new |
//! |<------------ SINGLE_VALUE_FILL ----------->|  these go right
//! ```
//!
//! Source: docs/internals/design.md, "A full leaf"; `split_point.rs` for the split.

use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::LoggedPage;

use crate::error::Result;
use crate::memory::stats::count;
use crate::page::entry::NewEntry;
use crate::page::layout::{IndexPage, LINE_POINTER};
use crate::page::posting_lists::Deduplication;
use crate::page::wal;
use crate::tree::index::Index;

impl Index {
    /// Makes room for an entry of `tuple_bytes` on a full leaf by merging equal keys. Does so only
    /// if the merge frees `at_least` bytes (not zero). Returns true if the entry fits now.
    /// Otherwise nothing is changed.
    pub(crate) fn deduplicate(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        tuple_bytes: usize,
        at_least: usize,
    ) -> Result<bool> {
        debug_assert!(at_least > 0, "a merge that frees nothing is no change");
        let plan = Deduplication::plan(leaf, entry.key, self.tids_max());
        let items = usize::from(leaf.entry_count()) - plan.freed_items;
        let free = leaf.room() + plan.freed_bytes;
        let in_vain = plan.freed_bytes < at_least;
        if in_vain || tuple_bytes + LINE_POINTER > free || items >= self.items_max() {
            return Ok(false);
        }
        let data = plan.change.encode();
        let critical = self.storage.begin_change()?;
        let merged = plan.change.apply(leaf);
        assert!(merged, "the runs were just found");
        leaf.bump_version();
        let delta: &[&[u8]] = &[&data];
        self.log(wal::kind::DEDUP, entry.xid, &mut [LoggedPage::delta(leaf, delta)], None);
        drop(critical);
        debug_assert_eq!(leaf.room(), free, "the plan said what the merge frees");
        debug_assert_eq!(usize::from(leaf.entry_count()), items, "the plan counted the lists");
        count(&self.counters.dedup_passes, 1);
        count(&self.counters.dedup_freed_bytes, plan.freed_bytes as u64);
        Ok(true)
    }
}
