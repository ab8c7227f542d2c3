//! `niwaki_stat_indexes`: counters of each index since the index was opened or rebuilt.
//!
//! One list has the view's columns with the source of each value, so that the two cannot differ.

use niwaki_nbtree::{Index, IndexStats};
use niwaki_types::{Datum, TypeOid};

/// Name of the view.
pub const STAT_INDEXES: &str = "niwaki_stat_indexes";

/// Columns that identify the index. The counters follow, then [`PAGES`], [`LATCH_HOLD`] and
/// [`VALID`].
const NAMES: [(&str, TypeOid); 5] = [
    ("relid", TypeOid::OID),
    ("indexrelid", TypeOid::OID),
    ("schemaname", TypeOid::NAME),
    ("relname", TypeOid::NAME),
    ("indexrelname", TypeOid::NAME),
];

type Counter = (&'static str, fn(&IndexStats) -> u64);

const COUNTERS: &[Counter] = &[
    ("inserts", |s| s.inserts),
    ("leaf_splits", |s| s.leaf_splits),
    ("leaf_splits_rightmost", |s| s.right_end_splits),
    ("leaf_splits_default", |s| s.halved_splits),
    ("leaf_splits_many_duplicates", |s| s.many_duplicates_splits),
    ("leaf_splits_single_value", |s| s.single_value_splits),
    ("leaf_splits_after_new_item", |s| s.after_new_splits),
    ("leaf_splits_hinted", |s| s.version_splits),
    ("leaf_splits_held", |s| s.held_splits),
    ("inner_splits", |s| s.inner_splits),
    ("root_splits", |s| s.root_splits),
    ("leaf_shifts", |s| s.leaf_shifts),
    ("tight_shifts", |s| s.tight_shifts),
    ("shifted_entries", |s| s.shifted_entries),
    ("simple_passes", |s| s.simple_deletions),
    ("simple_useless", |s| s.simple_useless),
    ("simple_deleted", |s| s.simple_deleted_entries),
    ("simple_heap_blocks", |s| s.simple_heap_blocks),
    ("simple_wal_bytes", |s| s.simple_wal_bytes),
    ("bottom_up_passes", |s| s.bottom_up_deletions),
    ("bottom_up_useless", |s| s.bottom_up_useless),
    ("bottom_up_deleted", |s| s.bottom_up_deleted_entries),
    ("bottom_up_heap_blocks", |s| s.bottom_up_heap_blocks),
    ("bottom_up_useless_blocks", |s| s.bottom_up_useless_blocks),
    ("bottom_up_heap_blocks_max", |s| s.bottom_up_heap_blocks_max),
    ("bottom_up_wal_bytes", |s| s.bottom_up_wal_bytes),
    ("gardener_deleted", |s| s.retail_deleted_entries),
    ("gardener_leaf_pages", |s| s.retail_leaf_pages),
    ("gardener_inner_pages", |s| s.retail_inner_pages),
    ("dedup_passes", |s| s.dedup_passes),
    ("dedup_freed_bytes", |s| s.dedup_freed_bytes),
    ("posting_splits", |s| s.posting_splits),
    ("posting_lists_grown", |s| s.lists_grown),
    ("pages_merged", |s| s.merged_leaves),
    ("pages_packed", |s| s.packed_parents),
    ("pages_deleted", |s| s.deleted_pages),
    ("pages_recycled", |s| s.recycled_pages),
    ("lookups", |s| s.lookups),
    ("lookup_leaf_pages", |s| s.lookup_leaf_pages),
    ("unique_checks", |s| s.unique_checks),
    ("unique_entries_visited", |s| s.unique_entries),
];

/// The present size of the index.
const PAGES: [(&str, TypeOid); 2] = [("pages", TypeOid::INT8), ("free_pages", TypeOid::INT8)];

/// Histogram: how long passes of deletion or deduplication held the latch of a full leaf.
const LATCH_HOLD: (&str, TypeOid) = ("latch_hold_us", TypeOid::TEXT);

/// False while the index is built or dropped concurrently, and after such a statement failed.
const VALID: (&str, TypeOid) = ("valid", TypeOid::BOOL);

/// Returns the view's columns.
pub fn columns() -> Vec<(&'static str, TypeOid)> {
    let counters = COUNTERS.iter().map(|&(name, _)| (name, TypeOid::INT8));
    NAMES.into_iter().chain(counters).chain(PAGES).chain([LATCH_HOLD, VALID]).collect()
}

/// Returns a row: the values of `NAMES`, the counters, and the present size and state.
pub fn row(names: [Datum; 5], index: &Index, valid: bool) -> Vec<Datum> {
    let number = |value: u64| Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX));
    let stats = index.stats();
    let counters = COUNTERS.iter().map(|(_, read)| number(read(&stats)));
    // The index's file may have been removed a moment ago.
    let blocks = index.blocks().map_or(Datum::Null, |blocks| number(blocks.into()));
    let pages = [blocks, number(index.free_pages() as u64)];
    let held = Datum::Text(histogram(&index.latch_hold()).as_str().into());
    names.into_iter().chain(counters).chain(pages).chain([held, Datum::Bool(valid)]).collect()
}

/// Lists the filled buckets as `limit:passes`. Passes of a bucket took less than its limit, in
/// microseconds: `1:17 2:4 16:1`. The last bucket has the passes that took longer than all limits:
/// `max:1`.
fn histogram(buckets: &[u64]) -> String {
    let last = buckets.len().saturating_sub(1);
    let filled = buckets.iter().enumerate().filter(|&(_, &passes)| passes > 0);
    let shown: Vec<String> = filled
        .map(|(bucket, passes)| {
            if bucket == last {
                format!("max:{passes}")
            } else {
                format!("{}:{passes}", 1u64 << bucket)
            }
        })
        .collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../../docs/monitoring.md");

    #[test]
    fn the_guide_has_each_column() {
        let heading = format!("## `{STAT_INDEXES}`");
        let (_, section) = GUIDE.split_once(&heading).expect("its section");
        let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
        for (name, _) in columns() {
            assert!(section.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn buckets_are_told_by_what_they_stay_under() {
        assert_eq!(histogram(&[0; 16]), "");
        let mut buckets = [0; 16];
        (buckets[0], buckets[1], buckets[4], buckets[15]) = (17, 4, 1, 2);
        assert_eq!(histogram(&buckets), "1:17 2:4 16:1 max:2");
    }
}
