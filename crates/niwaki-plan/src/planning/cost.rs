//! Cost formulas of scans, in PostgreSQL's unit.
//!
//! One page read in sequence costs 1. The other costs are settings.

use niwaki_expr::expr::{Expr, ExprKind, Nested};
use niwaki_settings::planner_settings::CostSettings;

/// Cost of one index level above the leaves in a descent, in units of `cpu_operator_cost`.
/// PostgreSQL charges the same number.
const DESCENT_OPERATORS: f64 = 50.0;

/// Size of a table, as the planner estimates it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSize {
    pub(super) pages: f64,
    pub(super) rows: f64,
    /// Share of the pages that the visibility map marks all-visible. An index-only scan does not
    /// read them.
    pub(super) all_visible: f64,
}

/// Returns the number of page reads for `fetched` rows scattered over a table of `pages`. With a
/// cache of `cache` pages, some pages are read more than once (Mackert and Lohman 1989).
pub(super) fn pages_fetched(fetched: f64, pages: f64, cache: f64) -> f64 {
    let (n, t) = (fetched.max(0.0), pages.max(1.0));
    let b = cache.max(1.0);
    if t <= b {
        return (2.0 * t * n / (2.0 * t + n)).min(t).ceil();
    }
    let limit = 2.0 * t * b / (2.0 * t - b);
    if n <= limit {
        (2.0 * t * n / (2.0 * t + n)).ceil()
    } else {
        (b + (n - limit) * (t - b) / t).ceil()
    }
}

/// Returns the cost of reading the whole table. `judging` is the cost of the conditions per row.
pub(super) fn sequential(size: TableSize, judging: f64, costs: &CostSettings) -> f64 {
    size.pages * costs.seq_page_cost + size.rows * (costs.cpu_tuple_cost + judging)
}

/// The work of a scan in one index.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexRead {
    /// Entries in the ranges that bound the scan.
    pub(super) entries: f64,
    /// Those entries that also satisfy the scan's other conditions: the number of rows fetched.
    pub(super) rows: f64,
    /// Descents from the root.
    pub(super) descents: f64,
    /// Conditions compared with each entry.
    pub(super) operators: f64,
    /// Pages of the whole index. `index_entries` counts the entries of the whole index.
    pub(super) index_pages: f64,
    pub(super) index_entries: f64,
    /// Number of repetitions of the scan. Pages that one repetition read are cached for the next.
    pub(super) loops: f64,
}

/// Returns the pages that each of `loops` scans reads, of an object of `pages` pages. Each scan
/// asks for `asked` pages anywhere in the object.
fn pages_each(asked: f64, pages: f64, loops: f64, costs: &CostSettings) -> f64 {
    if loops <= 1.0 {
        return asked;
    }
    (pages_fetched(asked * loops, pages, costs.effective_cache_size) / loops).min(asked)
}

/// Returns the cost of reading the index entries, without the heap.
pub(super) fn index_entries(read: &IndexRead, costs: &CostSettings) -> f64 {
    let share = (read.entries / read.index_entries.max(1.0)).min(1.0);
    // Each range reads at least one leaf, although many ranges may share one.
    let leaves =
        (share * read.index_pages).ceil().max(read.descents.min(read.index_pages)).max(1.0);
    let leaves = pages_each(leaves, read.index_pages, read.loops, costs);
    let height = read.index_pages.max(1.0).log(100.0).floor() + 1.0;
    let descent =
        (read.index_entries.max(2.0).log2() + height * DESCENT_OPERATORS) * costs.cpu_operator_cost;
    leaves * costs.random_page_cost
        + read.descents * descent
        + read.entries * (costs.cpu_index_tuple_cost + read.operators * costs.cpu_operator_cost)
}

/// Returns the cost of fetching heap rows in index order.
///
/// The worst case is a random page for each row. The best case is adjacent pages. The correlation
/// between the values' order and the order on disk places the cost between them. `read` is the
/// share of the pages that the scan must read.
pub(super) fn heap_by_index(
    rows: f64,
    size: TableSize,
    read: f64,
    correlation: f64,
    judging: f64,
    loops: f64,
    costs: &CostSettings,
) -> f64 {
    let mut worst = costs.random_page_cost;
    if loops > 1.0 {
        worst *= pages_each(rows, size.pages, loops, costs) * read;
    } else {
        let scattered = pages_fetched(rows, size.pages, costs.effective_cache_size);
        worst *= (scattered * read).ceil();
    }
    let together = (rows / size.rows.max(1.0) * size.pages).ceil().max(1.0);
    let together = (pages_each(together, size.pages, loops, costs) * read).ceil();
    let first = together.min(1.0) * costs.random_page_cost;
    let best = first + (together - 1.0).max(0.0) * costs.seq_page_cost;
    let share = correlation * correlation;
    worst + share * (best - worst).min(0.0) + rows * (costs.cpu_tuple_cost + judging)
}

/// Returns the cost of reading the pages of `rows` rows in block order. The estimate ignores
/// `work_mem`: modelling lossy pages is not worth the effort.
pub(super) fn heap_by_bitmap(
    rows: f64,
    size: TableSize,
    judging: f64,
    costs: &CostSettings,
) -> f64 {
    let pages = size.pages.max(1.0);
    let fetched = (2.0 * pages * rows / (2.0 * pages + rows)).min(pages).ceil().max(1.0);
    // The larger the share of the pages, the more the reads are sequential.
    let page_cost = if fetched >= 2.0 {
        costs.random_page_cost
            - (costs.random_page_cost - costs.seq_page_cost) * (fetched / pages).sqrt()
    } else {
        costs.random_page_cost
    };
    fetched * page_cost + rows * (costs.cpu_tuple_cost + judging)
}

/// Returns the cost of adding rows to a bitmap.
pub(super) fn bitmap_insert(rows: f64, costs: &CostSettings) -> f64 {
    0.1 * costs.cpu_operator_cost * rows
}

/// Returns the cost of evaluating a condition once.
pub(super) fn judging(condition: &Expr, costs: &CostSettings) -> f64 {
    let mut cost = 0.0;
    // Sums the operators, the functions and the nested queries.
    condition.any(&mut |part| {
        match &part.kind {
            ExprKind::Call { .. } | ExprKind::ArrayCompare { .. } | ExprKind::Distinct { .. } => {
                cost += costs.cpu_operator_cost;
            }
            ExprKind::UserCall { function, .. } => {
                cost += costs.cpu_operator_cost * function.cost;
            }
            ExprKind::SubQuery(sub) => {
                if let Nested::Plan(plan) = &sub.query {
                    let below = plan.estimate;
                    cost += if plan.correlated { below.total } else { costs.cpu_operator_cost };
                }
            }
            _ => {}
        }
        false
    });
    cost.max(costs.cpu_operator_cost)
}

/// Returns the cost of sorting.
pub(super) fn sort(rows: f64, costs: &CostSettings) -> f64 {
    let rows = rows.max(2.0);
    rows * rows.log2() * 2.0 * costs.cpu_operator_cost + rows * costs.cpu_operator_cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_fetched_once_while_they_are_cached() {
        assert!((pages_fetched(1.0, 1000.0, 500_000.0) - 1.0).abs() < 1e-9);
        assert!(pages_fetched(1e9, 1000.0, 500_000.0) <= 1000.0);
        assert!(pages_fetched(1e6, 100_000.0, 1000.0) > 100_000.0, "read again and again");
    }

    #[test]
    fn each_way_wins_where_it_should() {
        let costs = CostSettings::default();
        let size = TableSize { pages: 10_000.0, rows: 1_000_000.0, all_visible: 1.0 };
        let read = |rows: f64| IndexRead {
            entries: rows,
            rows,
            descents: 1.0,
            operators: 1.0,
            index_pages: 2_800.0,
            index_entries: size.rows,
            loops: 1.0,
        };
        let by_index = |rows: f64, correlation: f64| {
            index_entries(&read(rows), &costs)
                + heap_by_index(rows, size, 1.0, correlation, 0.0, 1.0, &costs)
        };
        let by_index_alone = |rows: f64| {
            index_entries(&read(rows), &costs)
                + heap_by_index(rows, size, 0.0, 0.0, 0.0, 1.0, &costs)
        };
        let by_bitmap = |rows: f64| {
            index_entries(&read(rows), &costs)
                + bitmap_insert(rows, &costs)
                + heap_by_bitmap(rows, size, costs.cpu_operator_cost, &costs)
        };
        let whole = sequential(size, costs.cpu_operator_cost, &costs);
        assert!(by_index(1.0, 0.0) < by_bitmap(1.0));
        assert!(by_bitmap(20_000.0) < by_index(20_000.0, 0.0));
        assert!(by_bitmap(20_000.0) < whole);
        assert!(whole < by_bitmap(800_000.0) && whole < by_index(800_000.0, 0.0));
        assert!(by_index(300_000.0, 1.0) < whole, "rows in the order of the index");
        assert!(
            by_index_alone(300_000.0) < whole && by_index_alone(20_000.0) < by_bitmap(20_000.0)
        );
    }
}
