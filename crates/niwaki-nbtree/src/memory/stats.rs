//! The counters of one index since it was opened.

use niwaki_env::sync::plain_atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of cache lines over which the counters of the read path are spread.
const SHARDS: usize = 16;

macro_rules! counters {
    (
        { $($(#[$doc:meta])* $name:ident),* $(,)? }
        { $($(#[$read_doc:meta])* $read_name:ident),* $(,)? }
    ) => {
        /// Counters of one index since it was opened. They are statistics: they are not read at one
        /// moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct IndexStats {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$read_doc])* pub $read_name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            reads: [ReadCounters; SHARDS],
        }

        /// The counters of the read path. Each thread has its own place, so that readers share no
        /// writes.
        #[derive(Debug, Default)]
        #[repr(align(64))]
        pub(crate) struct ReadCounters { $(pub(crate) $read_name: AtomicU64,)* }

        impl Counters {
            pub(crate) fn read(&self) -> IndexStats {
                // Relaxed: a statistic orders nothing else.
                IndexStats {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    $($read_name: self.reads.iter()
                        .map(|shard| shard.$read_name.load(Ordering::Relaxed))
                        .fold(0, u64::wrapping_add),)*
                }
            }

            /// Returns this thread's counters of the read path, for [`count_roughly`].
            #[inline]
            pub(crate) fn reads(&self) -> &ReadCounters {
                &self.reads[SHARD.with(|shard| *shard)]
            }
        }
    };
}

/// The number of threads that counted so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);

niwaki_env::thread_local! {
    static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

counters! {{
    /// Entries inserted.
    inserts,
    /// Insertions of an entry that existed already.
    suppressed_duplicates,
    /// Insertions that went to the cached rightmost leaf without a descent.
    fast_path_inserts,
    /// Leaf pages split. The next five counters say where, and add up to this one.
    leaf_splits,
    /// Splits of the rightmost leaf, at the fillfactor.
    right_end_splits,
    /// Splits behind the new entry, whose group grows at its end.
    after_new_splits,
    /// Splits near the middle.
    halved_splits,
    /// Splits between two of few keys.
    many_duplicates_splits,
    /// Splits within the one key of a page, leaving the left page full.
    single_value_splits,
    /// Leaf pages split for an entry that is another version of a row: the entry was hinted to be
    /// logically unchanged, or the unique check met its key.
    version_splits,
    /// Version splits of leaf pages on which an old snapshot kept versions that would have gone
    /// (snapshot-blocked splits).
    held_splits,
    /// Shifts: last entries of a full leaf page went over to its right sibling, which had room for
    /// them. So the page, or one further left, was not split.
    leaf_shifts,
    /// Shifts that deletions paid for: the right sibling had little room, or got room from its own
    /// right sibling.
    tight_shifts,
    /// Entries that went over to the right sibling.
    shifted_entries,
    /// Inner pages split.
    inner_splits,
    /// Splits of a root, leaf or inner page: each makes the tree higher.
    root_splits,
    /// Incomplete splits found and finished.
    finished_splits,
    /// Unique checks made.
    unique_checks,
    /// Entries that unique checks met and that were not marked dead: the checks asked the table
    /// about them.
    unique_entries,
    /// Entries that unique checks found dead, could not mark, and deleted.
    unique_deleted_entries,
    /// Passes of simple deletion over a full leaf.
    simple_deletions,
    /// Passes of simple deletion that removed nothing.
    simple_useless,
    /// Entries that simple deletion removed, marked or not.
    simple_deleted_entries,
    /// Heap blocks visited by simple deletion.
    simple_heap_blocks,
    /// Bytes of log records of simple deletion, without page images.
    simple_wal_bytes,
    /// Passes of bottom-up deletion over a full leaf.
    bottom_up_deletions,
    /// Passes of bottom-up deletion that removed nothing.
    bottom_up_useless,
    /// Entries that bottom-up deletion removed.
    bottom_up_deleted_entries,
    /// Heap blocks visited by bottom-up deletion.
    bottom_up_heap_blocks,
    /// Heap blocks visited by passes of bottom-up deletion that removed nothing.
    bottom_up_useless_blocks,
    /// The most heap blocks that one pass visited.
    bottom_up_heap_blocks_max,
    /// Bytes of log records of bottom-up deletion, without page images.
    bottom_up_wal_bytes,
    /// Passes of deduplication over a full leaf.
    dedup_passes,
    /// Bytes that deduplication freed.
    dedup_freed_bytes,
    /// Entries inserted between two TIDs of a posting list.
    posting_splits,
    /// Versions that a posting list took in by getting longer.
    lists_grown,
    /// Entries removed by retail deletion.
    retail_deleted_entries,
    /// Leaf pages latched for retail deletion. Pages passed to get past a split are not counted.
    retail_leaf_pages,
    /// Inner pages read on the way to these leaf pages.
    retail_inner_pages,
    /// Entries removed by vacuum.
    vacuumed_entries,
    /// Entries whose INCLUDE payload vacuum brought up to date.
    payloads_rewritten,
    /// Sparse leaf pages whose entries all went over to their right siblings.
    merged_leaves,
    /// Pages of level 1 whose leaves were packed: merged, or filled up from their left siblings.
    packed_parents,
    /// Pages that became empty, also by a merge, and were unlinked. This includes inner pages above
    /// them.
    deleted_pages,
    /// Free pages that splits put to use.
    recycled_pages,
    /// Entries marked LP_DEAD.
    marked_dead,
    /// Leaves with only marked entries for which a scan tried to remove these entries.
    dead_leaves,
    /// Entries removed from such leaves.
    dead_leaf_entries,
}{
    /// Scans started.
    scans,
    /// Leaf pages visited by scans.
    leaf_visits,
    /// Entries returned by scans.
    entries_read,
    /// Scans started for one key with all its columns ([`crate::Scan::look_up`]).
    lookups,
    /// Leaf pages read by lookups. In an index at rest whose keys are unique, each lookup reads one
    /// leaf. Otherwise it reads the leaves whose range of keys contains the key. Leaves passed to
    /// get past a split are not counted.
    lookup_leaf_pages,
}}

/// Adds to a counter of the read path, where a locked instruction would be measurable. If two
/// threads with one shard increment at the same moment, one increment may be lost.
#[inline]
pub(crate) fn count_roughly(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// Adds to a counter, if there is anything to add: a locked instruction is measurable.
#[inline]
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    if by > 0 {
        // Relaxed: a statistic orders nothing else.
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// Raises a counter that records a maximum.
#[inline]
pub(crate) fn count_max(counter: &AtomicU64, value: u64) {
    // Relaxed: a statistic orders nothing else.
    counter.fetch_max(value, Ordering::Relaxed);
}
