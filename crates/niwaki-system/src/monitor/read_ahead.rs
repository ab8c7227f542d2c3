//! `niwaki_stat_read_ahead`: reads of streams since the database was opened, and the gain of
//! reading ahead.
//!
//! One list has the view's columns with the source of each value, so that the two cannot differ.

use niwaki_catalog::Result;
use niwaki_storage::ReadStatistics;
use niwaki_table::Engine;
use niwaki_types::{Datum, TypeOid};

/// Name of the view.
pub const READ_AHEAD: &str = "niwaki_stat_read_ahead";

/// The method of reading. The counters follow.
const METHOD: (&str, TypeOid) = ("io_method", TypeOid::TEXT);

type Counter = (&'static str, TypeOid, fn(&ReadStatistics) -> Datum);

const COUNTERS: &[Counter] = &[
    ("reads", TypeOid::INT8, |s| number(s.runs)),
    ("blocks", TypeOid::INT8, |s| number(s.blocks)),
    ("blocks_per_read", TypeOid::FLOAT8, |s| mean(s.blocks, s.runs)),
    ("cached_reads", TypeOid::INT8, |s| number(s.cached)),
    ("ahead_reads", TypeOid::INT8, |s| number(s.queued)),
    ("ahead_blocks", TypeOid::INT8, |s| number(s.queued_blocks)),
    ("helped_reads", TypeOid::INT8, |s| number(s.helped)),
    ("waits", TypeOid::INT8, |s| number(s.waits)),
    ("distance_mean", TypeOid::FLOAT8, |s| mean(s.distances, s.runs)),
    ("distance_max", TypeOid::INT8, |s| number(s.distance_max)),
    ("ring_reads", TypeOid::INT8, |s| number(s.begun)),
    ("ring_calls", TypeOid::INT8, |s| number(s.submitted)),
    ("ring_repeats", TypeOid::INT8, |s| number(s.repeated)),
];

fn number(value: u64) -> Datum {
    Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns the mean; null when the count is zero.
fn mean(sum: u64, count: u64) -> Datum {
    if count == 0 { Datum::Null } else { Datum::Float8(sum as f64 / count as f64) }
}

/// Returns the view's columns.
pub fn columns() -> Vec<(&'static str, TypeOid)> {
    let counters = COUNTERS.iter().map(|&(name, oid, _)| (name, oid));
    std::iter::once(METHOD).chain(counters).collect()
}

/// Gives the view's one row.
///
/// # Errors
/// The errors of `row`.
pub fn rows(engine: &Engine, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
    let storage = engine.storage();
    let statistics = storage.pool().read_statistics();
    let method = std::iter::once(Datum::text(&storage.io_method().method.to_string()));
    let counters = COUNTERS.iter().map(|(_, _, read)| read(&statistics));
    row(&method.chain(counters).collect::<Vec<_>>())
}
