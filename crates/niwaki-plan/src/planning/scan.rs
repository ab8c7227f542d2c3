//! Access paths of one table: index, bitmap, TIDs, or all blocks.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_expr::expr::Expr;
use niwaki_expr::plan::PlanNode;
use niwaki_expr::plan::{PathPlan, ScanPlan};
use niwaki_expr::query::{SortKey, conjunction, mark};
use niwaki_settings::planner_settings::PlannerSettings;
use niwaki_types::{ColumnMask, ColumnType, TypeOid};

use super::bitmap_path::bitmap_candidates;
use super::cost::{self, TableSize};
use super::derived::{derive, settle};
use super::index_path::{index_candidates, index_matches};
use super::selectivity::Estimator;
use super::tid_path::tid_candidates;

/// Least assumed number of pages of a table before its first ANALYZE.
const UNCOUNTED_PAGES: f64 = 10.0;
/// Bytes of a page that hold rows. `ROW_HEADER` is a row's overhead in bytes.
const PAGE_ROOM: f64 = 8_100.0;
const ROW_HEADER: f64 = 28.0;
/// Cost added to plans that a setting disables: the planner takes them only when nothing else is
/// possible.
pub(super) const DISABLED_COST: f64 = 1.0e10;

/// Returns whether the scan uses a method that a setting disables, because there was no other.
pub(super) fn is_disabled(node: &PlanNode, settings: &PlannerSettings) -> bool {
    match node {
        PlanNode::Scan(scan) => {
            matches!(scan.path, PathPlan::Sequential) && !settings.enable_seqscan
        }
        PlanNode::Append(append) => {
            append.members.iter().any(|member| is_disabled(&member.scan, settings))
        }
        _ => false,
    }
}

/// The surroundings of a scan that planning takes into account.
pub(crate) struct ScanContext<'a> {
    pub settings: PlannerSettings,
    /// Slots read by something besides the conditions, if known.
    pub above: Option<&'a [bool]>,
    /// True if a slot outside the table has its value before the scan starts.
    pub(crate) available: &'a dyn Fn(usize) -> bool,
    /// The order that the query wants, over the table's slots. Empty if there is none.
    pub order: &'a [SortKey],
    /// Most rows that the query reads once they are in order.
    pub limit: Option<f64>,
    /// True if only paths in the wanted order count, provided there is such an order.
    pub(crate) forced: bool,
    /// Number of repetitions of the scan with other values.
    pub loops: f64,
}

/// The table of a scan, with all input for choosing a path.
pub(super) struct Table<'a> {
    pub(super) relation: &'a Arc<Relation>,
    pub(super) start: usize,
    pub(super) width: usize,
    pub(super) size: TableSize,
    pub(super) estimator: Estimator<'a>,
    /// The conditions of the query, then the derived conditions.
    pub(super) conditions: &'a [Expr],
    /// Number of conditions that are the query's.
    pub(super) given: usize,
    pub(super) context: &'a ScanContext<'a>,
    /// Columns that the plan reads; `None` if it reads system columns, too.
    pub(super) needed: Option<&'a ColumnMask>,
    /// Expected number of rows that satisfy all conditions.
    pub(super) output_rows: f64,
}

impl Table<'_> {
    /// Returns the needed columns of a row if the index entries hold them all. A condition that a
    /// partial index's predicate ensures is not evaluated. So the columns that only such a
    /// condition names are not needed.
    pub(super) fn covered_by(&self, index: usize, ensured: &[usize]) -> Option<ColumnMask> {
        let (needed, stored) = (self.needed?, self.relation.table.as_ref()?);
        if stored.covers(index, needed) {
            return Some(needed.clone());
        }
        let above = self.context.above.filter(|_| !ensured.is_empty())?;
        let mut read = above.to_vec();
        let given = self.conditions[..self.given].iter().enumerate();
        for (_, condition) in given.filter(|(number, _)| !ensured.contains(number)) {
            mark(condition, &mut read);
        }
        let is_read = |column: &usize| read.get(self.start + column).copied().unwrap_or(false);
        let fewer: ColumnMask = (0..self.width).filter(is_read).collect();
        stored.covers(index, &fewer).then_some(fewer)
    }

    /// Returns the cost of evaluating all conditions per row, except the `ensured` ones (by
    /// number).
    pub(super) fn judging(&self, ensured: &[usize]) -> f64 {
        let costs = &self.context.settings.costs;
        let given = self.conditions[..self.given].iter();
        let judged = given.enumerate().filter(|(n, _)| !ensured.contains(n));
        judged.map(|(_, condition)| cost::judging(condition, costs)).sum()
    }
}

/// A possible access path.
pub(super) struct Candidate {
    pub(super) path: PathPlan,
    /// Numbers of the conditions that the path ensures.
    pub(super) covered: Vec<usize>,
    pub(super) rows: f64,
    /// Cost before the first row.
    pub(super) startup: f64,
    pub(super) cost: f64,
    /// Number of leading keys of the wanted order that hold.
    pub(super) ordered: usize,
    /// Number of groups of rows that are equal in those keys, if the keys are not the whole order.
    pub(super) groups: f64,
}

/// Returns the current number of pages, and the number of rows at the density that ANALYZE counted.
pub(super) fn table_size(relation: &Relation) -> TableSize {
    if let Some(partitions) = &relation.partitions {
        let mut sum = TableSize { pages: 0.0, rows: 0.0, all_visible: 0.0 };
        for leaf in &partitions.leaves {
            let size = table_size(&leaf.relation);
            sum.pages += size.pages;
            sum.rows += size.rows;
        }
        return sum;
    }
    let counted = &relation.stats;
    let now = relation.table.as_ref().and_then(|table| table.blocks().ok());
    let known = counted.tuples >= 0.0 && counted.pages > 0;
    let pages = f64::from(now.unwrap_or(counted.pages));
    let seen = relation.table.as_ref().and_then(|table| table.all_visible_pages().ok());
    let all_visible = (f64::from(seen.unwrap_or(0)) / pages.max(1.0)).min(1.0);
    if known {
        let pages = pages.max(1.0);
        let rows = counted.tuples / f64::from(counted.pages) * pages;
        return TableSize { pages, rows, all_visible };
    }
    let pages = pages.max(UNCOUNTED_PAGES);
    let visible = relation.columns.iter().filter(|column| !column.dropped);
    let width: f64 = visible.map(|column| usual_width(column.column_type())).sum();
    let rows = (pages * PAGE_ROOM / (width + ROW_HEADER)).floor().max(1.0);
    TableSize { pages, rows, all_visible }
}

/// Returns the estimated number of rows of a table.
pub(super) fn table_rows(relation: &Relation) -> f64 {
    table_size(relation).rows
}

/// Returns the assumed size, in bytes, of a value without statistics.
fn usual_width(column: ColumnType) -> f64 {
    match column.oid {
        TypeOid::BOOL | TypeOid::CHAR => 1.0,
        TypeOid::INT2 => 2.0,
        TypeOid::INT4 | TypeOid::FLOAT4 | TypeOid::DATE | TypeOid::OID => 4.0,
        TypeOid::INT8
        | TypeOid::FLOAT8
        | TypeOid::TIMESTAMP
        | TypeOid::TIMESTAMPTZ
        | TypeOid::TIME => 8.0,
        TypeOid::TIMETZ => 12.0,
        TypeOid::UUID => 16.0,
        _ => 32.0,
    }
}

/// Plans the scan of a table under conditions that read its slots and available ones. Returns the
/// plan, and the number of leading keys of the wanted order that hold.
pub(crate) fn plan_scan(
    relation: &Arc<Relation>,
    name: &str,
    start: usize,
    used: &[bool],
    mut conditions: Vec<Expr>,
    context: &ScanContext<'_>,
) -> (ScanPlan, usize) {
    let given = conditions.len();
    let derived = derive(&mut conditions);
    let width = relation.columns.len();
    let system: [bool; 3] =
        std::array::from_fn(|i| used.get(start + width + i).copied().unwrap_or(false));
    let columns: ColumnMask =
        (0..width).filter(|i| used.get(start + i).copied().unwrap_or(false)).collect();
    let size = table_size(relation);
    let estimator = Estimator { relation, start, rows: size.rows, now: context.settings.now };
    let table = Table {
        relation,
        start,
        width,
        size,
        estimator,
        conditions: &conditions,
        given,
        context,
        needed: (!system.contains(&true)).then_some(&columns),
        output_rows: (size.rows * estimator.all(conditions[..given].iter())).max(1.0),
    };
    let mut row_bytes = 0.0;
    for column in columns.iter() {
        row_bytes += usual_width(relation.columns[column].column_type());
    }
    let mut best = choose(&table);
    if !derived.is_empty() {
        settle(&mut best, &conditions, given, &derived);
    }
    let fewer = match &best.path {
        PathPlan::Index(path) if path.only => table.covered_by(path.index, &best.covered),
        _ => None,
    };
    let (path, rows) = (best.path, best.rows);
    let ordered = match best.ordered {
        some if some < context.order.len() && !context.settings.enable_incremental_sort => 0,
        all => all,
    };
    let cost = best.cost % DISABLED_COST;
    let mut remaining = Vec::new();
    for (number, condition) in conditions.into_iter().take(given).enumerate() {
        if !best.covered.contains(&number) {
            remaining.push(condition);
        }
    }
    // The cheapest condition is evaluated first.
    let costs = &context.settings.costs;
    remaining.sort_by(|a, b| cost::judging(a, costs).total_cmp(&cost::judging(b, costs)));
    let plan = ScanPlan {
        relation: Arc::clone(relation),
        name: name.to_owned(),
        start,
        columns: fewer.unwrap_or(columns),
        system,
        path,
        filter: conjunction(remaining),
        rows,
        startup: best.startup % DISABLED_COST,
        cost,
        width: row_bytes,
    };
    (plan, ordered)
}

/// Returns the cheapest path.
fn choose(table: &Table<'_>) -> Candidate {
    let mut matches = index_matches(table, table.conditions);
    let settings = &table.context.settings;
    let costs = &settings.costs;
    if settings.enable_indexscan
        && let Some(point) = matches.iter().position(|found| found.point)
    {
        // No path is better than a row by its unique key, so other paths need no comparison.
        let point = [matches.swap_remove(point)];
        if let Some(candidate) = index_candidates(table, &point).pop() {
            return candidate;
        }
    }
    let wanted = table.context.order.len();
    let sort = if wanted == 0 { 0.0 } else { cost::sort(table.output_rows, costs) };
    // Share of ordered rows that is read under a limit; at least `least` rows are read.
    let part = |candidate: &Candidate, least: f64| match table.context.limit {
        Some(limit) if candidate.cost < DISABLED_COST => {
            (limit.max(least) / candidate.rows.max(1.0)).clamp(0.0, 1.0)
        }
        _ => 1.0,
    };
    let total = |candidate: &Candidate| {
        let run = candidate.cost - candidate.startup;
        match candidate.ordered {
            all if all >= wanted => candidate.startup + run * part(candidate, 0.0),
            _ if table.context.forced => f64::INFINITY,
            0 => candidate.cost + sort,
            _ if !settings.enable_incremental_sort => candidate.cost + sort,
            _ => {
                let of_group = candidate.rows / candidate.groups.max(1.0);
                let sorts = candidate.groups.max(1.0) * cost::sort(of_group, costs);
                candidate.startup + (run + sorts) * part(candidate, of_group)
            }
        }
    };
    let mut best = Candidate {
        path: PathPlan::Sequential,
        covered: Vec::new(),
        rows: table.output_rows,
        startup: 0.0,
        cost: cost::sequential(table.size, table.judging(&[]), costs)
            + if settings.enable_seqscan { 0.0 } else { DISABLED_COST },
        ordered: 0,
        groups: 1.0,
    };
    let others = tid_candidates(table)
        .into_iter()
        .chain(index_candidates(table, &matches))
        .chain(bitmap_candidates(table, &matches));
    for candidate in others {
        if total(&candidate) < total(&best) {
            best = candidate;
        }
    }
    best
}
