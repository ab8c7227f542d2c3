//! How the rows of one table are reached: index, bitmap, addresses, or all blocks.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_types::{ColumnMask, ColumnType, TypeOid};

use super::bitmap_path::bitmap_candidates;
use super::conditions::{conjunction, mark};
use super::cost::{self, TableSize};
use super::derived::{derive, settle};
use super::index_path::{index_candidates, index_matches};
use super::selectivity::Estimator;
use super::tid_path::tid_candidates;
use super::{PlanNode, SortKey};
use crate::context::PlannerSettings;
use crate::expr::Expr;

/// Fewest pages that a table is taken to have before it was counted.
const UNCOUNTED_PAGES: f64 = 10.0;
/// Bytes of a page that hold rows, and what a row takes besides its values.
const PAGE_ROOM: f64 = 8_100.0;
const ROW_HEADER: f64 = 28.0;
/// Added to plans that a setting forbids, so that they are taken only when nothing else is possible.
pub(super) const DISABLED_COST: f64 = 1.0e10;

/// A scan of a stored table.
#[derive(Clone, Debug)]
pub(crate) struct ScanPlan {
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    /// First slot of the table's columns; its system columns follow them.
    pub(crate) start: usize,
    /// Columns that something reads.
    pub(crate) columns: ColumnMask,
    /// System columns that something reads: ctid, tableoid, xmin.
    pub(crate) system: [bool; 3],
    pub(crate) path: ScanPath,
    /// Conditions that the path does not ensure.
    pub(crate) filter: Option<Expr>,
    pub(crate) rows: f64,
    /// Cost before the first row, and in all.
    pub(crate) startup: f64,
    pub(crate) cost: f64,
    /// Bytes of a row's values, roughly.
    pub(crate) width: f64,
}

impl ScanPlan {
    /// What it evaluates, if it reads an index or the whole table.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let keys = match &self.path {
            ScanPath::Index(path) => path.keys.as_slice(),
            _ => &[],
        };
        keys.iter().flat_map(KeyCondition::exprs).chain(&self.filter)
    }
}

impl KeyCondition {
    /// The values that a key is compared with.
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let (one, lower, upper) = match self {
            Self::Free | Self::Null => (None, None, None),
            Self::Equal(value) | Self::Any(value) => (Some(value), None, None),
            Self::Range { lower, upper } => (None, lower.as_ref(), upper.as_ref()),
        };
        let bounds = lower.into_iter().chain(upper).map(|(value, _)| value);
        one.into_iter().chain(bounds)
    }
}

/// How rows are reached.
#[derive(Clone, Debug)]
pub(crate) enum ScanPath {
    Sequential,
    /// Addresses: one or an array of them.
    Tids {
        value: Expr,
        condition: Expr,
    },
    TidRange {
        lower: Option<(Expr, bool)>,
        upper: Option<(Expr, bool)>,
        conditions: Vec<Expr>,
    },
    Index(IndexPath),
    Bitmap(Box<BitmapPath>),
}

/// Rows by a bitmap.
#[derive(Clone, Debug)]
pub(crate) struct BitmapPath {
    pub(crate) plan: BitmapPlan,
    /// The conditions of the bitmap: every row is judged by them again.
    pub(crate) recheck: Option<Expr>,
}

/// How a bitmap is made.
#[derive(Clone, Debug)]
pub(crate) enum BitmapPlan {
    Index(IndexPath),
    And(Vec<BitmapPlan>),
    Or(Vec<BitmapPlan>),
}

/// The keys of an index that a scan reads.
#[derive(Clone, Debug)]
pub(crate) struct IndexPath {
    /// Position among the table's indexes.
    pub(crate) index: usize,
    /// Conditions on the first key columns.
    pub(crate) keys: Vec<KeyCondition>,
    /// How many of them bound the scan; the others are compared entry by entry.
    pub(crate) bounding: usize,
    pub(crate) forward: bool,
    /// Every column that is needed comes from the entries.
    pub(crate) only: bool,
    /// The conditions as they were written, for EXPLAIN.
    pub(crate) conditions: Vec<Expr>,
    /// Conditions that the predicate of a partial index ensures.
    pub(crate) ensured: Vec<Expr>,
    /// Entries that satisfy them, and what reading these costs, without the heap.
    pub(crate) rows: f64,
    pub(crate) cost: f64,
}

/// What is known of a key column.
#[derive(Clone, Debug)]
pub(crate) enum KeyCondition {
    /// Nothing.
    Free,
    /// `column = value`
    Equal(Expr),
    /// `column = ANY (array)`
    Any(Expr),
    /// Bounds: value, inclusive. Without any: `column IS NOT NULL`.
    Range { lower: Option<(Expr, bool)>, upper: Option<(Expr, bool)> },
    /// `column IS NULL`
    Null,
}

impl ScanPlan {
    /// Whether the index of this scan gives at most one row: every key column of a unique index is
    /// fixed to one value.
    pub(crate) fn is_unique_point(&self) -> bool {
        match &self.path {
            ScanPath::Index(path) => {
                let definition = &self.relation.indexes[path.index].definition;
                definition.is_unique_at_once()
                    && path.keys.len() == definition.key.len()
                    && path.keys.iter().all(|key| matches!(key, KeyCondition::Equal(_)))
            }
            _ => false,
        }
    }
}

/// Whether rows are read in a way that a setting forbids, as there was no other.
pub(super) fn is_disabled(node: &PlanNode, settings: &PlannerSettings) -> bool {
    match node {
        PlanNode::Scan(scan) => {
            matches!(scan.path, ScanPath::Sequential) && !settings.enable_seqscan
        }
        PlanNode::Append(append) => {
            append.members.iter().any(|member| is_disabled(&member.scan, settings))
        }
        _ => false,
    }
}

/// What a scan can rely on.
pub(crate) struct ScanContext<'a> {
    pub(crate) settings: PlannerSettings,
    /// Slots that something reads besides the conditions, if that is known.
    pub(crate) above: Option<&'a [bool]>,
    /// Whether a slot outside the table has its value before the scan starts.
    pub(crate) available: &'a dyn Fn(usize) -> bool,
    /// The order that the query wants, over the table's slots; empty for none.
    pub(crate) order: &'a [SortKey],
    /// Rows that the query wants at most, once they are in order.
    pub(crate) limit: Option<f64>,
    /// Only paths in the wanted order count, if there is one.
    pub(crate) forced: bool,
    /// How often the scan is repeated with other values.
    pub(crate) loops: f64,
}

/// The table of a scan, with everything that choosing a path reads.
pub(super) struct Table<'a> {
    pub(super) relation: &'a Arc<Relation>,
    pub(super) start: usize,
    pub(super) width: usize,
    pub(super) size: TableSize,
    pub(super) estimator: Estimator<'a>,
    /// Those of the query, and behind them what follows from them.
    pub(super) conditions: &'a [Expr],
    /// How many are the query's.
    pub(super) given: usize,
    pub(super) context: &'a ScanContext<'a>,
    /// Columns that something reads; `None` when something reads more than columns.
    pub(super) needed: Option<&'a ColumnMask>,
    /// Rows that satisfy all conditions.
    pub(super) output_rows: f64,
}

impl Table<'_> {
    /// The columns that are needed of a row, if the entries of an index hold them all. What the predicate of a partial index ensures
    /// need not be judged, so the columns that it names are not needed for that.
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

    /// What judging a row costs by all conditions but those that are ensured, by number.
    pub(super) fn judging(&self, ensured: &[usize]) -> f64 {
        let costs = &self.context.settings.costs;
        let given = self.conditions[..self.given].iter();
        let judged = given.enumerate().filter(|(n, _)| !ensured.contains(n));
        judged.map(|(_, condition)| cost::judging(condition, costs)).sum()
    }
}

/// A path that could be taken.
pub(super) struct Candidate {
    pub(super) path: ScanPath,
    /// Conditions that the path ensures, by number.
    pub(super) covered: Vec<usize>,
    pub(super) rows: f64,
    /// What is spent before the first row.
    pub(super) startup: f64,
    pub(super) cost: f64,
    /// How many keys of the wanted order, from the first, hold.
    pub(super) ordered: usize,
    /// Groups of rows that are equal in those keys, where they are not all.
    pub(super) groups: f64,
}

/// Pages as they are now, and rows as dense as when they were counted.
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

/// Rows that a table has, as far as that is known.
pub(super) fn table_rows(relation: &Relation) -> f64 {
    table_size(relation).rows
}

/// Bytes of a value about which nothing is known.
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

/// Plans the scan of a table under conditions that read its slots and available ones. Returns the plan
/// and how many keys of the wanted order, from the first, hold.
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
        ScanPath::Index(path) if path.only => table.covered_by(path.index, &best.covered),
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
    // What costs least is judged first.
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

/// The cheapest path.
fn choose(table: &Table<'_>) -> Candidate {
    let mut matches = index_matches(table, table.conditions);
    let settings = &table.context.settings;
    let costs = &settings.costs;
    if settings.enable_indexscan
        && let Some(point) = matches.iter().position(|found| found.point)
    {
        // Nothing is better than a row by its key; other paths need not be weighed.
        let point = [matches.swap_remove(point)];
        if let Some(candidate) = index_candidates(table, &point).pop() {
            return candidate;
        }
    }
    let wanted = table.context.order.len();
    let sort = if wanted == 0 { 0.0 } else { cost::sort(table.output_rows, costs) };
    // Of rows that come in order, of which at least `least` are read: they need not all be.
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
        path: ScanPath::Sequential,
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
