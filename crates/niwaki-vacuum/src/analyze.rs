//! Statistics of a table's contents, from a sample.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use niwaki_env::rng::{Rng, SeededRng};
use niwaki_storage::ReadAhead;
use niwaki_table::{PageRows, Result, Table};
use niwaki_txn::{Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum, compare};

use crate::delay::DelayPoints;
use crate::vacuum::VacuumOptions;

/// The number of rows that a sample aims at, and the most blocks that it is taken from. It is
/// PostgreSQL's 300 per bound of a histogram. Fewer blocks would give more rows each, and
/// neighbouring rows are often alike. A column whose equal values lie together would then seem to
/// have few values.
const SAMPLE_ROWS: usize = 30_000;
/// The number of bounds of a histogram.
const HISTOGRAM_BOUNDS: usize = 101;
/// The most common values that are reported.
const COMMON_VALUES: usize = 100;
/// The factor over the average frequency from which on a value is common.
const COMMON_FACTOR: f64 = 1.25;
/// The longest value, in bytes, that is kept: longer ones say nothing in a histogram.
const WIDE_VALUE_BYTES: usize = 1024;

const _: () = assert!(SAMPLE_ROWS <= u32::MAX as usize, "a sample has as many blocks as rows");
const _: () = assert!(HISTOGRAM_BOUNDS >= 2, "a histogram has a smallest and a largest value");
const _: () = assert!(COMMON_FACTOR >= 1.0, "a value below the average is not common");

/// Statistics that `ANALYZE` computes for a table.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics {
    /// Rows, estimated.
    pub rows: f64,
    /// Blocks of the heap.
    pub blocks: u32,
    /// Statistics of each column, dropped ones included.
    pub columns: Vec<ColumnStatistics>,
}

/// Statistics that `ANALYZE` computes for a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// Share of NULLs, 0 to 1.
    pub null_fraction: f64,
    /// Number of distinct values that are not NULL. A negative number is a share of the rows (-1:
    /// all different).
    pub distinct: f64,
    /// Average bytes of a value not NULL.
    pub average_width: f64,
    /// Values that occur more often than others, most frequent first, with their share of the rows.
    pub common: Vec<(Datum, f64)>,
    /// Bounds of ranges that hold equally many of the other values, ascending; empty for fewer than
    /// two distinct ones.
    pub histogram: Vec<Datum>,
    /// Correlation between the order of the values and the order of the rows on disk: 1 the same,
    /// -1 reversed, 0 none. `None` when fewer than two values were sampled.
    pub correlation: Option<f64>,
}

/// Reads a sample of the table under `snapshot`. Only the options for read-ahead and delays matter.
///
/// # Errors
/// Storage's; the session's interrupts.
pub fn analyze(
    table: &Table,
    tx: &Transaction,
    snapshot: &Snapshot,
    options: &VacuumOptions,
) -> Result<TableStatistics> {
    let blocks = table.blocks()?;
    let width = table.definition().columns.len();
    let rng = SeededRng::new(tx.manager().env().rng.next_u64());
    let chosen = sample_blocks(blocks, SAMPLE_ROWS as u32, || rng.next_u64());
    let all = ColumnMask::all(width);
    let mut values: Vec<Vec<Sampled>> = vec![Vec::new(); width];
    let mut rows_seen = 0_u64;
    let mut rows_kept = 0_usize;
    let mut row = vec![Datum::Null; width];
    let mut bytes = vec![0; width];
    let mut page = PageRows::new();
    let delays = DelayPoints::new(tx.session(), options.cost);
    let mut ahead = table.heap().ahead(chosen.iter().copied(), options.read_ahead);
    while let Some(block) = ahead.next() {
        delays.delay_point(ahead.take_reads(), false)?;
        let mut scan = table.seq_scan(block..block + 1).ahead(table, ReadAhead::NONE);
        scan.next_page(table, tx, snapshot, &mut page)?;
        for stored in page.iter() {
            rows_seen += 1;
            // A reservoir: every row seen has the same chance to be kept.
            let place = if rows_kept < SAMPLE_ROWS {
                rows_kept += 1;
                rows_kept - 1
            } else {
                match usize::try_from(rng.next_u64() % rows_seen) {
                    Ok(place) if place < SAMPLE_ROWS => place,
                    _ => continue,
                }
            };
            bytes.fill(0);
            let long = |column: usize, length: usize| bytes[column] = length;
            table.deform_short(stored, &all, WIDE_VALUE_BYTES, &mut row, long)?;
            debug_assert!(
                rows_kept as u64 <= rows_seen,
                "{rows_kept} of {rows_seen} rows are kept"
            );
            for ((column, value), &bytes) in values.iter_mut().zip(&mut row).zip(&bytes) {
                debug_assert!(place <= column.len(), "a place before {place} would stay empty");
                let value = Sampled::new(rows_seen, std::mem::replace(value, Datum::Null), bytes);
                match column.get_mut(place) {
                    Some(kept) => *kept = value,
                    None => column.push(value),
                }
            }
        }
    }
    debug_assert!(
        values.iter().all(|column| column.len() == rows_kept),
        "some columns have more values than others"
    );
    let read = chosen.len().max(1) as f64;
    let rows = (rows_seen as f64 / read * f64::from(blocks)).round();
    let columns = values
        .into_iter()
        .enumerate()
        .map(|(column, values)| {
            delays.delay_point(0, false)?;
            Ok(describe(table, column, values, rows))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(TableStatistics { rows, blocks, columns })
}

/// Chooses `wanted` of the blocks, or all if no more exist, ascending. Each set of blocks is as
/// likely as any other. Floyd's algorithm F2 (Bentley and Floyd, 1987): one draw a block, whatever
/// the table's size.
fn sample_blocks(blocks: u32, wanted: u32, mut random: impl FnMut() -> u64) -> BTreeSet<u32> {
    let mut chosen = BTreeSet::new();
    for last in blocks.saturating_sub(wanted)..blocks {
        let block = u32::try_from(random() % (u64::from(last) + 1)).unwrap_or(last);
        if !chosen.insert(block) {
            chosen.insert(last);
        }
    }
    debug_assert_eq!(chosen.len(), wanted.min(blocks) as usize, "a block was chosen twice");
    debug_assert!(chosen.last().is_none_or(|last| *last < blocks), "a block behind the end");
    chosen
}

/// A value of a sampled row.
#[derive(Clone, Debug)]
struct Sampled {
    /// The number of its row among those seen.
    place: u64,
    /// The length of the value; 0 for NULL.
    bytes: usize,
    /// The value; NULL also if the value is wide.
    value: Datum,
}

impl Sampled {
    /// Makes a sampled value. `bytes` is the length of a value too wide to be read, and 0 for other
    /// values.
    fn new(place: u64, value: Datum, bytes: usize) -> Self {
        let bytes = if value.is_null() { bytes } else { value_bytes(&value) };
        let value = if bytes > WIDE_VALUE_BYTES { Datum::Null } else { value };
        Self { place, bytes, value }
    }

    fn is_wide(&self) -> bool {
        self.bytes > WIDE_VALUE_BYTES
    }
}

fn value_bytes(value: &Datum) -> usize {
    match value {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        Datum::Jsonb(value) => value.memory(),
        Datum::Record(_, record) => record.values().iter().map(value_bytes).sum(),
        Datum::Bool(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Float4(_) | Datum::Date(_) | Datum::Oid(_) => 4,
        Datum::Numeric(_) | Datum::Interval(_) | Datum::TimeTz(_) => 12,
        Datum::Uuid(_) => 16,
        _ => 8,
    }
}

/// Computes the statistics of a column from sampled values.
fn describe(table: &Table, column: usize, values: Vec<Sampled>, rows: f64) -> ColumnStatistics {
    let sampled = values.len();
    if sampled == 0 {
        return ColumnStatistics::default();
    }
    let oid = table.definition().columns[column].oid;
    let bytes: usize = values.iter().map(|value| value.bytes).sum();
    let wide = values.iter().filter(|value| value.is_wide()).count();
    let mut values: Vec<(u64, Datum)> = values
        .into_iter()
        .filter(|sampled| !sampled.value.is_null())
        .map(|sampled| (sampled.place, sampled.value))
        .collect();
    let present = values.len() + wide;
    debug_assert!(present <= sampled, "{present} of {sampled} values are not NULL");
    let nulls = sampled - present;
    let average_width = bytes as f64 / present.max(1) as f64;
    // Equal values stay in the order of their rows.
    values.sort_unstable_by(|a, b| compare(oid, &a.1, &b.1).then(a.0.cmp(&b.0)));
    let correlation = correlation(&values);
    let values: Vec<Datum> = values.into_iter().map(|(_, value)| value).collect();
    let runs = runs(&values, |a, b| compare(oid, a, b));
    debug_assert!(runs.len() <= values.len(), "a run of equal values is empty");
    let repeated = runs.iter().filter(|run| run.len() > 1).count();
    let distinct = estimate_distinct(runs.len() + wide, repeated, present, rows, nulls, sampled);
    let common = common_values(&runs, wide, distinct, rows, sampled);
    let rest: Vec<&Datum> = runs
        .iter()
        .enumerate()
        .filter(|(number, _)| !common.contains(number))
        .flat_map(|(_, run)| *run)
        .collect();
    debug_assert!(rest.len() >= runs.len() - common.len(), "a run of equal values is empty");
    ColumnStatistics {
        null_fraction: nulls as f64 / sampled as f64,
        distinct,
        average_width,
        histogram: histogram(&rest, runs.len() - common.len()),
        common: common
            .into_iter()
            .map(|run| (runs[run][0].clone(), runs[run].len() as f64 / sampled as f64))
            .collect(),
        correlation,
    }
}

/// Splits sorted values into runs of equal ones.
fn runs(values: &[Datum], compare: impl Fn(&Datum, &Datum) -> Ordering) -> Vec<&[Datum]> {
    values.chunk_by(|a, b| compare(a, b).is_eq()).collect()
}

/// Chooses the runs of common values, most frequent first. If few values differ and all were seen,
/// chooses all of them; else the outstanding ones.
fn common_values(
    runs: &[&[Datum]],
    wide: usize,
    distinct: f64,
    rows: f64,
    sampled: usize,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&run| std::cmp::Reverse(runs[run].len()));
    let all_seen = wide == 0 && distinct >= 0.0 && distinct <= runs.len() as f64;
    if all_seen && runs.len() <= COMMON_VALUES {
        return order;
    }
    let count = if distinct < 0.0 { -distinct * rows } else { distinct };
    let usual = sampled as f64 / count.max(1.0);
    order.retain(|&run| {
        let times = runs[run].len();
        times > 1 && times as f64 > usual * COMMON_FACTOR
    });
    order.truncate(COMMON_VALUES);
    debug_assert!(
        order.is_sorted_by_key(|&run| std::cmp::Reverse(runs[run].len())),
        "the most frequent value is not the first"
    );
    order
}

/// Returns Pearson's correlation between the places of rows and the places of their values in
/// order.
fn correlation(values: &[(u64, Datum)]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    // The rows' places become ranks, 0 to n - 1, like the values' places.
    let mut by_row: Vec<usize> = (0..values.len()).collect();
    by_row.sort_unstable_by_key(|&place| values[place].0);
    let n = values.len() as f64;
    let sum = n * (n - 1.0) / 2.0;
    let squares = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
    let products: f64 =
        by_row.iter().enumerate().map(|(row, &value)| row as f64 * value as f64).sum();
    let result = (n * products - sum * sum) / (n * squares - sum * sum);
    result.is_finite().then_some(result.clamp(-1.0, 1.0))
}

/// Estimates the number of distinct values by Haas and Stokes' estimator "Duj1" (1998): n·d / (n −
/// f1 + f1·n/N). Here n values are sampled, d are distinct, f1 occur once, and N is the number of
/// rows. More than a tenth of the rows counts as growing with the table.
fn estimate_distinct(
    distinct: usize,
    repeated: usize,
    present: usize,
    rows: f64,
    nulls: usize,
    sampled: usize,
) -> f64 {
    if present == 0 {
        return 0.0;
    }
    debug_assert!(repeated <= distinct, "{repeated} of {distinct} values occur more than once");
    debug_assert!(distinct <= present, "{distinct} of {present} values differ");
    debug_assert!(nulls + present <= sampled, "{nulls} NULLs and {present} values of {sampled}");
    let share = present as f64 / sampled as f64;
    let all = (rows * share).max(present as f64);
    if repeated == 0 {
        return -share;
    }
    let (n, d) = (present as f64, distinct as f64);
    let once = distinct.saturating_sub(repeated) as f64;
    let estimate = if nulls + present == sampled && all <= n {
        d
    } else {
        (n * d / (n - once + once * n / all)).clamp(d, all)
    };
    if estimate > rows / 10.0 { -(estimate / rows) } else { estimate.round() }
}

fn histogram(values: &[&Datum], distinct: usize) -> Vec<Datum> {
    if distinct < 2 {
        return Vec::new();
    }
    debug_assert!(distinct <= values.len(), "{distinct} of {} values differ", values.len());
    let bounds = distinct.min(HISTOGRAM_BOUNDS);
    (0..bounds).map(|i| values[i * (values.len() - 1) / (bounds - 1)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: impl IntoIterator<Item = i32>) -> Vec<Datum> {
        values.into_iter().map(Datum::Int4).collect()
    }

    fn by_number(a: &Datum, b: &Datum) -> Ordering {
        compare(niwaki_types::TypeOid::INT4, a, b)
    }

    /// Returns numbers that look random, from a seed.
    fn draws(mut seed: u64) -> impl FnMut() -> u64 {
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 16
        }
    }

    #[test]
    fn a_sample_has_blocks_from_everywhere() {
        assert!(sample_blocks(0, 10, draws(1)).is_empty());
        assert!(sample_blocks(10, 10, draws(1)).into_iter().eq(0..10), "all of a small table");
        let mut times = [0; 20];
        for seed in 0..2000 {
            let chosen = sample_blocks(20, 5, draws(seed * 7919));
            assert_eq!(chosen.len(), 5);
            chosen.into_iter().for_each(|block| times[block as usize] += 1);
        }
        // Each block is expected 500 times, with a deviation of 19.
        assert!(times.iter().all(|times| (400..600).contains(times)), "{times:?}");
    }

    #[test]
    fn runs_are_counted() {
        let lengths = |values: &[Datum]| -> Vec<usize> {
            runs(values, by_number).iter().map(|run| run.len()).collect()
        };
        assert_eq!(lengths(&ints([1, 1, 2, 3, 3, 3])), [2, 1, 3]);
        assert!(lengths(&[]).is_empty());
    }

    #[test]
    fn common_values_stand_out() {
        let values = ints([1, 2, 2, 3, 3, 3]);
        let runs = runs(&values, by_number);
        assert_eq!(common_values(&runs, 0, 3.0, 6.0, 6), [2, 1, 0], "all are known");
        let many: Vec<i32> = (0..500).chain(std::iter::repeat_n(7, 400)).collect();
        let mut many = ints(many);
        many.sort_unstable_by(by_number);
        let runs = super::runs(&many, by_number);
        assert_eq!(common_values(&runs, 0, -0.5, 900.0, 900), [7]);
    }

    #[test]
    fn correlation_is_that_of_places() {
        let values = |rows: &[u64]| -> Vec<(u64, Datum)> {
            rows.iter().enumerate().map(|(n, row)| (*row, Datum::Int4(n as i32))).collect()
        };
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!(near(correlation(&values(&[1, 5, 9, 12])), 1.0));
        assert!(near(correlation(&values(&[12, 9, 5, 1])), -1.0));
        assert!(correlation(&values(&[1, 9, 5, 12])).unwrap() < 1.0);
        assert!(correlation(&values(&[1])).is_none());
    }

    #[test]
    fn distinct_values_are_a_number_or_a_share() {
        assert!((estimate_distinct(100, 0, 100, 1000.0, 0, 100) + 1.0).abs() < 1e-9);
        assert!((estimate_distinct(5, 5, 1000, 1e6, 0, 1000) - 5.0).abs() < 1e-9);
        assert!((estimate_distinct(0, 0, 0, 1e6, 10, 10)).abs() < 1e-9);
    }

    #[test]
    fn bounds_run_from_the_smallest_to_the_largest() {
        let values = ints(0..1000);
        let values: Vec<&Datum> = values.iter().collect();
        let bounds = histogram(&values, 1000);
        assert_eq!(bounds.len(), HISTOGRAM_BOUNDS);
        assert!(matches!((&bounds[0], &bounds[100]), (Datum::Int4(0), Datum::Int4(999))));
        assert!(histogram(&[&Datum::Int4(7), &Datum::Int4(7)], 1).is_empty());
    }
}
