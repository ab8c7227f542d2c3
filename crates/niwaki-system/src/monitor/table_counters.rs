//! `niwaki_stat_tables`: counters of each table's updates, and of the versions that updates left.
//!
//! One list has the view's columns with the source of each value, so that the two cannot differ.

use niwaki_table::{Table, TableStats};
use niwaki_types::{Datum, TypeOid};

/// Name of the view.
pub const STAT_TABLES: &str = "niwaki_stat_tables";

/// Columns that identify the table. The counters follow, then [`WAITING`].
const NAMES: [(&str, TypeOid); 3] =
    [("relid", TypeOid::OID), ("schemaname", TypeOid::NAME), ("relname", TypeOid::NAME)];

type Counter = (&'static str, fn(&TableStats) -> u64);

const COUNTERS: &[Counter] = &[
    ("updates", |s| s.updates.total()),
    ("heap_only", |s| s.updates.heap_only_total()),
    ("heap_only_0_indexes", |s| s.updates.heap_only[0]),
    ("heap_only_1_index", |s| s.updates.heap_only[1]),
    ("heap_only_2_indexes", |s| s.updates.heap_only[2]),
    ("heap_only_3_indexes", |s| s.updates.heap_only[3]),
    ("heap_only_more_indexes", |s| s.updates.heap_only[4]),
    ("new_root_no_room", |s| s.updates.no_room),
    ("new_root_same_keys", |s| s.updates.same_keys),
    ("new_root_off", |s| s.updates.off),
    ("left_page", |s| s.updates.left_page),
    ("update_delays", |s| s.update_delays),
    ("pruned_by_horizon", |s| s.heap.pruned_by_horizon),
    ("pruned_by_interval", |s| s.heap.pruned_by_interval),
    ("pruned_aborted", |s| s.heap.pruned_aborted),
    ("chains_mixed", |s| s.heap.mixed),
    ("chains_settled", |s| s.heap.settled),
    ("chains_cleaned", |s| s.heap.cleaned),
    ("line_pointers_freed", |s| s.heap.freed),
    ("gardener_deleted", |s| s.gardener_deleted),
    ("gardener_told", |s| s.heap.reported),
    ("gardener_forgotten", |s| s.heap.forgotten + s.suspects_forgotten),
    ("gardener_heap_pages", |s| s.gardener_heap_pages),
    ("rounds", |s| s.rounds),
    ("round_pages", |s| s.round_pages),
    ("round_passes", |s| s.round_passes),
];

/// The only value that also goes down.
const WAITING: (&str, TypeOid) = ("gardener_waiting", TypeOid::INT8);

/// Returns the view's columns.
pub fn columns() -> Vec<(&'static str, TypeOid)> {
    let counters = COUNTERS.iter().map(|&(name, _)| (name, TypeOid::INT8));
    NAMES.into_iter().chain(counters).chain([WAITING]).collect()
}

/// Returns a row: the values of `NAMES`, then the table's counters.
pub fn row(names: [Datum; 3], table: &Table) -> Vec<Datum> {
    let number = |value: u64| Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX));
    let stats = table.stats();
    let counters = COUNTERS.iter().map(|(_, read)| number(read(&stats)));
    let waiting = number(table.gardener_waiting() as u64);
    names.into_iter().chain(counters).chain([waiting]).collect()
}
